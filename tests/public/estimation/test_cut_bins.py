"""Questions that cut bins, months and years: bounds are the extremes over all places in the bins.

The oracle moves every row through its bin: to both ends, and to and beside every constant of the
questions. What rows add is independent of each other, so the least and the largest COUNT and SUM
are sums over rows; averages are enumerated over all combinations.

Coverage: with n independent intervals at level p, fewer than p·n - 3 √(n p (1 - p)) hits happen
with probability below 0.2 %. The tables have all rows at one end of their bins, so that the truth
is a bound itself.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from itertools import product

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.cache import Cache
from scumble.public import sandbox
from scumble.public.estimate import Exact
from scumble.public.sandbox import Sandbox

EDGES = [0.0, 10.0, 20.0, 30.0, 35.0, 40.0, 100.0]
FIRST = datetime.date(2021, 1, 1)
SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.Bins(EDGES), missing=True),
        sc.Attribute("when", "quasi", sc.Dates(FIRST, datetime.date(2021, 12, 31), "month")),
        sc.Attribute("sex", "quasi", sc.Category(("F", "M"))),
        sc.Attribute("s", "sensitive", sc.IntegerRange(0, 1)),
    )
)
CONSTANTS = [0, 5, 12, 30, 31, 32, 33, 35, 37.5, 50, 80]


def _people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ages = rng.uniform(0, 100, rows).tolist()
    days = rng.integers(0, 365, rows).tolist()
    return pa.table(
        {
            "age": [None if rng.random() < 0.2 else age for age in ages],
            "when": [FIRST + datetime.timedelta(days=day) for day in days],
            "sex": rng.choice(["F", "M"], rows).tolist(),
            "s": rng.integers(0, 2, rows).tolist(),
        }
    )


def _places_of_age(age: float | None) -> list[float | None]:
    if age is None:
        return [None]
    code = min(int(np.searchsorted(EDGES, age, "right")) - 1, len(EDGES) - 2)
    low, high = EDGES[code], EDGES[code + 1]
    top = high if code == len(EDGES) - 2 else math.nextafter(high, -math.inf)
    beside = [math.nextafter(c, end) for c in CONSTANTS for end in (-math.inf, math.inf)]
    inside = [c for c in (*CONSTANTS, *beside) if low <= c <= top]
    return sorted({low, top, (low + high) / 2, *map(float, inside)})


def _places_of_day(day: datetime.date) -> list[datetime.date]:
    days = (FIRST + datetime.timedelta(days=each) for each in range(365))
    return [each for each in days if each.month == day.month]


def _extremes(people: pa.Table, sql: str) -> tuple[float, float]:
    """The least and the largest answer over all places of rows in their bins."""
    head, _, where = sql.partition(" WHERE ")
    amount = "1" if "COUNT(*)" in head else head[head.index("(") + 1 : head.rindex(")")]
    names = {name for name in ("age", "when") if name in sql}
    rows = []
    for number, row in enumerate(people.to_pylist()):
        ages = _places_of_age(row["age"]) if "age" in names else [row["age"]]
        days = _places_of_day(row["when"]) if "when" in names else [row["when"]]
        for age, day in product(ages, days):
            rows.append({**row, "age": age, "when": day, "row": number})
    places = pa.Table.from_pylist(rows)  # noqa: F841  (DuckDB reads it by name)
    holds = f"coalesce({where or 'true'}, false)"
    found = duckdb.sql(
        f'SELECT "row", min(v), max(v) FROM (SELECT "row", CASE WHEN {holds} THEN '
        f"coalesce(CAST({amount} AS DOUBLE), 0) ELSE 0 END AS v FROM places) GROUP BY 1"
    ).fetchall()
    return sum(each[1] for each in found), sum(each[2] for each in found)


CONDITIONS = [
    "age > 33",
    "age >= 30",
    "age > 30",
    "age < 35 OR age >= 80",
    "age >= 31 AND age < 33",
    "NOT (age BETWEEN 32 AND 50)",
    "age IN (5, 32)",
    "age <> 37.5",
    "age = 33 OR age IS NULL",
    "age > 33 OR age <= 33",
    "age IS NOT NULL",
    "33 >= age",
    "age > 28 + 5",
    "age * 2 > 66",
    "floor(age / 10) = 3",
    "floor(age / 10) IN (0, 4)",
    "CAST(age AS INTEGER) >= 33",
    "abs(age - 33) < 1",
    "NOT (age > 33 OR sex = 'F')",
    "(age > 33 AND sex = 'F') OR age < 5",
    "CASE WHEN sex = 'F' THEN age > 33 ELSE age < 5 END",
    "\"when\" > DATE '2021-01-01' + INTERVAL 3 MONTH",
    "\"when\" >= DATE '2021-01-01' + INTERVAL 3 MONTH",
    "\"when\" BETWEEN '2021-03-15' AND '2021-05-31'",
    "\"when\" = DATE '2021-02-01'",
    "\"when\" <> DATE '2021-02-01' AND age >= 12",
    'dayofweek("when") = 1',
    'month("when") = 4',
    "\"when\" + INTERVAL 1 MONTH >= DATE '2021-03-15'",
]
NOT_SHARP = {"CASE WHEN sex = 'F' THEN age > 33 ELSE age < 5 END"}
AMOUNTS = [
    ("SUM(age)", ""),
    ("SUM(age)", "age > 33"),
    ("SUM(age - 33)", "age < 80"),
    ("SUM(age * 2 - 30)", "age BETWEEN 5 AND 33"),
    ("SUM(-age)", "sex = 'F'"),
    ("SUM(CASE WHEN age > 33 THEN age ELSE 0 END)", ""),
    ("SUM(CASE WHEN age > 33 THEN 1 END)", ""),
    ("SUM(CASE WHEN age > 33 AND sex = 'F' THEN 10 ELSE -1 END)", ""),
    ("SUM(CASE WHEN sex = 'F' THEN age END)", "age >= 12"),
    ("SUM(s * age)", "age < 50"),
    ("SUM(age * age)", ""),
    ("SUM(floor(age / 10))", "age < 33"),
    ("SUM(1 / (age + 1))", ""),
    ("SUM(date_diff('day', DATE '2021-06-15', \"when\"))", ""),
    ("SUM(CASE WHEN \"when\" > DATE '2021-02-10' THEN age ELSE 0 END)", ""),
]


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return _people(60, 4)


@pytest.fixture(scope="module")
def rows(people: pa.Table) -> sc.Release:
    """All columns of the questions but s are published unperturbed, so bounds have no noise."""
    return sc.publish(people, SCHEMA, sc.Uniform(epsilon=40), options=sc.PublishOptions(seed=1))


def test_counts_have_the_extremes_as_bounds(
    people: pa.Table, rows: sc.Release, subtests: pytest.Subtests
) -> None:
    for condition in CONDITIONS:
        with subtests.test(condition=condition):
            sql = f"SELECT COUNT(*) FROM t WHERE {condition}"
            least, most = _extremes(people, sql)
            answer = rows.answer(sql)
            truth = duckdb.sql(sql.replace("FROM t", "FROM people")).fetchall()[0][0]
            low, high = answer.bounds or (answer.value, answer.value)
            if condition in NOT_SHARP:
                assert low <= least <= truth <= most <= high
                continue
            assert (low, high) == (least, most)
            assert isinstance(answer.law, Exact) == (least == most)
            assert answer.interval(0.95) == (least, most)
            assert least <= answer.value <= most
            [many] = rows.answer_many([sql])
            assert (many.value, many.bounds) == (answer.value, answer.bounds)


def test_sums_have_the_extremes_as_bounds(
    people: pa.Table, rows: sc.Release, subtests: pytest.Subtests
) -> None:
    for amount, condition in AMOUNTS:
        with subtests.test(amount=amount, condition=condition):
            sql = f"SELECT {amount} FROM t" + (f" WHERE {condition}" if condition else "")
            least, most = _extremes(people, sql)
            answer = rows.answer(sql)
            assert answer.bounds == pytest.approx((least, most), rel=1e-6, abs=1e-6)
            assert least - 1e-6 <= answer.value <= most + 1e-6


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT AVG(age) FROM t",
        "SELECT AVG(age) FROM t WHERE age BETWEEN 32 AND 80",
        "SELECT AVG(age) FROM t WHERE age < 33",
        "SELECT AVG(age - 33) FROM t WHERE age > 12",
        "SELECT AVG(age) FROM t WHERE \"when\" > DATE '2021-05-31'",
    ],
)
def test_averages_have_the_extremes_as_bounds(sql: str) -> None:
    """Over all combinations of places of four rows."""
    ages, days = [31.0, 36.0, 70.0, 12.0], [(5, 3), (6, 2), (7, 9), (1, 1)]
    table = pa.table(
        {
            "age": ages,
            "when": [datetime.date(2021, *day) for day in days],
            "sex": ["F"] * 4,
            "s": [0, 1, 0, 1],
        }
    )
    release = sc.publish(table, SCHEMA, sc.Uniform(epsilon=40), options=sc.PublishOptions(seed=1))
    places = [_places_of_age(age) for age in ages]
    head, _, where = sql.partition(" WHERE ")
    amount = head[head.index("(") + 1 : head.rindex(")")]
    columns = list(zip(*product(*places), strict=True))
    many = {f"x{i}": each for i, each in enumerate(columns)}
    combinations = pa.table(many)  # noqa: F841
    terms, weights = [], []
    for i, day in enumerate(table["when"].to_pylist()):
        holds = (where or "true").replace("age", f"x{i}").replace('"when"', f"DATE '{day}'")
        terms.append(f"CASE WHEN {holds} THEN {amount.replace('age', f'x{i}')} ELSE 0 END")
        weights.append(f"CASE WHEN {holds} THEN 1 ELSE 0 END")
    ratio = f"({' + '.join(terms)}) / nullif({' + '.join(weights)}, 0)"
    low, high = duckdb.sql(f"SELECT min({ratio}), max({ratio}) FROM combinations").fetchall()[0]
    answer = release.answer(sql)
    if '"when"' in sql:  # each row of a cut month may or may not count
        assert answer.bounds[0] <= low + 1e-9
        assert answer.bounds[1] >= high - 1e-9
    else:
        assert answer.bounds == pytest.approx((low, high), rel=1e-4, abs=1e-4)
        assert answer.bounds[0] <= low + 1e-9
        assert answer.bounds[1] >= high - 1e-9


def test_the_value_is_the_share_of_the_bin(rows: sc.Release, people: pa.Table) -> None:
    ages = [age for age in people["age"].to_pylist() if age is not None]
    inside = sum(30 <= age < 35 for age in ages)
    above = sum(age >= 35 for age in ages)
    answer = rows.answer("SELECT COUNT(*) FROM t WHERE age > 33")
    assert answer.value == pytest.approx(above + inside * 2 / 5)
    assert "exactly" not in repr(answer)


def test_what_cannot_be_bounded_is_refused(rows: sc.Release) -> None:
    with pytest.raises(sc.QueryError, match="cannot be bounded within the bins of age"):
        rows.answer("SELECT SUM(age % 7) FROM t")
    answer = rows.answer("SELECT COUNT(*) FROM t WHERE age % 7 > 3")
    known = rows.answer("SELECT COUNT(*) FROM t WHERE age IS NOT NULL")
    assert answer.bounds == (0, known.value)


def test_groups_are_bounded_each(rows: sc.Release, people: pa.Table) -> None:
    answers = rows.answer("SELECT sex, COUNT(*) FROM t WHERE age > 33 GROUP BY sex")
    for (sex,), answer in answers:
        sql = f"SELECT COUNT(*) FROM t WHERE age > 33 AND sex = '{sex}'"
        assert answer.bounds == _extremes(people, sql)


# Every kind of evidence, on tables with all rows at one end of their bins.

LEVEL = 0.9
RELEASES = 12
NAMES = ["age", "when", "s"]
SMALL = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.Bins([0, 10, 20, 40, 60])),
        sc.Attribute("when", "quasi", sc.Dates(FIRST, datetime.date(2021, 4, 30), "month")),
        sc.Attribute("s", "sensitive", sc.Category(("a", "b", "c"))),
        sc.Attribute("wage", "sensitive", sc.Bins([0, 100, 200, 400])),
    )
)
QUESTIONS = [
    "COUNT(*) FROM t WHERE age > 15",
    "COUNT(*) FROM t WHERE age <= 35 AND \"when\" > DATE '2021-01-01' + INTERVAL 40 DAY",
    "SUM(age) FROM t WHERE \"when\" < '2021-03-15'",
    "AVG(age) FROM t",
    "AVG(age) FROM t WHERE age < 35",
]
WAGES = ["COUNT(*) FROM t WHERE wage > 150", "SUM(wage) FROM t WHERE age > 15", "AVG(wage) FROM t"]
DP: dict[str, object] = {"epsilon": 4, "neighbours": "add_remove"}
PLANNED = ['SELECT age, "when", COUNT(*) FROM t GROUP BY age, "when"']
MECHANISMS: dict[str, Callable[[], sc.Mechanism]] = {
    "uniform": lambda: sc.Uniform(epsilon=2),
    "subset": lambda: sc.Subset(epsilon=2),
    "partition": lambda: sc.Partition(rho1=0.2, rho2=0.6),
    "aroma": lambda: sc.Aroma(k=3),
    "anatomy": lambda: sc.Anatomy(l=2),
    "frapp": lambda: sc.Frapp(epsilon=4),
    "alphabeta": lambda: sc.AlphaBeta(epsilon=8, multiplicity=40),
    **{
        name: (lambda name=name: getattr(sc, name)(NAMES, **DP))
        for name in (
            "Histogram", "Hierarchy", "Wavelet", "Datacube", "Quadtree", "KdTree", "PrivTree",
            "Grid", "Mosaic", "Sparse",
        )
    },
    "Marginals": lambda: sc.Marginals(NAMES, ways=2, **DP),
    "Workload": lambda: sc.Workload(NAMES, queries=PLANNED, **DP),
}  # fmt: skip


def _adversarial(seed: int) -> pa.Table:
    """Rows at the last number of their bins, or at the first; days at the ends of months."""
    rng = np.random.default_rng(seed)
    rows = 300
    top = bool(seed % 2)
    bins = np.array([0, 10, 20, 40, 60])
    code = rng.choice(4, rows, p=[0.1, 0.5, 0.3, 0.1])
    ages = np.nextafter(bins[code + 1].astype(float), -np.inf) if top else bins[code].astype(float)
    month = rng.integers(1, 5, rows)
    wages = np.array([0, 100, 200, 400])
    band = rng.integers(0, 3, rows)
    pay = np.nextafter(wages[band + 1].astype(float), -np.inf) if top else wages[band].astype(float)
    days = [datetime.date(2021, int(m), 28 if top else 1) for m in month]
    names = np.array(["a", "b", "c"])[(code + rng.integers(0, 2, rows)) % 3]
    return pa.table({"age": ages, "when": days, "s": names, "wage": pay})


QUICK = {"anatomy"}  # a few seconds; the others take more
CASES = [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in MECHANISMS
]


@pytest.mark.parametrize("name", CASES)
def test_coverage_at_the_ends_of_bins(name: str) -> None:
    questions = QUESTIONS if name[0].isupper() or name == "anatomy" else [*QUESTIONS, *WAGES]
    hits: list[list[bool]] = []
    for seed in range(RELEASES):
        people = _adversarial(seed)
        source = people if "wage" in " ".join(questions) else people.drop_columns(["wage"])
        schema = SMALL if source is people else SMALL.select(NAMES)
        release = sc.publish(
            source, schema, MECHANISMS[name](), options=sc.PublishOptions(seed=seed)
        )
        own = []
        for question in questions:
            found = duckdb.sql(f"SELECT {question.replace('FROM t', 'FROM people')}").fetchall()
            truth = found[0][0]
            answer = release.answer(f"SELECT {question}")
            low, high = answer.interval(LEVEL)
            assert not isinstance(answer.law, Exact)
            own.append(low - 1e-6 <= truth <= high + 1e-6)
        hits.append(own)
    share, n = np.mean(hits), RELEASES
    assert share >= LEVEL - 3 * math.sqrt(LEVEL * (1 - LEVEL) / n), np.mean(hits, axis=0)


def test_quantiles_have_the_extremes_as_bounds(
    people: pa.Table, rows: sc.Release, subtests: pytest.Subtests
) -> None:
    """A quantile rises with every number: the extremes have all rows at one end of their bins."""
    for where, what in product(
        ["", " WHERE sex = 'F'", " WHERE age >= 20"],
        ["MEDIAN(age)", "QUANTILE_DISC(age, 0.8)", "MEDIAN(-2 * age)"],
    ):
        with subtests.test(where=where, what=what):
            sql = f"SELECT {what} FROM {{}}{where}"
            ends = []
            for end in (0, -1):
                ages = [_places_of_age(age)[end] for age in people["age"].to_pylist()]
                moved = people.set_column(0, "age", pa.array(ages))  # noqa: F841
                ends.append(duckdb.sql(sql.format("moved")).fetchall()[0][0])
            answer = rows.answer(sql.format("t"))
            assert answer.bounds == pytest.approx(sorted(ends), abs=1e-6)
            assert answer.interval(0.95) == pytest.approx(sorted(ends), abs=1e-6)
            assert min(ends) <= answer.value <= max(ends)
            truth = duckdb.sql(sql.format("people")).fetchall()[0][0]
            assert abs(answer.value - truth) < (max(ends) - min(ends)) / 2


def test_quantiles_under_a_condition_that_cuts_a_bin(rows: sc.Release, people: pa.Table) -> None:
    """Rows in the cut bin may or may not count; numbers of those that do are within the cut."""
    sql = "SELECT QUANTILE_DISC(age, 0.02) FROM {} WHERE age > 33"
    low, high = rows.answer(sql.format("t")).interval(0.95)
    cut = [age for age in people["age"].to_pylist() if age is not None and 30 <= age < 35]
    assert cut
    for place in (30.5, 33.0001, 34.999):
        ages = [
            place if age is not None and 30 <= age < 35 else age
            for age in people["age"].to_pylist()
        ]
        moved = people.set_column(0, "age", pa.array(ages))  # noqa: F841
        assert low <= duckdb.sql(sql.format("moved")).fetchall()[0][0] <= high
    assert low == pytest.approx(33)
    with pytest.raises(sc.QueryError, match="a quantile is of an expression of that column alone"):
        rows.answer("SELECT MEDIAN(age + s) FROM t")


@pytest.mark.parametrize("kind", ["rows", "sparse"])
def test_an_amount_is_written_once_for_all_its_sums(
    kind: str, rows: sc.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An amount by bin is long, and the time of a statement is that of its text."""
    if kind == "sparse":
        mechanism = sc.Sparse(["age", "sex"], epsilon=1, neighbours="add_remove")
        rows = sc.publish(_people(2000, 4), SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
    statements: list[str] = []
    run = Sandbox.rows
    monkeypatch.setattr(Sandbox, "rows", lambda self, sql: statements.append(sql) or run(self, sql))
    low, high = rows.answer("SELECT AVG(age) FROM t WHERE age > 27").interval(0.9)
    assert low < high
    asked = [sql for sql in statements if "ELSE greatest(" in sql]
    assert asked, "for the upper end: the largest amount, or 0 in the bin that is cut"
    assert {sql.count("ELSE greatest(") for sql in asked} == {1}


def test_versions_of_conditions_are_kept_by_domain(
    people: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second release with the same bins does not ask DuckDB whether a condition cuts one."""
    other = sc.Attribute("age", "quasi", sc.Bins([0.0, 25.0, 30.0, 60.0, 100.0]), missing=True)
    schemas = SCHEMA, sc.Schema((other, *SCHEMA.attributes[1:]))
    every = [f"SELECT COUNT(*) FROM t WHERE age < {age}" for age in (25, 30, 35, 60)]
    aligned = [f"SELECT COUNT(*) FROM t WHERE age {sign} 30" for sign in ("<", ">=")]

    statements: list[str] = []
    run = Sandbox._run
    monkeypatch.setattr(
        Sandbox, "_run", lambda self, cursor, sql: statements.append(sql) or run(self, cursor, sql)
    )

    def asked(schema: sc.Schema, questions: list[str]) -> tuple[list[object], bool]:
        """Return the answers, and whether DuckDB evaluated an expression over a domain."""
        release = sc.publish(
            people, schema, sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1)
        )
        statements.clear()
        given = release.answer_many(questions)
        evaluated = any(f'"{sandbox._CELLS}"' in sql for sql in statements)
        return [(each.value, each.interval()) for each in given], evaluated

    alone = []
    for schema in schemas:
        monkeypatch.setattr(sandbox, "_KNOWN", Cache(1 << 26))
        alone.append([asked(schema, some) for some in (every, aligned)])
    monkeypatch.setattr(sandbox, "_KNOWN", Cache(1 << 26))
    for schema, [(expected, _), (plain, _)] in zip(schemas, alone, strict=True):
        assert asked(schema, aligned) == (plain, True)
        assert asked(schema, aligned) == (plain, False)
        assert asked(schema, every) == (expected, True)
    assert alone[0][0] != alone[1][0]
