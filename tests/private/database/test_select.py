"""SELECTs of several numbers in a database: their meaning, one charge for all of it, or none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.private.database import session
from scumble.private.database.answers import EstimateBuilder
from scumble.private.database.plan import AskOptions, BatchPlan
from scumble.public.estimate import ALL
from tests.public.sql.test_questions import (
    DEPTS,
    QUESTIONS,
    REFUSED,
    SCHEMA,
    people,
    same,
    truth,
)
from tests.support.database.small_database import count, database, given, most_popular
from tests.support.sql.generated import question


@pytest.fixture(scope="module")
def noiseless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sc.Database]:
    """A database whose noise is drawn as 0: what is left is the meaning of a question.

    Its laws say so too: under the noise of the promise, these groups have too few people.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "discrete_laplace", lambda stream, scale, size: [0] * size)
        folder = tmp_path_factory.mktemp("select") / "db"
        options = {"epsilon": 100, "noise": 20, "seed": 1}  # 1000 answers for a point
        with sc.Database.create(folder, people(), SCHEMA, **options) as found:
            least = Fraction(1, 1000)
            builder = lambda outcome: EstimateBuilder(found.space, least, outcome.rows)  # noqa: E731
            patch.setattr(found, "_builder", builder)
            yield found


def test_a_question_means_what_duckdb_says(
    noiseless: sc.Database, subtests: pytest.Subtests
) -> None:
    for sql, meaning in QUESTIONS:
        with subtests.test(meaning=meaning):
            if meaning.startswith(REFUSED):
                with pytest.raises(sc.QueryError, match=meaning.removeprefix(REFUSED)):
                    noiseless.answer(sql, tables={"depts": DEPTS})
                continue
            if meaning == "correlation and regression":
                with pytest.raises(sc.QueryError, match="answered by releases, not by a database"):
                    noiseless.answer(sql, tables={"depts": DEPTS})
                continue
            answer = noiseless.answer(sql, tables={"depts": DEPTS})
            expected = truth().execute(sql).fetchall()
            same(answer, expected, ordered="ORDER BY n" in sql or "ORDER BY age" in sql)


BOTH = "SELECT COUNT(*) AS n, SUM(age) AS ages FROM t WHERE sex = 'f'"


def test_all_or_nothing(tmp_path: Path) -> None:
    """With one answer left for the women, a count and a sum are refused together, in a sentence."""
    with database(tmp_path / "db") as db:
        for high in (2, 3, 4):
            db.answer(count(0, high, "f"))
        before = given(tmp_path / "db")
        with pytest.raises(
            sc.PromiseError, match="a sum, an average, a quantile or a share cannot"
        ):
            db.answer(BOTH)
        assert db.preview(BOTH).status == "refused"
        assert len(given(tmp_path / "db")) == len(before)
        assert len(db.history()) == 3
        db.answer("SELECT COUNT(*) AS n, SUM(age) AS ages FROM t WHERE sex = 'm'")
    assert most_popular(tmp_path / "db") == 3


def test_one_entry_and_free_repeats_of_the_whole_and_of_parts(tmp_path: Path) -> None:
    with database(tmp_path / "db") as db:
        told = db.preview(BOTH)
        assert (told.status, told.charged) == ("answered", 2)
        assert set(told.parts) == {"n", "ages"}
        first = db.answer(BOTH, key="k")
        assert [entry.charged for entry in db.history()] == [2]
        for again in (db.answer(BOTH), db.answer(BOTH, key="k")):
            assert [again[name].value for name in ("n", "ages")] == [
                first[name].value for name in ("n", "ages")
            ]
        assert db.answer(count(0, 5, "f")).value == first["n"].value
        assert db.answer("SELECT SUM(age) FROM t WHERE sex = 'f'").status == "repeated"
        mean = db.answer("SELECT AVG(age) FROM t WHERE sex = 'f'")
        assert (mean.status, mean.value) == ("repeated", first["ages"].value / first["n"].value)
        assert db.preview(BOTH).charged == 0
        assert len(given(tmp_path / "db")) == 2
        with pytest.raises(sc.ParameterError, match="key"):
            db.answer(BOTH.replace("'f'", "'m'"), key="k")


