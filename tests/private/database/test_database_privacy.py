"""The promise itself: the exact loss of everything that was given out, for all neighbours; and
decisions that depend on questions only.
"""

from __future__ import annotations

import re
import shutil
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
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
from tests.support.database.small_database import (
    AGES,
    POINTS,
    count,
    covers,
    database,
    given,
    most_popular,
)
from tests.support.goodness import rejects_law


def exact_loss(numbers: list[PastAnswer]) -> Fraction:
    """The largest log ratio of the probabilities of one and the same vector of answers, over all
    pairs of neighbouring tables: each number has discrete Laplace noise of scale λ · times, whose
    ratio is exp(|difference| / scale) as soon as the answer lies on one side of both true values.

    Neighbours differ in one row, so all other rows cancel out, whatever they are.
    """
    return max(
        sum(
            (
                Fraction(abs(amount(number, one) - amount(number, other)), NOISE * number.times)
                for number in numbers
            ),
            start=Fraction(0),
        )
        for one, other in product(POINTS, repeat=2)
    )


def test_the_loss_by_enumeration_of_tables():
    """The reasoning of `exact_loss`, checked on all tables of two rows and all answers in a range:
    no ratio of exact probabilities is above it, and one reaches it.
    """
    whole = np.array([[0, 5], [0, 1]])
    numbers = [
        PastAnswer(COUNT, np.array([[0, 2], [0, 1]]), 0),
        PastAnswer("sum age+1", whole, 0, 6),
    ]
    tables = list(combinations_with_replacement([(0, 0), (2, 1), (5, 0)], 2))
    worst = Fraction(0)
    for one, other in product(tables, repeat=2):
        if len(set(one) & set(other)) or one == other:
            true = [[sum(amount(n, row) for row in t) for n in numbers] for t in (one, other)]
            for answer in product(range(-3, 6), range(-20, 40)):
                # log P(answer) is minus this, and the same constant for both tables.
                logs = [
                    sum(
                        Fraction(abs(a - t), NOISE * n.times)
                        for a, t, n in zip(answer, values, numbers, strict=True)
                    )
                    for values in true
                ]
                worst = max(worst, abs(logs[0] - logs[1]))
    neighbours = [(0, 0), (2, 1), (5, 0)]
    claimed = max(
        sum(Fraction(abs(amount(n, a) - amount(n, b)), NOISE * n.times) for n in numbers)
        for a, b in product(neighbours, repeat=2)
    )
    assert worst == claimed <= exact_loss(numbers)


@pytest.mark.parametrize("tracker", TRACKERS)
def test_what_is_used_up_is_the_promise(tmp_path, tracker):
    """Halves of the space, each counted as often as possible: the exact loss is 2 c / λ."""
    with database(tmp_path / "db", tracker=tracker, **OPTIONS) as db:
        for number in range(4):
            for half in ("age < 3", "age >= 3"):
                try:
                    db.answer(f"SELECT SUM(age + {number}) FROM t WHERE {half}")
                except sc.PromiseError:
                    assert number >= (1 if tracker == "disjoint" else LIMIT)
    loss = exact_loss(given(tmp_path / "db"))
    most = {"exact": LIMIT, "histogram": LIMIT, "disjoint": 1}[tracker]
    # A sum of age + n has noise for 5 + n, and (5 + n) + (2 + n) is less than twice that.
    assert Fraction(most, NOISE) < loss <= Fraction(2 * most, NOISE) <= EPSILON


QUESTIONS = st.one_of(
    st.builds(
        lambda ends, sexes: count(*sorted(ends), sexes),
        st.tuples(st.integers(0, 5), st.integers(0, 5)),
        st.sampled_from(["f", "m", "fm"]),
    ),
    st.builds(
        lambda low, plus, kind: f"SELECT {kind}(age + {plus}) FROM t WHERE age >= {low}",
        st.integers(0, 5),
        st.integers(0, 2),
        st.sampled_from(["SUM", "AVG"]),
    ),
    st.builds(
        lambda ages: f"SELECT COUNT(*) FROM t WHERE age IN ({', '.join(map(str, ages))})",
        st.sets(st.integers(0, 5), min_size=1),
    ),
    st.sampled_from(
        [
            "SELECT age, COUNT(*) FROM t WHERE sex = 'f' GROUP BY age",
            "SELECT sex, COUNT(*) FROM t WHERE age <> 1 GROUP BY sex",
            "SELECT COUNT(*) FROM t WHERE age < 2 AND sex = 'f' OR age > 3",
            "SELECT COUNT(*) FROM t",
            "SELECT COUNT(*) FROM t WHERE age > 9",
        ]
    ),
)
COMPOSITE = st.sampled_from(
    [
        "SELECT COUNT(*) AS n, SUM(age + 1) AS s FROM t WHERE age > 2",
        "SELECT sex, COUNT(*), AVG(age + 2) FROM t GROUP BY ROLLUP (sex) ORDER BY 2 LIMIT 2",
        "SELECT COUNT(*) FILTER (WHERE age < 2) - COUNT(*) FILTER (WHERE sex = 'f') FROM t",
        "SELECT MEDIAN(age), COUNT(*) FROM t WHERE sex = 'm'",
        "SELECT sex, MEDIAN(age) AS m FROM t WHERE age < 5 GROUP BY sex",
        "SELECT VAR_POP(age) FROM t WHERE age < 4",
        "SELECT sex, SUM(age * age) AS s FROM t WHERE age <> 3 GROUP BY sex",
        "SELECT AVG((age - 2) * (age - 3)) FROM t WHERE age < 4",
        "SELECT age > 2, COUNT(*) AS n FROM t GROUP BY 1 HAVING n > 3",
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE age = 1) FROM t WHERE age + ascii(sex) % 2 > 2",
        "SELECT SUM(CASE WHEN sex = 'f' THEN age / 2.0 ELSE 1 END) FROM t",
    ]
)
MANNERS = st.fixed_dictionaries(
    {
        "relax": st.sampled_from(["regression", "compound", "refuse"]),
        "prefer": st.sampled_from(["near", "exact"]),
        "max_relaxation_error": st.sampled_from([0.0, 0.1, float("inf")]),
        "weights": st.sampled_from([None, {"age": 2.0}]),
    }
)
SEQUENCES = st.lists(st.tuples(QUESTIONS, MANNERS), min_size=1, max_size=14)
COMPOSITES = st.lists(st.tuples(COMPOSITE | QUESTIONS, MANNERS), min_size=4, max_size=8)


