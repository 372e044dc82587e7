"""The error law of an average: the ratio of two estimates whose errors are known together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True)
class Ratio:
    """`total / count`. The standard error is the delta method's; the interval is Fieller's.

    Fieller's interval holds every ratio r for which total - r * count is within its error of 0. It
    is the delta method's when the count is large against its error; when the count is not, the
    delta method promises too much and this one widens, up to the whole line when the count may be
    zero.
    """

    total: float
    count: float
    total_variance: float
    count_variance: float
    covariance: float

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def stderr(self) -> float:
        if not self.count:
            return math.inf
        ratio = self.value
        variance = (
            self.total_variance - 2 * ratio * self.covariance + ratio * ratio * self.count_variance
        )
        return math.sqrt(max(variance, 0.0)) / abs(self.count)

    @property
    def notes(self) -> tuple[str, ...]:
        """A warning, if the count is within three standard errors of zero."""
        if self.count * self.count >= 9 * self.count_variance:
            return ()
        return ("the number of rows behind this average may be zero: do not rely on it",)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        z = NormalDist().inv_cdf((1 + level) / 2)
        square = self.count**2 - z * z * self.count_variance
        middle = self.total * self.count - z * z * self.covariance
        rest = self.total**2 - z * z * self.total_variance
        if square <= 0:
            return -math.inf, math.inf
        root = math.sqrt(max(middle * middle - square * rest, 0.0))
        return (middle - root) / square, (middle + root) / square
