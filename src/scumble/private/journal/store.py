"""SQLite file, head file, verification of the chain.

The SQLite file of a ledger: how it is made and read, and a sentence for each way it fails.
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
from scumble.private.journal.entries import BEGINNING, PROMISE, Entry

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


# The head of the ledger: number and hash of its last entry, in a small file beside it.
#
# Entries cut off at the end leave a chain that hangs together; only somebody who remembers the
# head can notice. The file also has the lock that gives one writer after another the place.

_SLOT = 103  # bytes of a line: 20 digits, a hash, 16 digits to check them, two blanks, a line end
_POLL = 0.001  # seconds between two looks at a lock that another process holds
_sync = getattr(os, "fdatasync", os.fsync)  # not every system has the cheaper one


@dataclass(frozen=True, slots=True)
class Head:
    """Where a ledger ends. Its text form can be kept elsewhere, as a seal."""

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
    """Two lines written in turn, so that a crash in the middle of one leaves the other.

    The line is written before a turn ends and is there for every process at once; the disk gets it
    in the background. After a power failure it may be a few turns old: then the ledger is longer
    than its head, which is what any crash may leave.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        self._synced: Future[None] | None = None
        self._background = ThreadPoolExecutor(1, thread_name_prefix="scumble-ledger-head")

    @staticmethod
    def create(path: Path, head: Head) -> None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, _line(head) * 2)
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self) -> Head | None:
        """The newest readable line; None if there is none, which no crash leaves."""
        return max(self._lines(), key=_number)

    def write(self, head: Head) -> None:
        """Replace the older line. Only who has the lock may do this."""
        first, second = self._lines()
        older = 0 if _number(first) <= _number(second) else 1
        os.pwrite(self._handle, _line(head), older * _SLOT)
        if self._synced is None or self._synced.running() or self._synced.done():
            if self._synced is not None and self._synced.done():
                self._synced.result()  # a disk that fails is not passed over
            self._synced = self._background.submit(_sync, self._handle)

    def _lines(self) -> tuple[Head | None, Head | None]:
        content = os.pread(self._handle, 2 * _SLOT, 0)
        return _head(content[:_SLOT]), _head(content[_SLOT:])

    def lock(self, patience: float) -> None:
        """Wait until no other process, and no other journal of this one, has the place."""
        limit = time.monotonic() + patience
        while not lock_descriptor(self._handle, blocking=False):
            if time.monotonic() > limit:
                raise LedgerError(locked(patience))
            time.sleep(_POLL)

    def unlock(self) -> None:
        unlock_descriptor(self._handle)

    def close(self) -> None:
        self._background.shutdown()
        os.close(self._handle)


def locked(patience: float) -> str:
    """The sentence for a ledger that somebody else keeps."""
    return (
        f"The ledger was in use by others for more than {patience:g} seconds. Nothing was written; "
        "try again, or end the program that keeps it."
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


# Reading the chain of entries: what was changed, deleted, inserted, reordered or cut off, and
# where.

START = Head(0, BEGINNING)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with the ledger, and the number of the first entry that it concerns."""

    number: int
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def inspect(
    entries: Iterable[Entry], last: int, head: Head | None, seal: Head | None, most: int = 10
) -> tuple[Finding, ...]:
    """The first `most` findings in a whole ledger, whose largest number is `last`."""
    remembered = [("its head file", head)] if head else []
    remembered += [("the head kept elsewhere", seal)] if seal else []
    found = list(islice(_walk(entries, last, remembered), most))
    if head is None:
        found.append(
            Finding(
                last,
                "The head file is damaged: from it alone, nobody could tell whether entries were "
                f"cut off after entry {last}.",
            )
        )
    return tuple(found)


def follow(entry: Entry, before: Head, last: int) -> Finding | None:
    """What is wrong with an entry that should come right after `before`."""
    number = entry.number
    if number <= before.number:
        return Finding(number, f"Entry {number} was inserted: the ledger begins with entry 1.")
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
    entries: Iterable[Entry], last: int, remembered: list[tuple[str, Head]]
) -> Iterator[Finding]:
    before = START
    for entry in entries:
        if finding := follow(entry, before, last):
            yield finding
        elif (entry.number == 1) != (entry.kind == PROMISE):
            yield Finding(entry.number, f"Entry {entry.number} cannot be of kind {entry.kind!r}.")
        for keeper, head in remembered:
            if entry.number == head.number and entry.hash != head.hash:
                yield rewritten(head, keeper)
        before = Head(entry.number, entry.hash)
    for keeper, head in remembered:
        if head.number > before.number:
            yield truncated(before.number, head, keeper)


def truncated(last: int, head: Head, keeper: str = "its head file") -> Finding:
    """The finding that the end is missing."""
    return Finding(
        last + 1,
        f"{_span(last + 1, head.number)} cut off: the ledger ends with entry {last}, but {keeper} "
        f"remembers entry {head.number}.",
    )


def rewritten(head: Head, keeper: str = "its head file") -> Finding:
    """The finding that the chain is another one than it was."""
    return Finding(
        head.number,
        f"Entry {head.number} is not the one that {keeper} remembers: the ledger was rewritten "
        "here or before.",
    )


def out_of_order(entry: Entry, number: int) -> Finding | None:
    """What is wrong with an entry that should add the batch with this number."""
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
