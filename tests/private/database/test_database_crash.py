"""Databases that are killed while they answer: every answer that left is paid for, once."""

from __future__ import annotations

import random
from itertools import accumulate, cycle
from pathlib import Path

import pytest

import scumble as sc
from scumble.private.database.inspect import DatabaseInspection
from tests.support.database.database_child import (
    OPTIONS,
    SCHEMA,
    STEPS,
    TABLE,
    VALUES,
    question,
    value_of,
)
from tests.support.database.nursery import Nursery
from tests.support.database.small_database import given

CHILD = "tests.support.database.database_child"
LIMIT = 15
AFTER = [("committed", 3), ("done", 3)]


@pytest.fixture(scope="module")
def nursery():
    with Nursery(CHILD) as found:
        yield found


def crash(nursery: Nursery, folder: Path, rounds: int, seed: int) -> None:
    """Every other asker dies at a named step, in their order; the others at random moments."""
    chance = random.Random(seed)
    sc.Database.create(folder, TABLE, SCHEMA, **OPTIONS).close()
    told: dict[str, str] = {}
    steps = cycle(STEPS)
    for number in range(rounds):
        # The last key is asked for again: a retry after a crash.
        first = max(0, len(told) - 1)
        step = next(steps) if number % 2 else ""
        new_entries = nursery.lives(
            folder, first, step, chance.randrange(1, 5), chance.random() * 0.03
        )
        assert all(told.get(key, new_entries[key]) == new_entries[key] for key in new_entries)
        told |= new_entries
        check(folder, told)
    assert len(told) > rounds
    with sc.Database.open(folder, TABLE) as db:
        for key, value in told.items():  # the very same answers, long after
            if value != "refused":
                assert value_of(db.answer(question(int(key[1:])), key=key)) == value


def check(folder: Path, told: dict[str, str]) -> None:
    """The ledger is whole and holds what left, at most one answer more, and no point too often."""
    with DatabaseInspection(folder) as reading:
        assert reading.verify() == []
        keys = [entry.key for entry in reading.history()]
        status = reading.status()
    paid = {key for key, value in told.items() if value != "refused"}
    assert len(set(keys)) == len(keys)
    assert paid <= set(keys)
    assert len(keys) <= len(paid) + 1
    numbers = given(folder)
    changes = [0] * (VALUES + 1)
    for number in numbers:
        [(low, high)] = number.box.tolist()
        changes[low] += 1
        changes[high + 1] -= 1
    assert max(accumulate(changes)) == status.used <= LIMIT


@pytest.mark.slow
def test_killed_a_hundred_times(nursery, tmp_path):
    crash(nursery, tmp_path / "db", rounds=100, seed=1)


@pytest.mark.soak
def test_killed_five_hundred_times(nursery, tmp_path):
    crash(nursery, tmp_path / "db", rounds=500, seed=2)


@pytest.mark.parametrize(("step", "paid"), [*dict.fromkeys(STEPS[:5], 2).items(), *AFTER])
def test_a_commit_is_what_counts(nursery, tmp_path, step, paid):
    """Two answers have left; the third is paid for from its commit on, and not before. Tried again,
    it is charged once.
    """
    folder = tmp_path / "db"
    sc.Database.create(folder, TABLE, SCHEMA, **OPTIONS).close()
    assert list(nursery.lives(folder, 1, step)) == ["k1", "k2"]
    assert len(given(folder)) == paid
    again = nursery.lives(folder, 2, "begun")
    assert list(again) == ["k2", "k3"]
    numbers = given(folder)
    assert len(numbers) == 3
    assert [float(again[key]) for key in ("k2", "k3")] == [n.value for n in numbers[1:]]
