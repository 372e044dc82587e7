"""What a summary publishes of a table, run after run: the whole mechanism, and its file read back
as a line of numbers. Trees, whose runs are the slowest, are taken before they are written.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit.neighbours import Counts
from scumble.model.designs.regions import RegionTree
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.privacy.ledger import Account
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Source
from scumble.private.tables.counter import TensorCounter

Floats = npt.NDArray[np.float64]

_DEPTH = 4  # boxes of a tree that are looked at, from the smallest up


def published(
    mechanism: Summary, schema: Schema, counts: Counts, runs: int, noise: Source
) -> Floats:
    """So many releases of a table with these counts, one a line."""
    names = mechanism.parameters["attributes"]
    counter = TensorCounter(schema, names, counts)
    found = []
    folder = Path(tempfile.mkdtemp(prefix="scumble-audit-"))
    try:
        for _ in range(runs):
            table = PrivateTable(counter, Account(mechanism.promise), noise)
            if grow := getattr(mechanism, "grow", None):
                tree, _ = grow(table)
                found.append(_paths(tree, schema, names))
            else:
                found.append(_line(mechanism.measure(table, folder), folder, schema, names))
    finally:
        shutil.rmtree(folder)
    return np.array(found)


def _line(evidence: Evidence, folder: Path, schema: Schema, names: Sequence[str]) -> list[float]:
    if not isinstance(evidence, Measurements):
        raise TypeError("a summary publishes measurements")
    table = pq.read_table(folder / evidence.file, use_threads=False)
    told = [float(getattr(evidence.design, name, None) or 0) for name in ("total", "tau")]
    if all(name in table.column_names for name in names):
        return [*_cells(table, schema, names), *told]
    columns = [table[name].to_numpy() for name in table.column_names]
    numbers = [column for column in columns if column.dtype.kind in "iuf"]
    return [*np.concatenate(numbers).astype(np.float64).tolist(), *told]


def _cells(table: pa.Table, schema: Schema, names: Sequence[str]) -> list[float]:
    """Every cell of the domain: whether it is there, and its numbers."""
    codes = [schema[name].encode(table[name])[0] for name in names]
    keys = schema.radix(names).pack(codes).astype(np.int64)
    size = schema.size(names)
    found = []
    for name in [None, *(name for name in table.column_names if name not in names)]:
        column = np.zeros(size)
        column[keys] = 1.0 if name is None else table[name].to_numpy()
        found += column.tolist()
    return found


def _paths(tree: RegionTree, schema: Schema, names: Sequence[str]) -> list[float]:
    """The boxes that hold the first and the last cell of the domain: their sizes and counts."""
    ends = np.array([schema[name].size - 1 for name in names])
    found: list[Any] = []
    for cell in (np.zeros_like(ends), ends):
        inside = (tree.boxes.low <= cell[:, None]) & (cell[:, None] <= tree.boxes.high)
        path = np.flatnonzero(inside.all(axis=0))
        path = np.pad(path, (_DEPTH, 0), mode="edge")[-_DEPTH:]
        found += [*tree.boxes.cells[path].tolist(), *tree.noisy[path].tolist()]
    return [float(number) for number in found]
