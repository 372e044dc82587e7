"""What the coverage checks find, and how seldom they raise a false alarm: exact binomials."""

from __future__ import annotations

import pytest
from scipy.stats import binom

import scumble as sc
from scumble.public.estimation.interval_laws import WeightedSum
from tests.support.covered import COPIES, FALSE_ALARM, FOUND, LEVELS, check, least


@pytest.mark.parametrize("level", LEVELS)
def test_a_true_coverage_that_is_too_low_is_found(level: float) -> None:
    assert binom.cdf(least(level) - 1, COPIES, FOUND[level]) > 0.99
    assert binom.cdf(least(level) - 1, COPIES, level) <= FALSE_ALARM


def test_the_check_counts_equal_estimates_as_often_as_they_come() -> None:
    near, far = (sc.Estimate(value, WeightedSum(1.0, 0.0), "") for value in (0.0, 9.0))
    missed = COPIES - least(0.99)
    check([near] * (COPIES - missed) + [far] * missed, truth=0.0)
    with pytest.raises(AssertionError):
        check([near] * (COPIES - missed - 1) + [far] * (missed + 1), truth=0.0)
