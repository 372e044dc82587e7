"""Readers of the sides of amounts (see `PrivacyUnit.sided`), and the averages that they tell.

A row divides W steps among the sides of its cell, W the steps between the limits. So the count of a
cell is the sum of its sides over W, a sum of amounts has the upper limit for what is above and the
lower one for what is below, and everything is a sum of readings of sides, whose noises are
independent.

If the number n of rows is known, all sides of all cells have W·n steps. Of a weighted sum of sides,
the error of that total explains a share (see `KnownTotal`); here the total is that of all sides.
The readers of single sides find it: a reader with the known number R of steps reads r - s·(t - R),
where t is its own total and s its share, so that readings with R and with 0 differ by s·R. What is
left of r, less its share, is uncorrelated with t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scumble.model.schema.schema import Schema
from scumble.public.estimation.interval_laws import FiellerRatio, noise_half_width
from scumble.public.estimation.measurements.readings import (
    AverageWeights,
    GroupedAxes,
    LinearReading,
    Reader,
    Readings,
    Weights,
    WeightTensor,
    joined,
)
from scumble.public.estimation.measurements.weighed import read_averages, read_groups

Floats = npt.NDArray[np.float64]

ALL = GroupedAxes((), ())
_EVERY = Weights(())
_ROUNDING = 1e-12  # relative difference of shares that rounding explains


class SideReader(NamedTuple):
    """The readers of one side: of its numbers alone and, where the number of rows is known, with
    the known totals 0 and `steps`.
    """

    plain: Reader
    bare: Reader
    full: Reader


class Shared(NamedTuple):
    """The readings of a side by group, without what the error of its own total explains if that is
    known, and the shares of its total in that error.
    """

    readings: Readings
    shares: Floats


@dataclass(frozen=True, eq=False)
class SidesReader:
    """The readers of the sides of one column. A row divides `reach` steps among them; `steps` are
    those of all rows, if their number is known.
    """

    schema: Schema
    readers: tuple[SideReader, ...]
    reach: int
    steps: int | None

    @property
    def method(self) -> str:
        return self.readers[0].plain.method

    def read(self, weights: Weights) -> LinearReading:
        """Return the reading of a weighted sum of counts."""
        return self.of_sides([weights] * len(self.readers), ALL).at(0)

    def totals(self, weights: Weights, grouping: GroupedAxes) -> Readings:
        """Return the readings of a weighted sum of counts, by group."""
        return self.of_sides([weights] * len(self.readers), grouping)

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        covariance = 0.0
        for each in self.readers:
            reader = each.plain if self.steps is None else each.bare
            if first.largest() and second.largest():
                covariance += reader.pair(first, second)[2]
        if self.steps is not None:
            ones, others = (self._away(self._shares(each, ALL)) for each in (first, second))
            for one, other, whole in zip(ones, others, self.wholes, strict=True):
                covariance += float(one[0] * other[0]) * whole.variance
        return self.read(first), self.read(second), covariance / self.reach**2

    def _shares(self, weights: Weights, grouping: GroupedAxes) -> list[Floats]:
        return [self._read(side, weights, grouping).shares for side in self.readers]

    def of_sides(self, weights: Sequence[Weights], grouping: GroupedAxes) -> Readings:
        """Return the readings of the sum of all sides, each with its weights, over W."""
        found = [
            self._read(side, each, grouping)
            for side, each in zip(self.readers, weights, strict=True)
        ]
        values, aways = self.values(found), self._away([each.shares for each in found])
        variances, fourths, largest = (np.zeros(len(values)) for _ in range(3))
        for each, away, whole in zip(found, aways, self.wholes, strict=True):
            _, variance, fourth, most = each.readings.numbers
            variances += variance + away**2 * whole.variance
            fourths += (fourth**0.25 + abs(away) * whole.fourth**0.25) ** 4
            largest = np.maximum(largest, most + abs(away) * whole.largest)
        scale = float(self.reach)
        numbers = [values / scale, variances / scale**2, fourths / scale**4, largest / scale]
        return Readings(np.stack(numbers))

    def values(self, found: Sequence[Shared]) -> Floats:
        """Return the values of sums of all sides, in steps."""
        values: Floats = sum((each.readings.values for each in found), np.zeros(1))
        if self.steps is None:
            return values
        shares = [each.shares for each in found]
        aways = zip(self._away(shares), self.wholes, strict=True)
        return (
            values
            + sum(away * whole.value for away, whole in aways)
            + (self._common(shares) * float(self.steps))
        )

    def _read(self, side: SideReader, weights: Weights, grouping: GroupedAxes) -> Shared:
        nothing = np.zeros(max(len(grouping), 1))
        if not weights.largest():
            return Shared(Readings(np.zeros((4, len(nothing)))), nothing)
        if self.steps is None:
            return Shared(read_groups(self.schema, side.plain, weights, grouping), nothing)
        bare, full = (
            read_groups(self.schema, reader, weights, grouping) for reader in (side.bare, side.full)
        )
        return Shared(bare, (full.values - bare.values) / max(self.steps, 1))

    @cached_property
    def wholes(self) -> list[LinearReading]:
        """The sums of all cells of every side, if the number of rows is known."""
        if self.steps is None:
            return [LinearReading(0.0, 0.0)] * len(self.readers)
        return [side.plain.read(_EVERY) for side in self.readers]

    def _common(self, shares: Sequence[Floats]) -> Floats:
        """Return the share of the total of all sides in the error of a sum of sides."""
        variances = [whole.variance for whole in self.wholes]
        both = zip(shares, variances, strict=True)
        found: Floats = sum((share * own for share, own in both), np.zeros(1)) / sum(variances)
        return found

    def _away(self, shares: Sequence[Floats]) -> list[Floats]:
        """Return how far the share of each side is from that of all."""
        if self.steps is None:
            return list(shares)
        common = self._common(shares)
        near = _ROUNDING * np.max(np.abs(shares), axis=0)
        return [np.where(abs(each - common) <= near, 0.0, each - common) for each in shares]

    def ratios(
        self,
        condition: Weights,
        amounts: Sequence[WeightTensor],
        grouping: GroupedAxes,
    ) -> list[SidedRatio]:
        """Return the ratio of the sum of the amounts of all sides and that of their steps, of the
        cells of a condition, by group.
        """
        empty = Readings(np.zeros((4, max(len(grouping), 1))))
        nothing = Shared(empty, empty.values)
        none = _Averaged(nothing, nothing, empty.values, empty, empty.values)
        several = [none] * len(self.readers)
        for place, amount in enumerate(amounts):
            several[place] = self._average(self.readers[place], condition, amount, grouping)
        totals = [each.total for each in several]
        counts = [each.counts for each in several]
        values = zip(self.values(totals).tolist(), self.values(counts).tolist(), strict=True)
        of_totals, of_counts = (
            self._away([each.shares for each in some]) for some in (totals, counts)
        )
        return [
            SidedRatio(
                numbers,
                tuple(each.part(group) for each in several),
                tuple(
                    (float(one[group]), float(other[group]), whole)
                    for one, other, whole in zip(of_totals, of_counts, self.wholes, strict=True)
                ),
            )
            for group, numbers in enumerate(values)
        ]

    def _average(
        self, side: SideReader, condition: Weights, amount: WeightTensor, grouping: GroupedAxes
    ) -> _Averaged:
        """Return the total and the count of one side by group."""
        count = self._read(side, condition, grouping)
        first = float(amount.values.flat[0])
        groups = len(count.shares)
        if (amount.values == first).all():
            total = Shared(count.readings.times(first), first * count.shares)
            ratios, nothing = np.full(groups, first), np.zeros(groups)
            return _Averaged(total, count, ratios, count.readings.times(0.0), nothing)
        reader = side.plain if self.steps is None else side.bare
        weighted = joined(self.schema, [*condition.parts, amount])
        weights = AverageWeights(condition, amount, weighted)
        both = read_averages(self.schema, reader, weights, grouping)
        ratios = both.totals.ratios(both.counts)
        total = self._read(side, weighted, grouping)
        crossed = both.covariances - ratios * both.counts.numbers[1]
        totals, counts = Shared(both.totals, total.shares), Shared(both.counts, count.shares)
        return _Averaged(totals, counts, ratios, both.centred, crossed)


class _Averaged(NamedTuple):
    """The total and the count of one side by group, their ratios, what is left of the total less
    the ratio times the count, and its covariance with the count.
    """

    total: Shared
    counts: Shared
    ratios: Floats
    centred: Readings
    crossed: Floats

    def part(self, group: int) -> _Part:
        """Return what it is of one group."""
        centred, count = self.centred.at(group), self.counts.readings.at(group)
        return _Part(float(self.ratios[group]), centred, count, float(self.crossed[group]))


class _Part(NamedTuple):
    """One side of a ratio: the ratio `known` of its own total and count, the reading `centred` of
    the total less that ratio times the count, and its covariance with the count.
    """

    known: float
    centred: LinearReading
    rows: LinearReading
    crossed: float


@dataclass(frozen=True)
class SidedRatio:
    """A ratio of two sums of sides, and the error of total - ratio * count at any ratio."""

    numbers: tuple[float, float]
    parts: tuple[_Part, ...]
    aways: tuple[tuple[float, float, LinearReading], ...]

    def variance(self, ratio: float) -> float:
        """Return the variance of the total less the ratio times the count."""
        found = 0.0
        for part, (one, other, whole) in zip(self.parts, self.aways, strict=True):
            more = part.known - ratio
            own = part.centred.variance + more * (2 * part.crossed + more * part.rows.variance)
            found += max(own, 0.0) + (one - ratio * other) ** 2 * whole.variance
        return found

    def half_width(self, ratio: float, level: float) -> float:
        """Return what that error keeps with probability `level`.

        The fourth cumulant of a sum of noises is the fourth power of a norm of its coefficients, so
        that the norms of the parts of a side bound it.
        """
        fourth = largest = 0.0
        for part, (one, other, whole) in zip(self.parts, self.aways, strict=True):
            more, away = abs(part.known - ratio), abs(one - ratio * other)
            terms = ((1.0, part.centred), (more, part.rows), (away, whole))
            fourth += sum(times * each.fourth**0.25 for times, each in terms) ** 4
            largest = max(largest, sum(times * each.largest for times, each in terms))
        return noise_half_width(self.variance(ratio), fourth, largest, level)

    @property
    def count_variance(self) -> float:
        """The variance of the count."""
        pairs = zip(self.parts, self.aways, strict=True)
        return sum(p.rows.variance + away**2 * whole.variance for p, (_, away, whole) in pairs)


@dataclass(frozen=True)
class SidedAverage(FiellerRatio):
    """The law of an average of amounts between `least` and `most` that sides tell."""

    ratio: SidedRatio
    least: float
    most: float

    @property
    def parts(self) -> tuple[float, float]:
        return self.ratio.numbers

    @property
    def limits(self) -> tuple[float, float]:
        return self.least, self.most

    @property
    def count_variance(self) -> float:
        return self.ratio.count_variance

    def variance(self, ratio: float) -> float:
        return self.ratio.variance(ratio)

    def half_width(self, ratio: float, level: float) -> float:
        return self.ratio.half_width(ratio, level)
