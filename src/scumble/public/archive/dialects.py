"""What differs between the databases in which releases are kept.

PostgreSQL has schemas, comments on tables and advisory locks. SQLite has one file and one writer at
a time, values of five types, and keeps the text of a CREATE TABLE with the comments in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa

from scumble.model.errors import ReleaseError
from scumble.model.relational import (
    POSTGRESQL,
    SQLITE,
    DatabaseConnection,
    DatabaseError,
    Target,
)


class Dialect(Protocol):
    """The statements of one database system. Errors of the database are `DatabaseError`."""

    def begin_reading(self, database: DatabaseConnection) -> None:
        """Begin a transaction that reads one snapshot."""
        ...

    def begin_writing(self, database: DatabaseConnection, target: Target) -> None:
        """Begin a transaction: one at a time, and after those whose connection was lost."""
        ...

    def abandon(self, database: DatabaseConnection, target: Target) -> None:
        """Remove what a first write that failed has left beside the transaction."""
        ...

    def exists(self, database: DatabaseConnection, relation: str) -> bool:
        """Whether there is a table or view of this quoted name."""
        ...

    def check_place(self, database: DatabaseConnection, target: Target) -> None:
        """Raise `ReleaseError` if no table can be made there."""
        ...

    def create(
        self,
        database: DatabaseConnection,
        target: Target,
        suffix: str,
        batches: pa.RecordBatchReader,
        *,
        key: str | None = None,
        comment: str | None = None,
    ) -> None:
        """Create a table from batches, with a primary key or a comment."""
        ...

    def comment(self, database: DatabaseConnection, target: Target) -> str | None:
        """Return the comment on a table."""
        ...

    def rows(
        self, database: DatabaseConnection, relation: str, key: str, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a schema in the order of a key, with the types of the schema."""
        ...


