"""Linear functionals of cells, what a reader finds of them, and the laws of their errors.

- `Weights`: what every cell of a product of domains adds to an answer. It is a product of small
  tensors, the `WeightTensor`s.
- `Reader`: turns weights into a `LinearReading`, an estimate with the moments of its error.
  `QuestionReader`: answers whole questions, by error laws of its own.
- `NoisyTotal`, `NoisyAverage`: the error laws of one reading, and of the ratio of two.
- `GroupedAxes`, `Readings`, `AverageReadings`, `GroupReader`: the same for all groups of a GROUP
  BY.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError, large
from scumble.model.query import Query
from scumble.model.schema.cells import CELL_LIMIT
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate
from scumble.public.estimation.bounds import Limit
from scumble.public.estimation.interval_laws import FiellerRatio, noise_half_width
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
Tensor = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float64]

_ROUNDING = 1e-14  # relative variance of a reading that is known but for rounding


@dataclass(frozen=True, eq=False)
class WeightTensor:
    """A tensor over the domains of some attributes, its axes in the order of the schema."""

    names: tuple[str, ...]
    values: Tensor


@dataclass(frozen=True, eq=False)
class Weights:
    """A linear functional of cells. The weight of a cell is the product of one entry of each part.

    No attribute is in two parts. An attribute in no part has weight 1 everywhere.
    """

    parts: tuple[WeightTensor, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes of all parts."""
        return tuple(name for part in self.parts for name in part.names)

    @property
    def separate(self) -> bool:
        """Whether every part has at most one attribute."""
        return all(len(part.names) <= 1 for part in self.parts)

    def along(self, name: str) -> Tensor | None:
        """Return the weights of an attribute that has a part of its own; else None."""
        found = [part.values for part in self.parts if part.names == (name,)]
        return found[0] if found else None

    @property
    def factor(self) -> float:
        """The product of the parts without attributes."""
        return prod(float(part.values) for part in self.parts if not part.names)

    @property
    def constant(self) -> float | None:
        """The weight of every cell, if it is the same for all; else None."""
        for part in self.parts:
            if not bool((part.values == part.values.flat[0]).all()):
                return None
        return float(prod(float(part.values.flat[0]) for part in self.parts))

    def largest(self) -> float:
        """Return the largest absolute weight of a cell."""
        return prod(float(np.abs(part.values).max(initial=0.0)) for part in self.parts)

    def fixed(self, schema: Schema, codes: Mapping[str, int]) -> Weights:
        """Return the same weights, but 0 where an attribute has another code than in `codes`."""
        chosen = [
            WeightTensor((name,), _indicator(schema[name].size, code))
            for name, code in codes.items()
        ]
        return joined(schema, [*self.parts, *chosen])


def joined(schema: Schema, parts: Iterable[WeightTensor]) -> Weights:
    """Return the weights of `parts`. Parts that share attributes are multiplied into one."""
    found: list[WeightTensor] = []
    for part in parts:
        touching = [other for other in found if not set(other.names).isdisjoint(part.names)]
        found = [other for other in found if other not in touching]
        found.append(reduce(lambda one, other: _merged(schema, one, other), touching, part))
    return Weights(tuple(found))


def added(schema: Schema, one: WeightTensor, other: WeightTensor) -> WeightTensor:
    """Return the sum of two tensors, over the attributes of both."""
    return _merged(schema, one, other, np.add)


def _merged(
    schema: Schema, one: WeightTensor, other: WeightTensor, merge: np.ufunc = np.multiply
) -> WeightTensor:
    both = {*one.names, *other.names}
    names = tuple(name for name in schema.names if name in both)
    if (size := schema.size(names)) > CELL_LIMIT:
        raise QueryError(
            f"The question ties {', '.join(names)} together, which have {large(size)} "
            f"combinations of values; at most {large(CELL_LIMIT)} are possible. "
            "Ask about fewer attributes at once."
        )
    return WeightTensor(names, merge(*(_expanded(schema, each, names) for each in (one, other))))


