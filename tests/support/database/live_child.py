"""A process that asks a live database with an accuracy, for tests that kill it."""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from typing import Any

import scumble as sc
from scumble.private.journal.journal import Turn
from tests.support.database.live_table import OPTIONS, SCHEMA, table
from tests.support.database.nursery import Step, nurse, watched

STEPS = ("begun", "measured", "appended", "full", "committed", "done")


def question(number: int) -> str:
    """Always the same one for a number; some were asked before, some have groups."""
    chance = random.Random(number - number % 5 // 4)  # every fifth is the one before it
    low, size = chance.randrange(19), chance.randrange(1, 8)
    where = f"FROM t WHERE age BETWEEN {low} AND {low + size} AND dept <> 'abcde'"
    where = where.replace("'abcde'", f"'{chance.choice('abcde')}'")
    if number % 7 == 3:
        return f"SELECT sex, COUNT(*) {where} GROUP BY sex"
    return f"SELECT COUNT(*) {where}"


def nursery() -> None:
    """Children of a process that has asked something have nothing left to load."""
    with (
        tempfile.TemporaryDirectory() as place,
        sc.LiveDatabase.create(f"{place}/db", table(), SCHEMA, **OPTIONS) as database,
    ):
        for number in range(1, 8):
            answered(database, number)
    nurse(ask)


def ask(folder: str, first: int, step: Step) -> Iterator[str]:
    """Each answer is acknowledged by a line of its key and value."""
    sc.LiveDatabase._measure = watched(sc.LiveDatabase._measure, step, after="measured")
    Turn.append = watched(Turn.append, step, after="appended")
    database = sc.LiveDatabase.open(folder, table())
    database._journal._step = step
    for number in count(first):
        yield f"k{number} {answered(database, number)}"


def answered(database: sc.LiveDatabase, number: int) -> str:
    return value_of(database.ask(question(number), within=45, key=f"k{number}"))


def value_of(answer: Any) -> str:
    """The numbers of an answer, its width and what was measured, without blanks."""
    found = answer.estimate
    rows = [found] if isinstance(found, sc.Estimate) else [each for _, each in found.rows]
    fresh = [each.value for each in answer.fresh.values()]
    return "/".join(map(repr, [*(each.value for each in rows), answer.half_width, *fresh]))


if __name__ == "__main__":
    {"nursery": nursery}[sys.argv[1]]()
