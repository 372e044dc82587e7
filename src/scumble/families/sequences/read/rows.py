"""Synthetic rows: sequences from a suffix tree, and trips from a release of Trajectories.

A trip has first and last cells, a length, and a way between them. One of n cells from a to z is
drawn cell by cell: from the cell c, with m cells to go after the next, the next cell is d with
probability proportional to P(d | c) · Pᵐ(z | d), so that the walk ends in z. P is the chain of the
published suffix tree, without ends and without staying in a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.families.sequences.read.models import ContextModel
from scumble.model.errors import ParameterError
from scumble.model.schema.domains import Bins, Category, IntegerRange
from scumble.public.synthesis.noisy_tables import NoisyTable, onto_simplex
from scumble.public.synthesis.quality import Quality, quality, report
from scumble.public.synthesis.release_rows import MOST_LISTS, list_table

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_CELLS = 1_000  # of the grid: the powers of the chain are dense
_TOGETHER = 1 << 22  # weights of next cells that are held at once


@dataclass(frozen=True, eq=False)
class SequenceRows:
    """Sequences drawn from the suffix tree of a release, symbol by symbol: the next symbol by the
    longest known context.
    """

    name: str
    members: Category | IntegerRange | Bins
    model: ContextModel
    rows: int | None

    @property
    def expected(self) -> int:
        """The number of sequences: published, or estimated by the weights of all symbols, or by the
        ends that were counted.
        """
        if self.rows is not None:
            return self.rows
        cells = self.model.cells
        weighed = cells.sum() if self.model.design.weighted else cells[:, -1].sum()
        return min(max(round(float(weighed) / self.model.design.unit), 0), MOST_LISTS)

    def table(self, number: int, seed: int | None) -> pa.Table:
        codes, offsets = draw_sequences(self.model, number, np.random.default_rng(seed))
        return list_table(self.name, self.members.labels(), codes, offsets)

    def quality(self, rows: pa.Table) -> Quality:
        """Return how far the symbols of the rows, and their ends, are from the noisy counts."""
        lists = rows[self.name].combine_chunks()
        codes, _ = self.members.encode(lists.flatten())
        sizes = np.diff(lists.offsets.to_numpy())
        records = np.minimum(sizes + 1, self.model.design.length).astype(np.float64)
        weights = 1 / records if self.model.design.weighted else np.ones(len(sizes))
        width = self.model.design.alphabet + 1
        drawn = np.bincount(codes, np.repeat(weights, sizes), width)
        drawn[-1] += weights[sizes < self.model.design.length].sum()
        noisy = self.model.following(())
        variance = self.model.design.laws[0].variance * max(len(self.model.leaves), 1)
        table = NoisyTable((0,), noisy / max(noisy.sum(), 1.0), variance)
        noise = sqrt(2 / pi * variance) * width / max(noisy.sum(), 1.0)
        distance = float(np.abs(table.counts - drawn / max(drawn.sum(), 1e-9)).sum())
        return report([([self.name], width, distance, noise)], len(sizes))


def draw_sequences(
    model: ContextModel, number: int, generator: np.random.Generator
) -> tuple[Integers, Integers]:
    """Return the codes of `number` sequences one after the other, and where each begins. The
    symbols of one place are drawn together for all sequences.
    """
    symbols, longest = model.design.alphabet, model.design.length
    cumulated = np.cumsum(model.leaf_probabilities, axis=1)
    columns = np.full((number, longest), symbols, np.int64)
    active = np.arange(number)
    for index in range(longest):
        leaf = _find_leaves(model, columns, active, index)
        chosen = (generator.random(len(active))[:, None] > cumulated[leaf]).sum(axis=1)
        columns[active, index] = np.minimum(chosen, symbols)
        active = active[chosen < symbols]
    inside = columns < symbols
    offsets = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    return columns[inside], offsets


def _find_leaves(model: ContextModel, columns: Integers, rows: Integers, index: int) -> Integers:
    """Return the leaf of the context before the symbol `index` of each of these rows."""
    fanout = model.inner.fanout
    nodes = np.zeros(len(rows), np.int64)
    leaves = np.zeros(len(rows), np.int64)
    at = np.arange(len(rows)) if len(model.inner) else np.empty(0, np.int64)
    back = 1
    while len(at):
        start = np.full(len(at), fanout - 1)
        code = columns[rows[at], index - back] if back <= index else start
        child = model.inner.child(nodes[at], code)
        ended = child < 0
        keys = nodes[at[ended]] * fanout + code[ended]
        leaves[at[ended]] = np.searchsorted(model.leaves, keys)
        at = at[~ended]
        nodes[at] = child[~ended]
        back += 1
    return leaves


@dataclass(frozen=True, eq=False)
class TripRows:
    """What draws trips. `ends` has the first and the last cell of each published pair, `weights`
    how many trips it stands for, and `lengths` the noisy numbers of trips by their cells.
    """

    name: str
    cells: tuple[str, ...]
    ends: tuple[Integers, Integers]
    weights: Floats
    lengths: NoisyTable
    model: ContextModel
    total: int

    def __post_init__(self) -> None:
        if len(self.cells) > MOST_CELLS:
            raise ParameterError(
                f"Synthetic trips are drawn on grids of up to {MOST_CELLS:,} cells; this one has "
                f"{len(self.cells):,}. Publish with fewer bins."
            )

    @property
    def expected(self) -> int:
        """The noisy number of trips."""
        return max(self.total, 0)

    def table(self, number: int, seed: int | None) -> pa.Table:
        draw = np.random.default_rng(seed)
        step = max(_TOGETHER // len(self.cells), 1)
        pieces = [self._draw_trips(min(step, number - at), draw) for at in range(0, number, step)]
        trips = np.concatenate([self._draw_trips(0, draw), *pieces])
        sizes = (trips >= 0).sum(axis=1)
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        names = pa.array(self.cells).take(pa.array(trips[trips >= 0]))
        return pa.table({self.name: pa.ListArray.from_arrays(offsets, names)})

    def quality(self, rows: pa.Table) -> Quality:
        """Return how far the lengths of trips are from the noisy counts of lengths."""
        lists = rows[self.name].combine_chunks()
        most = self.lengths.cells - 1
        sizes = np.minimum(np.diff(lists.offsets.to_numpy()), most).astype(np.uint16)
        names = [f"length({self.name})"]
        return quality(names, [sizes], [most + 1], [self.lengths], float(max(self.total, 1)))

    def _draw_trips(self, number: int, draw: np.random.Generator) -> Integers:
        """Return the cells of trips, a row for each, -1 after the end."""
        shares = onto_simplex(self.lengths.counts, max(float(self.lengths.counts.sum()), 1.0))
        longest = len(shares) - 1
        trips = np.full((number, longest), -1, np.int64)
        there = np.flatnonzero(draw.random(number) >= shares[0] / max(shares.sum(), 1e-9))
        if not len(self.weights) or not shares[1:].any() or not len(there):
            return trips
        chosen = draw.choice(len(self.weights), len(there), p=self.weights / self.weights.sum())
        first, last = (cells[chosen] for cells in self.ends)
        sizes = self._draw_sizes(first, last, shares, draw)
        trips[there, 0] = first
        for index in range(1, longest):
            on = np.flatnonzero(sizes > index)
            here = trips[there[on], index - 1]
            ways = self.chain[here] * self.powers[sizes[on] - index - 1, :, last[on]]
            trips[there[on], index] = _draw_columns(ways, last[on], draw)
        return trips

    def _draw_sizes(
        self, first: Integers, last: Integers, shares: Floats, draw: np.random.Generator
    ) -> Integers:
        """Return a number of cells for every trip: n with probability proportional to the share of
        trips of n cells, times that of the chain being in its last cell n - 1 steps after its
        first; where all of these are 0, the least: one cell, or two.
        """
        ways = shares[1 : len(self.powers) + 1] * self.powers[:, first, last].T
        return 1 + _draw_columns(ways, np.where(first == last, 0, 1), draw)

    @cached_property
    def chain(self) -> Floats:
        """The probabilities of the next cell (column) after each cell (row)."""
        number = len(self.cells)
        chances = np.stack([self.model.probabilities((cell,))[0][:-1] for cell in range(number)])
        np.fill_diagonal(chances, 0.0)
        sums = chances.sum(axis=1, keepdims=True)
        even = (1 - np.eye(number)) / max(number - 1, 1)
        return np.where(sums > 0, chances / np.where(sums > 0, sums, 1.0), even)

    @cached_property
    def powers(self) -> npt.NDArray[np.float32]:
        """The probabilities of getting from a cell to another in 0, 1, 2, ... steps."""
        powers = [np.eye(len(self.cells))]
        for _ in range(self.lengths.cells - 2):
            powers.append(powers[-1] @ self.chain)
        return np.stack(powers).astype(np.float32)


def _draw_columns(
    weights: npt.NDArray[Any], instead: Integers, draw: np.random.Generator
) -> Integers:
    """Return a column for every row, by its weights; that of `instead` where all are 0."""
    sums = np.cumsum(weights, axis=1)
    total = sums[:, -1]
    columns = (sums <= (draw.random(len(sums)) * total)[:, None]).sum(axis=1)
    return np.where(total > 0, np.minimum(columns, weights.shape[1] - 1), instead)


def cell_places(names: Sequence[str], cells: Sequence[str]) -> Integers:
    """Return the places of cells by their names, -1 for a missing one."""
    places = {cell: index for index, cell in enumerate(cells)}
    return np.array([places.get(name, -1) for name in names], np.int64)