def _expanded(schema: Schema, part: WeightTensor, names: Sequence[str]) -> Tensor:
    shape = [schema[name].size if name in part.names else 1 for name in names]
    return part.values.reshape(shape)


def _indicator(size: int, code: int) -> Tensor:
    values = np.zeros(size)
    values[code] = 1.0
    return values


@dataclass(frozen=True)
class LinearReading:
    """An estimate of a weighted sum of counts; its error is a sum of independent noises.

    With noises of fourth cumulants κᵢ and coefficients cᵢ, `fourth` is Σ κᵢ cᵢ⁴ and `largest` is
    the largest |cᵢ|. `notes` say what else should be known about the estimate.

    Where the weights differ within a piece whose inside was not measured, `low` and `high` are
    readings with the least and the largest weight of every piece, and the sum itself is read as if
    rows were spread evenly within pieces. The truth is between the truths of `low` and `high`.
    """

    value: float
    variance: float
    fourth: float = 0.0
    largest: float = 0.0
    notes: tuple[str, ...] = ()
    low: LinearReading | None = None
    high: LinearReading | None = None

    @property
    def limits(self) -> tuple[Limit, Limit]:
        """The estimated limits of the sum, with the laws of their errors."""
        low, high = self.low or self, self.high or self
        return Limit(low.value, NoisyTotal(low)), Limit(high.value, NoisyTotal(high))


_EMPTY = LinearReading(0.0, 0.0)  # of no cells


@dataclass(frozen=True)
class KnownTotal:
    """The number of all `rows`, which is known, and its reading `whole` without that knowledge.

    Least squares with a known total takes from every reading the share of its error that the error
    of the total explains: the regression `share` of the one on the other. With the coefficients c
    of the reading and u of the total, what is left has the coefficients c - share · u. So it is
    unbiased, and its variance is smaller by share² times that of the total.
    """

    rows: int
    whole: LinearReading

    def reading(self, found: LinearReading, share: float, mixed: Sequence[float]) -> LinearReading:
        """Return what is left of a reading; `mixed` are Σ κ c⁴⁻ʲ uʲ for j = 1, 2 and 3."""
        numbers = (found.value, found.variance, found.fourth, found.largest)
        columns = (np.array([each]) for each in (*numbers, share, *mixed))
        first, second, third, fourth, own, *sums = columns
        left = self.numbers(np.stack([first, second, third, fourth]), own, sums)
        value, variance, power, largest = left[:, 0].tolist()
        return LinearReading(value, variance, power, largest)

    def numbers(self, found: Floats, share: Floats, mixed: Sequence[Floats]) -> Floats:
        """Return the numbers of readings of many groups (see `Readings`), less their shares."""
        values, variances, fourths, largest = found
        whole = self.whole
        left = variances - share**2 * whole.variance
        one, two, three = mixed
        powers = fourths - 4 * share * one + 6 * share**2 * two - 4 * share**3 * three
        powers = powers + share**4 * whole.fourth
        left[left <= _ROUNDING * variances] = 0.0
        values = values - share * (whole.value - self.rows)
        moments = np.where(left > 0, [left, powers, largest + abs(share) * whole.largest], 0.0)
        return np.stack([values, *np.maximum(moments, 0.0)])


class Reader(Protocol):
    """The measurements of one release, from which weighted sums of cells are estimated."""

    method: str

    def read(self, weights: Weights) -> LinearReading:
        """Return the estimate of Σ weight · count over all cells."""
        ...

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        """Return two readings, and the covariance of their errors."""
        ...


@runtime_checkable
class ManyReader(Protocol):
    """A reader that reads several weights more cheaply together."""

    def read_many(self, several: Sequence[Weights]) -> list[LinearReading]:
        """Return the readings that `read` returns for each of them."""
        ...


