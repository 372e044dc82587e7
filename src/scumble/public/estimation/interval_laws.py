"""Error laws that several estimators share: score intervals of sums, Fieller intervals of averages.

| law            | of what                                                                     |
|----------------|-----------------------------------------------------------------------------|
| `WeightedSum`  | a sum of independent weights, its variance estimated from the same rows      |
| `FiellerRatio` | an average: the ratio of two estimates whose errors are known together       |
| `Ratio`        | the `FiellerRatio` of two sums of weights                                    |
| `ComplementLaw` | a known number less an estimate                                             |
| `Selected`     | one of several estimates, chosen after all were seen                         |

`noise_half_width` bounds a sum of independent symmetric noises by its second and fourth cumulants.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from statistics import NormalDist

from scumble.public.estimate import LEVEL, Anywhere, Estimate, Law

WINNERS = "the largest of noisy counts are on average too large; intervals hold for all together"
NEAR_ZERO = "the number of rows behind this average may be zero: do not rely on it"
NO_VALUE = "the number of rows behind this average may be zero, so it has no value"

_DOUBLINGS = 60
_HALVINGS = 40  # the limits are found to a part in 10^12 of the width, and rounded outwards


def score_half_width(variance: float, largest: float, level: float) -> float:
    """Return the largest t with t² <= z² (variance + largest · t), plus half of `largest`.

    `variance` is estimated, and `largest` is what one row can change the sum by. The variance is
    estimated from the same rows as the sum, so it is low when the sum is low: with few rows behind
    an answer the normal law promises far too much. If the sum is wrong by t, its estimated variance
    is wrong by about `largest · t` at most, as it is for Poisson counts; so t is compared with the
    variance plus that much. The half of `largest` is for sums that jump.

    With many rows this is the normal law's z standard errors; for counts of rare events it is the
    score interval of a Poisson mean, on both sides. This is no theorem, but enumeration and
    simulation found no case that covers less than its level (0.5 to 0.999): one to three channels,
    keep 0.0001 to 0.998, 1 to a million rows, amounts of one or both signs, single rows that
    outweigh all others. The mean deviation of a row in place of the largest would not do.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    drift = z * z * largest / 2
    return drift + math.sqrt(drift * drift + z * z * variance) + largest / 2


