"""Sources in databases that speak ADBC: a table or a query of PostgreSQL or SQLite.

All passes over a source read one snapshot: a transaction that is opened with the source, repeatable
and read-only, and that ends with it. No message has words of the server, which can quote values, or
of the address.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import SourceError, named
from scumble.model.relational import (
    POSTGRESQL,
    SQLITE,
    Address,
    DatabaseError,
    connect,
    driver_errors,
    failure_of,
    read_address,
)
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


@dataclass(frozen=True)
class _Dialect:
    """What differs between databases.

    `begin` makes the transaction a snapshot. `processes` sets the number of processes that the
    server may use for a query: rows come in the same order at every pass only from one. `tables`
    lists the tables and views, by schema and name; `key` lists the columns of a primary key.
    """

    begin: tuple[str, ...]
    processes: str
    tables: str
    key: str
    collation: str
    main: str  # the schema that need not be named


_POSTGRESQL = _Dialect(
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
    begin=(),  # the first read of a transaction takes the snapshot
    processes="",
    tables="SELECT 'main', name FROM sqlite_master WHERE type IN ('table', 'view') "
    "AND name NOT LIKE 'sqlite_%' ORDER BY name",
    key="SELECT name FROM pragma_table_info({name}) WHERE pk > 0 ORDER BY pk",
    collation="BINARY",
    main="main",
)
_DIALECTS = {POSTGRESQL: _POSTGRESQL, SQLITE: _SQLITE}


class Relation(Source):
    """A table or view, or the result of a query, in a database that speaks ADBC.

    Of SQLite, whose columns can hold values of any type, every value is read as text, and whole
    numbers without a decimal point: 1 and 1.0 are equal there.
    """

    def __init__(self, address: str, table: str | None = None, query: str | None = None) -> None:
        if table is not None and query is not None:
            raise SourceError(f"Give {named('table')} or {named('query')}, not both.")
        database = read_address(address)
        dialect = self._dialect = _DIALECTS[database.system]
        self.description = _upper(str(database))
        self._snapshot = _Snapshot(self.description, dialect, database)
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

    def close(self) -> None:
        self._snapshot.close()

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
            whole = f"typeof({column}) = 'real' AND {column} = CAST({column} AS INTEGER)"
            number = f"CASE WHEN {whole} THEN CAST({column} AS INTEGER) ELSE {column} END"
            # An empty text stands for NULL: a column that begins with many of them has no type.
            value, text = f"coalesce(CAST({number} AS TEXT), '')", True
        elif kind not in _PLAIN and kind not in _MEASURED and not kind.startswith("_"):
            value, text = f"CAST({column} AS text)", True
        collated = f" COLLATE {self._dialect.collation}" if exact and text else ""
        return f"{value}{collated} AS {column}"


@dataclass(eq=False)
class _Snapshot:
    """A connection with one open transaction, which ends with this object."""

    description: str
    dialect: _Dialect
    address: Address

    def __post_init__(self) -> None:
        try:
            self._connection = connect(self.address)
        except DatabaseError as failure:
            raise SourceError(f"{self.description} cannot be opened: {failure.reason}.") from None
        self.close = weakref.finalize(self, self._connection.close)
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
        except driver_errors() as error:
            reason = failure_of(error).reason
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
        except driver_errors() as error:
            reason = failure_of(error).reason
        raise SourceError(f"{self.description} cannot be read: {reason}.")


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


def _upper(description: str) -> str:
    return description[0].upper() + description[1:]
