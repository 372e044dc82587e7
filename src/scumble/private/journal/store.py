"""The files of a journal, and the verification of its chain.

`Store` is the SQLite file with the entries. `HeadFile` has number and hash of the last entry, and
the lock of the one writer. `check_chain` finds what was changed, deleted, inserted, reordered or
cut off. Failures of SQLite and of the system become `LedgerError` with one sentence.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from scumble.model.errors import LedgerError, ParameterError
from scumble.private.journal.entries import NO_HASH, PROMISE, Entry

JOURNAL_FILE = "ledger.sqlite"
HEAD_FILE = "ledger.head"
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
_DAMAGED = "it is damaged. Do not go on with an older copy, which lacks answers that were given"
_OTHER = "SQLite refused it for another reason. Close all programs that use it, and try again"


class Store:
    """A connection in autocommit mode, whose commits are on the disk when they return."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self._folder = folder
        self._timeout = timeout
        with self.explained():
            self._connection = sqlite3.connect(
                f"{(folder / JOURNAL_FILE).as_uri()}?mode=rw",
                uri=True,
                timeout=timeout,
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
        """Create a file with its first entry. It is on the disk when this returns."""
        os.close(os.open(folder / JOURNAL_FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        store = cls(folder, timeout=0)
        try:
            store.run("PRAGMA journal_mode = WAL")
            store.run(f"PRAGMA user_version = {FORMAT}")
            store.run(_TABLE)
            store.insert(first)
        finally:
            store.close()  # this also moves everything from the WAL into the file

    def run(self, statement: str) -> object:
        """Run a statement and return the first value of its first row, if any."""
        with self.explained():
            row = self._connection.execute(statement).fetchone()
        return row[0] if row else None

    def rollback(self) -> None:
        """Roll back, if SQLite has not done so by itself."""
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")

    def insert(self, entry: Entry) -> None:
        """Write an entry, in the open transaction if there is one."""
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
        """Yield the entries from the number `first` on, in order: all, or those of one kind."""
        chosen = "number >= ?1 AND (?2 IS NULL OR kind = ?2)"
        query = f"SELECT {_COLUMNS} FROM entries WHERE {chosen} ORDER BY number"
        with self.explained():
            for row in self._connection.execute(query, (first, kind)):
                yield Entry(*row)

    def find(self, key: str) -> Entry | None:
        """Return the entry with an idempotency key, if there is one."""
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
        """Raise errors of SQLite as `LedgerError`, except those of the type `but`."""
        try:
            yield
        except but:
            raise
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise LedgerError(timeout_message(self._timeout)) from None
            broken = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
            reason = _DAMAGED if broken else _REASONS.get(code, _OTHER)
            raise LedgerError(unusable_message(self._folder, reason)) from None


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Raise errors of the operating system as `LedgerError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "the system refused"
        raise LedgerError(unusable_message(folder, reason)) from None


def unusable_message(folder: Path, reason: str) -> str:
    """The sentence for a journal that cannot be used."""
    return f"The journal in {folder} cannot be used: {reason}."


# --- the head file --------------------------------------------------------------------------------
#
# Entries cut off at the end leave a chain without a gap. Only a copy of the head shows it.

_SLOT = 103  # bytes of a line: 20 digits, a hash, 16 digits to check them, two blanks, a line end
_POLL = 0.001  # seconds between two attempts at a lock that another process holds
_sync = getattr(os, "fdatasync", os.fsync)  # not every system has the cheaper one


@dataclass(frozen=True, slots=True)
class Head:
    """Number and hash of the last entry of a journal. Its text form can be kept as a seal."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number} {self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        if found := re.fullmatch(r"\s*(\d{1,18}) ([0-9a-f]{64})\s*", text):
            return cls(int(found[1]), found[2])
        raise ParameterError.of(
            "Journal.verify", "head", "a number, a blank and 64 hex digits", text
        )


class HeadFile:
    """The head in two lines. The older line is overwritten, so that a torn write leaves the other.

    The line is written before a turn ends, and all processes see it at once; the disk gets it in
    the background. After a power failure it may be a few turns old. The journal is then longer than
    its head, as it may be after any crash.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        self._synced: Future[None] | None = None
        self._background = ThreadPoolExecutor(1, thread_name_prefix="scumble-journal-head")

    @staticmethod
    def create(path: Path, head: Head) -> None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, _line(head) * 2)
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self) -> Head | None:
        """Return the newest readable line; None if there is none, which no crash causes."""
        return max(self._lines(), key=_number)

    def write(self, head: Head) -> None:
        """Replace the older line. The caller has the lock."""
        first, second = self._lines()
        older = 0 if _number(first) <= _number(second) else 1
        os.pwrite(self._handle, _line(head), older * _SLOT)
        if self._synced is None or self._synced.running() or self._synced.done():
            if self._synced is not None and self._synced.done():
                self._synced.result()  # raise the failure of an earlier write
            self._synced = self._background.submit(_sync, self._handle)

    def _lines(self) -> tuple[Head | None, Head | None]:
        content = os.pread(self._handle, 2 * _SLOT, 0)
        return _head(content[:_SLOT]), _head(content[_SLOT:])

    def lock(self, timeout: float) -> None:
        """Wait until no other journal, of this process or another, has the lock."""
        limit = time.monotonic() + timeout
        while not lock_descriptor(self._handle, blocking=False):
            if time.monotonic() > limit:
                raise LedgerError(timeout_message(timeout))
            time.sleep(_POLL)

    def unlock(self) -> None:
        unlock_descriptor(self._handle)

    def close(self) -> None:
        self._background.shutdown()
        os.close(self._handle)


def timeout_message(timeout: float) -> str:
    """The sentence for a journal whose lock was not free within `timeout` seconds."""
    return (
        f"The journal was in use by others for more than {timeout:g} seconds. Nothing was written; "
        "try again, or end the program that uses it."
    )


def _number(head: Head | None) -> int:
    return head.number if head else 0


def _line(head: Head) -> bytes:
    content = f"{head.number:020d} {head.hash}"
    return f"{content} {_check(content)}\n".encode("ascii")


def _head(line: bytes) -> Head | None:
    text = line.decode("ascii", "replace")
    content, _, check = text.rstrip("\n").rpartition(" ")
    if len(line) != _SLOT or _check(content) != check or not content[:20].isdecimal():
        return None
    return Head(int(content[:20]), content[21:])


def _check(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8")).hexdigest()[:16]


# --- the chain of entries -------------------------------------------------------------------------

START = Head(0, NO_HASH)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of the journal, and the number of the first entry that it concerns."""

    number: int
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def check_chain(
    entries: Iterable[Entry], last: int, head: Head | None, seal: Head | None, most: int = 10
) -> tuple[Finding, ...]:
    """Return the first `most` findings about all entries, whose largest number is `last`."""
    known_heads = [("its head file", head)] if head else []
    known_heads += [("the head kept elsewhere", seal)] if seal else []
    found = list(islice(_walk(entries, last, known_heads), most))
    if head is None:
        found.append(
            Finding(
                last,
                "The head file is damaged: without it nobody can tell whether entries were cut off "
                f"after entry {last}.",
            )
        )
    return tuple(found)


def check_link(entry: Entry, before: Head, last: int) -> Finding | None:
    """Return the finding about an entry that should follow `before` directly, if any."""
    number = entry.number
    if number <= before.number:
        return Finding(number, f"Entry {number} was inserted: the journal begins with entry 1.")
    if number > before.number + 1:
        return Finding(before.number + 1, f"{_span(before.number + 1, number - 1)} deleted.")
    if not entry.intact:
        return Finding(number, _changed(entry, last))
    if entry.previous != before.hash:
        return Finding(
            number,
            f"Entry {number} does not continue what stands before it: an earlier entry was "
            "replaced, or entries were inserted, deleted or reordered.",
        )
    return None


def _walk(
    entries: Iterable[Entry], last: int, known_heads: list[tuple[str, Head]]
) -> Iterator[Finding]:
    before = START
    for entry in entries:
        if finding := check_link(entry, before, last):
            yield finding
        elif (entry.number == 1) != (entry.kind == PROMISE):
            yield Finding(entry.number, f"Entry {entry.number} cannot be of kind {entry.kind!r}.")
        for witness, head in known_heads:
            if entry.number == head.number and entry.hash != head.hash:
                yield rewriting(head, witness)
        before = Head(entry.number, entry.hash)
    for witness, head in known_heads:
        if head.number > before.number:
            yield truncation(before.number, head, witness)


def truncation(last: int, head: Head, witness: str = "its head file") -> Finding:
    """The finding that entries after `last` are missing; `witness` has the later head."""
    return Finding(
        last + 1,
        f"{_span(last + 1, head.number)} cut off: the journal ends with entry {last}, but "
        f"{witness} remembers entry {head.number}.",
    )


def rewriting(head: Head, witness: str = "its head file") -> Finding:
    """The finding that the chain is not the one that `witness` has the head of."""
    return Finding(
        head.number,
        f"Entry {head.number} is not the one that {witness} remembers: the journal was rewritten "
        "here or before.",
    )


def out_of_order(entry: Entry, number: int) -> Finding | None:
    """Return the finding about an entry that should append the batch `number`, if any."""
    batch = entry.payload["batch"]
    if batch == number:
        return None
    return Finding(
        entry.number,
        f"Entry {entry.number} adds batch {batch} where batch {number} is next: batches were "
        "removed or reordered.",
    )


def _changed(entry: Entry, last: int) -> str:
    origin = entry.written_as(last + 1)
    if origin is None:
        return f"Entry {entry.number} was changed: its content does not fit its hash."
    return (
        f"Entry {entry.number} was written as entry {origin}: entries were inserted, deleted or "
        "reordered."
    )


def _span(first: int, last: int) -> str:
    return f"Entry {first} was" if first == last else f"Entries {first} to {last} were"
