"""One question, one value, one charge: rewritings of a question are the same question."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import scumble as sc
from scumble.private.database import session
from scumble.private.database.questions import amounts
from scumble.private.database.questions.amounts import Amounts
from tests.support.database.small_database import database, given, some_people
from tests.support.people import people

CONDITIONS = (
    "age < 4 AND sex = 'f'",
    "sex = 'f' AND age < 4",
    "4 > age AND 'f' = sex",
    "NOT (age >= 4) AND sex IN ('f')",
    "age + 1 <= 4 AND sex <> 'm'",
    "(age < 2 AND sex = 'f') OR (age BETWEEN 2 AND 3 AND sex = 'f')",
)
ENDS = (
    "",
    " ORDER BY 1",
    " ORDER BY AVG(age) DESC",
    " LIMIT 1",
    " HAVING COUNT(*) > -1000000 ORDER BY SUM(age) LIMIT 3",
)
# Each with the function that makes it of a sum of ages s and a count n.
NUMBERS = {
    "AVG(age)": lambda s, n: s / n,
    "AVG(age) AS a": lambda s, n: s / n,
    "avg( t.AGE )": lambda s, n: s / n,
    "SUM(age) / COUNT(*)": lambda s, n: s / n,
    "SUM(age) * 1.0 / SUM(1)": lambda s, n: s / n,
    "AVG(age) + 1": lambda s, n: s / n + 1,
    "AVG(age + 1)": lambda s, n: s / n + 1,
    "AVG(3 - 2 * age)": lambda s, n: 3 - 2 * s / n,
    "AVG(age / 4.0)": lambda s, n: s / n / 4,
    "2 * AVG(age)": lambda s, n: 2 * s / n,
    "AVG(1 * (age))": lambda s, n: s / n,
    "SUM(age)": lambda s, n: s,
    "SUM((age))": lambda s, n: s,
    "SUM(-age)": lambda s, n: -s,
    "SUM(2 * age) / 2": lambda s, n: s,
    "SUM(age) + SUM(age)": lambda s, n: 2 * s,
    "SUM(age + 1)": lambda s, n: s + n,
    "SUM(age) + COUNT(*)": lambda s, n: s + n,
    "SUM(7 - 3 * age)": lambda s, n: 7 * n - 3 * s,
    "COUNT(*)": lambda s, n: n,
    "count( 1 )": lambda s, n: n,
    "COUNT(age)": lambda s, n: n,
    "SUM(1)": lambda s, n: n,
    "SUM(age + 1 - age)": lambda s, n: n,
    "SUM(2) / 2": lambda s, n: n,
}
# The same about the same people, with conditions inside of the aggregate.
INSIDE = {
    "AVG(age) FILTER (WHERE age < 4) FROM t WHERE sex = 'f'": lambda s, n: s / n,
    "SUM(age) FILTER (WHERE sex = 'f') FROM t WHERE age < 4": lambda s, n: s,
    "SUM(CASE WHEN sex = 'f' THEN age ELSE 0 END) FROM t WHERE age < 4": lambda s, n: s,
    "SUM(CASE WHEN age < 4 THEN age ELSE 0 END) FROM t WHERE sex = 'f'": lambda s, n: s,
    "SUM(age * (CASE WHEN age < 4 AND sex = 'f' THEN 1 ELSE 0 END)) FROM t": lambda s, n: s,
    "COUNT_IF(age < 4) FROM t WHERE sex = 'f'": lambda s, n: n,
    "COUNT(*) FILTER (WHERE age < 4 AND sex = 'f') FROM t": lambda s, n: n,
    "SUM(CASE WHEN age < 4 THEN 1 ELSE 0 END) FROM t WHERE sex = 'f'": lambda s, n: n,
    "SUM(CASE WHEN age < 4 AND sex = 'f' THEN 5 ELSE 0 END) / 5 FROM t": lambda s, n: n,
    "COUNT_IF(age < 1) + COUNT_IF(age BETWEEN 1 AND 3) FROM t WHERE sex = 'f'": lambda s, n: n,
    "COUNT_IF(sex = 'f' AND age < 4) / COUNT(*) FROM t": lambda s, n: n / 40,
    "AVG(CASE WHEN sex = 'f' AND age < 4 THEN 1 ELSE 0 END) FROM t": lambda s, n: n / 40,
    "SUM(age) FILTER (WHERE sex = 'f' AND age < 4) / COUNT(*) FROM t": lambda s, n: s / 40,
    "AVG(sex = 'f' AND age < 4) FROM t": lambda s, n: n / 40,
    "AVG(CASE WHEN sex = 'f' THEN age < 4 ELSE false END) FROM t": lambda s, n: n / 40,
    "SUM(sex = 'f' AND age < 4) FROM t": lambda s, n: n,
    "SUM((age < 4)) FROM t WHERE sex = 'f'": lambda s, n: n,
}


def test_rewritings_have_one_value_and_one_charge(tmp_path: Path) -> None:
    """167 texts about the ages of some women: two numbers, paid for once."""
    texts = {f"SELECT {text}": value for text, value in INSIDE.items()}
    for place, ((number, value), where) in enumerate(product(NUMBERS.items(), CONDITIONS)):
        texts[f"SELECT {number} FROM t WHERE {where}{ENDS[place % len(ENDS)]}"] = value
    assert len(texts) == 167
    with database(tmp_path / "db") as db:
        first = db.ask("SELECT AVG(age) FROM t WHERE age < 4 AND sex = 'f'")
        assert first.charged == 2
        total, count = (number.value for number in given(tmp_path / "db"))
        assert count > 0
        for sql, value in texts.items():
            reply = db.ask(sql)
            assert reply.charged == 0, sql
            [found] = [each for _, each in reply.estimate] if _grouped(reply) else [reply.estimate]
            assert found.value == pytest.approx(value(total, count), rel=1e-12), sql
        assert len(db.history()) == 1


def _grouped(reply: object) -> bool:
    return isinstance(reply.estimate, sc.Estimates)  # type: ignore[attr-defined]


MIXED = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(-2, 5), missing=True),
        sc.Attribute("kids", "quasi", sc.IntegerRange(0, 3)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("job", "quasi", sc.Category(("a", "b", "c")), missing=True),
    ]
)
# Some about columns with missing values or with the value 0, some not of one box.
MIXED_CONDITIONS = (
    "sex = 'f'",
    "kids >= 2",
    "kids = 1 OR kids = 3",
    "kids % 2 = 0",
    "job IN ('a', 'c')",
    "job IS NOT NULL",
    "age <> 1",
    "age < 0 OR age > 1",
    "age > kids",
    "sex = 'f' AND kids >= 2",
    "sex = 'f' OR kids >= 2",
    "NOT (sex = 'm' AND kids < 2)",
    "age = 0 OR kids = 0",
    "sex = 'f' AND (job = 'a' OR age IS NULL)",
    "(sex = 'f' OR kids % 2 = 1) AND job IN ('a', 'c')",
    "(sex = 'f' OR job = 'b') AND age > kids",
    "sex = 'f' OR age > kids",
    "NOT NOT (kids BETWEEN 1 AND 2 AND age < kids)",
)
MIXED_TEXTS = (
    (
        "COUNT(*) FROM t WHERE {c}",
        "SUM(1) FROM t WHERE NOT NOT ({c})",
        "SUM(CASE WHEN {c} THEN 1 ELSE 0 END) FROM t",
        "SUM(if({c}, 1, 0)) FROM t",
        "SUM({c}) FROM t",
        "SUM(CASE WHEN {c} THEN 3 END) / 3 FROM t",
        "COUNT(CASE WHEN {c} THEN 1 END) FROM t",
        "COUNT(CASE WHEN {c} THEN kids ELSE NULL END) FROM t",
        "COUNT_IF({c}) FROM t",
        "COUNT(*) FILTER (WHERE {c}) FROM t",
        "AVG(CASE WHEN {c} THEN 1 ELSE 0 END) * 256 FROM t",
    ),
    (
        "SUM({x}) FROM t WHERE {c}",
        "SUM({x}) FROM t WHERE ({c}) AND {x} IS NOT NULL",
        "SUM({x}) FROM t WHERE ({c}) AND {x} <> 0",
        "SUM(COALESCE({x}, 0)) FROM t WHERE {c}",
        "SUM({x}) FILTER (WHERE {c}) FROM t",
        "SUM(CASE WHEN {c} THEN {x} ELSE 0 END) FROM t",
        "SUM(CASE WHEN {c} THEN {x} END) FROM t",
        "SUM(if({c}, {x}, NULL)) FROM t",
        "SUM(CASE WHEN {c} THEN CASE WHEN {x} <> 0 THEN {x} END ELSE 0 END) FROM t",
        "SUM({x} * (CASE WHEN {c} THEN 1 ELSE 0 END)) FROM t",
        "SUM(CASE WHEN {c} THEN 2 * {x} END) / 2 FROM t",
    ),
    (
        "AVG({x}) FROM t WHERE {c}",
        "AVG({x}) FILTER (WHERE {c}) FROM t",
        "AVG(CASE WHEN {c} THEN {x} END) FROM t",
        "AVG(CASE WHEN {c} THEN {x} + 1 END) - 1 FROM t",
        "5 - AVG(CASE WHEN {c} THEN 5 - {x} END) FROM t",
        "SUM({x}) / COUNT({x}) FROM t WHERE {c}",
        "SUM(CASE WHEN {c} THEN {x} ELSE 0 END) / COUNT(CASE WHEN {c} THEN {x} END) FROM t",
    ),
)


@pytest.mark.parametrize("where", MIXED_CONDITIONS)
def test_rewritings_with_missing_values_and_several_columns(tmp_path: Path, where: str) -> None:
    """Rows that add nothing to a sum, and conditions inside of it, change neither value nor cost.

    Each text comes first once, and all others are then free.
    """
    table = people(256, MIXED, 0)
    for place, (texts, x) in enumerate(product(MIXED_TEXTS, ("age", "kids"))):
        sql = [f"SELECT {text.format(c=where, x=x)}" for text in texts]
        first = (len(where) + place) % len(sql)
        options = {"schema": MIXED, "epsilon": 90, "noise": 2}
        with database(tmp_path / str(place), table, **options) as db:
            value = db.answer(sql[first]).value
            for text in sql:
                reply = db.ask(text)
                assert reply.charged == 0, text
                assert reply.estimate.value == value, text


def test_groups_stay_where_the_condition_inside_fails(tmp_path: Path) -> None:
    """A condition inside of a sum decides what rows add, not which groups there are."""
    with database(tmp_path / "db", people(60, MIXED, 0), schema=MIXED) as db:
        inside = "sex = 'f' AND (kids > 1 OR job = 'a')"
        found = db.answer(
            f"SELECT sex, SUM(CASE WHEN {inside} THEN 2 ELSE 0 END) FROM t GROUP BY 1"
        )
        where = db.ask(f"SELECT COUNT(*) FROM t WHERE {inside}")
        assert (where.charged, 2 * where.estimate.value) == (0, found["f"].value)
        assert (found["m"].value, found["m"].stderr) == (0, 0)


def test_sums_from_before_are_still_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journals have sums of boxes with values that add nothing: they are not drawn again."""
    texts = [
        "SELECT SUM(kids) FROM t",
        "SELECT kids, SUM(age) FROM t WHERE sex = 'f' AND age < 1 GROUP BY kids",
        "SELECT SUM(kids + 1) FROM t",  # of that and the number of rows
    ]
    with database(tmp_path / "db", people(60, MIXED, 0), schema=MIXED) as db:
        with monkeypatch.context() as before:
            before.setattr(Amounts, "codes", {})
            values = [str(db.answer(text)) for text in texts[:2]]
        assert given(tmp_path / "db")[0].box[1].tolist() == [0, 3]
        replies = [db.ask(text.replace("age < 1", "age < 0")) for text in texts]
    assert [reply.charged for reply in replies] == [0, 0, 0]
    assert values[0] == str(replies[0].estimate).replace("repeated", "answered")


