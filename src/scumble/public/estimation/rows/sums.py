"""Sums of weights over counted rows, and the error laws of the answers made of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scumble.model.evidence.channels import Tensor
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.interval_laws import Ratio, WeightedSum
from scumble.public.estimation.rows.count_laws import EXACT, Shown, counted
from scumble.public.estimation.rows.grouped_counts import Floats, GroupedCounts, GroupIndex
from scumble.public.estimation.rows.inverse_channels import Flags, Indices, InverseChannel, flat
from scumble.public.estimation.rows.plan import RowsPlan

SCORE = "inverted channel; score interval"
FIELLER = "ratio of inverted channels; Fieller interval"


@dataclass(frozen=True)
class Sums:
    """Sums of weights over the lines of a tally, for all groups at once."""

    plan: RowsPlan
    counted: GroupedCounts
    groups: GroupIndex
    holds: Tensor
    amount: Tensor | None

    def estimate(self, group: int) -> Estimate:
        make = {"count": self._count, "sum": self._sum, "mean": self._mean}
        return make[self.plan.query.aggregate](group)

    def _count(self, group: int) -> Estimate:
        notes = self.plan.query.notes
        if self._count_known[group]:
            return Estimate(float(self.count[group]), Exact(), EXACT, notes)
        kind = self._kinds[group]
        if kind is None:
            law = WeightedSum(float(self.count_variance[group]), float(self.count_largest[group]))
            return Estimate(float(self.count[group]), law, SCORE, notes)
        rows, shown, known = (int(each[group]) for each in self._shown)
        return counted(kind, rows, shown, notes, known)

    def _sum(self, group: int) -> Estimate:
        total, notes = float(self.total[group]), self.plan.query.notes
        if self._total_known[group]:
            return Estimate(total, Exact(), EXACT, notes)
        law = WeightedSum(float(self.total_variance[group]), float(self.total_largest[group]))
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
            amounts=_three(self._bends, group),
            largest=_three(self._bends_largest, group),
            slope=float(self.count_largest[group]),
        )
        return Estimate(law.value, law, FIELLER, (*notes, *law.notes))

    @cached_property
    def lens(self) -> InverseChannel:
        return self.plan.lens(self.counted)

    @cached_property
    def possible(self) -> Floats:
        """For each group, how many rows could satisfy the condition with some perturbed values."""
        return self.groups.sums(self.counted.count * self.lens.most(self.holds)[self._state])

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
        """Of total and count."""
        return self._weighted(self._lines, self.lens.covariance(self._added, self.holds))

    @cached_property
    def count_largest(self) -> Floats:
        """What one row can change the count by at most."""
        return self.groups.largest(self._deviation(self.holds))

    @cached_property
    def total_largest(self) -> Floats:
        if self.amount is None:
            sizes = np.maximum(np.abs(self.counted.least), np.abs(self.counted.most))
            return self.groups.largest(sizes * self._deviation(self.holds))
        return self.groups.largest(self._deviation(self.amount))

    @cached_property
    def _count_known(self) -> Flags:
        """Of which groups the count is the truth: h is known of all their rows."""
        known: Flags = self.groups.sums(self.counted.count * self._open(self.holds)) == 0
        return known

    @cached_property
    def _total_known(self) -> Flags:
        known: Flags = self.groups.sums(self.counted.count * self._open(self._added)) == 0
        return known

    @cached_property
    def _kinds(self) -> list[Shown | None]:
        """For each group the law of how many rows show that they count, if it is known exactly: all
        rows in question must have the same.
        """
        kinds, which = self.lens.shown(self.holds)
        asked = self._open(self.holds) & (self.counted.count > 0)
        groups = GroupIndex(self.groups.members[asked], self.groups.keys)
        number = which[self._state][asked].astype(np.float64)
        most, least = groups.largest(number), -groups.largest(-number)
        pairs = zip(least, most, strict=True)
        return [kinds[int(low)] if low == high else None for low, high in pairs]

    @cached_property
    def _shown(self) -> tuple[Floats, Floats, Floats]:
        """Rows in question, values that they show and that count, and rows known to count."""
        asked = self._open(self.holds)
        lines, counts = self.counted.count, self._at(self.holds)
        rows = self.groups.sums(lines * asked) / self.counted.members
        known = self.groups.sums(lines * counts * ~asked) / self.counted.members
        return rows, self.groups.sums(lines * counts * asked), known

    @property
    def _lines(self) -> Floats:
        """What is added up by line, if the rest of it is in `_added`."""
        return self.counted.total if self.amount is None else self.counted.count

    @property
    def _added(self) -> Tensor:
        return self.holds if self.amount is None else self.amount

    @property
    def _variances(self) -> list[Floats]:
        return [self.total_variance, self.count_variance, self.covariance]

    @cached_property
    def _bends(self) -> list[Floats]:
        """The least and the most that a row of each group can add, with their middle between."""
        if self.amount is None:
            least = -self.groups.largest(-self.counted.least)
            most = self.groups.largest(self.counted.most)
        else:
            amounts = self.amount[self.holds > 0]
            least = np.full(len(self.groups.keys), amounts.min(initial=np.inf))
            most = np.full(len(self.groups.keys), amounts.max(initial=-np.inf))
        return [least, (least + most) / 2, most]

    @cached_property
    def _bends_largest(self) -> list[Floats]:
        """What one row can change `total - r * count` by at most, for these three ratios r."""
        if self.amount is None:
            width = self._bends[2] - self._bends[0]
            return [width * share * self.count_largest for share in (1.0, 0.5, 1.0)]
        changes = [self.amount - float(bend[0]) * self.holds for bend in self._bends]
        return [self.groups.largest(self._deviation(change)) for change in changes]

    def _weighted(self, lines: Floats, tensor: Tensor) -> Floats:
        """Unbiased estimates of Σ lines · tensor(true values), exact where the tensor is known."""
        asked = self._open(tensor)
        known = self.groups.sums(lines * self._at(tensor) * ~asked) / self.counted.members
        return known + self.groups.sums(lines * self._at(self.lens.invert(tensor)) * asked)

    def _variance(self, lines: Floats, tensor: Tensor) -> Floats:
        """The unbiased estimate of a variance, but never less than the variance surely is."""
        spread = self.lens.covariance(tensor, tensor)
        least = self.lens.least(spread).clip(0)
        floor = self.groups.sums(lines * least[self._state]) / self.counted.members
        return np.maximum(self._weighted(lines, spread), floor)

    def _deviation(self, tensor: Tensor) -> Floats:
        """Of every line: the largest error that the weight of a row can have."""
        largest: Floats = self.lens.deviation(tensor)[self._state]
        return largest

    def _open(self, tensor: Tensor) -> Flags:
        """Of which lines a function is not known, but must be read from what they show."""
        return ~self.lens.settled(tensor)[self._state]

    def _at(self, tensor: Tensor) -> Floats:
        """The entry of a tensor for every line."""
        entries: Floats = flat(tensor)[self._state, self.counted.cell]
        return entries

    @cached_property
    def _state(self) -> Indices:
        return self.plan.states(self.counted)


def _three(numbers: list[Floats], group: int) -> tuple[float, float, float]:
    low, middle, high = (float(number[group]) for number in numbers)
    return low, middle, high
