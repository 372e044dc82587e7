"""The ledger of the database on this disk, alone and under whole answers: made durable, by one
thread and by many.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import scumble as sc
from benchmarks.measure import at_least, at_most
from scumble.demo.census import census
from scumble.private.journal.group_commit import GroupCommit
from scumble.private.journal.journal import Journal

THREADS = 32
ALONE, TOGETHER = 200, 1000  # durable answers a second that are asked for
RESTART = 2.0  # seconds
ENTRIES = 10_000
PEOPLE = 20_000
ANSWER = {"boxes": [[[0, 78], [3, 9], [0, 22], [10, 59]]], "units": 1, "value": 123_456}


def run() -> list[dict[str, Any]]:
    build = Path("build")  # on the disk of the project: a temporary folder may be in memory
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as folder:
        with Journal.create(Path(folder) / "db", {"epsilon": "3/10"}) as journal:
            results = commits(journal, Path(folder) / "plain")
        return [*results, *answers(Path(folder) / "whole"), restart(Path(folder) / "long")]


def commits(journal: Journal, plain: Path) -> list[dict[str, Any]]:
    """Medians of rounds in which the disk alone, one thread and many threads take turns."""
    rates: dict[str, list[float]] = {"disk": [], "one": [], "many": []}
    committer = GroupCommit(journal, lambda turn, requests: [_write(turn) for _ in requests])
    with plain.open("wb", buffering=0) as file:
        for _ in range(7):
            rates["disk"].append(_rate(100, lambda: _sync(file)))
            rates["one"].append(_rate(200, lambda: _alone(journal)))
            rates["many"].append(_rate(50, lambda: committer.submit(None), THREADS))
    disk, one, many = (statistics.median(each) for each in rates.values())
    beside = f"the disk alone syncs {disk:.0f} times/s"
    return [
        at_least(
            "durable answers, one thread / 200 a second", 1, one / ALONE, f"{one:.0f}/s; {beside}"
        ),
        at_least(
            "durable answers, 32 threads / 1,000 a second", 1, many / TOGETHER, f"{many:.0f}/s"
        ),
        at_least("durable answers, 32 threads / one thread", 4, many / one, "group commit"),
    ]


def answers(folder: Path) -> list[dict[str, Any]]:
    """From the text of a question to an estimate: no two questions are alike, all have room."""
    people, schema = census(PEOPLE)
    names, chance = ["age", "sex", "income", "condition"], random.Random(1)
    options: dict[str, Any] = {"epsilon": 1, "noise": 200_000, "attributes": names}
    with sc.Database.create(folder, people, schema, **options) as database:

        def ask() -> None:
            low, income = chance.randrange(18, 91), chance.randrange(100_000)
            database.answer(
                f"SELECT COUNT(*) FROM t WHERE age BETWEEN {low} AND {chance.randrange(low, 91)} "
                f"AND income >= {income} AND sex = '{chance.choice(['male', 'female'])}'"
            )

        _rate(20, ask)  # loaded and compiled by now
        one, many = [], []
        for _ in range(5):
            one.append(_rate(200, ask))
            many.append(_rate(50, ask, THREADS))
    alone, together = statistics.median(one), statistics.median(many)
    detail = f"{together:.0f}/s, 32 threads"
    return [
        at_least("whole answers, one thread / 200 a second", 1, alone / ALONE, f"{alone:.0f}/s"),
        at_least("whole answers, 32 threads / 1,000 a second", 1, together / TOGETHER, detail),
    ]


def restart(folder: Path) -> dict[str, Any]:
    """Opening a ledger, and reading and checking all that is in it."""
    with Journal.create(folder, {}) as journal, journal.turn() as turn:
        for _ in range(ENTRIES):
            _write(turn)
    seconds = []
    for _ in range(7):
        begin = time.perf_counter()
        with Journal.open(folder, {}) as journal, journal.turn() as turn:
            assert len(turn.new_entries()) == ENTRIES
            seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds)
    return at_most("restart with 10,000 entries / 2 s", 1, median / RESTART, f"{median:.3f} s")


def _rate(times: int, work: Callable[[], object], threads: int = 1) -> float:
    """How often a second, when each thread does it so many times."""
    crew = [threading.Thread(target=_repeat, args=(times, work)) for _ in range(threads)]
    begin = time.perf_counter()
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return threads * times / (time.perf_counter() - begin)


def _repeat(times: int, work: Callable[[], object]) -> None:
    for _ in range(times):
        work()


def _sync(file: Any) -> None:
    os.pwrite(file.fileno(), b"x" * 300, 0)
    os.fsync(file.fileno())


def _alone(journal: Journal) -> None:
    with journal.turn() as turn:
        _write(turn)


def _write(turn: Any) -> object:
    return turn.append("answer", ANSWER, analyst="ann")
