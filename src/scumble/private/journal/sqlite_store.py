"""A journal in a folder: a SQLite file with the entries, and a small head file.

`SqliteStore` is a connection to both. `HeadFile` has number and hash of the last entry, and the
lock of the one writer.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from glob import escape
from operator import attrgetter
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from scumble.model.errors import LedgerError, writing
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

JOURNAL_FILE = "ledger.sqlite"
HEAD_FILE = "ledger.head"
KEY_FILE = "table.key"
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


class SqliteStore:
    """A connection in autocommit mode, whose commits are on the disk when they return."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self._folder = folder
        self._timeout = timeout
        with explained(folder):
            if not (folder / JOURNAL_FILE).is_file() or not (folder / HEAD_FILE).is_file():
                raise LedgerError(_description(folder))
            self._head = HeadFile(folder / HEAD_FILE)
        try:
            self._connection = _connected(folder, timeout)
            self.run("PRAGMA synchronous = FULL")
        except LedgerError:
            self.close()
            raise

    def run(self, statement: str) -> object:
        """Run a statement and return the first value of its first row, if any."""
        with self.explained():
            row = self._connection.execute(statement).fetchone()
        return row[0] if row else None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with explained(self._folder):
            self._head.lock(self._timeout)
        try:
            yield
        finally:
            self._head.unlock()

    def begin(self) -> None:
        self.run("BEGIN IMMEDIATE")

    def commit(self, head: Head, step: Step) -> None:
        self.run("COMMIT")
        step("committed")
        with explained(self._folder):
            self._head.write(head)
        step("done")

    @contextmanager
    def view(self) -> Iterator[None]:
        self.run("BEGIN")
        try:
            yield
        finally:
            self.rollback()

    def recorded_head(self) -> Head | None:
        with explained(self._folder):
            return self._head.read()

    def rollback(self) -> None:
        """Roll back, if SQLite has not done so by itself."""
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")

    def insert(self, entry: Entry) -> None:
        try:
            with self.explained(but=sqlite3.IntegrityError):
                self._connection.execute(
                    f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    _content(entry),
                )
        except sqlite3.IntegrityError:
            raise taken_key(entry.key) from None

    def entries(self, first: int, kind: str | None = None) -> Iterator[Entry]:
        chosen = "number >= ?1 AND (?2 IS NULL OR kind = ?2)"
        query = f"SELECT {_COLUMNS} FROM entries WHERE {chosen} ORDER BY number"
        with self.explained():
            for row in self._connection.execute(query, (first, kind)):
                yield Entry(*row)

    def find(self, key: str) -> Entry | None:
        return self._one("key", key)

    def entry(self, number: int) -> Entry | None:
        return self._one("number", number)

    def _one(self, column: str, value: str | int) -> Entry | None:
        query = f"SELECT {_COLUMNS} FROM entries WHERE {column} = ?"
        with self.explained():
            row = self._connection.execute(query, (value,)).fetchone()
        return Entry(*row).unchanged() if row else None

    @property
    def last(self) -> int:
        number = self.run("SELECT max(number) FROM entries")
        return number if isinstance(number, int) else 0

    @property
    def format(self) -> object:
        return self.run("PRAGMA user_version")

    def faults(self) -> tuple[ChainFinding, ...]:
        if self.run("PRAGMA integrity_check(1)") == "ok":
            return ()
        return (ChainFinding(0, "SQLite finds that parts of the file contradict each other."),)

    def secret(self) -> bytes:
        path = self._folder / KEY_FILE
        try:
            return bytes.fromhex(path.read_text("utf-8"))
        except (OSError, ValueError):
            raise lost_secret(path) from None

    def files(self, folder: str) -> dict[str, bytes]:
        try:
            return {path.name: path.read_bytes() for path in (self._folder / folder).iterdir()}
        except OSError:
            return {}

    def close(self) -> None:
        self._head.close()
        if hasattr(self, "_connection"):
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


