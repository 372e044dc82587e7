"""Readings of all groups of an answer at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.reading import NoisyShare, Reader, Reading
from scumble.public.estimation.measurements.readings import Part, Weights, joined

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]

_NONE = Reading(0.0, 0.0)  # of no cells


@dataclass(frozen=True)
class Grouping:
    """The attributes of a GROUP BY and how many values each has. Groups are the combinations of
    their codes, those of the last attribute fastest.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return prod(self.shape)

    def codes(self, groups: Codes) -> dict[str, Codes]:
        """The codes of some groups, by attribute."""
        codes = np.unravel_index(groups, self.shape) if self.names else ()
        return dict(zip(self.names, codes, strict=True))

    def largest(self, weights: Weights) -> Floats:
        """The largest absolute weight of a cell, by group."""
        found: Floats = np.ones(self.shape)
        for part in weights.parts:
            others = tuple(i for i, name in enumerate(part.names) if name not in self.names)
            within = np.abs(part.values).max(axis=others, initial=0.0)
            found = found * self.spread(within, [n for n in part.names if n in self.names])
        return found.reshape(-1)

    def spread(self, values: Floats, names: Sequence[str]) -> Floats:
        """Numbers by the codes of some of the attributes, ready to be multiplied with those by the
        codes of all of them.
        """
        order = [names.index(name) for name in self.names if name in names]
        sizes = zip(self.names, self.shape, strict=True)
        return values.transpose(order).reshape([s if name in names else 1 for name, s in sizes])


@dataclass(frozen=True, eq=False)
class Readings:
    """A reading of every group: values, variances, fourth cumulants and largest coefficients in
    four rows of `numbers`; `notes` has those of each group, if there are any.
    """

    numbers: Floats
    notes: Sequence[tuple[str, ...]] = ()

    @classmethod
    def of(cls, readings: Sequence[Reading]) -> Readings:
        """Those that were read one by one."""
        columns = [(each.value, each.variance, each.fourth, each.largest) for each in readings]
        return cls(np.array(columns).reshape(-1, 4).T, [each.notes for each in readings])

    @classmethod
    def joined(cls, parts: Sequence[Readings]) -> Readings:
        """The groups of all parts, one after the other."""
        numbers = np.concatenate([part.numbers for part in parts], axis=1)
        return cls(numbers, [notes for part in parts for notes in part.notes])

    @property
    def values(self) -> Floats:
        found: Floats = self.numbers[0]
        return found

    @cached_property
    def _rows(self) -> list[tuple[float, float, float, float]]:
        return list(zip(*self.numbers.tolist(), strict=True))

    def at(self, group: int) -> Reading:
        value, variance, fourth, largest = self._rows[group]
        return Reading(value, variance, fourth, largest, self.notes[group] if self.notes else ())

    def ratios(self, others: Readings) -> Floats:
        """The values over those of others, and 0 where those are."""
        nothing = np.zeros(len(self.values))
        return np.divide(self.values, others.values, nothing, where=others.values != 0)


@dataclass(frozen=True, eq=False)
class Shares:
    """Two readings of every group, the covariances of their errors, and readings of the first minus
    the second times the ratio of their values (or minus nothing, where the second is 0).
    """

    totals: Readings
    counts: Readings
    covariances: Floats
    centred: Readings

    @classmethod
    def joined(cls, parts: Sequence[Shares]) -> Shares:
        """The groups of all parts, one after the other."""
        return cls(
            Readings.joined([part.totals for part in parts]),
            Readings.joined([part.counts for part in parts]),
            np.concatenate([part.covariances for part in parts]),
            Readings.joined([part.centred for part in parts]),
        )

    def law(self, group: int, least: float, most: float) -> NoisyShare:
        """Of the ratio, which is within `least` and `most`."""
        total, count = self.totals.at(group), self.counts.at(group)
        covariance = float(self.covariances[group])
        return NoisyShare(total, count, covariance, least, most, self.centred.at(group))


@dataclass(frozen=True, eq=False)
class Average:
    """What the average of an amount needs: the condition, and its product with the amount."""

    condition: Weights
    amount: Part
    weighted: Weights


@runtime_checkable
class GroupReader(Protocol):
    """A reader that finds all groups together."""

    def by_group(self, weights: Weights, grouping: Grouping) -> Readings:
        """A reading of each group: its own cells have their weights, all others 0."""
        ...

    def shares(self, average: Average, grouping: Grouping) -> Shares:
        """Of the weighted cells of each group, and of those of the condition alone."""
        ...


@dataclass(frozen=True)
class OneByOne:
    """Any reader, asked for one group after the other."""

    schema: Schema
    reader: Reader

    def by_group(self, weights: Weights, grouping: Grouping) -> Readings:
        fixed = self._fixed(weights, grouping)
        return Readings.of([self.reader.read(each) if each.largest() else _NONE for each in fixed])

    def shares(self, average: Average, grouping: Grouping) -> Shares:
        found = [
            self._share(within, average.amount) if within.largest() else (_NONE, _NONE, 0.0, _NONE)
            for within in self._fixed(average.condition, grouping)
        ]
        totals, counts, covariances, centred = zip(*found, strict=True)
        return Shares(
            Readings.of(totals), Readings.of(counts), np.array(covariances), Readings.of(centred)
        )

    def _share(self, within: Weights, amount: Part) -> tuple[Reading, Reading, float, Reading]:
        weighted = self._times(within, amount.values, amount)
        total, count, covariance = self.reader.pair(weighted, within)
        ratio = total.value / count.value if count.value else 0.0
        centred = self.reader.read(self._times(within, amount.values - ratio, amount))
        return total, count, covariance, centred

    def _times(self, condition: Weights, values: Floats, amount: Part) -> Weights:
        return joined(self.schema, [*condition.parts, Part(amount.names, values)])

    def _fixed(self, weights: Weights, grouping: Grouping) -> Iterator[Weights]:
        for codes in np.ndindex(*grouping.shape):
            yield weights.fixed(self.schema, dict(zip(grouping.names, codes, strict=True)))