def test_the_first_text_decides_nothing(tmp_path: Path) -> None:
    """Whichever text of a question comes first, the numbers that are bought are the same."""
    same = [
        "AVG(age) FROM t WHERE sex = 'f'",
        "AVG(2 * age - 1) FROM t WHERE sex = 'f' ORDER BY 1",
        "SUM(age) / COUNT(*) FROM t WHERE sex = 'f' LIMIT 2",
        "SUM(3 * age) / SUM(1) FROM t WHERE sex = 'f'",
    ]
    bought = []
    for place, text in enumerate(same):
        with database(tmp_path / str(place)) as db:
            db.answer(f"SELECT {text}")
        numbers = given(tmp_path / str(place))
        bought.append([(n.kind, n.box.tolist(), n.times, n.value) for n in numbers])
    assert all(each == bought[0] for each in bought)


def test_groups_are_the_conditions_that_they_stand_for(tmp_path: Path) -> None:
    """Also where a condition is not a box: each group has the boxes of its own condition."""
    where = "age < 2 OR sex = 'f'"
    with database(tmp_path / "db") as db:
        by_sex = db.answer(f"SELECT sex, COUNT(*) FROM t WHERE {where} GROUP BY sex")
        for sex in "fm":
            reply = db.ask(f"SELECT COUNT(*) FROM t WHERE ({where}) AND sex = '{sex}'")
            assert (reply.charged, reply.estimate.value) == (0, by_sex[sex].value)


