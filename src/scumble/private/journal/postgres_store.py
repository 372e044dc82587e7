"""A journal in PostgreSQL: a table with the entries, and others beside it for the head, the secret
and, if there are any, files.

Several processes on several computers may write to it. A turn is one transaction, which holds an
advisory lock, so that there is one writer at a time; the entries and the head are committed
together. The server has to run with `fsync = on`, as it does unless somebody turned it off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Any

from scumble.model.errors import LedgerError
from scumble.model.relational import (
    DatabaseConnection,
    DatabaseError,
    Target,
    lost_connection,
    read_target,
)
from scumble.private.journal.chain import ChainFinding, Head
from scumble.private.journal.entries import Entry
from scumble.private.journal.store import (
    FORMAT,
    Step,
    existing,
    lost_secret,
    taken_key,
    timeout_message,
    unusable_message,
)

_content = attrgetter("number", "kind", "key", "analyst", "time", "text", "previous", "hash")
_COLUMNS = "number, kind, key, analyst, time, payload, previous, hash"
_HEAD, _KEY, _FILES = (
    "_head",
    "_key",
    "_files",
)  # suffixes of the names of the tables beside the entries
_TABLES = """
CREATE TABLE {entries} (
    number bigint PRIMARY KEY,
    kind text NOT NULL,
    key text UNIQUE,
    analyst text,
    time text NOT NULL,
    payload text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL
);
CREATE TABLE {head} (format integer NOT NULL, number bigint NOT NULL, hash text NOT NULL);
CREATE TABLE {key} (secret text NOT NULL)
"""
_TABLE_OF_FILES = "CREATE TABLE {files} (name text PRIMARY KEY, content bytea NOT NULL)"
_TAKEN, _LOCKED, _THERE = "23505", "55P03", "42P07"  # SQLSTATE
_LOST_COMMIT = (
    "the connection was lost while an entry was written, and it is not known whether it is there. "
    "Ask again with the same idempotency key"
)
_LOST_CREATION = (
    "the connection was lost while it was created, and it is not known whether it is there. Look "
    "before you create it again"
)
_SECONDS = 30  # that creating a journal, or looking for one, waits for others


class PostgresStore:
    """A connection to the tables of a journal. A lost connection is made anew at the next use."""

    def __init__(self, address: str, timeout: float) -> None:
        self._target = read_target(address, LedgerError)
        self._timeout = timeout
        self._lock = _lock_number(self._target)
        self._entries, self._head, self._key = _relations(self._target)
        self._connection: DatabaseConnection | None = None
        self._in_transaction = False
        [(there,)] = self._run("SELECT to_regclass($1) IS NOT NULL", self._entries)
        if not there:
            self.close()
            raise LedgerError(f"There is no journal in {self._target}.")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Do nothing: the lock belongs to the transaction that `begin` opens."""
        yield

    def begin(self) -> None:
        self._begin("READ COMMITTED")
        self._run("SELECT pg_advisory_xact_lock($1)", self._lock)

    def _begin(self, isolation: str) -> None:
        """Begin a transaction, on a new connection if the old one is lost."""
        try:
            self._attempt(f"BEGIN ISOLATION LEVEL {isolation}")
        except DatabaseError as failure:
            if not failure.lost:
                raise self._explained(failure) from None
            self.close()  # the server was restarted, or ended the connection, since the last use
            self._run(f"BEGIN ISOLATION LEVEL {isolation}")
        self._in_transaction = True

    def insert(self, entry: Entry) -> None:
        # A violated constraint would end the transaction.
        if not self._run(_insertion(self._entries), *_content(entry)):
            raise taken_key(entry.key)

    def commit(self, head: Head, step: Step) -> None:
        self._run(f"UPDATE {self._head} SET number = $1, hash = $2", head.number, head.hash)
        try:
            self._attempt("COMMIT")
        except DatabaseError as failure:
            if not failure.lost:
                raise self._explained(failure) from None
            self._confirm(head)
        self._in_transaction = False
        step("committed")
        step("done")

    def _confirm(self, head: Head) -> None:
        """Look, after the reply to a commit was lost, whether the transaction is there.

        The lock is free only when the server has ended that transaction, one way or the other.
        """
        self.close()
        self._in_transaction = False
        try:
            self.begin()
            found = next(self.entries(head.number), None)
            self.rollback()
        except LedgerError:
            raise LedgerError(unusable_message(str(self._target), _LOST_COMMIT)) from None
        if found is None or (found.number, found.hash) != (head.number, head.hash):
            raise LedgerError(
                "The connection to the server was lost before the commit. Nothing was written; try "
                "again."
            )

    def rollback(self) -> None:
        self._in_transaction = False
        if self._connection is not None:
            with suppress(DatabaseError):
                self._connection.run("ROLLBACK")

    @contextmanager
    def view(self) -> Iterator[None]:
        self._begin("REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            self.rollback()

    def recorded_head(self) -> Head | None:
        found = self._run(f"SELECT number, hash FROM {self._head}")
        return Head(*found[0]) if len(found) == 1 else None

    def entries(self, first: int, kind: str | None = None) -> Iterator[Entry]:
        chosen = "number >= $1 AND ($2::text IS NULL OR kind = $2)"
        query = f"SELECT {_COLUMNS} FROM {self._entries} WHERE {chosen} ORDER BY number"
        for row in self._run(query, first, kind):
            yield Entry(*row)

    def find(self, key: str) -> Entry | None:
        return self._one("key", key)

    def entry(self, number: int) -> Entry | None:
        return self._one("number", number)

    def _one(self, column: str, value: str | int) -> Entry | None:
        found = self._run(f"SELECT {_COLUMNS} FROM {self._entries} WHERE {column} = $1", value)
        return Entry(*found[0]).unchanged() if found else None

    @property
    def last(self) -> int:
        [(number,)] = self._run(f"SELECT coalesce(max(number), 0) FROM {self._entries}")
        return int(number)

    @property
    def format(self) -> object:
        found = self._run(f"SELECT format FROM {self._head}")
        return found[0][0] if found else None

    def faults(self) -> tuple[ChainFinding, ...]:
        """Return nothing: PostgreSQL checks its own pages."""
        return ()

    def secret(self) -> bytes:
        found = self._run(f"SELECT secret FROM {self._key}")
        try:
            return bytes.fromhex(found[0][0])
        except (IndexError, ValueError):
            raise lost_secret(f"The secret of the journal in {self._target}") from None

    def files(self, folder: str) -> dict[str, bytes]:
        table = self._target.relation(_FILES)
        query = f"SELECT name, content FROM {table} WHERE starts_with(name, $1)"
        found = self._run(query, f"{folder}/")
        return {name.removeprefix(f"{folder}/"): bytes(content) for name, content in found}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        try:
            return self._attempt(sql, *parameters)
        except DatabaseError as failure:
            raise self._explained(failure) from None

    def _attempt(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        if self._connection is None and self._in_transaction:
            raise lost_connection()  # the rest of a transaction must not run without its lock
        if self._connection is None:
            self._connection = DatabaseConnection(self._target.database)
            self._connection.run("SET synchronous_commit = on")
            limit = max(1, round(self._timeout * 1000))
            self._connection.run(f"SET lock_timeout = {limit}")
        return self._connection.run(sql, *parameters)

    def _explained(self, failure: DatabaseError) -> LedgerError:
        if failure.lost:
            self.close()
        if failure.state == _LOCKED:
            return LedgerError(timeout_message(self._timeout))
        return LedgerError(unusable_message(str(self._target), failure.reason))


# --- new tables -----------------------------------------------------------------------------------


def is_free_table(address: str) -> bool:
    """Whether there is no table of a journal at an address, and nobody is creating one."""
    target = read_target(address, LedgerError)
    try:
        with _locked(target) as connection:
            return all(
                connection.run("SELECT to_regclass($1) IS NULL", relation) == [(True,)]
                for relation in (*_relations(target), target.relation(_FILES))
            )
    except DatabaseError as failure:
        raise LedgerError(unusable_message(str(target), failure.reason)) from None


def create_tables(
    address: str, first: Entry, secret: bytes | None, beside: Mapping[str, bytes]
) -> None:
    """Create the tables of a journal with its first entry, in one transaction."""
    target = read_target(address, LedgerError)
    entries, head, key = _relations(target)
    try:
        with _locked(target) as connection:
            connection.run("SET LOCAL synchronous_commit = on")
            for statement in _TABLES.format(entries=entries, head=head, key=key).split(";"):
                connection.run(statement)
            connection.run(_insertion(entries), *_content(first))
            number_and_hash = (first.number, first.hash)
            connection.run(f"INSERT INTO {head} VALUES ({FORMAT}, $1, $2)", *number_and_hash)
            if secret is not None:
                connection.run(f"INSERT INTO {key} VALUES ($1)", secret.hex())
            if beside:
                files = target.relation(_FILES)
                connection.run(_TABLE_OF_FILES.format(files=files))
                for name, content in beside.items():
                    connection.run(f"INSERT INTO {files} VALUES ($1, $2)", name, content)
            connection.run("COMMIT")
    except DatabaseError as failure:
        if failure.state in (_THERE, _TAKEN):
            raise existing(address) from None
        if not (failure.lost and _was_created(target, first)):
            raise LedgerError(unusable_message(str(target), failure.reason)) from None


def _was_created(target: Target, first: Entry) -> bool:
    """Whether a journal begins with this entry, after the connection that created it was lost."""
    try:
        with _locked(target) as connection:
            if connection.run("SELECT to_regclass($1) IS NULL", _relations(target)[0])[0][0]:
                return False
            query = f"SELECT hash FROM {_relations(target)[0]} WHERE number = $1"
            return connection.run(query, first.number) == [(first.hash,)]
    except (DatabaseError, LedgerError):
        raise LedgerError(unusable_message(str(target), _LOST_CREATION)) from None


@contextmanager
def _locked(target: Target) -> Iterator[DatabaseConnection]:
    """Begin a transaction on a new connection, once no other one writes to or creates a journal."""
    try:
        connection = DatabaseConnection(target.database)
    except DatabaseError as failure:
        raise LedgerError(unusable_message(str(target), failure.reason)) from None
    try:
        connection.run("BEGIN")
        connection.run(f"SET LOCAL lock_timeout = {1000 * _SECONDS}")
        connection.run("SELECT pg_advisory_xact_lock($1)", _lock_number(target))
        yield connection
    finally:
        connection.close()


def _relations(target: Target) -> tuple[str, str, str]:
    """Return the names of the tables: entries, head, secret."""
    return target.relation(), target.relation(_HEAD), target.relation(_KEY)


def _insertion(entries: str) -> str:
    """Return the statement that writes an entry, and returns its number if its key is new."""
    values = "$1, $2, $3::text, $4::text, $5, $6, $7, $8"
    return (
        f"INSERT INTO {entries} ({_COLUMNS}) VALUES ({values}) ON CONFLICT DO NOTHING "
        "RETURNING number"
    )


def _lock_number(target: Target) -> int:
    """Return the number of the advisory lock of a journal."""
    digest = hashlib.sha256(f"scumble journal {target.relation()}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
