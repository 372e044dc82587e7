"""Sources in databases that speak ADBC: a table or a query of PostgreSQL or SQLite.

All passes over a source read one snapshot: a transaction that is opened with the source, repeatable
and read-only, and that ends with it. No message has words of the server, which can quote values, or
of the address.
"""

from __future__ import annotations

import importlib
import re
import weakref
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import SourceError, named
from scumble.private.tables.source import (
    Source,
    check_distinct,
    choose_table,
    quoted,
    read_batches,
)

# PostgreSQL types that ADBC hands over as they are; of all others the text is read.
_PLAIN = frozenset("int2 int4 int8 bool date text varchar bpchar name".split())
_MEASURED = frozenset("float4 float8 numeric timestamp timestamptz bytea".split())
# By the first characters of the SQLSTATE of an error, the longest first.
_REASONS = {
    "42P01": "there is no such table, or the query names one that does not exist",
    "42703": "the query names a column that does not exist",
    "42501": "permission is denied",
    "25006": "the query writes, and a source is only read",
    "57014": "the server cancelled the query",
    "08": "the connection was lost",
    "22": "the query cannot be computed for some value",
    "28": "the server refused the user or the password",
    "3D": "there is no such database",
    "42": "the query is not valid SQL",
    "53": "the server has too few resources",
    "57": "the server was shut down",
}


@dataclass(frozen=True)
class _Dialect:
    """What differs between databases.

    `begin` makes the transaction a snapshot. `processes` sets the number of processes that the
    server may use for a query: rows come in the same order at every pass only from one. `tables`
    lists the tables and views, by schema and name; `key` lists the columns of a primary key.
    """

    name: str
    driver: str
    begin: tuple[str, ...]
    processes: str
    tables: str
    key: str
    collation: str
    main: str  # the schema that need not be named


_POSTGRESQL = _Dialect(
    name="PostgreSQL",
    driver="adbc_driver_postgresql",
    begin=(
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "SET LOCAL client_min_messages = error",  # they would be printed, and can quote values
        "SET LOCAL synchronize_seqscans = off",  # every pass in the same order of the rows
    ),
    processes="SET LOCAL max_parallel_workers_per_gather = {}",
    tables="SELECT table_schema::text, table_name::text FROM information_schema.tables WHERE "
    "table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2",
    key="SELECT a.attname::text FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY "
    "AS k (number, place), pg_attribute a WHERE i.indrelid = {text}::regclass AND i.indisprimary "
    "AND a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place",
    collation='"C"',
    main="public",
)
_SQLITE = _Dialect(
    name="SQLite",
    driver="adbc_driver_sqlite",
    begin=(),  # the first read of a transaction takes the snapshot
    processes="",
    tables="SELECT 'main', name FROM sqlite_master WHERE type IN ('table', 'view') "
    "AND name NOT LIKE 'sqlite_%' ORDER BY name",
    key="SELECT name FROM pragma_table_info({name}) WHERE pk > 0 ORDER BY pk",
    collation="BINARY",
    main="main",
)
_DIALECTS = {"postgresql": _POSTGRESQL, "postgres": _POSTGRESQL, "sqlite": _SQLITE}