TWO = sc.Schema(
    [
        sc.Attribute("a", "quasi", sc.IntegerRange(1, 4)),
        sc.Attribute("b", "quasi", sc.IntegerRange(0, 2)),
        sc.Attribute("c", "quasi", sc.IntegerRange(0, 3), missing=True),
    ]
)
ROWS = pa.table({"a": [1, 2, 4, 4], "b": [0, 1, 2, 2], "c": [None, 3, 0, 1]})


def test_sums_of_columns_add_up(tmp_path: Path) -> None:
    """The sum of a + b is that of a plus that of b, if both were given; it has their noise."""
    where = "FROM t WHERE b > 0"
    with database(tmp_path / "db", ROWS, schema=TWO) as db:
        row = db.answer(f"SELECT SUM(a) AS a, SUM(b) AS b, SUM(a) + SUM(b) AS both {where}")
        assert row["both"].value == row["a"].value + row["b"].value
        assert row["both"].stderr == pytest.approx(
            (row["a"].stderr ** 2 + row["b"].stderr ** 2) ** 0.5
        )
        assert len(given(tmp_path / "db")) == 2
        for sql, value in (
            ("SUM(a + b)", row["both"].value),
            ("SUM(b - 3 * a)", row["b"].value - 3 * row["a"].value),
        ):
            reply = db.ask(f"SELECT {sql} {where}")
            assert (reply.charged, reply.estimate.value) == (0, value)
    with database(tmp_path / "other", ROWS, schema=TWO) as db:
        whole = db.answer(f"SELECT SUM(a + b) {where}")
        assert len(given(tmp_path / "other")) == 1
        parts = db.answer(f"SELECT SUM(a) AS a, SUM(b) AS b, SUM(b) + SUM(a) AS both {where}")
        assert parts["both"].value == whole.value  # once given, it stays


