"""The error law of a sum of independent weights that a channel made of the true amounts.

The variance is estimated from the same rows as the sum, so it is low when the sum is low: with few
rows behind an answer the normal law promises far too much. What a single row can change at most
bounds this. If the sum is wrong by t, its estimated variance is wrong by about `largest * t` at
most, as it is for Poisson counts, and so t is held against the variance plus that much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist


def reach(variance: float, largest: float, level: float) -> float:
    """The largest t with t² <= z² (variance + largest · t), and half a row for sums that jump.

    With many rows this is the normal law's z standard errors; for counts of rare events it is the
    score interval of a Poisson mean, on both sides. This is no theorem, but enumeration and
    simulation found no case that covers less than its level (0.5 to 0.999): one to three channels,
    keep 0.0001 to 0.998, 1 to a million rows, amounts of one or both signs, single rows that
    outweigh all others. The mean deviation of a row in place of the largest would not do.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    drift = z * z * largest / 2
    return drift + math.sqrt(drift * drift + z * z * variance) + largest / 2


@dataclass(frozen=True)
class WeightedSum:
    """The estimated variance of a sum, the largest error that one row can add to it, and how far
    off these let it be.
    """

    variance: float
    largest: float
    reach: Callable[[float, float, float], float] = reach  # by variance, largest and level

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        half = self.reach(self.variance, self.largest, level)
        return value - half, value + half
