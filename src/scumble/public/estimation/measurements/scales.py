"""Reader of a base of tables over few attributes each, of a domain that is too large for one table.

Every table measures an axis for each of its attributes (Haar, Nominal), whose last group is the sum
of all its values. So a table tells every product of groups, and one that has the sum at all but a
few attributes is told by each table with these: their mean, weighted by precision, is least
squares. A question about few attributes is a weighted sum of such numbers. One about more has a
part that no table tells. That part counts as measured with a standard error far above the number of
rows: it cancels where purchased counts tell it. Where they do not, the question is not estimable
and has bounds:

- from above by the count without the conditions on some attributes;
- from below, for two sets of conditions A and B that are all of them together, by the rows that
  have A plus those that have B, less those that have what A and B share.

Each limit is one estimable sum, and the best of several is taken, each at a level that lets all of
them hold together (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, prod, sqrt

import numpy as np

from scumble.model.designs.axis import Axis, Floats
from scumble.model.designs.kronecker import Product
from scumble.model.schema.schema import Schema
from scumble.public.estimation.bounds import Limit
from scumble.public.estimation.measurements.appended import AppendedReader, Terms, products
from scumble.public.estimation.measurements.readings import (
    GroupedAxes,
    LinearReading,
    NoisyTotal,
    Readings,
    Weights,
    WeightTensor,
)

Places = tuple[int, ...]
MOST_LIMITS = 20  # of a question, on either side
_UNKNOWN = 100.0  # times the number of rows: the standard error of what no table tells
_LEAST_ROWS = 1000.0
_MANY_ROWS = 1e8  # where their number is private: what is bought depends on questions only
_ROUNDING = 1e-14  # of the variance by the base: less cannot be told from 0
_UNTOLD = 0.1  # of this variance is left: a question with more is not estimable


@dataclass(frozen=True)
class ScalePart:
    """The numbers of all products of groups that have the sum at all attributes but `places`: their
    values, and the variances by groups.
    """

    places: Places
    values: Floats
    variances: Floats


@dataclass(frozen=True, eq=False)
class Scales:
    """What tables over up to `ways` attributes each tell together; all sets of `ways` have one."""

    names: tuple[tuple[str, ...], ...]
    axes: tuple[Axis, ...]
    ways: int
    parts: tuple[ScalePart, ...]

    @classmethod
    def of(cls, names: Sequence[str], tables: Sequence[tuple[Product, Floats]]) -> Scales:
        """Return what these designs and their numbers tell."""
        axes: dict[str, Axis] = {}
        found: dict[Places, list[tuple[Floats, Floats]]] = {}
        for design, numbers in tables:
            axes |= dict(zip(design.columns, design.axes, strict=True))
            places = [names.index(name) for name in design.columns]
            tensor = _tensor(design, numbers)
            for size in range(len(places) + 1):
                for some in combinations(range(len(places)), size):
                    at = tuple(slice(-1) if i in some else -1 for i in range(len(places)))
                    key = tuple(places[i] for i in some)
                    found.setdefault(key, []).append((tensor[at], 1 / design.variances[at]))
        ways = max(len(design.columns) for design, _ in tables)
        ordered = tuple(axes[name] for name in names)
        parts = tuple(_merged(key, several, ordered) for key, several in found.items())
        return cls(tuple((name,) for name in names), ordered, ways, parts)

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(len(axis.lengths) for axis in self.axes)

    def coefficients(self, places: Sequence[int], weights: Floats) -> list[Floats]:
        """Return the coefficients of the groups of one axis in a weighted sum of its cells."""
        [place] = places
        axis = self.axes[place]
        if (weights == weights[0]).all():  # the sum alone, without rounding
            return [*map(np.zeros, axis.lengths[:-1]), np.array([float(weights[0])])]
        return [each.reshape(-1) for each in axis.adjoint(weights.reshape(1, -1, 1))]

    def value(self, row: Sequence[Floats]) -> float:
        """Return the estimate of a product, by its coefficients along each axis; 0 for what no
        table tells.
        """
        total = 0.0
        for part in self.parts:
            rest = prod(float(row[i][-1]) for i in range(len(row)) if i not in part.places)
            if rest:
                numbers = part.values
                for place in part.places:
                    numbers = np.tensordot(row[place][:-1], numbers, (0, 0))
                total += rest * float(numbers)
        return total

    def covariances(self, inner: Sequence[Floats]) -> Floats:
        """Return the covariances of pairs of products by the tables, from the inner products of
        their coefficients: groups of each axis × pairs.
        """
        found: Floats = np.zeros(inner[0].shape[1])
        for part in self.parts:
            numbers = np.broadcast_to(part.variances[..., np.newaxis], (*part.variances.shape, 1))
            for place in part.places:
                numbers = (_along(inner[place][:-1], numbers.ndim - 2) * numbers).sum(axis=0)
            found += numbers * _product(
                [inner[i][-1] for i in range(len(inner)) if i not in part.places]
            )
        return found

    def untold(self, inner: Sequence[Floats]) -> Floats:
        """Return the inner products of what no table tells of pairs of products; exactly 0 where
        one of them is told.
        """
        pairs = inner[0].shape[1]
        by_size = [np.ones(pairs), *(np.zeros(pairs) for _ in range(self.ways))]
        more: Floats = np.zeros(pairs)
        for each in inner:
            asked, total = each[:-1].sum(axis=0), each[-1]
            more = more * (asked + total) + by_size[-1] * asked
            by_size = [
                number * total + (by_size[size - 1] * asked if size else 0.0)
                for size, number in enumerate(by_size)
            ]
        return more


def _tensor(design: Product, numbers: Floats) -> Floats:
    """Return the numbers of a product with an axis for each attribute."""
    edges = [np.concatenate([[0], np.cumsum(axis.lengths)]) for axis in design.axes]
    found: Floats = np.empty([sum(axis.lengths) for axis in design.axes])
    parts = design.split(numbers)
    for group, part in zip(np.ndindex(*design.groups), parts, strict=True):
        at = [slice(edge[k], edge[k + 1]) for edge, k in zip(edges, group, strict=True)]
        own = found[tuple(at)]
        found[tuple(at)] = part.reshape(own.shape)
    return found


def _merged(
    places: Places, several: Sequence[tuple[Floats, Floats]], axes: Sequence[Axis]
) -> ScalePart:
    """Return the means of the same numbers from several tables, by their precisions."""
    precisions = sum(precision for _, precision in several)
    lengths = [np.array(axes[place].lengths[:-1]) for place in places]

    def by_number(groups: Floats) -> Floats:
        for direction, each in enumerate(lengths):
            groups = np.repeat(groups, each, axis=direction)
        return groups

    values = sum(by_number(own / precisions) * numbers for numbers, own in several)
    return ScalePart(places, np.asarray(values), np.asarray(1 / np.asarray(precisions)))


def _along(products: Floats, others: int) -> Floats:
    """Return groups × pairs with room for the groups of other axes between them."""
    groups, pairs = products.shape
    return products.reshape(groups, *(1,) * others, pairs)


def _product(factors: Sequence[Floats]) -> Floats | float:
    found: Floats | float = 1.0
    for each in factors:
        found = found * each
    return found


# --- bounds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Best:
    """The law of the best of several limits of a count: the largest lower one, or the least upper
    one. Each holds at a level that lets all hold together; a count is at least 0.
    """

    readings: tuple[LinearReading, ...]
    lower: bool

    def chosen(self, level: float = 0.95) -> tuple[float, LinearReading]:
        """Return the best limit at a level, and its reading."""
        own = 1 - (1 - level) / max(len(self.readings), 1)
        side, better = (0, max) if self.lower else (1, min)
        ends = [(NoisyTotal(each).interval(each.value, own)[side], each) for each in self.readings]
        nothing = (0.0, LinearReading(0.0, 0.0))
        found = better(ends, key=lambda pair: pair[0], default=nothing)
        return max(nothing, found, key=lambda pair: pair[0]) if self.lower else found

    @property
    def stderr(self) -> float:
        return sqrt(self.chosen()[1].variance)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        end = self.chosen(level)[0]
        return (end, inf) if self.lower else (-inf, max(end, 0.0))


@dataclass(frozen=True)
class Times:
    """The law of a limit times a number."""

    law: Best
    factor: float

    @property
    def stderr(self) -> float:
        return abs(self.factor) * self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        ends = [self.factor * end if self.factor else 0.0 for end in self.law.interval(0.0, level)]
        return min(ends), max(ends)


@dataclass(frozen=True)
class BoundedReading(LinearReading):
    """A reading in the middle of the limits `ends`, which is all that is known."""

    ends: tuple[Limit, Limit] | None = None

    @classmethod
    def of(cls, below: Best, above: Best, amounts: tuple[float, float]) -> BoundedReading:
        """Return the reading of the sum of amounts over rows whose count has these limits."""
        least, most = amounts
        pair = [(least, below if least >= 0 else above), (most, above if most >= 0 else below)]
        readings = [(factor, law.chosen()[1], law) for factor, law in pair]
        low, high = (
            LinearReading(factor * max(each.value, 0.0), factor**2 * each.variance)
            for factor, each, _ in readings
        )
        first, second = (
            Limit(each.value, Times(law, factor))
            for each, (factor, _, law) in zip((low, high), readings, strict=True)
        )
        variance = max(low.variance, high.variance)
        middle = (low.value + high.value) / 2
        return cls(middle, variance, low=low, high=high, ends=(first, second))

    @property
    def limits(self) -> tuple[Limit, Limit]:
        return super().limits if self.ends is None else self.ends


@dataclass(frozen=True, eq=False)
class ListedReadings(Readings):
    """Readings of which each group has its own kind."""

    listed: Sequence[LinearReading] = ()

    def at(self, group: int) -> LinearReading:
        return self.listed[group]


Parts = tuple[WeightTensor, ...]


def wider(parts: Parts, ways: int) -> list[Parts]:
    """Return which conditions to keep so that the count is estimable, the strictest first."""
    kept = list(_kept(parts, ways))
    return sorted((_chosen(parts, each) for each in kept), key=_share)[:MOST_LIMITS]


def shared(parts: Parts, ways: int) -> list[tuple[Parts, Parts, Parts]]:
    """Return pairs of sets of conditions that are all of them together, and what both share."""
    every = frozenset(range(len(parts)))
    pairs = [(a, b) for a, b in combinations(_kept(parts, ways), 2) if a | b == every]
    found = [tuple(_chosen(parts, each) for each in (a, b, a & b)) for a, b in pairs]
    found.sort(key=lambda each: _share(each[2]) - _share(each[0]) - _share(each[1]))
    return [(a, b, both) for a, b, both in found[:MOST_LIMITS]]


def _kept(parts: Parts, ways: int) -> list[frozenset[int]]:
    """Return the largest sets of parts with at most so many attributes."""
    sizes = [len(part.names) for part in parts]
    found: list[frozenset[int]] = []
    for number in range(min(len(parts), ways), -1, -1):
        for some in map(frozenset, combinations(range(len(parts)), number)):
            small = sum(sizes[place] for place in some) <= ways
            if small and not any(some < each for each in found):
                found.append(some)
    return found


def _chosen(parts: Parts, places: frozenset[int]) -> Parts:
    return tuple(parts[place] for place in sorted(places))


def _share(parts: Parts) -> float:
    """Return which share of all cells satisfies the conditions."""
    return prod(float(part.values.mean()) for part in parts)


def _extremes(weights: Weights) -> tuple[float, float]:
    """Return the least and the largest weight of a cell that has one."""
    least, most = 1.0, 1.0
    for part in weights.parts:
        there = part.values[part.values != 0]
        ends = [end * each for end in (least, most) for each in (there.min(), there.max())]
        least, most = float(min(ends)), float(max(ends))
    return least, most


# --- the reader -----------------------------------------------------------------------------------


class ScaleReader(AppendedReader):
    """Reads weighted sums of cells from tables and appended counts; within bounds where these do
    not tell them.
    """

    def __init__(self, scales: Scales, schema: Schema, rows: int | None = None) -> None:
        self._scales = scales
        self._unknown = (_MANY_ROWS if rows is None else _UNKNOWN * max(rows, _LEAST_ROWS)) ** 2
        self._start(scales, schema, rows)

    def read_many(self, several: Sequence[Weights]) -> list[LinearReading]:
        terms = self._terms_of(several)
        found, _ = self._read(terms, several)
        untold = self._unknown * _UNTOLD * self._with_itself(terms, self._scales.untold)
        return [
            self._between(weights) if part and each.variance > part else each
            for weights, each, part in zip(several, found, untold.tolist(), strict=True)
        ]

    def by_group(self, weights: Weights, grouping: GroupedAxes) -> Readings:
        listed = self.read_many(self._groups(weights, grouping))
        found = Readings.of(listed)
        return ListedReadings(found.numbers, found.notes, found.low, found.high, listed)

    def _between(self, weights: Weights) -> LinearReading:
        """Return the bounds of a sum that is not estimable."""
        parts = tuple(
            WeightTensor(part.names, (part.values != 0).astype(np.float64))
            for part in weights.parts
            if part.names and Weights((part,)).constant is None
        )
        ways = self._scales.ways
        others = self._others(parts)
        asked = parts if others is None else others
        above = [[(1.0, each)] for each in wider(asked, ways)]
        below = [[(1.0, a), (1.0, b), (-1.0, c)] for a, b, c in shared(asked, ways)]
        if others is not None:  # all rows less these
            every: list[tuple[float, Parts]] = [(1.0, ())]
            above, below = (
                [[*((-sign, each) for sign, each in form), *every] for form in forms if form[0][1]]
                for forms in (below, above)
            )
            above = above or [every]
        best = Best(self._sums(below), lower=True), Best(self._sums(above), lower=False)
        return BoundedReading.of(*best, _extremes(weights))

    def _others(self, parts: Parts) -> Parts | None:
        """Return the conditions that all rows meet but those of one condition on many attributes,
        such as one of several that are joined by OR; None if these are no product.
        """
        if len(parts) != 1 or len(parts[0].names) <= self._scales.ways:
            return None
        negated = WeightTensor(parts[0].names, 1 - parts[0].values)
        first, *more = products(self._schema, Weights((negated,)))
        return None if more else first.parts

    def _sums(self, forms: Sequence[Sequence[tuple[float, Parts]]]) -> tuple[LinearReading, ...]:
        """Return the readings of sums of several counts each, with their signs."""
        rows, owners = [], []
        for place, form in enumerate(forms):
            for sign, parts in form:
                signed = Weights((*parts, WeightTensor((), np.array(sign))))
                for term in products(self._schema, signed):
                    rows.append(self._row(term))
                    owners.append(place)
        terms = Terms(
            np.array(rows).reshape(-1, self._width), np.array(owners, np.intp), len(forms)
        )
        return tuple(self._read(terms, [Weights(form[0][1]) for form in forms])[0])

    def _read_base(self, terms: Terms, several: Sequence[Weights]) -> list[LinearReading]:
        ends = np.cumsum([sum(axis.lengths) for axis in self._scales.axes])[:-1]
        values = [self._scales.value(np.split(row, ends)) for row in terms.rows]
        summed = terms.added(np.array(values)).tolist()
        variances = self._with_itself(terms, self._contracted).tolist()
        return [LinearReading(*each) for each in zip(summed, variances, strict=True)]

    def _rounded(self, left: float, base: float) -> float:
        return max(left, _ROUNDING * base)  # nothing but the number of rows is known exactly

    def _with_itself(self, terms: Terms, verb: Callable[[Sequence[Floats]], Floats]) -> Floats:
        """Return what `verb` makes of the inner products of each sum with itself."""
        found: Floats = np.zeros(terms.sums)
        for owner in range(terms.sums):
            rows = terms.rows[terms.owners == owner]
            found[owner] = verb(self._inner(rows, rows)).sum()
        return found

    def _contracted(self, inner: Sequence[Floats]) -> Floats:
        return self._scales.covariances(inner) + self._unknown * self._scales.untold(inner)

    @property
    def _blocks(self) -> int:
        return sum(self._scales.groups) + max(each.variances.size for each in self._scales.parts)
