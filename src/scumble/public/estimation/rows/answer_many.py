"""The same for a batch of questions, from contingency tables.

Many questions to published rows: plain counts among them share few passes over the data.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.evidence.channels import MultisetChannel
from scumble.model.evidence.evidence import Records
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate
from scumble.public.estimation.rows.grouped_counts import GroupedCounts, GroupIndex, sums_of_ones
from scumble.public.estimation.rows.plan import RowsPlan
from scumble.public.estimation.rows.sums import Sums
from scumble.public.estimation.tables import (
    BoxSums,
    Clauses,
    ContingencyTables,
    Cube,
    Integers,
    Names,
    Side,
    Sides,
    alike,
    in_rounds,
)
from scumble.public.sandbox import Sandbox

Answer = list[tuple[tuple[Any, ...], Estimate]]


def answer_together(
    evidence: Records, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, Answer]:
    """Return the answers to the plain counts among `queries` that share contingency tables.

    Keys are places in `queries`. The numbers are those of asking one by one.
    """
    found: dict[int, Estimate] = {}
    batches = _batches(evidence, schema, queries)
    bags = {batch.bag for batch in batches}
    for bag in bags:
        found |= _tabled(bag, [batch for batch in batches if batch.bag == bag], queries, engine)
    return {place: [((), estimate)] for place, estimate in found.items()}


@dataclass(frozen=True)
class _Batch:
    """Questions that have one plan, by their places."""

    plan: RowsPlan
    places: list[int]

    @property
    def bag(self) -> MultisetChannel | None:
        """The channel that shows several values of a row, if the questions meet it."""
        return self.plan.whole if isinstance(self.plan.whole, MultisetChannel) else None

    @property
    def names(self) -> frozenset[str]:
        """The attributes by which rows must be counted."""
        return frozenset((*self.plan.query.attributes, *self.plan.kept, *self.plan.axes))


def _batches(evidence: Records, schema: Schema, queries: Sequence[Query]) -> list[_Batch]:
    """Counts whose conditions on true and on perturbed attributes are apart."""
    found = (
        _Batch(RowsPlan(evidence, schema, queries[places[0]]), places)
        for places in alike(queries).values()
    )
    return [batch for batch in found if batch.plan.shared]


def _tabled(
    bag: MultisetChannel | None,
    batches: Sequence[_Batch],
    queries: Sequence[Query],
    engine: Sandbox,
) -> dict[int, Estimate]:
    """The answers that are worth a table, by place."""
    schema = batches[0].plan.schema
    file = cast(Path, engine.view)  # the engine of a release has one
    rows = MultisetTables(file, schema, bag) if bag else RowTables(file, schema)
    names: dict[int, frozenset[str]] = {}
    for batch in batches:
        names |= dict.fromkeys(batch.places, batch.names)
    found: dict[int, Estimate] = {}
    for sets, cubes, clauses in in_rounds(schema, queries, names, engine, rows.count):
        for batch in (each for each in batches if each.names in sets):
            found.update(_answers(batch, queries, cubes, clauses, bag.law.size if bag else 1))
    return found


def _answers(
    batch: _Batch,
    queries: Sequence[Query],
    cubes: ContingencyTables,
    clauses: Clauses,
    members: int,
) -> Iterator[tuple[int, Estimate]]:
    table = Tabled(batch.plan, cubes.of(batch.names), clauses, members)
    estimates = table.answers([queries[place] for place in batch.places])
    return zip(batch.places, estimates, strict=True)


# Contingency tables of published rows: one pass over the file counts them all.

Codes = npt.NDArray[Any]
RowGroups = Sequence[int]

_BATCH = 1 << 19
_MOST_NUMBERS = 1 << 27  # that all threads together count into


class Layout:
    """Where the cells of some tables are, one table after the other. The cell of a row in a table
    is the sum of its codes times strides, and stands for `width` numbers.
    """

    def __init__(self, schema: Schema, sets: Sequence[Names], width: int = 1) -> None:
        self.columns = [name for name in schema.names if any(name in names for names in sets)]
        self._shapes = [[schema[name].size for name in names] for names in sets]
        most = max(map(len, sets))
        self.places = np.zeros((len(sets), most), np.int64)
        self.strides = np.zeros((len(sets), most), np.int64)
        sizes = []
        for row, names in enumerate(sets):
            stride = width
            for axis in reversed(range(len(names))):
                self.places[row, axis] = self.columns.index(names[axis])
                self.strides[row, axis] = stride
                stride *= schema[names[axis]].size
            sizes.append(stride)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])

    @property
    def size(self) -> int:
        return int(self.starts[-1])

    def split(self, numbers: Codes) -> list[Cube]:
        """The tables, each with one axis for its numbers after those of its attributes."""
        pieces = np.split(numbers.astype(np.int64, copy=False), self.starts[1:-1])
        return [p.reshape([*shape, -1]) for p, shape in zip(pieces, self._shapes, strict=True)]


class RowTables:
    """Counts the rows of a Parquet file that show one value of each attribute."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self._path, self._schema = path, schema

    def count(self, sets: Sequence[Names]) -> list[Cube]:
        """The number of rows in every cell of the tables of these attributes."""
        layout = Layout(self._schema, sets)
        counts = in_parts(self._path, layout.size, lambda groups: self._part(layout, groups))
        return [table[..., 0] for table in layout.split(counts)]

    def _part(self, layout: Layout, groups: RowGroups) -> npt.NDArray[np.uint32]:
        """The counts of some row groups: half words, which keep twice as much in the cache."""
        from scumble.public.estimation.kernels import count_cells

        counts = np.zeros(layout.size, np.uint32)
        for batch in batches(self._path, self._schema, layout.columns, groups):
            codes = codes_of(batch, self._schema, layout.columns)
            count_cells(codes, layout.places, layout.strides, layout.starts, counts)
        return counts


