"""Recorded: what the journal of a database tells whoever audits it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Self

from scumble.private.database.results import ChainEntry
from scumble.private.journal.chain import out_of_order
from scumble.private.journal.entries import APPEND, PROMISE, Entry
from scumble.private.journal.journal import Journal


class Recorded:
    """A database of any kind, or a look at one: all that it did is in its journal."""

    _journal: Journal

    @property
    def seal(self) -> str:
        """Number and hash of the last entry. `verify` compares the journal with a copy of it."""
        return str(self._journal.head)

    @property
    def created(self) -> str:
        """The time at which the database was created, in UTC."""
        [first] = self._journal.entries(kind=PROMISE)
        return first.time

    def chain(self, after: int = 0) -> list[ChainEntry]:
        """Return number, time, kind, analyst and hashes of the entries after a number.

        There are no questions and no answers in it: it is for auditors.
        """
        return links(self._journal.entries(after))

    def verify(self, seal: str | None = None) -> list[str]:
        """Return what is wrong with the journal, in sentences; none if it is intact."""
        added = self._journal.entries(kind=APPEND)  # before the chain: others may add some
        found = self._journal.verify(seal) or tuple(
            wrong
            for place, entry in enumerate(added)
            if (wrong := out_of_order(entry, place + 2)) is not None
        )
        return [finding.sentence for finding in found]

    def close(self) -> None:
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def links(entries: Iterable[Entry]) -> list[ChainEntry]:
    """Return what an auditor sees of each entry."""
    names = [each.name for each in fields(ChainEntry)]
    return [ChainEntry(**{name: getattr(entry, name) for name in names}) for entry in entries]