# What squares, products and their averages are made of, and texts that are made of it. Each comes
# first once.
SQUARES = (
    (
        "VAR_POP({x})",
        "STDDEV_POP({x}) * STDDEV_POP({x})",
        "AVG({x} * {x}) - AVG({x}) * AVG({x})",
        "AVG(({x} - 1) * ({x} - 1)) - (AVG({x}) - 1) * (AVG({x}) - 1)",
        "SUM({x} * {x}) / COUNT({x}) - SUM({x}) * SUM({x}) / COUNT({x}) / COUNT({x})",
        "(AVG(2 * {x} * {x} - 3 * {x} + 5) + 3 * AVG({x}) - 5) / 2 - AVG({x}) * AVG({x})",
        "AVG({x} ** 2) - AVG({x}) * AVG({x})",
        "VAR_POP(7 - 3 * {x}) / 9",
        "COVAR_POP({x}, {x})",
    ),
    (
        "SUM({x} * {x} + {x}) - SUM({x})",
        "SUM(({x} + 1) * ({x} + 1)) - 2 * SUM({x}) - COUNT({x})",
        "SUM({x} * {x})",
        "SUM({x} ** 2)",
        "SUM(CASE WHEN {x} <> 0 THEN {x} * {x} ELSE 0 END)",
        "AVG({x} * {x}) * COUNT({x})",
    ),
    (
        "COVAR_POP(age, kids)",
        "COVAR_POP(kids, age)",
        "AVG(age * kids) - AVG(age) * AVG(kids)",
        "AVG((age + 3) * (2 * kids - 1)) / 2 - (AVG(age) + 3) * (AVG(kids) - 0.5)",
        "SUM(age * kids) / COUNT(*) - SUM(age) * SUM(kids) / COUNT(*) / COUNT(*)",
    ),
    (
        "COVAR_POP(age, kids) / (STDDEV_POP(age) * STDDEV_POP(kids))",
        "COVAR_POP(kids, age) / (STDDEV_POP(kids) * STDDEV_POP(age))",
        "COVAR_POP(age, kids) / STDDEV_POP(age) / STDDEV_POP(kids)",
        "(AVG(age * kids) - AVG(age) * AVG(kids)) / STDDEV_POP(age) / STDDEV_POP(kids)",
    ),
)
SQUARED_CONDITIONS = (
    "sex = 'f'",
    "TRUE",
    "sex = 'f' AND kids >= 2",
    "age <> 1 AND job IN ('a', 'c')",
    "age >= 0 AND kids > 0",
)


