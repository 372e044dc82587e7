"""The error law of a sum of inverted values, corrected for skewness and for an estimated variance.

The estimated variance V of a sum T is made of the same rows as T. To second order the limits of a
normal law move by

    shift(z) = b z²/2 - g (z² - 1)/6,    b = Cov[T, V] / Var[T],    g = κ3[T] / Var[T],

both upwards if it is positive (for a Poisson count b = g = 1, and this is the expansion of its
exact limits). What V has in error besides b(T - θ) makes z a quantile of Student's law. b and g are
averages over the rows, so that the least and the largest ratio of one row bound them; a limit is
moved outwards by the larger bound and never inwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from scumble.model.evidence.channels import Tensor
from scumble.public.estimation.interval_laws import score_half_width
from scumble.public.estimation.rows.inverse_channels import InverseChannel

# The expansion is used where one row can change the sum by at most 1.5 standard errors. Up to 3 it
# gives way to the score interval, which needs no such bound.
_EXPANDED, _SCORE = 1.5, 3.0
_TINY = 1e-13  # of the largest variance of a row: rounding alone


@dataclass(frozen=True)
class CorrectedSum:
    """The law of a sum of independent weights, about rows of which none outweighs the others.

    `variance` is the estimated variance and `largest` what one row can change the sum by. `slopes`
    and `skews` bound b and g; `spread` bounds the standard error of the rest of the variance, in
    units of that of the sum; `step` is the distance between possible values of the sum.

    It covers its level in all cases that the tests enumerate, at 90, 95 and 99 %; the limits 1.5
    and 3 were chosen by such cases, and it is no theorem. Where `largest` is more than three
    standard errors it is the score interval.
    """

    variance: float
    largest: float
    slopes: tuple[float, float]
    skews: tuple[float, float]
    spread: float
    step: float

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        score = score_half_width(self.variance, self.largest, level)
        share = self._share()
        if share == 0:
            return value - score, value + score
        down, up = (share * half + (1 - share) * score for half in self._halves(level))
        return value - down, value + up

    def _share(self) -> float:
        """Return the weight of the expansion; the rest is that of the score interval."""
        if self.largest >= _SCORE * self.stderr:
            return 0.0
        steps = self.largest / self.stderr
        return min((_SCORE - steps) / (_SCORE - _EXPANDED), 1.0)

    def _halves(self, level: float) -> tuple[float, float]:
        """Return the distances of the lower and the upper limit from the estimate."""
        z = NormalDist().inv_cdf((1 + level) / 2)
        freedom = 2 * self.variance / self.spread**2 if self.spread else math.inf
        half = z * (1 + (z * z + 1) / (4 * freedom)) * self.stderr + self.step / 2
        shifts = [
            slope * z * z / 2 - skew * (z * z - 1) / 6
            for slope in self.slopes
            for skew in self.skews
        ]
        return half + max(-min(shifts), 0.0), half + max(*shifts, 0.0)


class RowRatios(NamedTuple):
    """By state, ratios of the moments of the weight of one row to its variance.

    `slopes` and `skews` have the least and the largest over all true values, for `CorrectedSum`;
    `rest` is the largest standard error of the estimated variance that does not follow the weight;
    `step` is the least distance between two weights, and `variance` the largest variance.
    """

    slopes: tuple[Tensor, Tensor]
    skews: tuple[Tensor, Tensor]
    rest: Tensor
    step: Tensor
    variance: Tensor


def row_ratios(inverse: InverseChannel, tensor: Tensor) -> RowRatios:
    """Return the ratios of a row that adds `tensor` at its true value."""
    variance = inverse.covariance(tensor, tensor)
    joint = inverse.covariance(tensor, variance)
    certain = variance <= _TINY * variance.max(initial=0.0)

    def range_of(moment: Tensor) -> tuple[Tensor, Tensor]:
        ratio = np.divide(moment, variance, out=np.zeros_like(variance), where=~certain)
        return inverse.least(ratio), inverse.most(ratio)

    slopes = range_of(joint)
    follows = np.divide(joint, variance, out=np.zeros_like(variance), where=~certain) * joint
    _, rest = range_of((inverse.covariance(variance, variance) - follows).clip(0))
    third = inverse.third_moment(tensor)
    largest = inverse.deviation(tensor)
    skews = (-largest, largest) if third is None else range_of(third)
    step, most = _least_gap(inverse, tensor), inverse.most(variance)
    return RowRatios(slopes, skews, np.sqrt(rest.clip(0)), step, most)


def _least_gap(inverse: InverseChannel, tensor: Tensor) -> Tensor:
    """Return the least distance of two different weights of shown values, by state."""
    weights = np.sort(inverse.masked(inverse.invert(tensor), np.nan), axis=1)
    gaps = np.diff(weights, axis=1)
    near = 1e-9 * np.nanmax(np.abs(weights), axis=1, initial=0.0, keepdims=True)
    gaps = np.where(gaps > near, gaps, np.inf)
    least: Tensor = gaps.min(axis=1, initial=np.inf)
    return np.where(np.isfinite(least), least, 0.0)