def in_parts(path: Path, size: int, part: Callable[[RowGroups], Codes]) -> npt.NDArray[np.int64]:
    """The sum of what a function makes of the row groups of a file: so many numbers, of some groups
    at a time. Of large tables there are few at once, however many processors there are.
    """
    with pq.ParquetFile(path) as file:
        groups = file.metadata.num_row_groups
    workers = max(min(os.cpu_count() or 1, groups, _MOST_NUMBERS // max(size, 1)), 1)
    shares = [range(worker, groups, workers) for worker in range(workers)]
    found = np.zeros(size, np.int64)
    with ThreadPoolExecutor(workers) as pool:
        for counts in pool.map(part, shares):
            np.add(found, counts, out=found, dtype=np.int64, casting="same_kind")
    return found


def batches(
    path: Path, schema: Schema, columns: Sequence[str], groups: RowGroups, more: Names = ()
) -> Iterator[pa.RecordBatch]:
    """The published rows: these attributes, and more columns."""
    text = [name for name in columns if pa.types.is_string(schema[name].arrow_type)]
    with pq.ParquetFile(path, read_dictionary=text) as file:
        yield from file.iter_batches(
            _BATCH, row_groups=list(groups), columns=[*columns, *more], use_threads=False
        )


def codes_of(batch: pa.RecordBatch, schema: Schema, columns: Sequence[str]) -> Codes:
    """One row of codes for each attribute."""
    codes = [schema[name].encode(batch.column(name))[0] for name in columns]
    if not codes:
        return np.zeros((0, batch.num_rows), np.uint8)
    return np.stack(codes, dtype=np.result_type(*codes))


# Contingency tables of published bags: how often the rows of a cell show each value.


class MultisetTables:
    """Counts members of bags, so that a row counts as often as its bag has members. Every table
    must have the attributes of the bags.
    """

    def __init__(self, path: Path, schema: Schema, channel: MultisetChannel) -> None:
        self._path, self._schema, self._channel = path, schema, channel

    def count(self, sets: Sequence[Names]) -> list[Cube]:
        """The number of members in every cell of the tables of these attributes."""
        hidden = self._channel.attributes
        true = [tuple(name for name in names if name not in hidden) for names in sets]
        layout = Layout(self._schema, true, self._channel.law.values)
        counts = in_parts(self._path, layout.size, lambda groups: self._part(layout, groups))
        tables = []
        for names, some, table in zip(sets, true, layout.split(counts), strict=True):
            order = [*some, *hidden]
            shaped = table.reshape([self._schema[name].size for name in order])
            tables.append(shaped.transpose([order.index(name) for name in names]))
        return tables

    def _part(self, layout: Layout, groups: RowGroups) -> npt.NDArray[np.uint64]:
        from scumble.public.estimation.kernels import count_members

        columns, listed = self._channel.columns, self._channel.layout == "codes"
        counts = np.zeros(layout.size, np.uint64)
        for batch in batches(self._path, self._schema, layout.columns, groups, columns):
            codes = codes_of(batch, self._schema, layout.columns)
            bags = np.stack([batch.column(name).to_numpy() for name in columns], axis=1)
            layouts = (layout.places, layout.strides, layout.starts)
            count_members(codes, bags, listed, *layouts, counts)
        return counts


# Plain counts of published rows, read off a table of cells: many questions of one shape at once.
#
# The lines behind every answer are listed, and weighted as for a single one.

Found = dict[int, Estimate]

_LINES = 1 << 20  # that are listed at a time


class Tabled:
    """Answers to questions that have one plan. The table has the attributes of the plan in the
    order of the schema, and a row is in it `members` times.
    """

    def __init__(self, plan: RowsPlan, table: Cube, clauses: Clauses, members: int) -> None:
        self._plan, self._clauses, self._members = plan, clauses, members
        asked = {*plan.query.attributes, *plan.kept, *plan.axes}
        order = [name for name in plan.schema.names if name in asked]
        true = [name for name in order if name not in (*plan.kept, *plan.axes)]
        self._names = [*true, *plan.kept, *plan.axes]
        self._first, self._last = len(true), len(true) + len(plan.kept)
        self._table = table.transpose([order.index(name) for name in self._names])

    def answers(self, queries: Sequence[Query]) -> list[Estimate]:
        """One estimate for each, in their order."""
        sides = Sides(self._plan.schema, self._clauses)
        boxes = {}
        for place, query in enumerate(queries):
            found = sides.of(query, self._names)
            if found is not None:
                boxes[place] = found
        answers: Found = {}
        together: dict[tuple[Side, ...], list[int]] = defaultdict(list)
        for place, each in boxes.items():
            together[tuple(each[self._last :])].append(place)
        for places in together.values():
            answers |= self._listed({place: boxes[place] for place in places})
        for place, query in enumerate(queries):
            if place not in answers:
                answers[place] = self._alone(query)
        return [answers[place] for place in range(len(queries))]

    def _listed(self, boxes: Mapping[int, list[Side]]) -> Found:
        """The answers to questions with one condition on perturbed values."""
        condition = next(iter(boxes.values()))[self._last :]
        step = max(_LINES // prod(self._table.shape[self._first :]), 1)
        answers: Found = {}
        places = list(boxes)
        for start in range(0, len(places), step):
            some = places[start : start + step]
            shown = self._sums.of([boxes[place][: self._first] for place in some])
            for axis in range(self._first, self._last):
                holds = np.stack([boxes[place][axis].holds for place in some])
                shape = [1] * shown.ndim
                shape[0], shape[1 + axis - self._first] = holds.shape
                shown = shown * holds.reshape(shape)
            found = self._weighted(shown, self._holds(condition))
            answers |= {place: found.estimate(group) for group, place in enumerate(some)}
        return answers

    def _alone(self, query: Query) -> Estimate:
        """The answer to a question with conditions on several attributes: every cell is looked
        at.
        """
        table, holds = self._table, np.ones((1,) * (len(self._names) - self._last), bool)
        for clause in query.clauses:
            if set(clause.attributes) <= set(self._plan.axes):
                holds = holds & self._clauses.along(clause, self._names[self._last :])
            else:
                table = table * self._clauses.along(clause, self._names)
        shown = table.sum(axis=tuple(range(self._first)))
        holds = np.broadcast_to(holds, table.shape[self._last :]).astype(np.float64)
        return self._weighted(shown[None], self._plan.lens().by_state(holds[None])).estimate(0)

    @cached_property
    def _sums(self) -> BoxSums:
        return BoxSums(self._table, self._first)

    def _holds(self, condition: Sequence[Side]) -> Any:
        """Whether a row counts, for every value of the perturbed attributes."""
        holds = np.ones(1)
        for side in condition:
            holds = holds[..., None] * side.holds
        return self._plan.lens().by_state(holds)

    def _weighted(self, shown: Integers, holds: Any) -> Sums:
        """Lines of a table by question, kept attributes and perturbed values, without the empty
        ones.
        """
        plan, lengths = self._plan, shown.shape[1 : 1 + len(self._plan.kept)]
        states, cells = prod(lengths), prod(shown.shape[1 + len(lengths) :])
        codes = np.indices(lengths).reshape(len(lengths), states)
        kept = [plan.schema[name] for name in plan.kept]
        combinations = pa.table(
            {
                a.name: a.decode(code.astype(a.code_type))
                for a, code in zip(kept, codes, strict=True)
            }
        )
        flat = shown.reshape(-1)
        lines = np.flatnonzero(flat)
        rest, cell = np.divmod(lines, cells)
        group, combination = np.divmod(rest, states)
        counts = sums_of_ones(flat[lines].astype(np.float64))
        tally = GroupedCounts(
            plan.schema, combinations, combination, cell, *counts, members=self._members
        )
        return Sums(plan, tally, GroupIndex(group, [{}] * len(shown)), holds, None)