@runtime_checkable
class PieceReader(Protocol):
    """A reader of pieces whose inside was not measured."""

    def spread(self, weights: Weights) -> float:
        """Return the variance of an answer around an even spread within pieces, by a model."""
        ...


@runtime_checkable
class QuestionReader(Protocol):
    """A reader with error laws of its own: it answers whole questions."""

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Return every group of the answer with its estimate."""
        ...

    def answer_together(
        self, queries: Sequence[Query], engine: Sandbox
    ) -> dict[int, list[tuple[Key, Estimate]]]:
        """Return the answers that are found more cheaply together, by place in `queries`."""
        ...


@dataclass(frozen=True)
class NoisyTotal:
    """The law of the error of a reading: close to normal, with heavier tails."""

    reading: LinearReading

    @property
    def stderr(self) -> float:
        return math.sqrt(self.reading.variance)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        found = self.reading
        half = noise_half_width(found.variance, found.fourth, found.largest, level)
        return value - half, value + half


@dataclass(frozen=True)
class NoisyAverage(FiellerRatio):
    """The law of the ratio of two readings, of amounts between `least` and `most`.

    `covariance` is that of the errors of `total` and `count`. `centred` is the reading of
    total - ratio * count at the ratio of their values, if it was read. `apart` is a part of the
    total with noise of its own, as sums of amounts that were measured beside the counts.
    """

    total: LinearReading
    count: LinearReading
    covariance: float
    least: float
    most: float
    centred: LinearReading | None = None
    apart: LinearReading = _EMPTY

    @property
    def parts(self) -> tuple[float, float]:
        return self.total.value + self.apart.value, self.count.value

    @property
    def limits(self) -> tuple[float, float]:
        return self.least, self.most

    @property
    def count_variance(self) -> float:
        return self.count.variance

    def variance(self, ratio: float) -> float:
        own = self.total.variance + ratio * ratio * self.count.variance
        return max(own - 2 * ratio * self.covariance, 0.0) + self.apart.variance

    def half_width(self, ratio: float, level: float) -> float:
        # Σ κ (a - r b)⁴ is the fourth power of a norm: it is at most that of the sum of norms, of
        # the coefficients at some ratio and of what the distance from it adds.
        near, known = self.total, 0.0
        if self.centred is not None:
            near = self.centred
            known = self.total.value / self.count.value if self.count.value else math.nan
        away = abs(ratio - known)
        norms = near.fourth**0.25 + away * self.count.fourth**0.25
        largest = max(near.largest + away * self.count.largest, self.apart.largest)
        fourth = norms**4 + self.apart.fourth
        return noise_half_width(self.variance(ratio), fourth, largest, level)


# Readings of all groups of a GROUP BY.

Codes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class GroupedAxes:
    """The attributes of a GROUP BY, and the number of values of each.

    Groups are the combinations of their codes, those of the last attribute fastest.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return prod(self.shape)

    def codes(self, groups: Codes) -> dict[str, Codes]:
        """Return the codes of some groups, by attribute."""
        codes = np.unravel_index(groups, self.shape) if self.names else ()
        return dict(zip(self.names, codes, strict=True))

    def largest(self, weights: Weights) -> Floats:
        """Return the largest absolute weight of a cell, by group."""
        found: Floats = np.ones(self.shape)
        for part in weights.parts:
            others = tuple(i for i, name in enumerate(part.names) if name not in self.names)
            within = np.abs(part.values).max(axis=others, initial=0.0)
            found = found * self.broadcastable(within, [n for n in part.names if n in self.names])
        return found.reshape(-1)

    def broadcastable(self, values: Floats, names: Sequence[str]) -> Floats:
        """Return `values`, which have the axes `names`, as a tensor that broadcasts over groups."""
        order = [names.index(name) for name in self.names if name in names]
        sizes = zip(self.names, self.shape, strict=True)
        return values.transpose(order).reshape([s if name in names else 1 for name, s in sizes])


