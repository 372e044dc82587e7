"""Fieller ratio, score interval of a sum.

Error laws of an average: the ratio of two estimates whose errors are known together.

A ratio r is in the interval if `total - r * count`, whose mean is zero for the true ratio, is
within its own error (Fieller). It is the delta method's interval when the count is large against
its error; when the count is not, the delta method promises too much and this one widens, up to all
that an average can be when the count may be zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

# The error law of a sum of independent weights that a channel made of the true amounts.
#
# The variance is estimated from the same rows as the sum, so it is low when the sum is low: with
# few rows behind an answer the normal law promises far too much. What a single row can change at
# most bounds this. If the sum is wrong by t, its estimated variance is wrong by about `largest *
# t` at most, as it is for Poisson counts, and so t is held against the variance plus that much.


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


_DOUBLINGS = 60
_HALVINGS = 40  # the limits are found to a part in 10^12 of the width, and rounded outwards

NEAR_ZERO = "the number of rows behind this average may be zero: do not rely on it"


@dataclass(frozen=True)
class Ratio:
    """`total / count` of two sums of weights. The standard error is the delta method's.

    `bends` are three ratios in rising order, the outer two the limits of the averaged amount, and
    `largest` is what one row can change `total - r * count` by at each of them, `slope` how fast
    that grows beyond. It is convex in r, so straight lines between the three are above it.
    """

    total: float
    count: float
    variances: tuple[float, float, float]  # of total, of count, and their covariance
    bends: tuple[float, float, float]
    largest: tuple[float, float, float]
    slope: float
    reach: Callable[[float, float, float], float] = reach  # by variance, largest and level

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def stderr(self) -> float:
        return math.sqrt(self._variance(self.value)) / abs(self.count) if self.count else math.inf

    @property
    def notes(self) -> tuple[str, ...]:
        """A warning, if the count is within three standard errors of zero."""
        return () if self.count * self.count >= 9 * self.variances[1] else (NEAR_ZERO,)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        ends = limits(
            self.value, self.count, lambda r: self.reach(self._variance(r), self._largest(r), level)
        )
        return cut(ends, self.value, self.bends[0], self.bends[2])

    def _variance(self, ratio: float) -> float:
        """Of total - ratio * count."""
        total, count, both = self.variances
        return max(total - 2 * ratio * both + ratio * ratio * count, 0.0)

    def _largest(self, ratio: float) -> float:
        low, middle, high = self.bends
        if not low < ratio < high:
            end = 0 if ratio <= low else 2
            return self.largest[end] + self.slope * abs(ratio - self.bends[end])
        place = 0 if ratio < middle else 1
        share = (ratio - self.bends[place]) / (self.bends[place + 1] - self.bends[place])
        return self.largest[place] * (1 - share) + self.largest[place + 1] * share


@dataclass(frozen=True, eq=False)
class NoisyRatio:
    """`weights @ noisy / sum(noisy)`, where `noisy` has `cells` independent noises for each weight.

    total - r * count has noise of weights `weights - r`. Its law is close to normal with heavier
    tails, which the Cornish-Fisher expansion adds by its kurtosis, and with jumps of at most the
    largest weight, of which half is added. Against the exact law this covers at least its level for
    every number of cells, 1 included, and any scale of the noise (tried from 1/7 to 20). Where the
    second or the fourth moment alone proves a smaller error, that one holds.
    """

    total: float
    count: float
    variance: float  # of the noise of one cell; two-sided geometric
    weights: npt.NDArray[np.float64]
    cells: npt.NDArray[np.float64]

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def stderr(self) -> float:
        if not self.count:
            return math.inf
        squares = float(self.cells @ (self.weights - self.value) ** 2)
        return math.sqrt(self.variance * squares) / abs(self.count)

    @property
    def notes(self) -> tuple[str, ...]:
        """A warning, if the count is within three standard errors of zero."""
        safe = self.count * self.count >= 9 * self.variance * float(self.cells.sum())
        return () if safe else (NEAR_ZERO,)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        ends = limits(self.value, self.count, lambda r: self._reach(r, level))
        return cut(ends, self.value, float(self.weights.min()), float(self.weights.max()))

    def _reach(self, ratio: float, level: float) -> float:
        squares = (self.weights - ratio) ** 2
        total = float(self.cells @ squares)
        stderr = math.sqrt(self.variance * total)
        if not stderr:
            return 0.0
        # The fourth moment of one noise is 3 + 1 / variance beyond that of the normal law.
        excess = (3 + 1 / self.variance) * float(self.cells @ squares**2) / total**2
        z = NormalDist().inv_cdf((1 + level) / 2)
        # The expansion's term is z³ - 3z; 0.35 more makes up for the terms after it.
        expanded = z + excess * (max(z**3 - 3 * z, 0.0) + 0.35) / 24
        half = math.sqrt(float(squares.max())) / 2
        proven: float = min((1 - level) ** -0.5, ((3 + excess) / (1 - level)) ** 0.25)
        return min(expanded * stderr + half, proven * stderr)


def cut(
    limits: tuple[float, float], value: float, least: float, most: float
) -> tuple[float, float]:
    """An average lies between the least and the most that is averaged; the estimate stays in."""
    return min(max(limits[0], least), value), max(min(limits[1], most), value)


def limits(value: float, count: float, within: Callable[[float], Any]) -> tuple[float, float]:
    """The ends of the ratios r around `value` with |value - r| * |count| <= within(r)."""
    step = float(within(value)) / abs(count)
    if not step:
        return value, value
    ends = []
    for sign in (-1, 1):
        outside = step
        for _ in range(_DOUBLINGS):
            if outside * abs(count) > within(value + sign * outside):
                break
            outside *= 2
        else:
            return -math.inf, math.inf
        inside = 0.0
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            if middle * abs(count) > within(value + sign * middle):
                outside = middle
            else:
                inside = middle
        ends.append(value + sign * outside)
    return ends[0], ends[1]
