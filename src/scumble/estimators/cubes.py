"""Contingency tables of published rows, many at once: one pass over the file counts them all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.schema import Schema

Cube = npt.NDArray[np.int64]
Codes = npt.NDArray[Any]

MOST_CELLS = 1 << 25  # of all tables together
# Two tables are counted as one if that one still fits a usual second-level cache.
_MERGED_CELLS = 1 << 18
_BATCH = 1 << 19


def cells(schema: Schema, names: Iterable[str]) -> int:
    """How many cells the table of these attributes has."""
    return prod(schema[name].size for name in names)


def affordable(schema: Schema, asked: Iterable[frozenset[str] | None]) -> set[frozenset[str]]:
    """The sets of attributes whose tables fit in memory together, oftenest asked first."""
    chosen: set[frozenset[str]] = set()
    left = MOST_CELLS
    for names, _ in Counter(names for names in asked if names).most_common():
        if (size := cells(schema, names)) <= left:
            chosen.add(names)
            left -= size
    return chosen


class Cubes:
    """Counts of the rows by the asked sets of attributes, which are `affordable`."""

    def __init__(self, path: Path, schema: Schema, asked: set[frozenset[str]]) -> None:
        self._schema = schema
        self._sets = [self._ordered(names) for names in self._merged(asked)]
        self._counts = self._count(path) if self._sets else []
        self._found: dict[frozenset[str], Cube] = {}

    def of(self, names: frozenset[str]) -> Cube:
        """The counts by these attributes, with axes in the order of the schema."""
        if names not in self._found:
            fitting = [place for place, larger in enumerate(self._sets) if names <= set(larger)]
            place = min(fitting, key=lambda place: self._counts[place].size)
            others = [axis for axis, name in enumerate(self._sets[place]) if name not in names]
            self._found[names] = self._counts[place].sum(axis=tuple(others))
        return self._found[names]

    def _merged(self, wanted: set[frozenset[str]]) -> list[frozenset[str]]:
        """Few sets in which all wanted ones lie: each joins where the union is smallest."""
        merged: list[frozenset[str]] = []
        for names in sorted(wanted, key=lambda names: (-self._cells(names), sorted(names))):
            unions = [(self._cells(names | other), place) for place, other in enumerate(merged)]
            size, place = min(unions, default=(_MERGED_CELLS + 1, 0))
            if merged and size <= max(_MERGED_CELLS, self._cells(merged[place])):
                merged[place] |= names
            else:
                merged.append(names)
        return merged

    def _ordered(self, names: frozenset[str]) -> tuple[str, ...]:
        return tuple(name for name in self._schema.names if name in names)

    def _cells(self, names: Iterable[str]) -> int:
        return cells(self._schema, names)

    def _count(self, path: Path) -> list[Cube]:
        columns = self._ordered(frozenset().union(*self._sets))
        layout = self._layout(columns)
        with pq.ParquetFile(path) as file:
            groups = file.metadata.num_row_groups
        workers = min(os.cpu_count() or 1, max(groups, 1))
        shares = [range(worker, groups, workers) for worker in range(workers)]
        with ThreadPoolExecutor(workers) as pool:
            parts = list(pool.map(lambda share: self._part(path, columns, layout, share), shares))
        flat = np.sum(parts, axis=0, dtype=np.int64)
        shapes = [[self._schema[name].size for name in names] for names in self._sets]
        pieces = np.split(flat, layout[2][1:-1])
        return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def _part(
        self, path: Path, columns: Sequence[str], layout: tuple[Codes, Codes, Codes], share: range
    ) -> npt.NDArray[np.uint32]:
        """The counts of some row groups: half words, which keep twice as much in the cache."""
        from scumble.estimators.kernels import count_cells

        counts = np.zeros(layout[2][-1], np.uint32)
        for codes in _batches(path, self._schema, columns, share):
            count_cells(codes, *layout, counts)
        return counts

    def _layout(self, columns: Sequence[str]) -> tuple[Codes, Codes, Codes]:
        """For each set the columns and strides that give a row's cell, and where its cells
        begin.
        """
        width = max(map(len, self._sets))
        places = np.zeros((len(self._sets), width), np.int64)
        strides = np.zeros((len(self._sets), width), np.int64)
        for row, names in enumerate(self._sets):
            stride = 1
            for axis in reversed(range(len(names))):
                places[row, axis] = columns.index(names[axis])
                strides[row, axis] = stride
                stride *= self._schema[names[axis]].size
        sizes = [self._cells(names) for names in self._sets]
        return places, strides, np.concatenate([[0], np.cumsum(sizes)])


def _batches(
    path: Path, schema: Schema, columns: Sequence[str], row_groups: Sequence[int]
) -> Iterator[Codes]:
    """The published rows as codes: one row of codes per column."""
    text = [name for name in columns if pa.types.is_string(schema[name].arrow_type)]
    with pq.ParquetFile(path, read_dictionary=text) as file:
        for batch in file.iter_batches(
            _BATCH, row_groups=list(row_groups), columns=list(columns), use_threads=False
        ):
            codes = [schema[name].encode(batch.column(name))[0] for name in columns]
            yield np.stack(codes, dtype=np.result_type(*codes))