class Relation(Source):
    """A table or view, or the result of a query, in a database that speaks ADBC.

    Of SQLite, whose columns can hold values of any type, every value is read as text.
    """

    def __init__(self, address: str, table: str | None = None, query: str | None = None) -> None:
        if table is not None and query is not None:
            raise SourceError(f"Give {named('table')} or {named('query')}, not both.")
        dialect, uri, name = _read_address(address)
        self._dialect = dialect
        self.description = f"The {dialect.name} database{f' {name!r}' if name else ''}"
        self._snapshot = _Snapshot(self.description, dialect, uri)
        self._order = ""
        self._table: tuple[str, str] | None = None
        if query is not None:
            self.description = f"The query of {_lower(self.description)}"
            self._from = "(" + query.strip().rstrip(";") + "\n) AS source"
        else:
            tables = self._snapshot.rows(dialect.tables)
            self._table = choose_table(self.description, tables, table, dialect.main)
            self.description = f"Table {table or self._table[1]} of {_lower(self.description)}"
            self._from = ".".join(map(quoted, self._table))
        self._snapshot.description = self.description
        found = self._snapshot.schema(f"SELECT * FROM {self._from} LIMIT 0")
        self.columns = check_distinct(self.description, found.names)
        self._types = {each.name: _server_type(each) for each in found}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns, in the same order of the rows at every pass."""
        self.require(columns)
        names = ", ".join(map(self._value, columns))
        sql = f"SELECT {names} FROM {self._from}{self._order}"
        return read_batches(self.description, map(_plain, self._snapshot.stream(sql, "0")))

    def ordered(self) -> Source:
        """Return the same table in the order of its primary key, if it has one."""
        if self._table is None:
            return self
        text = "'" + ".".join(map(quoted, self._table)).replace("'", "''") + "'"
        name = "'" + self._table[1].replace("'", "''") + "'"
        key = self._snapshot.rows(self._dialect.key.format(text=text, name=name))
        found = copy(self)
        found._order = f" ORDER BY {', '.join(quoted(each) for (each,) in key)}" if key else ""
        return found

    def distinct(
        self, columns: Sequence[str]
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]] | None:
        """Return the different rows of these columns and how often each occurs, counted by the
        server. None if it would take values for equal that are not encoded alike, such as 1.0 and
        1.00.
        """
        self.require(columns)
        if self._dialect is _POSTGRESQL and any(
            self._types[name] in _MEASURED or self._types[name].startswith("_") for name in columns
        ):
            return None
        names = [self._value(name, exact=True) for name in columns]
        groups = ", ".join(str(place) for place in range(1, len(names) + 1))
        sql = f"SELECT {', '.join(names)}, count(*) FROM {self._from} GROUP BY {groups}"
        return map(_weighted, read_batches(self.description, self._snapshot.stream(sql, "DEFAULT")))

    def _value(self, name: str, *, exact: bool = False) -> str:
        """Return the SQL of a column; `exact` lets equal mean equal bytes."""
        column, kind = quoted(name), self._types[name]
        value, text = column, kind in ("text", "varchar", "bpchar", "name")
        if self._dialect is _SQLITE:
            # An empty text stands for NULL: a column that begins with many of them has no type.
            value, text = f"coalesce(CAST({column} AS TEXT), '')", True
        elif kind not in _PLAIN and kind not in _MEASURED and not kind.startswith("_"):
            value, text = f"CAST({column} AS text)", True
        collated = f" COLLATE {self._dialect.collation}" if exact and text else ""
        return f"{value}{collated} AS {column}"


@dataclass(eq=False)
class _Snapshot:
    """A connection with one open transaction, which ends with this object."""

    description: str
    dialect: _Dialect
    uri: str = field(repr=False)

    def __post_init__(self) -> None:
        try:
            driver = importlib.import_module(f"{self.dialect.driver}.dbapi")
        except ImportError:
            raise SourceError(
                f"{self.dialect.name} is read by the package {self.dialect.driver}, which is not "
                "installed: install scumble[postgres]."
            ) from None
        reason = None
        try:
            self._connection = driver.connect(self.uri)
        except _errors() as error:
            reason = _connecting(error)
        if reason is not None:
            raise SourceError(f"{self.description} cannot be opened: {reason}.")
        weakref.finalize(self, self._connection.close)
        for statement in self.dialect.begin:
            for _ in self.stream(statement):
                pass

    def stream(self, sql: str, processes: str = "") -> Iterator[pa.RecordBatch]:
        """Yield the result of a statement in batches. The server may use as many `processes`."""
        reason = None
        try:
            with self._connection.cursor() as cursor:
                if processes and self.dialect.processes:
                    cursor.execute(self.dialect.processes.format(processes))
                cursor.execute(sql)
                yield from cursor.fetch_record_batch()
        except _errors() as error:
            reason = _reason(error)
        # Raised outside of the except clause, so that the error of the driver is not kept.
        if reason is not None:
            raise SourceError(f"{self.description} cannot be read: {reason}.")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a small result."""
        found = [batch.to_pydict().values() for batch in self.stream(sql)]
        return [row for columns in found for row in zip(*columns, strict=True)]

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a result."""
        reason = None
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetch_record_batch().schema
        except _errors() as error:
            reason = _reason(error)
        raise SourceError(f"{self.description} cannot be read: {reason}.")


def _errors() -> tuple[type[Exception], ...]:
    from adbc_driver_manager import Error

    return Error, pa.ArrowException, OSError, ValueError


def _reason(error: Exception) -> str:
    """Return a sentence for an error, without its words."""
    state = getattr(error, "sqlstate", None) or ""
    for beginning in sorted(_REASONS, key=len, reverse=True):
        if state.startswith(beginning):
            return _REASONS[beginning]
    for pattern, sentence in _SENTENCES:
        if re.search(pattern, str(error), re.IGNORECASE):
            return sentence
    return "the database gave an error (run the query yourself to see its words)"


# For SQLite, and for errors in the middle of a result, which have no SQLSTATE.
_SENTENCES = (
    (r"no such table", _REASONS["42P01"]),
    (r"no such column", _REASONS["42703"]),
    (r"syntax error", _REASONS["42"]),
    (r"readonly database|read-only transaction", _REASONS["25006"]),
    (r"division by zero|out of range|invalid (input|byte)|overflow", _REASONS["22"]),
    (r"cancell?ing statement", _REASONS["57014"]),
    (r"terminating connection|closed the connection", _REASONS["08"]),
    (r"not a database", "it is no database file"),
    (r"locked|busy", "another connection holds it open"),
)


def _connecting(error: Exception) -> str:
    """Return why a connection could not be made."""
    text = str(error)
    if re.search(r"password|authentication|role .* does not exist|pg_hba", text):
        return f"{_REASONS['28']}; PGPASSFILE, PGSERVICE or PGPASSWORD can name them"
    if re.search(r"database .* does not exist", text):
        return _REASONS["3D"]
    if re.search(r"invalid|missing \"=\"|unexpected", text):
        return "its address is not written as one"
    if re.search(r"unable to open", text):
        return "its file cannot be read"
    return "the server cannot be reached"


def _read_address(address: str) -> tuple[_Dialect, str, str]:
    """Return the dialect of an address, the address for the driver, and the name of the database.

    `postgresql+driver://`, as SQLAlchemy writes it, is the same as `postgresql://`.
    """
    scheme, _, rest = address.partition("://")
    dialect = _DIALECTS.get(scheme.lower().partition("+")[0])
    if dialect is None:
        raise SourceError(
            "An address of a database begins with postgresql:// or sqlite://. The one that was "
            "given begins with something else."
        )
    if dialect is _SQLITE:
        path = Path(unquote(rest.partition("?")[0])[1:])
        if not path.is_file():
            raise SourceError(
                f"There is no file '{path}'. An address of a file is sqlite:///people.db, and "
                "with a path from the root sqlite:////folder/people.db."
            )
        return dialect, f"file:{quote(str(path))}?mode=ro", path.name
    parts = urlsplit(f"postgresql://{rest}")
    options = parse_qs(parts.query)
    if parts.password or "password" in options or "sslpassword" in options:
        raise SourceError(
            "The address of the database has a password in it, which others can read in lists of "
            "processes and logs. Leave it out, and use PGPASSFILE, PGSERVICE or PGPASSWORD."
        )
    name = unquote(parts.path.lstrip("/")) or "".join(options.get("dbname", []))
    return dialect, f"postgresql://{rest}", name


def _server_type(column: pa.Field) -> str:
    """Return the type of a column as PostgreSQL names it; empty in other databases."""
    found: bytes = (column.metadata or {}).get(b"POSTGRESQL:type", b"")
    return found.decode()


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without extension types, and text as dictionaries."""
    arrays = []
    for column in batch.columns:
        column = column.storage if isinstance(column, pa.ExtensionArray) else column
        if pa.types.is_string(column.type):
            column = column.dictionary_encode()
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _weighted(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    """Split the last column, the counts, from a batch."""
    *names, _ = batch.schema.names
    *values, counts = batch.columns
    rows = _plain(pa.RecordBatch.from_arrays(values, names=names))
    return rows, counts.to_numpy(zero_copy_only=False).astype(np.int64)


def _lower(description: str) -> str:
    return description[0].lower() + description[1:]
