"""Codes of published columns straight from the pages of a Parquet file.

Published rows are sorted, and a column has few different values. So its pages hold mostly runs of
indices into a dictionary. Arrow makes a value of each row from them, from which codes are made; to
read the runs as codes takes a fifth of that time. What is not written in this way, as by
`private/tables/writer.py`, is left to Arrow: also a file that is damaged, about which Arrow has
something to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category
from scumble.model.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Codes = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_DATA, _DICTIONARY = 0, 2  # kinds of pages
_PLAIN, _INDICES = 0, (2, 8)  # encodings; two numbers mean the same
_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd"}
_NUMBERS = {pa.int64(): np.dtype("<i8"), pa.float64(): np.dtype("<f8")}
_LARGEST_COLUMN, _LARGEST_PAGE = 1 << 28, 1 << 26  # bytes, in a row group
_MOST_PAGES = 1 << 12  # of a column in a row group
_MOST_ROWS = 1 << 22  # of a row group


class _Unexpected(Exception):  # noqa: N818 - no error: Arrow reads what is not read here
    """A page is not as the writer of releases writes it."""


class CodePages:
    """The row groups of a Parquet file, as codes of attributes of a schema."""

    def __init__(self, path: Path, schema: Schema, file: pq.ParquetFile) -> None:
        self._path, self._schema = path, schema
        self._metadata, self._types = file.metadata, file.schema_arrow
        self._words: dict[str, dict[str, int]] = {}  # codes of labels, by attribute

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
        size = chunk.total_compressed_size
        if not 0 < size <= _LARGEST_COLUMN:
            raise _Unexpected
        with self._path.open("rb") as file:
            file.seek(first)
            data = np.frombuffer(file.read(size), np.uint8)
        pages = _pages(data, _CODECS[chunk.compression])
        dictionary = next(pages, None)
        if dictionary is None or dictionary.kind != _DICTIONARY:
            raise _Unexpected
        codes = self._dictionary(dictionary, self._schema[name], self._types.field(place).type)
        _decode(pages, codes, bool(levels.max_definition_level), out)

    def _dictionary(self, page: _Page, attribute: Attribute, kind: pa.DataType) -> Codes:
        """Return the code of each value of a dictionary; none may lie outside the domain."""
        from scumble.public.archive.page_kernels import MOST_BITS

        if page.encoding not in (_PLAIN, _INDICES[0]) or not 0 <= page.values <= 1 << MOST_BITS:
            raise _Unexpected
        if kind in _NUMBERS:
            if len(page.data) != page.values * _NUMBERS[kind].itemsize:
                raise _Unexpected
            codes, outside = attribute.encode(pa.array(np.frombuffer(page.data, _NUMBERS[kind])))
            if outside.any():
                raise _Unexpected
            return codes
        if kind != pa.string() or not isinstance(attribute.domain, Category):
            raise _Unexpected
        words = self._codes_of_words(attribute)
        codes = np.array([words.get(text, -1) for text in _texts(page)], np.int64)
        if codes.min(initial=0) < 0:
            raise _Unexpected
        return codes

    def _codes_of_words(self, attribute: Attribute) -> dict[str, int]:
        """Return the codes of the labels of an attribute. Other texts may have codes, too."""
        if attribute.name not in self._words:
            labels = attribute.labels()
            codes, outside = attribute.encode(labels)
            known = zip(labels.to_pylist(), codes.tolist(), outside.tolist(), strict=True)
            self._words[attribute.name] = {word: code for word, code, lost in known if not lost}
        return self._words[attribute.name]


class _Page(NamedTuple):
    kind: int
    values: int
    encoding: int
    data: Bytes


def _pages(data: Bytes, codec: str | None) -> Iterator[_Page]:
    """Yield the pages of a column chunk, decompressed."""
    from scumble.public.archive.page_kernels import FIELDS, list_pages, read_varint

    found = np.empty((_MOST_PAGES, FIELDS), np.int64)
    pages = list_pages(data, found)
    unpack = None if codec is None else pa.Codec(codec).decompress
    for place, kind, size, stored, values, encoding in found[: max(pages, 0)].tolist():
        if not 0 <= size <= _LARGEST_PAGE:
            raise _Unexpected
        page = data[place : place + stored]
        # Arrow's Snappy, unlike its Zstandard, does not refuse a page of fewer bytes than there is
        # room for. What follows them would be memory that others have left.
        if codec == "snappy" and read_varint(page, 0)[0] != size:
            raise _Unexpected
        if unpack is not None:
            page = np.frombuffer(unpack(page, size), np.uint8)
        yield _Page(kind, values, encoding, page)


def _decode(pages: Iterator[_Page], codes: Codes, optional: bool, out: Codes) -> None:
    """Write the codes of all rows of a column chunk, given the codes of its dictionary."""
    from scumble.public.archive.page_kernels import MOST_BITS, decode_page

    known = np.zeros(1 << MOST_BITS, out.dtype)
    known[: len(codes)] = codes
    done = 0
    for page in pages:
        here = out[done : done + page.values]
        if page.kind != _DATA or page.encoding not in _INDICES or not 0 < page.values == len(here):
            raise _Unexpected
        if not decode_page(page.data, optional, known, len(codes), here):
            raise _Unexpected
        done += page.values
    if done != len(out):
        raise _Unexpected


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
