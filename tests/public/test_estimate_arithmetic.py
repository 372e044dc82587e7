"""Arithmetic of an estimate with plain numbers: the law moves with the value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scumble as sc
from scumble.public.estimate import Exact
from scumble.public.estimation.rows.count_laws import ResponseModel, count_estimate

ONE = count_estimate(ResponseModel(0.5, 0.1), 200, 60, ("a note",))


def test_the_law_moves_with_the_value(subtests: pytest.Subtests) -> None:
    for changed, factor, offset in [
        (2 * ONE + 3, 2.0, 3.0),
        (ONE / 200 * 100, 0.5, 0.0),
        (10 - ONE, -1.0, 10.0),
        (ONE - 10, 1.0, -10.0),
        (-ONE, -1.0, 0.0),
        (np.int64(3) * ONE, 3.0, 0.0),
        (ONE * 0 + 1, 0.0, 1.0),
    ]:
        with subtests.test(changed=changed, factor=factor, offset=offset):
            assert isinstance(changed, sc.Estimate)
            assert changed.value == pytest.approx(factor * ONE.value + offset)
            assert changed.stderr == pytest.approx(abs(factor) * ONE.stderr)
            for level in (0.5, 0.95, 0.99):
                ends = sorted(factor * end + offset for end in ONE.interval(level))
                assert changed.interval(level) == pytest.approx(tuple(ends))
            assert changed.notes == ONE.notes


def test_exact_numbers_stay_exact() -> None:
    assert (sc.Estimate(5.0, Exact(), "") * 2 + 1).interval() == (11, 11)


@pytest.mark.parametrize("other", [ONE, "2", None, float("nan"), float("inf")])
def test_what_has_no_known_law_is_refused(other: Any) -> None:
    for ask in (
        lambda: ONE + other,
        lambda: ONE - other,
        lambda: ONE * other,
        lambda: ONE / other,
    ):
        with pytest.raises(TypeError, match="no law that is known here"):
            ask()
    assert float(ONE) + float(ONE) == 2 * ONE.value
