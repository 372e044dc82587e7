"""What cannot be: one sentence each, nothing charged, and no private value in any of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.private.journal.journal import Journal
from tests.support.database.small_database import SCHEMA, count, database, given, some_people

BAD = {
    "": "empty",
    "SELECT": "",
    "SELECT COUNT(*) FROM": "",
    "SELECT COUNT(*) FROM t WHERE": "condition is missing",
    "SELECT COUNT(*) FROM t WHERE ()": "",
    "DELETE FROM t": "",
    "SELECT age FROM t": "",
    "SELECT COUNT(*) FROM t WHERE height > 3": "height",
    "SELECT height, COUNT(*) FROM t GROUP BY height": "height",
    "SELECT COUNT(*) FROM t WHERE age < sex": "",
    "SELECT MEDIAN(age + length(sex)) FROM t": "exactly one column",
    "SELECT COUNT(*) FROM t WHERE age = 'old'": "age lists numbers; write a number,",
    "SELECT COUNT(*) FROM t WHERE age": "",
    "SELECT COUNT(*) FROM t WHERE random() < 0.5": "random",
    "SELECT SUM(sex) FROM t": "number",
    "SELECT SUM(sqrt(age + 2)) FROM t": "whole number",
    "SELECT SUM(age * 0) FROM t": "is 0 for every value",
    "SELECT SUM(sqrt(-1 - age)) FROM t": "",
    "SELECT MAX(age) FROM t": "MAX",
    "SELECT COUNT(*), MIN(age) FROM t": "QUANTILE_DISC(x, 0.01)",
    "SELECT COUNT(DISTINCT age) FROM t": "COUNT(DISTINCT",
    "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING sex > 3": "of different types are",
    "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY m": "There is no column",
    "SELECT COUNT(*) OVER () FROM t": "Window functions",
    "SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t": "UNION",
    "SELECT COUNT(*), unnest(range(3)) FROM t": "unnest",
    "SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t": "",
}


def test_bad_questions(tmp_path, subtests):
    with database(tmp_path / "db") as db:
        for sql in BAD:
            with subtests.test(sql=sql):
                for ask in (db.answer, db.preview):
                    with pytest.raises(sc.QueryError) as caught:
                        ask(sql)
                    first = str(caught.value).split("\n")[0]
                    assert BAD[sql] in first
                    assert len(first) < 300
                assert db.history() == []
                assert db.status().used == 0


BAD_OPTIONS = [
    {"relax": "no"},
    {"prefer": "best"},
    {"max_relaxation_error": float("nan")},
    {"max_relaxation_error": -1},
    {"max_relaxation_error": "far"},
    {"weights": {"height": 1}},
    {"weights": {"age": float("nan")}},
    {"weights": {"age": -1}},
    {"key": ""},
    {"key": "two\nlines"},
    {"key": 7},
    {"analyst": ""},
]


def test_bad_parameters_of_an_answer(tmp_path, subtests):
    with database(tmp_path / "db") as db:
        for options in BAD_OPTIONS:
            with subtests.test(options=options):
                key = options.get("key")
                how = {name: each for name, each in options.items() if name != "key"}
                with pytest.raises(sc.ParameterError):
                    db.answer(count(0, 1), key=key, options=sc.AskOptions(**how))
                with pytest.raises(sc.ParameterError):
                    db.answer(None)
                assert db.history() == []


BAD_TERMS = [
    ({"epsilon": 0}, "epsilon"),
    ({"epsilon": float("nan")}, "epsilon"),
    ({"epsilon": "much"}, "epsilon"),
    ({"noise": 0.5}, "2/epsilon"),
    ({"noise": float("inf")}, "noise"),
    ({"noise": 1e300}, "below"),
    ({"tracker": "best"}, "tracker"),
    ({"buckets": 0}, "buckets"),
    ({"relax": -1}, "relax"),
    ({"relax": True}, "relax"),
    ({"quotas": {"ada": 3}}, "quotas"),
    ({"quotas": {"ada": 1e-9}}, "quotas"),
    ({"quotas": {"": 1}}, "analyst"),
    ({"attributes": ["height"]}, "height"),
    ({"attributes": "age"}, "attributes"),
    ({"attributes": []}, "at least one attribute"),
    ({"schema": 7}, "schema"),
    ({"outside": "maybe"}, "outside"),
]


def test_bad_parameters_leave_no_folder(tmp_path, subtests):
    for options, part in BAD_TERMS:
        with subtests.test(options=options):
            with pytest.raises(sc.ScumbleError, match=part), database(tmp_path / "db", **options):
                pass
            assert list(tmp_path.iterdir()) == []


def test_a_space_too_large_for_a_tracker_leaves_no_folder(tmp_path):
    schema = sc.Schema([sc.Attribute("n", "quasi", sc.IntegerRange(0, 10**9))])
    with (
        pytest.raises(sc.ParameterError, match="'exact' tracker"),
        database(tmp_path / "db", pa.table({"n": [1]}), schema=schema, tracker="exact"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_way(tmp_path):
    with (
        pytest.raises(sc.OutputExistsError, match="already exists"),
        database(tmp_path),
    ):
        pass


def test_huge_lists(tmp_path):
    """A list of many separate values is many boxes; too many are refused."""
    schema = sc.Schema([sc.Attribute("n", "quasi", sc.IntegerRange(0, 10**6))])
    with database(tmp_path / "db", pa.table({"n": [1, 2, 3]}), schema=schema) as db:
        odd = ", ".join(map(str, range(1, 20_003, 2)))
        with pytest.raises(sc.QueryError, match="10001 separate boxes"):
            db.answer(f"SELECT COUNT(*) FROM t WHERE n IN ({odd})")
        with pytest.raises(sc.QueryError, match="more than 10000 groups"):
            db.answer("SELECT n, COUNT(*) FROM t GROUP BY n")
        assert db.history() == []
        every = ", ".join(map(str, range(10_001)))
        assert db.answer(f"SELECT COUNT(*) FROM t WHERE n IN ({every})").numbers == 1
        few = db.answer("SELECT n, COUNT(*) FROM t WHERE n BETWEEN 5 AND 7 GROUP BY n")
        assert [key for key, _ in few] == [(5,), (6,), (7,)]


def test_another_table_schema_or_promise_is_refused(tmp_path):
    table = some_people()
    with database(tmp_path / "db", table):
        pass
    folder = tmp_path / "db"
    changed = table.set_column(0, "age", pa.array([5, *table["age"].to_pylist()[1:]]))
    with pytest.raises(sc.LedgerError, match="differs in the content of the table"):
        sc.Database.open(folder, table.slice(1), seed=1)
    with pytest.raises(sc.LedgerError, match="differs in the content of the table"):
        sc.Database.open(folder, changed, seed=1)
    other = SCHEMA.replace(sc.Attribute("sex", "quasi", sc.Category(("f", "m", "x"))))
    with pytest.raises(sc.LedgerError, match="differs in the schema"):
        sc.Database.open(folder, table, other, seed=1)
    with pytest.raises(sc.ParameterError, match="seed"):
        sc.Database.open(folder, table)
    with Journal.open(folder) as journal:
        terms = journal.promise["terms"]
        for part, value in (("epsilon", "3"), ("noise", "5"), ("relax", 4)):
            with pytest.raises(sc.LedgerError, match="differs in epsilon"):
                journal.expect({**journal.promise, "terms": {**terms, part: value}})
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    with sc.Database.open(folder, shuffled, SCHEMA, seed=1) as db:  # the order is no content
        assert db.status().used == 0


def test_a_seed_is_for_databases_that_were_made_with_one(tmp_path):
    """Noise that somebody can repeat would not be told in the promise."""
    table = some_people()
    with database(tmp_path / "db", table, seed=None):
        pass
    with pytest.raises(sc.ParameterError, match="only for these"):
        sc.Database.open(tmp_path / "db", table, seed=1)
    with sc.Database.open(tmp_path / "db", table) as db:
        assert db.status().used == 0


CANARY = 900_273_645


def test_no_message_and_no_ledger_tells_a_private_value(tmp_path):
    """A value outside its domain, and one inside it that only one row has. A hash may have these
    nine digits by accident: 1e-7.
    """
    schema = sc.Schema(
        [
            sc.Attribute("pay", "quasi", sc.IntegerRange(900_000_000, 900_999_999)),
            sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        ]
    )
    table = pa.table({"pay": [CANARY, 900_000_005, 900_000_006], "sex": ["f", "m", "f"]})
    said: list[str] = []
    with database(tmp_path / "db", table, schema=schema) as db:
        for condition in ("pay > 900200000", "pay = 900000005", "sex = 'f'", "pay < sex", "b"):
            for what in ("COUNT(*)", "AVG(CAST(pay > 900000009 AS INTEGER))", "SUM(pay - pay)"):
                for _ in range(6):
                    try:
                        said.append(repr(db.answer(f"SELECT {what} FROM t WHERE {condition}")))
                    except sc.ScumbleError as error:
                        said.append(str(error))
        said += [repr(db), str(db.status()), str(db.history())]
    narrow = schema.replace(sc.Attribute("pay", "quasi", sc.IntegerRange(0, 9)))
    for options in ({"schema": narrow}, {"schema": narrow, "outside": "missing"}):
        with pytest.raises(sc.DomainError) as caught:
            database(tmp_path / "narrow", table, **options).__enter__()
        said.append(str(caught.value))
    with pytest.raises(sc.LedgerError) as other:
        sc.Database.open(tmp_path / "db", table.slice(1), seed=1)
    said.append(str(other.value))
    said += [path.read_bytes().decode("latin-1") for path in (tmp_path / "db").iterdir()]
    assert not any(str(CANARY) in text for text in said)
    assert len(given(tmp_path / "db")) > 3
