"""Laws against brute force: shares, tails, sums, and intervals that cover what they say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from numpy.typing import NDArray
from scipy import stats

from scumble.model.errors import ParameterError
from scumble.model.laws import law_from_dict, weighted_sum
from scumble.model.laws.base import ErrorLaw, Normal
from scumble.model.laws.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    RoundedNormal,
)
from scumble.model.laws.weighted_sum import NoiseSum

BASES = [
    DiscreteLaplace(Fraction(1, 3)),
    DiscreteLaplace(Fraction(7, 3)),
    DiscreteGaussian(Fraction(1, 8)),
    DiscreteGaussian(Fraction(9, 4)),
    RoundedNormal(Fraction(1, 8)),
    RoundedNormal(Fraction(9, 4)),
]
NARROW = [
    *BASES,
    DiscreteLaplace(Fraction(40)),
    DiscreteGaussian(Fraction(100)),
    RoundedNormal(Fraction(100)),
]
LEVELS = [0.01, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999]
Discrete = NoiseLaw


def direct(base: Discrete, terms: Mapping[int, int]) -> NDArray[np.float64]:
    """Shares of a sum by convolution, centred."""
    reach = math.ceil(45 * max(base.stderr, 1))
    single = np.array([base.pmf(k) for k in range(-reach, reach + 1)])
    total = np.ones(1)
    for weight, count in terms.items():
        spread = np.zeros(2 * reach * weight + 1)
        spread[::weight] = single
        for _ in range(count):
            total = np.convolve(total, spread)
    return total


def mass(shares: NDArray[np.float64], half: float) -> float:
    """P(|error| <= half)."""
    centre, reach = len(shares) // 2, math.floor(half)
    return float(shares[max(centre - reach, 0) : centre + reach + 1].sum())


def test_shares_cumulative_shares_and_variance_agree(subtests: pytest.Subtests) -> None:
    for law in NARROW:
        with subtests.test(law=law):
            values = range(-1500, 1501)
            shares = np.array([law.pmf(k) for k in values])
            assert shares.sum() == pytest.approx(1, abs=1e-13)
            assert law.variance == pytest.approx(sum(shares * np.array(values) ** 2), rel=1e-12)
            below = np.cumsum(shares)
            assert [law.cdf(k) for k in values] == pytest.approx(below.tolist(), abs=1e-13)
            assert law.cdf(2.7) == law.cdf(2)
            assert law.cdf(-2.3) == law.cdf(-3)


def test_quantiles_are_the_first_to_reach_their_share(subtests: pytest.Subtests) -> None:
    for q, law in product([1e-6, 0.025, 0.3, 0.5, 0.77, 0.975, 0.999999], NARROW):
        with subtests.test(q=q, law=law):
            k = law.quantile(q)
            assert law.cdf(k) >= q > law.cdf(k - 1)


def test_intervals_are_the_smallest_that_cover(subtests: pytest.Subtests) -> None:
    for level, law in product(LEVELS, NARROW):
        with subtests.test(level=level, law=law):
            shares = direct(law, {1: 1})
            low, high = law.interval(10, level)
            half = (high - low) / 2
            assert (low + high) / 2 == 10
            assert mass(shares, half) >= level - 1e-14
            assert half == 0 or mass(shares, half - 1) < level


def test_one_laplace_cell_needs_its_own_law() -> None:
    """Normal quantiles cover 93.8 % of a wide Laplace cell where 95 % was promised."""
    law = DiscreteLaplace(Fraction(1000))
    wrong = Normal(law.variance).half_width(0.95)
    assert 1 - 2 * law.cdf(-math.floor(wrong) - 1) == pytest.approx(0.938, abs=0.001)
    right = law.half_width(0.95)
    assert 1 - 2 * law.cdf(-right - 1) >= 0.95


@pytest.mark.parametrize("parameter", [5000, 10**6, 10**18])
def test_wide_gaussians_by_asymptotics(parameter: int) -> None:
    """At 5000 summation is still possible and agrees; beyond, the law is as good as normal."""
    law = DiscreteGaussian(Fraction(parameter))
    assert law.variance == parameter
    if parameter == 5000:
        k = np.arange(-4000, 4001)
        weights = np.exp(-(k**2) / (2 * parameter))
        below = np.cumsum(weights) / weights.sum()
        chosen = range(3000, 5001, 50)
        expected = [below[i] for i in chosen]
        assert [law.cdf(int(k[i])) for i in chosen] == pytest.approx(expected, abs=1e-14)
    half = law.half_width(0.95)
    assert half == pytest.approx(1.959964 * parameter**0.5, rel=1e-2 if parameter < 10**5 else 1e-3)
    assert 1 - 2 * law.cdf(-half - 1) >= 0.95


def test_wide_laplace() -> None:
    law = DiscreteLaplace(Fraction(10**30))
    assert law.half_width(0.95) == pytest.approx(math.log(20) * 1e30, rel=1e-9)
    assert law.variance == pytest.approx(2e60)
    assert DiscreteLaplace(Fraction(1, 10**6)).half_width(0.99) == 0


def test_normal() -> None:
    law = Normal(4.0)
    assert law.interval(1, 0.95) == pytest.approx((1 - 3.919928, 1 + 3.919928), abs=1e-5)
    assert law.cdf(law.quantile(0.3)) == pytest.approx(0.3)
    assert Normal(0).interval(5, 0.9) == (5, 5)
    assert Normal(1).half_width(1 - 1e-12) == pytest.approx(7.13, abs=0.01)


SUMS = [{1: 2}, {1: 7}, {2: 2, 3: 1}, {4: 2, 6: 1}, {1: 1, 10: 1}, {5: 3}]


def test_sums_with_whole_weights_are_exact(subtests: pytest.Subtests) -> None:
    for terms, base in product(SUMS, BASES):
        with subtests.test(terms=terms, base=base):
            law, shares = NoiseSum(base, terms), direct(base, terms)
            assert law.method == "exact"
            centre = len(shares) // 2
            below = np.cumsum(shares)
            values = range(-60, 61)
            expected = [below[centre + k] for k in values]
            assert [law.cdf(k) for k in values] == pytest.approx(expected, abs=1e-13)
            expected = [shares[centre + k] for k in values]
            assert [law.pmf(k) for k in values] == pytest.approx(expected, abs=1e-13)
            variance = float(shares @ (np.arange(len(shares)) - centre) ** 2.0)
            assert law.variance == pytest.approx(variance, rel=1e-12)
            for level in LEVELS:
                half = law.half_width(level)
                assert mass(shares, half) >= level - 1e-14
                assert half == 0 or mass(shares, half - law.unit) < level + 1e-12
                k = law.quantile(level)
                assert law.cdf(k) >= level - 1e-13 > law.cdf(k - 1) - 2e-13


def test_a_sum_in_exact_fractions() -> None:
    """Two copies of P(k) proportional to (1/2)**|k|, as fractions up to a tail of 2**-80."""
    ratio = Fraction(1, 2)
    share = {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-80, 81)}
    scale = Fraction(1 / math.log(2))  # a binary fraction within 1e-16 of 1 / log 2
    law = NoiseSum(DiscreteLaplace(scale), {1: 2})
    for total in range(6):
        exact = sum(share[k] * share.get(total - k, 0) for k in share)
        assert law.pmf(total) == pytest.approx(float(exact), rel=1e-12)


def test_real_weights_cover_and_are_hardly_wider(subtests: pytest.Subtests) -> None:
    """A ten-millionth above whole weights the true law is known: whole weights, stretched."""
    for terms, base in product([{1: 3}, {2: 2, 3: 1}, {1: 1, 7: 4}], BASES):
        with subtests.test(terms=terms, base=base):
            stretch = 1 + 1e-7
            law = NoiseSum(base, {weight * stretch: count for weight, count in terms.items()})
            shares = direct(base, terms)
            exact = NoiseSum(base, terms)
            assert law.method == "smoothed"
            for level in LEVELS:
                half = law.half_width(level)
                assert mass(shares, half / stretch) >= level
                assert half <= exact.half_width(level) * stretch + 0.012 * law.stderr + 0.01


def test_many_different_real_weights_are_gathered_and_still_cover() -> None:
    """Against 4,000 simulated sums: false alarm 1e-6, sees a coverage of 87 % instead of 90 %."""
    rng = np.random.default_rng(1)
    weights = rng.gamma(0.5, 10, 5000)
    base = DiscreteLaplace(Fraction(3, 2))
    law = NoiseSum.of(base, weights)
    success = 1 - math.exp(-1 / float(base.scale))
    sums = np.concatenate(
        [
            (rng.geometric(success, (500, 5000)) - rng.geometric(success, (500, 5000))) @ weights
            for _ in range(8)
        ]
    )
    assert (np.abs(sums) > law.half_width(0.9)).sum() <= stats.binom.isf(1e-6, 4000, 0.1)
    assert law.half_width(0.9) == pytest.approx(1.645 * law.stderr, rel=0.03)
    gathered, moved = law._reduced.gathered()
    assert len(gathered.weights) <= 1024
    assert gathered.counts.sum() == 5000
    assert moved < 0.05 * law.stderr
    assert gathered.stderr == pytest.approx(law.stderr, rel=1e-3)


@pytest.mark.parametrize("count", [2000, 8000])
def test_the_normal_law_is_as_close_as_it_says(count: int) -> None:
    law = NoiseSum(DiscreteLaplace(Fraction(1)), {1: count})
    assert law.method == "normal"
    table = weighted_sum.lattice_law(law._reduced, weighted_sum.lattice_size(law._reduced))
    gaps = [abs(law.cdf(k) - table.cdf(k)) for k in range(-400, 401)]
    assert max(gaps) <= law.approximation_error
    assert law.approximation_error <= 5 * max(gaps)
    for level in (0.8, 0.9, 0.95, 0.99):
        half = law.half_width(level)
        assert 1 - 2 * table.cdf(-half - 1) >= level
        assert half <= table.half_width(level) + 1 + 0.01 * law.stderr


def test_a_sum_that_only_looks_many_is_not_taken_for_normal() -> None:
    """One weight of 1,000 among a thousand of 1: the law is mostly that one cell's."""
    base = DiscreteLaplace(Fraction(2))
    law = NoiseSum(base, {1: 1000, 1000: 1})
    assert law.method == "exact"
    assert law.half_width(0.95) > 2.05 * law.stderr


