"""Messages of the PostgreSQL protocol, version 3: what clients send, and what they are sent."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST, VERSION_3 = 80877103, 80877104, 80877102, 196608
BOOL, INT2, INT4, INT8, TEXT, FLOAT4, FLOAT8, DATE = 16, 21, 23, 20, 25, 700, 701, 1082
VARCHAR, NUMERIC, OID, NAME, CHAR = 1043, 1700, 26, 19, 18
WHOLE = (INT2, INT4, INT8, OID)
_SIZES = {
    BOOL: 1,
    INT2: 2,
    INT4: 4,
    INT8: 8,
    FLOAT4: 4,
    FLOAT8: 8,
    DATE: 4,
    OID: 4,
    NAME: 64,
    CHAR: 1,
}
_EPOCH = date(2000, 1, 1).toordinal()
_PACKING = {INT2: "!h", INT4: "!i", INT8: "!q", FLOAT4: "!f", FLOAT8: "!d", BOOL: "!?", OID: "!I"}


@dataclass
class WireError(Exception):
    """An error that a client is told: a SQLSTATE, a sentence, and the place in the SQL from 1."""

    state: str
    sentence: str
    position: int | None = None
    fatal: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a result: its name, and its type as an OID of PostgreSQL."""

    name: str
    type: int = TEXT

    @classmethod
    def of(cls, name: str, kind: pa.DataType) -> Column:
        """Return the column for a type of Arrow."""
        if pa.types.is_boolean(kind):
            return cls(name, BOOL)
        if pa.types.is_integer(kind):
            return cls(name, INT8)
        if pa.types.is_floating(kind):
            return cls(name, FLOAT8)
        return cls(name, DATE if pa.types.is_date(kind) else TEXT)


@dataclass(frozen=True)
class Rows:
    """A result: columns, rows, the tag with which the command ends, and notes on the rows."""

    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Any]] = ()
    tag: str = ""
    notes: Sequence[str] = ()

    @property
    def ending(self) -> str:
        return self.tag or f"SELECT {len(self.rows)}"


# --- reading --------------------------------------------------------------------------------------


async def read_message(reader: asyncio.StreamReader, limit: int) -> tuple[bytes, bytes]:
    """Return type and body of the next message; raises `WireError` for a bad length."""
    kind = await reader.readexactly(1)
    length = int.from_bytes(await reader.readexactly(4), "big", signed=True)
    if not 4 <= length <= limit:
        raise WireError("08P01", f"A message must have 4 to {limit:,} bytes.", fatal=True)
    return kind, await reader.readexactly(length - 4)