def test_chosen_groups_are_paid_for_with_the_others(tmp_path: Path) -> None:
    """LIMIT 1 of six groups: six numbers, and the interval has the level 1 - 0.05 / 6."""
    sql = "SELECT age, COUNT(*) AS n FROM t GROUP BY age ORDER BY n DESC LIMIT 1"
    with database(tmp_path / "db") as db:
        assert db.preview(sql).charged == 6
        answer = db.answer(sql)
        assert len(given(tmp_path / "db")) == 6
        assert (len(answer), answer.among) == (1, 6)
        [row] = answer.to_dicts()
        assert row["level"] == pytest.approx(1 - 0.05 / 6)
        assert db.status().used == 1
        assert db.answer("SELECT MEDIAN(age) FROM t").status == "repeated"  # by the same counts


def test_relaxation_is_shown_for_each_part(tmp_path: Path) -> None:
    with database(tmp_path / "db") as db:
        for low in range(4):
            db.answer(count(low, 3))
        sql = (
            "SELECT COUNT(*) FILTER (WHERE age = 3) AS used_up, COUNT(*) FILTER (WHERE age = 5) AS "
            "free, sqrt(COUNT(*) FILTER (WHERE age = 2)) AS root FROM t"
        )
        answer = db.answer(sql)
        assert answer["free"].status == "answered"
        assert answer["used_up"].status in ("relaxed", "repeated")
        narrow = db.answer(
            "SELECT COUNT(*) FILTER (WHERE age = 3 AND sex = 'f') AS a, 2 * COUNT(*) AS rows FROM t"
        )
        assert narrow["a"].status == "relaxed"
        assert narrow["a"].answered
        assert narrow["rows"].value == 80
    assert most_popular(tmp_path / "db") <= 4


def test_conditions_on_two_columns_are_one_number(tmp_path: Path) -> None:
    with database(tmp_path / "db") as db:
        answer = db.answer("SELECT COUNT(*) FROM t WHERE age + ascii(sex) % 2 > 3 AND age < 5")
        assert (answer.status, answer.numbers) == ("answered", 1)
        assert "ascii" in answer.answered
        [number] = given(tmp_path / "db")
        assert (number.times, number.box.tolist()) == (1, [[3, 4], [0, 1]])
        other = "SELECT COUNT(*) FROM t WHERE age + ascii(sex) % 2 + {} > 4"
        for more in range(1, 4):
            db.answer(other.format(more))
        with pytest.raises(sc.PromiseError):
            db.answer(other.format(0))


def test_side_tables_decide_what_a_sum_is(tmp_path: Path) -> None:
    """The same SQL with another table is another sum, and another question for a key."""
    sql = "SELECT SUM(r.points) FROM t JOIN r ON r.age = t.age"
    one = {"r": pa.table({"age": [0, 1, 2], "points": [1, 2, 3]})}
    other = {"r": pa.table({"age": [0, 1, 2], "points": [7, 0, 1]})}
    with database(tmp_path / "db") as db:
        first = db.answer(sql, tables=one, key="k")
        assert db.answer(sql, tables=one).status == "repeated"
        assert db.answer(sql, tables=one, key="k").value == first.value
        with pytest.raises(sc.ParameterError, match="key"):
            db.answer(sql, tables=other, key="k")
        assert db.preview(sql, tables=other).status == "answered"
        assert db.answer(sql, tables=other).status == "answered"
        assert [number.times for number in given(tmp_path / "db")] == [3, 7]
        twice = {"r": pa.table({"age": [0, 0], "points": [1, 2]})}
        with pytest.raises(sc.QueryError, match="unique"):
            db.answer(sql, tables=twice)


def test_fractions_are_whole_numbers_of_a_smaller_unit(tmp_path: Path) -> None:
    with database(tmp_path / "db") as db:
        answer = db.answer("SELECT SUM(age / 4.0) FROM t")
        [number] = given(tmp_path / "db")
        assert number.times == 5
        assert answer.value == number.value / 4
        assert answer.stderr == pytest.approx(math.sqrt(2) * 5, rel=0.01)  # noise 4, times 5, by 4


