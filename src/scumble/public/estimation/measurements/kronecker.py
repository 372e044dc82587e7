"""Hierarchy and wavelet, single and grouped.

Answers from noisy sums along axes: the least squares estimate of the cells, and its exact error.

The estimate is R times the noisy numbers, R a Kronecker product over the axes. Weights of cells
that are products over the axes are pulled back to numbers axis by axis, and what the error needs,
sums of powers of coefficients by group, are products too: the cost is that of the axes, not that of
all cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np

from scumble.model.cache import Cache
from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import NUMBER, Product
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.readings import (
    AverageReadings,
    AverageWeights,
    Codes,
    Grouping,
    Part,
    Reading,
    Readings,
    Weights,
)
from scumble.public.sandbox import Sandbox

_MOST_KEPT = 1 << 24  # cells of sums over the attributes that questions do not name
_MOST_BLOCKS = 1 << 22  # cells of weights whose coefficients are kept


@dataclass(frozen=True, eq=False)
class Block:
    """Axes whose weights belong together, and the coefficients of their numbers by group."""

    places: tuple[int, ...]
    groups: tuple[int, ...]
    coefficients: Sequence[Floats]

    @cached_property
    def squares(self) -> Floats:
        """The sums of squared coefficients, by group."""
        return self.shared(self)

    @cached_property
    def fourths(self) -> Floats:
        """The sums of their fourth powers, by group."""
        squared = [each * each for each in self.coefficients]
        return np.array([float((each * each).sum()) for each in squared]).reshape(self.groups)

    def shared(self, other: Block) -> Floats:
        """The sums of products of two coefficients of a number, by group."""
        both = zip(self.coefficients, other.coefficients, strict=True)
        return np.array([float((a * b).sum()) for a, b in both]).reshape(self.groups)

    @cached_property
    def largest(self) -> float:
        return max(float(np.abs(each).max()) for each in self.coefficients)


class ProductReader:
    """The estimated cells of a release, and their sums that questions asked for."""

    method = "sum of counts fitted to all noisy sums by least squares"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        numbers = engine.rows(f"SELECT {quoted(NUMBER)} FROM view").column(0).to_numpy()
        self._start(cast(Product, evidence.design), schema, numbers)

    @classmethod
    def of_numbers(cls, design: Product, schema: Schema, numbers: Floats) -> ProductReader:
        """A reader of numbers that are in memory."""
        reader = cls.__new__(cls)
        reader._start(design, schema, numbers)
        return reader

    def _start(self, design: Product, schema: Schema, numbers: Floats) -> None:
        self._design = design
        self._schema = schema
        self._numbers = numbers
        self._marginals = Cache[tuple[str, ...], Floats](_MOST_KEPT)
        self._tables = Cache[int, BlockTable](_MOST_KEPT)
        self._known = Cache[tuple[int, bytes], Block](_MOST_BLOCKS)

    @cached_property
    def cells(self) -> Floats:
        """The estimated count of every cell, a direction for each attribute."""
        estimated = self._design.reconstruct(self._design.split(self._numbers))
        return estimated.reshape([self._schema[name].size for name in self._design.columns])

    def read(self, weights: Weights) -> Reading:
        return self._reading(weights, self._blocks(weights, self._tied([weights])))

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
        tied = self._tied([first, second])
        ones, others = self._blocks(first, tied), self._blocks(second, tied)
        shared = [one.shared(other) for one, other in zip(ones, others, strict=True)]
        covariance = _contracted(self._design.variances, ones, shared)
        covariance *= first.factor * second.factor
        return self._reading(first, ones), self._reading(second, others), covariance

    def by_group(self, weights: Weights, grouping: Grouping) -> Readings:
        return self._groups(grouping).readings(weights)

    def averages(self, average: AverageWeights, grouping: Grouping) -> AverageReadings:
        return self._groups(grouping).averages(average)

    def _groups(self, grouping: Grouping) -> ProductGroups:
        return ProductGroups(self._design, self._schema, grouping, self._marginal, self._fixed)

    def _fixed(self, block: GroupedBlock) -> BlockTable:
        """The table of a block of one axis, which serves all questions by its attributes."""
        [place] = block.places
        size = self._design.groups[place] * self._design.axes[place].size
        return self._tables.get_or_make(place, size, lambda: fixed_table(block, place))

    def _reading(self, weights: Weights, blocks: Sequence[Block]) -> Reading:
        second, fourth = [block.squares for block in blocks], [block.fourths for block in blocks]
        factor = weights.factor  # belongs to no block
        return Reading(
            self._value(weights),
            _contracted(self._design.variances, blocks, second) * factor**2,
            _contracted(self._design.fourths, blocks, fourth) * factor**4,
            prod(block.largest for block in blocks) * abs(factor),
        )

    def _value(self, weights: Weights) -> float:
        """The weighted sum of the estimated cells."""
        left = [name for name in self._design.columns if name in weights.names]
        total = self._marginal(tuple(left))
        for part in weights.parts:
            directions = [left.index(name) for name in part.names]
            total = np.tensordot(total, part.values, (directions, range(len(part.names))))
            left = [name for name in left if name not in part.names]
        return float(total)

    def _marginal(self, names: tuple[str, ...]) -> Floats:
        """The estimated cells summed over all other attributes."""
        if names == self._design.columns:
            return self.cells
        others = tuple(i for i, name in enumerate(self._design.columns) if name not in names)
        size = prod(self._schema[name].size for name in names)
        return self._marginals.get_or_make(
            names, size, lambda: np.asarray(self.cells.sum(axis=others))
        )

    def _tied(self, several: Sequence[Weights]) -> list[tuple[int, ...]]:
        """The axes in sets, so that no part of any weights is about two of them."""
        axis_of = {name: i for i, names in enumerate(self._design.names) for name in names}
        sets = [{place} for place in range(len(self._design.axes))]
        for part in (part for weights in several for part in weights.parts):
            touched = {axis_of[name] for name in part.names}
            together = [each for each in sets if not each.isdisjoint(touched)]
            sets = [each for each in sets if each.isdisjoint(touched)]
            sets.append(set().union(*together))
        return [tuple(sorted(each)) for each in sets]

    def _blocks(self, weights: Weights, tied: Sequence[tuple[int, ...]]) -> list[Block]:
        return [self._block(weights, places) for places in tied]

    def _block(self, weights: Weights, places: tuple[int, ...]) -> Block:
        names = [name for place in places for name in self._design.names[place]]
        parts = [part for part in weights.parts if not set(part.names).isdisjoint(names)]
        tensor = self._tensor(names, parts)
        if len(places) == 1 and tensor.size <= _MOST_BLOCKS // 16:
            return self._cached(places[0], tensor)
        return self._pulled(places, tensor)

    def _cached(self, place: int, weights: Floats) -> Block:
        """The block of one axis; groups of an answer share many of them."""
        key = (place, weights.tobytes())
        return self._known.get_or_make(key, weights.size, lambda: self._pulled((place,), weights))

    def _pulled(self, places: tuple[int, ...], weights: Floats) -> Block:
        shape = [self._design.axes[place].size for place in places]
        groups = tuple(self._design.groups[place] for place in places)
        return Block(places, groups, self._design.coefficients(places, weights.reshape(shape)))

    def _tensor(self, names: Sequence[str], parts: Sequence[Part]) -> Floats:
        """The product of some parts, over exactly these attributes."""
        sizes = [self._schema[name].size for name in names]
        tensor = np.ones(sizes)
        for part in parts:
            order = sorted(part.names, key=names.index)
            turned = part.values.transpose([part.names.index(name) for name in order])
            shape = [s if n in order else 1 for n, s in zip(names, sizes, strict=True)]
            tensor *= turned.reshape(shape)
        return tensor


def _contracted(numbers: Floats, blocks: Sequence[Block], factors: Sequence[Floats]) -> float:
    """Numbers by the groups of all axes, times a factor of each block, added up."""
    left = list(range(numbers.ndim))
    for block, factor in zip(blocks, factors, strict=True):
        directions = [left.index(place) for place in block.places]
        numbers = np.tensordot(numbers, factor, (directions, range(factor.ndim)))
        left = [place for place in left if place not in block.places]
    return float(numbers)


# Readings of all groups from a product of axes.
#
# What the error of a group needs are sums of powers of coefficients by the groups of numbers of
# every axis. Those of an axis of which a group has one cell do not depend on the question; those
# of others are found together for all codes on which they depend. A reading is a product of such
# tables.


@dataclass(frozen=True, eq=False)
class ProductGroups:
    """One GROUP BY. `marginal` gives the estimated counts of some attributes, `fixed` the table of
    a block that no weights touch.
    """

    design: Product
    schema: Schema
    grouping: Grouping
    marginal: Callable[[tuple[str, ...]], Floats]
    fixed: Callable[[GroupedBlock], BlockTable]

    def readings(self, weights: Weights) -> Readings:
        blocks = self._blocks(weights, self._tied([weights]))
        tables = [self._table(block) for block in blocks]
        return self._readings(self._values(weights), tables, self._factor(weights))

    def averages(self, average: AverageWeights) -> AverageReadings:
        """The weights of the sum and those of the count differ in one block at most, for the amount
        was joined with what it shares attributes with.
        """
        both = average.weighted, average.condition
        tied = self._tied(both)
        ones, others = (self._blocks(weights, tied) for weights in both)
        factor, own_factor = map(self._factor, both)
        tables = [self._table(block) for block in others]
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
        return AverageReadings(totals, counts, covariances, centred)

    def _apart(
        self, one: GroupedBlock, other: GroupedBlock, factor: Floats, other_factor: Floats
    ) -> BlockTable:
        """Of the weights of a block minus those of another, each times a factor by group."""

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
        return GroupedBlock(self.design, sizes, places, parts, names)

    def _table(self, block: GroupedBlock) -> BlockTable:
        return self.fixed(block) if block.fixed else block.table()

    def _grouped(self, part: Part) -> bool:
        """Whether a group fixes the weight of a part."""
        return set(part.names) <= set(self.grouping.names)

    def _factor(self, weights: Weights) -> Floats:
        """What the parts that a group fixes make of all weights, by group."""
        found: Floats = np.ones(self.grouping.shape)
        for part in filter(self._grouped, weights.parts):
            found = found * self.grouping.broadcastable(part.values, part.names)
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
        return self.grouping.broadcastable(total, left).reshape(-1)

    def _readings(self, values: Floats, tables: Sequence[BlockTable], factor: Floats) -> Readings:
        fourths = [replace(table, products=table.fourths) for table in tables]
        largest = np.abs(factor)
        for table in tables:
            spread = np.broadcast_to(
                self.grouping.broadcastable(table.largest, table.names), self.grouping.shape
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

    def _contracted(self, numbers: Floats, tables: Sequence[BlockTable]) -> Floats:
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
        return self.grouping.broadcastable(numbers, [back[axis] for axis in left]).reshape(-1)


def _product(
    one: tuple[Floats, Sequence[str]], other: tuple[Floats, Sequence[str]], kept: Sequence[str]
) -> Floats:
    """The product of two tensors with named axes, summed over all but some."""
    numbers = {axis: place for place, axis in enumerate(dict.fromkeys((*one[1], *other[1])))}
    first, second, output = ([numbers[axis] for axis in axes] for axes in (one[1], other[1], kept))
    einsum: Any = np.einsum  # its signature knows of strings only
    found: Floats = einsum(one[0], first, other[0], second, output)
    return found


def _alike(one: GroupedBlock, other: GroupedBlock) -> tuple[GroupedBlock, GroupedBlock]:
    """Both by the codes on which either depends."""
    names = tuple(dict.fromkeys((*one.names, *other.names)))
    return replace(one, names=names), replace(other, names=names)


# Coefficients of numbers along some axes of a product, for all groups of an answer.

_AT_ONCE = 1 << 19  # weights of cells that are pulled back together


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Of coefficients along some axes: the sums of products of two for a number and of fourth
    powers of the first, by the codes of some grouped attributes and then by the groups of numbers
    of the axes; and the largest of the first, by these codes.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    products: Floats
    fourths: Floats
    largest: Floats


@dataclass(frozen=True, eq=False)
class GroupedBlock:
    """Axes that the parts of some weights tie together when the codes of all grouped attributes are
    fixed. `names` are those of them on which the weights of their cells depend.
    """

    design: Product
    sizes: dict[str, int]  # of all attributes
    places: tuple[int, ...]
    parts: tuple[Part, ...]
    names: tuple[str, ...]

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """Of these axes, in the order of their cells."""
        return tuple(name for place in self.places for name in self.design.names[place])

    @property
    def fixed(self) -> bool:
        """Whether a group has a single cell of these axes, of weight 1."""
        return not self.parts and set(self.attributes) <= set(self.names)

    def at(self, codes: dict[str, Codes]) -> Floats:
        """The weights of all cells for many codes: a direction for these, then the axes'."""
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
        """Of the coefficients of these weights, or of these and those of a second block of the same
        axes and names.
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
        """Of the coefficients of any weights of the cells of these axes, by key."""
        step = max(_AT_ONCE // prod(self.design.axes[place].size for place in self.places), 1)
        found = [
            self._moments(some, first, second)
            for some in np.split(np.arange(len(keys)), range(step, len(keys), step))
        ]
        products, fourths, largest = (np.concatenate(each) for each in zip(*found, strict=True))
        shape = (*keys.shape, *(self.design.groups[place] for place in self.places))
        return BlockTable(
            keys.names,
            self.places,
            products.reshape(shape),
            fourths.reshape(shape),
            largest.reshape(keys.shape),
        )

    def _moments(
        self,
        some: Codes,
        first: Callable[[Codes], Floats],
        second: Callable[[Codes], Floats] | None,
    ) -> tuple[Floats, Floats, Floats]:
        ones = self.design.coefficients(self.places, first(some))
        ones = [each.reshape(len(some), -1) for each in ones]
        others = ones
        if second is not None:
            others = self.design.coefficients(self.places, second(some))
            others = [each.reshape(len(some), -1) for each in others]
        products = [(a * b).sum(axis=1) for a, b in zip(ones, others, strict=True)]
        fourths = [((a * a) ** 2).sum(axis=1) for a in ones]
        largest = np.max([np.abs(a).max(axis=1) for a in ones], axis=0)
        return np.stack(products, axis=1), np.stack(fourths, axis=1), largest


def fixed_table(block: GroupedBlock, place: int) -> BlockTable:
    """Of an axis of which every group has one cell; of cells that are alike, one is pulled back."""
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
    )
