"""A process that asks a database, for tests that kill it or run several of them at once.

database_child.py nursery
                for each line "FIRST STEP FOLDER" a child that asks questions FIRST, FIRST + 1, ...
                with the idempotency keys k<number>, until it is killed, or kills itself at that
                step of an answer ("-": at none)
database_child.py crowd FOLDER THREADS
                every thread asks one question about point 0, and may only be refused
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from itertools import count

import numpy as np
import pyarrow as pa

import scumble as sc
from scumble.database.session import Session
from scumble.database.space import Space
from scumble.database.tracker import make_tracker
from scumble.database.turn import Turn

VALUES = 1000
SCHEMA = sc.Schema([sc.Attribute("n", "quasi", sc.IntegerRange(0, VALUES - 1))])
TABLE = pa.table({"n": np.arange(5000) * 7919 % VALUES})
OPTIONS = {"epsilon": 1, "noise": 30}  # fifteen answers for a point
MERCY = 2  # questions that are answered before a step kills
STEPS = ("begun", "decided", "drawn", "appended", "full", "committed", "done")


def question(number: int) -> str:
    """Always the same one for a number; some are averages, some were asked before."""
    chance = random.Random(number - number % 7 // 6)  # every seventh is the one before it
    low, size = chance.randrange(VALUES - 1), chance.randrange(1, VALUES // 3)
    what = "AVG(n)" if number % 5 == 0 else "COUNT(*)"
    return f"SELECT {what} FROM t WHERE n BETWEEN {low} AND {low + size}"


def nursery() -> None:
    """Children are forked, which is many times faster than a new Python for each."""
    make_tracker("exact", Space(SCHEMA, ["n"]), 1).room(np.zeros((1, 1, 2), np.int64))
    for line in sys.stdin:
        first, step, folder = line.rstrip("\n").split(" ", 2)
        child = os.fork()
        if not child:
            try:
                os.write(1, f"born {os.getpid()}\n".encode("ascii"))
                ask(folder, int(first), step)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        os.write(1, f"dead {os.waitstatus_to_exitcode(status)}\n".encode("ascii"))


def ask(folder: str, first: int, fatal: str) -> None:
    """Each answer is acknowledged by a line of its key and value."""
    done = 0

    def step(name: str) -> None:
        if name == fatal and done >= MERCY:
            os.kill(os.getpid(), signal.SIGKILL)

    given, append = Session._given, Turn.append

    def watched_given(*arguments):
        step("decided")
        found = given(*arguments)
        step("drawn")
        return found

    def watched_append(*arguments):
        entry = append(*arguments)
        step("appended")
        return entry

    Session._given, Turn.append = watched_given, watched_append
    database = sc.Database.open(folder, TABLE)
    database._journal._step = step
    for number in count(first):
        try:
            value = str(database.answer(question(number), key=f"k{number}").value)
        except sc.PromiseError:
            value = "refused"  # an average, where the promise is used up
        os.write(1, f"k{number} {value}\n".encode("ascii"))
        done += 1


def crowd(folder: str, threads: str) -> None:
    """Prints how many of its requests were answered."""
    answered: list[bool] = []
    with sc.Database.open(folder, TABLE) as database:

        def work(number: int) -> None:
            sql = f"SELECT COUNT(*) FROM t WHERE n <= {(os.getpid() * 131 + number) % (VALUES - 1)}"
            try:
                answered.append(database.answer(sql, relax="refuse").status == "answered")
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