@pytest.mark.parametrize("where", SQUARED_CONDITIONS)
def test_squares_and_products_have_one_value_and_one_charge(tmp_path: Path, where: str) -> None:
    """Whichever text comes first pays for all others, unless it names fewer rows: those not 0."""
    table = people(2000, MIXED, 0)
    texts = [
        [f"SELECT {text.format(x=x)} FROM t WHERE ({where}) AND age IS NOT NULL" for text in same]
        for same in SQUARES
        for x in ("age", "kids")
    ]
    for place, same in enumerate(texts):
        for number, first in enumerate(text for text in same if "<> 0 THEN" not in text):
            options = {"schema": MIXED, "epsilon": 90, "noise": 2}
            with database(tmp_path / f"{place} {number}", table, **options) as db:
                value = _number(db.answer(first))
                for text in same:
                    reply = db.ask(text)
                    assert reply.charged == 0, (first, text)
                    assert _number(reply.estimate) == pytest.approx(value, rel=1e-9), (first, text)


def _number(answer: object) -> float:
    return float(answer.value)  # type: ignore[attr-defined]


def test_sums_of_squares_without_noise(tmp_path: Path) -> None:
    """They are DuckDB's, also of missing values and where a column has one value."""
    texts = (
        "SUM(a * a)",
        "SUM(c * c - c)",
        "SUM((c + 1) * (c + 1))",
        "SUM((COALESCE(c, 0) + 1) * (COALESCE(c, 0) + 1))",
        "SUM(a * b - 2 * b * c + 3 * c * c - a + 7)",
        "SUM(a * b * c)",
        "SUM(a * a * a)",
        "SUM((a - b) * (a - b))",
        "AVG(a * c + 2)",
        "VAR_POP(c)",
        "COVAR_POP(a, c)",
    )
    wheres = ("", " WHERE a > 1", " WHERE b > 0", " WHERE a = 4", " WHERE a <> 2 AND c IS NOT NULL")
    with pytest.MonkeyPatch.context() as patch, duckdb.connect() as engine:
        patch.setattr(session, "discrete_laplace", lambda stream, scale, size: [0] * size)
        rows = pa.concat_tables([ROWS] * 50)
        engine.register("t", rows)
        for place, (where, given_first) in enumerate(product(wheres, texts[:2])):
            options = {"epsilon": 100, "noise": 4, "schema": TWO}
            with database(tmp_path / str(place), rows, **options) as db:
                for text in (given_first, *texts):
                    sql = f"SELECT {text} FROM t{where}"
                    [(expected,)] = engine.execute(sql).fetchall()
                    assert db.answer(sql).value == pytest.approx(float(expected)), sql


