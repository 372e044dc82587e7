"""Quotas that an owner gives, changes and ends while a database is in use."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

import scumble as sc
from scumble.private.database.inspect import DatabaseInspection
from scumble.private.journal.journal import Journal
from tests.support.database.small_database import AGES, count, database, some_people

LIMIT = 4  # answers for one point, of ε = 2 and noise 4


def test_a_quota_is_an_entry_of_the_journal(tmp_path):
    with database(tmp_path / "db") as db:
        db.answer(count(0, 3), options=sc.AskOptions(analyst="ada"))
        db.set_quota("ada", 0.5)  # one answer for each point, which is used
        with pytest.raises(sc.PromiseError, match="The analyst's quota is used up"):
            db.answer(count(1, 3), options=sc.AskOptions(analyst="ada", relax="refuse"))
        assert db.answer(count(4, 5), options=sc.AskOptions(analyst="ada")).status == "answered"
        assert (
            db.answer(count(1, 3), options=sc.AskOptions(analyst="bob")).status == "answered"
        )  # has none
        db.set_quota("ada", 1)
        assert db.answer(count(2, 3), options=sc.AskOptions(analyst="ada")).status == "answered"
        db.set_quota("ada", None)
        assert db.answer(count(3, 3), options=sc.AskOptions(analyst="ada")).status == "answered"
        seal, before = db.seal, db.status()
        assert db.verify() == []
        kinds = [each.kind for each in db.chain()]
        assert kinds.count("quota") == 3
        assert [each.analyst for each in db.chain() if each.kind == "quota"] == ["ada"] * 3
        assert len(db.history()) == 5  # quotas are no questions
    with sc.Database.open(tmp_path / "db", some_people(), seed=1) as db:
        assert (db.seal, db.status()) == (seal, before)


def test_what_is_used_bounds_a_quota_from_below(tmp_path):
    with database(tmp_path / "db") as db:
        for ends in ((0, 3), (1, 3), (2, 3)):
            db.answer(count(*ends), options=sc.AskOptions(analyst="ada"))
        entries = len(db.chain())
        for part in (1.0, 0.1, 2.5, 0, -1, "much"):
            with pytest.raises(sc.ParameterError, match="epsilon"):
                db.set_quota("ada", part)
        for name in ("", "a\nb", None):
            with pytest.raises(sc.ParameterError, match="analyst"):
                db.set_quota(name, 1)
        with pytest.raises(sc.ParameterError, match="one who has a quota"):
            db.set_quota("bob", None)
        assert len(db.chain()) == entries
        db.set_quota("ada", 1.5)
        [ada] = db.usage()
        assert (ada.used, ada.limit, ada.numbers, ada.answered) == (3, 3, 3, 3)
        with pytest.raises(sc.PromiseError):
            db.answer(count(3, 3), options=sc.AskOptions(analyst="ada", relax="refuse"))


def test_a_database_with_quotas_is_for_those_who_have_one(tmp_path):
    with database(tmp_path / "db", quotas={"ada": 1}) as db:
        with pytest.raises(sc.ParameterError, match="who have quotas"):
            db.answer(count(0, 1), options=sc.AskOptions(analyst="bob"))
        db.set_quota("bob", 1)
        assert db.answer(count(0, 1), options=sc.AskOptions(analyst="bob")).status == "answered"
        db.set_quota("bob", None)
        with pytest.raises(sc.ParameterError, match="who have quotas"):
            db.answer(count(0, 2), options=sc.AskOptions(analyst="bob"))


def test_a_relaxed_question_is_answered_when_the_quota_grows(tmp_path):
    with database(tmp_path / "db") as db:
        db.set_quota("ada", 0.5)
        db.answer(count(0, 3), options=sc.AskOptions(analyst="ada"))
        assert db.answer(count(0, 2), options=sc.AskOptions(analyst="ada")).status == "relaxed"
        db.set_quota("ada", 1)
        assert db.answer(count(0, 2), options=sc.AskOptions(analyst="ada")).status == "answered"


def test_quotas_hold_for_batches_that_come_later(tmp_path):
    with database(tmp_path / "db") as db:
        db.set_quota("ada", 0.5)
        db.append(some_people(seed=5))
        db.answer(count(0, 2), options=sc.AskOptions(analyst="ada"))
        with pytest.raises(sc.PromiseError):
            db.answer(count(0, 1), options=sc.AskOptions(analyst="ada", relax="refuse"))


@pytest.mark.parametrize("tracker", ["exact", "histogram"])
def test_decisions_are_those_of_counting_every_point(tmp_path, tracker):
    """600 questions of three analysts and 60 changes of quotas, against counters of each point."""
    rng = random.Random(7)
    whole, own, quotas, asked = Counter(), {}, {}, set()
    names = ("ada", "bob", "eve")
    refused = answered = 0
    with database(tmp_path / "db", epsilon=6, noise=4, tracker=tracker) as db:
        for step in range(660):
            name = rng.choice(names)
            counts = own.setdefault(name, Counter())
            if step % 11 == 0:
                part = rng.choice([None, 0.5, 1, 2, 3])
                used = max(counts.values(), default=0)
                fits = name in quotas if part is None else 2 * part >= max(used, 1)
                if fits:
                    db.set_quota(name, part)
                    quotas = {each: old for each, old in quotas.items() if each != name}
                    quotas |= {} if part is None else {name: 2 * part}
                else:
                    with pytest.raises(sc.ParameterError):
                        db.set_quota(name, part)
                continue
            low = rng.randrange(AGES)
            sexes = rng.choice(["f", "m", "fm"])
            ends = (low, rng.randrange(low, AGES), sexes)
            points = [(age, sex) for age in range(ends[0], ends[1] + 1) for sex in sexes]
            free = ends in asked or len(points) == 2 * AGES
            room = all(
                whole[each] < 12 and counts[each] < quotas.get(name, np.inf) for each in points
            )
            if free or room:
                status = db.answer(
                    count(*ends), options=sc.AskOptions(analyst=name, relax="refuse")
                ).status
                assert status in ("answered", "repeated")
                if not free:
                    answered += 1
                    asked.add(ends)
                    whole.update(points)
                    counts.update(points)
            else:
                refused += 1
                with pytest.raises(sc.PromiseError):
                    db.answer(count(*ends), options=sc.AskOptions(analyst=name, relax="refuse"))
    assert answered > 20
    assert refused > 20


def test_a_quota_can_be_given_without_the_table_and_is_followed(tmp_path):
    """By another process, as `scumble db quota` does while a server runs."""
    with database(tmp_path / "db") as db:
        db.answer(count(0, 3), options=sc.AskOptions(analyst="ada"))
        with DatabaseInspection(tmp_path / "db") as reading:
            reading.set_quota("ada", 0.5)
        with pytest.raises(sc.PromiseError):
            db.answer(count(0, 2), options=sc.AskOptions(analyst="ada", relax="refuse"))


def test_an_entry_of_a_quota_that_was_changed_is_found(tmp_path):
    import sqlite3

    with database(tmp_path / "db") as db:
        db.set_quota("ada", 0.5)
        seal = db.seal
    file = next((tmp_path / "db").glob("*.sqlite*"), None) or next((tmp_path / "db").glob("*.db"))
    with sqlite3.connect(file) as connection:
        [(table,)] = connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        rows = connection.execute(f"SELECT * FROM {table} WHERE kind='quota'").fetchall()
        assert len(rows) == 1
        columns = [each[1] for each in connection.execute(f"PRAGMA table_info({table})")]
        text = next(name for name in columns if name in ("text", "payload"))
        connection.execute(f"UPDATE {table} SET {text} = ? WHERE kind='quota'", ['{"epsilon":"2"}'])
    with Journal.open(tmp_path / "db") as journal:
        assert journal.verify(seal)
