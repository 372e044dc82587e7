"""Exact samplers of discrete Laplace, geometric, discrete Gaussian and rounded normal noise.

Discrete Laplace noise has P(x) proportional to exp(-|x| / scale) on the integers. Its sign (minus,
zero, plus) is one draw from three outcomes. A magnitude above 0 is 1 + G with G geometric, and the
base-256 digits of a geometric variable are independent: P(digit j is d) is proportional to
exp(-d * 256**j / scale). So each digit is one draw from a table. The part above the digits is again
geometric, drawn as "0 to 255, or 256 and draw again".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.laws.base import check_positive
from scumble.private.sampling.bits import Cuts, Floors, chunks, decide_below, multiply_high
from scumble.private.sampling.source import Keystream

BASE = 256
_LEVEL_BITS = 8
_TOP_SCALE = 32  # largest scale of the part above the digits: 256 or more once in 3,000 draws
_WIDE_SCALE = 1 << 55  # from this scale on, results are Python integers
_STEP = 1 << 15  # draws at a time, so that all passes over them stay in the second-level cache
_ROOM = 1 << 62  # no 64-bit sum comes near its limit below this


def discrete_laplace(source: Keystream, scale: Fraction, size: int) -> NDArray[Any]:
    """Return `size` independent discrete Laplace variables of the given scale.

    The dtype is int64, or object (Python integers) from scale 2**55 on. Below that scale a number
    that does not fit 64 bits has probability under exp(-128); if one is drawn, the dtype is object
    too. Nothing wraps or is truncated.
    """
    scale = check_positive("discrete_laplace", "scale", scale)
    return _drawn(_sampler(scale).draw, source, scale, size)


def geometric(source: Keystream, scale: Fraction, size: int) -> NDArray[Any]:
    """Return `size` independent geometric variables, P(k) proportional to exp(-k / scale) for
    k = 0, 1, 2, ... The dtype is that of `discrete_laplace`.
    """
    scale = check_positive("geometric", "scale", scale)
    return _drawn(_sampler(scale).geometric, source, scale, size)


def _drawn(
    draw: Callable[[Keystream, int, bool], NDArray[Any]],
    source: Keystream,
    scale: Fraction,
    size: int,
) -> NDArray[Any]:
    """Call `draw` chunk by chunk, in int64 as long as that holds all numbers."""
    if scale >= _WIDE_SCALE:
        return draw(source, size, True)
    if size <= _STEP:
        return draw(source, size, False)
    out: NDArray[Any] = np.empty(size, np.int64)
    for part in chunks(size, _STEP):
        drawn = draw(source, part.stop - part.start, False)
        if drawn.dtype != out.dtype:
            out = out.astype(object)
        out[part] = drawn
    return out


class _Sampler:
    """The tables of one scale: the sign, the digits from the lowest up, and the part above them."""

    def __init__(self, scale: Fraction) -> None:
        self._signs = Cuts(_sign_floors(scale))
        self._digits = []
        while scale > _TOP_SCALE:
            self._digits.append(Cuts(_digit_floors(scale)))
            scale /= BASE
        self._top = Cuts(_top_floors(scale))

    def draw(self, source: Keystream, size: int, wide: bool = False) -> NDArray[Any]:
        signs: NDArray[Any] = np.subtract(self._signs.draw(source, size), 1, dtype=np.int64)
        magnitude = self.geometric(source, size, wide)
        magnitude += 1
        magnitude *= signs.astype(magnitude.dtype, copy=False)
        return magnitude

    def geometric(self, source: Keystream, size: int, wide: bool = False) -> NDArray[Any]:
        """Return variables with P(k) proportional to exp(-k / scale), drawn digit by digit."""
        number: NDArray[Any]
        number, highest = self._remainder(source, size)
        shift = _LEVEL_BITS * len(self._digits)
        if wide or (highest << shift > _ROOM and (int(number.max(initial=0)) + 1) << shift > _ROOM):
            number = number.astype(object)
        for digit in reversed(self._digits):
            number <<= _LEVEL_BITS
            number += digit.draw(source, size)
        return number

    def _remainder(self, source: Keystream, size: int) -> tuple[NDArray[np.int64], int]:
        """Return unbounded geometric variables, and a number above all of them: the last outcome
        adds 256 and draws again.
        """
        drawn = self._top.draw(source, size)
        total = drawn.astype(np.int64)
        rows = (drawn == BASE).nonzero()[0]
        above = BASE
        while len(rows):
            more = self._top.draw(source, len(rows)).astype(np.int64)
            total[rows] += more
            rows = rows[more == BASE]
            above += BASE
        return total, above


@lru_cache(maxsize=32)
def _sampler(scale: Fraction) -> _Sampler:
    return _Sampler(scale)


def _sign_floors(scale: Fraction) -> Floors:
    """Return the cuts of the sign: minus below q / (1 + q), plus from 1 / (1 + q) on, zero between,
    with q = exp(-1 / scale).
    """

    def enclose(precision: int) -> list[Enclosure]:
        one = 1 << precision
        low, high = exponential(1 / scale, precision)
        all_ = (one + low, one + high)
        return [quotient((low, high), all_, precision), quotient((one, one), all_, precision)]

    return _irrational(enclose)


def _digit_floors(scale: Fraction) -> Floors:
    """Return the cuts of a digit: P(below d) = (1 - r**d) / (1 - r**256), r = exp(-1 / scale)."""

    def enclose(precision: int) -> list[Enclosure]:
        below = _below(scale, precision)
        return [quotient(part, below[BASE], precision) for part in below[1:BASE]]

    return _irrational(enclose)


def _top_floors(scale: Fraction) -> Floors:
    """Return the cuts of the part above the digits: P(below d) = 1 - r**d, r = exp(-1 / scale)."""
    return _irrational(lambda precision: _below(scale, precision)[1:])


def _below(scale: Fraction, precision: int) -> list[Enclosure]:
    """Return enclosures of 1 - r**d for d from 0 to 256, r = exp(-1 / scale)."""
    one = 1 << precision
    ratios = powers(exponential(1 / scale, precision), BASE, precision)
    return [(one - high, one - low) for low, high in ratios]


def _irrational(enclose: Callable[[int], list[Enclosure]]) -> Floors:
    """Return the floors of cuts that are never exact: e to a nonzero rational power is
    transcendental.
    """

    def whole(bits: int) -> tuple[list[int], list[bool]]:
        found = floors(enclose, bits)
        return found, [False] * len(found)

    return whole


# --- powers of e, enclosed between integers to any precision -------------------------------------
# All irrational thresholds are computed here.

Enclosure = tuple[int, int]


def exponential(exponent: Fraction, precision: int) -> Enclosure:
    """Return integers `(low, high)` with low <= exp(-exponent) * 2**precision <= high."""
    if exponent == 0:
        return 1 << precision, 1 << precision
    if exponent > precision:  # exp(-precision) < 2**-precision
        return 0, 1
    halvings = max(0, (exponent.numerator // exponent.denominator).bit_length() + 1)
    bits = precision + halvings + 16
    low, high = _series((exponent.numerator << bits) // (exponent.denominator << halvings), bits)
    for _ in range(halvings):
        low, high = (low * low) >> bits, _shift_up(high * high, bits)
    return low >> (bits - precision), _shift_up(high, bits - precision)


def _series(argument: int, bits: int) -> Enclosure:
    """Enclose exp(-t) * 2**bits for t in [argument, argument + 1) / 2**bits, t <= 1/2.

    A term is rounded down twice, by less than 2 units in all, and inherits at most half of the
    error of the term before. So each term is off by less than 4 units. The tail of an alternating
    series is less than its first term. Moving t by one unit moves exp(-t) by less than one unit.
    """
    total = term = 1 << bits
    count = 0
    while term:
        count += 1
        term = ((term * argument) >> bits) // count
        total += -term if count % 2 else term
    slack = 4 * count + 8
    return total - slack, total + slack


def powers(base: Enclosure, count: int, precision: int) -> list[Enclosure]:
    """Return enclosures of the powers 0 to `count` of a number in [0, 1] enclosed by `base`."""
    result = [(1 << precision, 1 << precision)]
    for _ in range(count):
        low, high = result[-1]
        result.append(((low * base[0]) >> precision, _shift_up(high * base[1], precision)))
    return result


def quotient(above: Enclosure, below: Enclosure, precision: int) -> Enclosure:
    """Enclose the quotient of two enclosed positive numbers whose quotient is at most 1."""
    high = -((-above[1] << precision) // below[0]) if below[0] > 0 else 1 << precision
    return (max(above[0], 0) << precision) // below[1], high


def floors(enclose: Callable[[int], Sequence[Enclosure]], bits: int) -> list[int]:
    """Return the exact floors of x * 2**bits for irrational numbers x strictly between 0 and 1.

    `enclose(precision)` encloses each x * 2**precision. The precision doubles until both ends have
    the same floor, which happens for every irrational number. The ends are clamped to [0, 1), so
    that a number within 2**-bits of 1 needs no extra precision.
    """
    precision, top = 2 * bits + 64, (1 << bits) - 1
    while True:
        shift = precision - bits
        ends = [(max(low, 0) >> shift, min(high >> shift, top)) for low, high in enclose(precision)]
        if all(low == high for low, high in ends):
            return [low for low, _ in ends]
        precision *= 2


def _shift_up(value: int, bits: int) -> int:
    return -(-value >> bits)


# --- discrete Gaussian noise: P(x) proportional to exp(-x**2 / (2 variance)) on the integers -----
#
# Canonne, Kamath and Steinke (2020): draw y from the discrete Laplace law of scale t, the first
# integer above the standard deviation, and accept it with probability exp(-gamma), gamma = (|y| -
# variance / t)**2 / (2 variance). That probability is enclosed in integers of 63 bits. The few
# draws that fall inside the enclosure are decided by exact arithmetic.

_FRACTION = 56  # bits after the point of the square root of gamma
_WIDE_VARIANCE = 1 << 106  # from this variance on, results are Python integers


def discrete_gaussian(source: Keystream, variance: Fraction, size: int) -> NDArray[Any]:
    """Return `size` independent discrete Gaussian variables.

    `variance` is the parameter of the law; the variance of the variables is slightly smaller. The
    dtype is int64, or object (Python integers) from variance 2**106 on.
    """
    law = _constants(check_positive("discrete_gaussian", "variance", variance))
    out: NDArray[Any] = np.empty(size, object if variance >= _WIDE_VARIANCE else np.int64)
    for part in chunks(size, _STEP):
        target = out[part]
        rows = np.arange(len(target))
        while len(rows):
            proposed = discrete_laplace(source, law.scale, len(rows))
            accepted = law.accept(source, proposed)
            target[rows[accepted]] = proposed[accepted]
            rows = rows[~accepted]
    return out


@dataclass(frozen=True)
class _Constants:
    """Fixed-point constants of one variance: sqrt(gamma) = ||y| * slope - offset|."""

    variance: Fraction
    scale: Fraction
    slope: int
    shift: int
    offset: int

    def accept(self, source: Keystream, proposed: NDArray[Any]) -> NDArray[np.bool_]:
        words = source.words(len(proposed))
        if proposed.dtype == object:
            answers, pending = np.zeros(len(words), bool), np.arange(len(words))
        else:
            answers, pending = self._enclose(words, proposed)
        for row in pending:
            answers[row] = self._exactly(source, int(proposed[row]), int(words[row]))
        return answers

    def _enclose(
        self, words: NDArray[np.uint64], proposed: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Compare words with exp(-gamma) in fixed point; return the answers and the rows that are
        left open.

        The root of gamma, below 8, has 56 bits after the point and is off by at most 3 units; gamma
        has 48 and is off by at most 3; so exp(-gamma) is off by at most 3 * 2**15 units of 2**-63,
        and by 28 more for the seven factors. `slack` is more than twice that.
        """
        one = np.uint64(1)
        slope, shift, offset = np.uint64(self.slope), np.uint64(self.shift), np.uint64(self.offset)
        size = np.abs(proposed).astype(np.uint64)
        high = multiply_high(size, slope)
        # In two steps, because a shift by all 64 bits is undefined.
        root = ((high << (np.uint64(63) - shift)) << one) | ((size * slope) >> shift)
        root = np.where(root >= offset, root - offset, offset - root)
        possible = ((high >> shift) == 0) & (root < np.uint64(8 << 56))
        chance = _chances(multiply_high(root, root))
        chance[~possible] = 0
        return _compare(words, chance, 1 << 18)

    def _exactly(self, source: Keystream, proposed: int, word: int) -> bool:
        """Return whether the uniform number that begins with `word` is below exp(-gamma)."""
        gamma = (abs(proposed) - self.variance / self.scale) ** 2 / (2 * self.variance)
        if gamma == 0:
            return True
        below = lambda bits: (floors(lambda p: [exponential(gamma, p)], bits), [False])  # noqa: E731
        return decide_below(source, below, word, 64)


