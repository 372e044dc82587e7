"""RegionSummary: the base class of releases that count boxes of one to four ordered attributes; the
levels of regular trees, and how they share the budget.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from scumble.families.boxes.design.box_tree import FILE, BoxNodes, BoxTree, column_names
from scumble.model.designs.boxes import Boxes, BoxSums
from scumble.model.errors import ParameterError, large
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout, create
from scumble.private.mechanism_metadata import LINE, Claim, protection
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.sums import SumSummary

MOST_CELLS = 10**8
_SMALLEST_SHARE = 1 << 12  # no measurement gets less than this part of ε


class RegionSummary(SumSummary):
    """Counts boxes: intervals of the codes of each attribute, in the order of its domain."""

    most_attributes: ClassVar[int] = 4
    for_ranges: ClassVar[bool] = True
    chooses_cells: ClassVar[bool] = True
    example: ClassVar[Schema] = LINE  # on which the auditor tries it

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scale(DiscreteLaplace(self.unit.sensitivity * _SMALLEST_SHARE / self._epsilon))

    def check(self, schema: Schema) -> None:
        super().check(schema)
        owner = type(self).__name__
        if len(self.names) > self.most_attributes:
            allowed = f"at most {self.most_attributes} attributes"
            raise ParameterError.of(owner, "attributes", allowed, list(self.names))
        cells = schema.size(self.names)
        if cells > MOST_CELLS:
            raise ParameterError(
                f"The product of {', '.join(self.names)} has {large(cells)} cells; {owner} "
                f"counts at most {large(MOST_CELLS)}. Choose fewer attributes, coarser bins, or "
                "the method sparse."
            )

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        names = list(cls.example.names)
        made = create(cls.name, attributes=names, **protection(neighbours))
        yield Claim(made, 1, schema=cls.example)

    @abstractmethod
    def grow(self, table: PrivateTable) -> tuple[BoxNodes, BoxTree]:
        """Return the published boxes with their noisy counts, and the laws of the noise."""

    def cell_layout(self, schema: Schema) -> Layout:
        return {FILE: column_names(self.names)}

    def measure_cells(self, table: PrivateTable, folder: Path) -> Measurements:
        tree, design = self.grow(table)
        tree.write(folder, self.names)
        return Measurements(FILE, self.names, design, table.public_rows(self.unit))

    def measure_like(
        self, counted: Measurements | None, folder: Path, table: PrivateTable, place: Path
    ) -> Measurements:
        """Measure the published boxes. Boxes of one law are disjoint, and the laws share the budget
        as those of the counts do.
        """
        chosen = cast(Measurements, counted)
        design = cast(BoxTree, chosen.design)
        tree = BoxNodes.read(pq.read_table(folder / chosen.file), self.names)
        weights = [Fraction(1) / _spread_of(law) for law in design.laws]
        laws = self._noise_of([weight / sum(weights) for weight in weights])
        own = [np.flatnonzero(tree.law == number) for number in range(len(laws))]
        sums = BoxSums(self.shape(table.schema), tuple(tree.boxes.take(nodes) for nodes in own))
        noisy = np.zeros(len(tree.law), np.int64)
        measured = table.counts(self.names, self.unit).noisy(laws, sums)
        for nodes, numbers in zip(own, measured, strict=True):
            noisy[nodes] = numbers
        replace(tree, noisy=noisy).write(place, self.names)
        return Measurements(FILE, self.names, BoxTree(laws))

    def _noise_of(self, shares: Sequence[Fraction]) -> tuple[NoiseLaw, ...]:
        """Return the noise of disjoint sums that get these shares of the promise."""
        if not self.gaussian:
            return self.laplace([self.cell_promise.epsilon * share for share in shares])
        square = Fraction(self.unit.squared_sensitivity(nonnegative_gram=True))
        rhos = [self.cell_promise.rho * share for share in shares]
        return tuple(DiscreteGaussian(square / (2 * rho)) for rho in rhos)

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        """Boxes are made of neighbouring values, which mean nothing where there is no order; two
        values have no order to speak of.
        """
        loose = [n for n in self.names if not schema[n].ordered and schema[n].size > 2]
        if not loose:
            return super().cautions(schema)
        have = f"{', '.join(loose)} {'has' if len(loose) == 1 else 'have'} no order"
        caution = (
            f"{have}: {self.name} counts boxes of neighbouring values, which are in the order of "
            "the schema here, and a box need not hold what belongs together. For attributes "
            "without order use the method histogram, marginals, or hierarchy with a taxonomy; if "
            "the order means something, write ordered = true in the schema."
        )
        return (*super().cautions(schema), caution)

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """How many codes each attribute has."""
        return tuple(schema[name].size for name in self.names)

    def blocks(self, schema: Schema) -> Boxes:
        """Return the boxes that all cuts start from: missing values apart from the others.

        A missing value is the last code of its attribute. It is no neighbour of the code before
        it, so that no box holds both. The blocks depend on the schema alone and are disjoint: a
        row is in one of them, as it is in one box of the whole domain.
        """
        boxes = Boxes.whole(self.shape(schema))
        for axis, name in enumerate(self.names):
            if schema[name].missing:
                boxes, _ = boxes.cut(axis, np.full(len(boxes), schema[name].size - 2))
        return boxes

    def laplace(self, epsilons: Iterable[Fraction]) -> tuple[DiscreteLaplace, ...]:
        """Return the noise that makes disjoint counts ε-DP, for each of these ε."""
        laws = tuple(DiscreteLaplace(self.unit.sensitivity / epsilon) for epsilon in epsilons)
        for law in laws:
            check_scale(law)
        return laws

    def _optional(
        self, parameter: str, value: object, *, least: int, most: int | None = None
    ) -> int | None:
        owner = type(self).__name__
        return None if value is None else whole(owner, parameter, value, least=least, most=most)


def _spread_of(law: NoiseLaw) -> Fraction:
    """Return what the budget of a law is inversely proportional to."""
    return law.scale if isinstance(law, DiscreteLaplace) else law.parameter


# Levels of boxes from the whole domain down, as regular trees cut them.

Integers = npt.NDArray[np.int64]
Level = tuple[Boxes, Integers]

MOST_NODES = 1 << 21


def top(blocks: Boxes) -> Level:
    """Return the level of boxes without parents: the whole domain, or the blocks of it."""
    return blocks, np.zeros(len(blocks), np.int64)


def refine(boxes: Boxes, pieces: Integers) -> Level:
    """Return every box cut into its number of `pieces` along each attribute, at most its codes."""
    cut, origin = boxes, np.arange(len(boxes))
    for axis in range(len(boxes.low)):
        cut, of = cut.even(axis, pieces[origin])
        origin = origin[of]
    return cut, origin


Corners = tuple[tuple[tuple[int, ...], ...], ...]


def regular(blocks: Boxes, height: int | None) -> tuple[Level, ...]:
    """Return the levels of repeated halving. The cuts depend on the blocks alone."""
    corners = tuple(tuple(map(tuple, ends.tolist())) for ends in (blocks.low, blocks.high))
    return _regular(corners, height)


@lru_cache(maxsize=2)
def _regular(corners: Corners, height: int | None) -> tuple[Level, ...]:
    low, high = (np.array(ends, np.int64) for ends in corners)
    return tuple(halve([top(Boxes(low, high))], height))


def halve(levels: list[Level], height: int | None) -> list[Level]:
    """Return the levels with further ones, each halving all boxes of the one above, up to `height`,
    or until there is nothing to halve or there would be too many nodes.
    """
    grown = list(levels)
    while height is None or len(grown) <= height:
        boxes, _ = grown[-1]
        if np.array_equal(boxes.low, boxes.high) or len(boxes) << len(boxes.low) > MOST_NODES:
            break
        grown.append(boxes.halves())
    return grown


# Budgets of the levels of a tree: more to levels of which a range touches more nodes.
#
# A range that is a sum of nodes takes about n nodes of a level, those along its border. The
# variance of the sum is Σ n/ε², so that ε should grow as the cube root of n (with Gaussian noise:
# Σ n/ρ, and ρ as its square root). In one dimension n is the same on every level and so is ε; in
# two dimensions n doubles from level to level (Cormode, Procopiuc, Srivastava, Shen and Yu, ICDE
# 2012).

_GRID = 1 << 20  # shares are multiples of 1 / _GRID


def count_touched(sizes: Sequence[int], level: int) -> float:
    """Return how many nodes of a level a range touches, up to a factor: the border of a box in a
    grid of 2^level pieces per attribute, at most its number of codes.
    """
    pieces = [min(1 << level, size) for size in sizes]
    return sum(prod(pieces) / piece for piece in pieces)


def level_shares(weights: Sequence[float], power: float) -> list[Fraction]:
    """Return shares that add up to 1, proportional to a power of the weights of levels."""
    raised = [weight**power for weight in weights]
    total = sum(raised)
    shares = [Fraction(max(int(weight / total * _GRID), 1), _GRID) for weight in raised[:-1]]
    return [*shares, 1 - sum(shares, Fraction(0))]