def test_squares_are_measured_about_the_middle(tmp_path: Path) -> None:
    """So the sum of squares has no more noise than if it had been measured itself."""
    with database(tmp_path / "db") as db:
        found = db.answer("SELECT SUM(age * age) FROM t WHERE sex = 'f'")
    assert [(each.kind, each.times) for each in given(tmp_path / "db")] == [
        ("sum by age: 25 9 1 1 9 25", 25),
        ('sum "age"', 5),
        ("count", 1),
    ]
    assert found.stderr < 2**0.5 * 4 * 25 * 1.3


def test_noise_that_an_average_has_twice_counts_once(tmp_path: Path) -> None:
    """The total of an average of squares has the noise of its count: their errors go together."""
    options = {"epsilon": 100, "noise": 8}
    with database(tmp_path / "db", some_people(2000), **options) as db:
        mean = db.answer("SELECT AVG(age * age) FROM t WHERE sex = 'f'")
    squares, ages, count = (each.value for each in given(tmp_path / "db"))
    total = squares / 4 + 5 * ages - 6.25 * count
    assert mean.value == pytest.approx(total / count)
    variances = [2 * (8 * each.times) ** 2 for each in given(tmp_path / "db")]
    weights = (1 / 4, 5, -6.25 - mean.value)
    variance = sum(w * w * v for w, v in zip(weights, variances, strict=True))
    assert mean.stderr == pytest.approx(variance**0.5 / count, rel=0.01)


def test_a_repeated_sum_of_squares_refers_to_the_first(tmp_path: Path) -> None:
    """Also where the number of rows is public and part of it."""
    sql = "SELECT SUM(age * age) FROM t"
    with database(tmp_path / "db") as db:
        first = db.ask(sql, key="1")
        again = [db.ask(sql, key=key) for key in ("2", "1", "2")]
        assert first.charged == 2
        assert [each.estimate.value for each in again] == [first.estimate.value] * 3
        assert [each.estimate.status for each in again] == ["repeated", "answered", "repeated"]
        assert [entry.kind for entry in db.chain()] == ["promise", "answer", "repeat"]


