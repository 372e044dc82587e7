"""The SQLite file of a ledger: how it is made and read, and a sentence for each way it fails."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path

from scumble.model.errors import LedgerError
from scumble.private.journal.entries import Entry
from scumble.private.journal.head import locked

LEDGER = "ledger.sqlite"
HEAD = "ledger.head"
FORMAT = 1
_COLUMNS = "number, kind, key, analyst, time, payload, previous, hash"
_content = attrgetter("number", "kind", "key", "analyst", "time", "text", "previous", "hash")
_TABLE = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    key TEXT UNIQUE,
    analyst TEXT,
    time TEXT NOT NULL,
    payload TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
)
"""
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full. Nothing was written; make room and try again",
    sqlite3.SQLITE_READONLY: "it may only be read. Make its folder and all files in it writable",
    sqlite3.SQLITE_CANTOPEN: "its files cannot be opened. Make its folder and all of them writable",
    sqlite3.SQLITE_PERM: "its files may not be used by this account",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write. Nothing was acknowledged",
}
_DAMAGED = (
    "it is damaged. Do not go on with an older copy: it has forgotten answers that were given"
)
_OTHER = "SQLite refused it for another reason. Close all programs that use it, and try again"


class Store:
    """A connection in autocommit mode, whose commits are on the disk when they return."""

    def __init__(self, folder: Path, patience: float) -> None:
        self._folder = folder
        self._patience = patience
        with self.explained():
            self._connection = sqlite3.connect(
                f"{(folder / LEDGER).as_uri()}?mode=rw",
                uri=True,
                timeout=patience,
                isolation_level=None,
                check_same_thread=False,  # the journal lets one thread in after the other
            )
        try:
            self.run("PRAGMA synchronous = FULL")
        except LedgerError:
            self.close()
            raise

    @classmethod
    def create(cls, folder: Path, first: Entry) -> None:
        """A new file with its first entry, whole and on the disk when this returns."""
        os.close(os.open(folder / LEDGER, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        store = cls(folder, patience=0)
        try:
            store.run("PRAGMA journal_mode = WAL")
            store.run(f"PRAGMA user_version = {FORMAT}")
            store.run(_TABLE)
            store.insert(first)
        finally:
            store.close()  # which also brings everything from the WAL into the file

    def run(self, statement: str) -> object:
        """Run a statement; of what it gives, the first value."""
        with self.explained():
            row = self._connection.execute(statement).fetchone()
        return row[0] if row else None

    def rollback(self) -> None:
        """End a transaction without a trace, if SQLite has not done so by itself."""
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")

    def insert(self, entry: Entry) -> None:
        """Write an entry, into the transaction if there is one."""
        try:
            with self.explained(but=sqlite3.IntegrityError):
                self._connection.execute(
                    f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    _content(entry),
                )
        except sqlite3.IntegrityError:
            raise LedgerError(
                f"The idempotency key {entry.key!r} belongs to an earlier entry. Give that one "
                "back, or take another key."
            ) from None

    def entries(self, first: int, kind: str | None = None) -> Iterator[Entry]:
        """The entries from a number on, in their order; all, or those of one kind."""
        chosen = "number >= ?1 AND (?2 IS NULL OR kind = ?2)"
        query = f"SELECT {_COLUMNS} FROM entries WHERE {chosen} ORDER BY number"
        with self.explained():
            for row in self._connection.execute(query, (first, kind)):
                yield Entry(*row)

    def find(self, key: str) -> Entry | None:
        """The entry with an idempotency key."""
        query = f"SELECT {_COLUMNS} FROM entries WHERE key = ?"
        with self.explained():
            row = self._connection.execute(query, (key,)).fetchone()
        return Entry(*row).unchanged() if row else None

    @property
    def last(self) -> int:
        """The largest number of an entry; 0 if there is none."""
        number = self.run("SELECT max(number) FROM entries")
        return number if isinstance(number, int) else 0

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def explained(self, but: type[sqlite3.Error] | tuple[()] = ()) -> Iterator[None]:
        """What SQLite complains about, as one sentence."""
        try:
            yield
        except but:
            raise
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise LedgerError(locked(self._patience)) from None
            broken = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
            reason = _DAMAGED if broken else _REASONS.get(code, _OTHER)
            raise LedgerError(unusable(self._folder, reason)) from None


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """What the system complains about, as one sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "the system refused"
        raise LedgerError(unusable(folder, reason)) from None


def unusable(folder: Path, reason: str) -> str:
    """The sentence for a ledger that does not work."""
    return f"The ledger in {folder} cannot be used: {reason}."
