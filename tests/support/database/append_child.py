"""A process that adds rows to a database, for tests that kill it or run several of them at once.

append_child.py kill PLACE          for each step a child that adds rows with the key "k" to the
                                    folder of the step's name, and kills itself at that step
append_child.py crowd FOLDER NUMBER so many children that add rows at once, and print which batch
                                    they became
append_child.py stale FOLDER        asks before and after a line, and prints what became of it
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pyarrow as pa

import scumble as sc
from scumble.private.database import tables
from scumble.private.database.tables import SourceTable, append_rows
from scumble.private.journal.journal import Journal, Turn
from tests.support.database.nursery import deadly, watched

VALUES = 100
SCHEMA = sc.Schema([sc.Attribute("n", "quasi", sc.IntegerRange(0, VALUES - 1))])
TABLE = pa.table({"n": np.arange(500) * 17 % VALUES})
MORE = pa.table({"n": np.arange(300) * 13 % VALUES})
OPTIONS = {"epsilon": 1, "noise": 30}  # fifteen answers for a point
STEPS = ("read", "begun", "appended", "full", "committed", "done")


def kill(place: str) -> None:
    for step in STEPS:
        child = os.fork()  # many times faster than a new Python for each
        if not child:
            die(f"{place}/{step}", step)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{step} {os.waitstatus_to_exitcode(status)}\n")


def die(folder: str, fatal: str) -> None:
    step, begin = deadly(fatal), Journal._begin

    def watched_begin(journal):
        journal._step = step
        return begin(journal)

    tables.read_batch = watched(tables.read_batch, step, after="read")
    Turn.append, Journal._begin = watched(Turn.append, step, after="appended"), watched_begin
    try:
        append_rows(folder, SourceTable(MORE), "k")
    finally:
        os._exit(1)


def crowd(folder: str, number: str) -> None:
    children = []
    for _ in range(int(number)):
        child = os.fork()
        if not child:
            try:
                os.write(
                    1, f"{append_rows(folder, SourceTable(MORE), again=True)}\n".encode("ascii")
                )
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def stale(folder: str) -> None:
    with sc.Database.open(folder, TABLE) as database:
        value = database.answer("SELECT COUNT(*) FROM t WHERE n < 50").value
        _wait()
        for ask in (database.answer, database.preview):
            try:
                ask("SELECT COUNT(*) FROM t WHERE n < 50")
            except sc.LedgerError as error:
                sys.stdout.write(f"{error}\n")
        sys.stdout.write(f"{value} {database.status().batches} {len(database.history())}\n")


def _wait() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    {"kill": kill, "crowd": crowd, "stale": stale}[mode](*rest)
