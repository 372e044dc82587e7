"""Sources in files: CSV, Parquet, and tables of a DuckDB database."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from scumble.model.errors import SourceError
from scumble.model.long_work import interruptible
from scumble.model.schema.arrow_values import is_bytes, is_text
from scumble.private.tables import source
from scumble.private.tables.source import (
    BATCH_ROWS,
    LINE_LIMIT,
    Source,
    TablePiece,
    check_distinct,
    choose_table,
    quoted,
    read_batches,
    read_safely,
)

if TYPE_CHECKING:
    import duckdb  # slow to import, and Parquet files do without it

# A view or macro of a database file runs when it is read: it must reach nothing but its file.
_LOCKED: dict[str, Any] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}
_DELIMITERS = ",;\t|"
SEPARATORS = "Commas, semicolons, tabs or bars separate the columns of a CSV file"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")
_HEADER_LIMIT = 1 << 20  # characters of a header line
_BUFFER = 1 << 25  # bytes that a thread of DuckDB's CSV reader reads at a time
_GZIP_RATIO = 1032  # DEFLATE cannot compress better
_LINE_BREAK = re.compile(rb"[\r\n]")
_PEEK = 1 << 16
_DICTIONARY_BYTES = 4  # for a value: the most that text takes which is worth a dictionary
_FEW_VALUES = 1 << 13  # are always worth one
_SMALL_GROUP = 1 << 10  # rows


class CsvFile(Source):
    """A CSV file, plain or gzipped, with a header line; every value is read as text.

    The delimiter is the one of comma, semicolon, tab and bar that splits the header into the most
    names.
    """

    hint = " Does the file have a header line?"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.description = f"The CSV file '{path}'"
        self._checked = False
        self.gzipped = path.name.lower().endswith(".gz") or _starts_with(path, _GZIP)
        _refuse_other_formats(self.description, path, self.gzipped)
        header = read_safely(self.description, self._header)
        if not header.strip():
            raise SourceError(f"{self.description} is empty: it has no header line.")
        self.delimiter, names = read_safely(self.description, lambda: _names(header))
        self.columns = check_distinct(self.description, names, self.hint)
        if len(names) == 1:
            self.hint = f"{self.hint} {SEPARATORS}."

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns as text, read in parallel, in the order of the rows."""
        self.require(columns)
        places = [f"c{self.columns.index(name)}" for name in columns]
        read_safely(self.description, self._check_lines)
        with _connected() as connection:
            query = (
                f"SELECT {', '.join(places)} FROM read_csv("
                "?, delim = ?, compression = ?, columns = ?, auto_detect = false, "
                f"max_line_size = {LINE_LIMIT}, buffer_size = {_BUFFER}, "
                "header = true, quote = '\"', escape = '\"')"
            )
            options = [
                _without_wildcards(self.path),
                self.delimiter,
                "gzip" if self.gzipped else "none",
                {f"c{place}": "VARCHAR" for place in range(len(self.columns))},
            ]
            reader = read_safely(
                self.description,
                lambda: connection.sql(query, params=options).to_arrow_reader(BATCH_ROWS),
            )
            for batch in read_batches(self.description, reader):
                yield batch.rename_columns(list(columns))

    def _header(self) -> str:
        with self._open("rt", encoding="utf-8-sig", newline="") as text:
            lines: list[str] = []
            length = quotes = 0
            while line := text.readline(_HEADER_LIMIT):
                lines.append(line)
                length, quotes = length + len(line), quotes + line.count('"')
                if length >= _HEADER_LIMIT or quotes % 2 == 0:
                    break  # an odd number: a name with line breaks
        if length >= _HEADER_LIMIT:
            raise SourceError(
                f"{self.description} cannot be read: its header line has {_HEADER_LIMIT:,} "
                "characters or more. Is it a CSV file?"
            )
        return "".join(lines)

    def _check_lines(self) -> None:
        """Raise `SourceError` if a line is so long that DuckDB would drop it silently.

        DuckDB 2.0 refuses lines of more than `LINE_LIMIT` bytes, except the last line of a file if
        a whole buffer lies inside it: the thread of that buffer finds no line to begin with, and no
        other reads the line. Such a line contains an aligned block of half a buffer without a
        line break.
        """
        half = _BUFFER // 2
        if self._checked or self.path.stat().st_size * _GZIP_RATIO**self.gzipped < half:
            return
        with self._open("rb") as file:
            for start in itertools.count(0, half):
                file.seek(start)
                block = file.read(_PEEK)
                if block and not _LINE_BREAK.search(block):
                    block += file.read(half - _PEEK)
                    if len(block) == half and not _LINE_BREAK.search(block, _PEEK):
                        raise SourceError(
                            f"{self.description} cannot be read: a line is longer than "
                            f"{LINE_LIMIT:,} bytes. Is a line break or a quote missing?"
                        )
                if not block:
                    break
        self._checked = True

    def _open(self, mode: str, **text: str) -> Any:
        opener: Any = gzip.open if self.gzipped else open
        return opener(self.path, mode, **text)


