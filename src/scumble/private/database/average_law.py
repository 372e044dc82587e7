"""The error law of an average: the ratio of a noisy sum and a noisy count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from scumble.public.estimation.interval_laws import NEAR_ZERO, cut, limits

_MARGIN = 1.01


@dataclass(frozen=True)
class Average:
    """`total / count`, each the sum of some numbers with discrete Laplace noise; `least` and `most`
    are what is averaged.

    A ratio r is in the interval if `total - r · count` is within its own error (Fieller). Discrete
    Laplace noise is a difference of two rounded-down exponential times, so it is within 1 of
    Laplace noise of the same scale. And a sum of independent Laplace noises, measured by its
    standard deviation, reaches at a given level as far as the normal law or as far as one Laplace
    noise, whichever is farther: at 91 %, where the two cross, it is beyond both by less than a
    thousandth, for which there is a margin.
    """

    total: float
    count: float
    of_total: float  # variances
    of_count: float
    terms: tuple[int, int]  # how many noisy numbers make up the total, and the count
    least: int
    most: int

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def stderr(self) -> float:
        if not self.count:
            return math.inf
        return math.sqrt(self.of_total + self.value**2 * self.of_count) / abs(self.count)

    @property
    def notes(self) -> tuple[str, ...]:
        """A warning, if the count is within three standard errors of zero."""
        near = not self.count or self.count * self.count < 9 * self.of_count
        return (NEAR_ZERO,) if near else ()

    def interval(self, value: float, level: float) -> tuple[float, float]:
        if not self.count:
            return float(self.least), float(self.most)
        ends = limits(self.value, self.count, lambda ratio: self.reach(ratio, level))
        return cut(ends, self.value, self.least, self.most)

    def reach(self, ratio: float, level: float) -> float:
        """A bound that the error of total - ratio · count keeps with probability `level`."""
        of_total, of_count = self.terms
        # Laplace noise of the same scale has at most 1/6 more variance than discrete noise.
        variance = self.of_total + of_total / 6 + ratio * ratio * (self.of_count + of_count / 6)
        normal = NormalDist().inv_cdf((1 + level) / 2)
        laplace = -math.log(1 - level) / math.sqrt(2)
        rounding = of_total + abs(ratio) * of_count
        return _MARGIN * max(normal, laplace) * math.sqrt(variance) + rounding
