"""Contingency tables of published rows: one pass over the Parquet file counts all of them.

`RowTables` counts rows that show one value of each attribute, `MultisetTables` the members of the
multisets that rows show.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.evidence.channels import MultisetChannel
from scumble.model.schema.schema import Schema
from scumble.model.stored import indices, known_codes
from scumble.public.estimation.kernels import count_members
from scumble.public.estimation.tables import Integers, Names

Codes = npt.NDArray[Any]
RowGroups = Sequence[int]

_BATCH = 1 << 19  # rows
_CACHED = 1 << 15  # rows whose cells stay in the cache of a processor
_MOST_NUMBERS = 1 << 27  # that all threads together count into


class TableLayout:
    """The places of the cells of some tables, one table after the other.

    The cell of a row in a table is the sum of its codes times strides, and has `width` numbers.
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

    def count(self, codes: Codes, counts: npt.NDArray[np.uint32]) -> None:
        """Add each row to its cell in every table. `codes` has one row for each of the columns."""
        for begin in range(0, codes.shape[1], _CACHED):
            part = codes[:, begin : begin + _CACHED].astype(np.int64)
            for start, places, strides in zip(self.starts, self.places, self.strides, strict=False):
                cells = np.full(part.shape[1], start, np.int64)
                for place, stride in zip(places, strides, strict=True):
                    if stride:  # 0 where a table has fewer attributes than others
                        cells += part[place] * stride
                np.add.at(counts, cells, np.uint32(1))

    def split(self, numbers: Codes) -> list[Integers]:
        """Return the tables, each with one axis for its numbers after those of its attributes."""
        pieces = np.split(numbers.astype(np.int64, copy=False), self.starts[1:-1])
        return [p.reshape([*shape, -1]) for p, shape in zip(pieces, self._shapes, strict=True)]


class RowTables:
    """Counts the rows of a Parquet file that show one value of each attribute."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self._path, self._schema = path, schema

    def count(self, sets: Sequence[Names]) -> list[Integers]:
        """Return the number of rows in every cell of the tables of `sets` of attributes."""
        wider = self._wider(sets)
        counted = [names for names in sets if names not in wider]
        layout = TableLayout(self._schema, counted)
        counts = over_row_groups(self._path, layout.size, lambda groups: self._part(layout, groups))
        pairs = zip(counted, layout.split(counts), strict=True)
        found = {names: table[..., 0] for names, table in pairs}
        for names in sorted(wider, key=len, reverse=True):
            gone = [place for place, name in enumerate(wider[names]) if name not in names]
            found[names] = np.asarray(found[wider[names]].sum(axis=tuple(gone)))
        return [found[names] for names in sets]

    def _wider(self, sets: Sequence[Names]) -> dict[Names, Names]:
        """Return the sets of attributes whose tables are summed up from that of another set, with
        one attribute more: the smallest, if it has fewer cells than the file has rows.
        """
        known = {frozenset(names): names for names in sets}
        every = frozenset[str]().union(*sets)
        above = {
            names: [known[each] for name in every - key if (each := key | {name}) in known]
            for key, names in known.items()
        }
        if not any(above.values()):
            return {}
        with pq.ParquetFile(self._path) as file:
            rows = file.metadata.num_rows
        least = {names: min(some, key=self._schema.size) for names, some in above.items() if some}
        return {names: each for names, each in least.items() if self._schema.size(each) <= rows}

    def _part(self, layout: TableLayout, groups: RowGroups) -> npt.NDArray[np.uint32]:
        """Return the counts of some row groups. Half words keep twice as many in the cache."""
        counts = np.zeros(layout.size, np.uint32)
        for batch in batches(self._path, self._schema, layout.columns, groups):
            layout.count(codes_of(batch, self._schema, layout.columns), counts)
        return counts


def over_row_groups(
    path: Path, size: int, part: Callable[[RowGroups], Codes]
) -> npt.NDArray[np.int64]:
    """Return the sum of `part(groups)`, an array of `size` numbers, over all row groups of a file.

    Threads work side by side; on large tables fewer, whatever the number of processors.
    """
    with pq.ParquetFile(path) as file:
        groups = file.metadata.num_row_groups
    workers = max(min(os.cpu_count() or 1, groups, _MOST_NUMBERS // max(size, 1)), 1)
    shares = [range(worker, groups, workers) for worker in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        parts = pool.map(part, shares)
        found = next(parts).astype(np.int64, copy=False)
        for counts in parts:
            np.add(found, counts, out=found, dtype=np.int64, casting="same_kind")
    return found


def batches(
    path: Path, schema: Schema, columns: Sequence[str], groups: RowGroups, more: Names = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the published rows of some row groups: the attributes `columns`, and `more` columns."""
    text = [name for name in columns if pa.types.is_string(schema[name].arrow_type)]
    with pq.ParquetFile(path, read_dictionary=text) as file:
        yield from file.iter_batches(
            _BATCH, row_groups=list(groups), columns=[*columns, *more], use_threads=False
        )


def codes_of(batch: pa.RecordBatch, schema: Schema, columns: Sequence[str]) -> Codes:
    """Return the codes of a batch, one row for each attribute."""
    codes = [known_codes(schema[name], batch.column(name)) for name in columns]
    if not codes:
        return np.zeros((0, batch.num_rows), np.uint8)
    return np.stack(codes, dtype=np.result_type(*codes))


class MultisetTables:
    """Counts the members of multisets: a row counts once for each member of its multiset.

    Every table must have the attributes of the multisets.
    """

    def __init__(self, path: Path, schema: Schema, channel: MultisetChannel) -> None:
        self._path, self._schema, self._channel = path, schema, channel

    def count(self, sets: Sequence[Names]) -> list[Integers]:
        """Return the number of members in every cell of the tables of `sets` of attributes."""
        hidden = self._channel.attributes
        true = [tuple(name for name in names if name not in hidden) for names in sets]
        layout = TableLayout(self._schema, true, self._channel.law.values)
        counts = over_row_groups(self._path, layout.size, lambda groups: self._part(layout, groups))
        tables = []
        for names, some, table in zip(sets, true, layout.split(counts), strict=True):
            order = [*some, *hidden]
            shaped = table.reshape([self._schema[name].size for name in order])
            tables.append(shaped.transpose([order.index(name) for name in names]))
        return tables

    def _part(self, layout: TableLayout, groups: RowGroups) -> npt.NDArray[np.uint64]:
        columns, listed = self._channel.columns, self._channel.layout == "codes"
        counts = np.zeros(layout.size, np.uint64)
        for batch in batches(self._path, self._schema, layout.columns, groups, columns):
            codes = codes_of(batch, self._schema, layout.columns)
            multisets = np.stack([batch.column(name).to_numpy() for name in columns], axis=1)
            if listed:
                indices(multisets, self._channel.law.values)
            layouts = (layout.places, layout.strides, layout.starts)
            count_members(codes, multisets, listed, *layouts, counts)
        return counts
