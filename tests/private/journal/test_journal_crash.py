"""Processes that are killed while they write: what was acknowledged is there, once, and the chain
holds.
"""

from __future__ import annotations

import random
from itertools import cycle
from pathlib import Path

import pytest

from scumble.private.journal.journal import Journal
from tests.support.database.nursery import Nursery

CHILD = "tests.support.database.journal_child"
PROMISE = {"epsilon": "1"}
STEPS = ("begun", "appended", "full", "committed", "done")


@pytest.fixture(scope="module")
def nursery():
    with Nursery(CHILD) as found:
        yield found


def crash(nursery: Nursery, folder: Path, rounds: int, seed: int) -> None:
    """Every other child dies at a named step, in their order; the others at random moments.

    However slow the machine is, a child dies after the entries that it is to acknowledge: all
    rounds together have more than one new entry each.
    """
    chance = random.Random(seed)
    Journal.create(folder, PROMISE).close()
    acknowledged: dict[str, str] = {}
    steps = cycle(STEPS)
    for number in range(rounds):
        # The last key is asked for again: a retry after a crash.
        first = max(0, len(acknowledged) - 1)
        step = next(steps) if number % 2 else ""
        told = nursery.lives(folder, first, step, chance.randrange(6), chance.random() * 0.01)
        assert all(acknowledged.get(key, told[key]) == told[key] for key in told)
        acknowledged |= told
        with Journal.open(folder, PROMISE) as journal:
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


def test_killed_many_times(nursery, place):
    """Twice at each step, and as often at random moments; in a server once."""
    crash(nursery, place, rounds=20 if isinstance(place, Path) else 10, seed=1)


@pytest.mark.slow
def test_killed_two_hundred_times(nursery, place):
    crash(nursery, place, rounds=200 if isinstance(place, Path) else 50, seed=2)


@pytest.mark.soak
def test_killed_five_hundred_times(nursery, place):
    crash(nursery, place, rounds=500 if isinstance(place, Path) else 100, seed=3)


@pytest.mark.parametrize(("step", "there"), [("full", 2), ("committed", 3), ("done", 3)])
def test_a_commit_is_what_counts(nursery, place, step, there):
    """Two turns are finished; the third is in the ledger from its commit on, and not before."""
    Journal.create(place, PROMISE).close()
    told = nursery.lives(place, 0, step)
    assert list(told) == ["k0", "k1"]
    with Journal.open(place) as journal:
        assert len(journal.entries(after=1)) == there
        assert journal.verify() == ()


@pytest.mark.parametrize(("step", "there"), [("begun", 2), ("full", 2), ("committed", 3)])
def test_who_is_killed_does_not_keep_the_place(nursery, place, step, there):
    """A journal that was open all the time takes the next turn, and learns what was committed."""
    with Journal.create(place, PROMISE) as journal:
        nursery.lives(place, 0, step)
        with journal.turn() as turn:
            assert [entry.key for entry in turn.new_entries()] == [f"k{n}" for n in range(there)]
            turn.append("answer", {})
        assert journal.verify() == ()
