"""A process that writes to a journal, for tests that kill it or run many of them at once.

journal_child.py nursery
                    children that write one entry after the other, with keys k<number>
journal_child.py crowd FOLDER ROOM THREADS TRIES [group]
                    answers while fewer than ROOM are in the ledger
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from itertools import count

from scumble.private.journal.group_commit import GroupCommit
from scumble.private.journal.journal import Journal, Turn
from tests.support.database.nursery import Step, nurse


def append(folder: str, first: int, step: Step) -> Iterator[str]:
    """Each entry is acknowledged by a line of its key and hash, after its turn."""
    journal = Journal.open(folder, {"epsilon": "1"}, step=step)
    for number in count(first):
        key = f"k{number}"
        with journal.turn() as turn:
            entry = turn.find(key) or turn.append("answer", {"value": number}, key=key)
            step("appended")
        yield f"{key} {entry.hash}"


class Room:
    """Answers while there is room; what it knows, it knows from the news."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.used = 0

    def decide(self, turn: Turn, requests: list[str]) -> list[bool]:
        self.used = len(turn.new_entries()) + (0 if turn.fresh else self.used)
        return [self._one(turn, request) for request in requests]

    def _one(self, turn: Turn, request: str) -> bool:
        if self.used >= self.room:
            return False
        turn.append("answer", {}, key=request)
        self.used += 1
        return True


def crowd(folder: str, room: int, threads: int, tries: int, group: str = "") -> None:
    """Prints how many of its requests were answered."""
    journal, rule = Journal.open(folder), Room(room)
    committer = GroupCommit(journal, rule.decide)
    answers: list[bool] = []

    def ask(name: str) -> bool:
        if group:
            return committer.submit(name)
        with journal.turn() as turn:
            [answer] = rule.decide(turn, [name])
        return answer

    def work(thread: int) -> None:
        for number in range(tries):
            answers.append(ask(f"{os.getpid()}-{thread}-{number}"))

    crew = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    sys.stdin.readline()  # all begin together
    for each in crew:
        each.start()
    for each in crew:
        each.join()
    journal.close()
    sys.stdout.write(f"{sum(answers)} {len(answers)}\n")


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    if mode == "nursery":
        with suppress(ImportError):  # else each child would load it
            import_module("adbc_driver_postgresql.dbapi")
        nurse(append)
    else:
        folder, *numbers = rest
        crowd(folder, *(int(word) if word.isdigit() else word for word in numbers))
