"""A weighted sum of cells as a reader of measurements finds it, and the laws of its error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

from scumble.public.estimation.interval_laws import NEAR_ZERO, cut, limits
from scumble.public.estimation.measurements.readings import Weights


@dataclass(frozen=True)
class Reading:
    """An estimate of a weighted sum of counts: a sum of independent noises away from the truth.

    With noises of fourth cumulants κᵢ and coefficients cᵢ, `fourth` is Σ κᵢ cᵢ⁴ and `largest` is
    the largest |cᵢ|. `notes` are what the asker should know beside the noise.
    """

    value: float
    variance: float
    fourth: float = 0.0
    largest: float = 0.0
    notes: tuple[str, ...] = ()


class Reader(Protocol):
    """The measurements of one release, ready to be asked for weighted sums of cells."""

    method: str

    def read(self, weights: Weights) -> Reading: ...

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
        """Two readings, and the covariance of their errors."""
        ...


@dataclass(frozen=True)
class NoisyTotal:
    """The law of the error of a reading: close to normal, with heavier tails."""

    reading: Reading

    @property
    def stderr(self) -> float:
        return math.sqrt(self.reading.variance)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        found = self.reading
        half = reach(found.variance, found.fourth, found.largest, level)
        return value - half, value + half


@dataclass(frozen=True)
class NoisyShare:
    """The law of the ratio of two readings (Fieller), within `least` and `most`."""

    total: Reading
    count: Reading
    covariance: float
    least: float
    most: float
    centred: Reading | None = None  # of total - value * count, if it was read

    @property
    def value(self) -> float:
        return self.total.value / self.count.value if self.count.value else math.nan

    @property
    def stderr(self) -> float:
        if not self.count.value:
            return math.inf
        return math.sqrt(self._variance(self.value)) / abs(self.count.value)

    @property
    def notes(self) -> tuple[str, ...]:
        """A warning, if the count is within three standard errors of zero."""
        safe = self.count.value**2 >= 9 * self.count.variance
        return () if safe else (NEAR_ZERO,)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        ends = limits(self.value, self.count.value, lambda ratio: self._reach(ratio, level))
        return cut(ends, self.value, self.least, self.most)

    def _variance(self, ratio: float) -> float:
        """Of total - ratio * count."""
        own = self.total.variance + ratio * ratio * self.count.variance
        return max(own - 2 * ratio * self.covariance, 0.0)

    def _reach(self, ratio: float, level: float) -> float:
        # Σ κ (a - r b)⁴ is the fourth power of a norm: it is at most that of the sum of norms, of
        # the coefficients at some ratio and of what the distance from it adds.
        near, known = (self.total, 0.0) if self.centred is None else (self.centred, self.value)
        away = abs(ratio - known)
        norms = near.fourth**0.25 + away * self.count.fourth**0.25
        largest = near.largest + away * self.count.largest
        return reach(self._variance(ratio), norms**4, largest, level)


def reach(variance: float, fourth: float, largest: float, level: float) -> float:
    """How far a sum of independent symmetric noises is from zero with probability `level` at most.

    The Cornish-Fisher expansion by the kurtosis, 0.35 more for the terms after it, and half the
    largest jump. Where the second or the fourth moment alone proves a smaller error, that one
    holds. The expansion is not proved to cover its level; it did in every case that was tried
    against the exact law: one and two discrete Laplace noises, 16 of equal and up to 41 of unequal
    coefficients, at scales from 1/3 to 40/3 and levels from 0.5 to 0.999.
    """
    if variance <= 0:
        return 0.0
    stderr = math.sqrt(variance)
    excess = fourth / variance**2
    z = NormalDist().inv_cdf((1 + level) / 2)
    expanded = z + excess * (max(z**3 - 3 * z, 0.0) + 0.35) / 24
    proven: float = min((1 - level) ** -0.5, ((3 + excess) / (1 - level)) ** 0.25)
    return min(expanded * stderr + largest / 2, proven * stderr)
