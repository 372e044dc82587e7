"""Journal and a writer's turn.

The durable, tamper-evident ledger of the statistical database: a folder with a SQLite file and
its head.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from scumble.model.errors import LedgerError, ParameterError
from scumble.private.journal.entries import PROMISE, Entry, canonical, check_word, new_entry
from scumble.private.journal.store import (
    FORMAT,
    HEAD,
    LEDGER,
    START,
    Finding,
    Head,
    HeadFile,
    Store,
    explained,
    follow,
    inspect,
    locked,
    rewritten,
    truncated,
)

_PARTS = {
    "data": "the content of the table",
    "schema": "the schema",
    "terms": "epsilon, the noise or other terms",
}
PATIENCE = 30.0  # seconds that a turn waits for others


class Journal:
    """What one database has promised and answered, entry after entry, each with the hash of the
    one before it.

    An entry is on the disk before its turn is over; a crash at any instant leaves whole turns.
    Threads and processes of one computer may share a folder (not on a network drive: SQLite's WAL
    needs shared memory). `verify` finds entries that were changed, deleted, inserted, reordered or
    cut off. There is no secret key: who can write all the files of the folder can forge all of
    them, add entries at the end, or put back an older copy. Against a copy of `head` that was kept
    where they cannot write, `verify` shows every forgery of what was there when it was taken.
    """

    def __init__(self, folder: Path, *, patience: float, step: Step | None) -> None:
        """Opens what `create` made; call `Journal.open` or `Journal.create` instead."""
        self.folder = folder
        self._patience = patience
        self._step = step or (lambda _: None)
        self._process = os.getpid()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._fresh = True
        with ExitStack() as files, explained(folder):
            self._head = files.enter_context(closing(HeadFile(folder / HEAD)))
            self._writer = files.enter_context(closing(Store(folder, patience)))
            self._reader = files.enter_context(closing(Store(folder, patience)))
            self._first = _promise(self._reader)
            self._files: ExitStack | None = files.pop_all()
        self._seen = Head(self._first.number, self._first.hash)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        promise: Mapping[str, Any],
        *,
        patience: float = PATIENCE,
        step: Step | None = None,
    ) -> Self:
        """A new folder with a ledger that begins with a promise: all of it, or nothing."""
        path = Path(folder).resolve()
        first = new_entry(1, START.hash, PROMISE, promise)
        with explained(path):
            if path.exists():
                raise LedgerError(
                    f"{path} exists already. Choose another folder, or open this one."
                )
            _make(path, first)
        return cls(path, patience=patience, step=step)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        promise: Mapping[str, Any] | None = None,
        *,
        patience: float = PATIENCE,
        step: Step | None = None,
    ) -> Self:
        """The ledger in a folder; another promise than the one it was made with is refused.

        `step` is told what a turn does: it has "begun", is "full" (before the commit), is
        "committed", is "done" (its head is written).
        """
        path = Path(folder).resolve()
        with explained(path):
            if not (path / LEDGER).is_file() or not (path / HEAD).is_file():
                raise LedgerError(f"{path} {_what(path)}: {LEDGER} or {HEAD} is missing.")
        journal = cls(path, patience=patience, step=step)
        try:
            if promise is not None:
                journal.expect(promise)
        except BaseException:
            journal.close()
            raise
        return journal

    @property
    def promise(self) -> dict[str, Any]:
        return self._first.payload

    def promised(self, part: str) -> Any:
        """A part of what a database promises, which the ledger of an owner has not."""
        if part not in self.promise:
            raise LedgerError(
                f"{self.folder} is an owner's ledger of releases, no database: see `scumble ledger "
                "show`."
            )
        return self.promise[part]

    def expect(self, promise: Mapping[str, Any]) -> None:
        """Refuse a ledger whose promise is another one; its parts are named, not shown."""
        here, given = self.promise, json.loads(canonical(promise))
        different = [
            name
            for name in sorted({*here, *given})
            if _part(here, name) != _part(given, name)  # as text: 1 is not 1.0, nor true
        ]
        if different:
            listed = ", ".join(_PARTS.get(name, name) for name in different)
            raise LedgerError(
                f"The ledger in {self.folder} was made for something else: it differs in {listed}. "
                "Open it with what it was made with, or create another."
            )

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """The one writer's place among all threads and processes: what is appended is committed
        together at the end, and not at all after an exception.
        """
        with self._alone():
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
        """The entry with this idempotency key, if it is in the ledger for good."""
        check_word("key", key)
        with self._read() as reader:
            return reader.find(key)

    def entries(self, after: int = 0, kind: str | None = None) -> list[Entry]:
        """All entries after a number, in their order; or those of one kind."""
        with self._read() as reader:
            return list(reader.entries(after + 1, kind))

    @property
    def head(self) -> Head:
        """Where the ledger ends now. Kept elsewhere, it is a seal on everything up to here."""
        with self._read() as reader:
            *_, end = reader.entries(reader.last)
            return Head(end.number, end.hash)

    def verify(self, head: Head | str | None = None) -> tuple[Finding, ...]:
        """Everything that is wrong with the ledger (the first ten findings); empty if it is whole.

        `head` is a seal: what `head` was at an earlier time, kept elsewhere.
        """
        seal = Head.parse(head) if isinstance(head, str) else head
        with self._read() as reader:
            remembered = self._head.read()  # before the entries: others may add some meanwhile
            reader.run("BEGIN")  # one view of a ledger that others may be writing
            try:
                found = inspect(reader.entries(-(2**63)), reader.last, remembered, seal)
                state = reader.run("PRAGMA integrity_check(1)")
            finally:
                reader.rollback()
        broken = Finding(0, "SQLite finds that parts of the file contradict each other.")
        return found if state == "ok" else (*found, broken)

    def close(self) -> None:
        """Wait for the disk and let go of the files."""
        with self._writing, self._reading:
            if self._files is not None:
                self._files.close()
                self._files = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The place of the one writer: first among the threads here, then among all others."""
        if not self._writing.acquire(timeout=self._patience):
            raise LedgerError(locked(self._patience))
        try:
            self._refuse_if_closed()
            with explained(self.folder):
                self._head.lock(self._patience)
            try:
                yield
            finally:
                self._head.unlock()
        finally:
            self._writing.release()

    def _begin(self) -> Turn:
        since = Head(self._first.number, self._first.hash) if self._fresh else self._seen
        self._writer.run("BEGIN IMMEDIATE")
        turn = Turn(self._writer, since, self._head.read(), fresh=self._fresh)
        self._step("begun")
        return turn

    def _commit(self, turn: Turn) -> None:
        if turn.appended:
            self._step("full")
            self._writer.run("COMMIT")
            self._step("committed")
            with explained(self.folder):
                self._head.write(turn.last)
            self._step("done")
        else:
            self._writer.rollback()
        self._seen, self._fresh = turn.last, False

    def _undo(self, turn: Turn | None) -> None:
        """As if the turn had never been; memory that was told about it has to start anew."""
        self._fresh = self._fresh or (turn is not None and bool(turn.appended or turn.news()))
        self._writer.rollback()

    @contextmanager
    def _read(self) -> Iterator[Store]:
        with self._reading:
            self._refuse_if_closed()
            yield self._reader

    def _refuse_if_closed(self) -> None:
        if self._files is None or os.getpid() != self._process:
            raise LedgerError(
                "This ledger was closed, or opened by another process. Open it again here."
            )


