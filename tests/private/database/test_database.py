"""A session with a database: what is answered, repeated, free, summed, averaged, grouped."""

from __future__ import annotations

import math
import secrets
from inspect import signature

import numpy as np
import pytest

import scumble as sc
from scumble.private.journal.journal import Journal
from tests.support.database.small_database import (
    SCHEMA,
    count,
    database,
    given,
    most_popular,
    some_people,
    truth,
)


@pytest.fixture
def db(tmp_path):
    with database(tmp_path / "db") as made:
        yield made


def test_an_answer_says_what_became_of_the_question(db):
    answer = db.answer(count(1, 3))
    assert (answer.status, answer.distance, answer.numbers) == ("answered", 0, 1)
    assert answer.answered == "age BETWEEN 1 AND 3"
    assert answer.value == round(answer.value)
    assert answer.stderr == pytest.approx(math.sqrt(0.5) / math.sinh(1 / 8))
    assert answer.to_dict()["status"] == "answered"
    assert "answered as asked" in repr(answer)


def test_a_repeat_is_the_same_number_and_costs_nothing(db, tmp_path):
    """However it is spelled, and also as a part of another question."""
    first = db.answer(count(1, 3))
    for sql in (
        count(1, 3),
        "SELECT COUNT(*) FROM people WHERE age IN (1, 2, 3)",
        "SELECT COUNT(*) FROM t WHERE NOT (age < 1 OR age > 3)",
    ):
        again = db.answer(sql)
        assert (again.status, again.value, again.interval()) == (
            "repeated",
            first.value,
            first.interval(),
        )
    more = db.answer("SELECT COUNT(*) FROM t WHERE age BETWEEN 1 AND 3 OR age = 5")
    assert (more.status, more.numbers) == ("answered", 2)
    assert len(given(tmp_path / "db")) == 2
    assert len(db.history()) == 2


def test_the_number_of_rows_is_public_and_free(db, tmp_path):
    for sql in ("SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t WHERE age >= 0"):
        answer = db.answer(sql)
        assert (answer.value, answer.stderr, answer.status) == (40, 0, "answered")
    assert db.preview("SELECT COUNT(*) FROM t").charged == 0
    assert given(tmp_path / "db") == []


def test_the_number_of_rows_is_not_public_where_rows_are_dropped(tmp_path):
    """One person more or less may be left out, so the count of the rest has noise and a price."""
    schema = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(0, 3))])
    rows = some_people().select(["age"])
    with database(tmp_path / "db", rows, schema=schema, outside="drop") as db:
        assert db.answer("SELECT COUNT(*) FROM t").stderr > 0
        assert db.status().used == 1
    with database(tmp_path / "other", rows, schema=schema, outside="drop") as db:
        for number in range(4):
            db.answer(f"SELECT SUM(age + {number}) FROM t")
        assert math.isnan(db.answer("SELECT COUNT(*) FROM t WHERE age = 1").value)


def test_what_is_always_false_is_zero_and_free(db, tmp_path):
    answer = db.answer("SELECT COUNT(*) FROM t WHERE age > 3 AND age < 2")
    assert (answer.value, answer.stderr, answer.answered) == (0, 0, "FALSE")
    assert math.isnan(db.answer("SELECT SUM(age) FROM t WHERE 1 = 0").value)  # NULL, as in SQL
    assert math.isnan(db.answer("SELECT AVG(age) FROM t WHERE age < 0").value)
    assert len(db.answer("SELECT sex, COUNT(*) FROM t WHERE age < 0 GROUP BY sex")) == 0
    assert given(tmp_path / "db") == []
    assert db.history() == []


def test_groups_are_disjoint_and_cost_one_unit(db):
    answers = db.answer("SELECT age, sex, COUNT(*) FROM t WHERE age <> 2 GROUP BY age, sex")
    assert len(answers) == 10
    assert {estimate.status for _, estimate in answers} == {"answered"}
    assert db.status().used == 1
    again = db.answer("SELECT COUNT(*) FROM t WHERE age = 4 AND sex = 'f'")
    assert (again.status, again.value) == ("repeated", answers[4, "f"].value)


