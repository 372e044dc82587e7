"""Published rows as Parquet, in an order that reveals nothing about the private table.

Rows are sorted by their published values. The order is then a function of the published multiset
alone, and the file is small and fast to scan. Memory is constant: sorted runs of packed rows are
written to disk and merged in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import CellKeys
from scumble.private.tables.sorted_keys import Keys, Run, StoredRun, merge_sorted, sort_keys

RECORDS = "records.parquet"  # the file name of mechanisms that perturb values
RUN = 1 << 22  # rows that are sorted in memory
CHUNK = 1 << 19  # rows of a row group
_ENCODED = 1 << 16  # values encoded at a time: by default 1,024, which take 1.4 times as long


class ViewWriter:
    """Collects rows in any order; on exit without an error, writes one sorted Parquet file."""

    def __init__(
        self, path: Path, attributes: Sequence[Attribute], *, compression: str = "snappy"
    ) -> None:
        self.rows = 0
        self._compression = compression
        self._path = path
        self._attributes = tuple(attributes)
        self._cell_keys = CellKeys([attribute.size for attribute in attributes])
        self._waiting: list[Keys] = []
        self._waiting_rows = 0
        self._runs: list[StoredRun] = []

    def __enter__(self) -> ViewWriter:
        return self

    def add(self, columns: Sequence[npt.NDArray[Any]]) -> None:
        """Add rows given as one array of codes per attribute."""
        keys = self._cell_keys.pack(columns, narrow=True)
        self.rows += len(keys)
        self._waiting.append(keys)
        self._waiting_rows += len(keys)
        if self._waiting_rows >= RUN:
            self._spill()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.discard()

    def finish(self) -> None:
        """Write the file, and remove the runs."""
        try:
            self._write()
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the runs."""
        for run in self._runs:
            run.path.unlink(missing_ok=True)

    def _sorted_waiting(self) -> Keys:
        none = [np.empty(0, a.code_type) for a in self._attributes]
        empty = self._cell_keys.pack(none, narrow=True)
        keys = np.concatenate([empty, *self._waiting])
        self._waiting, self._waiting_rows = [], 0
        return sort_keys(keys, reuse=True)

    def _spill(self) -> None:
        path = self._path.with_name(f"{self._path.name}.run{len(self._runs)}")
        self._runs.append(StoredRun.write(path, self._sorted_waiting()))

    def _write(self) -> None:
        runs = [Run(run) for run in self._runs]
        if self._waiting or not runs:
            runs.append(Run(self._sorted_waiting()))
        write_sorted(
            self._path, self._attributes, merge_sorted(runs, CHUNK), compression=self._compression
        )


def write_sorted(
    path: Path, attributes: Sequence[Attribute], keys: Iterable[Keys], *, compression: str
) -> None:
    """Write packed rows as a Parquet file, every piece as a row group."""
    radix = CellKeys([attribute.size for attribute in attributes])
    with table_writer(path, attributes, compression=compression) as writer:
        for piece in keys:
            writer.write_batch(decoded(attributes, radix.unpack(piece)))


def table_writer(
    path: Path,
    attributes: Sequence[Attribute],
    extra: Sequence[tuple[str, pa.DataType]] = (),
    *,
    compression: str = "snappy",
) -> pq.ParquetWriter:
    """Open a Parquet file for attributes and `extra` columns.

    The Arrow schema is not stored, so that every reader sees the same plain types.
    """
    return pq.ParquetWriter(
        path,
        _written(attributes, extra),
        store_schema=False,
        compression=compression,
        write_batch_size=_ENCODED,
    )


def decoded(
    attributes: Sequence[Attribute],
    codes: Sequence[npt.NDArray[Any]],
    extra: Sequence[tuple[str, pa.Array]] = (),
) -> pa.RecordBatch:
    """Return a batch of the published values of codes, with `extra` columns."""
    columns = [a.decode(code) for a, code in zip(attributes, codes, strict=True)]
    schema = _written(attributes, [(name, column.type) for name, column in extra])
    return pa.RecordBatch.from_arrays([*columns, *(column for _, column in extra)], schema=schema)


def _written(
    attributes: Sequence[Attribute], extra: Sequence[tuple[str, pa.DataType]]
) -> pa.Schema:
    """Return the columns of a file: text as a dictionary, which is faster.

    A column without missing values is declared so. Otherwise it would be stored for every row that
    it has a value, which takes a third of the time to write.
    """
    none = [a.decode(np.empty(0, a.code_type)).type for a in attributes]
    fields = [
        pa.field(a.name, kind, nullable=a.missing) for a, kind in zip(attributes, none, strict=True)
    ]
    return pa.schema([*fields, *extra])
