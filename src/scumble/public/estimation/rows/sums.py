"""Sums of weights over counted rows, and the error laws of the answers made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scumble.model.evidence.channels import Tensor
from scumble.public.estimate import Estimate, Exact, Law, Unknown
from scumble.public.estimation.interval_laws import Limited, Ratio
from scumble.public.estimation.rows.count_laws import EXACT, CountModel, count_estimate
from scumble.public.estimation.rows.grouped_counts import Floats, GroupedCounts, GroupIndex
from scumble.public.estimation.rows.inverse_channels import Flags, Indices, InverseChannel, flat
from scumble.public.estimation.rows.plan import RowsPlan
from scumble.public.estimation.rows.posterior_law import StagedInverse
from scumble.public.estimation.rows.sum_laws import CorrectedSum, Moments, row_ratios

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
            law: Law = self._law(self.count_variance, self.count_largest, self._count_ratios, group)
            if isinstance(self.inverse, StagedInverse):
                law = Limited(law, 0.0, round(float(self.rows[group])))
            return Estimate(float(self.count[group]), law, SCORE, notes)
        rows, shown, known = (int(each[group]) for each in self._shown)
        return count_estimate(model, rows, shown, notes, known)

    def _sum(self, group: int) -> Estimate:
        total, notes = float(self.total[group]), self.plan.query.notes
        if self._total_known[group]:
            return Estimate(total, Exact(), EXACT, notes)
        law = self._law(self.total_variance, self.total_largest, self._total_ratios, group)
        return Estimate(total, law, SCORE, notes)

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
        return Estimate(law.value, law, FIELLER, (*notes, *law.notes))

    def _law(
        self, variance: Floats, largest: Floats, ratios: GroupRatios, group: int
    ) -> CorrectedSum:
        lowest, highest, least, most, spread, step, *sums = (float(each[group]) for each in ratios)
        squared = float(variance[group])
        moments = None
        if sums and squared > 0:
            joint, third, square, even, jump = sums
            moments = Moments(joint / squared, third / squared, square / squared, even, jump)
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