def test_a_union_is_the_sum_of_disjoint_boxes(db):
    answer = db.answer("SELECT COUNT(*) FROM t WHERE age IN (0, 1, 4) OR age = 5 AND sex = 'm'")
    parts = [
        db.answer(f"SELECT COUNT(*) FROM t WHERE {part}") for part in answer.answered.split(" OR ")
    ]
    assert {part.status for part in parts} == {"repeated"}
    assert sum(part.value for part in parts) == answer.value
    assert answer.stderr == pytest.approx(math.sqrt(len(parts)) * parts[0].stderr)
    assert db.status().used == 1


def test_sums_and_averages(tmp_path):
    table = some_people(20_000)
    with database(tmp_path / "db", table) as db:
        total = db.answer("SELECT SUM(age) FROM t WHERE sex = 'f'")
        ages = np.asarray(table["age"])[np.asarray(table["sex"]) == "f"]
        assert total.stderr == pytest.approx(math.sqrt(2) * 4 * 5, rel=0.01)
        assert abs(total.value - ages.sum()) < 30 * total.stderr
        average = db.answer("SELECT AVG(age) FROM t WHERE sex = 'f'")
        assert average.value == total.value / db.answer(count(0, 5, "f")).value
        low, high = average.interval()
        assert low <= average.value <= high
        assert db.status().used == 2
        assert len(given(tmp_path / "db")) == 2
        everybody = db.answer("SELECT AVG(age) FROM t")  # the count is known
        assert everybody.numbers == 1
        wide = everybody.interval(0.9999)
        assert wide[0] < np.asarray(table["age"]).mean() < wide[1]
        for what in ("SUM(age)", "COUNT(*)", "SUM(age * age)"):  # three numbers about one box
            answer = db.answer(f"SELECT {what} FROM t WHERE sex = 'm' AND age > 2")
            assert answer.status == "answered"


def test_sums_are_exact_beyond_64_bits(tmp_path):
    """The noise has probability below 1e-30 of hiding an error of 2**62."""
    with database(tmp_path / "db", some_people(5000)) as db:
        big = 2**51
        answer = db.answer(f"SELECT SUM(CASE WHEN sex = 'f' THEN {big} ELSE {-big} END) FROM t")
        women = truth(some_people(5000), "sex = 'f'")
        assert abs(answer.value - (2 * women - 5000) * big) < 2**60


def test_an_average_is_of_the_same_rows_or_refused(db, tmp_path):
    """With one unit left, neither its sum nor its count is given out."""
    for sql in (count(0, 4), count(1, 4), count(2, 4)):
        db.answer(sql)
    before = len(given(tmp_path / "db"))
    for sql in ("SELECT AVG(age) FROM t WHERE age = 3", "SELECT AVG(age) FROM t WHERE age > 0"):
        with pytest.raises(
            sc.PromiseError, match="a sum, an average, a quantile or a share cannot"
        ):
            db.answer(sql)
    assert len(given(tmp_path / "db")) == before
    assert db.answer("SELECT SUM(age) FROM t WHERE age = 3").status == "answered"
    with pytest.raises(sc.PromiseError):
        db.answer("SELECT SUM(age + 1) FROM t WHERE age = 3")
    assert db.status().used == most_popular(tmp_path / "db") == 4


def test_status_and_history(db):
    db.answer(count(0, 2))
    db.answer(count(0, 2))
    db.answer(count(1, 2), key="k")
    facts = db.status()
    assert facts.limit == 4
    assert (facts.used, facts.answered, facts.numbers) == (2, 2, 2)
    assert [entry.sql for entry in db.history()] == [count(0, 2), count(1, 2)]
    assert db.verify() == []


GROUPS = "SELECT age, sex, COUNT(*) FROM t GROUP BY age, sex"


def sizes(folder) -> list[tuple[str, int]]:
    """The kind of each entry after the promise, and the bytes of its text."""
    with Journal.open(folder) as journal:
        return [(entry.kind, len(entry.text)) for entry in journal.entries(after=1)]


