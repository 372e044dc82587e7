"""The group of every published row, held in memory while a release is asked about, so that a count
joins rows and values by looking up numbers.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.engine.duckdb import Engine
from scumble.estimators.groups_law import GroupedCount
from scumble.evidence import Groups
from scumble.query import quoted

_known: WeakKeyDictionary[Engine, Layout] = WeakKeyDictionary()


def layout(evidence: Groups, engine: Engine) -> Layout:
    """The layout of the release of this engine; read when it is first needed."""
    if engine not in _known:
        _known[engine] = Layout(evidence, engine)
    return _known[engine]


class Layout:
    """Groups numbered from 0 on: of each row its group, of each group its size."""

    def __init__(self, evidence: Groups, engine: Engine) -> None:
        self._group, self._count = quoted(evidence.group), quoted(evidence.count)
        column = engine.rows(f"SELECT CAST({self._group} AS INTEGER) FROM view").column(0)
        self.groups = _numbers(column)
        self.sizes = np.bincount(self.groups).astype(np.int32)

    def count(self, engine: Engine, rows: str, values: str) -> GroupedCount:
        """The rows that satisfy a condition on them, and have a value that satisfies another."""
        from scumble.estimators import groups_kernels

        wanted = self._wanted(engine, values)
        flags, found = wanted > 0, np.zeros(len(self.sizes), np.int32)
        start = 0
        for bits in engine.rows(f"SELECT coalesce({rows}, false) FROM view").column(0).chunks:
            packed = np.frombuffer(bits.buffers()[1], np.uint8)
            groups = self.groups[start : start + len(bits)]
            groups_kernels.count_hits(packed, bits.offset, groups, flags, found)
            start += len(bits)
        return self._kinds(found, wanted)

    def _kinds(self, found: npt.NDArray[np.int32], wanted: npt.NDArray[np.int32]) -> GroupedCount:
        """The groups in which something was found, counted by what they have."""
        hit = np.flatnonzero(found)
        rows, values, sizes = (each[hit].astype(np.int64) for each in (found, wanted, self.sizes))
        most = int(self.sizes.max(initial=0)) + 1
        keys, times = np.unique((rows * most + values) * most + sizes, return_counts=True)
        return GroupedCount(keys // most // most, keys // most % most, keys % most, times)

    def _wanted(self, engine: Engine, condition: str) -> npt.NDArray[np.int32]:
        """How many values of each group satisfy a condition."""
        from scumble.estimators import groups_kernels

        table = engine.rows(
            f"SELECT CAST({self._group} AS INTEGER), CAST({self._count} AS INTEGER) "
            f'FROM "values" WHERE {condition}'
        )
        wanted = np.zeros(len(self.sizes), np.int32)
        groups_kernels.add_up(_numbers(table.column(0)), _numbers(table.column(1)), wanted)
        return wanted


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, np.int32), *(chunk.to_numpy() for chunk in column.chunks)])
