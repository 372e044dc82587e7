"""Live databases that are killed while they answer: what left is paid for, once, and what others
know of it is the same, bit by bit.
"""

from __future__ import annotations

import random
from itertools import cycle
from pathlib import Path

import pytest

import scumble as sc
from scumble.private.database.live.inspect import LiveInspection
from tests.support.database.live_child import STEPS, question, table, value_of
from tests.support.database.live_table import OPTIONS, SCHEMA, assert_promise, assert_same
from tests.support.database.nursery import Nursery


@pytest.fixture(scope="module")
def nursery():
    with Nursery("tests.support.database.live_child") as found:
        yield found


def crash(nursery: Nursery, folder: Path, rounds: int, seed: int) -> None:
    """Every other asker dies at a named step, in their order; the others at random moments. One
    that stays alive reads what they write.
    """
    with sc.LiveDatabase.create(folder, table(), SCHEMA, **OPTIONS) as witness:
        _crash(nursery, folder, rounds, random.Random(seed), witness)


def _crash(
    nursery: Nursery, folder: Path, rounds: int, chance: random.Random, witness: sc.LiveDatabase
) -> None:
    told: dict[str, str] = {}
    steps = cycle(STEPS)
    for number in range(rounds):
        first = max(0, len(told) - 1)  # the last key is asked for again: a retry after a crash
        step = next(steps) if number % 2 else ""
        new = nursery.lives(folder, first, step, chance.randrange(1, 5), chance.random() * 0.03)
        assert all(told.get(key, new[key]) == new[key] for key in new)
        told |= new
        witness.status()
    with LiveInspection(folder) as reading:
        assert reading.verify() == []
        keys = [entry.key for entry in reading.history()]
        status = reading.status()
    charged = {each.key: each.payload["new"] for each in witness._journal.entries(after=1)}
    for key, value in told.items():  # with assert_promise: the counters have all that was seen
        fresh, new = value.partition("|")[2], charged[key]
        if any("column" in each for each in new):  # a sum is made of two numbers
            assert (fresh != "") == (len({each.get("column") for each in new}) == 2)
        else:
            assert fresh == "/".join(repr(float(each["value"])) for each in new)
    assert len(set(keys)) == len(keys)
    assert set(told) <= set(keys)
    assert len(keys) <= len(told) + 1
    assert status.used < 1
    with sc.LiveDatabase.open(folder, table()) as database:
        assert database.status() == status
        assert_promise(database)
        assert_same(witness._current(), database._current())
        for key, value in told.items():  # the very same answers, long after
            asked = database.ask(question(int(key[1:])), within=45, key=key)
            assert value_of(asked) == value


def test_killed_at_every_step(nursery, tmp_path):
    crash(nursery, tmp_path / "db", rounds=2 * len(STEPS), seed=1)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(each, marks=pytest.mark.slow if each == 2 else pytest.mark.soak)
        for each in range(2, 11)
    ],
)
def test_killed_five_hundred_times(nursery, tmp_path, seed):
    crash(nursery, tmp_path / "db", rounds=60, seed=seed)
