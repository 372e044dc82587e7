"""After the promise is used up: answers made of answers, and what is said about them."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.private.database.answers import OTHER
from tests.support.database.small_database import (
    AGES,
    POINTS,
    SEXES,
    count,
    covers,
    database,
    given,
    most_popular,
    some_people,
)


@pytest.fixture
def db(tmp_path):
    """Used up where age is 1 to 3: two answers for a point."""
    with database(tmp_path / "db", epsilon=1) as made:
        made.answer(count(0, 3))
        made.answer(count(1, 3))
        yield made


def test_a_relaxed_answer_says_what_it_is(db, tmp_path):
    answer = db.answer(count(2, 3), options=sc.AskOptions(relax="compound"))
    assert answer.status == "relaxed"
    assert answer.answered == "age BETWEEN 1 AND 3"
    assert answer.distance == pytest.approx(1 / 5 / 2)
    assert answer.numbers == 1
    assert answer.value == db.answer(count(1, 3)).value
    assert "moved the lower end of age" in answer.notes
    assert OTHER in answer.notes
    assert answer.counted_instead == "age BETWEEN 1 AND 3"
    moved = "limits moved by 0.1 of the ranges, made of 1 number"
    assert f"relaxed to age BETWEEN 1 AND 3 ({moved}): not what was asked" in repr(answer)
    assert len(given(tmp_path / "db")) == 2


def test_a_difference_of_answers_is_exact(db):
    """[0, 3] less [1, 3] is [0, 0], but that has room of its own; [0, 4] is [0, 3] and a patch."""
    answer = db.answer(count(0, 4), options=sc.AskOptions(relax="compound"))
    assert (answer.status, answer.distance, answer.numbers) == ("relaxed", 0, 2)
    assert answer.counted_instead == ""
    assert OTHER not in answer.notes
    assert answer.answered == "age BETWEEN 0 AND 4"
    made = "made of the answers (age BETWEEN 0 AND 3) + (age = 4)"
    assert answer.notes == ("exactly the box that was asked for", made)
    patch = db.answer(count(4, 4))
    assert patch.status == "repeated"  # it was processed as a question of its own
    assert answer.value == db.answer(count(0, 3)).value + patch.value
    assert answer.law == NoiseSum(DiscreteLaplace(Fraction(4)), {1: 2})


def test_a_relaxed_answer_is_repeated_for_free(db, tmp_path):
    first = db.answer(count(2, 3))
    entries = len(db.history())
    db.answer(count(5, 5))  # what is given out later does not change it
    for _ in range(3):
        again = db.answer(count(2, 3))
        assert (again.value, again.answered, again.interval()) == (
            first.value,
            first.answered,
            first.interval(),
        )
    assert len(db.history()) == entries + 1
    with sc.Database.open(tmp_path / "db", some_people(), seed=1) as other:
        assert other.answer(count(2, 3)).value == first.value


def test_too_far_is_a_refusal_that_names_the_nearest(db, tmp_path):
    before = given(tmp_path / "db")
    with pytest.raises(sc.PromiseError, match="WHERE age BETWEEN 1 AND 3, at a relaxation error"):
        db.answer(count(2, 3), options=sc.AskOptions(max_relaxation_error=0.05))
    assert (
        db.preview(count(2, 3), options=sc.AskOptions(max_relaxation_error=0.05)).status
        == "refused"
    )
    assert (
        db.answer(count(2, 3), options=sc.AskOptions(max_relaxation_error=0.1)).status == "relaxed"
    )
    with pytest.raises(sc.PromiseError):
        db.answer(count(2, 3), options=sc.AskOptions(max_relaxation_error=0.05))
    assert len(given(tmp_path / "db")) == len(before)


def test_refused_in_advance(db, tmp_path):
    db.answer(count(2, 3))
    with pytest.raises(sc.PromiseError, match="relaxation is off"):
        db.answer(count(2, 3), options=sc.AskOptions(relax="refuse"))
    with database(tmp_path / "never", relax=0) as strict:
        for low in range(4):
            strict.answer(count(low, 4))
        with pytest.raises(sc.PromiseError, match="relaxation is off"):
            strict.answer(count(3, 4, "f"))
        assert strict.status().used == 4


def test_weights_decide_what_is_near(tmp_path):
    with database(tmp_path / "db", epsilon=0.5, relax=1) as db:
        db.answer(count(0, 2, "f"))
        db.answer(count(0, 2, "m"))
        near = db.answer("SELECT COUNT(*) FROM t WHERE age BETWEEN 0 AND 1 AND sex = 'm'")
        assert near.answered == "age BETWEEN 0 AND 2 AND sex = 'm'"
        light = db.answer(
            "SELECT COUNT(*) FROM t WHERE age BETWEEN 0 AND 1 AND sex = 'm'",
            options=sc.AskOptions(weights={"age": 0}),
        )
        assert (light.answered, light.distance) == (near.answered, 0)
        assert db.preview(
            count(0, 1, "m"), options=sc.AskOptions(weights={"age": 3})
        ).distance == pytest.approx(0.3)


SOME_BOXES = [
    (low, high, sexes)
    for low, high in product(range(AGES), repeat=2)
    for sexes in ("f", "m", "fm")
    if low <= high
]


def flags(low, high, sexes):
    box = (low, high), (SEXES.index(sexes[0]), SEXES.index(sexes[-1]))
    return [covers(box, point) for point in POINTS]


@pytest.mark.parametrize("relax", ["regression", "compound"])
def test_what_earlier_answers_add_up_to_is_answered_exactly(relax, tmp_path):
    """For every box, against all ways to add, subtract or leave out each of the earlier answers."""
    one = math.sqrt(DiscreteLaplace(Fraction(4)).variance)
    relaxed = exact = 0
    for seed in range(8):
        folder, random = tmp_path / f"db{seed}", np.random.default_rng(seed)
        with database(folder, epsilon=1.5) as db:
            for place in random.integers(0, len(SOME_BOXES), 7):
                if (
                    db.preview(
                        count(*SOME_BOXES[place]), options=sc.AskOptions(relax="refuse")
                    ).status
                    == "answered"
                ):
                    db.answer(count(*SOME_BOXES[place]))
            past = np.array([[covers(each.box, p) for p in POINTS] for each in given(folder)], int)
            signs = np.array(list(product((-1, 0, 1), repeat=len(past))))
            for box in SOME_BOXES:
                cost = db.preview(count(*box), options=sc.AskOptions(relax=relax))
                if cost.status != "relaxed":
                    continue
                relaxed += 1
                adds_up = (signs @ past == flags(*box)).all(axis=1)
                if adds_up.any():
                    exact += 1
                    fewest = int(np.abs(signs[adds_up]).sum(axis=1).min())
                    assert cost.distance == cost.charged == 0
                    assert cost.stderr <= math.sqrt(fewest) * one * (1 + 1e-12)
    assert relaxed > 100
    assert exact > 10


def test_an_exact_answer_says_what_it_is_made_of(tmp_path):
    """The difference, although [1, 3] is a box nearby that takes one answer."""
    with database(tmp_path / "db", epsilon=1) as db:
        values = [db.answer(count(*ends)).value for ends in ((0, 3), (0, 0), (1, 5))]
        answer = db.answer(count(1, 3))
        assert (answer.status, answer.distance, answer.numbers) == ("relaxed", 0, 2)
        assert answer.value == values[0] - values[1]
        assert answer.law == NoiseSum(DiscreteLaplace(Fraction(4)), {1: 2})
        made = "made of the answers (age BETWEEN 0 AND 3) - (age = 0)"
        assert answer.notes == ("exactly the box that was asked for", made)
        assert "exactly as asked, made of 2 numbers" in repr(answer)


def test_a_long_sum_is_listed_in_part(tmp_path):
    with database(tmp_path / "db", epsilon=0.5) as db:
        db.answer("SELECT age, COUNT(*) FROM t WHERE sex = 'f' GROUP BY age")
        db.answer("SELECT age, COUNT(*) FROM t WHERE age < 4 AND sex = 'm' GROUP BY age")
        _, made = db.answer(count(0, 3)).notes
        assert made.endswith(" and 2 more")
        assert made.count(" + ") == 5


def test_prefer_a_box_nearby(tmp_path):
    """The numbers add up to the box, at a larger error than a box that is near it has."""
    with database(tmp_path / "db", epsilon=1, relax=1) as db:
        for sql in (count(0, 1), count(2, 3), count(0, 4)):
            assert db.answer(sql).status == "answered"
        near = db.answer(count(0, 3), options=sc.AskOptions(prefer="near"))
        itself = db.answer(count(0, 3))
        assert near.distance > 0 == itself.distance
        assert itself.answered == "age BETWEEN 0 AND 3"
        assert itself.stderr == pytest.approx(math.sqrt(2) * near.stderr)
        assert itself.law == NoiseSum(DiscreteLaplace(Fraction(4)), [(w, 1) for w in _weights(db)])
        assert db.answer(count(0, 3), options=sc.AskOptions(prefer="exact")).value == itself.value
        compound = db.answer(count(0, 3), options=sc.AskOptions(relax="compound", prefer="near"))
        assert compound.distance == near.distance


def _weights(db: sc.Database) -> list[float]:
    """Of the last answer, as the ledger has them."""
    [piece] = db._journal.entries()[-1].payload["groups"][0]["pieces"]
    return [weight for _, weight in piece["terms"]]


def test_regression_beats_a_compound(tmp_path):
    """The mean of two independent ways to one box has a smaller error than either."""
    with database(tmp_path / "db", epsilon=1) as db:
        for sql in (count(0, 2, "f"), count(0, 2, "m"), count(0, 2)):
            db.answer(sql)
        compound = db.preview(count(0, 1), options=sc.AskOptions(relax="compound"))
        combined = db.preview(count(0, 1), options=sc.AskOptions(relax="regression"))
        assert combined.answered == compound.answered
        assert combined.stderr == pytest.approx(compound.stderr * math.sqrt(2 / 3))


def test_boxes_that_overlap_after_relaxation_are_told(tmp_path):
    """Two boxes become one and the same, or meet: the answer is the sum of both counts."""
    with database(tmp_path / "db", epsilon=0.5, relax=1) as db:
        once = db.answer(count(0, 3))
        twice = db.answer("SELECT COUNT(*) FROM t WHERE age IN (0, 3)")
        assert (twice.value, twice.numbers) == (2 * once.value, 1)
        assert twice.answered == "age BETWEEN 0 AND 3 + age BETWEEN 0 AND 3"
        assert any("overlap" in note for note in twice.notes)
        assert twice.stderr == 2 * once.stderr
        apart = db.answer("SELECT COUNT(*) FROM t WHERE age = 2 OR age = 5")
        assert apart.answered == "age BETWEEN 0 AND 3 OR age = 5"
        assert not any("overlap" in note for note in apart.notes)


def test_without_any_count_the_size_of_the_table_speaks(tmp_path):
    with database(tmp_path / "db", epsilon=0.5) as db:
        db.answer("SELECT SUM(age) FROM t")
        for _ in range(2):
            answer = db.answer(count(0, 2))
            assert (answer.status, answer.value, answer.numbers) == ("relaxed", 20, 0)
            assert answer.interval() == (0, 40)
            assert answer.stderr == 20
            assert "size of the table" in answer.method
            assert "no count helps" in repr(answer)
        assert len(db.history()) == 1
        part = db.answer("SELECT sex, COUNT(*) FROM t GROUP BY sex")
        assert part["f"].value == 20


def test_patches_that_a_question_needs_twice_are_given_out_once(tmp_path):
    """Boxes of one question may ask for patches that meet: all that is planned is counted."""
    with database(tmp_path / "db", epsilon=1, relax=3) as db:
        for sql in (count(0, 2), count(1, 3)):
            db.answer(sql)
        db.answer("SELECT COUNT(*) FROM t WHERE age IN (0, 1, 2, 4) OR age = 5 AND sex = 'f'")
        db.answer("SELECT sex, COUNT(*) FROM t WHERE age <> 3 GROUP BY sex")
        boxes = [(n.kind, n.box.tobytes()) for n in given(tmp_path / "db")]
        assert len(set(boxes)) == len(boxes)
        assert db.status().used == most_popular(tmp_path / "db") == 2


def test_a_table_of_groups_tells_the_status_of_each(db):
    answers = db.answer("SELECT age, COUNT(*) FROM t WHERE age <> 1 GROUP BY age")
    header, *lines = repr(answers).splitlines()
    assert header.split()[-1] == "status"
    fates = {key[0]: estimate.status_label for key, estimate in answers}
    assert fates == {0: "answered", 2: "relaxed", 3: "relaxed", 4: "answered", 5: "answered"}
    assert [line.split()[-1] for line in lines[:5]] == list(fates.values())


def test_boxes_are_relaxed_after_all_others_are_bought(tmp_path):
    """Groups that there is no room for use those that there is room for, whichever come first: the
    same question, asked again, has the same answers.
    """
    schema = sc.Schema([sc.Attribute("n", "quasi", sc.IntegerRange(0, 9))])
    table = pa.table({"n": np.arange(100) % 10})
    for place, taken in enumerate(("n < 5", "n >= 5", "n BETWEEN 3 AND 6")):
        with database(tmp_path / str(place), table, schema=schema, epsilon=0.5) as db:
            db.answer(f"SELECT SUM(n + 1) FROM t WHERE {taken}")
            sql = "SELECT n, COUNT(*) AS c, COUNT_IF(n < 9) AS d FROM t GROUP BY n"
            first, again = (
                db.ask(sql, options=sc.AskOptions(relax="compound")),
                db.ask(sql, options=sc.AskOptions(relax="compound")),
            )
        assert first.charged > 0
        assert again.charged == 0
        cells, repeated = (
            [each for _, row in reply.estimate.rows for each in row] for reply in (first, again)
        )
        labels = {each.status_label for each in cells}
        assert "relaxed" in labels
        assert "not answered" not in labels
        assert [each.value for each in cells] == [each.value for each in repeated]