@dataclass(frozen=True, eq=False)
class Readings:
    """A reading of every group.

    The four rows of `numbers` are values, variances, fourth cumulants and largest coefficients.
    `notes` has the notes of each group; it is empty if there are none. `low` and `high` are
    readings of the limits of the groups, if some group has limits.
    """

    numbers: Floats
    notes: Sequence[tuple[str, ...]] = ()
    low: Readings | None = None
    high: Readings | None = None

    @classmethod
    def of(cls, readings: Sequence[LinearReading]) -> Readings:
        """Return readings that were read one by one."""
        columns = [(each.value, each.variance, each.fourth, each.largest) for each in readings]
        found = cls(np.array(columns).reshape(-1, 4).T, [each.notes for each in readings])
        if all(each.low is None for each in readings):
            return found
        low = cls.of([each.low or each for each in readings])
        return replace(found, low=low, high=cls.of([each.high or each for each in readings]))

    @classmethod
    def joined(cls, parts: Sequence[Readings]) -> Readings:
        """The groups of all parts, one after the other."""
        numbers = np.concatenate([part.numbers for part in parts], axis=1)
        found = cls(numbers, [notes for part in parts for notes in part.notes])
        if all(part.low is None for part in parts):
            return found
        low = cls.joined([part.low or part for part in parts])
        return replace(found, low=low, high=cls.joined([part.high or part for part in parts]))

    @property
    def values(self) -> Floats:
        found: Floats = self.numbers[0]
        return found

    def times(self, factor: float) -> Readings:
        """Return the readings of `factor` times the sums."""
        powers = np.array([factor, factor**2, factor**4, abs(factor)])[:, None]
        low, high = self.low and self.low.times(factor), self.high and self.high.times(factor)
        low, high = (low, high) if factor >= 0 else (high, low)
        return replace(self, numbers=self.numbers * powers, low=low, high=high)

    def plus(self, other: Readings, *, apart: bool) -> Readings:
        """Return the readings of the sums of both, whose noise is independent (`apart`) or not: the
        standard error of a sum is at most the sum of standard errors. Limits are left out.
        """
        one, two = self.numbers, other.numbers
        values, largest = one[0] + two[0], np.maximum(one[3], two[3])
        if apart:
            variances, fourths = one[1] + two[1], one[2] + two[2]
        else:
            variances = (np.sqrt(one[1]) + np.sqrt(two[1])) ** 2
            fourths, largest = (one[2] ** 0.25 + two[2] ** 0.25) ** 4, one[3] + two[3]
        pairs = zip(
            self.notes or [()] * len(values), other.notes or [()] * len(values), strict=True
        )
        notes = [tuple(dict.fromkeys((*first, *second))) for first, second in pairs]
        return Readings(np.stack([values, variances, fourths, largest]), notes)

    @cached_property
    def _rows(self) -> list[tuple[float, float, float, float]]:
        return list(zip(*self.numbers.tolist(), strict=True))

    def at(self, group: int) -> LinearReading:
        """Return the reading of one group."""
        value, variance, fourth, largest = self._rows[group]
        notes = self.notes[group] if self.notes else ()
        found = LinearReading(value, variance, fourth, largest, notes)
        if self.low is None or self.high is None:
            return found
        if self._rows[group] == self.low._rows[group] == self.high._rows[group]:
            return found
        return replace(found, low=self.low.at(group), high=self.high.at(group))

    def ratios(self, others: Readings) -> Floats:
        """Return the values divided by those of `others`; 0 where those are 0."""
        nothing = np.zeros(len(self.values))
        return np.divide(self.values, others.values, nothing, where=others.values != 0)