class _PostgreSQL:
    def begin_reading(self, database: DatabaseConnection) -> None:
        database.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def begin_writing(self, database: DatabaseConnection, target: Target) -> None:
        name = f"scumble release {target.relation()}"
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        database.run("BEGIN")
        database.run("SELECT pg_advisory_xact_lock($1)", number)

    def abandon(self, database: DatabaseConnection, target: Target) -> None:
        pass  # the transaction is all

    def exists(self, database: DatabaseConnection, relation: str) -> bool:
        return database.run("SELECT to_regclass($1) IS NOT NULL", relation) == [(True,)]

    def check_place(self, database: DatabaseConnection, target: Target) -> None:
        schema = target.schema
        if database.run("SELECT to_regnamespace($1) IS NULL", f'"{schema}"') == [(True,)]:
            raise ReleaseError(
                f"There is no schema {schema} in {target.database}. Create it first, or name "
                "another one."
            )

    def create(
        self,
        database: DatabaseConnection,
        target: Target,
        suffix: str,
        batches: pa.RecordBatchReader,
        *,
        key: str | None = None,
        comment: str | None = None,
    ) -> None:
        database.ingest(target.table + suffix, batches, "create", db_schema_name=target.schema)
        relation = target.relation(suffix)
        if key is not None:
            database.run(f"ALTER TABLE {relation} ADD PRIMARY KEY ({_quoted(key)})")
        if comment is not None:
            database.run(f"COMMENT ON TABLE {relation} IS '{comment}'")

    def comment(self, database: DatabaseConnection, target: Target) -> str | None:
        sql = "SELECT obj_description(to_regclass($1)::oid, 'pg_class')"
        [(found,)] = database.run(sql, target.relation())
        return None if found is None else str(found)

    def rows(
        self, database: DatabaseConnection, relation: str, key: str, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        names = ", ".join(map(_quoted, schema.names))
        for batch in database.stream(f"SELECT {names} FROM {relation} ORDER BY {_quoted(key)}"):
            yield _cast(batch, schema)


class _SQLite:
    def begin_reading(self, database: DatabaseConnection) -> None:
        database.run("BEGIN")  # the first read takes the snapshot

    def begin_writing(self, database: DatabaseConnection, target: Target) -> None:
        database.run("PRAGMA synchronous = FULL")
        database.run("BEGIN IMMEDIATE")

    def abandon(self, database: DatabaseConnection, target: Target) -> None:
        """Remove an empty file. It is locked meanwhile, so that nobody else writes to it."""
        with suppress(DatabaseError):
            database.run("ROLLBACK")  # an error if nothing was begun
        with suppress(DatabaseError, OSError):
            self.begin_writing(database, target)
            if target.database.path is not None and not target.database.path.stat().st_size:
                target.database.path.unlink()

    def exists(self, database: DatabaseConnection, relation: str) -> bool:
        return self._definition(database, relation) is not None

    def check_place(self, database: DatabaseConnection, target: Target) -> None:
        path = target.database.path
        # SQLite makes a journal beside the file.
        places = [] if path is None else [path.parent, *([path] if path.exists() else [])]
        if not all(os.access(place, os.W_OK) for place in places):
            raise ReleaseError(f"The file of {target.database}, or its folder, cannot be written.")

    def create(
        self,
        database: DatabaseConnection,
        target: Target,
        suffix: str,
        batches: pa.RecordBatchReader,
        *,
        key: str | None = None,
        comment: str | None = None,
    ) -> None:
        remark = "" if comment is None else f"/* {comment} */ "
        columns = ", ".join(
            f"{_quoted(each.name)} {_affinity(each.type)}{' PRIMARY KEY' * (each.name == key)}"
            for each in batches.schema
        )
        database.run(f"CREATE TABLE {target.relation(suffix)} ({remark}{columns})")
        database.ingest(target.table + suffix, _stored(batches), "append")

    def comment(self, database: DatabaseConnection, target: Target) -> str | None:
        definition = self._definition(database, target.relation()) or ""
        found = re.match(r'CREATE TABLE "\w+" \(/\* (.*?) \*/ ', definition)
        return None if found is None else found[1]

    def rows(
        self, database: DatabaseConnection, relation: str, key: str, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        # The driver takes types from the first values, which may be NULL: so there is a first row.
        zeros = ", ".join(_ZEROS[_affinity(each.type)] for each in schema)
        names = ", ".join(map(_quoted, schema.names))
        sql = f"SELECT {names} FROM {relation} ORDER BY {_quoted(key)}"
        first = 1
        for batch in database.stream(f"SELECT {zeros} UNION ALL SELECT * FROM ({sql})"):
            yield _cast(batch.slice(first), schema)
            first = 0

    def _definition(self, database: DatabaseConnection, relation: str) -> str | None:
        name = relation.rpartition(".")[2].strip('"')
        sql = "SELECT sql FROM sqlite_master WHERE name = $1 COLLATE NOCASE"
        found = database.run(sql, name)
        return str(found[0][0]) if found else None


DIALECTS: dict[str, Dialect] = {POSTGRESQL: _PostgreSQL(), SQLITE: _SQLite()}
_ZEROS = {"INTEGER": "0", "REAL": "0.0", "TEXT": "''"}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _affinity(kind: pa.DataType) -> str:
    """Return the type of a column in SQLite."""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "INTEGER"
    return "REAL" if pa.types.is_floating(kind) else "TEXT"


def _stored(batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return batches with values that SQLite has: lists as JSON."""
    lists = [pa.types.is_list(kind) for kind in batches.schema.types]
    schema = pa.schema(
        [
            pa.field(each.name, pa.string()) if listed else each
            for each, listed in zip(batches.schema, lists, strict=True)
        ]
    )

    def plain(column: pa.Array) -> pa.Array:
        if pa.types.is_list(column.type):
            values = column.to_pylist()
            return pa.array([None if each is None else json.dumps(each) for each in values])
        if pa.types.is_floating(column.type) and column.is_nan().true_count:
            raise DatabaseError("it has values that are no number, which SQLite does not keep")
        return column

    def made() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([*map(plain, batch.columns)], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, made())


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a driver with the types of the release."""

    def cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
        if pa.types.is_list(kind) and pa.types.is_string(column.type):
            parsed: list[Any] = [
                None if each is None else json.loads(each) for each in column.to_pylist()
            ]
            return pa.array(parsed, kind)
        return column.cast(kind)

    arrays = [cast(*each) for each in zip(batch.columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
