"""Processes that are killed while they write: what was acknowledged is there, once, and the chain
holds.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path

import pytest

from scumble.database.journal import Journal

CHILD = Path(__file__).with_name("ledger_child.py")
PROMISE = {"epsilon": "1"}
STEPS = ("begun", "appended", "full", "committed", "done")
RESTART = 2  # seconds


def run_and_kill(folder: Path, first: int, step: str, chance: random.Random) -> dict[str, str]:
    """The hashes by key that a child acknowledged before it died, at a step or at any moment."""
    command = [sys.executable, str(CHILD), "append", str(folder), str(first)]
    with subprocess.Popen(
        [*command, step] if step else command, stdout=subprocess.PIPE, text=True
    ) as child:
        lines = []
        if not step:
            lines = [child.stdout.readline() for _ in range(chance.randrange(4))]
            time.sleep(chance.random() * 0.01)
            child.kill()
        lines += child.stdout.readlines()
        assert child.wait() == -9
    return dict(line.split() for line in lines)


def crash(folder: Path, rounds: int, seed: int) -> None:
    """Every other child dies at a named step, in their order; the others at random moments."""
    chance = random.Random(seed)
    Journal.create(folder, PROMISE).close()
    acknowledged: dict[str, str] = {}
    steps = cycle(STEPS)
    for number in range(rounds):
        # The last key is asked for again: a retry after a crash.
        first = max(0, len(acknowledged) - 1)
        told = run_and_kill(folder, first, next(steps) if number % 2 else "", chance)
        assert all(acknowledged.get(key, told[key]) == told[key] for key in told)
        acknowledged |= told
        begin = time.monotonic()
        with Journal.open(folder, PROMISE) as journal:
            assert time.monotonic() - begin < RESTART
            check(journal, acknowledged)
    assert len(acknowledged) > rounds


def check(journal: Journal, acknowledged: dict[str, str]) -> None:
    assert journal.verify() == ()
    entries = journal.entries(after=1)
    there = {entry.key: entry.hash for entry in entries}
    assert len(there) == len(entries)
    assert acknowledged.items() <= there.items()
    # A child dies in the middle of one turn at most, so at most one entry was not acknowledged.
    assert len(there) <= len(acknowledged) + 1


def test_killed_a_hundred_times(tmp_path):
    crash(tmp_path / "db", rounds=100, seed=1)


@pytest.mark.slow
def test_killed_five_hundred_times(tmp_path):
    crash(tmp_path / "db", rounds=500, seed=2)


@pytest.mark.parametrize(("step", "there"), [("full", 2), ("committed", 3), ("done", 3)])
def test_a_commit_is_what_counts(tmp_path, step, there):
    """Two turns are finished; the third is in the ledger from its commit on, and not before."""
    Journal.create(tmp_path / "db", PROMISE).close()
    told = run_and_kill(tmp_path / "db", 0, step, random.Random(0))
    assert list(told) == ["k0", "k1"]
    with Journal.open(tmp_path / "db") as journal:
        assert len(journal.entries(after=1)) == there
        assert journal.verify() == ()
