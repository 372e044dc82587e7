"""A process that asks a database, for tests that kill it or run several of them at once.

database_child.py nursery
                children that ask one question after the other, with idempotency keys k<number>
database_child.py crowd FOLDER THREADS
                every thread asks one question about point 0, and may only be refused
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from scumble.private.database.session import Session
from scumble.private.journal.journal import Turn
from tests.support.database.nursery import Step, nurse, watched

VALUES = 1000
SCHEMA = sc.Schema([sc.Attribute("n", "quasi", sc.IntegerRange(0, VALUES - 1))])
TABLE = pa.table({"n": np.arange(5000) * 7919 % VALUES})
OPTIONS = {"epsilon": 1, "noise": 30}  # fifteen answers for a point
STEPS = ("begun", "decided", "drawn", "appended", "full", "committed", "done")


def question(number: int) -> str:
    """Always the same one for a number; some are averages, some were asked before."""
    chance = random.Random(number - number % 7 // 6)  # every seventh is the one before it
    low, size = chance.randrange(VALUES - 1), chance.randrange(1, VALUES // 3)
    what = "AVG(n)" if number % 11 == 5 else "COUNT(*)"
    if number % 5 == 4:  # several numbers, which are paid for together
        what = "COUNT(*), SUM(n) AS s, COUNT(*) FILTER (WHERE n % 2 = 0 AND n < 20) AS even"
    return f"SELECT {what} FROM t WHERE n BETWEEN {low} AND {low + size}"


def nursery() -> None:
    """Children of a process that has asked all sorts of questions have nothing left to load."""
    with tempfile.TemporaryDirectory() as place:
        options = {"epsilon": 1, "noise": 2}  # one answer for a point: the others are relaxed
        with sc.Database.create(f"{place}/db", TABLE, SCHEMA, **options) as database:
            for number in range(1, 10):
                answered(database, number)
    nurse(ask)


def ask(folder: str, first: int, step: Step) -> Iterator[str]:
    """Each answer is acknowledged by a line of its key and value."""
    Session._new_answers = watched(Session._new_answers, step, before="decided", after="drawn")
    Turn.append = watched(Turn.append, step, after="appended")
    database = sc.Database.open(folder, TABLE)
    database._journal._step = step
    for number in count(first):
        yield f"k{number} {answered(database, number)}"


def answered(database: sc.Database, number: int) -> str:
    try:
        answer = database.answer(question(number), key=f"k{number}")
        return value_of(answer)
    except sc.PromiseError:
        return "refused"  # an average, where the promise is used up


def value_of(answer: Any) -> str:
    """The numbers of an answer, without blanks."""
    if isinstance(answer, sc.Estimate):
        return str(answer.value)
    return "/".join(str(each.value) for _, row in answer.rows for each in row)


def crowd(folder: str, threads: str) -> None:
    """Prints how many of its requests were answered."""
    answered: list[bool] = []
    with sc.Database.open(folder, TABLE) as database:

        def work(number: int) -> None:
            sql = f"SELECT COUNT(*) FROM t WHERE n <= {(os.getpid() * 131 + number) % (VALUES - 1)}"
            try:
                answered.append(
                    database.answer(sql, options=sc.AskOptions(relax="refuse")).status == "answered"
                )
            except sc.PromiseError:
                answered.append(False)

        crew = [threading.Thread(target=work, args=(number,)) for number in range(int(threads))]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()  # all begin together
        for each in crew:
            each.start()
        for each in crew:
            each.join()
    sys.stdout.write(f"{sum(answered)} {len(answered)}\n")


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    {"nursery": nursery, "crowd": crowd}[mode](*rest)
