"""The error law of a count over groups whose values are known, but not which row has which.

Of a group of `size` rows, `rows` satisfy one part of a question and `values` of its values the
other. If every way to hand the values to the rows is equally likely, the number of rows that
satisfy both is hypergeometric, and groups are independent of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

# Beyond this spread the normal law takes over. Its tails are then wrong by less than
# 0.56 / 200 = 0.3 % (Berry-Esseen: a hypergeometric number is a sum of independent indicators).
_EXACT_SPREAD = 200.0
# Tails are found by a Fourier transform to about ten digits.
_LEAST_TAIL = 1e-9


@dataclass(frozen=True, eq=False)
class GroupedCount:
    """So many groups, `times`, of each kind: rows, values and size."""

    rows: Integers
    values: Integers
    sizes: Integers
    times: Integers

    @classmethod
    def of_nothing(cls) -> GroupedCount:
        """The law of a count that no group can add to."""
        return cls(*(np.empty(0, np.int64) for _ in range(4)))

    @property
    def value(self) -> float:
        return float(np.sum(self.times * self.rows * self.values / self.sizes))

    @property
    def variance(self) -> float:
        chosen = self.rows * (self.sizes - self.rows) / self.sizes
        wanted = self.values * (self.sizes - self.values) / self.sizes
        return float(np.sum(self.times * chosen * wanted / np.maximum(self.sizes - 1, 1)))

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    @property
    def limits(self) -> tuple[int, int]:
        """What the count surely is at least and at most, however the values are spread."""
        least = np.maximum(self.rows + self.values - self.sizes, 0)
        most = np.minimum(self.rows, self.values)
        return int(np.sum(self.times * least)), int(np.sum(self.times * most))

    @property
    def exact(self) -> bool:
        """Whether the interval comes from the exact law."""
        return self.stderr <= _EXACT_SPREAD

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """Leaves out at most half of 1 - level at either end."""
        least, most = self.limits
        tail = (1 - level) / 2
        if tail < _LEAST_TAIL:
            return float(least), float(most)
        if self.exact:
            low, high = self._quantiles(tail)
        else:
            half = NormalDist().inv_cdf(1 - tail) * self.stderr + 0.5
            low, high = self.value - half, self.value + half
        return min(max(low, least), value), max(min(high, most), value)

    def _quantiles(self, tail: float) -> tuple[float, float]:
        """The limits of the counts that are left when the tails are cut off."""
        start, law = self._law()
        below = np.cumsum(law)
        low = int(np.searchsorted(below, tail, side="right"))
        above = np.cumsum(law[::-1])
        high = len(law) - 1 - int(np.searchsorted(above, tail, side="right"))
        return float(start + low), float(start + high)

    def _law(self) -> tuple[int, npt.NDArray[np.float64]]:
        """The probabilities of all counts from the first on that matter: the product of the
        characteristic functions, transformed back.
        """
        least, most = self.limits
        reach = math.ceil(12 * self.stderr) + 40
        start = max(least, math.floor(self.value) - reach)
        stop = min(most, math.ceil(self.value) + reach)
        points = 1 << (stop - start + 1).bit_length()
        angles = np.exp(-2j * np.pi * np.arange(points // 2 + 1) / points)
        product = np.ones(len(angles), complex)
        shift = -start
        kinds = zip(self.rows, self.values, self.sizes, self.times, strict=True)
        for rows, values, size, times in kinds:
            first, law = _hypergeometric(int(rows), int(values), int(size))
            product *= np.polynomial.polynomial.polyval(angles, law) ** int(times)
            shift += first * int(times)
        turn = np.exp(-2j * np.pi * (np.arange(len(angles)) * (shift % points) % points) / points)
        law = np.fft.irfft(product * turn, points)[: stop - start + 1]
        return start, np.clip(law, 0.0, None)


def reach(variance: float, largest: float, level: float) -> float:
    """How far off a sum over groups may be at this level: the normal law of its variance, which is
    known and not estimated, a correction for skewness, and half a swap for sums that jump. The
    `largest` is what the sum changes by at most if two rows of a group swap their values.

    A sum of independent errors of at most `largest` has a third moment of at most largest ·
    variance, so that its Cornish-Fisher term is at most largest · (z² - 1) / 6. This is no theorem,
    but enumeration found no case that covers less than its level (0.5 to 0.999): 1 to 60 groups of
    2 to 5 rows, counts and amounts of one or both signs, single rows that outweigh all others.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    return z * math.sqrt(variance) + largest * (max(z * z - 1, 0.0) / 6 + 0.5)


def _hypergeometric(rows: int, values: int, size: int) -> tuple[int, npt.NDArray[Any]]:
    """The least number of rows that can get one of the values, and the probabilities from it on."""
    first, last = max(0, rows + values - size), min(rows, values)
    ways = [
        math.comb(rows, number) * math.comb(size - rows, values - number)
        for number in range(first, last + 1)
    ]
    return first, np.array([way / math.comb(size, values) for way in ways])
