"""Tables in memory and streams: Arrow, pandas, polars, and all that has an Arrow C stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from scumble.engine.base import BATCH_ROWS, Source, attempt, guarded
from scumble.errors import SourceError


class ArrowTable(Source):
    """A pyarrow table."""

    description = "The Arrow table"

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.columns = _distinct(self.description, table.column_names)
        self.rows = table.num_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, without a copy."""
        self.require(columns)
        chosen = self.table.select(list(columns))
        return guarded(self.description, iter(chosen.to_batches(max_chunksize=BATCH_ROWS)))


class ArrowStream(Source):
    """Anything with `__arrow_c_stream__`: opened for every pass, or read once if it cannot be."""

    def __init__(self, stream: Any) -> None:
        self.description = f"The {type(stream).__module__.split('.')[0]} {type(stream).__name__}"
        self.stream = stream
        self.once = isinstance(stream, pa.RecordBatchReader) or hasattr(stream, "__next__")
        self.waiting: pa.RecordBatchReader | None = None
        names = getattr(stream, "columns", None)
        if not isinstance(names, list):
            # The stream opened here to see its columns serves the first pass.
            self.waiting = self._open()
            names = self.waiting.schema.names
        self.columns = _distinct(self.description, names)
        height = getattr(stream, "height", None)  # as polars calls it
        self.rows = height if isinstance(height, int) else None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns; a second pass over a stream that flows once is refused."""
        self.require(columns)
        reader, self.waiting = self.waiting, None
        if reader is None:
            if self.once:
                raise SourceError(
                    f"{self.description} can be read only once, and this needs a second pass. "
                    "Give a file or a table."
                )
            reader = self._open()
        return (batch.select(list(columns)) for batch in guarded(self.description, reader))

    def _open(self) -> pa.RecordBatchReader:
        if isinstance(self.stream, pa.RecordBatchReader):
            return self.stream
        return attempt(self.description, lambda: pa.RecordBatchReader.from_stream(self.stream))


class PandasFrame(Source):
    """A pandas DataFrame; its index is not a column.

    Converted piece by piece and only the columns asked for, so that memory stays flat and a column
    that Arrow cannot hold is no trouble unless it is needed.
    """

    description = "The pandas DataFrame"

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.columns = _distinct(self.description, [str(name) for name in frame.columns])
        self.rows = len(frame)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns; NaN, NaT and None become null."""
        self.require(columns)
        places = [self.columns.index(name) for name in columns]
        for start in range(0, len(self.frame), BATCH_ROWS):
            piece = self.frame.iloc[start : start + BATCH_ROWS]
            arrays = [self._column(piece, place) for place in places]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _column(self, piece: Any, place: int) -> pa.Array:
        description = f"Column {self.columns[place]!r} of the pandas DataFrame"
        found = attempt(description, lambda: pa.array(piece.iloc[:, place], from_pandas=True))
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _distinct(description: str, names: Sequence[str]) -> list[str]:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise SourceError(f"{description} has two columns named {twice!r}.")
    return list(names)
