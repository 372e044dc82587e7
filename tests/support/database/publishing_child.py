"""Processes that publish with a ledger: killed at a named step, or several at once.

publishing_child.py kill LEDGER STEP...     one process for each step; prints its fate
publishing_child.py crowd LEDGER COUNT      all at once; prints what became of each
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from fractions import Fraction

import scumble as sc
from scumble.families.histogram.publish import Histogram
from scumble.private.journal.journal import Journal
from scumble.private.ledger import ledger
from scumble.private.publish import publish as publish_table
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream
from tests.support import people

SCHEMA = people.schema()
TABLE = people.people(200, SCHEMA)


def publish(folder: str, epsilon: float, step: Callable[[str], None]) -> None:
    """Publish once; `step` is told what is going on."""
    turns = 0

    class Watched(Journal):
        @classmethod
        def open(cls, folder, promise=None):
            nonlocal turns
            turns += 1
            turn = turns
            return super().open(folder, promise, step=lambda name: step(f"{turn}-{name}"))

    class Told(Histogram):
        def measure(self, table, folder):
            step("before-reading")
            found = super().measure(table, folder)
            step("measured")
            return found

    found = sc.Ledger.open(folder)
    ledger.Journal = Watched
    publish_table(TABLE, SCHEMA, Told(["age"], epsilon=epsilon, neighbours="replace"), ledger=found)
    step("published")


def die_at(step: str) -> Callable[[str], None]:
    def told(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return told


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def kill(folder: str, steps: list[str]) -> None:
    for step in steps:
        child = os.fork()
        if child == 0:
            publish(folder, 0.1, die_at(step))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        tell(step, os.waitstatus_to_exitcode(status))


def crowd(folder: str, count: int) -> None:
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            try:
                publish(folder, 0.6, lambda _: None)
            except sc.PromiseError:
                os._exit(sc.PromiseError.exit_code)
            os._exit(0)
        children.append(child)
    for child in children:
        _, status = os.waitpid(child, 0)
        tell(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    verb, folder, *rest = sys.argv[1:]
    discrete_laplace(Keystream(0), Fraction(1), 1)  # compiled once, before there are children
    if verb == "kill":
        kill(folder, rest)
    else:
        crowd(folder, int(rest[0]))