def fates(db: sc.Database, sequence, *, repeat: bool = False) -> list[object]:
    """All that anybody sees of the decisions about a sequence of questions.

    Which groups ORDER BY, LIMIT and HAVING show depends on noisy numbers. All of them are shown by
    the question without these, which is a repeat.
    """
    seen: list[object] = []
    for sql, manner in sequence:
        try:
            answer = db.ask(sql, options=sc.AskOptions(**manner))
        except sc.PromiseError as refusal:
            seen.append(str(refusal))
        else:
            decided = estimates = listed(answer.estimate)
            plain = re.split(" ORDER BY| HAVING", sql)[0]
            if plain != sql:
                whole = db.ask(plain, options=sc.AskOptions(**manner))
                assert whole.charged == 0
                decided = listed(whole.estimate)
            fate = [(e.status, e.answered, e.distance, e.numbers) for e in decided]
            seen.append((answer.status, answer.charged, fate))
            if repeat:
                again = listed(db.answer(sql, options=sc.AskOptions(**manner)))
                assert [str(e.value) for e in again] == [str(e.value) for e in estimates]
                assert [e.interval() for e in again] == [e.interval() for e in estimates]
    return seen


def keeps_the_promise(folder: Path, sequence, tracker: str, other: int) -> None:
    """No point is covered too often, the exact loss over all neighbours is at most ε, repeats are
    identical and free, and nothing that was decided changes when the data are replaced by random
    ones of the same number.
    """
    random = np.random.default_rng(other)
    data = [POINTS[place] for place in random.integers(0, len(POINTS), 40)]
    try:
        with database(folder / "one", tracker=tracker, **OPTIONS) as db:
            decided = fates(db, sequence, repeat=True)
            assert db.status().used >= most_popular(folder / "one")
            assert db.verify() == []
        with database(folder / "two", rows(data), tracker=tracker, seed=other, **OPTIONS) as db:
            assert fates(db, sequence) == decided
        assert most_popular(folder / "one") <= LIMIT
        assert exact_loss(given(folder / "one")) <= EPSILON
        assert boxes(folder / "one") == boxes(folder / "two")
    finally:
        shutil.rmtree(folder)


@settings(max_examples=20)
@drawn(sequence=SEQUENCES, tracker=st.sampled_from(TRACKERS), other=st.integers(0, 10**6))
def test_any_sequence_keeps_the_promise(tmp_path_factory, sequence, tracker, other):
    keeps_the_promise(tmp_path_factory.mktemp("sequence"), sequence, tracker, other)


@settings(max_examples=4)
@drawn(sequence=COMPOSITES, tracker=st.sampled_from(TRACKERS), other=st.integers(0, 10**6))
def test_sequences_of_several_numbers_keep_the_promise(tmp_path_factory, sequence, tracker, other):
    keeps_the_promise(tmp_path_factory.mktemp("sequence"), sequence, tracker, other)


def _many(place: Path, strategy: st.SearchStrategy[object], examples: int) -> None:
    """Check drawn sequences, as many as `examples`."""

    @settings(max_examples=examples)
    @drawn(sequence=strategy, tracker=st.sampled_from(TRACKERS), other=st.integers(0, 10**6))
    def one(sequence, tracker, other):
        keeps_the_promise(Path(mkdtemp(dir=place)), sequence, tracker, other)

    one()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "examples"), [(COMPOSITES, 40), (SEQUENCES, 100)], ids=["several numbers", "any"]
)
def test_many_sequences_keep_the_promise(tmp_path, strategy, examples):
    _many(tmp_path, strategy, examples)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("strategy", "examples"), [(COMPOSITES, 100), (SEQUENCES, 300)], ids=["several numbers", "any"]
)
def test_hundreds_of_sequences_keep_the_promise(tmp_path, strategy, examples):
    _many(tmp_path, strategy, examples)


