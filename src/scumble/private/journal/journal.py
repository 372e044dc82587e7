"""A durable, tamper-evident journal, and the turn of its one writer.

Statistical databases and owners' ledgers are kept in journals: in a folder, or in a table of
PostgreSQL.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from scumble.model.errors import LedgerError, ParameterError
from scumble.model.long_work import tell
from scumble.private.journal import postgres_store, sqlite_store
from scumble.private.journal.chain import (
    START,
    ChainFinding,
    Head,
    check_chain,
    check_link,
    rewriting,
    truncation,
)
from scumble.private.journal.entries import PROMISE, Entry, canonical, check_word, new_entry
from scumble.private.journal.store import (
    FORMAT,
    Place,
    Step,
    Store,
    describe,
    existing,
    resolve,
    timeout_message,
)

_PARTS = {
    "data": "the content of the table",
    "schema": "the schema",
    "terms": "epsilon, the noise or other terms",
}
TIMEOUT = 30.0  # seconds that a turn waits for other writers


class Journal:
    """An append-only sequence of entries, each with the hash of the one before it.

    The first entry is the promise. An entry is on the disk before its turn is over; a crash at any
    instant leaves whole turns. `place` is a folder, which threads and processes of one computer may
    share (not on a network drive: SQLite's WAL needs shared memory), or the address of a table in
    PostgreSQL, which several computers may share. `verify` finds entries that were changed,
    deleted, inserted, reordered or cut off. There is no secret key: anybody who can write all of it
    can forge all of it, add entries at the end, or restore an older copy. Against a copy of `head`
    that was kept elsewhere, `verify` finds every forgery of earlier entries.
    """

    def __init__(self, place: Place, *, timeout: float, step: Step | None) -> None:
        """Call `Journal.open` or `Journal.create` instead."""
        self.place = place
        self._timeout = timeout
        self._step = step or (lambda _: None)
        self._process = os.getpid()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._fresh = True
        with ExitStack() as stores:
            self._writer = stores.enter_context(closing(_connect(place, timeout)))
            self._reader = stores.enter_context(closing(_connect(place, timeout)))
            self._first = _promise(self._reader)
            self._stores: ExitStack | None = stores.pop_all()
        self._last_seen = Head(self._first.number, self._first.hash)

    @classmethod
    def create(
        cls,
        place: str | Path,
        promise: Mapping[str, Any],
        *,
        secret: bytes | None = None,
        beside: Mapping[str, bytes] | None = None,
        timeout: float = TIMEOUT,
        step: Step | None = None,
    ) -> Self:
        """Create a journal that begins with `promise`.

        `secret` is kept beside the journal, apart from what auditors may get. `beside` are files in
        folders, by name, which are there before the journal is. After a failure, `is_free` says
        whether the journal is there all the same.
        """
        found = resolve(place)
        _create(found, new_entry(1, START.hash, PROMISE, promise), secret, beside or {})
        return cls(found, timeout=timeout, step=step)

    @classmethod
    def open(
        cls,
        place: str | Path,
        promise: Mapping[str, Any] | None = None,
        *,
        timeout: float = TIMEOUT,
        step: Step | None = None,
    ) -> Self:
        """Open the journal at a place. A `promise` other than the first entry is refused.

        `step` is called during a turn with "begun", "full" (before the commit), "committed" and
        "done" (the head is written).
        """
        journal = cls(resolve(place), timeout=timeout, step=step)
        try:
            if promise is not None:
                journal.expect(promise)
        except BaseException:
            journal.close()
            raise
        return journal

    def __str__(self) -> str:
        return describe(self.place)

    def secret(self) -> bytes:
        """Return the secret that the journal was created with."""
        with self._read() as reader:
            return reader.secret()

    def files(self, folder: str) -> dict[str, bytes]:
        """Return the files of a folder beside the journal, by name."""
        with self._read() as reader:
            return reader.files(folder)

    @property
    def promise(self) -> dict[str, Any]:
        return self._first.payload

    def promised(self, part: str) -> Any:
        """Return a part of the promise that every database has, and no owner's ledger has."""
        if part not in self.promise:
            raise LedgerError(
                f"{self} is an owner's ledger of releases, no database: see `scumble ledger show`."
            )
        return self.promise[part]

    def expect(self, promise: Mapping[str, Any]) -> None:
        """Raise `LedgerError` if the promise is another one. The error names parts, no values."""
        here, given = self.promise, json.loads(canonical(promise))
        different = [
            name
            for name in sorted({*here, *given})
            if _part(here, name) != _part(given, name)  # as text: 1 is not 1.0, nor true
        ]
        if different:
            listed = ", ".join(_PARTS.get(name, name) for name in different)
            raise LedgerError(
                f"The journal in {self} was made for something else: it differs in "
                f"{listed}. Open it with what it was made with, or create another."
            )

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """The turn of the one writer among all threads and processes.

        Everything that is appended is committed together at the end; nothing after an exception.
        """
        with self._exclusive():
            turn: Turn | None = None
            try:
                turn = self._begin()
                yield turn
                self._commit(turn)
            except BaseException:
                self._undo(turn)
                raise
            finally:
                if turn is not None:
                    turn.end()

    def find(self, key: str) -> Entry | None:
        """Return the committed entry with this idempotency key, if there is one."""
        check_word("key", key)
        with self._read() as reader:
            return reader.find(key)

    def entries(self, after: int = 0, kind: str | None = None) -> list[Entry]:
        """Return the entries with a number above `after`, in order: all, or those of one kind."""
        with self._read() as reader:
            if kind is not None:
                return list(reader.entries(after + 1, kind))
            found, last = [], reader.last
            for entry in reader.entries(after + 1):
                tell(entry.number - after, last - after)
                found.append(entry)
            return found

    @property
    def head(self) -> Head:
        """Number and hash of the last entry. A copy kept elsewhere seals all entries up to it."""
        with self._read() as reader:
            *_, end = reader.entries(reader.last)
            return Head(end.number, end.hash)

    def verify(self, head: Head | str | None = None) -> tuple[ChainFinding, ...]:
        """Return the first ten findings about the journal; empty if it is intact.

        `head` is a seal: a copy of `Journal.head` at an earlier time.
        """
        seal = Head.parse(head) if isinstance(head, str) else head
        with self._read() as reader:
            known_heads = reader.recorded_head()  # before the entries: others may add some
            with reader.view():
                found = check_chain(reader.entries(-(2**63)), reader.last, known_heads, seal)
                return (*found, *reader.faults())

    def close(self) -> None:
        """Wait for writes to the disk, and close the stores."""
        with self._writing, self._reading:
            if self._stores is not None:
                self._stores.close()
                self._stores = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Exclude other writers: first the threads of this journal, then all other journals."""
        if not self._writing.acquire(timeout=self._timeout):
            raise LedgerError(timeout_message(self._timeout))
        try:
            self._refuse_if_closed()
            with self._writer.exclusive():
                yield
        finally:
            self._writing.release()

    def _begin(self) -> Turn:
        since = Head(self._first.number, self._first.hash) if self._fresh else self._last_seen
        self._writer.begin()
        turn = Turn(self._writer, since, self._writer.recorded_head(), fresh=self._fresh)
        self._step("begun")
        return turn

    def _commit(self, turn: Turn) -> None:
        if turn.appended:
            self._step("full")
            self._writer.commit(turn.last, self._step)
        else:
            self._writer.rollback()
        self._last_seen, self._fresh = turn.last, False

    def _undo(self, turn: Turn | None) -> None:
        """Roll back. The next turn is `fresh` if this one had new entries or appended some."""
        self._fresh = self._fresh or (
            turn is not None and bool(turn.appended or turn.new_entries())
        )
        self._writer.rollback()

    @contextmanager
    def _read(self) -> Iterator[Store]:
        with self._reading:
            self._refuse_if_closed()
            yield self._reader

    def _refuse_if_closed(self) -> None:
        if self._stores is None or os.getpid() != self._process:
            raise LedgerError(
                "This journal was closed, or opened by another process. Open it again here."
            )


def _promise(reader: Store) -> Entry:
    """Return the first entry of a file that this version can read."""
    version = reader.format
    if version != FORMAT:
        raise LedgerError(
            f"The journal has format {version}; this version of scumble reads format {FORMAT}. "
            "Upgrade scumble, or restore the journal from a copy."
        )
    first = next(reader.entries(1), None)
    if first is None or first.number != 1 or first.kind != PROMISE or not first.intact:
        raise LedgerError("The journal was tampered with or is damaged: it has lost its promise.")
    return first


def _part(promise: Mapping[str, Any], name: str) -> str | None:
    return canonical({name: promise[name]}) if name in promise else None


class Turn:
    """The turn of the one writer. Nobody else writes until it is over.

    `fresh` says that `new_entries` returns everything since the promise. This is so in the first
    turn, and after a turn that was rolled back and had new entries or appended some. The caller
    then has to build its state anew.
    """

    def __init__(self, store: Store, since: Head, head: Head | None, *, fresh: bool) -> None:
        self.fresh = fresh
        self.appended = 0
        self._store = store
        self._over = False
        self._new_entries = _entries_since(store, since, head)
        end = self._new_entries[-1] if self._new_entries else since
        self.last = Head(end.number, end.hash)

    def new_entries(self) -> tuple[Entry, ...]:
        """Return what other writers appended since the last turn of this journal, links checked."""
        return self._new_entries

    def find(self, key: str) -> Entry | None:
        """Return the entry with this idempotency key, of this turn or before it."""
        self._refuse_if_over()
        check_word("key", key)
        return self._store.find(key)

    def entry(self, number: int) -> Entry:
        """Return the entry with a number, of this turn or before it."""
        self._refuse_if_over()
        found = self._store.entry(number)
        if found is None:
            raise _tampering_error(f"Entry {number} was deleted.")
        return found

    def append(
        self,
        kind: str,
        payload: Mapping[str, Any] | str,
        key: str | None = None,
        analyst: str | None = None,
    ) -> Entry:
        """Append an entry, of a payload or its `salted_text`.

        Others see it, and it survives a crash, when the turn is over.
        """
        self._refuse_if_over()
        if kind == PROMISE:
            raise ParameterError.of("Turn.append", "kind", "another word than 'promise'", kind)
        entry = new_entry(self.last.number + 1, self.last.hash, kind, payload, key, analyst)
        self._store.insert(entry)
        self.appended += 1
        self.last = Head(entry.number, entry.hash)
        return entry

    def end(self) -> None:
        """Refuse further entries."""
        self._over = True

    def _refuse_if_over(self) -> None:
        if self._over:
            raise LedgerError("This turn at the journal is over. Take another one.")


def _entries_since(store: Store, since: Head, head: Head | None) -> tuple[Entry, ...]:
    """Return the entries after `since`.

    Entries that do not continue it, or that end before the head, are refused.
    """
    if head is None:
        raise _tampering_error("The head file is damaged.")
    entries = list(store.entries(since.number))
    last = entries[-1].number if entries else store.last
    if last < since.number:
        raise _tampering_error(truncation(last, since, "this program").sentence)
    if last < head.number:
        raise _tampering_error(truncation(last, head).sentence)
    if (entries[0].number, entries[0].hash) != (since.number, since.hash):
        raise _tampering_error(rewriting(since, "this program").sentence)
    for before, entry in pairwise(entries):
        if finding := check_link(entry, Head(before.number, before.hash), last):
            raise _tampering_error(finding.sentence)
    place = head.number - since.number
    if place >= 0 and entries[place].hash != head.hash:
        raise _tampering_error(rewriting(head).sentence)
    return tuple(entries[1:])


def _tampering_error(sentence: str) -> LedgerError:
    return LedgerError(f"The journal was tampered with or is damaged, and is not used. {sentence}")


def is_live(place: str | Path) -> bool:
    """Whether the database at a place buys accuracy: it was made with a delta."""
    with Journal.open(place) as journal:
        return "edition" in journal.promise


def is_free(place: Place) -> bool:
    """Whether a new look finds nothing at a place; raises `LedgerError` if nobody can tell."""
    if isinstance(place, Path):
        return sqlite_store.is_free_folder(place)
    return postgres_store.is_free_table(place)


def refuse_existing(place: Place) -> None:
    """Raise `OutputExistsError` if there is something at this place already."""
    if not is_free(place):
        raise existing(place)


def _connect(place: Place, timeout: float) -> Store:
    """Connect to an existing journal, or raise `LedgerError`."""
    if isinstance(place, Path):
        return sqlite_store.SqliteStore(place, timeout)
    return postgres_store.PostgresStore(place, timeout)


def _create(place: Place, first: Entry, secret: bytes | None, beside: Mapping[str, bytes]) -> None:
    """Create a journal with its first entry and a secret.

    After a failure it may be there all the same, where it is not known whether the last step took
    effect: `is_free` tells.
    """
    if isinstance(place, Path):
        return sqlite_store.create_folder(place, first, secret, beside)
    return postgres_store.create_tables(place, first, secret, beside)