def test_a_repeat_with_a_new_key_stores_the_number_of_the_first_entry(db, tmp_path):
    first = db.ask(GROUPS, key="k0", options=sc.AskOptions(analyst="ada"))
    free = repr(db.answer(GROUPS, options=sc.AskOptions(analyst="ada")))
    for number in range(1, 4):
        again = db.ask(GROUPS, key=f"k{number}", options=sc.AskOptions(analyst="ada"))
        assert (repr(again.estimate), again.status, again.charged) == (free, "repeated", 0)
    [(_, whole), *others] = sizes(tmp_path / "db")
    assert whole > 1000
    assert [kind for kind, _ in others] == ["repeat"] * 3
    assert max(size for _, size in others) < 100
    assert db.status().repeated == 3
    assert [event.sql for event in db.history()] == [GROUPS] * 4
    assert [event.charged for event in db.history()] == [first.charged, 0, 0, 0]
    with sc.Database.open(tmp_path / "db", some_people(), seed=1) as other:
        again = other.ask(GROUPS, key="k2", options=sc.AskOptions(analyst="ada"))
        assert (repr(again.estimate), again.status, again.charged) == (free, "repeated", 0)
        assert (
            other.ask(GROUPS, key="k0", options=sc.AskOptions(analyst="ada")).charged
            == first.charged
        )
        for sql, analyst in ((count(1, 2), "ada"), (GROUPS, "bob")):
            with pytest.raises(sc.ParameterError, match="another question, analyst, side table"):
                other.answer(sql, key="k2", options=sc.AskOptions(analyst=analyst))
        assert other.verify() == []
    assert len(sizes(tmp_path / "db")) == 4


def test_only_an_answer_that_is_the_same_is_referred_to(db, tmp_path):
    """Another analyst, other options and other rows make an entry of their own, once."""
    db.answer(GROUPS, key="k0", options=sc.AskOptions(analyst="ada"))
    db.answer(GROUPS, key="k1", options=sc.AskOptions(analyst="bob"))
    db.answer(GROUPS, key="k2", options=sc.AskOptions(analyst="bob", relax="compound"))
    db.answer(GROUPS, key="k3", options=sc.AskOptions(analyst="bob"))
    db.append(some_people(rows=5), key="more")
    more = db.ask(GROUPS, key="k4", options=sc.AskOptions(analyst="bob"))
    db.answer(GROUPS, key="k5", options=sc.AskOptions(analyst="bob"))
    assert more.charged > 0
    kinds = [kind for kind, _ in sizes(tmp_path / "db")]
    assert kinds == ["answer", "answer", "answer", "repeat", "append", "answer", "repeat"]
    assert (
        db.ask(GROUPS, key="k3", options=sc.AskOptions(analyst="bob")).charged == 0
    )  # about the rows of its time
    assert db.verify() == []


def test_an_analyst_may_write_so_much_into_the_journal(db, tmp_path):
    with sc.Database.open(tmp_path / "db", some_people(), seed=1, journal_bytes=5000) as limited:
        limited.answer(GROUPS, key="k", options=sc.AskOptions(analyst="ada"))
        while sum(size + 300 for _, size in sizes(tmp_path / "db")) < 5000:
            limited.answer(GROUPS, key=secrets.token_hex(4), options=sc.AskOptions(analyst="ada"))
        with pytest.raises(sc.PromiseError, match="holds 5,000 bytes of this analyst"):
            limited.answer(GROUPS, key="one more", options=sc.AskOptions(analyst="ada"))
        written = len(sizes(tmp_path / "db"))
        assert 2 < written < 50
        used = limited.status().used
        for options in ({}, {"key": "new"}):
            with pytest.raises(sc.PromiseError, match=r"one may write.* Nothing was charged"):
                limited.answer(
                    "SELECT SUM(age) FROM t", options=sc.AskOptions(analyst="ada"), **options
                )
        assert (
            limited.preview("SELECT SUM(age) FROM t", options=sc.AskOptions(analyst="ada")).status
            == "refused"
        )
        assert limited.status().used == used
        assert (
            limited.ask(GROUPS, options=sc.AskOptions(analyst="ada")).status == "repeated"
        )  # it writes nothing
        assert limited.ask(GROUPS, key="k", options=sc.AskOptions(analyst="ada")).charged > 0
        assert len(sizes(tmp_path / "db")) == written
        assert (
            limited.answer("SELECT SUM(age) FROM t", options=sc.AskOptions(analyst="bob")).status
            == "answered"
        )


def test_cost_tells_and_charges_nothing(db, tmp_path):
    sql = count(0, 2)
    told = db.preview(sql)
    answer = db.answer(sql)
    assert (told.status, told.stderr, told.charged) == ("answered", answer.stderr, 1)
    assert db.preview(sql).status == "repeated"
    assert db.preview("SELECT AVG(age) FROM t WHERE sex = 'f'").stderr > 0
    for more in range(3):
        db.answer(f"SELECT SUM(age ** {3 + more}) FROM t WHERE age < 3")
    told = db.preview(count(1, 2))
    assert told.status == "relaxed"
    assert db.preview(count(1, 2), options=sc.AskOptions(relax="refuse")).status == "refused"
    assert "cannot be answered" in db.preview("SELECT SUM(age) FROM t WHERE age = 1").reason
    assert len(given(tmp_path / "db")) == len(db.history()) == 4