def boxes(folder: Path) -> list[object]:
    return [(number.kind, number.box.tolist(), number.times) for number in given(folder)]


@pytest.mark.parametrize("seed", range(6))
def test_questions_that_depend_on_answers(tmp_path, seed):
    """An analyst who asks where the last answer was large, until nothing new comes: relaxations
    with artificial patches are charged like everything else.
    """
    with database(tmp_path / "db", seed=seed, **OPTIONS) as db:
        low, high, bought = 0, AGES - 1, 0
        for turn in range(30):
            middle = (low + high) // 2
            answer = db.answer(count(low, middle, "f" if turn % 3 else "fm"))
            bought += answer.status == "relaxed" and db.history()[-1].charged
            low, high = (low, middle) if answer.value > 5 else (middle + 1, high)
            if low >= high:
                low, high = sorted((int(answer.value) % AGES, (turn * seed) % AGES))
        assert db.status().relaxed
    assert most_popular(tmp_path / "db") == LIMIT
    assert 0 < exact_loss(given(tmp_path / "db")) <= EPSILON


@pytest.mark.parametrize(("what", "times"), [("COUNT(*)", 1), ("SUM(age)", 10_000)])
def test_noise_has_the_law_that_the_proof_needs(tmp_path, what, times):
    """10,000 numbers about an empty table are noise alone: chi-square against the exact law, cut at
    its twentieths. False alarms: 1e-6. A scale that is a tenth too small or too large is found.
    """
    schema = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(1, 10_000))])
    nothing = pa.table({"age": pa.array([], pa.int64())})
    with database(tmp_path / "db", nothing, schema=schema, noise=40) as db:
        db.answer(f"SELECT age, {what} FROM t GROUP BY age")
    numbers = given(tmp_path / "db")
    assert len(numbers) == 10_000
    assert {number.times for number in numbers} == {times}
    values = np.array([number.value for number in numbers])

    def is_off(scale: Fraction) -> bool:
        law = DiscreteLaplace(scale)
        edges = [int(law.quantile(share / 20)) for share in range(1, 20)]
        return rejects_law(values, law.cdf, edges)

    scale = Fraction(40 * times)
    assert not is_off(scale)
    assert is_off(scale * 10 / 9)
    assert is_off(scale * 10 / 11)


def test_single_counts_have_noise_of_their_own(tmp_path):
    """600 counts of nothing, one question each: pairs of neighbours are equal as rarely as
    independent noise is. With λ = 40 that has probability 0.00625; more than 30 of 599 has
    probability below 1e-17. Noise for such counts is drawn 256 numbers at a time.
    """
    schema = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(0, 599))])
    nothing = pa.table({"age": pa.array([], pa.int64())})
    with database(tmp_path / "db", nothing, schema=schema, noise=40) as db:
        asked = [db.prepare(f"SELECT COUNT(*) FROM t WHERE age = {age}") for age in range(600)]
        db.ask_all([each for each in asked if each is not None])
    values = [number.value for number in given(tmp_path / "db")]
    assert len(values) == 600
    assert sum(one == other for one, other in pairwise(values)) <= 30


def test_sums_have_the_noise_of_the_largest_absolute_amount(tmp_path):
    """A row with the amount -100 changes a sum by 100, although no amount is above 5."""
    schema = sc.Schema([sc.Attribute("balance", "quasi", sc.IntegerRange(-100, 5))])
    table = pa.table({"balance": [-100, -3, 0, 5]})
    with database(tmp_path / "db", table, schema=schema) as db:
        answer = db.answer("SELECT SUM(balance) FROM t")
    [number] = given(tmp_path / "db")
    assert number.times == 100
    assert answer.stderr == pytest.approx(DiscreteLaplace(Fraction(4 * 100)).stderr)


def test_the_ledger_never_holds_a_true_count(tmp_path):
    """Each number of the ledger is the truth with noise: over many numbers, few are the truth.

    With λ = 40 the truth itself is drawn with probability 1/80; more than 15 of 60 has
    probability below 1e-12.
    """
    table = rows([POINTS[0]] * 977 + [POINTS[7]] * 23)
    with database(tmp_path / "db", table, epsilon=1, noise=40) as db:
        fates(
            db,
            [
                (count(low, high, sex), {})
                for low in range(6)
                for high in range(low, 6)
                for sex in "fm"
            ],
        )
    numbers = given(tmp_path / "db")
    data = [POINTS[0]] * 977 + [POINTS[7]] * 23
    true = sum(n.value == sum(covers(n.box, point) for point in data) for n in numbers)
    assert len(numbers) > 30
    assert true <= 15
    with Journal.open(tmp_path / "db") as journal:
        assert set(journal.promise) == {"terms", "attributes", "schema", "outside", "data"}