def test_many_threads_get_all_or_nothing(tmp_path: Path) -> None:
    """Twelve threads want two numbers each about everybody, and there is room for four numbers."""
    with database(tmp_path / "db") as db:

        def ask(number: int) -> str:
            sql = f"SELECT SUM(age ** 3 + {number}) AS s, SUM(age ** 4 + {number}) AS d FROM t"
            try:
                return " ".join(sorted(each.status for each in db.answer(sql).rows[0][1]))
            except sc.PromiseError:
                return "refused"

        with ThreadPoolExecutor(12) as crew:
            found = list(crew.map(ask, range(1, 13)))
        assert sorted(found) == ["answered answered"] * 2 + ["refused"] * 10
        assert [entry.charged for entry in db.history()] == [2, 2]
        assert db.verify() == []
    assert most_popular(tmp_path / "db") == 4


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=pytest.mark.slow if part < 2 else pytest.mark.soak)
        for part in range(4)
    ],
)
def test_generated_questions_mean_what_duckdb_says(noiseless: sc.Database, part: int) -> None:
    """30 questions over the grammar: none differs, and at least 95 % are answered.

    A number made of several columns has no counts by value in a database: its quantiles are left
    out.
    """
    random, refused = Random(500 + part), []
    for _ in range(30):
        sql = question(random)
        try:
            answer = noiseless.answer(sql, tables={"depts": DEPTS})
        except sc.PromiseError:
            raise
        except sc.QueryError as error:
            if "quantile" not in str(error):
                refused.append((sql, str(error)))
            continue
        same(answer, truth().execute(sql).fetchall(), sized=True)
    assert len(refused) <= 1, refused


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MEDIAN(age) FROM t WHERE age > 2 * length(sex)",
        "SELECT QUANTILE_DISC(age, 0.25), COUNT(*) FROM t WHERE age + length(sex) < 5 OR age = 4",
        "SELECT sex, MEDIAN(age) FROM t WHERE age <> length(sex) GROUP BY sex",
        "SELECT MEDIAN(age) FROM t WHERE age * length(sex) = -1",
    ],
)
def test_quantiles_with_conditions_that_compare_columns(tmp_path: Path, sql: str) -> None:
    """Counts by value are sums of 0 and 1 there; each point pays for one of them."""
    words = ("f", "male")
    schema = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 5)),
            sc.Attribute("sex", "quasi", sc.Category(words)),
        ]
    )
    table = pa.table({"age": [0, 1, 2, 3, 3, 4, 5, 5, 5, 2], "sex": [*words * 5]})
    with (
        pytest.MonkeyPatch.context() as patch,
        duckdb.connect() as engine,
    ):
        patch.setattr(session, "discrete_laplace", lambda stream, scale, size: [0] * size)
        engine.register("t", table)
        options = {"epsilon": 2, "noise": 4, "seed": 1}
        with sc.Database.create(tmp_path / "db", table, schema, **options) as db:
            told = db.preview(sql)
            answer = db.answer(sql)
        assert told.status == "answered"
        same(answer, engine.execute(sql).fetchall(), sized=True)
    assert most_popular(tmp_path / "db") <= 1 + ("COUNT" in sql)


def test_a_sum_of_zeros_is_refused_and_charges_nothing(tmp_path: Path) -> None:
    """Its noise would have the scale 0."""
    nothing = "WHERE age * length(sex) = 0"
    with database(tmp_path / "db") as db:
        db.answer(count(0, 2))  # the noise of single counts is drawn in advance
        for numbers in ("SUM(age)", "AVG(age)", "COUNT(*), SUM(age)"):
            with pytest.raises(sc.QueryError, match="0 for every value that satisfies"):
                db.answer(f"SELECT {numbers} FROM t {nothing}")
        assert math.isnan(db.answer("SELECT SUM(age) FROM t WHERE age + length(sex) < 0").value)
        assert len(given(tmp_path / "db")) == 1