@lru_cache(maxsize=64)
def _constants(variance: Fraction) -> _Constants:
    above, below = variance.numerator, variance.denominator
    scale = isqrt(above // below) + 1
    offset = isqrt((above << (2 * _FRACTION)) // (2 * below * scale**2))
    # slope = 1 / sqrt(2 variance), as an integer of 63 bits over 2**(56 + shift)
    shift = 6 + isqrt(2 * above // below).bit_length()
    slope = isqrt((below << (2 * (_FRACTION + shift))) // (2 * above))
    while slope >= 1 << 63 and shift:
        shift -= 1
        slope >>= 1
    # A slope above 64 rejects everything but 0 in 64 bits, whatever it is.
    return _Constants(variance, Fraction(scale), min(slope, (1 << 63) - 1), shift, offset)


def _chances(gamma: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return about exp(-gamma) * 2**63, for numbers below 256 with 48 bits after the point; each of
    seven factors is rounded down, and so is each product.
    """
    chance = np.full(len(gamma), 1 << 63, np.uint64)
    for place, factors in enumerate(exponentials()):
        digits = ((gamma >> np.uint64(8 * place)) & np.uint64(255)).astype(np.intp)
        chance = multiply_high(chance, factors.take(digits))
        chance <<= np.uint64(1)
    return chance


def _compare(
    words: NDArray[np.uint64], chance: NDArray[np.uint64], slack: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return whether uniform words are below chances in units of 2**-63 that are off by less than
    `slack`, and the rows that this leaves open.
    """
    word = words >> np.uint64(1)
    below = word + np.uint64(slack) < chance
    return below, (~below & (word < chance + np.uint64(slack))).nonzero()[0]


@lru_cache(maxsize=1)
def exponentials() -> NDArray[np.uint64]:
    """Return exp(-b * 256**j / 2**48) * 2**63, rounded down, for the bytes b and j = 0 to 6."""
    precision = 128
    table = np.empty((7, 256), np.uint64)
    for place in range(7):
        base = exponential(Fraction(256**place, 1 << 48), precision)
        table[place] = [low >> (precision - 63) for low, _ in powers(base, 255, precision)]
    return table


# --- rounded normal noise: normal noise, rounded to the nearest integer --------------------------
#
# The size of a normal variable is j + x with j a whole number and x below 1. Its density is
# proportional to exp(-j**2 / (2 variance)) exp(-gamma), gamma = x (2 j + x) / (2 variance) (Karney,
# 2016). So j is drawn from the discrete Gaussian law on 0, 1, 2, ..., x uniformly, and both are
# kept with probability exp(-gamma). The bits of x are drawn as far as this decision needs them.


def rounded_normal(source: Keystream, variance: Fraction, size: int) -> NDArray[np.int64]:
    """Return `size` independent normal variables, each rounded to the nearest integer.

    `variance`, from 2**-40 to 2**100, is that before rounding. Noise of a small deviation s takes
    1 / s tries for each number.
    """
    variance = check_positive("rounded_normal", "variance", variance)
    if not _NARROWEST_NORMAL <= variance <= _WIDEST_NORMAL:
        raise ParameterError.of("rounded_normal", "variance", "from 2^-40 to 2^100", variance)
    law = _constants(variance)
    out = np.empty(size, np.int64)
    for part in chunks(size, _STEP):
        target = out[part]
        rows = np.arange(len(target))
        while len(rows):
            whole = geometric(source, law.scale, len(rows))
            kept = law.accept(source, whole).nonzero()[0]
            fractions, accepted = _join_fractions(source, variance, whole[kept])
            kept, fractions = kept[accepted], fractions[accepted]
            number = whole[kept] + (fractions >> np.uint64(63)).astype(np.int64)
            minus = source.words(len(kept)) >> np.uint64(63) == 1
            target[rows[kept]] = np.where(minus, -number, number)
            rows = np.delete(rows, kept)
    return out


_NARROWEST_NORMAL = Fraction(1, 1 << 40)
_WIDEST_NORMAL = 1 << 100
_POINT = 48  # bits after the point of gamma
_LARGEST_GAMMA = 64  # exp(-64) is below 2**-63


def _join_fractions(
    source: Keystream, variance: Fraction, whole: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Draw a fraction for each whole number; return the first 64 bits of each, and whether it is
    kept with its whole number.

    The product of 2 j + x and x is off by less than 3 units of the last bit of 2 j + x, and gamma
    by these times 1 / (2 variance) and 2 units of its own.
    """
    fractions, words = source.words(len(whole)), source.words(len(whole))
    if not len(whole):
        return fractions, np.empty(0, bool)
    point = 62 - (2 * int(whole.max()) + 1).bit_length()
    inverse = 1 / (2 * variance)
    scale = 62 + int(1 / inverse).bit_length() - int(inverse).bit_length()
    slope = int(inverse * (1 << scale))  # at most 2**63
    shift = scale - 64 + point - _POINT
    unit = 1 << max(-shift, 0)
    off = int(3 * inverse * (1 << _POINT) / (1 << point)) + 2 * unit + 2
    both = (whole.astype(np.uint64) << np.uint64(point + 1)) + (fractions >> np.uint64(64 - point))
    gamma = multiply_high(multiply_high(both, fractions), np.uint64(slope))
    if shift >= 0:
        gamma >>= np.uint64(min(shift, 63))
    possible = gamma < np.uint64((_LARGEST_GAMMA << _POINT) // unit)
    chance = _chances(np.where(possible, gamma * np.uint64(unit), np.uint64(0)))
    chance[~possible] = 0
    kept, open_ = _compare(words, chance, min((off + 1) << (63 - _POINT), 1 << 62))
    for row in open_.tolist():
        numbers = int(whole[row]), int(fractions[row]), int(words[row])
        kept[row] = _is_kept(source, inverse, *numbers)
    return fractions, kept


def _is_kept(source: Keystream, inverse: Fraction, whole: int, fraction: int, word: int) -> bool:
    """Return whether a uniform number is below exp(-x (2 whole + x) inverse); `word` has the first
    64 bits of the number, and `fraction` those of x.
    """
    bits = 64
    while True:
        ends = [Fraction(fraction + more, 1 << bits) for more in (0, 1)]
        least, most = (x * (2 * whole + x) * inverse for x in ends)
        if word + 1 <= exponential(most, bits)[0]:
            return True
        if word >= exponential(least, bits)[1]:
            return False
        fraction, word = ((n << 64) | source.bits(64) for n in (fraction, word))
        bits += 64
