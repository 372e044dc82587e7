"""Sums of weights over counted rows, and the error laws of the answers made of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scumble.channels import Tensor
from scumble.estimate import Estimate, Exact, Unknown
from scumble.estimators.plan import EXACT, Plan, flat
from scumble.estimators.ratio_law import Ratio
from scumble.estimators.sum_law import WeightedSum
from scumble.estimators.tally import Floats, Groups, Tally

SCORE = "inverted channel; score interval"
FIELLER = "ratio of inverted channels; Fieller interval"


@dataclass(frozen=True)
class Sums:
    """Sums of weights over the lines of a tally, for all groups at once."""

    plan: Plan
    counted: Tally
    groups: Groups
    holds: Tensor
    amount: Tensor | None

    def estimate(self, group: int) -> Estimate:
        make = {"count": self._count, "sum": self._sum, "mean": self._mean}
        return make[self.plan.query.aggregate](group)

    def _count(self, group: int) -> Estimate:
        notes = self.plan.query.notes
        if self._untouched:
            return Estimate(float(self.count[group]), Exact(), EXACT, notes)
        if self._one_share is None:
            law = WeightedSum(float(self.count_variance[group]), float(self.count_largest[group]))
            return Estimate(float(self.count[group]), law, SCORE, notes)
        rows, shown = int(self.rows[group]), int(self.shown[group])
        return self.plan.one_count(self._one_share, rows, shown)

    def _sum(self, group: int) -> Estimate:
        total, notes = float(self.total[group]), self.plan.query.notes
        if self._untouched:
            return Estimate(total, Exact(), EXACT, notes)
        law = WeightedSum(float(self.total_variance[group]), float(self.total_largest[group]))
        return Estimate(total, law, SCORE, notes)

    def _mean(self, group: int) -> Estimate:
        total, count = float(self.total[group]), float(self.count[group])
        notes = self.plan.query.notes
        if not self.rows[group] or not count:
            nothing = "no published row satisfies the condition"
            return Estimate(float("nan"), Unknown(), "average of no rows", (*notes, nothing))
        if self._untouched:
            return Estimate(total / count, Exact(), EXACT, notes)
        law = Ratio(
            total,
            count,
            variances=_three(self._variances, group),
            bends=_three(self._bends, group),
            largest=_three(self._bends_largest, group),
            slope=float(self.count_largest[group]),
        )
        return Estimate(law.value, law, FIELLER, (*notes, *law.notes))

    @cached_property
    def _untouched(self) -> bool:
        """Whether h is 0 for every value or 1 for every value: then the rows are all the truth."""
        constant = self.holds.size == 0 or (self.holds == self.holds.flat[0]).all()
        return bool(constant and self.amount is None)

    @cached_property
    def _one_share(self) -> float | None:
        """The share of the domain that counts, if there is one channel and the share is the same
        for all combinations: then the number of rows that show a value that counts has an exact
        law.
        """
        if self.plan.one_channel is None:
            return None
        shares = np.unique(flat(self.holds).mean(axis=1))
        return float(shares[0]) if len(shares) == 1 else None

    @cached_property
    def possible(self) -> Floats:
        """For each group, how many rows could satisfy the condition with some perturbed values."""
        some = flat(self.holds).max(axis=1)
        return self.groups.sums(self.counted.count * some[self._combination])

    @cached_property
    def rows(self) -> Floats:
        return self.groups.sums(self.counted.count)

    @cached_property
    def shown(self) -> Floats:
        return self.groups.sums(self.counted.count * self._at(self.holds))

    @cached_property
    def count(self) -> Floats:
        return self._weighted(self.counted.count, self.holds)

    @cached_property
    def count_variance(self) -> Floats:
        return self._variance(self.counted.count, self.holds)

    @cached_property
    def total(self) -> Floats:
        if self.amount is None:
            return self._weighted(self.counted.total, self.holds)
        return self._weighted(self.counted.count, self.amount)

    @cached_property
    def total_variance(self) -> Floats:
        if self.amount is None:
            return self._variance(self.counted.squares, self.holds)
        return self._variance(self.counted.count, self.amount)

    @cached_property
    def covariance(self) -> Floats:
        """Of total and count."""
        other = self.holds if self.amount is None else self.amount
        lines = self.counted.total if self.amount is None else self.counted.count
        return self._weighted(lines, self.plan.covariance(other, self.holds))

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
        """Unbiased estimates of Σ lines · tensor(true values)."""
        return self.groups.sums(lines * self._at(self.plan.invert(tensor)))

    def _variance(self, lines: Floats, tensor: Tensor) -> Floats:
        """The unbiased estimate of a variance, but never less than the variance surely is."""
        spread = self.plan.covariance(tensor, tensor)
        least = flat(spread).min(axis=1).clip(0)
        floor = self.groups.sums(lines * least[self._combination])
        return np.maximum(self._weighted(lines, spread), floor)

    def _deviation(self, tensor: Tensor) -> Floats:
        """Of every line: the largest error that the weight of a row can have."""
        largest: Floats = self.plan.deviation(tensor)[self._combination]
        return largest

    def _at(self, tensor: Tensor) -> Floats:
        """The entry of a tensor for every line."""
        entries: Floats = flat(tensor)[self._combination, self.counted.cell]
        return entries

    @property
    def _combination(self) -> Any:
        shared = self.plan.shared
        return np.zeros_like(self.counted.cell) if shared else self.counted.combination


def _three(numbers: list[Floats], group: int) -> tuple[float, float, float]:
    low, middle, high = (float(number[group]) for number in numbers)
    return low, middle, high
