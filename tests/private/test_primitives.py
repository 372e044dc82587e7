"""Noise by itself: what is promised, and the laws that are told with it."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, log

import numpy as np
import pytest
from scipy import stats

from scumble.model.errors import ParameterError
from scumble.model.laws.distributions import DiscreteGaussian
from scumble.model.privacy import accounting
from scumble.private import primitives


def brute_delta(variance: float, shift: int, epsilon: float) -> float:
    """Σ max(P(y) - e^ε P(y + shift), 0): the definition."""
    y = np.arange(-4000, 4001.0)
    shares = np.exp(-(y**2) / (2 * variance))
    other = np.exp(-((y + shift) ** 2) / (2 * variance))
    return float(np.maximum(shares - exp(epsilon) * other, 0).sum() / shares.sum())


def test_the_delta_of_discrete_noise_is_its_definition(subtests: pytest.Subtests) -> None:
    """Also that smaller changes have smaller deltas, which is what the promise rests on."""
    for variance, epsilon in product(
        [Fraction(1, 5), Fraction(3), Fraction(50), Fraction(6000)],
        [Fraction(1, 10), Fraction(1), Fraction(3)],
    ):
        with subtests.test(variance=variance, epsilon=epsilon):
            found = [
                accounting.discrete_delta(variance, sensitivity=shift, epsilon=epsilon)
                for shift in (1, 2, 3, 7)
            ]
            for shift, delta in zip((1, 2, 3, 7), found, strict=True):
                true = brute_delta(float(variance), shift, float(epsilon))
                assert delta >= true * (1 - 1e-12)
                assert delta == pytest.approx(
                    true, rel=1e-9, abs=5e-12
                )  # below that it may be larger
            assert found == sorted(found)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"),
    [(1, 1e-6, 1), (0.1, 1e-9, 1), (5, 1e-9, 2), (10, 1e-3, 1), (1, 0.5, 1), (0.01, 1e-12, 3)],
)
def test_the_variance_is_the_smallest(epsilon: float, delta: float, sensitivity: int) -> None:
    """What is found holds, a part in a million less does not, nor does half of it (a mutation)."""
    found = primitives.gaussian_variance(sensitivity=sensitivity, epsilon=epsilon, delta=delta)

    def deltas(variance: Fraction) -> float:
        exact = Fraction(str(epsilon))
        return accounting.discrete_delta(variance, sensitivity=sensitivity, epsilon=exact)

    assert deltas(found) <= delta
    assert deltas(found * Fraction(999_999, 1_000_000)) > delta
    assert deltas(found / 2) > delta


def test_the_analytic_variance() -> None:
    """Known values: ε = 1 and δ = 10⁻⁵ take σ = 3.7306 (Balle and Wang); wide discrete noise takes
    the same. The variance by way of concentrated privacy is larger.
    """
    found = primitives.analytic_variance(sensitivity=1, epsilon=1, delta=1e-5)
    assert found**0.5 == pytest.approx(3.7306, abs=1e-4)
    wide = {"sensitivity": 1, "epsilon": 0.01, "delta": 1e-9}
    exact = float(primitives.gaussian_variance(**wide))
    assert exact == pytest.approx(primitives.analytic_variance(**wide), rel=1e-6)
    assert primitives.gaussian_variance(**wide, several=True) > exact


def test_laplace_noise_is_private_by_enumeration() -> None:
    """No output of a count of 5 is more than e^ε times as likely as of 6, and some are as much."""
    law = primitives.laplace(5, sensitivity=1, epsilon=0.7).law
    assert not isinstance(law, primitives.Geometric)
    ratios = [log(law.pmf(y - 5) / law.pmf(y - 6)) for y in range(-50, 60)]
    assert max(map(abs, ratios)) == pytest.approx(0.7, rel=1e-12)


def test_one_sided_noise_hides_presence_and_not_absence() -> None:
    law = primitives.geometric(5, sensitivity=1, epsilon=0.7, one_sided=True).law
    more, fewer = [[law.pmf(y - true) for y in range(4, 60)] for true in (6, 5)]
    assert max(p / q for p, q in zip(more, fewer, strict=True) if q) <= exp(0.7) * (1 + 1e-12)
    assert fewer[1] > 0 == more[1]
    sample = primitives.geometric([0] * 20_000, sensitivity=1, epsilon=0.7, one_sided=True, seed=1)
    assert sample.values.min() == 0
    # Mean and variance within 5.5 standard errors, false alarm 4e-8 each.
    scale = (law.variance / 20_000) ** 0.5
    assert abs(sample.values.mean() - law.mean) < 5.5 * scale
    low, high = law.interval(9, 0.95)
    assert high == 9
    assert law.cdf(9 - low) >= 0.95 > law.cdf(9 - low - 1)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "geometric"])
def test_noise_follows_the_law_that_is_told(mechanism: str) -> None:
    """Kolmogorov's distance of 20,000 noises, which for whole numbers has a smaller rate of false
    alarms than 1e-6; half the scale (a mutation) is rejected.
    """
    given = {"sensitivity": 2, "epsilon": 0.5, "seed": 3}
    if mechanism == "gaussian":
        given["delta"] = 1e-6
    noisy = getattr(primitives, mechanism)(np.full(20_000, 100), **given)
    ranks = np.sort(noisy.values) - 100
    places = np.unique(ranks)
    below = np.searchsorted(ranks, places, side="right") / len(ranks)
    limit = stats.kstwobign.isf(1e-6) / 20_000**0.5
    law = noisy.law
    assert np.abs(below - [law.cdf(x) for x in places]).max() < limit
    assert np.abs(below - [law.cdf(2 * x) for x in places]).max() > limit


def test_shapes_and_large_numbers() -> None:
    """A number comes back as a number, an array in its shape, and nothing wraps."""
    one = primitives.laplace(7, sensitivity=1, epsilon=1, seed=1).values
    assert isinstance(one, int)
    table = primitives.laplace([[1, 2], [3, 4]], sensitivity=1, epsilon=1).values
    assert table.shape == (2, 2)
    assert table.dtype == np.int64
    large = primitives.laplace([2**63 - 1, 2**80], sensitivity=1, epsilon=1e-3).values
    assert all(abs(int(x) - y) < 10**6 for x, y in zip(large, (2**63 - 1, 2**80), strict=True))
    edge = primitives.laplace(np.array([2**63 - 1]), sensitivity=1, epsilon=1e-3).values
    assert abs(int(edge[0]) - 2**63) < 10**6
    small = primitives.gaussian(np.array([200], np.uint8), sensitivity=1, epsilon=1, delta=1e-6)
    assert small.values.dtype == np.int64
    assert primitives.laplace([], sensitivity=1, epsilon=1).values.shape == (0,)


def test_choosing() -> None:
    """Of two candidates 3 apart, the worse one is taken half as often as its coin says (permute and
    flip), 5.5 standard errors, false alarm 4e-8; monotone scores are twice as sharp.
    """
    for monotone, rate in ((False, 0.5), (True, 1.0)):
        found = [
            primitives.choose([np.int64(5), 2], sensitivity=1, epsilon=1, monotone=monotone, seed=s)
            for s in range(2000)
        ]
        share = exp(-3 * rate) / 2
        assert abs(np.mean(found) - share) < 5.5 * (share * (1 - share) / 2000) ** 0.5
    assert primitives.choose([Fraction(1, 3), 90], sensitivity=1, epsilon=100) == 1


def test_bad_parameters(subtests: pytest.Subtests) -> None:
    for call, sentence in [
        (lambda p: p.laplace([1.5], sensitivity=1, epsilon=1), "must be whole numbers"),
        (lambda p: p.laplace([True], sensitivity=1, epsilon=1), "must be whole numbers"),
        (lambda p: p.laplace(1, sensitivity=0, epsilon=1), "'sensitivity' parameter of laplace"),
        (lambda p: p.laplace(1, sensitivity=1, epsilon=0), "'epsilon' parameter of laplace"),
        (lambda p: p.gaussian(1, sensitivity=1, epsilon=1, delta=1), "'delta' parameter"),
        (lambda p: p.gaussian(1, sensitivity=1.5, epsilon=1, delta=0.1), "a whole number"),
        (lambda p: p.choose([], sensitivity=1, epsilon=1), "one or more"),
        (lambda p: p.choose([0.5], sensitivity=1, epsilon=1), "whole numbers or Fractions"),
        (lambda p: p.geometric(1, sensitivity=1, epsilon=1, one_sided=1), "True or False"),
    ]:
        with (
            subtests.test(call=call, sentence=sentence),
            pytest.raises(ParameterError, match=sentence),
        ):
            call(primitives)


def test_the_law_of_gaussian_noise_is_discrete() -> None:
    law = primitives.gaussian(3, sensitivity=1, epsilon=1, delta=1e-6).law
    assert isinstance(law, DiscreteGaussian)
    low, high = law.interval(0, 0.95)
    assert sum(law.pmf(k) for k in range(int(low), int(high) + 1)) >= 0.95


@pytest.mark.parametrize("several", [False, True])
def test_a_delta_that_floating_point_cannot_hold_is_refused(several: bool) -> None:
    """The tail of too little noise, and δ itself, would both be 0, and the one not above the other.
    At the smallest one allowed the noise is right: its tail is compared by logarithms.
    """
    how = {"sensitivity": 1, "epsilon": 1, "several": several}
    with pytest.raises(ParameterError, match="at least 1e-300"):
        primitives.gaussian_variance(delta=Fraction(1, 10**400), **how)
    variance = float(primitives.gaussian_variance(delta=Fraction(1, 10**300), **how))
    near, far = (stats.norm.logsf((variance + half) / variance**0.5) for half in (-0.5, 0.5))
    assert near + log(-np.expm1(1 + far - near)) <= -300 * log(10) + 0.01