def _connected(folder: Path, timeout: float) -> sqlite3.Connection:
    try:
        return sqlite3.connect(
            f"{(folder / JOURNAL_FILE).as_uri()}?mode=rw",
            uri=True,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,  # the journal lets one thread in after the other
        )
    except sqlite3.Error:
        reason = _REASONS[sqlite3.SQLITE_CANTOPEN]
        raise LedgerError(unusable_message(folder, reason)) from None


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Raise errors of the operating system as `LedgerError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "the system refused"
        raise LedgerError(unusable_message(folder, reason)) from None


def _description(path: Path) -> str:
    """Say what is in the place of a folder with a journal."""
    if not path.exists():
        return f"There is no folder {path}."
    if (path / "manifest.json").exists():
        return f"{path} is a release (ask it by `scumble ask`), no database."
    return f"{path} is no database and no ledger: {JOURNAL_FILE} or {HEAD_FILE} is missing."


# --- a new folder ---------------------------------------------------------------------------------


def is_free_folder(folder: Path) -> bool:
    """Whether there is no folder or file; raises `LedgerError` if the system does not tell."""
    with writing(folder, LedgerError):
        try:
            folder.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        return False


def create_folder(
    folder: Path, first: Entry, secret: bytes | None, beside: Mapping[str, bytes]
) -> None:
    """Fill a folder under a temporary name, then rename it."""
    if not is_free_folder(folder):
        raise existing(folder)
    remove_unfinished(folder)
    with writing(folder, LedgerError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _unfinished(folder) as partial:
            if secret is not None:
                _write_durably(partial / KEY_FILE, secret.hex().encode())
            for name, content in beside.items():
                path = partial / name
                path.parent.mkdir(mode=0o700, exist_ok=True)
                _write_durably(path, content)
                _sync_folder(path.parent)
            HeadFile.create(partial / HEAD_FILE, Head(first.number, first.hash))
            _create_file(partial, first)
            _sync_folder(partial)
            partial.rename(folder)
    try:
        _sync_folder(folder.parent)
    except OSError:  # others may have opened it by now, so that it stays
        raise LedgerError(
            f"{folder} was created, but the disk did not confirm it. Check the disk, then open "
            "this folder, and do not create it again."
        ) from None


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A new folder to be renamed to `folder`, locked as long as it is filled; else it is removed.

    Another process may take it for an abandoned one before it is locked, and remove it. Then there
    is another one.
    """
    handle = None
    try:
        while handle is None:
            partial = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}.new")
            partial.mkdir(mode=0o700)
            handle = _lock_folder(partial)
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """Remove what processes left beside `folder` that were killed while they created it.

    A process that is still creating it has locked what it fills.
    """
    with suppress(OSError):
        for partial in folder.parent.glob(f".{escape(folder.name)}-{'[0-9a-f]' * 8}.new"):
            with suppress(OSError):
                handle = _lock_folder(partial)
                if handle is not None:
                    shutil.rmtree(partial, ignore_errors=True)
                    os.close(handle)


def _lock_folder(folder: Path) -> int | None:
    """Return a descriptor that locks a folder; None if another one does, or the folder is gone."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    locked = False
    try:
        locked = lock_descriptor(handle, blocking=False)
        locked = locked and os.path.samestat(folder.lstat(), os.fstat(handle))
    except FileNotFoundError:
        locked = False
    finally:
        if not locked:
            os.close(handle)
    return handle if locked else None


def _create_file(folder: Path, first: Entry) -> None:
    """Create the SQLite file with its first entry. It is on the disk when this returns."""
    os.close(os.open(folder / JOURNAL_FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    store = SqliteStore(folder, timeout=0)
    try:
        store.run("PRAGMA journal_mode = WAL")
        store.run(f"PRAGMA user_version = {FORMAT}")
        store.run(_TABLE)
        store.insert(first)
    finally:
        store.close()  # this also moves everything from the WAL into the file


def _write_durably(path: Path, content: bytes) -> None:
    """Create a file that only its owner can read, and sync it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- the head file --------------------------------------------------------------------------------
#
# Entries cut off at the end leave a chain without a gap. Only a copy of the head shows it.

_SLOT = 103  # bytes of a line: 20 digits, a hash, 16 digits to check them, two blanks, a line end
_POLL = 0.001  # seconds between two attempts at a lock that another process holds
_sync = getattr(os, "fdatasync", os.fsync)  # not every system has the cheaper one


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
        _write_durably(path, _line(head) * 2)

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
