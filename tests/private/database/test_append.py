"""Rows that are added to a database: answers over all batches, each with the whole promise."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.private.database import tables
from scumble.private.database.answers import OTHER
from scumble.private.database.inspect import DatabaseInspection
from scumble.private.database.questions.amounts import Amounts
from scumble.private.database.session import Session
from scumble.private.database.tables import CodedRows, SourceTable
from tests.support.database.small_database import (
    count,
    database,
    given,
    most_popular,
    some_people,
    truth,
)
from tests.support.people import people

FIRST, SECOND, THIRD = some_people(40), some_people(25, 5), some_people(13, 6)
EXHAUST = [f"SELECT SUM(age + {number}) FROM t WHERE age < 3" for number in range(1, 4)]


@pytest.fixture
def db(tmp_path):
    """With one batch, in which ages below 3 are used up."""
    with database(tmp_path / "db", FIRST) as made:
        made.answer(count(0, 2))
        for sql in EXHAUST:
            made.answer(sql)
        yield made


def reopened(folder, *batches, **options):
    return sc.Database.open(folder, FIRST, batches=list(batches), seed=1, **options)


def test_answers_about_batches_add_up(tmp_path, monkeypatch):
    """Without the noise they are the true ones."""
    monkeypatch.setattr(Session, "_draw_noise", lambda self, times, size: [0] * size)
    with database(tmp_path / "db", FIRST, noise=8) as db:
        assert db.append(SECOND) == 2
        assert db.append(THIRD) == 3
        everybody = pa.concat_tables([FIRST, SECOND, THIRD])
        for condition in ("age < 2", "sex = 'f'", "age IN (0, 3, 5) AND sex = 'm'"):
            true = truth(everybody, condition)
            assert db.answer(f"SELECT COUNT(*) FROM t WHERE {condition}").value == true
        assert db.answer("SELECT COUNT(*) FROM t").value == 78
        ages = np.asarray(everybody["age"])
        assert db.answer("SELECT SUM(age) FROM t").value == ages.sum()
        assert db.answer("SELECT AVG(age) FROM t").value == pytest.approx(ages.mean())
        by_sex = db.answer("SELECT sex, COUNT(*) FROM t GROUP BY sex")
        assert by_sex["f"].value == truth(everybody, "sex = 'f'")


def test_the_law_is_that_of_the_sum_of_independent_noises(db):
    db.append(SECOND)
    db.append(THIRD)
    answer = db.answer(count(3, 4))
    law = NoiseSum(DiscreteLaplace(4), {1: 3})
    assert (answer.status, answer.numbers) == ("answered", 3)
    assert answer.stderr == law.stderr
    assert answer.interval(0.9) == law.interval(answer.value, 0.9)
    values = [number.value for number in given(db._journal.place)[-3:]]
    assert answer.value == sum(values)
    assert db.preview(count(4, 5)).stderr == law.stderr


def test_a_repeat_after_an_append_is_paid_for_in_the_new_batch_alone(db, tmp_path):
    before = db.answer(count(0, 2))
    assert before.status == "repeated"
    db.append(SECOND)
    assert db.preview(count(0, 2)).charged == 1
    answer = db.answer(count(0, 2))
    assert (answer.status, answer.numbers) == ("answered", 2)
    *_, new = given(tmp_path / "db")
    assert new.batch == 2
    assert answer.value == before.value + new.value
    assert db.status().used_in_batches == (4, 1)
    again = db.answer(count(0, 2))
    assert (again.status, again.value) == ("repeated", answer.value)
    assert len(given(tmp_path / "db")) == 5


def test_a_key_gets_the_stored_answer_after_an_append(db, tmp_path):
    """Also one that says how many rows there were."""
    everybody = "SELECT COUNT(*) FROM t"
    stored = db.answer(count(3, 4), key="k"), db.answer(everybody, key="all")
    db.append(SECOND)
    assert db.answer(count(3, 4), key="k") == stored[0]
    assert db.answer(everybody, key="all").value == stored[1].value == 40
    assert db.answer(everybody).value == 65
    assert len(given(tmp_path / "db")) == 5


def test_a_new_batch_has_room_where_the_old_one_is_used_up(db):
    old = db.answer(count(1, 2))
    assert (old.status, old.answered) == ("relaxed", "age BETWEEN 0 AND 2")
    db.append(SECOND)
    answer = db.answer(count(1, 2))
    assert answer.status == "relaxed"
    assert answer.answered == (
        "batch = 1 AND (age BETWEEN 0 AND 2) OR batch = 2 AND (age BETWEEN 1 AND 2)"
    )
    assert answer.notes == (OTHER, "batch 1: moved the lower end of age")
    assert answer.distance == old.distance
    assert answer.value == old.value + given(db._journal.place)[-1].value
    assert db.answer(count(1, 2)).value == answer.value
    db.append(THIRD)
    third = db.answer(count(1, 2))
    assert third.answered.endswith("OR batch IN (2, 3) AND (age BETWEEN 1 AND 2)")


def test_what_one_batch_cannot_answer_is_refused_and_charged_nowhere(db, tmp_path):
    db.append(SECOND)
    before = len(given(tmp_path / "db"))
    refused = [
        (
            "SELECT SUM(age) FROM t WHERE age = 1",
            {},
            "part of batch 1: a sum, an average, a quantile",
        ),
        (count(1, 1), {"relax": "refuse"}, "part of batch 1, and relaxation is off"),
        (count(1, 1), {"max_relaxation_error": 0}, "part of batch 1. A question near it"),
    ]
    for sql, manner, sentence in refused:
        with pytest.raises(sc.PromiseError, match=sentence):
            db.answer(sql, options=sc.AskOptions(**manner))
        assert sentence in db.preview(sql, options=sc.AskOptions(**manner)).reason
    assert len(given(tmp_path / "db")) == before
    assert db.status().used_in_batches == (4, 0)


def test_nothing_known_about_one_batch_and_noise_about_another(tmp_path):
    """The first batch has only sums; of the second there is a count."""
    with database(tmp_path / "db", FIRST) as db:
        for sql in [*EXHAUST, "SELECT SUM(age + 4) FROM t WHERE age < 3"]:
            db.answer(sql)
        assert db.answer(count(0, 1)).interval() == (0, 40)
        db.append(SECOND)
        answer = db.answer(count(0, 1))
        law, noisy = NoiseSum(DiscreteLaplace(4), {1: 1}), given(tmp_path / "db")[-1].value
        assert answer.value == pytest.approx(noisy + 40 / 3)
        low, high = law.interval(noisy, 0.95)
        assert answer.interval() == (low, high + 40)
        assert answer.stderr == pytest.approx(40 * 2 / 3 + law.stderr)
        assert "about some batches" in answer.method


def test_more_batches_than_a_question_may_have_relaxed_boxes(tmp_path, monkeypatch):
    """The limit is on what an analyst asks, not on how rows came."""
    from scumble.private.database import plan

    monkeypatch.setattr(plan, "MOST_RELAXED", 1)
    with database(tmp_path / "db", FIRST) as db:
        for more in (SECOND, THIRD):
            db.append(more)
        for sql in [count(0, 2), *EXHAUST]:
            db.answer(sql)
        assert db.answer(count(1, 2)).status == "relaxed"
        with pytest.raises(sc.PromiseError, match="fewer groups"):
            db.answer("SELECT age, COUNT(*) FROM t WHERE age < 2 GROUP BY age")


def test_quotas_are_for_every_batch(tmp_path):
    with database(tmp_path / "db", FIRST, quotas={"anna": 1, "ben": 2}) as db:
        for high in (0, 1):
            db.answer(count(0, high), options=sc.AskOptions(analyst="anna"))
        with pytest.raises(sc.PromiseError):
            db.answer(count(0, 3), options=sc.AskOptions(analyst="anna", relax="refuse"))
        db.append(SECOND)
        assert db.status().analysts == {"anna": 2, "ben": 0}
        assert db.answer(count(0, 1), options=sc.AskOptions(analyst="anna")).numbers == 2
        with pytest.raises(sc.ParameterError, match="'analyst'"):
            db.answer(count(0, 1), options=sc.AskOptions(analyst="carl"))


@pytest.mark.parametrize("tracker", ["exact", "histogram", "disjoint"])
def test_every_tracker_counts_by_batch(tmp_path, tracker):
    with database(tmp_path / "db", FIRST, tracker=tracker) as db:
        db.answer(count(0, 1))
        db.append(SECOND)
        for high in (2, 3, 4):
            db.answer(count(0, high))
        used = db.status().used_in_batches
        assert max(used) == db.status().used == most_popular(tmp_path / "db")
        assert used == ((1, 1) if tracker == "disjoint" else (4, 3))


def test_status_history_and_pictures(db, tmp_path):
    db.append(SECOND, key="november")
    db.answer(count(0, 4))
    assert db.status().batches == 2
    assert db.status().used == 4
    added = db.history()[-2]
    assert (added.status, added.batch, added.key) == ("added", 2, "november")
    assert [entry.number for entry in db.history()] == list(range(2, 8))
    curves = db.plot().axes[0].lines
    assert [list(curve.get_ydata()) for curve in curves] == [[0, 1, 1], [0, 1]]
    [image] = db.plot("age", "sex").axes[0].images
    assert image.get_array().tolist() == [[4, 4, 4, 1, 1, 0]] * 2
    with DatabaseInspection(tmp_path / "db") as reading:
        assert reading.status() == db.status()
        assert reading.history() == db.history()
        assert reading.verify(reading.seal) == []
        assert list(reading.plot().axes[0].lines[1].get_ydata()) == [0, 1]


def test_a_database_is_opened_with_all_its_batches(db, tmp_path):
    folder = tmp_path / "db"
    db.append(SECOND)
    db.append(THIRD)
    answer = db.answer(count(3, 5))
    db.close()
    with reopened(folder, SECOND, THIRD) as again:
        assert again.answer(count(3, 5)).value == answer.value
        assert again.append(SECOND) == 4
    with pytest.raises(sc.LedgerError, match=r"were added .*: 3\. Batches that are given: 2"):
        reopened(folder, SECOND, THIRD)
    for batches in ([THIRD, SECOND, SECOND], [SECOND, SECOND, SECOND], [FIRST, THIRD, SECOND]):
        with pytest.raises(sc.LedgerError, match=r"Batch \d was made of other rows"):
            reopened(folder, *batches)


def test_rows_of_a_batch_may_come_in_another_order(db, tmp_path):
    db.append(SECOND)
    db.close()
    with reopened(tmp_path / "db", SECOND.take(list(range(25))[::-1])) as again:
        assert again.answer("SELECT COUNT(*) FROM t").value == 65


@pytest.mark.parametrize("wide", [False, True])
def test_rows_that_are_kept_as_codes_count_as_their_table(tmp_path, monkeypatch, wide):
    """`wide`: no table of cumulative counts, and rows that take two words as integers."""
    columns = [sc.Attribute(f"c{place}", "quasi", sc.IntegerRange(0, 999)) for place in range(8)]
    schema = sc.Schema(columns if wide else columns[:1])
    table = people(500, schema, seed=3)
    monkeypatch.setattr(tables, "_PIECE", 64)
    plain = SourceTable(table).read(schema, "error")
    plain.save(tmp_path / "rows.codes", schema, 500 * 16)
    coded = SourceTable(CodedRows(tmp_path / "rows.codes")).read(schema, "error")
    key = b"k" * 32
    assert coded.fingerprint(key) == plain.fingerprint(key)
    boxes = np.array([[[0, 999]] * len(schema.published), [[100, 700]] * len(schema.published)])
    arrays = [column.to_numpy() for column in table.columns]
    inside = np.all([(column >= 100) & (column <= 700) for column in arrays], axis=0)
    assert coded.counts(boxes) == plain.counts(boxes) == [500, int(inside.sum())]
    values = np.arange(1000) + (1 << 40)
    sums = coded.sums(boxes, Amounts((0,), (1000,), values))
    assert sums == [int(values[arrays[0][rows]].sum()) for rows in (slice(None), inside)]
    (tmp_path / "rows.codes").write_bytes(b"ARROW1")
    with pytest.raises(sc.LedgerError, match="Restore it from a copy"):
        SourceTable(CodedRows(tmp_path / "rows.codes")).read(schema, "error")
    with pytest.raises(sc.SourceError, match="more of the disk than is left"):
        plain.save(tmp_path / "more.codes", schema, 500 * 2 - 1)
    assert not (tmp_path / "more.codes").exists()


def test_batches_are_a_list(db, tmp_path):
    with pytest.raises(sc.ParameterError, match=r"'batches'.* a list of what was appended"):
        sc.Database.open(tmp_path / "db", FIRST, batches=SECOND, seed=1)


def test_a_batch_in_a_table_of_a_duckdb_file(db, tmp_path):
    file = tmp_path / "more.duckdb"
    with duckdb.connect(str(file)) as connection:
        for name, rows in (("october", SECOND), ("november", THIRD)):
            connection.register("rows", rows)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
    db.append(file, table="october")
    db.append(file, table="november")
    db.close()
    with reopened(tmp_path / "db", (file, "october"), (file, "november")) as again:
        assert again.answer("SELECT COUNT(*) FROM t").value == 78


def test_a_key_adds_rows_once(db, tmp_path):
    assert db.append(SECOND, key="november") == db.append(SECOND, key="november") == 2
    with pytest.raises(sc.ParameterError, match=r"'key'.*a new one for other rows"):
        db.append(THIRD, key="november")
    db.answer(count(4, 5), key="question")
    with pytest.raises(sc.ParameterError, match="'key'"):
        db.append(THIRD, key="question")
    with pytest.raises(sc.ParameterError, match="'key'"):
        db.answer(count(4, 5), key="november")
    assert db.status().batches == 2
    assert db.append(SECOND) == 3  # without a key nobody knows that it is a retry
    db.close()
    with reopened(tmp_path / "db", SECOND, SECOND) as again:
        assert again.append(SECOND, key="november") == 2


def test_rows_that_do_not_fit_leave_nothing(db):
    others = pa.table({"age": [1, 77], "sex": ["f", "m"]})
    with pytest.raises(sc.ScumbleError, match="age"):
        db.append(others)
    with pytest.raises(sc.ScumbleError, match="sex"):
        db.append(FIRST.select(["age"]))
    with pytest.raises(sc.ScumbleError, match="key"):
        db.append(SECOND, key="\n")
    assert db.status().batches == 1
    assert db.answer("SELECT COUNT(*) FROM t").value == 40


def test_rows_that_are_left_out_hide_their_number(tmp_path):
    schema = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(0, 3))])
    with database(tmp_path / "db", FIRST.select(["age"]), schema=schema, outside="drop") as db:
        db.append(SECOND.select(["age"]))
        answer = db.answer("SELECT COUNT(*) FROM t")
        assert answer.numbers == 2
        assert answer.stderr > 0


def test_an_empty_batch_is_a_batch(db):
    assert db.append(SECOND.slice(0, 0)) == 2
    assert db.answer("SELECT COUNT(*) FROM t").value == 40
    assert db.answer(count(3, 4)).numbers == 2


def test_averages_over_batches(tmp_path):
    tables = [some_people(20_000, seed) for seed in (1, 2)]
    with database(tmp_path / "db", tables[0]) as db:
        db.append(tables[1])
        answer = db.answer("SELECT AVG(age) FROM t WHERE sex = 'f'")
        everybody = pa.concat_tables(tables)
        ages = np.asarray(everybody["age"])[np.asarray(everybody["sex"]) == "f"]
        low, high = answer.interval(1 - 1e-9)  # false alarms: 1e-9
        assert low < ages.mean() < high
        assert answer.numbers == 4
        assert not math.isnan(answer.value)


def test_the_promise_says_that_a_person_is_in_one_batch(db):
    limits = " ".join(db.guarantee.limits)
    assert "a person in several batches loses by each" in limits
    assert "Which batch of rows a person is in is not hidden" in limits
    assert "a person is in one batch" in db.guarantee.proof
