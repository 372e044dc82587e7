"""Many who ask a live database at once: the promise holds, and every answer is charged once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

import scumble as sc
from scumble.private.database.live.terms import UNITS
from tests.support.database.live_child import question, value_of
from tests.support.database.live_table import OPTIONS, SCHEMA, assert_promise, assert_same, table

CHILD = "tests.support.database.live_child"
WITHIN = 25


def crowd(folder: Path, processes: int, threads: int, questions: int) -> None:
    """Processes with several threads each ask the same few questions, at an accuracy beyond what
    the promise allows; half of the requests have keys, which all of them share.
    """
    with sc.LiveDatabase.create(folder, table(), SCHEMA, **OPTIONS) as database:
        children = [
            subprocess.Popen(
                [sys.executable, "-m", CHILD, "crowd", folder, str(seed), *map(str, each)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for seed, each in enumerate([(threads, questions)] * processes)
        ]
        for child in children:
            assert child.stdout.readline() == "ready\n"
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        for number in range(questions):  # this process learns what the others buy
            database.ask(question(100 + number), within=WITHIN, key=f"here {number}")
        told = [each for child in children for each in json.loads(child.communicate()[0])]
        assert len(told) == processes * threads * questions
        check(database, [(key, value, charged) for key, value, charged in told])
        with sc.LiveDatabase.open(folder, table()) as other:
            assert other.status() == database.status()
            assert_same(database._state, other._state)
            for key, value, charged in told:
                if key is not None:
                    again = other.ask(question(int(key[1:])), within=WITHIN, key=key)
                    assert (value_of(again), again.charged) == (value, charged)


def check(database: sc.LiveDatabase, told: list[tuple[str | None, str, float]]) -> None:
    """Each key has one answer and one entry; each charge without a key has an entry of its own."""
    assert database.verify() == []
    assert_promise(database)
    entries = database._journal.entries(after=1)
    keys = [entry.key for entry in entries if entry.key]
    assert len(keys) == len(set(keys))
    assert {key for key, _, _ in told if key} <= set(keys)
    answers = {(key, value, charged) for key, value, charged in told if key}
    assert len(answers) == len({key for key, _, _ in answers})
    paid = Counter(round(charged * UNITS) for key, _, charged in told if key is None and charged)
    alone = Counter(_charge(entry.payload["new"]) for entry in entries if not entry.key)
    assert paid == alone
    assert paid
    assert database.status().limited > 0


def _charge(new: list[dict[str, Any]]) -> int:
    """The units of an entry at one point: those of a group, which are disjoint."""
    groups: Counter[int] = Counter()
    for each in new:
        groups[each["count"]] += each["units"]
    return max(groups.values())


def test_processes_and_threads_share_one_promise(tmp_path):
    crowd(tmp_path / "db", processes=2, threads=3, questions=12)


@pytest.mark.slow
def test_four_processes_share_one_promise(tmp_path):
    crowd(tmp_path / "db", processes=4, threads=4, questions=50)


def test_one_key_is_charged_once_however_many_ask(tmp_path):
    """Forty threads in two databases over one folder ask at once, all with one key."""
    start = Barrier(40, timeout=60)
    with (
        sc.LiveDatabase.create(tmp_path / "db", table(), SCHEMA, **OPTIONS) as one,
        sc.LiveDatabase.open(tmp_path / "db", table()) as other,
    ):

        def work(number: int) -> str:
            start.wait()
            database = one if number % 2 else other
            return value_of(database.ask(question(1), within=45, key="the same"))

        with ThreadPoolExecutor(40) as threads:
            assert len(set(threads.map(work, range(40)))) == 1
        assert len(one.history()) == 1
        assert one.status().purchases == 1
        for database in (one, other):
            database.status()
            assert_promise(database)
        assert_same(one._state, other._state)
