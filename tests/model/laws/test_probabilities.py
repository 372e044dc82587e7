"""Probabilities without scipy.stats: the same numbers as its own."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from scumble.model.laws import probabilities

LAWS = [(1, 0.5), (7, 0.01), (40, 0.6), (30_000, 1e-4), (30_000, 0.37), (10, 0.0), (10, 1.0)]


def test_binomial_probabilities(subtests: pytest.Subtests) -> None:
    for trials, probability in LAWS:
        with subtests.test(trials=trials, probability=probability):
            law = stats.binom(trials, probability)
            near = int(law.mean()) + np.arange(-30, 30)
            numbers = [-1, 0, 1, *near.tolist(), trials, trials + 1]
            for number in numbers:
                below = probabilities.binomial_at_most(number, trials, probability)
                assert below == pytest.approx(law.cdf(number), rel=1e-9, abs=1e-300)
                above = probabilities.binomial_at_least(number, trials, probability)
                assert above == pytest.approx(law.sf(number - 1), rel=1e-9, abs=1e-300)
            masses = probabilities.binomial_masses(numbers, trials, probability)
            assert masses == pytest.approx(law.pmf(numbers), rel=1e-9, abs=1e-300)


def test_the_range_of_a_binomial_law(subtests: pytest.Subtests) -> None:
    for tail, (trials, probability) in product([1e-12, 1e-3, 0.4], LAWS):
        with subtests.test(tail=tail, trials=trials, probability=probability):
            fewest, most = probabilities.binomial_range(trials, probability, tail)
            law = stats.binom(trials, probability)
            assert law.cdf(fewest) >= tail > law.cdf(fewest - 1)
            assert law.sf(most) <= tail
            assert most == 0 or law.sf(most - 1) > tail


def test_poisson_probabilities() -> None:
    numbers = np.arange(60)
    for mean in (1e-3, 0.9, 17.0):
        found = probabilities.poisson_masses(numbers, mean)
        assert found == pytest.approx(stats.poisson.pmf(numbers, mean), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("times", "tries"), [(0, 10), (3, 10), (10, 10), (1, 10**6), (4000, 9000)])
def test_confidence_limits(times: int, tries: int) -> None:
    for confidence in (0.9, 0.999):
        low = probabilities.clopper_pearson_lower(times, tries, confidence)
        high = probabilities.clopper_pearson_upper(times, tries, confidence)
        if times:
            expected = stats.beta.ppf(1 - confidence, times, tries - times + 1)
            assert low == pytest.approx(expected, rel=1e-9)
        if times < tries:
            assert high == pytest.approx(stats.beta.ppf(confidence, times + 1, tries - times))
        assert 0 <= low <= times / tries <= high <= 1
