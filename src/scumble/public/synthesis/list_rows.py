"""Rows of releases of lists: sequences from suffix trees, baskets from counts of items or of whole
baskets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import pi, sqrt
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.designs.lists.itemsets import Itemsets, set_places
from scumble.model.designs.lists.whole_baskets import WholeBaskets
from scumble.model.errors import ParameterError
from scumble.model.evidence.evidence import Measurements
from scumble.model.schema.lists import DerivedName
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.baskets.hub_tables import HubReader
from scumble.public.estimation.measurements.baskets.itemsets import (
    ItemsetReader,
    WholeBasketReader,
    having,
)
from scumble.public.estimation.measurements.readings import reader_of
from scumble.public.estimation.strings.models import ContextModel
from scumble.public.estimation.strings.reader import StringsReader
from scumble.public.sandbox import Sandbox
from scumble.public.synthesis.noisy_tables import NoisyTable
from scumble.public.synthesis.quality import quality
from scumble.public.synthesis.row_model import RowModel
from scumble.public.synthesis.tree_model import Codes

Integers = npt.NDArray[np.int64]

MOST_ROWS = 10**7
_MOST_PAIRS = 200  # of items whose counts the baskets are fitted to
_CLEAR = 2  # standard deviations of noise by which a pair must differ from independent items


@dataclass(frozen=True, eq=False)
class SequenceRows:
    """Sequences drawn from the suffix tree of a release, symbol by symbol: the next symbol by the
    longest known context.
    """

    name: str
    reader: StringsReader
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
        return min(max(round(float(weighed) / self.model.design.unit), 0), MOST_ROWS)

    def table(self, number: int, seed: int | None) -> pa.Table:
        codes, offsets = draw_sequences(self.model, number, np.random.default_rng(seed))
        return _lists(self.name, self.reader.members.labels(), codes, offsets)

    def quality(self, rows: pa.Table) -> pa.Table:
        """Return how far the symbols of the rows, and their ends, are from the noisy counts."""
        lists = rows[self.name].combine_chunks()
        codes, _ = self.reader.members.encode(lists.flatten())
        sizes = np.diff(lists.offsets.to_numpy())
        records = np.minimum(sizes + 1, self.model.design.length).astype(np.float64)
        weights = 1 / records if self.model.design.weighted else np.ones(len(sizes))
        width = self.model.design.alphabet + 1
        found = np.bincount(codes, np.repeat(weights, sizes), width)
        found[-1] += weights[sizes < self.model.design.length].sum()
        noisy = self.model.following(())
        variance = self.model.design.laws[0].variance * max(len(self.model.leaves), 1)
        table = NoisyTable((0,), noisy / max(noisy.sum(), 1.0), variance)
        noise = sqrt(2 / pi * variance) * width / max(noisy.sum(), 1.0)
        return pa.table(
            {
                "attributes": pa.array([[self.name]], pa.list_(pa.string())),
                "ways": [1],
                "cells": [width],
                "distance": [float(np.abs(table.counts - found / max(found.sum(), 1e-9)).sum())],
                "noise": [noise],
            }
        )


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
    for place in range(longest):
        leaf = _leaves(model, columns, active, place)
        chosen = (generator.random(len(active))[:, None] > cumulated[leaf]).sum(axis=1)
        columns[active, place] = np.minimum(chosen, symbols)
        active = active[chosen < symbols]
    inside = columns < symbols
    offsets = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    return columns[inside], offsets


def _leaves(model: ContextModel, columns: Integers, rows: Integers, place: int) -> Integers:
    """Return the leaf of the context before `place` of each of these rows."""
    fanout = model.inner.fanout
    nodes = np.zeros(len(rows), np.int64)
    leaves = np.zeros(len(rows), np.int64)
    at = np.arange(len(rows)) if len(model.inner) else np.empty(0, np.int64)
    back = 1
    while len(at):
        start = np.full(len(at), fanout - 1)
        code = columns[rows[at], place - back] if back <= place else start
        child = model.inner.child(nodes[at], code)
        ended = child < 0
        keys = nodes[at[ended]] * fanout + code[ended]
        leaves[at[ended]] = np.searchsorted(model.leaves, keys)
        at = at[~ended]
        nodes[at] = child[~ended]
        back += 1
    return leaves


@dataclass(frozen=True, eq=False)
class BasketRows:
    """Baskets of the items that a release names. Items that it does not name are in no basket."""

    name: str
    items: pa.Array
    columns: tuple[str, ...]
    model: RowModel

    @property
    def expected(self) -> int:
        """The estimated number of baskets."""
        return min(max(round(self.model.total), 0), MOST_ROWS)

    def table(self, number: int, seed: int | None) -> pa.Table:
        members = np.stack(self.model.rows(number, seed), axis=1) > 0
        return _baskets(self.name, self.items, members)

    def quality(self, rows: pa.Table) -> pa.Table:
        """Return how far the baskets are from the noisy counts of items and of sets of items."""
        columns = _indicators(rows[self.name].to_pylist(), self.items.to_pylist())
        model = self.model
        return quality(self.columns, columns, model.sizes, model.tables, model.total)


@dataclass(frozen=True, eq=False)
class WholeBasketRows:
    """Baskets drawn by the noisy counts of the published ones; others are never drawn."""

    name: str
    items: pa.Array
    columns: tuple[str, ...]
    reader: WholeBasketReader

    @property
    def expected(self) -> int:
        """The noisy number of all baskets."""
        return min(max(self.reader.design.total, 0), MOST_ROWS)

    def table(self, number: int, seed: int | None) -> pa.Table:
        counts = self.reader.counts.clip(0)
        members = np.zeros((number, len(self.columns)), bool)
        if counts.any():
            draw = np.random.default_rng(seed)
            members = self.reader.members[draw.choice(len(counts), number, p=counts / counts.sum())]
        return _baskets(self.name, self.items, members)

    def quality(self, rows: pa.Table) -> pa.Table:
        """Return how far the shares of single items are from those of the published baskets."""
        total = max(float(self.expected), 1.0)
        noisy = [self.reader.read(having([name])) for name in self.columns]
        counts = [np.array([total - each.value, each.value]) for each in noisy]
        tables = [
            NoisyTable((place,), counts[place], each.variance) for place, each in enumerate(noisy)
        ]
        columns = _indicators(rows[self.name].to_pylist(), self.items.to_pylist())
        return quality(self.columns, columns, [2] * len(columns), tables, total)


def _baskets(name: str, items: pa.Array, members: npt.NDArray[np.bool_]) -> pa.Table:
    """Return baskets as lists, given which items (columns) each of them (row) has."""
    offsets = np.concatenate([[0], np.cumsum(members.sum(axis=1))])
    return _lists(name, items, np.nonzero(members)[1], offsets)


def _indicators(baskets: Sequence[Sequence[Any]], items: Sequence[Any]) -> list[Codes]:
    """Return for every item which baskets have it, as 0 or 1."""
    places = {item: place for place, item in enumerate(items)}
    columns: list[Codes] = [np.zeros(len(baskets), np.uint16) for _ in items]
    for row, basket in enumerate(baskets):
        for item in basket:
            columns[places[item]][row] = 1
    return columns


def list_rows(
    evidence: Measurements, schema: Schema, engine: Sandbox, model: RowModel | None
) -> SequenceRows | BasketRows | WholeBasketRows:
    """Return what draws the lists of a release of sequences or baskets; `model` is that of the
    columns that tell whether a basket has an item, None if they have no tables of their own.
    """
    if evidence.design.kind == "strings":
        reader = cast(StringsReader, reader_of(evidence, schema, engine))
        if not isinstance(reader.model, ContextModel):
            raise ParameterError(
                "Synthetic sequences are drawn from suffix trees: publish with the model suffix."
            )
        return SequenceRows(evidence.columns[0], reader, reader.model, evidence.rows)
    read = [cast(DerivedName, DerivedName.read(name)) for name in evidence.columns]
    items: Sequence[Any] = [each.argument for each in read]
    if evidence.design.kind == WholeBaskets.kind:
        whole = cast(WholeBasketReader, reader_of(evidence, schema, engine))
        return WholeBasketRows(read[0].base, pa.array(items), evidence.columns, whole)
    made = model or _itemset_model(evidence, schema, engine)
    return BasketRows(read[0].base, pa.array(items), evidence.columns, made)


def _itemset_model(evidence: Measurements, schema: Schema, engine: Sandbox) -> RowModel:
    """Return the model of counts of small sets: all items, and the pairs that clearly differ from
    independent items.
    """
    reader: Any = reader_of(evidence, schema, engine)
    found = _hub_counts(reader) if isinstance(reader, HubReader) else _set_counts(reader)
    number, total = len(found.singles), found.total
    singles = found.singles.clip(0, total)
    spread = [found.variance((place,)) for place in range(number)]
    tables = [NoisyTable((p,), np.array([total - n, n]), spread[p]) for p, n in enumerate(singles)]
    pairs, counts = found.pairs, found.counts
    gaps = np.abs(counts - singles[pairs[:, 0]] * singles[pairs[:, 1]] / total)
    for place in np.argsort(-gaps, kind="stable")[:_MOST_PAIRS].tolist():
        one, other = pairs[place].tolist()
        variance = found.variance((one, other))
        if gaps[place] > _CLEAR * sqrt(variance):
            both, first, second = counts[place], singles[one], singles[other]
            cells = [[total - first - second + both, second - both], [first - both, both]]
            tables.append(NoisyTable((one, other), np.array(cells), variance))
    return RowModel.of([2] * number, tables, total)


@dataclass(frozen=True, eq=False)
class _Counts:
    """Noisy counts of all items and of measured pairs, and the variance of the noise of a set."""

    total: float
    singles: npt.NDArray[np.float64]
    pairs: Integers
    counts: npt.NDArray[np.float64]
    variance: Callable[[Sequence[int]], float]


def _set_counts(reader: ItemsetReader) -> _Counts:
    design: Itemsets = reader.design
    number = len(design.attributes)
    singles = reader.numbers[set_places(design, np.arange(number)[:, None])]
    pairs = np.array(list(combinations(range(number), 2)) if design.longest > 1 else [], np.int64)
    pairs = pairs.reshape(-1, 2)
    counts = reader.numbers[set_places(design, pairs)]
    total = max(float(reader.numbers[0]), 1.0)
    return _Counts(total, singles, pairs, counts, lambda _: design.noise.variance)


def _hub_counts(reader: HubReader) -> _Counts:
    values = dict(reader.sets())
    singles = np.array([values[place,] for place in range(len(reader.design.attributes))])
    pairs = [each for each in values if len(each) == 2]
    counts = np.array([values[each] for each in pairs])
    total = max(float(reader.cells[0].sum()), 1.0)
    return _Counts(
        total, singles, np.array(pairs, np.int64).reshape(-1, 2), counts, reader.variance
    )


def _lists(
    name: str, values: pa.Array, codes: npt.NDArray[Any], offsets: npt.NDArray[Any]
) -> pa.Table:
    flat = values.take(pa.array(codes, pa.int64()))
    return pa.table({name: pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)})
