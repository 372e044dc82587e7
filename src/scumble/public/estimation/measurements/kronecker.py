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
        self._start(cast(Product, evidence.design), schema, numbers)

    @classmethod
    def of_numbers(cls, design: Product, schema: Schema, numbers: Floats) -> ProductReader:
        """Return a reader of numbers that are in memory."""
        reader = cls.__new__(cls)
        reader._start(design, schema, numbers)
        return reader

    def _start(self, design: Product, schema: Schema, numbers: Floats) -> None:
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
        """Return the table of a block of one axis, which all GROUP BY on its attributes share."""
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
        tensor = self._tensor(names, parts)
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
