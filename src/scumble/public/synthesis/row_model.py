"""RowModel: a joint distribution fitted to noisy tables, from which rows are drawn.

1. One-way counts: the mean of what all tables tell, on the simplex.
2. Every further table is made non-negative and given these one-way counts.
3. The pairs that depend most on each other make a tree, along which rows are drawn.
4. If there are more tables than those of the tree, the rows are fitted to all of them.

This is post-processing of published numbers: it costs no privacy, and nothing of it is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from scumble.model.long_work import portion
from scumble.public.synthesis.noisy_tables import (
    NoisyTable,
    Places,
    Tensor,
    estimated_total,
    one_way,
    onto_simplex,
    with_margins,
)
from scumble.public.synthesis.row_fitting import SWEEPS, Integers, TargetCounts, fit_rows
from scumble.public.synthesis.tree_model import Codes, Edge, TreeModel, drawn_given, spanning_tree


@dataclass(frozen=True, eq=False)
class Classes:
    """Values of an attribute that a model takes together: the class of each code, and the noisy
    counts of the single codes, by which rows of a class are given codes again.
    """

    of_code: Integers
    counts: Tensor

    def codes(self, classes: Codes, total: float, generator: np.random.Generator) -> Codes:
        """Return a code for each of these classes."""
        fine = onto_simplex(self.counts, total)
        table = np.zeros((int(self.of_code.max()) + 1, len(fine)))
        # Values that the projection made empty share their class evenly if all of it is empty.
        table[self.of_code, np.arange(len(fine))] = fine + 1e-9
        return drawn_given(classes, table, generator)


@dataclass(frozen=True, eq=False)
class RowModel:
    """Rows from `tables` over attributes of `sizes` values each. `total` is the number of rows that
    the tables count. `classes` has an entry for every attribute whose tables count classes.
    """

    sizes: tuple[int, ...]
    tables: Sequence[NoisyTable]
    total: float
    classes: Sequence[Classes | None]

    @classmethod
    def of(
        cls, sizes: Sequence[int], tables: Sequence[NoisyTable], total: float | None = None
    ) -> RowModel:
        """Return the model of tables over single values; by default the tables tell the total."""
        known = estimated_total(tables) if total is None else total
        return cls(tuple(sizes), tables, max(known, 1.0), [None] * len(sizes))

    def rows(self, number: int, seed: int | None = None, sweeps: int = SWEEPS) -> list[Codes]:
        """Return the codes of `number` rows, one array for each attribute."""
        generator = np.random.default_rng(seed)
        columns = self.coarse_rows(number, generator, sweeps)
        return [
            column if own is None else own.codes(column, self.total, generator)
            for column, own in zip(columns, self.classes, strict=True)
        ]

    def coarse_rows(
        self, number: int, generator: np.random.Generator, sweeps: int = SWEEPS
    ) -> list[Codes]:
        """Return the rows with the classes that the tables count."""
        joint = [each for each in self.tables if len(each.places) == len(self.sizes)]
        if joint and len(self.sizes) > 1:
            best = min(joint, key=lambda table: table.variance)
            return _joint_rows(onto_simplex(best.counts, self.total), number, generator)
        tree = TreeModel(self.margins, {edge: self._pairs[edge] for edge in self._tree})
        fits = len(self.fitted) > len(self._tree) and number > 0
        steps = sweeps * len(self.fitted) if fits else 0
        drawn = len(self.sizes) / (len(self.sizes) + steps)  # as long as a step for each attribute
        with portion(0, drawn):
            columns = tree.rows(number, generator)
        if fits:
            scale = number / self.total
            targets = [TargetCounts(places, table * scale) for places, table in self.fitted.items()]
            with portion(drawn, 1):
                fit_rows(columns, targets, generator, sweeps)
        return columns

    @cached_property
    def margins(self) -> list[Tensor]:
        """The non-negative counts of every attribute."""
        return [
            one_way(place, size, self.tables, self.total) for place, size in enumerate(self.sizes)
        ]

    @cached_property
    def fitted(self) -> dict[Places, Tensor]:
        """The tables of two or more attributes, non-negative and with the one-way counts."""
        best: dict[Places, NoisyTable] = {}
        for each in self.tables:
            if len(each.places) > 1 and (
                each.places not in best or each.variance < best[each.places].variance
            ):
                best[each.places] = each
        return {
            places: with_margins(each.counts, [self.margins[place] for place in places])
            for places, each in best.items()
        }

    @cached_property
    def _pairs(self) -> dict[Edge, Tensor]:
        """The fitted tables of all pairs that some table holds; of several, of the smallest."""
        found: dict[Edge, Tensor] = {}
        for places, table in sorted(self.fitted.items(), key=lambda each: each[1].size):
            for one, other in combinations(range(len(places)), 2):
                rest = tuple(axis for axis in range(len(places)) if axis not in (one, other))
                found.setdefault((places[one], places[other]), table.sum(axis=rest))
        return found

    @cached_property
    def _tree(self) -> list[Edge]:
        weights = {edge: self._dependence(edge) for edge in self._pairs}
        return spanning_tree(len(self.sizes), weights)

    def _dependence(self, edge: Edge) -> float:
        """Return the distance of a pair of attributes from independence."""
        one, other = (self.margins[place] for place in edge)
        return float(np.abs(self._pairs[edge] - np.outer(one, other) / self.total).sum())


def _joint_rows(table: Tensor, number: int, generator: np.random.Generator) -> list[Codes]:
    """Return rows of a table of all attributes, in random order."""
    keys = drawn_given(np.zeros(number, np.uint16), table.reshape(1, -1), generator)
    codes = np.unravel_index(keys.astype(np.int64), table.shape)
    return [each.astype(np.uint16 if table.size <= 1 << 16 else np.uint32) for each in codes]