def test_sums_of_squares_from_before_are_still_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journals have sums of squares as numbers of their own: they are not drawn again."""
    texts = [f"SELECT SUM({text}) FROM t WHERE sex = 'f'" for text in ("age * age", "age * kids")]
    with database(tmp_path / "db", people(60, MIXED, 0), schema=MIXED) as db:
        with monkeypatch.context() as before:
            before.setattr(amounts, "_columns", lambda *_: ((), False))
            values = [db.answer(text).value for text in texts]
        replies = [db.ask(text) for text in texts]
    assert [reply.charged for reply in replies] == [0, 0]
    assert [reply.estimate.value for reply in replies] == values
    assert len(given(tmp_path / "db")) == 2


def test_missing_values_are_not_taken_for_numbers(tmp_path: Path) -> None:
    """Without noise, by DuckDB: NULL adds nothing, and an average leaves it out."""
    texts = (
        "AVG(c)",
        "AVG(c + 1)",
        "AVG(2 - c)",
        "SUM(c + 1)",
        "SUM(COALESCE(c, 0))",
        "AVG(COALESCE(c, 0))",
        "AVG(COALESCE(c, 2) + 1)",
        "AVG(COALESCE(c, 0) + 1)",
        "SUM(CASE WHEN c IS NULL THEN 1 ELSE 0 END)",
        "SUM(CASE WHEN c > 0 THEN c ELSE 0 END)",
        "SUM(CASE WHEN c < 2 THEN c ELSE 0 END)",
        "SUM(CASE WHEN a > b THEN a ELSE 0 END)",
        "AVG(CASE WHEN a > 1 THEN 2 * a END)",
        "AVG(a - 1)",
        "SUM(a * b)",
        "AVG(CASE WHEN b > 0 THEN a + 1 ELSE 0 END)",
        "AVG(CASE WHEN b > 0 OR c > 0 THEN a + 1 END)",
        "AVG(CASE WHEN b > 0 OR c > 0 THEN a + 1 ELSE 0 END)",
        "AVG(CASE WHEN b > 0 OR a = 1 THEN c ELSE 0 END)",
        "AVG(CASE WHEN b > 0 AND a > c THEN c END)",
        "COUNT(CASE WHEN b > 0 OR a = 1 THEN c END)",
        "COUNT(CASE WHEN b > 0 OR a = 1 THEN c ELSE 0 END)",
        "SUM(CASE WHEN b > 0 OR a = 1 THEN c WHEN a = 4 THEN 2 ELSE 0 END)",
        "SUM(CASE WHEN b > 0 THEN c ELSE 0 END + CASE WHEN a > 1 THEN 1 ELSE 0 END)",
        "SUM((CASE WHEN b > 0 OR c = 1 THEN a ELSE 0 END) * c)",
        "SUM(CASE WHEN b > 0 OR c = 1 THEN a ELSE 0 END * CASE WHEN a > b THEN 1 ELSE 0 END)",
        "SUM(CASE WHEN c > 0 THEN CAST(12 / c AS INTEGER) ELSE 0 END)",
        "SUM(CASE a WHEN 1 THEN b ELSE 0 END)",
        "SUM(if(b BETWEEN 1 AND 2 OR a = 1, c, 0))",
    )
    with pytest.MonkeyPatch.context() as patch, duckdb.connect() as engine:
        patch.setattr(session, "discrete_laplace", lambda stream, scale, size: [0] * size)
        rows = pa.concat_tables([ROWS] * 50)  # averages of fewer have no value
        engine.register("t", rows)
        options = {"epsilon": 100, "noise": 4, "schema": TWO}
        with database(tmp_path / "db", rows, **options) as db:
            for text, where in product(texts, ("", " WHERE a > 1", " WHERE a + b > 2")):
                sql = f"SELECT {text} FROM t{where}"
                [(expected,)] = engine.execute(sql).fetchall()
                assert db.answer(sql).value == pytest.approx(float(expected)), sql


def test_a_journal_from_before_has_the_names_of_column_sums(tmp_path: Path) -> None:
    """Journals call the sum of a column by its SQL, and a count a count: what was paid stays."""
    with database(tmp_path / "db", some_people()) as db:
        db.answer("SELECT AVG(age) FROM t WHERE sex = 'f' ORDER BY 1")
    assert [number.kind for number in given(tmp_path / "db")] == ['sum "age"', "count"]
