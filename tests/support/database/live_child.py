"""A process that asks a live database with an accuracy, for tests that kill it or run several.

live_child.py nursery
                children that ask one question after the other, with idempotency keys k<number>
live_child.py creators
                children that create a database, and are killed at a write point
live_child.py crowd FOLDER SEED THREADS QUESTIONS
                every thread asks some questions, of which every second has a key
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import scumble as sc
from scumble.private.journal.journal import Turn
from tests.support.database.live_table import OPTIONS, SCHEMA, table
from tests.support.database.nursery import Step, nurse, watched
from tests.support.database.write_points import struck

SMALL: dict[str, Any] = {**OPTIONS, "attributes": ["sex", "dept"], "sums": ()}
STEPS = ("begun", "measured", "appended", "full", "committed", "done")


def question(number: int) -> str:
    """Always the same one for a number; some were asked before, some have groups, and some
    are sums.
    """
    chance = random.Random(number - number % 5 // 4)  # every fifth is the one before it
    low, size = chance.randrange(19), chance.randrange(1, 8)
    where = f"FROM t WHERE age BETWEEN {low} AND {low + size} AND dept <> 'abcde'"
    where = where.replace("'abcde'", f"'{chance.choice('abcde')}'")
    if number % 7 == 3:
        return f"SELECT sex, COUNT(*) {where} GROUP BY sex"
    if number % 7 == 5:
        return f"SELECT SUM(pay) {where}"
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


def create(folder: Path, **options: Any) -> sc.LiveDatabase:
    """Create a small database in FOLDER/db, charged in the ledger FOLDER/owners."""
    small = {**SMALL, "ledger": folder / "owners", **options}
    return sc.LiveDatabase.create(folder / "db", table(rows=300), SCHEMA, **small)


def creators() -> None:
    """Children of a process that has created a database have nothing left to load."""
    with tempfile.TemporaryDirectory() as place:
        create(Path(place), ledger=None).close()
    nurse(created)


def created(folder: str, number: int, _: Step) -> Iterator[str]:
    """Die at a write point, or after all of them."""
    tempfile.tempdir = f"{folder}/temporary"
    with struck(number, kill):
        create(Path(folder))
    yield "created yes"
    kill()


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crowd(folder: str, seed: str, threads: str, questions: str) -> None:
    """Print the answers as JSON: key, value and charge of each."""
    told: list[tuple[str | None, str, float]] = []
    with sc.LiveDatabase.open(folder, table()) as database:

        def work(thread: int) -> None:
            chance = random.Random(int(seed) * 1000 + thread)
            for _ in range(int(questions)):
                number = chance.randrange(30)
                key = f"k{number}" if chance.random() < 0.5 else None
                answer = database.ask(question(number), within=25, key=key)
                told.append((key, value_of(answer), answer.charged))

        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()  # all begin together
        with ThreadPoolExecutor(int(threads)) as crew:
            list(crew.map(work, range(int(threads))))
    sys.stdout.write(json.dumps(told))


def answered(database: sc.LiveDatabase, number: int) -> str:
    return value_of(database.ask(question(number), within=45, key=f"k{number}"))


def value_of(answer: Any) -> str:
    """The numbers of an answer, its width and what was measured, without blanks."""
    found = answer.estimate
    rows = [found] if isinstance(found, sc.Estimate) else [each for _, each in found.rows]
    fresh = [each.value for each in answer.fresh.values()]
    known = [*(each.value for each in rows), answer.half_width]
    return "|".join("/".join(map(repr, part)) for part in (known, fresh))


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    {"nursery": nursery, "creators": creators, "crowd": crowd}[mode](*rest)
