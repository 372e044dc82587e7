"""Reader of noisy sums along axes (Hierarchy, Wavelet): the least squares estimate of the cells.

The estimate is R times the noisy numbers, R a Kronecker product over the axes. Weights of cells
that are products over the axes are pulled back to numbers axis by axis. The sums of powers of
coefficients by group of numbers, which the error needs, are products as well. So the cost is that
of the axes, not that of all cells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
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
    GroupedAxes,
    KnownTotal,
    LinearReading,
    Readings,
    Weights,
    WeightTensor,
)
from scumble.public.sandbox import Sandbox

# --- all groups of a GROUP BY ---------------------------------------------------------------------
#
# Readings of all groups of a GROUP BY from a Kronecker product of axes.
#
# The error of a group needs sums of powers of coefficients, by the groups of equally noisy numbers
# of every axis. For an axis of which a group has one cell, they do not depend on the question. For
# other axes they are computed together for all codes on which they depend. A reading is a product
# of such tables.

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
    grouping: GroupedAxes
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

    def _block(self, free: Sequence[WeightTensor], places: tuple[int, ...]) -> GroupedBlock:
        own = {name for place in places for name in self.design.names[place]}
        inside = own.difference(self.grouping.names)
        parts = tuple(part for part in free if not inside.isdisjoint(part.names))
        near = own.union(*(part.names for part in parts))
        names = tuple(name for name in self.grouping.names if name in near)
        sizes = {name: self.schema[name].size for name in self.design.columns}
        return GroupedBlock(self.design, sizes, places, parts, names, self.known is not None)

    def _table(self, block: GroupedBlock) -> BlockTable:
        return self.fixed(block) if block.fixed else block.table()

    def _grouped(self, part: WeightTensor) -> bool:
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
    parts: tuple[WeightTensor, ...]
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
        keys = GroupedAxes(self.names, tuple(self.sizes[name] for name in self.names))
        other = None if second is None else lambda some: second.at(keys.codes(some))
        return self.pulled(keys, lambda some: self.at(keys.codes(some)), other)

    def pulled(
        self,
        keys: GroupedAxes,
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
    keys = GroupedAxes(("cell",), (len(first),))
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


# --- the reader -----------------------------------------------------------------------------------

_MOST_CACHED = 1 << 24  # cells of marginals
_MOST_BLOCKS = 1 << 22  # cells of weights whose coefficients are cached


@dataclass(frozen=True, eq=False)
class Block:
    """Axes whose weights are not a product over them, and the coefficients of their numbers.

    `places` are the axes, `groups` the number of groups of numbers of each. `coefficients` has an
    array for each combination of groups. The numbers of a group have noise of one law.
    """

    places: tuple[int, ...]
    groups: tuple[int, ...]
    coefficients: Sequence[Floats]

    @cached_property
    def squares(self) -> Floats:
        """The sums of squared coefficients, by group of numbers."""
        return self.shared(self)

    @cached_property
    def fourths(self) -> Floats:
        """The sums of the fourth powers of coefficients, by group of numbers."""
        squared = [each * each for each in self.coefficients]
        return np.array([float((each * each).sum()) for each in squared]).reshape(self.groups)

    def powers(self, other: Block) -> list[Floats]:
        """Return the sums of c⁴⁻ʲ uʲ for j = 1, 2 and 3, by group of numbers: c are the
        coefficients of this block, and u those of another.
        """
        both = list(zip(self.coefficients, other.coefficients, strict=True))
        found = [
            [float((a**3 * b).sum()) for a, b in both],
            [float((a**2 * b**2).sum()) for a, b in both],
            [float((a * b**3).sum()) for a, b in both],
        ]
        return [np.array(each).reshape(self.groups) for each in found]

    def shared(self, other: Block) -> Floats:
        """Return the sums of products of the coefficients of two blocks, by group of numbers."""
        both = zip(self.coefficients, other.coefficients, strict=True)
        return np.array([float((a * b).sum()) for a, b in both]).reshape(self.groups)

    @cached_property
    def largest(self) -> float:
        return max(float(np.abs(each).max()) for each in self.coefficients)


class ProductReader:
    """The estimated cells of a release, and their cached marginals."""

    method = "sum of noisy counts, adjusted so that all sums agree"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        numbers = engine.rows(f"SELECT {quoted(NUMBER)} FROM view").column(0).to_numpy()
        self._start(cast(Product, evidence.design), schema, numbers, evidence.rows)

    @classmethod
    def of_numbers(
        cls, design: Product, schema: Schema, numbers: Floats, rows: int | None = None
    ) -> ProductReader:
        """Return a reader of numbers that are in memory, of a known number of `rows` or not."""
        reader = cls.__new__(cls)
        reader._start(design, schema, numbers, rows)
        return reader

    def _start(self, design: Product, schema: Schema, numbers: Floats, rows: int | None) -> None:
        self._rows = rows
        self._design = design
        self._schema = schema
        self._numbers = numbers
        self._marginals = Cache[tuple[str, ...], Floats](_MOST_CACHED)
        self._tables = Cache[int, BlockTable](_MOST_CACHED)
        self._known = Cache[tuple[int, bytes], Block](_MOST_BLOCKS)

    @cached_property
    def cells(self) -> Floats:
        """The estimated count of every cell, with an axis for each attribute."""
        estimated = self._design.reconstruct(self._design.split(self._numbers))
        return estimated.reshape([self._schema[name].size for name in self._design.columns])

    def read(self, weights: Weights) -> LinearReading:
        return self._reading(weights, self._blocks(weights, tied_axes(self._design, [weights])))

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        tied = tied_axes(self._design, [first, second])
        ones, others = self._blocks(first, tied), self._blocks(second, tied)
        covariance = self._covariance(ones, others) * first.factor * second.factor
        if self._rows is not None:
            shares = self._share(first, ones) * self._share(second, others)
            covariance -= shares * self._whole.variance
        return self._reading(first, ones), self._reading(second, others), covariance

    def _covariance(self, ones: Sequence[Block], others: Sequence[Block]) -> float:
        shared = [one.shared(other) for one, other in zip(ones, others, strict=True)]
        return _contracted(self._design.variances, ones, shared)

    def by_group(self, weights: Weights, grouping: GroupedAxes) -> Readings:
        return self._groups(grouping).readings(weights)

    def averages(self, average: AverageWeights, grouping: GroupedAxes) -> AverageReadings:
        return self._groups(grouping).averages(average)

    def _groups(self, grouping: GroupedAxes) -> ProductGroups:
        known = None if self._rows is None else KnownTotal(self._rows, self._whole)
        return ProductGroups(
            self._design, self._schema, grouping, self._marginal, self._fixed, known
        )

    def _fixed(self, block: GroupedBlock) -> BlockTable:
        """Return the table of a block of one axis, which all GROUP BY on its attributes share."""
        [place] = block.places
        size = self._design.groups[place] * self._design.axes[place].size
        return self._tables.get_or_make(place, size, lambda: fixed_table(block, place))

    def _reading(self, weights: Weights, blocks: Sequence[Block]) -> LinearReading:
        found = self._unaware(weights, blocks)
        if self._rows is None:
            return found
        if (constant := weights.constant) is not None:
            return LinearReading(constant * float(self._rows), 0.0)
        powers = [block.powers(self._ones(block.places)) for block in blocks]
        sums = [
            _contracted(self._design.fourths, blocks, each) for each in zip(*powers, strict=True)
        ]
        mixed = [weights.factor ** (3 - place) * each for place, each in enumerate(sums)]
        whole = KnownTotal(self._rows, self._whole)
        return whole.reading(found, self._share(weights, blocks), mixed)

    def _unaware(self, weights: Weights, blocks: Sequence[Block]) -> LinearReading:
        """Return the reading without use of the number of rows."""
        second, fourth = [block.squares for block in blocks], [block.fourths for block in blocks]
        factor = weights.factor  # belongs to no block
        return LinearReading(
            self._value(weights),
            _contracted(self._design.variances, blocks, second) * factor**2,
            _contracted(self._design.fourths, blocks, fourth) * factor**4,
            prod(block.largest for block in blocks) * abs(factor),
        )

    def _share(self, weights: Weights, blocks: Sequence[Block]) -> float:
        """Return the regression of the error of a weighted sum on that of the sum of all cells."""
        ones = [self._ones(block.places) for block in blocks]
        return self._covariance(blocks, ones) * weights.factor / self._whole.variance

    def _ones(self, places: tuple[int, ...]) -> Block:
        """Return the block of weights 1 along some axes."""
        names = [name for place in places for name in self._design.names[place]]
        return self._of_tensor(places, self._tensor(names, []))

    @cached_property
    def _whole(self) -> LinearReading:
        """The sum of all cells, without use of the number of rows."""
        every = Weights(())
        return self._unaware(every, self._blocks(every, tied_axes(self._design, [every])))

    def _value(self, weights: Weights) -> float:
        """Return the weighted sum of the estimated cells."""
        left = [name for name in self._design.columns if name in weights.names]
        total = self._marginal(tuple(left))
        for part in weights.parts:
            directions = [left.index(name) for name in part.names]
            total = np.tensordot(total, part.values, (directions, range(len(part.names))))
            left = [name for name in left if name not in part.names]
        return float(total)

    def _marginal(self, names: tuple[str, ...]) -> Floats:
        """Return the estimated cells summed over all attributes but `names`."""
        if names == self._design.columns:
            return self.cells
        others = tuple(i for i, name in enumerate(self._design.columns) if name not in names)
        size = prod(self._schema[name].size for name in names)
        return self._marginals.get_or_make(
            names, size, lambda: np.asarray(self.cells.sum(axis=others))
        )

    def _blocks(self, weights: Weights, tied: Sequence[tuple[int, ...]]) -> list[Block]:
        return [self._block(weights, places) for places in tied]

    def _block(self, weights: Weights, places: tuple[int, ...]) -> Block:
        names = [name for place in places for name in self._design.names[place]]
        parts = [part for part in weights.parts if not set(part.names).isdisjoint(names)]
        return self._of_tensor(places, self._tensor(names, parts))

    def _of_tensor(self, places: tuple[int, ...], tensor: Floats) -> Block:
        if len(places) == 1 and tensor.size <= _MOST_BLOCKS // 16:
            return self._cached(places[0], tensor)
        return self._pulled(places, tensor)

    def _cached(self, place: int, weights: Floats) -> Block:
        """Return the cached block of one axis; many questions share one."""
        key = (place, weights.tobytes())
        return self._known.get_or_make(key, weights.size, lambda: self._pulled((place,), weights))

    def _pulled(self, places: tuple[int, ...], weights: Floats) -> Block:
        shape = [self._design.axes[place].size for place in places]
        groups = tuple(self._design.groups[place] for place in places)
        return Block(places, groups, self._design.coefficients(places, weights.reshape(shape)))

    def _tensor(self, names: Sequence[str], parts: Sequence[WeightTensor]) -> Floats:
        """Return the product of `parts` as a tensor with the axes `names`."""
        sizes = [self._schema[name].size for name in names]
        tensor = np.ones(sizes)
        for part in parts:
            order = sorted(part.names, key=names.index)
            turned = part.values.transpose([part.names.index(name) for name in order])
            shape = [s if n in order else 1 for n, s in zip(names, sizes, strict=True)]
            tensor *= turned.reshape(shape)
        return tensor


def _contracted(numbers: Floats, blocks: Sequence[Block], factors: Sequence[Floats]) -> float:
    """Sum `numbers`, given by the groups of numbers of all axes, times a factor of each block."""
    left = list(range(numbers.ndim))
    for block, factor in zip(blocks, factors, strict=True):
        directions = [left.index(place) for place in block.places]
        numbers = np.tensordot(numbers, factor, (directions, range(factor.ndim)))
        left = [place for place in left if place not in block.places]
    return float(numbers)
