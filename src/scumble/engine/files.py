"""Tables in files: CSV, Parquet, and tables of a DuckDB database."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from scumble.engine.base import BATCH_ROWS, Source, attempt, guarded
from scumble.errors import SourceError
from scumble.spelling import is_text

_DELIMITERS = ",;\t|"
_GZIP = b"\x1f\x8b"


class CsvFile(Source):
    """A CSV file, plain or gzipped, with a header; every value arrives as text.

    The delimiter (comma, semicolon, tab or bar) is the one that splits the header into most names.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.description = f"The CSV file '{path}'"
        self.gzipped = path.name.lower().endswith(".gz") or _starts_with(path, _GZIP)
        header = attempt(self.description, self._header)
        if not header.strip():
            raise SourceError(f"{self.description} is empty: it has no header line.")
        self.delimiter, self.columns = _names(header)
        twice = next((n for k, n in enumerate(self.columns) if n in self.columns[:k]), None)
        if twice is not None:
            raise SourceError(f"{self.description} has two columns named {twice!r}.")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns as text, read in parallel and in order."""
        self.require(columns)
        places = [f"c{self.columns.index(name)}" for name in columns]
        with _quiet(duckdb.connect()) as connection:
            query = (
                f"SELECT {', '.join(places)} FROM read_csv("
                "?, delim = ?, compression = ?, columns = ?, auto_detect = false, "
                "header = true, quote = '\"', escape = '\"')"
            )
            options = [
                _without_wildcards(self.path),
                self.delimiter,
                "gzip" if self.gzipped else "none",
                {f"c{place}": "VARCHAR" for place in range(len(self.columns))},
            ]
            reader = attempt(
                self.description,
                lambda: connection.sql(query, params=options).to_arrow_reader(BATCH_ROWS),
            )
            for batch in guarded(self.description, reader):
                yield batch.rename_columns(list(columns))

    def _header(self) -> str:
        opener = gzip.open if self.gzipped else open
        with opener(self.path, "rt", encoding="utf-8-sig", newline="") as text:
            header = text.readline()
            while header.count('"') % 2 and (more := text.readline()):  # a name over several lines
                header += more
        return header


class ParquetFiles(Source):
    """One Parquet file, or several with the same columns read one after the other.

    Folders like `year=2024` (Hive partitions) add a column each.
    """

    def __init__(self, description: str, paths: Sequence[Path], base: Path | None = None) -> None:
        self.description = description
        files = [str(path) for path in paths]
        options = {"partition_base_dir": str(base), "partitioning": "hive"} if base else {}

        def opened(names: Sequence[str]) -> ds.Dataset:
            read = ds.ParquetReadOptions(dictionary_columns=set(names))
            return ds.dataset(files, format=ds.ParquetFileFormat(read_options=read), **options)

        plain = attempt(description, lambda: opened([]))
        # Text that stays a dictionary is never spelled out: each distinct value is looked at once.
        text = [field.name for field in plain.schema if is_text(field.type)]
        self.dataset = attempt(description, lambda: opened(text))
        self.columns = list(self.dataset.schema.names)
        self.rows = attempt(description, self._count)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, text as dictionaries."""
        self.require(columns)
        attempt(self.description, lambda: self._require_everywhere(columns))
        return guarded(self.description, self._read_ahead(list(columns)))

    def _read_ahead(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Piece by piece, the next one read while the caller works on the last.

        Arrow's own scanner of a whole dataset reads further and further ahead of a slow caller.
        """

        def read(piece: ds.ParquetFileFragment) -> list[pa.RecordBatch]:
            scanner = piece.scanner(self.dataset.schema, columns=columns, batch_size=BATCH_ROWS)
            return list(scanner.to_batches())

        with ThreadPoolExecutor(1) as pool:
            waiting: deque[Future[list[pa.RecordBatch]]] = deque()
            for piece in self._pieces():
                waiting.append(pool.submit(read, piece))
                if len(waiting) > 1:
                    yield from waiting.popleft().result()
            for future in waiting:
                yield from future.result()

    def _pieces(self) -> Iterator[ds.ParquetFileFragment]:
        """Row groups of every file, small neighbours together."""
        for part in self.dataset.get_fragments():
            groups: list[int] = []
            rows = 0
            for group in part.row_groups:
                groups.append(group.id)
                rows += group.num_rows
                if rows >= BATCH_ROWS:
                    yield part.subset(row_group_ids=groups)
                    groups, rows = [], 0
            if groups:
                yield part.subset(row_group_ids=groups)

    def _count(self) -> int:
        return sum(part.metadata.num_rows for part in self.dataset.get_fragments())

    def _require_everywhere(self, columns: Sequence[str]) -> None:
        """Arrow would fill a column that one file lacks with nulls, silently."""
        for part in self.dataset.get_fragments():
            given = {*part.physical_schema.names, *ds.get_partition_keys(part.partition_expression)}
            lost = next((name for name in columns if name not in given), None)
            if lost is not None:
                raise SourceError(f"The Parquet file '{part.path}' has no column {lost!r}.")


class DatabaseTable(Source):
    """A table or view of a DuckDB database file, opened read-only."""

    def __init__(self, path: Path, table: str | None) -> None:
        self.path = path
        self.description = f"The DuckDB database '{path}'"
        with attempt(self.description, self._connect) as connection:
            self.table = self._choose(connection, table)
            self.description = f"Table {table or self.table} of the DuckDB database '{path}'"
            relation = attempt(self.description, lambda: connection.sql(f"FROM {self.table}"))
            self.columns = list(relation.columns)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns in the types of the table."""
        self.require(columns)
        names = ", ".join(_quoted(name) for name in columns)
        with attempt(self.description, self._connect) as connection:
            reader = attempt(
                self.description,
                lambda: connection.sql(f"SELECT {names} FROM {self.table}").to_arrow_reader(
                    BATCH_ROWS
                ),
            )
            yield from guarded(self.description, reader)

    def _connect(self) -> duckdb.DuckDBPyConnection:
        return _quiet(duckdb.connect(str(self.path), read_only=True))

    def _choose(self, connection: duckdb.DuckDBPyConnection, table: str | None) -> str:
        """The table asked for, as quoted SQL; the only one if none was."""
        found = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_catalog = current_database() ORDER BY ALL"
        ).fetchall()
        tables: dict[str, str] = {}
        for schema, name in found:
            tables[f"{schema}.{name}"] = f"{_quoted(schema)}.{_quoted(name)}"
        shown = {full.removeprefix("main."): quoted for full, quoted in tables.items()}
        if table is None and len(shown) == 1:
            return next(iter(shown.values()))
        chosen = shown.get(table or "") or tables.get(table or "")
        if chosen is None:
            have = ", ".join(repr(name) for name in shown) or "none"
            lacks = "several tables; say which one" if table is None else f"no table {table!r}"
            raise SourceError(f"{self.description} has {lacks}. Its tables: {have}.")
        return chosen


def _quiet(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """DuckDB would otherwise draw a progress bar of its own on long reads."""
    connection.execute("SET enable_progress_bar = false")
    return connection


def _names(header: str) -> tuple[str, list[str]]:
    """The delimiter that splits the header into most names, and the names without white space.

    A column without a name, such as the index that pandas writes, is called by its place.
    """
    splits = {
        mark: next(csv.reader(io.StringIO(header), delimiter=mark), []) for mark in _DELIMITERS
    }
    delimiter = max(_DELIMITERS, key=lambda mark: len(splits[mark]))
    names = [name.strip() for name in splits[delimiter]]
    return delimiter, [name or f"column{place}" for place, name in enumerate(names, start=1)]


def _starts_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _without_wildcards(path: Path) -> str:
    """DuckDB would take [, * and ? in a path for a pattern of several files."""
    return re.sub(r"([\[*?])", r"[\1]", str(path))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
