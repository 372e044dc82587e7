"""Discrete Laplace, Gaussian and rounded normal noise: exact thresholds and true laws."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from scumble.model.errors import ParameterError
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, RoundedNormal
from scumble.private.sampling.noise import (
    _constants,
    _join_fractions,
    _sampler,
    discrete_gaussian,
    discrete_laplace,
    exponential,
    rounded_normal,
)
from scumble.private.sampling.source import Keystream
from tests.support.goodness import rejects_law
from tests.support.scripted import Scripted, halves, words


def decimal_exp(exponent: Fraction, digits: int) -> Fraction:
    """exp(-exponent) by another route, good to the given number of digits."""
    with localcontext() as context:
        context.prec, context.Emin = digits + 10, -(10**9)
        value = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
    return Fraction(value)


@settings(max_examples=60, deadline=None)
@given(some.fractions(0, 200, max_denominator=10**12), some.sampled_from([64, 128, 300]))
def test_exponentials_are_enclosed_and_tightly(exponent: Fraction, precision: int) -> None:
    low, high = exponential(exponent, precision)
    value = decimal_exp(exponent, 200) * 2**precision
    margin = Fraction(1, 10**50)
    assert low - margin <= value <= high + margin
    assert high - low <= 3


def test_thresholds_of_the_laplace_law_are_the_floors_of_its_cumulative_shares(
    subtests: pytest.Subtests,
) -> None:
    for scale in [Fraction(1, 50), Fraction(3, 2), Fraction(700, 3), Fraction(2**60)]:
        with subtests.test(scale=scale):
            sampler = _sampler(scale)
            with localcontext() as context:
                context.prec = 200
                steps = Decimal(scale.denominator) / Decimal(scale.numerator)

                def floors(shares: Iterable[Decimal]) -> list[int]:
                    return [min(int(share * 2**64), 2**64 - 1) for share in shares]

                ratio = (-steps).exp()
                assert sampler._signs._whole.tolist() == floors(
                    [ratio / (1 + ratio), 1 / (1 + ratio)]
                )
                for cuts in sampler._digits:
                    below = [1 - (-steps * d).exp() for d in range(257)]
                    assert cuts._whole.tolist() == floors(
                        part / below[256] for part in below[1:256]
                    )
                    steps *= 256
                assert sampler._top._whole.tolist() == floors(
                    1 - (-steps * d).exp() for d in range(1, 257)
                )


def test_digits_of_a_geometric_number_are_independent_with_these_laws() -> None:
    """The identity the sampler stands on, in exact arithmetic for the ratio 9/10 and base 4."""
    ratio, base = Fraction(9, 10), 4
    low = [(1 - ratio) * ratio**d / (1 - ratio**base) for d in range(base)]
    for value in range(50):
        high, digit = divmod(value, base)
        above = (1 - ratio**base) * ratio ** (base * high)
        assert low[digit] * above == (1 - ratio) * ratio**value


def test_a_tie_of_the_sign_reads_on() -> None:
    scale = Fraction(1)
    share = decimal_exp(Fraction(1), 120)
    minus = share / (1 + share)
    word, more = floor(minus * 2**64), floor(minus * 2**128) % 2**64
    top = halves([0])  # the magnitude above 1 is 0
    for step, value in [(-1, -1), (1, 0)]:
        head = [halves([word >> 48]), words((word << 16) % 2**64), words(more + step)]
        source = Scripted(*head, top)
        assert discrete_laplace(source, scale, 1).tolist() == [value]
        assert source.used_up


EDGES = [-3.0, -2.0, -1.5, -1.0, -0.5, -0.2, 0.0, 0.3, 0.7, 1.2, 1.8, 2.5]
SCALES = [
    Fraction(1, 2),
    Fraction(1),
    Fraction(10),
    Fraction(101, 3),
    Fraction(10**6),
    Fraction(2**54),
]


def test_laplace_law(subtests: pytest.Subtests) -> None:
    """False alarm 1e-6; sees a scale that is 30 % off, and from scale 1 on one that is 2 % off."""
    for scale in SCALES:
        with subtests.test(scale=scale):
            drawn = discrete_laplace(Keystream(21), scale, 400_000)
            assert drawn.dtype == np.int64
            edges = sorted({floor(edge * scale) for edge in EDGES})
            assert not rejects_law(drawn, DiscreteLaplace(scale).cdf, edges)
            assert rejects_law(drawn, DiscreteLaplace(scale * Fraction(13, 10)).cdf, edges)
            assert rejects_law(drawn, DiscreteLaplace(scale / Fraction(13, 10)).cdf, edges)
            if scale >= 1:
                assert rejects_law(drawn, DiscreteLaplace(scale * Fraction(102, 100)).cdf, edges)


def test_low_digits_are_right_where_the_scale_is_large() -> None:
    """False alarm 1e-6: at scale 10**6 the lowest byte of |x| is as good as uniform."""
    drawn = np.abs(discrete_laplace(Keystream(22), Fraction(10**6), 400_000)) % 256
    assert not rejects_law(drawn, lambda x: min((floor(x) + 1) / 256, 1), list(range(15, 255, 16)))


def test_laplace_beyond_64_bits_and_far_below_one() -> None:
    """False alarm 1e-6."""
    scale = Fraction(10**40)
    drawn = discrete_laplace(Keystream(23), scale, 5000)
    assert drawn.dtype == object
    assert not rejects_law(drawn, DiscreteLaplace(scale).cdf, [floor(e * scale) for e in EDGES])
    assert not discrete_laplace(Keystream(23), Fraction(1, 1000), 10_000).any()


def test_what_64_bits_cannot_hold_is_returned_as_python_integers() -> None:
    """Scripted: the part above the digits says "256 or more" often enough to pass 2**63."""
    scale = Fraction(2**54)
    digits = len(_sampler(scale)._digits)
    plus, most, none = halves([65535]), halves([65535]), halves([0])
    # exp(-1024) is left above 256 here: only 1536 ones in a row tell that a number lies there.
    parts = [plus, most, *[words(2**64 - 1)] * 24, none, *[none] * digits]
    drawn = discrete_laplace(Scripted(*parts), scale, 1)
    assert drawn.dtype == object
    assert drawn[0] == (256 << (8 * digits)) + 1 > 2**63


VARIANCES = [Fraction(1, 5), Fraction(1), Fraction(50, 3), Fraction(10**6), Fraction(2**100)]


def test_gaussian_law(subtests: pytest.Subtests) -> None:
    """False alarm 1e-6; sees a standard deviation that is 30 % off, and from 1 on 2 %."""
    for variance in VARIANCES:
        with subtests.test(variance=variance):
            drawn = discrete_gaussian(Keystream(31), variance, 300_000)
            assert drawn.dtype == np.int64
            sigma = float(variance) ** 0.5
            edges = sorted({floor(edge * sigma) for edge in EDGES if abs(edge) <= 2})
            assert not rejects_law(drawn, DiscreteGaussian(variance).cdf, edges)
            assert rejects_law(drawn, DiscreteGaussian(variance * Fraction(169, 100)).cdf, edges)
            assert rejects_law(drawn, DiscreteGaussian(variance / Fraction(169, 100)).cdf, edges)
            if variance >= 1:
                assert rejects_law(
                    drawn, DiscreteGaussian(variance * Fraction(104, 100)).cdf, edges
                )


def test_gaussian_beyond_64_bits_and_far_below_one() -> None:
    """False alarm 1e-6."""
    variance = Fraction(10**50)
    drawn = discrete_gaussian(Keystream(32), variance, 2000)
    assert drawn.dtype == object
    edges = [floor(z * 10**25) for z in (-1.5, -0.7, 0, 0.7, 1.5)]
    assert not rejects_law(drawn, DiscreteGaussian(variance).cdf, edges)
    assert not discrete_gaussian(Keystream(32), Fraction(1, 10**5), 1000).any()


@settings(max_examples=100, deadline=None)
@given(
    some.fractions(Fraction(1, 100), 10**9, max_denominator=1000), some.integers(0, 40), some.data()
)
def test_the_compiled_loop_agrees_with_exact_arithmetic_on_both_sides_of_its_enclosure(
    variance: Fraction, tenths: int, data: some.DataObject
) -> None:
    law = _constants(variance)
    value = int(law.scale) * tenths // 10
    gamma = (value - variance / law.scale) ** 2 / (2 * variance)
    chance = floor(decimal_exp(gamma, 60) * 2**64)
    # The slack of the loop is 2**18 of 2**63 to each side; off by at most as much again.
    for word, accepted in [(chance - 2**21, True), (chance + 2**21, False)]:
        if 0 <= word < 2**64:
            answers, pending = law._enclose(words(word), np.array([value]))
            assert (answers.tolist(), len(pending)) == ([accepted], 0)
    inside = min(max(chance + data.draw(some.integers(-(2**15), 2**15)), 0), 2**64 - 1)
    answers, pending = law._enclose(words(inside), np.array([value]))
    assert len(pending) == 1
    expected = inside < chance or gamma == 0
    if inside != chance:
        assert law.accept(Scripted(words(inside)), np.array([value])).tolist() == [expected]


def test_scales_are_exact_and_positive(subtests: pytest.Subtests) -> None:
    for bad in [0, -1, 0.5, True]:
        with subtests.test(bad=bad):
            with pytest.raises(
                ParameterError, match="The 'scale' parameter of discrete_laplace must be"
            ):
                discrete_laplace(Keystream(1), bad, 1)  # type: ignore[arg-type]
            with pytest.raises(
                ParameterError, match="The 'variance' parameter of discrete_gaussian"
            ):
                discrete_gaussian(Keystream(1), bad, 1)  # type: ignore[arg-type]


NORMALS = [Fraction(1, 9), Fraction(1, 3), Fraction(2), 10**6 + Fraction(1, 7), Fraction(2**100)]


def test_rounded_normal_law(subtests: pytest.Subtests) -> None:
    """False alarm 1e-6; sees a standard deviation that is 30 % off, and from 1 on 2 %."""
    for variance in NORMALS:
        with subtests.test(variance=variance):
            drawn = rounded_normal(Keystream(41), variance, 300_000)
            assert drawn.dtype == np.int64
            sigma = float(variance) ** 0.5
            edges = sorted({floor(edge * sigma) for edge in EDGES if abs(edge) <= 2})
            assert not rejects_law(drawn, RoundedNormal(variance).cdf, edges)
            assert rejects_law(drawn, RoundedNormal(variance * Fraction(169, 100)).cdf, edges)
            assert rejects_law(drawn, RoundedNormal(variance / Fraction(169, 100)).cdf, edges)
            if variance >= 1:
                assert rejects_law(drawn, RoundedNormal(variance * Fraction(104, 100)).cdf, edges)


def test_rounded_normal_is_not_discrete_gaussian() -> None:
    """False alarm 1e-6: at a variance of 1/3 both are far apart."""
    drawn = rounded_normal(Keystream(42), Fraction(1, 3), 300_000)
    assert rejects_law(drawn, DiscreteGaussian(Fraction(1, 3)).cdf, [-2, -1, 0, 1])


def test_rounded_normal_noise_that_does_not_fit_is_refused() -> None:
    for variance in (Fraction(2**101), Fraction(1, 2**41), Fraction(1, 2**70)):
        with pytest.raises(ParameterError, match="from 2"):
            rounded_normal(Keystream(43), variance, 1)
    assert not rounded_normal(Keystream(43), Fraction(1, 10**5), 1000).any()


@settings(max_examples=100, deadline=None)
@given(
    some.fractions(Fraction(1, 10**4), 10**9, max_denominator=10**4),
    some.integers(0, 10**5),
    some.integers(0, 2**64 - 1),
    some.integers(-(2**12), 2**12),
)
def test_a_fraction_is_kept_by_exact_arithmetic(
    variance: Fraction, whole: int, fraction: int, off: int
) -> None:
    """Words far from exp(-gamma), and words that only further bits decide."""
    x = Fraction(fraction, 2**64)
    chance = floor(decimal_exp(x * (2 * whole + x) / (2 * variance), 60) * 2**64)
    for word, kept in [(chance - 2**40, True), (chance + 2**40, False)]:
        if 0 <= word < 2**64 and variance >= 1:
            source = Scripted(words(fraction), words(word))
            assert _join_fractions(source, variance, np.array([whole]))[1].tolist() == [kept]
    word = min(max(chance + off, 0), 2**64 - 1)
    source = Scripted(words(fraction), words(word), *[words(2**63)] * 8)
    [kept] = _join_fractions(source, variance, np.array([whole]))[1].tolist()
    x += Fraction(1, 2**65)  # what the script says of the further bits of both
    exact = decimal_exp(x * (2 * whole + x) / (2 * variance), 60)
    assert kept == (Fraction(2 * word + 1, 2**65) < exact)
