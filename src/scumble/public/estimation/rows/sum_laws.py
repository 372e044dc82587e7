"""The error law of a sum of inverted values, corrected for skewness and for an estimated variance.

The estimated variance V of a sum T is made of the same rows as T. To second order the limits of a
normal law move by

    shift(z) = b z²/2 - g (z² - 1)/6,    b = Cov[T, V] / Var[T],    g = κ3[T] / Var[T],

both upwards if it is positive (for a Poisson count b = g = 1, and this is the expansion of its
exact limits). What V has in error besides b(T - θ) makes z a quantile of Student's law. b, g and
Var[V] / Var[T] are averages over the rows, so that the least and the largest ratio of one row bound
them. They are also functions of the true values, so that the inverse channel estimates them without
bias from sums of third and fourth powers: with amounts of both signs the shifts of rows cancel,
which bounds cannot know. Estimates are used within a margin of their own error where no row
outweighs the others, and give way to the bounds elsewhere. A limit is never moved inwards.
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
# Estimated moments are used where one row can change the sum by at most one standard error; up to
# 1.5 they give way to bounds. Their margin is 0.45 of a bound of their standard error: at 0.3 some
# enumerated cases of the tests are below their level.
_ESTIMATED, _BOUNDED = 1.0, 1.5
_MARGIN = 0.45
_LATTICE = 0.3  # of the largest jump: what sums of few different amounts are taken to jump by


class Moments(NamedTuple):
    """Estimates of b, of g (nan if it is not known) and of Var[V] / Var[T] of a sum T.

    `even` is the share of the squared amounts that is not due to rows with the largest amount, and
    `jump` the distance between possible values of a sum of such rows alone.
    """

    slope: float
    skew: float
    square: float
    even: float
    jump: float


@dataclass(frozen=True)
class CorrectedSum:
    """The law of a sum of independent weights, about rows of which none outweighs the others.

    `variance` is the estimated variance and `largest` what one row can change the sum by. `slopes`
    and `skews` bound b and g; `spread` bounds the standard error of the rest of the variance, in
    units of that of the sum; `step` is the distance between possible values of the sum. `moments`
    are estimates of what is bounded, if there are some.

    It covers its level in all cases that the tests enumerate, at 90, 95 and 99 %; its constants
    were chosen by such cases, and it is no theorem. Where `largest` is more than three standard
    errors it is the score interval.
    """

    variance: float
    largest: float
    slopes: tuple[float, float]
    skews: tuple[float, float]
    spread: float
    step: float
    moments: Moments | None = None

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
        slopes, skews, spread, step = self._narrowed()
        freedom = 2 * self.variance / spread**2 if spread else math.inf
        half = z * (1 + (z * z + 1) / (4 * freedom)) * self.stderr + step / 2
        shifts = [slope * z * z / 2 - skew * (z * z - 1) / 6 for slope in slopes for skew in skews]
        return half + max(-min(shifts), 0.0), half + max(*shifts, 0.0)

    def _narrowed(self) -> tuple[tuple[float, float], tuple[float, float], float, float]:
        """Return slopes, skews, spread and step, from the estimated moments where they are good."""
        found, stderr = self.moments, self.stderr
        share = (_BOUNDED - self.largest / stderr) / (_BOUNDED - _ESTIMATED)
        if found is None or share <= 0:
            return self.slopes, self.skews, self.spread, self.step
        share = min(share, 1.0)
        steepest, skewest = max(map(abs, self.slopes)), max(map(abs, self.skews))
        most = math.hypot(steepest, self.spread)
        typical = min(math.sqrt(max(found.square, 0.0)), most)
        margin = _MARGIN * steepest * typical / stderr
        slopes = _near(found.slope, margin, self.slopes, share)
        margin = _MARGIN * max(steepest, skewest) * skewest / stderr
        skews = _near(found.skew, margin, self.skews, share)
        slope = min(max(found.slope, self.slopes[0]), self.slopes[1])
        rest = found.square - slope**2 + _MARGIN * steepest**2 * typical / stderr
        spread = min(math.sqrt(max(rest, 0.0)), self.spread)
        lattice = max(_LATTICE, 1 - math.sqrt(max(found.even, 0.0)) * stderr / found.jump)
        step = max(self.step, found.jump * lattice)
        return slopes, skews, share * spread + (1 - share) * self.spread, step


def _near(
    estimate: float, margin: float, bounds: tuple[float, float], share: float
) -> tuple[float, float]:
    """Return the interval `margin` around an estimate, within its bounds, with weight `share`; the
    rest of the weight is that of the bounds. An estimate that is not known gives the bounds.
    """
    if math.isnan(estimate):
        return bounds
    low, high = bounds
    ends = (min(max(estimate + move, low), high) for move in (-margin, margin))
    below, above = (
        share * end + (1 - share) * bound for end, bound in zip(ends, bounds, strict=True)
    )
    return below, above


class RowRatios(NamedTuple):
    """By state, ratios of the moments of the weight of one row to its variance.

    `slopes` and `skews` have the least and the largest over all true values, for `CorrectedSum`;
    `rest` is the largest standard error of the estimated variance that does not follow the weight;
    `step` is the least distance between two weights, and `variance` the largest variance. `joint`,
    `third` and `square` are moments by true value: the covariance of the weight and its estimated
    variance, the third moment of the weight (None: unknown), and the variance of that variance.
    """

    slopes: tuple[Tensor, Tensor]
    skews: tuple[Tensor, Tensor]
    rest: Tensor
    step: Tensor
    variance: Tensor
    joint: Tensor
    third: Tensor | None
    square: Tensor


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
    square = inverse.covariance(variance, variance)
    _, rest = range_of((square - follows).clip(0))
    third = inverse.third_moment(tensor)
    largest = inverse.deviation(tensor)
    skews = (-largest, largest) if third is None else range_of(third)
    step, most = _least_gap(inverse, tensor), inverse.most(variance)
    rest = np.sqrt(rest.clip(0))
    return RowRatios(slopes, skews, rest, step, most, joint, third, square)


def _least_gap(inverse: InverseChannel, tensor: Tensor) -> Tensor:
    """Return the least distance of two different weights of shown values, by state."""
    weights = np.sort(inverse.masked(inverse.invert(tensor), np.nan), axis=1)
    gaps = np.diff(weights, axis=1)
    near = 1e-9 * np.nanmax(np.abs(weights), axis=1, initial=0.0, keepdims=True)
    gaps = np.where(gaps > near, gaps, np.inf)
    least: Tensor = gaps.min(axis=1, initial=np.inf)
    return np.where(np.isfinite(least), least / inverse.steps, 0.0)
