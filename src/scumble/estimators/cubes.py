"""Contingency tables of published rows, many at once: one pass over the file counts them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

MOST_CELLS = 1 << 22
_BATCH = 1 << 18


class Cubes:
    """Counts of the rows by any subset of the asked sets of attributes."""

    def __init__(self, path: Path, schema: Schema, asked: Iterable[frozenset[str]]) -> None:
        self._schema = schema
        wanted = {names for names in asked if self._cells(names) <= MOST_CELLS}
        # A set that lies within a larger one is found by adding up.
        largest = [names for names in wanted if not any(names < other for other in wanted)]
        self._sets = [self._ordered(names) for names in sorted(largest, key=sorted)]
        self._counts = self._count(path) if self._sets else []
        self._found: dict[tuple[str, ...], Cube] = {}

    def __contains__(self, names: frozenset[str]) -> bool:
        return any(names <= set(larger) for larger in self._sets)

    def of(self, names: frozenset[str]) -> Cube:
        """The counts by these attributes, with axes in the order of the schema."""
        key = self._ordered(names)
        if key not in self._found:
            fitting = [place for place, larger in enumerate(self._sets) if names <= set(larger)]
            place = min(fitting, key=lambda place: self._counts[place].size)
            others = [axis for axis, name in enumerate(self._sets[place]) if name not in names]
            self._found[key] = self._counts[place].sum(axis=tuple(others))
        return self._found[key]

    def _ordered(self, names: frozenset[str]) -> tuple[str, ...]:
        return tuple(name for name in self._schema.names if name in names)

    def _cells(self, names: Iterable[str]) -> int:
        return prod(self._schema[name].size for name in names)

    def _count(self, path: Path) -> list[Cube]:
        from scumble.estimators.kernels import count_cells

        columns = self._ordered(frozenset().union(*self._sets))
        places, strides, starts = self._layout(columns)
        flat = np.zeros(starts[-1], np.int64)
        for codes in _batches(path, self._schema, columns):
            count_cells(codes, places, strides, starts, flat)
        shapes = [[self._schema[name].size for name in names] for names in self._sets]
        parts = zip(starts[:-1], starts[1:], shapes, strict=True)
        return [flat[start:end].reshape(shape) for start, end, shape in parts]

    def _layout(self, columns: Sequence[str]) -> tuple[Codes, Codes, Codes]:
        """For each set the columns and strides that give the cell of a row, and where its cells begin."""
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


def _batches(path: Path, schema: Schema, columns: Sequence[str]) -> Iterable[Codes]:
    """The published rows as codes: one row of codes per column."""
    text = [name for name in columns if pa.types.is_string(schema[name].arrow_type)]
    with pq.ParquetFile(path, read_dictionary=text) as file:
        for batch in file.iter_batches(_BATCH, columns=list(columns)):
            codes = [schema[name].encode(batch.column(name))[0] for name in columns]
            widest = np.result_type(*codes)
            yield np.stack([code.astype(widest, copy=False) for code in codes])
