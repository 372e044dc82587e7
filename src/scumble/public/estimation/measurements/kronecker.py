"""Reader of noisy sums along axes (Hierarchy, Wavelet): the least squares estimate of the cells.

The estimate is R times the noisy numbers, R a Kronecker product over the axes. Weights of cells
that are products over the axes are pulled back to numbers axis by axis. The sums of powers of
coefficients by group of numbers, which the error needs, are products as well. So the cost is that
of the axes, not that of all cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import cast

import numpy as np

from scumble.model.cache import Cache
from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import NUMBER, Product
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.kronecker_groups import (
    BlockTable,
    GroupedBlock,
    ProductGroups,
    fixed_table,
    tied_axes,
)
from scumble.public.estimation.measurements.readings import (
    AverageReadings,
    AverageWeights,
    Grouping,
    KnownTotal,
    Part,
    Reading,
    Readings,
    Weights,
)
from scumble.public.sandbox import Sandbox

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

    method = "sum of counts fitted to all noisy sums by least squares"

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

    def read(self, weights: Weights) -> Reading:
        return self._reading(weights, self._blocks(weights, tied_axes(self._design, [weights])))

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
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

    def by_group(self, weights: Weights, grouping: Grouping) -> Readings:
        return self._groups(grouping).readings(weights)

    def averages(self, average: AverageWeights, grouping: Grouping) -> AverageReadings:
        return self._groups(grouping).averages(average)

    def _groups(self, grouping: Grouping) -> ProductGroups:
        known = None if self._rows is None else KnownTotal(self._rows, self._whole)
        return ProductGroups(
            self._design, self._schema, grouping, self._marginal, self._fixed, known
        )

    def _fixed(self, block: GroupedBlock) -> BlockTable:
        """Return the table of a block of one axis, which all GROUP BY on its attributes share."""
        [place] = block.places
        size = self._design.groups[place] * self._design.axes[place].size
        return self._tables.get_or_make(place, size, lambda: fixed_table(block, place))

    def _reading(self, weights: Weights, blocks: Sequence[Block]) -> Reading:
        found = self._unaware(weights, blocks)
        if self._rows is None:
            return found
        if (constant := weights.constant) is not None:
            return Reading(constant * float(self._rows), 0.0)
        powers = [block.powers(self._ones(block.places)) for block in blocks]
        sums = [
            _contracted(self._design.fourths, blocks, each) for each in zip(*powers, strict=True)
        ]
        mixed = [weights.factor ** (3 - place) * each for place, each in enumerate(sums)]
        whole = KnownTotal(self._rows, self._whole)
        return whole.reading(found, self._share(weights, blocks), mixed)

    def _unaware(self, weights: Weights, blocks: Sequence[Block]) -> Reading:
        """Return the reading without use of the number of rows."""
        second, fourth = [block.squares for block in blocks], [block.fourths for block in blocks]
        factor = weights.factor  # belongs to no block
        return Reading(
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
    def _whole(self) -> Reading:
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

    def _tensor(self, names: Sequence[str], parts: Sequence[Part]) -> Floats:
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
