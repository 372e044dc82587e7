"""Tables in memory and streams: Arrow, pandas, polars, and all that has an Arrow C stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.errors import SourceError
from scumble.model.schema import arrow_values
from scumble.private.tables.source import BATCH_ROWS, Source, attempt, distinct, guarded


class ArrowTable(Source):
    """A pyarrow table."""

    description = "The Arrow table"

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.columns = distinct(self.description, table.column_names)
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
        self.columns = distinct(self.description, names)
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
        self.columns = distinct(self.description, [str(name) for name in frame.columns])
        self.rows = len(frame)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns; NaN, NaT and None become null."""
        self.require(columns)
        places = [self.columns.index(name) for name in columns]
        words = {place: self._categories(place) for place in places}
        for start in range(0, len(self.frame), BATCH_ROWS):
            piece = self.frame.iloc[start : start + BATCH_ROWS]
            arrays = [self._column(piece, place, words[place]) for place in places]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _categories(self, place: int) -> pa.Array | None:
        column = self.frame.iloc[:, place]
        return _spelled(list(column.cat.categories)) if str(column.dtype) == "category" else None

    def _column(self, piece: Any, place: int, words: pa.Array | None) -> pa.Array:
        column = piece.iloc[:, place]
        if words is not None:
            codes = column.cat.codes.to_numpy()
            return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words)
        return attempt(f"Column {place + 1} of the pandas DataFrame", lambda: _array(column))


def _array(column: Any) -> pa.Array:
    """A column in a type that its dtype decides, not its values."""
    kind = column.dtype
    # Arrow would look at the values of an object column, piece by piece, to find a type.
    declared = hasattr(column.array, "__arrow_array__") or kind.kind in "biufmM"
    if not declared or str(kind).startswith("Sparse"):
        return _spelled(list(column))
    try:
        found = pa.array(column, from_pandas=True)
    except UnicodeEncodeError:  # half a character in a column of text
        return _spelled(list(column))
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _spelled(values: Sequence[object]) -> pa.Array:
    """Objects as bytes: each one's text, by itself; columns of one kind take a short way."""
    kinds = set(map(type, values)) - {type(None)}
    try:
        if kinds == {str}:
            return pa.array(values, pa.large_string()).cast(pa.large_binary())
        if kinds == {int}:
            return pa.array(values, pa.int64()).cast(pa.large_string()).cast(pa.large_binary())
        if kinds == {float}:
            return _spelled_floats(values)
    except (UnicodeEncodeError, OverflowError, pa.ArrowInvalid):
        pass
    # Arrow spells fractions, and many of them together far faster than one by one.
    floats = _spelled_floats([value for value in values if isinstance(value, float)])
    rest = iter(floats.to_pylist())
    words = [next(rest) if isinstance(value, float) else _spelling(value) for value in values]
    return pa.array(words, pa.large_binary())


def _spelling(value: object) -> bytes | None:
    """What one Python object is in text: null, its text, or `UNREADABLE` if it is no value."""
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":
        value = value.item()
    match value:
        case str():
            return value.encode("utf-8", "surrogatepass")
        case bytes() | bytearray():
            return bytes(value)
        case int() | float() | Decimal():
            return _spelled_number(value)
        case date() | time() | np.datetime64() | UUID():
            text = value.isoformat() if isinstance(value, date | time) else str(value)
            return None if text == "NaT" else text.encode()
    return None if value is None or type(value).__name__ == "NAType" else arrow_values.UNREADABLE


def _spelled_number(number: float | Decimal) -> bytes | None:
    if isinstance(number, bool):
        return b"true" if number else b"false"
    if isinstance(number, int):
        # Python spells no number of thousands of digits, and none is inside a domain.
        return (str(number) if abs(number) < 10**1000 else hex(number)).encode()
    if isinstance(number, Decimal):
        return None if number.is_nan() else arrow_values.decimal_text(number).encode()
    found: bytes | None = _spelled_floats([number])[0].as_py()
    return found


def _spelled_floats(values: Sequence[object]) -> pa.Array:
    numbers = pa.array(values, pa.float64())
    text, _ = arrow_values.texts(pc.if_else(pc.is_nan(numbers), None, numbers))
    return text.cast(pa.binary()).cast(pa.large_binary())
