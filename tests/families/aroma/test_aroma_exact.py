"""The law of bags and the figures of the promise, against a list of all bags in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest

from scumble.families.aroma.design import acceptance, pool_exposure, profile
from scumble.families.aroma.publish.guarantee import again_in_paper, equal_exposure, least_k
from scumble.model.evidence.channels import PoolLaw, multiset_law_from_dict
from tests.support.mechanisms.pool_multisets import SMALL, bags, pool_law

every_pool = pytest.mark.parametrize(("weights", "k", "closeness"), SMALL)


@every_pool
def test_means_and_covariances(weights: tuple[int, ...], k: int, closeness: int | None) -> None:
    law = pool_law(weights, k, closeness)
    values = range(law.values)
    weigh = np.random.default_rng(k).normal(size=(2, 3, law.values))
    for true in values:
        known, _ = bags(law, true)
        means = [float(sum(chance * bag[v] for bag, chance in known.items())) for v in values]
        assert law.means()[true] == pytest.approx(means, abs=1e-12)
        for one, other in zip(*weigh, strict=True):
            counts = np.array(list(known))
            chances = np.array([float(chance) for chance in known.values()])
            mean = chances @ (counts @ one), chances @ (counts @ other)
            exact = chances @ ((counts @ one - mean[0]) * (counts @ other - mean[1]))
            assert law.covariances(one, other)[true] == pytest.approx(exact, abs=1e-10)
    assert law.covariances(*weigh).shape == (3, law.values)
    assert multiset_law_from_dict(law.to_dict()) == law


def test_moments_of_a_large_pool_with_caps() -> None:
    """A case of its own for rounding: 1000 values of which each may come once or twice."""
    law = PoolLaw((1,) * 1000, 200, (2,) * 1000)
    means = law.means()
    assert means.sum(axis=1) == pytest.approx(np.full(1000, 200.0), rel=1e-12)
    other = (200 - means[0, 0]) / 999
    assert means[0, 1:] == pytest.approx(np.full(999, other), rel=1e-10)
    assert law.covariances(np.ones(1000), np.arange(1000.0)) == pytest.approx(0, abs=1e-6)
    assert (law.covariances(np.eye(1000)[0], np.eye(1000)[0]) > 0).all()


@every_pool
def test_the_estimator_is_unbiased(weights: tuple[int, ...], k: int, closeness: int | None) -> None:
    """Weights of a row that solve the means: their mean over all bags is 1 if the true value is in
    A, else 0; without caps they are the paper's count − (k−1)f, with its variance.
    """
    law = pool_law(weights, k, closeness)
    wanted = np.array([1.0] + [0.0] * (law.values - 1))
    weigh = np.linalg.solve(law.means(), wanted)
    share = float(law.shares[0])
    for true in range(law.values):
        known, _ = bags(law, true)
        estimates = {bag: float(np.dot(weigh, bag)) for bag in known}
        mean = sum(float(chance) * estimates[bag] for bag, chance in known.items())
        assert mean == pytest.approx(wanted[true], abs=1e-12)
        if closeness is None:
            for bag, estimate in estimates.items():
                assert estimate == pytest.approx(bag[0] - (k - 1) * share, abs=1e-12)
            variance = sum(float(c) * (estimates[b] - mean) ** 2 for b, c in known.items())
            assert variance == pytest.approx((k - 1) * share * (1 - share), abs=1e-12)


def test_the_paper_s_estimator_is_biased_by_drawing_again() -> None:
    law = pool_law((1, 1, 1), 4, 2)
    known, _ = bags(law, 0)
    mean = sum(chance * (bag[0] - 3 * law.shares[0]) for bag, chance in known.items())
    assert mean < Fraction(4, 5)


@every_pool
def test_profile(
    weights: tuple[int, ...], k: int, closeness: int | None, subtests: pytest.Subtests
) -> None:
    """δ(ε) by its definition; the figure is never below it, and above by rounding alone."""
    for epsilon in [0.1, 0.5, 1.0, 3.0]:
        with subtests.test(epsilon=epsilon):
            law = pool_law(weights, k, closeness)
            known = [bags(law, true)[0] for true in range(law.values)]
            exact = max(
                sum(
                    max(0.0, float(p) - exp(epsilon) * float(other.get(bag, 0)))
                    for bag, p in one.items()
                )
                for one in known
                for other in known
                if one is not other
            )
            [figure] = profile(law, (epsilon,))
            assert exact - 1e-12 <= figure <= min(1.0, exact + 2e-9)


@every_pool
def test_exposure_and_acceptance(weights: tuple[int, ...], k: int, closeness: int | None) -> None:
    law = pool_law(weights, k, closeness)
    found = [bags(law, true) for true in range(law.values)]
    shown = {bag for known, _ in found for bag in known}
    best = sum(max(known.get(bag, Fraction(0)) for known, _ in found) for bag in shown)
    assert 0 <= pool_exposure(law) - best / law.values < 1e-8
    least = min(accepted for _, accepted in found)
    assert 0 <= least - Fraction(acceptance(law)) < Fraction(1, 10**8)


def test_exposure_of_equal_values(subtests: pytest.Subtests) -> None:
    """The best guess names a most frequent member: it is right as often as its share says."""
    for values, k in [(1, 5), (2, 2), (2, 9), (3, 7), (5, 4), (6, 3)]:
        with subtests.test(values=values, k=k):
            largest = sum(max(map(bag.count, bag)) for bag in product(range(values), repeat=k))
            assert equal_exposure(values, k) == pytest.approx(largest / values**k / k, rel=1e-13)


@pytest.mark.parametrize("values", [2, 15])
@pytest.mark.parametrize("allowed", [0.9, 0.55, 0.51, 0.14, 0.1])
def test_the_least_size_within_an_exposure(values: int, allowed: float) -> None:
    exposures = [pool_exposure(PoolLaw((1,) * values, k)) for k in range(2, 150)]
    expected = next((k for k, found in enumerate(exposures, 2) if found <= allowed), None)
    assert least_k(lambda k: PoolLaw((1,) * values, k), allowed, 149) == expected


def test_a_tie_is_decided_by_the_exact_exposure() -> None:
    def law(k: int) -> PoolLaw:
        return PoolLaw((1,) * 7, k)

    exposure = pool_exposure(law(11))
    assert least_k(law, exposure, 99) == 11
    assert least_k(law, np.nextafter(exposure, 0), 99) == 12


def test_what_is_not_shown_is_excluded() -> None:
    """Some bag is possible with one value and impossible with another: δ stays above its
    probability, whatever ε is.
    """
    law = PoolLaw((1,) * 15, 49)
    excluded = (14 / 15) ** 48
    assert profile(law, (50.0,))[0] == pytest.approx(excluded, abs=2e-9)


def test_figures_of_the_spec() -> None:
    """specs/input-perturbation.md: k = 49 and 15 uniform values; 10 values of 1000, N = 3000,
    k = 30.
    """
    law = PoolLaw((1,) * 15, 49)
    deltas = profile(law, (0.5, 1.0))
    assert [round(delta, 4) for delta in deltas] == [0.1668, 0.0858]
    assert round(pool_exposure(law), 3) == 0.137
    assert pool_exposure(law) > exp(0.5) / (exp(0.5) + 14)  # more than a 0.5-DP method may reach
    capped = PoolLaw((1000,) * 10, 30, (10,) * 10)
    assert round(again_in_paper(capped.weights, 30, [10.0] * 10), 3) == 0.061
    assert round(1 - acceptance(capped), 4) == 0.0009


def test_the_lightest_two_are_the_worst() -> None:
    """Without caps, over all pairs of a pool of four weights."""
    law = PoolLaw((1, 2, 3, 5), 6)
    known = [bags(law, true)[0] for true in range(4)]

    def delta(x: int, y: int) -> float:
        both = known[x].items()
        return sum(max(0.0, float(p) - exp(0.7) * float(known[y].get(bag, 0))) for bag, p in both)

    pairs = {(x, y): delta(x, y) for x in range(4) for y in range(4) if x != y}
    assert max(pairs, key=lambda pair: pairs[pair]) in {(0, 1), (1, 0)}
    assert profile(law, (0.7,))[0] == pytest.approx(max(pairs.values()), abs=2e-9)
