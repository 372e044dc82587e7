"""The chain of entries: its head, and findings about entries that were changed or cut off."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from scumble.model.errors import ParameterError
from scumble.model.long_work import tell
from scumble.private.journal.entries import NO_HASH, PROMISE, Entry


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
        raise ParameterError.of("verify", "seal", "a number, a blank and 64 hex digits", text)


START = Head(0, NO_HASH)


@dataclass(frozen=True, slots=True)
class ChainFinding:
    """A fault of the journal, and the number of the first entry that it concerns."""

    number: int
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def check_chain(
    entries: Iterable[Entry], last: int, head: Head | None, seal: Head | None, most: int = 10
) -> tuple[ChainFinding, ...]:
    """Return the first `most` findings about all entries, whose largest number is `last`."""
    known_heads = [("its head file", head)] if head else []
    known_heads += [("the seal kept elsewhere", seal)] if seal else []
    found = list(islice(_walk(entries, last, known_heads), most))
    if head is None:
        found.append(
            ChainFinding(
                last,
                "The head file is damaged: without it nobody can tell whether entries were cut off "
                f"after entry {last}.",
            )
        )
    return tuple(found)


def check_link(entry: Entry, before: Head, last: int) -> ChainFinding | None:
    """Return the finding about an entry that should follow `before` directly, if any."""
    number = entry.number
    if number <= before.number:
        return ChainFinding(
            number, f"Entry {number} was inserted: the journal begins with entry 1."
        )
    if number > before.number + 1:
        return ChainFinding(before.number + 1, f"{_span(before.number + 1, number - 1)} deleted.")
    if not entry.intact:
        return ChainFinding(number, _changed(entry, last))
    if entry.previous != before.hash:
        return ChainFinding(
            number,
            f"Entry {number} does not continue what stands before it: an earlier entry was "
            "replaced, or entries were inserted, deleted or reordered.",
        )
    return None


def _walk(
    entries: Iterable[Entry], last: int, known_heads: list[tuple[str, Head]]
) -> Iterator[ChainFinding]:
    before = START
    for entry in entries:
        tell(entry.number, last)
        if finding := check_link(entry, before, last):
            yield finding
        elif (entry.number == 1) != (entry.kind == PROMISE):
            yield ChainFinding(
                entry.number, f"Entry {entry.number} cannot be of kind {entry.kind!r}."
            )
        for witness, head in known_heads:
            if entry.number == head.number and entry.hash != head.hash:
                yield rewriting(head, witness)
        before = Head(entry.number, entry.hash)
    for witness, head in known_heads:
        if head.number > before.number:
            yield truncation(before.number, head, witness)


def truncation(last: int, head: Head, witness: str = "its head file") -> ChainFinding:
    """The finding that entries after `last` are missing; `witness` has the later head."""
    return ChainFinding(
        last + 1,
        f"{_span(last + 1, head.number)} cut off: the journal ends with entry {last}, but "
        f"{witness} remembers entry {head.number}.",
    )


def rewriting(head: Head, witness: str = "its head file") -> ChainFinding:
    """The finding that the chain is not the one that `witness` has the head of."""
    return ChainFinding(
        head.number,
        f"Entry {head.number} is not the one that {witness} remembers: the journal was rewritten "
        "here or before.",
    )


def out_of_order(entry: Entry, number: int) -> ChainFinding | None:
    """Return the finding about an entry that should append the batch `number`, if any."""
    batch = entry.payload["batch"]
    if batch == number:
        return None
    return ChainFinding(
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