async def read_startup(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return code and body of a startup message."""
    length = int.from_bytes(await reader.readexactly(4), "big", signed=True)
    if not 8 <= length <= 10_000:
        raise WireError("08P01", "This is no startup message of PostgreSQL.", fatal=True)
    content = await reader.readexactly(length - 4)
    return int.from_bytes(content[:4], "big"), content[4:]


class MessageReader:
    """Reads the fields of a message body; raises `WireError` where it ends too early."""

    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def text(self) -> str:
        """Return the text up to the next zero byte."""
        end = self._content.find(b"\0", self._place)
        if end < 0:
            raise _malformed()
        found = self._content[self._place : end]
        self._place = end + 1
        try:
            return found.decode("utf-8")
        except UnicodeDecodeError:
            raise WireError("22021", "The text is not UTF-8.") from None

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def take(self, size: int) -> bytes:
        found = self._content[self._place : self._place + size]
        if size < 0 or len(found) < size:
            raise _malformed()
        self._place += size
        return found

    def rest(self) -> bytes:
        return self._content[self._place :]

    def numbers(self, size: int) -> list[int]:
        """Return a list of numbers that begins with its length."""
        return [self.number(size) for _ in range(self._length())]

    def values(self) -> list[bytes | None]:
        """Return a list of values, each with its length; -1 stands for NULL."""
        found: list[bytes | None] = []
        for _ in range(self._length()):
            size = self.number(4)
            found.append(None if size == -1 else self.take(size))
        return found

    def _length(self) -> int:
        length = self.number(2)
        if length < 0:
            raise _malformed()
        return length


def _malformed() -> WireError:
    return WireError("08P01", "The message is malformed.", fatal=True)


def read_parameter(content: bytes | None, binary: bool, kind: int) -> str:
    """Return a parameter of a statement as a SQL literal."""
    if content is None:
        return "NULL"
    if binary and kind in _PACKING:
        try:
            value = struct.unpack(_PACKING[kind], content)[0]
        except struct.error:
            raise _malformed() from None
        return str(value).upper() if kind == BOOL else repr(value)
    if binary and kind == DATE and len(content) == 4:
        days = _EPOCH + int.from_bytes(content, "big", signed=True)
        if not 1 <= days <= date.max.toordinal():
            raise WireError("22008", "A date is out of range.")
        return f"DATE '{date.fromordinal(days)}'"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise WireError("22021", "The parameter is not UTF-8.") from None
    if kind in (*WHOLE, FLOAT4, FLOAT8, NUMERIC):
        return _as_number(text)
    quoted = text.replace("'", "''")
    return f"DATE '{quoted}'" if kind == DATE else f"'{quoted}'"


def _as_number(text: str) -> str:
    try:
        float(text)
    except ValueError:
        raise WireError("22P02", "A parameter is no number.") from None
    if not set(text.strip().lower()) <= set("0123456789.e+-"):
        raise WireError("22P02", "A parameter is no finite number.")
    return text.strip()


# --- writing --------------------------------------------------------------------------------------


def message(kind: str, *parts: bytes) -> bytes:
    """Return a message: its type, its length, its body."""
    body = b"".join(parts)
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    """Return a text with the zero byte at its end."""
    return value.replace("\0", "").encode() + b"\0"


def error_message(error: WireError) -> bytes:
    """Return an error as a message."""
    severity = "FATAL" if error.fatal else "ERROR"
    fields = {"S": severity, "V": severity, "C": error.state, "M": error.sentence}
    if error.position is not None:
        fields["P"] = str(error.position)
    return message("E", *(name.encode() + text(value) for name, value in fields.items()), b"\0")


def notices(result: Rows) -> bytes:
    """Return the notes on a result as messages, which psql shows as NOTICE."""
    known = {"S": "NOTICE", "V": "NOTICE", "C": "00000"}
    return b"".join(
        message("N", *(name.encode() + text(part) for name, part in fields.items()), b"\0")
        for fields in ({**known, "M": note} for note in result.notes)
    )


def row_description(columns: Sequence[Column], formats: Sequence[int] = ()) -> bytes:
    """Return the message that names the columns of a result."""
    parts = [struct.pack("!h", len(columns))]
    for place, each in enumerate(columns):
        code = format_of(formats, place)
        kind = (0, 0, each.type, _SIZES.get(each.type, -1), -1, code)
        parts += [text(each.name), struct.pack("!ihihih", *kind)]
    return message("T", *parts)


def format_of(formats: Sequence[int], place: int) -> int:
    """Return the format of a column: none given is text, one given is for all."""
    if not formats:
        return 0
    return formats[0] if len(formats) == 1 else formats[place] if place < len(formats) else 0


def data_row(columns: Sequence[Column], row: Sequence[Any], formats: Sequence[int] = ()) -> bytes:
    """Return one row as a message."""
    return message("D", _fields(columns, row, [format_of(formats, i) for i in range(len(columns))]))


def copy_rows(result: Rows) -> list[bytes]:
    """Return a result as the messages of COPY ... TO STDOUT (FORMAT binary)."""
    binary = [1] * len(result.columns)
    shape = struct.pack("!bh", 1, len(binary)) + b"".join(struct.pack("!h", 1) for _ in binary)
    head = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
    rows = [_fields(result.columns, row, binary) for row in result.rows]
    # PostgreSQL sends the head together with the first row, and ADBC relies on it.
    first, *more = [*rows, struct.pack("!h", -1)]
    data = [message("d", each) for each in (head + first, *more)]
    return [message("H", shape), *data, message("c")]


def _fields(columns: Sequence[Column], row: Sequence[Any], formats: Sequence[int]) -> bytes:
    parts = [struct.pack("!h", len(row))]
    for each, value, code in zip(columns, row, formats, strict=True):
        if value is None or value != value:  # NaN is the value of no rows: NULL
            parts.append(struct.pack("!i", -1))
            continue
        content = _binary(value, each.type) if code else _as_text(value).encode()
        parts += [struct.pack("!i", len(content)), content]
    return b"".join(parts)


def _binary(value: Any, kind: int) -> bytes:
    if kind in _PACKING:
        return struct.pack(_PACKING[kind], value)
    if kind == DATE:
        return struct.pack("!i", value.toordinal() - _EPOCH)
    return _as_text(value).encode()


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        infinite = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
        return infinite.get(value) or (
            str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        )
    return str(value).replace("\0", "")


@dataclass
class Portal:
    """A bound statement: its SQL with parameters, the formats of its columns, and its result."""

    sql: str
    formats: Sequence[int]
    result: Rows | None = None
    given: int = field(default=0)  # rows that were sent already