def noise_half_width(variance: float, fourth: float, largest: float, level: float) -> float:
    """Return how far a sum of independent symmetric noises is from zero with probability `level`.

    `variance` and `fourth` are its second and fourth cumulants, and `largest` is its largest
    coefficient.

    This is the Cornish-Fisher expansion by the kurtosis, 0.35 more for the terms after it, and half
    the largest jump. Where the second or the fourth moment alone proves a smaller error, that one
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


@dataclass(frozen=True)
class WeightedSum:
    """The law of a sum of independent weights that a channel made of the true amounts.

    `variance` is the estimated variance of the sum, and `largest` the largest error that one row
    can add to it.
    """

    variance: float
    largest: float

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        half = score_half_width(self.variance, self.largest, level)
        return value - half, value + half


@dataclass(frozen=True)
class ComplementLaw:
    """The law of the known number `whole` less an estimate, whose own law is `law`."""

    law: Law
    whole: float

    @property
    def stderr(self) -> float:
        return self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.law.interval(self.whole - value, level)
        return self.whole - high, self.whole - low


@dataclass(frozen=True)
class Selected:
    """The law of one of `many` numbers that was chosen after all were seen, however it was chosen:
    all of them are in their intervals together at the level, by the union bound.
    """

    law: Law
    many: int

    @property
    def stderr(self) -> float:
        return self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return self.law.interval(value, 1 - (1 - level) / self.many)


class AverageLaw(ABC):
    """The law of `total / count`, with the standard error of the delta method."""

    @property
    @abstractmethod
    def parts(self) -> tuple[float, float]:
        """The estimated total and count."""

    @property
    @abstractmethod
    def count_variance(self) -> float:
        """The variance of the estimated count."""

    @abstractmethod
    def variance(self, ratio: float) -> float:
        """Return the variance of `total - ratio * count`."""

    @abstractmethod
    def interval(self, value: float, level: float) -> tuple[float, float]: ...

    @property
    def value(self) -> float:
        """The ratio; NaN if the count is zero."""
        total, count = self.parts
        return total / count if count else math.nan

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """The least and the largest amount that is averaged."""

    @abstractmethod
    def unbounded(self, level: float) -> bool:
        """Return whether the count may be zero at a level: then any ratio is possible."""

    @property
    def few(self) -> bool:
        """Whether there are so few people that the ratio is nothing but noise."""
        if not self.parts[1] > 0:
            return True
        return bool(self.notes) and self.unbounded(LEVEL)

    def estimate(self, method: str, notes: tuple[str, ...]) -> Estimate:
        """Return the average; without a value if there are too few people."""
        if self.few:
            return Estimate(math.nan, Anywhere(*self.limits), method, (*notes, NO_VALUE))
        return Estimate(self.value, self, method, (*notes, *self.notes))

    @property
    def stderr(self) -> float:
        _, count = self.parts
        return math.sqrt(self.variance(self.value)) / abs(count) if count else math.inf

    @property
    def notes(self) -> tuple[str, ...]:
        """A warning, if the count is within three standard errors of zero."""
        _, count = self.parts
        safe = count and count * count >= 9 * self.count_variance
        return () if safe else (NEAR_ZERO,)


class FiellerRatio(AverageLaw):
    """An `AverageLaw` with Fieller's interval, cut to the limits of what is averaged.

    A ratio r is in the interval if `total - r * count`, whose mean is zero for the true ratio, is
    within its own error. This is the delta method's interval when the count is large against its
    error. When the count is not, the delta method promises too much and this interval widens, up to
    all that an average can be when the count may be zero.
    """

    def unbounded(self, level: float) -> bool:
        """Return whether very large ratios are within the error of `total - r * count`."""
        count, value = abs(self.parts[1]), self.value
        far = self.half_width(value, level) / count * 2.0 ** (_DOUBLINGS - 1)
        return any(far * count < self.half_width(value + side * far, level) for side in (-1, 1))

    @property
    def possible(self) -> tuple[float, float]:
        """The least and the largest average that there can be."""
        return self.limits

    @abstractmethod
    def half_width(self, ratio: float, level: float) -> float:
        """Return what the error of `total - ratio * count` keeps with probability `level`."""

    def interval(self, value: float, level: float) -> tuple[float, float]:
        if not self.parts[1]:
            return self.limits
        return clipped(self._ends(level), self.value, *self.limits)

    def _ends(self, level: float) -> tuple[float, float]:
        """Find the ends of the ratios r around the value with |value - r| · |count| in bounds."""
        value, count = self.value, abs(self.parts[1])
        step = self.half_width(value, level) / count
        if not step:
            return value, value
        ends = []
        for sign in (-1, 1):
            outside = step
            for _ in range(_DOUBLINGS):
                if outside * count > self.half_width(value + sign * outside, level):
                    break
                outside *= 2
            else:
                return -math.inf, math.inf
            inside = 0.0
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                if middle * count > self.half_width(value + sign * middle, level):
                    outside = middle
                else:
                    inside = middle
            ends.append(value + sign * outside)
        return ends[0], ends[1]


def clipped(
    interval: tuple[float, float], value: float, least: float, most: float
) -> tuple[float, float]:
    """Return `interval` cut to [`least`, `most`], and then widened to hold `value`."""
    return min(max(interval[0], least), value), max(min(interval[1], most), value)


@dataclass(frozen=True)
class Limited:
    """The law `law` of an estimate of a number between `least` and `most`; see `clipped`."""

    law: Law
    least: float
    most: float

    @property
    def stderr(self) -> float:
        return self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return clipped(self.law.interval(value, level), value, self.least, self.most)


@dataclass(frozen=True)
class Ratio(FiellerRatio):
    """The ratio of two sums of weights.

    `variances` are those of the total and of the count, and their covariance. `amounts` are three
    amounts in rising order, the outer two the limits of what is averaged. `largest` is what one row
    can change `total - r * count` by, for r at each of the three, and `slope` is how fast that
    grows beyond them. It is convex in r, so that straight lines between the three are above it.
    """

    total: float
    count: float
    variances: tuple[float, float, float]
    amounts: tuple[float, float, float]
    largest: tuple[float, float, float]
    slope: float

    @property
    def parts(self) -> tuple[float, float]:
        return self.total, self.count

    @property
    def limits(self) -> tuple[float, float]:
        return self.amounts[0], self.amounts[2]

    @property
    def count_variance(self) -> float:
        return self.variances[1]

    def variance(self, ratio: float) -> float:
        total, count, both = self.variances
        return max(total - 2 * ratio * both + ratio * ratio * count, 0.0)

    def half_width(self, ratio: float, level: float) -> float:
        return score_half_width(self.variance(ratio), self._largest(ratio), level)

    def _largest(self, ratio: float) -> float:
        """Return a bound on what one row can change `total - ratio * count` by."""
        low, middle, high = self.amounts
        if not low < ratio < high:
            end = 0 if ratio <= low else 2
            return self.largest[end] + self.slope * abs(ratio - self.amounts[end])
        place = 0 if ratio < middle else 1
        share = (ratio - self.amounts[place]) / (self.amounts[place + 1] - self.amounts[place])
        return self.largest[place] * (1 - share) + self.largest[place + 1] * share
