"""Reading the chain of entries: what was changed, deleted, inserted, reordered or cut off, and
where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from scumble.private.journal.entries import BEGINNING, PROMISE, Entry
from scumble.private.journal.head import Head

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