def test_conversions_that_fail_for_some_numbers_are_refused_before(tmp_path: Path) -> None:
    """Estimates may be negative or large: a conversion to fewer bits is no question of luck."""
    sql = "SELECT age, sex, COUNT(*) AS n FROM t GROUP BY age, sex "
    with database(tmp_path / "db") as db:
        for rest in ("HAVING CAST(n AS UTINYINT) > 1", "ORDER BY CAST(100 * n AS SMALLINT)"):
            with pytest.raises(sc.QueryError, match="out of range"):
                db.answer(sql + rest)
        assert db.history() == []
        assert len(db.answer(sql + "HAVING CAST(n AS INTEGER) < 1000 ORDER BY sqrt(n)")) == 12
        # A sum can be larger than the numbers that are tried out.
        large = "SELECT SUM(age * 10000000000) AS s FROM t HAVING CAST(s AS INTEGER) > 1"
        with pytest.raises(sc.QueryError, match="free of charge"):
            db.answer(large)
        paid = len(given(tmp_path / "db"))
        assert db.answer("SELECT SUM(age * 10000000000) AS s FROM t").status == "repeated"
        assert len(given(tmp_path / "db")) == paid


def test_the_variance_of_no_rows(tmp_path: Path) -> None:
    sql = "SELECT VAR_POP(age) FILTER (WHERE age > 4) v FROM t WHERE age < 3 GROUP BY ROLLUP (sex)"
    with database(tmp_path / "db") as db:
        for rest in ("", " ORDER BY v"):
            assert [math.isnan(each.value) for _, each in db.answer(sql + rest)] == [True] * 3
        assert given(tmp_path / "db") == []


def test_a_relaxed_part_is_repeated_as_it_was(tmp_path: Path) -> None:
    """The men of age 0 have one answer left, the women none: all women are relaxed, and all men
    are answered, whom the answers planned for other ages leave room for.
    """
    sql = "SELECT age, sex, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((age), (sex))"
    quotas = {"one": 2.0, "other": 2.0}
    with database(tmp_path / "db", quotas=quotas) as db:
        for what in ("COUNT(*)", "SUM(1 + age * age)", "SUM(2 + age * age)"):
            db.answer(f"SELECT {what} FROM t WHERE age = 0", options=sc.AskOptions(analyst="one"))
        db.answer(count(0, 0, "f"), options=sc.AskOptions(analyst="one"))
        first = db.answer(sql, options=sc.AskOptions(analyst="one"))
        assert [first[ALL, sex].status for sex in "fm"] == ["relaxed", "answered"]
        paid = len(given(tmp_path / "db"))
        assert db.preview(sql, options=sc.AskOptions(analyst="one")).charged == 0
        again = db.answer(sql, options=sc.AskOptions(analyst="one"))
        assert [each.value for _, each in again] == [each.value for _, each in first]
        twice = "COUNT(*) FILTER (WHERE sex = 'f'), COUNT(*) FILTER (WHERE sex < 'm')"
        both = db.answer(f"SELECT {twice} FROM t", options=sc.AskOptions(analyst="one"))
        assert {each.value for _, row in both.rows for each in row} == {first[ALL, "f"].value}
        assert len(given(tmp_path / "db")) == paid
        assert (
            db.answer(count(0, 5, "f"), options=sc.AskOptions(analyst="other")).status == "relaxed"
        )
    assert most_popular(tmp_path / "db") == 4


def test_sums_by_columns_with_commas_in_their_names(tmp_path: Path) -> None:
    """The sums by the column "a, b" are not those by a and b."""
    sizes = {"a, b": 4, "a": 2, "b": 2}
    schema = sc.Schema(
        [sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1)) for name, size in sizes.items()]
    )
    rows = pa.table({"a, b": [3] * 900, "a": [0] * 900, "b": [0] * 900})
    with database(tmp_path / "db", rows, schema=schema) as db:
        assert db.answer('SELECT SUM("a, b" / 2.0) FROM t').value > 1000
        answer = db.answer("SELECT SUM(2 * a + b) FROM t")
        assert answer.status == "answered"
        assert abs(answer.value) < 300