@dataclass(frozen=True, eq=False)
class AverageReadings:
    """Readings of the total and the count of every group, and the covariances of their errors.

    `centred` are readings of the total minus the count times the ratio of their values; where the
    count is 0, of the total. `apart` are parts of the total with noise of their own, if there are.
    """

    totals: Readings
    counts: Readings
    covariances: Floats
    centred: Readings
    apart: Readings | None = None

    @classmethod
    def joined(cls, parts: Sequence[AverageReadings]) -> AverageReadings:
        """The groups of all parts, one after the other."""
        return cls(
            Readings.joined([part.totals for part in parts]),
            Readings.joined([part.counts for part in parts]),
            np.concatenate([part.covariances for part in parts]),
            Readings.joined([part.centred for part in parts]),
        )

    def law(self, group: int, least: float, most: float) -> NoisyAverage:
        """Return the law of the ratio of one group, which is between `least` and `most`."""
        total, count = self.totals.at(group), self.counts.at(group)
        covariance = float(self.covariances[group])
        apart = _EMPTY if self.apart is None else self.apart.at(group)
        return NoisyAverage(total, count, covariance, least, most, self.centred.at(group), apart)


@dataclass(frozen=True, eq=False)
class AverageWeights:
    """The weights that an average needs: the condition, and its product with the amount."""

    condition: Weights
    amount: WeightTensor
    weighted: Weights


@runtime_checkable
class GroupReader(Protocol):
    """A reader that reads all groups together."""

    def by_group(self, weights: Weights, grouping: GroupedAxes) -> Readings:
        """Return a reading of each group: its own cells have their weights, all others 0."""
        ...

    def averages(self, average: AverageWeights, grouping: GroupedAxes) -> AverageReadings:
        """Return readings of the weighted cells of each group, and of the condition alone."""
        ...


@runtime_checkable
class SharingReader(Protocol):
    """A reader of several releases, whose shares depend on what is read."""

    def fixed(self, weights: Weights, *others: Weights) -> Reader:
        """Return a reader with the shares that are best for `weights`, also for `others`."""
        ...


AverageReading = tuple[LinearReading, LinearReading, float, LinearReading]


def read_average(
    schema: Schema, reader: Reader, within: Weights, amount: WeightTensor
) -> AverageReading:
    """Return readings of the total and the count of the cells `within`, the covariance of their
    errors, and the reading of the total less the count times the ratio of their values.

    All are read with the same shares of releases: those that are best for the total of what the
    amounts differ from their middle by, so that the noise has no part in their choice.
    """

    def times(values: Floats) -> Weights:
        return joined(schema, [*within.parts, WeightTensor(amount.names, values)])

    weighted = times(amount.values)
    if isinstance(reader, SharingReader):
        differing = amount.values - amount.values.mean()
        reader = reader.fixed(times(differing) if differing.any() else within, within, weighted)
    total, count, covariance = reader.pair(weighted, within)
    ratio = total.value / count.value if count.value else 0.0
    return total, count, covariance, reader.read(times(amount.values - ratio))


@dataclass(frozen=True)
class OneByOne:
    """Any reader as a `GroupReader`: it reads one group after the other."""

    schema: Schema
    reader: Reader

    def by_group(self, weights: Weights, grouping: GroupedAxes) -> Readings:
        fixed = self._fixed(weights, grouping)
        return Readings.of([self.reader.read(each) if each.largest() else _EMPTY for each in fixed])

    def averages(self, average: AverageWeights, grouping: GroupedAxes) -> AverageReadings:
        found = [
            read_average(self.schema, self.reader, within, average.amount)
            if within.largest()
            else (_EMPTY, _EMPTY, 0.0, _EMPTY)
            for within in self._fixed(average.condition, grouping)
        ]
        totals, counts, covariances, centred = zip(*found, strict=True)
        return AverageReadings(
            Readings.of(totals), Readings.of(counts), np.array(covariances), Readings.of(centred)
        )

    def _fixed(self, weights: Weights, grouping: GroupedAxes) -> Iterator[Weights]:
        for codes in np.ndindex(*grouping.shape):
            yield weights.fixed(self.schema, dict(zip(grouping.names, codes, strict=True)))
