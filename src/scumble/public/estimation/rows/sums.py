"""Sums of weights over counted rows, and the error laws of the answers made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from scumble.model.evidence.channels import Tensor
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.interval_laws import Limited, Ratio, score_half_width
from scumble.public.estimation.rows.count_laws import EXACT, CountModel, count_estimate
from scumble.public.estimation.rows.grouped_counts import Floats, GroupedCounts, GroupIndex
from scumble.public.estimation.rows.inverse_channels import Flags, Indices, InverseChannel, flat
from scumble.public.estimation.rows.plan import RowsPlan
from scumble.public.estimation.rows.posterior_law import StagedInverse

# --- the law of a sum -----------------------------------------------------------------------------
#
# The error law of a sum of inverted values, corrected for skewness and for an estimated variance.
#
# The estimated variance V of a sum T is made of the same rows as T. To second order the limits of a
# normal law move by
#
#     shift(z) = b z²/2 - g (z² - 1)/6,    b = Cov[T, V] / Var[T],    g = κ3[T] / Var[T],
#
# both upwards if it is positive (for a Poisson count b = g = 1, and this is the expansion of its
# exact limits). What V has in error besides b(T - θ) makes z a quantile of Student's law. b, g and
# Var[V] / Var[T] are averages over the rows, so that the least and the largest ratio of one row
# bound them. They are also functions of the true values, so that the inverse channel estimates them
# without bias from sums of third and fourth powers: with amounts of both signs the shifts of rows
# cancel, which bounds cannot know. Estimates are used within a margin of their own error where no
# row outweighs the others, and give way to the bounds elsewhere. A limit is never moved inwards.

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


class SumMoments(NamedTuple):
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
    moments: SumMoments | None = None

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


# --- sums -----------------------------------------------------------------------------------------

SCORE = "inverted channel; score interval, corrected for skewness"
GroupRatios = tuple[Floats, ...]  # least and largest slope and skewness, spread, step, moments

# Of a standard error: the most that one row may change a sum that is read by stages. Where it can
# change more, the laws of sums and averages would allow for more than better weights gain.
_LARGEST = {"count": 0.25, "sum": 0.15, "mean": 0.03}

FIELLER = "ratio of inverted channels; Fieller interval"


@dataclass(frozen=True)
class Sums:
    """Sums of weights over the lines of grouped counts, for all groups at once.

    `holds` says whether a row counts by its true values. `amount` is what it adds, if perturbed
    values decide that; else the grouped counts have the sums. `states` are the inverse channel and
    the row of the tensors for each line, where they are not those of the plan.
    """

    plan: RowsPlan
    counted: GroupedCounts
    groups: GroupIndex
    holds: Tensor
    amount: Tensor | None
    states: tuple[InverseChannel, Indices] | None = None

    def estimate(self, group: int) -> Estimate:
        make = {"count": self._count, "sum": self._sum, "mean": self._mean}
        return make[self.plan.query.aggregate](group)

    def ample_estimate(self, group: int) -> Estimate | None:
        """Return the estimate; None if rows are read by stages and the group has too few."""
        return self.estimate(group) if self._ample[group] else None

    @cached_property
    def _ample(self) -> Flags:
        """The groups in which one row can hardly change a sum, by the law of the first stage.

        That law and the number of rows are public: what rows show has no part in this choice.
        """
        if not isinstance(self.inverse, StagedInverse):
            return np.ones(len(self.groups.keys), bool)
        first = self.inverse.of_pool()
        variance, largest = first.mean_variance(self._added), first.deviation(self._added)
        needed = np.divide(largest**2, variance, out=np.zeros_like(variance), where=variance > 0)
        most = _LARGEST[self.plan.query.aggregate]
        ample: Flags = self.rows >= self.groups.largest(needed[self._state]) / most**2
        return ample

    def _count(self, group: int) -> Estimate:
        notes = self.plan.query.notes
        if self._count_known[group]:
            return Estimate(float(self.count[group]), Exact(), EXACT, notes)
        model = self._models[group]
        if model is None:
            law = self._law(self.count_variance, self.count_largest, self._count_ratios, group)
            cut = Limited(law, 0.0, round(float(self.rows[group])))
            return Estimate(float(self.count[group]), cut, SCORE, notes)
        rows, shown, known = (int(each[group]) for each in self._shown)
        return count_estimate(model, rows, shown, notes, known)

    def _sum(self, group: int) -> Estimate:
        total, notes = float(self.total[group]), self.plan.query.notes
        if self._total_known[group]:
            return Estimate(total, Exact(), EXACT, notes)
        law = self._law(self.total_variance, self.total_largest, self._total_ratios, group)
        rows = round(float(self.rows[group]))
        low, _, high = _three(self._amounts, group)
        cut = Limited(law, rows * min(low, 0.0), rows * max(high, 0.0))
        return Estimate(total, cut, SCORE, notes)

    def _mean(self, group: int) -> Estimate:
        total, count = float(self.total[group]), float(self.count[group])
        notes = self.plan.query.notes
        if not self.rows[group] or not count:
            nothing = "no published row satisfies the condition"
            return Estimate(float("nan"), Unknown(), "average of no rows", (*notes, nothing))
        if self._count_known[group] and self._total_known[group]:
            return Estimate(total / count, Exact(), EXACT, notes)
        law = Ratio(
            total,
            count,
            variances=_three(self._variances, group),
            amounts=_three(self._amounts, group),
            largest=_three(self._amounts_largest, group),
            slope=float(self.count_largest[group]),
        )
        return law.estimate(FIELLER, notes)

    def _law(
        self, variance: Floats, largest: Floats, ratios: GroupRatios, group: int
    ) -> CorrectedSum:
        lowest, highest, least, most, spread, step, *sums = (float(each[group]) for each in ratios)
        squared = float(variance[group])
        moments = None
        if sums and squared > 0:
            joint, third, square, even, jump = sums
            moments = SumMoments(joint / squared, third / squared, square / squared, even, jump)
        ends = (lowest, highest), (least, most)
        return CorrectedSum(squared, float(largest[group]), *ends, spread, step, moments)

    @cached_property
    def inverse(self) -> InverseChannel:
        return self.states[0] if self.states else self.plan.inverse(self.counted)

    @cached_property
    def possible(self) -> Floats:
        """The number of rows of each group that could satisfy the condition."""
        return self.groups.sums(self.counted.count * self.inverse.most(self.holds)[self._state])

    @cached_property
    def rows(self) -> Floats:
        return self.groups.sums(self.counted.count) / self.counted.members

    @cached_property
    def count(self) -> Floats:
        return self._weighted(self.counted.count, self.holds)

    @cached_property
    def count_variance(self) -> Floats:
        return self._variance(self.counted.count, self.holds)

    @cached_property
    def total(self) -> Floats:
        return self._weighted(self._lines, self._added)

    @cached_property
    def total_variance(self) -> Floats:
        lines = self.counted.squares if self.amount is None else self.counted.count
        return self._variance(lines, self._added)

    @cached_property
    def covariance(self) -> Floats:
        """The estimated covariance of total and count."""
        return self._weighted(self._lines, self.inverse.covariance(self._added, self.holds))

    @cached_property
    def count_largest(self) -> Floats:
        """The largest change of the count by one row."""
        return self.groups.largest(self._deviation(self.holds))

    @cached_property
    def total_largest(self) -> Floats:
        if self.amount is None:
            sizes = np.maximum(np.abs(self.counted.least), np.abs(self.counted.most))
            return self.groups.largest(sizes * self._deviation(self.holds))
        return self.groups.largest(self._deviation(self.amount))

    @cached_property
    def _count_known(self) -> Flags:
        """The groups whose count is exact: it is known of every row whether it counts."""
        known: Flags = self.groups.sums(self.counted.count * self._unknown(self.holds)) == 0
        return known

    @cached_property
    def _total_known(self) -> Flags:
        known: Flags = self.groups.sums(self.counted.count * self._unknown(self._added)) == 0
        return known

    @cached_property
    def _models(self) -> list[CountModel | None]:
        """For each group, the exact model of the number of shown values that count.

        It is None unless all rows that are not known have the same model.
        """
        models, which = self.inverse.count_models(self.holds)
        asked = self._unknown(self.holds) & (self.counted.count > 0)
        groups = GroupIndex(self.groups.members[asked], self.groups.keys)
        number = which[self._state][asked].astype(np.float64)
        most, least = groups.largest(number), -groups.largest(-number)
        pairs = zip(least, most, strict=True)
        return [models[int(low)] if low == high else None for low, high in pairs]

    @cached_property
    def _shown(self) -> tuple[Floats, Floats, Floats]:
        """By group: the rows that are not known, their shown values that count, and the rows that
        are known to count.
        """
        asked = self._unknown(self.holds)
        lines, counts = self.counted.count, self._at(self.holds)
        rows = self.groups.sums(lines * asked) / self.counted.members
        known = self.groups.sums(lines * counts * ~asked) / self.counted.members
        return rows, self.groups.sums(lines * counts * asked), known

    @property
    def _lines(self) -> Floats:
        """What each line contributes, to be multiplied by `_added`."""
        return self.counted.total if self.amount is None else self.counted.count

    @property
    def _added(self) -> Tensor:
        return self.holds if self.amount is None else self.amount

    @property
    def _variances(self) -> list[Floats]:
        return [self.total_variance, self.count_variance, self.covariance]

    @cached_property
    def _amounts(self) -> list[Floats]:
        """The least amount that a row of each group can add, the middle, and the largest."""
        if self.amount is None:
            least = -self.groups.largest(-self.counted.least)
            most = self.groups.largest(self.counted.most)
        else:
            amounts = self.amount[self.holds > 0]
            least = np.full(len(self.groups.keys), amounts.min(initial=np.inf))
            most = np.full(len(self.groups.keys), amounts.max(initial=-np.inf))
        return [least, (least + most) / 2, most]

    @cached_property
    def _amounts_largest(self) -> list[Floats]:
        """The largest change of `total - r * count` by one row, for r at the three `_amounts`."""
        if self.amount is None:
            width = self._amounts[2] - self._amounts[0]
            return [width * share * self.count_largest for share in (1.0, 0.5, 1.0)]
        changes = [self.amount - float(amount[0]) * self.holds for amount in self._amounts]
        return [self.groups.largest(self._deviation(change)) for change in changes]

    @cached_property
    def _count_ratios(self) -> GroupRatios:
        return self._ratios(self.holds, self._ones, [self.counted.count] * 3)

    @cached_property
    def _total_ratios(self) -> GroupRatios:
        if self.amount is not None:
            return self._ratios(self.amount, self._ones, [self.counted.count] * 3)
        counted = self.counted
        powers = (counted.squares, *(() if counted.higher is None else counted.higher))
        limits = (counted.least, counted.most, self._amount_steps)
        return self._ratios(self.holds, limits, powers)

    @property
    def _ones(self) -> tuple[Floats, Floats, Floats]:
        ones = np.ones_like(self.counted.count)
        return ones, ones, ones

    @property
    def _amount_steps(self) -> Floats:
        """A bound of the greatest common divisor of the amounts of each line.

        It divides the least and the largest amount. If the least is 0 and there are others between,
        it is at most half of the largest.
        """
        counted = self.counted
        sizes = np.sort(np.abs([counted.least, counted.most]), axis=0)
        two = np.isclose(counted.squares, np.abs(counted.total) * sizes[1], rtol=1e-9)
        steps: Floats = np.where(sizes[0] > 0, sizes[0], np.where(two, sizes[1], sizes[1] / 2))
        return steps

    def _ratios(
        self, tensor: Tensor, limits: tuple[Floats, Floats, Floats], powers: Sequence[Floats]
    ) -> GroupRatios:
        """Return the numbers of `CorrectedSum` by group, for lines whose rows add `tensor` times an
        amount. `limits` are the least and the largest amount, and the distance between amounts;
        `powers` are sums of squared amounts, and of third and fourth powers if they are known.
        """
        row = row_ratios(self.inverse, tensor)
        asked = self._unknown(tensor) & (self.counted.count > 0)

        def lowest(numbers: Floats) -> Floats:
            return -self.groups.largest(np.where(asked, -numbers, -np.inf))

        def highest(numbers: Floats) -> Floats:
            return self.groups.largest(np.where(asked, numbers, -np.inf))

        *amounts, steps = limits
        ends = []
        for pair in (row.slopes, row.skews):
            products = [amount * each[self._state] for amount in amounts for each in pair]
            ends += [lowest(np.min(products, axis=0)), highest(np.max(products, axis=0))]
        sizes = np.abs(amounts).max(axis=0)
        # The variance of a row follows its weight with its own slope instead of the mean slope.
        spread = np.hypot((ends[1] - ends[0]) / 2, highest(sizes * row.rest[self._state]))
        # The step of the rows that vary most: small steps of others hardly blur it.
        weight = np.where(asked, powers[0] * row.variance[self._state], 0.0)
        step = self.groups.sums(weight * steps * row.step[self._state])
        bounds = (*ends, spread, _ratio(step, self.groups.sums(weight)))
        if len(powers) == 1 or row.third is None:
            return bounds
        moments = (row.joint, row.third, row.square)
        orders = (powers[1], powers[1], powers[2])
        sums = [self._weighted(*each) for each in zip(orders, moments, strict=True)]
        squares, fourths = (self.groups.sums(each * asked) for each in (powers[0], powers[2]))
        even = 1 - _ratio(fourths, squares * highest(sizes) ** 2)
        return (*bounds, *sums, even, highest(sizes * row.step[self._state]))

    def _weighted(self, lines: Floats, tensor: Tensor) -> Floats:
        """Return unbiased estimates of Σ lines · tensor(true values); exact where it is known."""
        asked = self._unknown(tensor)
        known = self.groups.sums(lines * self._at(tensor) * ~asked) / self.counted.members
        return known + self.groups.sums(lines * self._at(self.inverse.invert(tensor)) * asked)

    def _variance(self, lines: Floats, tensor: Tensor) -> Floats:
        """Return the unbiased estimate of a variance, or its certain lower bound if larger."""
        variances = self.inverse.covariance(tensor, tensor)
        least = self.inverse.least(variances).clip(0)
        floor = self.groups.sums(lines * least[self._state]) / self.counted.members
        return np.maximum(self._weighted(lines, variances), floor)

    def _deviation(self, tensor: Tensor) -> Floats:
        """Return the largest error that the weight of a row can have, by line."""
        largest: Floats = self.inverse.deviation(tensor)[self._state]
        return largest

    def _unknown(self, tensor: Tensor) -> Flags:
        """Return the lines whose value of `tensor` must be estimated from what they show."""
        return ~self.inverse.is_known(tensor)[self._state]

    def _at(self, tensor: Tensor) -> Floats:
        """Return the entry of `tensor` for every line."""
        entries: Floats = flat(tensor)[self._state, self.counted.cell]
        return entries

    @cached_property
    def _state(self) -> Indices:
        return self.states[1] if self.states else self.plan.states(self.counted)


def _ratio(one: Floats, other: Floats) -> Floats:
    """Return one / other, and 0 where the other is not above 0."""
    return np.divide(one, other, out=np.zeros_like(one), where=other > 0)


def _three(numbers: list[Floats], group: int) -> tuple[float, float, float]:
    low, middle, high = (float(number[group]) for number in numbers)
    return low, middle, high
