"""The error law of an average: the ratio of a noisy sum and a noisy count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from scumble.estimators.ratio_law import NEAR_ZERO, cut, limits


@dataclass(frozen=True)
class Average:
    """`total / count`, each with discrete Laplace noise; `least` and `most` are what is averaged.

    A ratio r is in the interval if `total - r · count` is within its own error (Fieller): a sum of
    two Laplace noises, whose tails lie between the normal law's and those of one Laplace noise. The
    larger of the two reaches holds for both.
    """

    total: float
    count: float
    of_total: float  # variances
    of_count: float
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
        return () if self.count * self.count >= 9 * self.of_count else (NEAR_ZERO,)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        if not self.count:
            return -math.inf, math.inf
        ends = limits(self.value, self.count, lambda ratio: self._reach(ratio, level))
        return cut(ends, self.value, self.least, self.most)

    def _reach(self, ratio: float, level: float) -> float:
        spread = math.sqrt(self.of_total + ratio * ratio * self.of_count)
        normal = NormalDist().inv_cdf((1 + level) / 2)
        laplace = -math.log(1 - level) / math.sqrt(2)
        return max(normal, laplace) * spread