def _make(path: Path, first: Entry) -> None:
    """Fill a folder under another name, then give it its name."""
    partial = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial.mkdir(mode=0o700)
    try:
        Store.create(partial, first)
        HeadFile.create(partial / HEAD, Head(first.number, first.hash))
        _to_disk(partial)
        partial.rename(path)
        _to_disk(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _to_disk(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _promise(reader: Store) -> Entry:
    """The first entry, of a file that this version can read."""
    version = reader.run("PRAGMA user_version")
    if version != FORMAT:
        raise LedgerError(
            f"The ledger has format {version}; this version of scumble reads format {FORMAT}. "
            "Upgrade scumble, or restore the folder from a copy."
        )
    first = next(reader.entries(1), None)
    if first is None or first.number != 1 or first.kind != PROMISE or not first.intact:
        raise LedgerError("The ledger was tampered with or is damaged: it has lost its promise.")
    return first


def _part(promise: Mapping[str, Any], name: str) -> str | None:
    return canonical({name: promise[name]}) if name in promise else None


def _what(path: Path) -> str:
    """What a folder without a ledger is."""
    if not path.exists():
        return "does not exist"
    release = (path / "manifest.json").exists()
    return "is a release (ask it by `scumble query`), no database" if release else "has no ledger"


# One writer's turn at the ledger: what others wrote before it, and what it adds.

Step = Callable[[str], None]


class Turn:
    """The one writer's place; nobody else writes until it is over.

    `fresh` says that `news` tells everything since the promise, not only what is new: this is the
    first turn, or an earlier one came to nothing after it had been told news or had written. What
    memory holds of the ledger is then to be built anew.
    """

    def __init__(self, store: Store, since: Head, head: Head | None, *, fresh: bool) -> None:
        self.fresh = fresh
        self.appended = 0
        self._store = store
        self._over = False
        self._news = _continued(store, since, head)
        end = self._news[-1] if self._news else since
        self.last = Head(end.number, end.hash)

    def news(self) -> tuple[Entry, ...]:
        """What others wrote since this journal last had a turn, checked link by link."""
        return self._news

    def find(self, key: str) -> Entry | None:
        """The entry with this idempotency key, of this turn or before it."""
        self._refuse_if_over()
        check_word("key", key)
        return self._store.find(key)

    def append(
        self,
        kind: str,
        payload: Mapping[str, Any],
        key: str | None = None,
        analyst: str | None = None,
    ) -> Entry:
        """Add an entry. It is there for others, and after a crash, when the turn is over."""
        self._refuse_if_over()
        if kind == PROMISE:
            raise ParameterError.of("Turn.append", "kind", "another word than 'promise'", kind)
        entry = new_entry(self.last.number + 1, self.last.hash, kind, payload, key, analyst)
        self._store.insert(entry)
        self.appended += 1
        self.last = Head(entry.number, entry.hash)
        return entry

    def end(self) -> None:
        """Nothing can be added any more."""
        self._over = True

    def _refuse_if_over(self) -> None:
        if self._over:
            raise LedgerError("This turn at the ledger is over. Take another one.")


def _continued(store: Store, since: Head, head: Head | None) -> tuple[Entry, ...]:
    """The entries after `since`: refused where they do not continue it, or not up to the head."""
    if head is None:
        raise _tampered("The head file is damaged.")
    entries = list(store.entries(since.number))
    last = entries[-1].number if entries else store.last
    if last < since.number:
        raise _tampered(truncated(last, since, "this program").sentence)
    if last < head.number:
        raise _tampered(truncated(last, head).sentence)
    if (entries[0].number, entries[0].hash) != (since.number, since.hash):
        raise _tampered(rewritten(since, "this program").sentence)
    for before, entry in pairwise(entries):
        if finding := follow(entry, Head(before.number, before.hash), last):
            raise _tampered(finding.sentence)
    place = head.number - since.number
    if place >= 0 and entries[place].hash != head.hash:
        raise _tampered(rewritten(head).sentence)
    return tuple(entries[1:])


def _tampered(sentence: str) -> LedgerError:
    return LedgerError(f"The ledger was tampered with or is damaged, and is not used. {sentence}")
