"""How what is paid for a sum or an average is shared between its two parts.

With S the sum of a line, N the count of its rows, and K the covariances of what is known of them,
the error of scale · S + (middle - ratio) · N has a variance of K and two coefficients. Measuring S
with precision p and N with precision q leaves (K⁻¹ + diag(p, q))⁻¹ of K: convex in p and q, and
so along any split of a price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scumble.private.database.live.lines import Total
from scumble.private.database.live.terms import UNITS
from scumble.public.estimate import Law
from scumble.public.estimation.interval_laws import AverageLaw
from scumble.public.estimation.measurements.readings import (
    LinearReading,
    NoisyAverage,
    NoisyTotal,
)

_SECTIONS = 32  # of a price, each to a third less: to a millionth
_FAR = 3  # standard errors: a count is taken for no less


@dataclass(frozen=True)
class Joint:
    """What is known of the sum of a line, of the count of its rows, and of both errors together."""

    line: LinearReading
    count: LinearReading
    covariance: float

    def law(self, total: Total) -> tuple[Law | AverageLaw, float]:
        """Return the law and the value of a sum or an average."""
        reading = self.less(total, 0.0)
        if not total.average:
            return NoisyTotal(reading), reading.value
        both = total.scale * self.covariance + total.middle * self.count.variance
        ratio = reading.value / self.count.value if self.count.value else 0.0
        centred = self.less(total, ratio)
        law = NoisyAverage(reading, self.count, both, *total.limits, centred)
        return law, law.value

    def less(self, total: Total, ratio: float) -> LinearReading:
        """Return the reading of the sum, less the count times a ratio."""
        scale, times = total.scale, total.middle - ratio
        variance = (
            scale**2 * self.line.variance
            + times**2 * self.count.variance
            + 2 * scale * times * self.covariance
        )
        # A fourth root of a fourth cumulant is a norm. Readings of one reader have the same noise.
        norms = abs(scale) * self.line.fourth**0.25 + abs(times) * self.count.fourth**0.25
        both = abs(scale) * self.line.largest, abs(times) * self.count.largest
        return LinearReading(
            scale * self.line.value + times * self.count.value,
            max(variance, 0.0),
            norms**4,
            sum(both) if self.covariance else max(both),
        )


@dataclass(frozen=True)
class PairedVariance:
    """Covariances of a line and a count, the coefficients of both in the error, and its `largest`
    one; `times` is what an error of the answer is multiplied by to be one of the sum.
    """

    line: float
    both: float
    count: float
    coefficients: tuple[float, float]
    times: float
    largest: float

    @classmethod
    def of(cls, known: Joint, total: Total) -> PairedVariance:
        """Where an average has too few rows to be told, they are taken for as many as there may be,
        and the average for the middle.
        """
        ratio, times = 0.0, 1.0
        if total.average:
            least = _FAR * math.sqrt(known.count.variance)
            times = max(known.count.value, least)
            if times <= 0:
                times = 1.0
            ratio = total.middle
            if known.count.value > least:
                ratio += total.scale * known.line.value / known.count.value
            ratio = min(max(ratio, total.limits[0]), total.limits[1])
        coefficients = total.scale, total.middle - ratio
        own = known.line.variance, known.covariance, known.count.variance
        return cls(*own, coefficients, times, known.less(total, ratio).largest)

    @property
    def now(self) -> float:
        return self.left(math.inf, math.inf)

    def left(self, line: float, count: float) -> float:
        """Return the variance that is left after both were measured with noise of these variances,
        infinite for what is not measured.
        """
        a, b, c = self.line, self.both, self.count
        if math.isfinite(count) and c > 0:
            a, b, c = a - b * b / (c + count), b * count / (c + count), c * count / (c + count)
        if math.isfinite(line) and a > 0:
            a, b, c = a * line / (a + line), b * line / (a + line), c - b * b / (a + line)
        one, other = self.coefficients
        return max(one * one * a + 2 * one * other * b + other * other * c, 0.0)


@dataclass(frozen=True)
class Split:
    """Shares a price in units; `line` and `count` are the variances of the noise of one unit."""

    known: PairedVariance
    line: float
    count: float

    def best(self, units: int) -> tuple[tuple[int, int], float]:
        """Return the units of the line and of the count that leave the least variance, and that."""
        low, high = 0.0, float(units)
        for _ in range(_SECTIONS):
            third = (high - low) / 3
            if self._left(low + third, units) <= self._left(high - third, units):
                high -= third
            else:
                low += third
        tried = {0, units, math.floor(low), math.ceil(high)}
        left, spent = min((self._left(each, units), each) for each in tried)
        return (spent, units - spent), left

    def least(self, target: float) -> int:
        """Return the least price that leaves no more than this variance; more than there is if none
        does.
        """
        low, high = 0, UNITS + 1
        while high - low > 1:
            price = (low + high) // 2
            if self.best(price)[1] <= target:
                high = price
            else:
                low = price
        return high

    def _left(self, line: float, units: int) -> float:
        one, other = line, units - line
        return self.known.left(
            self.line / one + _ROUNDED if one > 0 else math.inf,
            self.count / other + _ROUNDED if other > 0 else math.inf,
        )


_ROUNDED = 1 / 12  # what rounding adds to a variance