@pytest.mark.parametrize("tracker", ["exact", "histogram", "disjoint"])
def test_what_would_be_used_is_what_is_used_then(tmp_path, tracker):
    """Of counts, groups, averages, several numbers, repeats, relaxed and refused questions."""
    questions = [
        count(1, 3),
        count(1, 3),
        "SELECT AVG(age) FROM t WHERE age > 4",
        "SELECT sex, COUNT(*) FROM t GROUP BY sex",
        "SELECT COUNT(*) AS n, SUM(age) AS ages FROM t WHERE sex = 'f'",
        *(count(low, high) for low in range(3) for high in range(low, 5)),
        "SELECT SUM(age + 1) FROM t WHERE age < 4",
    ]
    with database(tmp_path / "db", noise=8, tracker=tracker) as db:
        for place, sql in enumerate(questions):
            before, told = db.status(), db.preview(sql).used_after
            assert db.status() == before
            try:
                db.answer(sql)
            except sc.PromiseError:
                assert told == before.used
            used = db.status().used
            assert used <= told if tracker == "histogram" else used == told  # a bound there
            if place == 4:
                db.append(some_people(25, 5))


def test_the_sentence_of_the_promise(tmp_path):
    with database(tmp_path / "db", epsilon=0.5, noise=8) as db:
        assert str(db.guarantee).startswith("NOT PRIVATE: seeded for a test. All answers together")
        assert db.guarantee.limits[0] == "NOT PRIVATE: seeded for a test."
    with database(tmp_path / "private", epsilon=0.5, noise=8, seed=None) as db:
        assert str(db.guarantee) == (
            "All answers together, now and later, change the odds of anything about one person by "
            "a factor of at most 1.649 (ε = 0.5). Someone who knows everybody else, and already "
            "believed a guess with 10 %, can reach at most 15.5 %."
        )
        assert "rows the table has is not hidden" in " ".join(db.guarantee.limits)


def test_noise_of_its_own_for_every_database(tmp_path):
    """1e-12: the chance that 40 pairs of unseeded numbers are all the same."""
    values = []
    for name in ("one", "other"):
        with database(tmp_path / name, seed=None) as db:
            values.append([e.value for _, e in db.answer(f"SELECT {_cells} GROUP BY age, sex")])
    assert values[0] != values[1]


_cells = "age, sex, COUNT(*) FROM t"


def test_a_few_attributes_of_many(tmp_path):
    with database(tmp_path / "db", attributes=["age"]) as db:
        assert db.space.names == ("age",)
        with pytest.raises(sc.QueryError, match="sex"):
            db.answer("SELECT COUNT(*) FROM t WHERE sex = 'f'")


def test_a_closed_database_says_so(tmp_path):
    with database(tmp_path / "db") as db:
        pass
    with pytest.raises(sc.LedgerError, match="closed"):
        db.answer(count(0, 1))
    assert SCHEMA.names == db.schema.names


def test_all_verbs_show_the_same_keyword_arguments(subtests):
    """In `help`, to editors and to type checkers; one that does not exist is a TypeError."""
    for verb in ["ask", "answer", "preview", "prepare"]:
        with subtests.test(verb=verb):
            shown = signature(getattr(sc.Database, verb)).parameters
            assert set(shown) - {"key"} == {"self", "sql", "tables", "options"}
            assert shown["options"].default == sc.AskOptions()


def test_options_are_options(db):
    with pytest.raises(sc.ParameterError, match=r"'options' .* must be AskOptions"):
        db.ask(count(1, 3), options={"relax": "refuse"})


def test_an_answer_says_what_it_cost(db):
    first, again = db.ask(count(0, 2)), db.ask(count(0, 2))
    assert (first.status, first.charged, first.remaining) == ("answered", 1, 3)
    assert (again.status, again.charged, again.remaining) == ("repeated", 0, 3)
    assert again.estimate.value == first.estimate.value == db.number(count(0, 2)).value
    assert len(db.groups(GROUPS)) == 12
    with pytest.raises(sc.QueryError, match=r"one number by group: ask by groups\(sql\)"):
        db.table(GROUPS)
