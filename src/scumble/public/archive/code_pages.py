"""Codes of published columns straight from the pages of a Parquet file.

Published rows are sorted, and a column has few different values. So its pages hold mostly runs of
indices into a dictionary. Arrow makes a value of each row from them, from which codes are made; to
read the runs as codes takes a fifth of that time. What is not written in this way, as by
`private/tables/writer.py`, is left to Arrow: also a file that is damaged, about which Arrow has
something to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Codes = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_DATA, _DICTIONARY = 0, 2  # kinds of pages
_PLAIN, _INDICES = 0, (2, 8)  # encodings; two numbers mean the same
_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd"}
_NUMBERS = {pa.int64(): np.dtype("<i8"), pa.float64(): np.dtype("<f8")}
_MOST_BITS = 16  # of an index
_LARGEST_PAGE = 1 << 26  # bytes
_MOST_ROWS = 1 << 22  # of a row group


class _Unexpected(Exception):  # noqa: N818 - no error: Arrow reads what is not read here
    """A page is not as the writer of releases writes it."""


class CodePages:
    """The row groups of a Parquet file, as codes of attributes of a schema."""

    def __init__(self, path: Path, schema: Schema, file: pq.ParquetFile) -> None:
        self._path, self._schema = path, schema
        self._metadata, self._types = file.metadata, file.schema_arrow

    def codes(self, group: int, columns: Sequence[str]) -> Codes | None:
        """Return the codes of a row group, one row for each of `columns`; None if they must be read
        by Arrow.
        """
        rows = self._metadata.row_group(group).num_rows
        if not columns or not 0 < rows <= _MOST_ROWS:
            return None
        kind = np.result_type(*(self._schema[name].code_type for name in columns))
        found = np.empty((len(columns), rows), kind)
        try:
            for name, out in zip(columns, found, strict=True):
                self._read(group, name, out)
        except (_Unexpected, OSError, ValueError, pa.ArrowException):
            return None
        return found

    def _read(self, group: int, name: str, out: Codes) -> None:
        if self._types.names.count(name) != 1:
            raise _Unexpected
        place = self._types.names.index(name)
        chunk = self._metadata.row_group(group).column(place)
        levels = self._metadata.schema.column(place)
        if chunk.path_in_schema != name or levels.max_repetition_level or chunk.file_path:
            raise _Unexpected
        first = chunk.dictionary_page_offset
        if not first or chunk.compression not in _CODECS or levels.max_definition_level > 1:
            raise _Unexpected
        with self._path.open("rb") as file:
            file.seek(first)
            data = np.frombuffer(file.read(chunk.total_compressed_size), np.uint8)
        kind = self._types.field(place).type
        pages = _pages(data, _CODECS[chunk.compression])
        _decode(pages, self._schema[name], kind, bool(levels.max_definition_level), out)


@dataclass(frozen=True)
class _Page:
    kind: int
    values: int
    encoding: int
    data: Bytes


def _pages(data: Bytes, codec: str | None) -> Iterator[_Page]:
    """Yield the pages of a column chunk, decompressed."""
    from scumble.public.archive.page_kernels import FIELDS, read_page_header

    header = np.empty(FIELDS, np.int64)
    at = 0
    while at < len(data):
        at = read_page_header(data, at, header)
        kind, size, stored, values, encoding = header.tolist()
        if at < 0 or not 0 <= stored <= len(data) - at or not 0 <= size <= _LARGEST_PAGE:
            raise _Unexpected
        page = data[at : at + stored]
        if codec is not None:
            page = np.frombuffer(pa.decompress(page, size, codec), np.uint8)
        yield _Page(kind, values, encoding, page)
        at += stored


def _decode(
    pages: Iterator[_Page], attribute: Attribute, kind: pa.DataType, optional: bool, out: Codes
) -> None:
    """Write the codes of all rows of a column chunk, its dictionary and its pages of indices."""
    from scumble.public.archive.page_kernels import decode_indices

    dictionary = next(pages, None)
    if dictionary is None or dictionary.kind != _DICTIONARY:
        raise _Unexpected
    codes = _dictionary(dictionary, attribute, kind).astype(out.dtype)
    known = np.zeros(1 << _MOST_BITS, out.dtype)
    known[: len(codes)] = codes
    done = 0
    for page in pages:
        if page.kind != _DATA or page.encoding not in _INDICES:
            raise _Unexpected
        if not 0 < page.values <= len(out) - done:
            raise _Unexpected
        at = _after_levels(page) if optional else 0
        width = int(page.data[at]) if at < len(page.data) else _MOST_BITS + 1
        here = out[done : done + page.values]
        if width > _MOST_BITS or not decode_indices(
            page.data, at + 1, width, known, len(codes), here
        ):
            raise _Unexpected
        done += page.values
    if done != len(out):
        raise _Unexpected


def _after_levels(page: _Page) -> int:
    """Return the place after the definition levels, if they are one run that says that there is no
    null.
    """
    from scumble.public.archive.page_kernels import read_varint

    data = page.data
    end = 4 + int.from_bytes(data[:4].tobytes(), "little")
    header, at = read_varint(data[:end], 4)
    if header != 2 * page.values or at + 1 != end or end > len(data) or data[at] != 1:
        raise _Unexpected
    return end


def _dictionary(page: _Page, attribute: Attribute, kind: pa.DataType) -> Codes:
    """Return the code of each value of a dictionary, of which none may lie outside the domain."""
    if page.encoding not in (_PLAIN, _INDICES[0]) or not 0 <= page.values <= 1 << _MOST_BITS:
        raise _Unexpected
    if kind == pa.string():
        values = pa.array(_texts(page), kind)
    elif kind in _NUMBERS:
        values = pa.array(np.frombuffer(page.data, _NUMBERS[kind]))
    else:
        raise _Unexpected
    codes, outside = attribute.encode(values)
    if len(codes) != page.values or outside.any():
        raise _Unexpected
    return codes


def _texts(page: _Page) -> list[str]:
    """Return texts that are stored each after its length."""
    data, found, at = page.data.tobytes(), [], 0
    for _ in range(page.values):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        if end > len(data):
            raise _Unexpected
        found.append(data[at + 4 : end].decode())
        at = end
    return found
