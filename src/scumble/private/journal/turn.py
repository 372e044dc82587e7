"""One writer's turn at the ledger: what others wrote before it, and what it adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from scumble.model.errors import LedgerError, ParameterError
from scumble.private.journal.chain import follow, rewritten, truncated
from scumble.private.journal.entries import PROMISE, Entry, check_word, new_entry
from scumble.private.journal.head import Head
from scumble.private.journal.store import Store

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
