"""Readings of all groups from a product of axes.

What the error of a group needs are sums of powers of coefficients by the groups of numbers of every
axis. Those of an axis of which a group has one cell do not depend on the question; those of others
are found together for all codes on which they depend. A reading is a product of such tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import Product
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.group_readings import (
    Average,
    Codes,
    Grouping,
    Readings,
    Shares,
)
from scumble.public.estimation.measurements.product_slabs import Slab, Table
from scumble.public.estimation.measurements.readings import Part, Weights


@dataclass(frozen=True, eq=False)
class ProductGroups:
    """One GROUP BY. `marginal` gives the estimated counts of some attributes, `fixed` the table of
    a slab that no weights touch.
    """

    design: Product
    schema: Schema
    grouping: Grouping
    marginal: Callable[[tuple[str, ...]], Floats]
    fixed: Callable[[Slab], Table]

    def readings(self, weights: Weights) -> Readings:
        slabs = self._slabs(weights, self._tied([weights]))
        tables = [self._table(slab) for slab in slabs]
        return self._readings(self._values(weights), tables, self._factor(weights))

    def shares(self, average: Average) -> Shares:
        """The weights of the sum and those of the count differ in one slab at most, for the amount
        was joined with what it shares attributes with.
        """
        both = average.weighted, average.condition
        tied = self._tied(both)
        ones, others = (self._slabs(weights, tied) for weights in both)
        factor, own_factor = map(self._factor, both)
        tables = [self._table(slab) for slab in others]
        pairs = zip(ones, others, strict=True)
        different = [i for i, (one, other) in enumerate(pairs) if one.parts != other.parts]
        first, shared = list(tables), list(tables)
        for place in different:
            one, other = _alike(ones[place], others[place])
            first[place], shared[place] = one.table(), one.table(other)
        totals = self._readings(self._values(average.weighted), first, factor)
        counts = self._readings(self._values(average.condition), tables, own_factor)
        covariances = self._contracted(self.design.variances, shared) * factor * own_factor
        ratios = totals.ratios(counts)
        apart = factor - ratios * own_factor
        for place in different:
            tables[place] = self._apart(ones[place], others[place], factor, ratios * own_factor)
            apart = np.ones(len(self.grouping))
        centred = self._readings(totals.values - ratios * counts.values, tables, apart)
        return Shares(totals, counts, covariances, centred)

    def _apart(self, one: Slab, other: Slab, factor: Floats, other_factor: Floats) -> Table:
        """Of the weights of a slab minus those of another, each times a factor by group."""

        def weights(some: Codes) -> Floats:
            codes = self.grouping.codes(some)
            along = (-1,) + (1,) * len(one.places)
            first = factor[some].reshape(along) * one.at(codes)
            return first - other_factor[some].reshape(along) * other.at(codes)

        return one.pulled(self.grouping, weights)

    def _tied(self, several: Sequence[Weights]) -> list[tuple[int, ...]]:
        """The axes in sets, so that no part is about two of them if the groups' codes are fixed."""
        axis_of = {name: i for i, names in enumerate(self.design.names) for name in names}
        free = axis_of.keys() - set(self.grouping.names)
        sets = [{place} for place in range(len(self.design.axes))]
        for part in (part for weights in several for part in weights.parts):
            touched = {axis_of[name] for name in free.intersection(part.names)}
            together = [each for each in sets if not each.isdisjoint(touched)]
            sets = [each for each in sets if each.isdisjoint(touched)]
            sets += [set().union(*together)] if together else []
        return [tuple(sorted(each)) for each in sets]

    def _slabs(self, weights: Weights, tied: Sequence[tuple[int, ...]]) -> list[Slab]:
        free = [part for part in weights.parts if not self._grouped(part)]
        return [self._slab(free, places) for places in tied]

    def _slab(self, free: Sequence[Part], places: tuple[int, ...]) -> Slab:
        own = {name for place in places for name in self.design.names[place]}
        inside = own.difference(self.grouping.names)
        parts = tuple(part for part in free if not inside.isdisjoint(part.names))
        near = own.union(*(part.names for part in parts))
        names = tuple(name for name in self.grouping.names if name in near)
        sizes = {name: self.schema[name].size for name in self.design.columns}
        return Slab(self.design, sizes, places, parts, names)

    def _table(self, slab: Slab) -> Table:
        return self.fixed(slab) if slab.fixed else slab.table()

    def _grouped(self, part: Part) -> bool:
        """Whether a group fixes the weight of a part."""
        return set(part.names) <= set(self.grouping.names)

    def _factor(self, weights: Weights) -> Floats:
        """What the parts that a group fixes make of all weights, by group."""
        found: Floats = np.ones(self.grouping.shape)
        for part in filter(self._grouped, weights.parts):
            found = found * self.grouping.spread(part.values, part.names)
        return found.reshape(-1)

    def _values(self, weights: Weights) -> Floats:
        """The weighted sums of the estimated cells."""
        named = {*weights.names, *self.grouping.names}
        left = [name for name in self.design.columns if name in named]
        total = self.marginal(tuple(left))
        for part in weights.parts:
            gone = set(part.names).difference(self.grouping.names)
            kept = [name for name in left if name not in gone]
            total, left = _product((total, left), (part.values, part.names), kept), kept
        return self.grouping.spread(total, left).reshape(-1)

    def _readings(self, values: Floats, tables: Sequence[Table], factor: Floats) -> Readings:
        fourths = [replace(table, products=table.fourths) for table in tables]
        largest = np.abs(factor)
        for table in tables:
            spread = np.broadcast_to(
                self.grouping.spread(table.largest, table.names), self.grouping.shape
            )
            largest = largest * spread.reshape(-1)
        return Readings(
            np.stack(
                [
                    values,
                    self._contracted(self.design.variances, tables) * factor**2,
                    self._contracted(self.design.fourths, fourths) * factor**4,
                    largest,
                ]
            )
        )

    def _contracted(self, numbers: Floats, tables: Sequence[Table]) -> Floats:
        """Numbers by the groups of all axes, times the products of every table, added up."""
        left = [str(place) for place in range(numbers.ndim)]
        names = {name: f"of {name}" for name in self.grouping.names}  # no name of a place
        for table in sorted(tables, key=lambda table: table.largest.size):
            places = [str(place) for place in table.places]
            own = [names[name] for name in table.names]
            kept = [axis for axis in left if axis not in places and axis not in own] + own
            numbers = _product((numbers, left), (table.products, [*own, *places]), kept)
            left = kept
        back = {axis: name for name, axis in names.items()}
        return self.grouping.spread(numbers, [back[axis] for axis in left]).reshape(-1)


def _product(
    one: tuple[Floats, Sequence[str]], other: tuple[Floats, Sequence[str]], kept: Sequence[str]
) -> Floats:
    """The product of two tensors with named axes, summed over all but some."""
    numbers = {axis: place for place, axis in enumerate(dict.fromkeys((*one[1], *other[1])))}
    first, second, output = ([numbers[axis] for axis in axes] for axes in (one[1], other[1], kept))
    einsum: Any = np.einsum  # its signature knows of strings only
    found: Floats = einsum(one[0], first, other[0], second, output)
    return found


def _alike(one: Slab, other: Slab) -> tuple[Slab, Slab]:
    """Both by the codes on which either depends."""
    names = tuple(dict.fromkeys((*one.names, *other.names)))
    return replace(one, names=names), replace(other, names=names)
