"""Pairs of neighbouring tables, where a mechanism may be at its worst."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]

_FEW, _MANY = 4, 20
_OFFSET = 10**9


@dataclass(frozen=True, eq=False)
class Pair:
    """Two tables that differ in one person, as the counts of all cells."""

    words: str
    one: Counts
    other: Counts


def backgrounds(cells: int) -> dict[str, Counts]:
    """What else may be in a table: nobody, one record, the same record a few or many times, one of
    each kind, and so many at the ends of the domain that small numbers could get lost.
    """
    nobody: Counts = np.zeros(cells, np.int64)
    record, few, many, offset = (nobody.copy() for _ in range(4))
    record[0], few[-1], many[-1], offset[[0, -1]] = 1, _FEW, _MANY, _OFFSET
    return {
        "nobody else": nobody,
        "one record": record,
        "a few equal records": few,
        "equal records": many,
        "a record of each kind": np.ones(cells, np.int64),
        "large counts": offset,
    }


def changes(
    counts: Counts, places: Sequence[int], relation: str, rows: int
) -> Iterator[tuple[Counts, Counts]]:
    """A table and its neighbours by a person who has all rows in one of some cells."""
    moved = [counts.copy() for _ in places]
    for table, place in zip(moved, places, strict=True):
        table[place] += rows
    if relation == "add_remove":
        yield from ((counts, table) for table in moved)
    else:
        yield from ((one, two) for number, one in enumerate(moved) for two in moved[:number])


def pairs(cells: int, relation: str, rows: int) -> Iterator[Pair]:
    """Pairs whose person is at an end of the domain, or goes from one to the other."""
    for words, counts in backgrounds(cells).items():
        for one, other in changes(counts, [0, cells - 1], relation, rows):
            yield Pair(words, one, other)