@pytest.mark.slow
def test_coverage_of_quantiles_and_variances(tmp_path: Path) -> None:
    """60 databases, 95 % intervals of 240 numbers. With a coverage of 95 %, fewer than 210 hits
    have probability below 1e-5; the answers to one question depend on each other.
    """
    ages = [0] * 30 + [2] * 25 + [3] * 60 + [5] * 45
    hits, table = 0, pa.table({"age": ages, "sex": ["f"] * 160})
    true = {"m": 3.0, "q": 0.0, "v": 0.0, "s": 0.0}
    mean = sum(ages) / 160
    true["q"] = ages[math.ceil(0.25 * 160) - 1]
    true["v"] = sum((age - mean) ** 2 for age in ages) / 160
    true["s"] = math.sqrt(true["v"])
    sql = (
        "SELECT MEDIAN(age) AS m, QUANTILE_DISC(age, 0.25) AS q, VAR_POP(age) AS v, "
        "STDDEV_POP(age) AS s FROM t"
    )
    for seed in range(60):
        with database(tmp_path / str(seed), table, seed=seed) as db:
            answer = db.answer(sql)
            for name, value in true.items():
                low, high = answer[name].interval(0.95)
                hits += low - 1e-9 <= value <= high + 1e-9
    assert hits >= 210


def test_quantiles_of_bins_reach_over_the_bins(tmp_path: Path) -> None:
    """Noise is small: the interval goes from the lower to the upper end of the bin, or of the next
    ones; the middle of the bin is not the median.
    """
    edges = [0, 10, 20, 40, 60]
    schema = sc.Schema(
        (
            sc.Attribute("age", "quasi", sc.Bins(edges)),
            sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        )
    )
    ages = [5.0] * 40 + [39.5] * 100 + [41.0] * 20
    table = pa.table({"age": ages, "sex": ["f", "m"] * 80})
    folder = tmp_path / "db"
    with sc.Database.create(folder, table, schema, epsilon=100, noise=3, seed=1) as db:
        for sql, true in (
            ("SELECT MEDIAN(age) FROM t", 39.5),
            ("SELECT QUANTILE_DISC(-age, 0.5) FROM t WHERE sex = 'f'", -39.5),
            ("SELECT MEDIAN(age) + 1 FROM t", 40.5),
        ):
            answer = db.answer(sql)
            low, high = answer.interval(0.95)
            assert low <= true <= high
            assert high - low == pytest.approx(20)
        assert db.answer("SELECT MEDIAN(age) FROM t").bounds == pytest.approx((20, 40))
        spent = len(given(folder))
        with pytest.raises(sc.QueryError, match="needs to know where in a bin"):
            db.answer("SELECT MEDIAN(age) FROM t WHERE age > 33")
        assert len(given(folder)) == spent


def test_room_is_found_where_planned_boxes_lie_apart(tmp_path: Path) -> None:
    """The fourth count meets planned boxes of two layers, which do not meet each other."""
    sql = (
        "SELECT COUNT_IF(age BETWEEN 0 AND 1) AS a, COUNT_IF(age BETWEEN 1 AND 2) AS b, "
        "COUNT_IF(age BETWEEN 3 AND 4) AS c, COUNT_IF(age BETWEEN 2 AND 3) AS d FROM t"
    )
    with database(tmp_path / "db", noise=2) as db:  # two answers for each point
        assert db.preview(sql).charged == 4
        answer = db.answer(sql)
        assert [answer[name].status for name in "abcd"] == ["answered"] * 4
    assert most_popular(tmp_path / "db") == 2


def test_admits_is_exact(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Against one counter for each point: past answers, planned ones, and the next box."""
    for seed in range(12):
        with subtests.test(seed=seed):
            draw = Random(seed)
            with database(tmp_path / f"db{seed}") as db:
                for _ in range(3):
                    low = draw.randrange(5)
                    db.answer(count(low, draw.randrange(low, 6), draw.choice("fm")))
                with db._session.state() as state:
                    plan = BatchPlan(state.snapshot(), 1, 0, AskOptions(), 50)
                [batch], sizes = state.batches, state.space.sizes
                counters = np.zeros(sizes, int)
                for box in batch.boxes:
                    counters[_inside(box)] += 1
                for _ in range(40):
                    box = np.array([sorted(draw.choices(range(size), k=2)) for size in sizes])
                    fits = bool(counters[_inside(box)].max() < batch.tracker.limit)
                    assert plan.admits(box) == fits
                    if fits and plan._places.get(("count", box.tobytes())) is None:
                        plan.ask(box)
                        counters[_inside(box)] += 1


def _inside(box: np.ndarray) -> tuple[slice, ...]:
    return tuple(slice(low, high + 1) for low, high in box)
