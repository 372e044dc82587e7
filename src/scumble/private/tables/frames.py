"""Sources in memory: Arrow, pandas, polars, and any object with an Arrow C stream."""

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
from scumble.model.schema.lists import list_text
from scumble.private.tables.source import (
    BATCH_ROWS,
    Source,
    check_distinct,
    read_batches,
    read_safely,
)


class ArrowTable(Source):
    """A pyarrow table."""

    description = "The Arrow table"

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.columns = check_distinct(self.description, table.column_names)
        self.rows = table.num_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns without a copy."""
        self.require(columns)
        chosen = self.table.select(list(columns))
        return read_batches(self.description, iter(chosen.to_batches(max_chunksize=BATCH_ROWS)))


class ArrowStream(Source):
    """An object with `__arrow_c_stream__`, which is opened for every pass.

    A `RecordBatchReader`, or an iterator, can be read only once.
    """

    def __init__(self, stream: Any) -> None:
        self.description = f"The {type(stream).__module__.split('.')[0]} {type(stream).__name__}"
        self.stream = stream
        self.once = isinstance(stream, pa.RecordBatchReader) or hasattr(stream, "__next__")
        self.waiting: pa.RecordBatchReader | None = None
        names = getattr(stream, "columns", None)
        if not isinstance(names, list):
            # The stream that is opened here to read the column names serves the first pass.
            self.waiting = self._open()
            names = self.waiting.schema.names
        self.columns = check_distinct(self.description, names)
        height = getattr(stream, "height", None)  # the number of rows in polars
        self.rows = height if isinstance(height, int) else None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns; an error in the second pass over a stream that is read only once."""
        self.require(columns)
        reader, self.waiting = self.waiting, None
        if reader is None:
            if self.once:
                raise SourceError(
                    f"{self.description} can be read only once, and this needs a second pass. "
                    "Give a file or a table."
                )
            reader = self._open()
        return (batch.select(list(columns)) for batch in read_batches(self.description, reader))

    def _open(self) -> pa.RecordBatchReader:
        if isinstance(self.stream, pa.RecordBatchReader):
            return self.stream
        return read_safely(self.description, lambda: pa.RecordBatchReader.from_stream(self.stream))


def is_spark(frame: object) -> bool:
    """Return whether this is a table of pyspark, which is not imported for the question."""
    return type(frame).__module__.startswith("pyspark.")


class PandasFrame(Source):
    """A pandas DataFrame; its index is not a column.

    Only the requested columns are converted, piece by piece. Memory stays flat, and a column that
    Arrow cannot represent matters only if it is requested.
    """

    description = "The pandas DataFrame"

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.columns = check_distinct(self.description, [str(name) for name in frame.columns])
        self.rows = len(frame)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns; NaN, NaT and None become null."""
        self.require(columns)
        places = [self.columns.index(name) for name in columns]
        categories = {place: self._categories(place) for place in places}
        for start in range(0, len(self.frame), BATCH_ROWS):
            piece = self.frame.iloc[start : start + BATCH_ROWS]
            arrays = [self._column(piece, place, categories[place]) for place in places]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _categories(self, place: int) -> pa.Array | None:
        column = self.frame.iloc[:, place]
        return (
            _object_texts(list(column.cat.categories)) if str(column.dtype) == "category" else None
        )

    def _column(self, piece: Any, place: int, categories: pa.Array | None) -> pa.Array:
        column = piece.iloc[:, place]
        if categories is not None:
            codes = column.cat.codes.to_numpy()
            return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), categories)
        return read_safely(f"Column {place + 1} of the pandas DataFrame", lambda: _array(column))


def _array(column: Any) -> pa.Array:
    """Convert a column to a type that depends on its dtype, not on its values."""
    kind = column.dtype
    # Arrow would infer the type of an object column from the values of each piece.
    declared = hasattr(column.array, "__arrow_array__") or kind.kind in "biufmM"
    if not declared or str(kind).startswith("Sparse"):
        return _object_texts(list(column))
    try:
        found = pa.array(column, from_pandas=True)
    except UnicodeEncodeError:  # a lone surrogate in a text column
        return _object_texts(list(column))
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _object_texts(values: Sequence[object]) -> pa.Array:
    """Convert each Python object to its text as bytes; columns of one type all at once."""
    kinds = set(map(type, values)) - {type(None)}
    try:
        if kinds == {str}:
            return pa.array(values, pa.large_string()).cast(pa.large_binary())
        if kinds == {int}:
            return pa.array(values, pa.int64()).cast(pa.large_string()).cast(pa.large_binary())
        if kinds == {float}:
            return _float_texts(values)
    except (UnicodeEncodeError, OverflowError, pa.ArrowInvalid):
        pass
    # Arrow formats floats, and does it much faster for many of them at once.
    floats = _float_texts([value for value in values if isinstance(value, float)])
    rest = iter(floats.to_pylist())
    texts = [next(rest) if isinstance(value, float) else _object_text(value) for value in values]
    return pa.array(texts, pa.large_binary())


def _object_text(value: object) -> bytes | None:
    """Return the text of one Python object, None if it is missing, or `UNREADABLE`."""
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":
        value = value.item()
    match value:
        case str():
            return value.encode("utf-8", "surrogatepass")
        case list() | tuple() | set() | frozenset() | np.ndarray():
            if isinstance(value, np.ndarray) and value.ndim != 1:
                return arrow_values.UNREADABLE
            members = [_member_text(member) for member in value]
            return list_text([member for member in members if member is not None])
        case bytes() | bytearray():
            return bytes(value)
        case int() | float() | Decimal():
            return _number_text(value)
        case date() | time() | np.datetime64() | UUID():
            text = value.isoformat() if isinstance(value, date | time) else str(value)
            return None if text == "NaT" else text.encode()
    return None if value is None or type(value).__name__ == "NAType" else arrow_values.UNREADABLE


def _member_text(value: object) -> bytes | None:
    """Return the text of a member of a list; lists inside of lists are not read."""
    nested = isinstance(value, (list, tuple, set, frozenset, np.ndarray))
    return arrow_values.UNREADABLE if nested else _object_text(value)


def _number_text(number: float | Decimal) -> bytes | None:
    if isinstance(number, bool):
        return b"true" if number else b"false"
    if isinstance(number, int):
        # Python refuses to format thousands of digits; no such number is in a domain.
        return (str(number) if abs(number) < 10**1000 else hex(number)).encode()
    if isinstance(number, Decimal):
        return None if number.is_nan() else arrow_values.decimal_text(number).encode()
    found: bytes | None = _float_texts([number])[0].as_py()
    return found


def _float_texts(values: Sequence[object]) -> pa.Array:
    numbers = pa.array(values, pa.float64())
    text, _ = arrow_values.texts(pc.if_else(pc.is_nan(numbers), None, numbers))
    return text.cast(pa.binary()).cast(pa.large_binary())