class ParquetFiles(Source):
    """One Parquet file, or several with the same columns, which are read one after the other.

    Each file is read in the types that it declares. A folder like `year=2024` (a Hive partition)
    adds a text column.
    """

    def __init__(self, description: str, paths: Sequence[Path], base: Path | None = None) -> None:
        self.description = description
        self.parts = read_safely(description, lambda: [_DataFile(path, base) for path in paths])
        self.columns = check_distinct(description, self.parts[0].columns)
        self.rows = sum(part.metadata.num_rows for part in self.parts)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns, text as dictionaries."""
        return (batch for _, batch in self.unit_batches(columns))

    def unit_batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches with their units: row groups, see `_DataFile.units`."""
        self.require(columns)
        for part in self.parts:
            absent = next((name for name in columns if name not in part.columns), None)
            if absent is not None:  # without the path of the file: it may contain private values
                raise SourceError(f"{self.description} has a file without the column {absent!r}.")
        return self._read_ahead(list(columns))

    def units(self) -> list[TablePiece] | None:
        """Return the units of all files, one file after the other."""
        found: list[TablePiece] = []
        first = 0
        for part in self.parts:
            for groups in part.units():
                found.append(RowGroups(self, part, groups, len(found), first))
                first += part.rows_of(groups)
        return found

    def _read_ahead(self, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches piece by piece; the next piece is read while the caller uses the last one.

        Arrow's scanner of a whole dataset would read further and further ahead of a slow caller.
        """
        with ThreadPoolExecutor(1) as pool:
            waiting: deque[tuple[int, Future[list[pa.RecordBatch]]]] = deque()
            number = 0
            for part in self.parts:
                for unit in part.units():
                    for piece in part.pieces(unit):
                        waiting.append((number, pool.submit(part.read, piece, columns)))
                        if len(waiting) > 1:
                            yield from self._result(*waiting.popleft())
                    number += 1
            for each in waiting:
                yield from self._result(*each)

    def _result(
        self, unit: int, future: Future[list[pa.RecordBatch]]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        batches = iter(read_safely(self.description, future.result))
        return ((unit, batch) for batch in read_batches(self.description, batches))


class _DataFile:
    """One Parquet file, and the values that the names of its folders give to all its rows."""

    def __init__(self, path: Path, base: Path | None) -> None:
        # Another process may have another working directory.
        self.opened = path.absolute(), None if base is None else base.absolute()
        self.given = {} if base is None else _folder_values(path.relative_to(base))
        self.path = str(path)
        with self._open() as file:
            self.metadata, schema = file.metadata, file.schema_arrow
            # Text is read as a dictionary, so that each distinct value is encoded once.
            text = {each.name for each in schema if is_text(each.type) or is_bytes(each.type)}
            self.text = sorted(text - _of_many_values(file, text))
        self.columns = [*(name for name in schema.names if name not in self.given), *self.given]

    def units(self) -> list[list[int]]:
        """Return the units of work: adjacent row groups with at least `UNIT_ROWS` rows."""
        return self._runs(range(self.metadata.num_row_groups), source.UNIT_ROWS)

    def pieces(self, unit: Sequence[int]) -> list[list[int]]:
        """Return adjacent row groups of a unit with at least `BATCH_ROWS` rows together."""
        return self._runs(unit, BATCH_ROWS)

    def rows_of(self, groups: Sequence[int]) -> int:
        """Return the number of rows in these row groups."""
        return sum(self.metadata.row_group(group).num_rows for group in groups)

    def _runs(self, groups: Iterable[int], least: int) -> list[list[int]]:
        """Cut adjacent row groups into runs of at least this number of rows; the last may have
        fewer.
        """
        runs: list[list[int]] = []
        rows = least
        for group in groups:
            if rows >= least:
                runs.append([])
                rows = 0
            runs[-1].append(group)
            rows += self.metadata.row_group(group).num_rows
        return runs

    def read(
        self, groups: list[int], columns: list[str], *, threads: bool = True
    ) -> list[pa.RecordBatch]:
        """Return these columns of some row groups. With `threads`, Arrow may use several cores."""
        inside = [name for name in columns if name not in self.given]
        rows = self.rows_of(groups)
        with self._open(metadata=self.metadata, read_dictionary=self.text) as file:
            small = rows < _SMALL_GROUP * len(groups)
            read = file.iter_batches(
                self._batch_rows(groups[0]),
                row_groups=groups,
                columns=inside,
                use_threads=threads and not small,
            )
            found = [batch.select(inside) for batch in read]
        if len(groups) > 1 and small and inside:  # every batch costs the caller time
            found = pa.Table.from_batches(found).combine_chunks().to_batches()
        return [self._completed(batch, columns) for batch in found]

    def _batch_rows(self, group: int) -> int:
        """Return the number of rows to ask for at a time, up to `BATCH_ROWS`: a multiple of those
        of a row group. Arrow ends batches with text at every row group too, so that other numbers
        give more batches, and every batch costs the caller time.
        """
        own: int = max(1, self.metadata.row_group(group).num_rows)
        return BATCH_ROWS - BATCH_ROWS % own or BATCH_ROWS

    def _open(self, **options: Any) -> parquet.ParquetFile:
        # A file, not its path, which Arrow might take for the address of another file system.
        return parquet.ParquetFile(pa.OSFile(self.path), **options)

    def _completed(self, batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
        if not self.given:
            return batch
        same = pa.array(np.zeros(batch.num_rows, np.int8))
        arrays = [
            pa.DictionaryArray.from_arrays(same, pa.array([self.given[name]], pa.string()))
            if name in self.given
            else batch.column(name)
            for name in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, names=columns)


def _of_many_values(file: parquet.ParquetFile, names: set[str]) -> set[str]:
    """Return those of the columns whose values differ so much, as identifiers do, that a dictionary
    of them would only cost time: judged by the bytes that the first row group takes for a value.
    """
    if not file.num_row_groups or not names:
        return set()
    # Arrow ends the process if the metadata of a column contradict others, unless a row is read
    # first: then it raises an error.
    next(file.iter_batches(1, row_groups=[0], columns=sorted(names), use_threads=False), None)
    group = file.metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    return {
        each.path_in_schema
        for each in columns
        if each.path_in_schema in names
        and each.total_uncompressed_size > _DICTIONARY_BYTES * max(each.num_values, _FEW_VALUES)
    }


@lru_cache(maxsize=4)
def _opened(path: Path, base: Path | None, _: tuple[int, ...]) -> _DataFile:
    """Return a file that was opened in another process; its metadata are read once."""
    return _DataFile(path, base)


def _version(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced: a process may serve several releases."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class RowGroups(TablePiece):
    """One unit of Parquet files: adjacent row groups of one file."""

    def __init__(
        self, whole: ParquetFiles, part: _DataFile, groups: list[int], number: int, first: int
    ) -> None:
        self.description = whole.description
        self.columns = whole.columns
        self.number, self.first = number, first
        self._part: _DataFile | tuple[Path, Path | None] = part
        self._groups = groups

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns of the row groups."""
        self.require(columns)
        if not isinstance(self._part, _DataFile):
            path, base = self._part
            self._part = read_safely(self.description, lambda: _opened(path, base, _version(path)))
        part, names = self._part, list(columns)
        for piece in part.pieces(self._groups):
            # Other units are read at the same time.
            read = partial(part.read, piece, names, threads=False)
            found = iter(read_safely(self.description, read))
            yield from read_batches(self.description, found)

    def __getstate__(self) -> dict[str, Any]:
        """Send the path to another process, which opens the file itself."""
        part = self._part
        return {**self.__dict__, "_part": part.opened if isinstance(part, _DataFile) else part}


class DatabaseTable(Source):
    """A table or view of a DuckDB database file, opened read-only.

    A view that reads another file, the network or an extension is refused.
    """

    def __init__(self, path: Path, table: str | None) -> None:
        self.path = path
        self.description = f"The DuckDB database '{path}'"
        with read_safely(self.description, self._connect) as connection:
            self.table = self._choose(connection, table)
            self.description = f"Table {table or self.table} of the DuckDB database '{path}'"
            relation = read_safely(self.description, lambda: connection.sql(f"FROM {self.table}"))
            self.columns = list(relation.columns)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns in the types of the table."""
        self.require(columns)
        names = ", ".join(quoted(name) for name in columns)
        with read_safely(self.description, self._connect) as connection:
            reader = read_safely(
                self.description,
                lambda: connection.sql(f"SELECT {names} FROM {self.table}").to_arrow_reader(
                    BATCH_ROWS
                ),
            )
            yield from read_batches(self.description, reader)

    def _connect(self) -> duckdb.DuckDBPyConnection:
        return _connected(str(self.path), read_only=True, config=_LOCKED)

    @interruptible()
    def _choose(self, connection: duckdb.DuckDBPyConnection, table: str | None) -> str:
        """Return the requested table as quoted SQL; without a request, the only table."""
        found = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_catalog = current_database() ORDER BY ALL"
        ).fetchall()
        return ".".join(map(quoted, choose_table(self.description, found, table, "main")))


def _folder_values(path: Path) -> dict[str, str | None]:
    """Return the names and values of folders like `year=2024`, always as text.

    A type inferred from all the names could change with one more folder.
    """
    pairs = [folder.split("=", 1) for folder in path.parts[:-1] if "=" in folder]
    return {unquote(name): None if value == _NO_VALUE else unquote(value) for name, value in pairs}


@interruptible()
def _connected(path: str = ":memory:", **options: Any) -> duckdb.DuckDBPyConnection:
    """Open a database without DuckDB's own progress bar."""
    import duckdb

    connection = duckdb.connect(path, **options)
    connection.execute("SET enable_progress_bar = false")
    return connection


def _names(header: str) -> tuple[str, list[str]]:
    """Return the delimiter that splits the header into the most names, and the stripped names.

    A column without a name, such as the index that pandas writes, is named by its position.
    """
    splits: dict[str, list[str]] = {}
    refused: csv.Error | None = None
    for mark in _DELIMITERS:
        try:
            splits[mark] = next(csv.reader(io.StringIO(header), delimiter=mark), [])
        except csv.Error as error:  # without its mark, a whole header may be one too long name
            splits[mark], refused = [], error
    if refused is not None and not any(splits.values()):
        raise refused
    delimiter = max(_DELIMITERS, key=lambda mark: len(splits[mark]))
    names = [name.strip() for name in splits[delimiter]]
    return delimiter, [name or f"column{place}" for place, name in enumerate(names, start=1)]


def _refuse_other_formats(description: str, path: Path, gzipped: bool) -> None:
    """Raise `SourceError` for a workbook, and for a file whose header has bytes that no text has.

    Values of people may have them: what is refused must not depend on a value.
    """
    with path.open("rb") as file:
        start = file.read(_PEEK)
    if path.suffix.lower() in _WORKBOOKS or start.startswith(_ZIP):
        raise SourceError(
            f"'{path}' is a workbook or an archive, not a table in text: save it as CSV (UTF-8) or "
            "Parquet."
        )
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SourceError(
            f"{description} cannot be read: it is UTF-16 text, not UTF-8 (iconv -f utf-16 -t utf-8 "
            "converts it)."
        )
    if b"\0" in start.partition(b"\n")[0] and not gzipped:
        raise SourceError(
            f"{description} cannot be read: it is not text. CSV, Parquet (.parquet) and DuckDB "
            "(.duckdb) files are read, by the ending of their names."
        )


def _starts_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _without_wildcards(path: Path) -> str:
    """Escape [, * and ? in a path, which DuckDB would read as a pattern."""
    return re.sub(r"([\[*?])", r"[\1]", str(path))
