"""Where a journal is kept: the protocol of a store, and what all of them say.

A place is a folder, with a SQLite file and a head file (`sqlite_store`), or the address of a table
in PostgreSQL (`postgres_store`). Failures of either become `LedgerError` with one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from scumble.model.errors import LedgerError, OutputExistsError, PromiseError
from scumble.model.relational import is_address, read_target
from scumble.private.journal.chain import ChainFinding, Head
from scumble.private.journal.entries import Entry

FORMAT = 1
Place = Path | str  # a folder, or the address of a table in PostgreSQL
Step = Callable[[str], None]


class Store(Protocol):
    """A connection to the entries of a journal. One thread uses it at a time."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Exclude all other writers, of this process and others, as far as `begin` does not."""

    def begin(self) -> None:
        """Open the transaction of the one writer."""

    def insert(self, entry: Entry) -> None:
        """Write an entry, in the open transaction."""

    def commit(self, head: Head, step: Step) -> None:
        """Make the transaction durable, with `head` as the new recorded head.

        `step` is called with "committed" and, when the head is recorded too, with "done".
        """

    def rollback(self) -> None:
        """End the open transaction, if there is one, without a trace."""

    def view(self) -> AbstractContextManager[None]:
        """Read one state of a journal that others may be writing."""

    def recorded_head(self) -> Head | None:
        """Return the head that was written with the last commit; None if it is damaged."""

    def entries(self, first: int, kind: str | None = None) -> Iterator[Entry]:
        """Yield the entries from the number `first` on, in order: all, or those of one kind."""

    def find(self, key: str) -> Entry | None:
        """Return the entry with an idempotency key, if there is one."""

    def entry(self, number: int) -> Entry | None:
        """Return the entry with a number, if there is one."""

    @property
    def last(self) -> int:
        """The largest number of an entry; 0 if there is none."""

    @property
    def format(self) -> object:
        """The version of the format that the journal was written in."""

    def faults(self) -> tuple[ChainFinding, ...]:
        """Return what the database engine finds wrong with its own files."""

    def secret(self) -> bytes:
        """Return the secret that is kept beside the entries. Auditors need not have it."""

    def files(self, folder: str) -> dict[str, bytes]:
        """Return the files of a folder beside the entries, by name; none if there is no folder."""

    def close(self) -> None: ...


def resolve(place: str | Path) -> Place:
    """Return a place in the form in which it can be opened from anywhere."""
    return place if isinstance(place, str) and is_address(place) else Path(place).resolve()


def describe(place: Place) -> str:
    """Return the name of a place for messages. No user or host of an address is in it."""
    if isinstance(place, Path):
        return str(place)
    return str(read_target(place, LedgerError))


def existing(place: Place) -> OutputExistsError:
    """The error for a place where there is something already: no journal is ever replaced."""
    if isinstance(place, Path):
        return OutputExistsError.of(place, "Choose another folder, or open this one.")
    return OutputExistsError.of(f"The {describe(place)}", "Choose another name, or open that one.")


def unusable_message(name: str | Path, reason: str) -> str:
    """The sentence for a journal that cannot be used."""
    return f"The journal in {name} cannot be used: {reason}."


def timeout_message(timeout: float) -> str:
    """The sentence for a journal whose lock was not free within `timeout` seconds."""
    return (
        f"The journal was in use by others for more than {timeout:g} seconds. Nothing was written; "
        "try again, or end the program that uses it."
    )


def taken_key(key: str | None) -> LedgerError:
    """The error for an idempotency key that an earlier entry has."""
    return LedgerError(
        f"The idempotency key {key!r} belongs to an earlier entry. Give that one back, or take "
        "another key."
    )


def full_journal(most: int) -> PromiseError:
    """The error for an analyst who has filled the journal as far as one may."""
    return PromiseError(
        f"The journal holds {most:,} bytes of this analyst, the most that one may write. Ask what "
        "was answered before without an idempotency key, which writes nothing, or let the owner "
        "raise the limit (limits.journal). Nothing was charged."
    )


def lost_secret(name: str | Path) -> LedgerError:
    """The error for a secret that cannot be read."""
    return LedgerError(
        f"{name} is missing or damaged: without it nobody can tell whether this is the table that "
        "the database was made for."
    )