def test_tiny_misses_come_from_a_bound() -> None:
    law = NoiseSum(DiscreteLaplace(Fraction(1)), {1: 2})
    half = law.half_width(1 - 1e-12)
    beyond = sum(law.base.pmf(k) for k in range(int(half) // 2, int(half) + 200))
    assert beyond < 1e-5
    assert 27 < half < 45


@pytest.mark.parametrize("base", BASES)
def test_chernoff_tails_hold(base: Discrete) -> None:
    shares = direct(base, {1: 2, 3: 1})
    terms = NoiseSum(base, {1: 2, 3: 1})._reduced
    for miss in (0.5, 0.1, 1e-3, 1e-8):
        assert 1 - mass(shares, terms.tail(miss)) <= miss


@settings(max_examples=30, deadline=None)
@given(
    some.sampled_from(BASES),
    some.dictionaries(some.integers(-6, 6), some.integers(0, 4), max_size=3),
    some.sampled_from(LEVELS),
)
def test_any_small_sum_covers(base: Discrete, terms: dict[int, int], level: float) -> None:
    law = NoiseSum(base, terms)
    folded: dict[int, int] = {}
    for weight, count in terms.items():
        folded[abs(weight)] = folded.get(abs(weight), 0) + count
    folded.pop(0, None)
    assert mass(direct(base, folded), law.half_width(level)) >= level - 1e-13


def test_a_sum_of_nothing_has_no_error() -> None:
    law = NoiseSum(DiscreteLaplace(Fraction(1)), {0: 5})
    assert (law.variance, law.interval(3, 0.9), law.cdf(0), law.cdf(-1)) == (0, (3, 3), 1, 0)
    assert law.method == "none"


LAWS: list[ErrorLaw] = [
    Normal(2.5),
    *BASES,
    NoiseSum(BASES[0], {1: 10, 3: 2}),
    NoiseSum(BASES[2], {0.1: 3, 2: 4}),
]


def test_laws_come_back_from_json(subtests: pytest.Subtests) -> None:
    for law in LAWS:
        with subtests.test(law=law):
            assert law_from_dict(json.loads(json.dumps(law.to_dict()))) == law


@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(1, 800), Fraction(1, 10**9)])
def test_noise_that_is_nearly_always_zero(scale: Fraction) -> None:
    base = DiscreteLaplace(scale)
    assert base.variance < 1e-40
    assert (base.cdf(0), base.half_width(0.999), base.quantile(0.5)) == (1, 0, 0)
    assert NoiseSum(base, {1: 1000, 7: 2}).half_width(0.999) == 0
    assert NoiseSum(base, {0.3: 5, 0.7: 2}).half_width(0.999) < 0.01


def test_normal_noise_that_is_nearly_always_zero() -> None:
    law = RoundedNormal(Fraction(1, 10**30))
    assert law.half_width(0.999) == 0
    assert law.log_moment(np.array([0.0, 1.0])).tolist() == pytest.approx([0.0, 0.5])  # a bound


def test_bad_parameters() -> None:
    with pytest.raises(ParameterError, match="kind"):
        law_from_dict({"kind": "cauchy"})
    with pytest.raises(ParameterError, match="The 'variance' parameter of Normal must be"):
        Normal(-1)
    with pytest.raises(ParameterError, match="The 'terms' parameter of NoiseSum must be"):
        NoiseSum(BASES[0], {math.inf: 1})
    for level in (0, 1, 1.5, "0.9"):
        with pytest.raises(ParameterError, match="The 'level' parameter of interval must be"):
            Normal(1).interval(0, level)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="The 'q' parameter of quantile must be"):
        BASES[0].quantile(1)
    with pytest.raises(ParameterError, match="whole weights"):
        NoiseSum(BASES[0], {0.5: 2}).pmf(1)
