"""Readings of all groups of a GROUP BY from a Kronecker product of axes.

The error of a group needs sums of powers of coefficients, by the groups of equally noisy numbers of
every axis. For an axis of which a group has one cell, they do not depend on the question. For other
axes they are computed together for all codes on which they depend. A reading is a product of such
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import Product
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.readings import (
    AverageReadings,
    AverageWeights,
    Codes,
    Grouping,
    KnownTotal,
    Part,
    Readings,
    Weights,
)

_AT_ONCE = 1 << 19  # weights of cells that are pulled back together


def tied_axes(
    design: Product, several: Sequence[Weights], fixed: Collection[str] = ()
) -> list[tuple[int, ...]]:
    """Partition the axes of `design` so that no part of any weights has attributes in two sets.

    The attributes `fixed` do not count, since a group fixes their codes.
    """
    axis_of = {name: i for i, names in enumerate(design.names) for name in names}
    free = axis_of.keys() - set(fixed)
    sets = [{place} for place in range(len(design.axes))]
    for part in (part for weights in several for part in weights.parts):
        touched = {axis_of[name] for name in free.intersection(part.names)}
        together = [each for each in sets if not each.isdisjoint(touched)]
        sets = [each for each in sets if each.isdisjoint(touched)]
        sets += [set().union(*together)] if together else []
    return [tuple(sorted(each)) for each in sets]


@dataclass(frozen=True, eq=False)
class ProductGroups:
    """The readings of one GROUP BY.

    `marginal` returns the estimated counts by some attributes. `fixed` returns the table of a block
    that no weights touch. `known` is the number of all rows, if it is known.
    """

    design: Product
    schema: Schema
    grouping: Grouping
    marginal: Callable[[tuple[str, ...]], Floats]
    fixed: Callable[[GroupedBlock], BlockTable]
    known: KnownTotal | None = None

    def readings(self, weights: Weights) -> Readings:
        blocks = self._blocks(weights, tied_axes(self.design, [weights], self.grouping.names))
        tables = [self._table(block) for block in blocks]
        return self._readings(self._values(weights), tables, self._factor(weights))

    def averages(self, average: AverageWeights) -> AverageReadings:
        """Return the readings of totals and counts.

        The weights of total and count differ in at most one block, since the amount was joined with
        the parts that it shares attributes with.
        """
        both = average.weighted, average.condition
        tied = tied_axes(self.design, both, self.grouping.names)
        ones, others = (self._blocks(weights, tied) for weights in both)
        factor, own_factor = map(self._factor, both)
        tables = [self._table(block) for block in others]
        pairs = zip(ones, others, strict=True)
        different = [i for i, (one, other) in enumerate(pairs) if one.parts != other.parts]
        first, shared = list(tables), list(tables)
        for place in different:
            one, other = _by_same_codes(ones[place], others[place])
            first[place], shared[place] = one.table(), one.table(other)
        totals = self._readings(self._values(average.weighted), first, factor)
        counts = self._readings(self._values(average.condition), tables, own_factor)
        covariances = self._contracted(self.design.variances, shared) * factor * own_factor
        if self.known is not None:
            shares = self._share(first, factor) * self._share(tables, own_factor)
            covariances = covariances - shares * self.known.whole.variance
        ratios = totals.ratios(counts)
        difference = factor - ratios * own_factor
        for place in different:
            tables[place] = self._difference(
                ones[place], others[place], factor, ratios * own_factor
            )
            difference = np.ones(len(self.grouping))
        values = self._values(average.weighted) - ratios * self._values(average.condition)
        centred = self._readings(values, tables, difference)
        return AverageReadings(totals, counts, covariances, centred)

    def _difference(
        self, one: GroupedBlock, other: GroupedBlock, factor: Floats, other_factor: Floats
    ) -> BlockTable:
        """Return the table of a block's weights minus another's, each times a factor by group."""

        def weights(some: Codes) -> Floats:
            codes = self.grouping.codes(some)
            along = (-1,) + (1,) * len(one.places)
            first = factor[some].reshape(along) * one.at(codes)
            return first - other_factor[some].reshape(along) * other.at(codes)

        return one.pulled(self.grouping, weights)

    def _blocks(self, weights: Weights, tied: Sequence[tuple[int, ...]]) -> list[GroupedBlock]:
        free = [part for part in weights.parts if not self._grouped(part)]
        return [self._block(free, places) for places in tied]

    def _block(self, free: Sequence[Part], places: tuple[int, ...]) -> GroupedBlock:
        own = {name for place in places for name in self.design.names[place]}
        inside = own.difference(self.grouping.names)
        parts = tuple(part for part in free if not inside.isdisjoint(part.names))
        near = own.union(*(part.names for part in parts))
        names = tuple(name for name in self.grouping.names if name in near)
        sizes = {name: self.schema[name].size for name in self.design.columns}
        return GroupedBlock(self.design, sizes, places, parts, names, self.known is not None)

    def _table(self, block: GroupedBlock) -> BlockTable:
        return self.fixed(block) if block.fixed else block.table()

    def _grouped(self, part: Part) -> bool:
        """Return whether a group fixes the weight of a part."""
        return set(part.names) <= set(self.grouping.names)

    def _factor(self, weights: Weights) -> Floats:
        """Return the product of the parts whose weight a group fixes, by group."""
        found: Floats = np.ones(self.grouping.shape)
        for part in filter(self._grouped, weights.parts):
            found = found * self.grouping.broadcastable(part.values, part.names)
        return found.reshape(-1)

    def _values(self, weights: Weights) -> Floats:
        """Return the weighted sums of the estimated cells, by group."""
        named = {*weights.names, *self.grouping.names}
        left = [name for name in self.design.columns if name in named]
        total = self.marginal(tuple(left))
        for part in weights.parts:
            gone = set(part.names).difference(self.grouping.names)
            kept = [name for name in left if name not in gone]
            total, left = _product((total, left), (part.values, part.names), kept), kept
        return self.grouping.broadcastable(total, left).reshape(-1)

    def _readings(self, values: Floats, tables: Sequence[BlockTable], factor: Floats) -> Readings:
        fourths = [replace(table, products=table.fourths) for table in tables]
        largest = np.abs(factor)
        for table in tables:
            spread = np.broadcast_to(
                self.grouping.broadcastable(table.largest, table.names), self.grouping.shape
            )
            largest = largest * spread.reshape(-1)
        found = np.stack(
            [
                values,
                self._contracted(self.design.variances, tables) * factor**2,
                self._contracted(self.design.fourths, fourths) * factor**4,
                largest,
            ]
        )
        if self.known is None:
            return Readings(found)
        mixed = []
        for place in range(3):
            chosen = [replace(table, products=table.mixed[place + 1]) for table in tables]
            sums = self._contracted(self.design.fourths, chosen)
            mixed.append(sums * factor ** (3 - place))
        return Readings(self.known.numbers(found, self._share(tables, factor), mixed))

    def _share(self, tables: Sequence[BlockTable], factor: Floats) -> Floats:
        """Return the regression of the error of every group on that of the sum of all cells."""
        if self.known is None:
            return np.zeros(len(self.grouping))
        shared = [replace(table, products=table.mixed[0]) for table in tables]
        covariances = self._contracted(self.design.variances, shared)
        return covariances * factor / self.known.whole.variance

    def _contracted(self, numbers: Floats, tables: Sequence[BlockTable]) -> Floats:
        """Sum `numbers`, given by the groups of numbers of all axes, times all tables."""
        left = [str(place) for place in range(numbers.ndim)]
        names = {
            name: f"of {name}" for name in self.grouping.names
        }  # differs from the name of any place
        for table in sorted(tables, key=lambda table: table.largest.size):
            places = [str(place) for place in table.places]
            own = [names[name] for name in table.names]
            kept = [axis for axis in left if axis not in places and axis not in own] + own
            numbers = _product((numbers, left), (table.products, [*own, *places]), kept)
            left = kept
        back = {axis: name for name, axis in names.items()}
        return self.grouping.broadcastable(numbers, [back[axis] for axis in left]).reshape(-1)


def _product(
    one: tuple[Floats, Sequence[str]], other: tuple[Floats, Sequence[str]], kept: Sequence[str]
) -> Floats:
    """Return the product of two tensors with named axes, summed over all axes but `kept`."""
    numbers = {axis: place for place, axis in enumerate(dict.fromkeys((*one[1], *other[1])))}
    first, second, output = ([numbers[axis] for axis in axes] for axes in (one[1], other[1], kept))
    einsum: Any = np.einsum  # its type has the form with strings only
    found: Floats = einsum(one[0], first, other[0], second, output)
    return found


def _by_same_codes(one: GroupedBlock, other: GroupedBlock) -> tuple[GroupedBlock, GroupedBlock]:
    """Return both blocks by the codes on which either depends."""
    names = tuple(dict.fromkeys((*one.names, *other.names)))
    return replace(one, names=names), replace(other, names=names)


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Sums over the coefficients of numbers along the axes `places`.

    `products` are sums of products of two coefficients of a number, and `fourths` sums of fourth
    powers of the first. Their axes are the codes of the grouped attributes `names`, and then the
    groups of numbers of the axes. `largest` is the largest first coefficient, by these codes.
    `mixed` are sums of c u, c³ u, c² u² and c u³, with the first coefficients c and those u of the
    sum of all cells; none unless the number of rows is known.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    products: Floats
    fourths: Floats
    largest: Floats
    mixed: Floats


@dataclass(frozen=True, eq=False)
class GroupedBlock:
    """Axes that the parts of some weights tie together when the codes of all grouped attributes
    are fixed. The weights of their cells depend on the grouped attributes `names`.
    """

    design: Product
    sizes: dict[str, int]  # of all attributes
    places: tuple[int, ...]
    parts: tuple[Part, ...]
    names: tuple[str, ...]
    mixed: bool = False  # whether tables have mixed sums

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of these axes, in the order of their cells."""
        return tuple(name for place in self.places for name in self.design.names[place])

    @property
    def fixed(self) -> bool:
        """Whether a group has a single cell of these axes, of weight 1."""
        return not self.parts and set(self.attributes) <= set(self.names)

    def at(self, codes: dict[str, Codes]) -> Floats:
        """Return the weights of all cells for many codes: an axis for these, then the axes."""
        count = len(next(iter(codes.values()))) if codes else 1
        tensor = np.ones((count, *(self.sizes[name] for name in self.attributes)))
        for part in self.parts:
            grouped = [name for name in part.names if name in codes]
            others = [name for name in self.attributes if name in part.names and name not in codes]
            order = [part.names.index(name) for name in (*grouped, *others)]
            chosen = part.values.transpose(order)[tuple(codes[name] for name in grouped)]
            tensor *= chosen.reshape(-1 if grouped else 1, *self._shape(others))
        for name in set(self.attributes).intersection(codes):
            hit = codes[name][:, None] == np.arange(self.sizes[name])
            tensor *= hit.reshape(-1, *self._shape([name]))
        return tensor.reshape(count, *(self.design.axes[place].size for place in self.places))

    def _shape(self, names: Sequence[str]) -> list[int]:
        return [self.sizes[name] if name in names else 1 for name in self.attributes]

    def table(self, second: GroupedBlock | None = None) -> BlockTable:
        """Return the table of these weights, or of these and those of a `second` block.

        The second block has the same axes and names.
        """
        keys = Grouping(self.names, tuple(self.sizes[name] for name in self.names))
        other = None if second is None else lambda some: second.at(keys.codes(some))
        return self.pulled(keys, lambda some: self.at(keys.codes(some)), other)

    def pulled(
        self,
        keys: Grouping,
        first: Callable[[Codes], Floats],
        second: Callable[[Codes], Floats] | None = None,
    ) -> BlockTable:
        """Return the table of any weights of the cells of these axes, by key."""
        step = max(_AT_ONCE // prod(self.design.axes[place].size for place in self.places), 1)
        found = [
            self._moments(some, first, second)
            for some in np.split(np.arange(len(keys)), range(step, len(keys), step))
        ]
        products, fourths, largest = (
            np.concatenate(each) for each in list(zip(*found, strict=True))[:3]
        )
        mixed = np.concatenate([each[3] for each in found], axis=1)
        shape = (*keys.shape, *(self.design.groups[place] for place in self.places))
        return BlockTable(
            keys.names,
            self.places,
            products.reshape(shape),
            fourths.reshape(shape),
            largest.reshape(keys.shape),
            mixed.reshape(len(mixed), *shape),
        )

    @cached_property
    def _whole(self) -> list[Floats]:
        """The coefficients of the numbers of these axes in the sum of all cells."""
        cells = np.ones([self.design.axes[place].size for place in self.places])
        return [each.reshape(-1) for each in self.design.coefficients(self.places, cells)]

    def _moments(
        self,
        some: Codes,
        first: Callable[[Codes], Floats],
        second: Callable[[Codes], Floats] | None,
    ) -> tuple[Floats, Floats, Floats, Floats]:
        ones = self.design.coefficients(self.places, first(some))
        ones = [each.reshape(len(some), -1) for each in ones]
        others = ones
        if second is not None:
            others = self.design.coefficients(self.places, second(some))
            others = [each.reshape(len(some), -1) for each in others]
        products = [(a * b).sum(axis=1) for a, b in zip(ones, others, strict=True)]
        fourths = [((a * a) ** 2).sum(axis=1) for a in ones]
        largest = np.max([np.abs(a).max(axis=1) for a in ones], axis=0)
        whole = self._whole if self.mixed else []
        mixed = [
            [c @ u, c**3 @ u, c**2 @ u**2, c @ u**3] for c, u in zip(ones, whole, strict=False)
        ]
        shape = (0, len(some), len(ones))
        by_group = np.moveaxis(np.array(mixed), 0, -1) if mixed else np.zeros(shape)
        return np.stack(products, axis=1), np.stack(fourths, axis=1), largest, by_group


def fixed_table(block: GroupedBlock, place: int) -> BlockTable:
    """Return the table of an axis of which every group has one cell.

    Of the cells of one class, which have equal sums of powers, one is pulled back.
    """
    axis = block.design.axes[place]
    _, first, which = np.unique(axis.cell_classes, return_index=True, return_inverse=True)
    keys = Grouping(("cell",), (len(first),))
    found = block.pulled(keys, lambda some: (first[some, None] == np.arange(axis.size)) * 1.0)
    names = block.design.names[place]
    shape = [block.sizes[name] for name in names]
    return BlockTable(
        names,
        (place,),
        found.products[which].reshape(*shape, -1),
        found.fourths[which].reshape(*shape, -1),
        found.largest[which].reshape(shape),
        found.mixed[:, which].reshape(len(found.mixed), *shape, found.mixed.shape[-1]),
    )
