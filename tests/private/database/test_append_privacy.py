"""The promise over batches: the exact loss of a person who is in one of them, and decisions that
depend on questions and on the number of batches only.
"""

from __future__ import annotations

import shutil
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import scumble as sc
from scumble.private.database.state import COUNT, PastAnswer
from scumble.private.journal.journal import Journal
from tests.support.database.exact_amounts import (
    EPSILON,
    LIMIT,
    NOISE,
    OPTIONS,
    TRACKERS,
    amount,
    listed,
    rows,
)
from tests.support.database.small_database import AGES, POINTS, count, database, given, most_popular

APPEND = "append"


def random_rows(seed: int, size: int) -> pa.Table:
    places = np.random.default_rng(seed).integers(0, len(POINTS), size)
    return rows([POINTS[place] for place in places])


def loss(numbers: list[PastAnswer], before: dict[int, tuple], after: dict[int, tuple]) -> Fraction:
    """The largest log ratio of the probabilities of one vector of answers, when in some batches a
    row moves from one point to another; all other rows cancel out.
    """
    changes = (
        Fraction(
            abs(amount(number, after[number.batch]) - amount(number, before[number.batch])),
            NOISE * number.times,
        )
        for number in numbers
        if number.batch in before
    )
    return sum(changes, start=Fraction(0))


def exact_loss(numbers: list[PastAnswer], batches: int) -> Fraction:
    """Of a person in one batch, over all pairs of neighbouring databases."""
    return max(
        loss(numbers, {batch: one}, {batch: other})
        for batch in range(1, batches + 1)
        for one, other in product(POINTS, repeat=2)
    )


