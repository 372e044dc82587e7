"""Discrete Laplace noise: P(x) proportional to exp(-|x| / scale) on the whole numbers, exactly.

Zero, plus or minus is one draw from three outcomes. A magnitude above 0 is 1 + G with G geometric,
and the base-256 digits of a geometric number are independent: P(digit j is d) is proportional to
exp(-d * 256**j / scale). So each digit is one draw from a table, and what remains above the digits
is again geometric, drawn as "0 to 255, or 256 and once more".
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.rational import positive
from scumble.private.sampling.bits import Cuts, Floors, chunks
from scumble.private.sampling.exponential import Enclosure, exponential, floors, powers, quotient
from scumble.private.sampling.source import Source

BASE = 256
_LEVEL_BITS = 8
_TOP_SCALE = 32  # scale of what remains above the digits: it is 256 or more once in 3,000 draws
_WIDE = 1 << 55  # from this scale on, results are Python integers
_STEP = 1 << 15  # draws at a time, so that all passes over them stay in the second-level cache
_ROOM = 1 << 62  # no 64-bit sum comes near its limit below this


def discrete_laplace(source: Source, scale: Fraction, size: int) -> NDArray[Any]:
    """Independent discrete Laplace numbers: int64, or Python integers (dtype object) from scale
    2**55 on.

    A number that no 64-bit integer holds has, below that scale, probability under exp(-128); if it
    is drawn the array returned holds Python integers too. Nothing wraps or is cut off.
    """
    scale = positive("discrete_laplace", "scale", scale)
    return _drawn(_sampler(scale).draw, source, scale, size)


def geometric(source: Source, scale: Fraction, size: int) -> NDArray[Any]:
    """Independent geometric numbers, P(k) proportional to exp(-k / scale) from 0 on: what a
    magnitude above 0 has beyond 1. Of the types of `discrete_laplace`.
    """
    scale = positive("geometric", "scale", scale)
    return _drawn(_sampler(scale).geometric, source, scale, size)


def _drawn(
    draw: Callable[[Source, int, bool], NDArray[Any]], source: Source, scale: Fraction, size: int
) -> NDArray[Any]:
    """Chunk by chunk, in 64 bits as long as these hold all numbers."""
    if scale >= _WIDE:
        return draw(source, size, True)
    out: NDArray[Any] = np.empty(size, np.int64)
    for part in chunks(size, _STEP):
        drawn = draw(source, part.stop - part.start, False)
        if drawn.dtype != out.dtype:
            out = out.astype(object)
        out[part] = drawn
    return out


class _Sampler:
    """The tables of one scale: sign, digits from the lowest up, and what remains above them."""

    def __init__(self, scale: Fraction) -> None:
        self._signs = Cuts(_sign_floors(scale))
        self._digits = []
        while scale > _TOP_SCALE:
            self._digits.append(Cuts(_digit_floors(scale)))
            scale /= BASE
        self._top = Cuts(_top_floors(scale))

    def draw(self, source: Source, size: int, wide: bool = False) -> NDArray[Any]:
        signs: NDArray[Any] = self._signs.draw(source, size).astype(np.int64) - 1
        magnitude = self.geometric(source, size, wide)
        magnitude += 1
        magnitude *= signs.astype(magnitude.dtype, copy=False)
        return magnitude

    def geometric(self, source: Source, size: int, wide: bool = False) -> NDArray[Any]:
        """Numbers from 0 on with P(k) proportional to exp(-k / scale), digit by digit."""
        number: NDArray[Any] = self._remainder(source, size)
        highest = int(number.max(initial=0)) + 1
        if wide or highest << (_LEVEL_BITS * len(self._digits)) > _ROOM:
            number = number.astype(object)
        for digit in reversed(self._digits):
            number <<= _LEVEL_BITS
            number += digit.draw(source, size)
        return number

    def _remainder(self, source: Source, size: int) -> NDArray[np.int64]:
        """A geometric number without bound: its last outcome says "256, and what is drawn next"."""
        total = self._top.draw(source, size).astype(np.int64)
        rows = np.flatnonzero(total == BASE)
        while len(rows):
            more = self._top.draw(source, len(rows)).astype(np.int64)
            total[rows] += more
            rows = rows[more == BASE]
        return total


@lru_cache(maxsize=32)
def _sampler(scale: Fraction) -> _Sampler:
    return _Sampler(scale)


def _sign_floors(scale: Fraction) -> Floors:
    """Minus below q / (1 + q), plus from 1 / (1 + q) on, zero between, with q = exp(-1 / scale)."""

    def enclose(precision: int) -> list[Enclosure]:
        one = 1 << precision
        low, high = exponential(1 / scale, precision)
        all_ = (one + low, one + high)
        return [quotient((low, high), all_, precision), quotient((one, one), all_, precision)]

    return _irrational(enclose)


def _digit_floors(scale: Fraction) -> Floors:
    """A digit is below d with probability (1 - r**d) / (1 - r**256), with r = exp(-1 / scale)."""

    def enclose(precision: int) -> list[Enclosure]:
        below = _below(scale, precision)
        return [quotient(part, below[BASE], precision) for part in below[1:BASE]]

    return _irrational(enclose)


def _top_floors(scale: Fraction) -> Floors:
    """A geometric number is below d with probability 1 - r**d, with r = exp(-1 / scale)."""
    return _irrational(lambda precision: _below(scale, precision)[1:])


def _below(scale: Fraction, precision: int) -> list[Enclosure]:
    """1 - r**d for d from 0 to 256."""
    one = 1 << precision
    ratios = powers(exponential(1 / scale, precision), BASE, precision)
    return [(one - high, one - low) for low, high in ratios]


def _irrational(enclose: Callable[[int], list[Enclosure]]) -> Floors:
    """Floors of cuts that are never exact, because e to a rational power other than 0 is
    transcendental.
    """

    def whole(bits: int) -> tuple[list[int], list[bool]]:
        found = floors(enclose, bits)
        return found, [False] * len(found)

    return whole
