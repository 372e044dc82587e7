"""One Parquet file put together from files whose row groups were written in several processes.

The pages of a row group do not depend on what comes before it in a file; only the footer has their
places in it. So the pages are copied as they are, and the places in the footers are moved. The
result is, byte for byte, the file that one writer would have written. A footer is a record in the
compact protocol of Thrift.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

_MAGIC = b"PAR1"
_ENDING = 8  # bytes after the footer: its length, and the magic number

# Kinds of values in the compact protocol of Thrift. A boolean field has no value: its kind tells.
_TRUE, _FALSE, _BYTE, _INTEGERS, _DOUBLE, _BINARY = 1, 2, 3, (4, 5, 6), 7, 8
_LISTS, _RECORD = (9, 10), 12

# Numbers of fields in the records of a footer.
_ROWS, _GROUPS = 3, 4  # of the file
_COLUMNS, _GROUP_PLACE = 1, 5  # of a row group
_FILE_PLACE, _CHUNK = 2, 3  # of a column; the first is 0 in new files
_PLACES = (9, 10, 11)  # of a column's pages: data, index, dictionary

Record = dict[int, tuple[int, Any]]  # kind and value by the number of the field, in ascending order


class RowGroupFile:
    """A Parquet file that is put together from others with the same columns.

    On an error the file is removed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._footer: Record = {}

    def __enter__(self) -> RowGroupFile:
        self._file = self._path.open("wb")
        self._file.write(_MAGIC)
        return self

    def add(self, path: Path) -> None:
        """Add the row groups of another file, one or more."""
        data = path.read_bytes()
        size = int.from_bytes(data[-_ENDING:-4], "little")
        end = len(data) - _ENDING - size
        footer = _Reader(data, end).record()
        moved = self._file.tell() - len(_MAGIC)
        self._file.write(memoryview(data)[len(_MAGIC) : end])
        for group in footer[_GROUPS][1][1]:
            _move(group, moved)
        if not self._footer:
            self._footer = footer
            return
        self._footer[_ROWS] = (6, self._footer[_ROWS][1] + footer[_ROWS][1])
        self._footer[_GROUPS][1][1].extend(footer[_GROUPS][1][1])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            written = bytearray()
            _write_record(written, self._footer)
            self._file.write(written + len(written).to_bytes(4, "little") + _MAGIC)
        self._file.close()
        if kind is not None:
            self._path.unlink(missing_ok=True)


def _move(group: Record, bytes_: int) -> None:
    """Add a number of bytes to all places in the file that the record of a row group has."""
    _add(group, _GROUP_PLACE, bytes_)
    for column in group[_COLUMNS][1][1]:
        if column[_FILE_PLACE][1]:
            _add(column, _FILE_PLACE, bytes_)
        for field in _PLACES:
            _add(column[_CHUNK][1], field, bytes_)


def _add(record: Record, field: int, number: int) -> None:
    if field in record:
        kind, value = record[field]
        record[field] = kind, value + number


class _Reader:
    """Reads values of the compact protocol one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def record(self) -> Record:
        found: Record = {}
        number = 0
        while head := self._byte():
            kind, delta = head & 15, head >> 4
            number = number + delta if delta else self._integer()
            found[number] = kind, self._value(kind)
        return found

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return None
        if kind in _INTEGERS:
            return self._integer()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _RECORD:
            return self.record()
        if kind in _LISTS:
            return self._list()
        if kind in (_BYTE, _DOUBLE):
            return self._bytes(1 if kind == _BYTE else 8)
        raise ValueError("The footer has a value of a kind that Parquet does not use.")

    def _list(self) -> tuple[int, list[Any]]:
        head = self._byte()
        kind, size = head & 15, head >> 4
        size = self._varint() if size == 15 else size
        read: Callable[[], Any] = lambda: self._value(kind)  # noqa: E731
        if kind in (_TRUE, _FALSE):  # in a list they are bytes
            read = self._byte
        return kind, [read() for _ in range(size)]

    def _integer(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)

    def _varint(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
        return found | byte << shift

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


def _write_record(out: bytearray, record: Record) -> None:
    last = 0
    for number, (kind, value) in record.items():
        if 0 < number - last < 16:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_integer(out, number)
        _write_value(out, kind, value)
        last = number
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _write_integer(out, value)
    elif kind == _BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == _RECORD:
        _write_record(out, value)
    elif kind in _LISTS:
        inner, values = value
        out.append((len(values) << 4 if len(values) < 15 else 240) | inner)
        if len(values) >= 15:
            _write_varint(out, len(values))
        for each in values:
            if inner in (_TRUE, _FALSE):
                out.append(each)
            else:
                _write_value(out, inner, each)
    elif value is not None:
        out += value


def _write_integer(out: bytearray, number: int) -> None:
    _write_varint(out, number << 1 if number >= 0 else (-number << 1) - 1)


def _write_varint(out: bytearray, number: int) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