def test_the_loss_by_enumeration_of_databases():
    """The reasoning of `loss`, checked on all databases of two batches, with two rows and one row,
    and on all answers in a range: no ratio of exact probabilities is above it, and one reaches it.
    A person in both batches loses what both lose together.
    """
    left, right = np.array([[0, 2], [0, 1]]), np.array([[3, 5], [0, 1]])
    numbers = [
        PastAnswer(COUNT, left, 0),
        PastAnswer("sum age+1", left, 0, 6),
        PastAnswer(COUNT, left, 0, batch=2),
        PastAnswer(COUNT, right, 0, batch=2),
    ]
    points = [(0, 0), (2, 1), (5, 0)]
    databases = list(
        product(combinations_with_replacement(points, 2), [(each,) for each in points])
    )
    answers = list(product(range(-1, 4), range(-2, 9), range(-1, 3), range(-1, 3)))
    grid = np.array(answers, np.int64)
    scales = np.array([number.times for number in numbers])
    # In units of 1 / (λ · 6), minus the log of the probability, but for one constant.
    logs = {
        db: (np.abs(grid - [total(n, db) for n in numbers]) * (6 // scales)).sum(axis=1)
        for db in databases
    }
    worst = {1: 0, 2: 0}  # by how many batches differ in one row
    for one, other in product(databases, repeat=2):
        changed = [moves(a, b) for a, b in zip(one, other, strict=True)]
        if max(changed) == 1:
            largest = int(np.abs(logs[one] - logs[other]).max())
            worst[sum(changed)] = max(worst[sum(changed)], largest)
    pairs = list(product(points, repeat=2))
    single = max(loss(numbers, {b: one}, {b: other}) for b in (1, 2) for one, other in pairs)
    both = max(
        loss(numbers, {1: a, 2: c}, {1: b, 2: d}) for (a, b), (c, d) in product(pairs, repeat=2)
    )
    assert Fraction(worst[1], 6 * NOISE) == single
    assert Fraction(worst[2], 6 * NOISE) == both > single


def total(number: PastAnswer, database) -> int:
    return sum(amount(number, row) for row in database[number.batch - 1])


def moves(one, other) -> int:
    """How many rows have to be replaced to make one batch of the other."""
    left = list(other)
    for row in one:
        if row in left:
            left.remove(row)
    return len(left)


@pytest.mark.parametrize("tracker", TRACKERS)
def test_every_batch_loses_the_whole_promise_and_no_more(tmp_path, tracker):
    """Halves of the space in two directions, as often as possible, in both batches; one is used up
    when the other comes.
    """
    halves = ("age < 3", "age >= 3", "sex = 'f'", "sex = 'm'", "age < 2", "age > 3")
    with database(tmp_path / "db", random_rows(1, 20), tracker=tracker, **OPTIONS) as db:
        for turn in range(2):
            for half in halves:
                db.answer(f"SELECT COUNT(*) FROM t WHERE {half}")
            if not turn:
                db.append(random_rows(2, 10))
    numbers = given(tmp_path / "db")
    most = 1 if tracker == "disjoint" else LIMIT
    for batch in (1, 2):
        of_batch = [number for number in numbers if number.batch == batch]
        assert len(of_batch) == 2 * most
        assert exact_loss(of_batch, 2) == Fraction(2 * most, NOISE)
    assert exact_loss(numbers, 2) == Fraction(2 * most, NOISE) <= EPSILON


QUESTIONS = st.one_of(
    st.builds(
        lambda ends, sexes: count(*sorted(ends), sexes),
        st.tuples(st.integers(0, AGES - 1), st.integers(0, AGES - 1)),
        st.sampled_from(["f", "m", "fm"]),
    ),
    st.builds(
        lambda low, plus, kind: f"SELECT {kind}(age + {plus}) FROM t WHERE age >= {low}",
        st.integers(0, 5),
        st.integers(0, 2),
        st.sampled_from(["SUM", "AVG"]),
    ),
    st.sampled_from(
        [
            "SELECT age, COUNT(*) FROM t WHERE sex = 'f' GROUP BY age",
            "SELECT COUNT(*) FROM t WHERE age < 2 AND sex = 'f' OR age > 3",
            "SELECT COUNT(*) FROM t",
            "SELECT COUNT(*) FROM t WHERE age > 9",
        ]
    ),
)
MANNERS = st.fixed_dictionaries(
    {
        "relax": st.sampled_from(["regression", "compound", "refuse"]),
        "prefer": st.sampled_from(["near", "exact"]),
        "max_relaxation_error": st.sampled_from([0.1, float("inf")]),
    }
)
STEPS = st.one_of(
    st.tuples(QUESTIONS, MANNERS), st.tuples(QUESTIONS, MANNERS), st.just((APPEND, {}))
)
SEQUENCES = st.lists(STEPS, min_size=2, max_size=14).filter(
    lambda steps: sum(sql == APPEND for sql, _ in steps) <= 3
)


def fates(db: sc.Database, sequence, seed: int, *, repeat: bool = False) -> list[object]:
    """All that anybody sees of the decisions about a sequence; rows that are added have a public
    number, and are else drawn by the seed.
    """
    seen: list[object] = []
    for place, (sql, manner) in enumerate(sequence):
        if sql == APPEND:
            seen.append(db.append(random_rows(seed + place, 5 + place)))
            continue
        try:
            estimates = listed(db.answer(sql, options=sc.AskOptions(**manner)))
        except sc.PromiseError as refusal:
            seen.append(str(refusal))
        else:
            seen.append([(e.status, e.answered, e.distance, e.numbers) for e in estimates])
            if repeat:
                again = listed(db.answer(sql, options=sc.AskOptions(**manner)))
                assert [str(e.value) for e in again] == [str(e.value) for e in estimates]
                assert [e.interval() for e in again] == [e.interval() for e in estimates]
    return seen


def bought(folder) -> list[object]:
    return [(n.batch, n.kind, n.box.tolist(), n.times) for n in given(folder)]


def keeps_the_promise(folder, sequence, tracker: str, other: int) -> None:
    """No point is covered too often in any batch, the exact loss over all neighbours is at most ε,
    repeats are identical and free, and nothing that was decided changes when all rows of all
    batches are replaced by random ones of the same number.
    """
    try:
        with database(folder / "one", random_rows(7, 40), tracker=tracker, **OPTIONS) as db:
            decided = fates(db, sequence, 100, repeat=True)
            status = db.status()
            assert status.used >= most_popular(folder / "one")
            assert db.verify() == []
        with database(
            folder / "two", random_rows(other, 40), tracker=tracker, seed=other, **OPTIONS
        ) as db:
            assert fates(db, sequence, other) == decided
            assert db.status().used_in_batches == status.used_in_batches
        assert most_popular(folder / "one") <= LIMIT
        assert exact_loss(given(folder / "one"), status.batches) <= EPSILON
        assert bought(folder / "one") == bought(folder / "two")
    finally:
        shutil.rmtree(folder)


@settings(max_examples=15)
@drawn(sequence=SEQUENCES, tracker=st.sampled_from(TRACKERS), other=st.integers(0, 10**6))
def test_any_sequence_keeps_the_promise(tmp_path_factory, sequence, tracker, other):
    keeps_the_promise(tmp_path_factory.mktemp("sequence"), sequence, tracker, other)


@pytest.mark.slow
@settings(max_examples=70)
@drawn(sequence=SEQUENCES, tracker=st.sampled_from(TRACKERS), other=st.integers(0, 10**6))
def test_many_sequences_keep_the_promise(tmp_path_factory, sequence, tracker, other):
    keeps_the_promise(tmp_path_factory.mktemp("sequence"), sequence, tracker, other)


@pytest.mark.soak
@settings(max_examples=200)
@drawn(sequence=SEQUENCES, tracker=st.sampled_from(TRACKERS), other=st.integers(0, 10**6))
def test_hundreds_of_sequences_keep_the_promise(tmp_path_factory, sequence, tracker, other):
    keeps_the_promise(tmp_path_factory.mktemp("sequence"), sequence, tracker, other)


def test_alike_batches_look_different_in_the_ledger(tmp_path):
    """Who reads it must not learn that a batch is one that they can guess; nor is one refused."""
    table = random_rows(3, 10)
    with database(tmp_path / "db", table) as db:
        assert [db.append(table), db.append(table)] == [2, 3]
    with Journal.open(tmp_path / "db") as journal:
        found = [entry.payload for entry in journal.entries(kind=APPEND)]
        first = journal.promise["data"]
    assert all(set(payload) == {"batch", "salt", "data"} for payload in found)
    assert len({first, *(payload["data"] for payload in found)}) == 3
    assert len({payload["salt"] for payload in found}) == 2


def test_noise_of_batches_is_independent(tmp_path):
    """600 counts of nothing in two batches without rows: pairs of equal numbers are as rare as for
    independent noise. With λ = 40 they have probability 0.00625; more than 30 of 600 has
    probability below 1e-17, and would be sure if noise were used twice.
    """
    schema = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(0, 599))])
    nothing = pa.table({"age": pa.array([], pa.int64())})
    with database(tmp_path / "db", nothing, schema=schema, noise=40) as db:
        db.append(nothing)
        db.answer("SELECT age, COUNT(*) FROM t GROUP BY age")
    numbers = given(tmp_path / "db")
    values = [[n.value for n in numbers if n.batch == batch] for batch in (1, 2)]
    assert [len(each) for each in values] == [600, 600]
    assert sum(one == other for one, other in zip(*values, strict=True)) <= 30
