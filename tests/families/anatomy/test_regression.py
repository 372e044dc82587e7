"""The regression over groups: unbiased, with the exact variance, over all ways to deal the records;
and intervals that hold on tables where even spread is as wrong as it can be.
"""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.families.anatomy.read.plan import layout
from scumble.families.anatomy.read.regression import Regression, regression
from scumble.private.sampling.source import Keystream
from scumble.public.estimate import Exact
from scumble.public.release import Release
from tests.families.anatomy.test_anatomy_answers import _release
from tests.support.anatomy import groups_of_records

# The values of each group, one group larger than the others, and the numbers x of the records of
# each value: 3!·3!·3! ways to deal them.
GROUPS = [("cook", "nurse"), ("cook", "smith"), ("nurse", "smith"), ("cook", "nurse", "smith")]
RECORDS = {"cook": (1, 1, 0), "nurse": (0, 1, 0), "smith": (2, 5, -1)}


def _deals() -> list[list[int]]:
    """The sums of x over the groups, for every way to deal the records to the groups."""
    places = {v: [g for g, group in enumerate(GROUPS) if v in group] for v in RECORDS}
    found = []
    for deal in itertools.product(*(itertools.permutations(RECORDS[v]) for v in RECORDS)):
        sums = [0] * len(GROUPS)
        for value, numbers in zip(RECORDS, deal, strict=True):
            for group, number in zip(places[value], numbers, strict=True):
                sums[group] += number
        found.append(sums)
    return found


@pytest.fixture(scope="module")
def fitted() -> tuple[Regression, list[str]]:
    values = [(v, g, 1) for g, group in enumerate(GROUPS) for v in group]
    rows = [(0, "f", g) for g, group in enumerate(GROUPS) for _ in group]
    release = _release(rows, values)
    engine = release._sandbox
    found = regression(release.evidence, layout(release.evidence, release.schema, engine), engine)
    lines = layout(release.evidence, release.schema, engine).values.combinations(
        engine, ["job"], []
    )
    return found, release.schema["job"].decode(lines.codes["job"]).to_pylist()


@pytest.mark.parametrize(
    "weights", [{"cook": 1}, {"nurse": 1, "smith": 1}, {"cook": 3, "smith": -2}]
)
def test_unbiased_with_the_variance_of_all_deals(
    fitted: tuple[Regression, list[str]], weights: dict[str, int]
) -> None:
    """Mean and variance of the estimate over all deals, in fractions, against truth and formula."""
    found, names = fitted
    target = found.solve(np.array([float(weights.get(name, 0)) for name in names]))
    assert target.estimable
    truth = sum(weights.get(v, 0) * sum(numbers) for v, numbers in RECORDS.items())
    solved = [Fraction(float(each)) for each in target.solved]
    common = Fraction(int(found.unit))
    sizes = [len(group) for group in GROUPS]
    estimates = []
    for sums in _deals():
        met = {
            v: sum(
                common / size * y
                for group, size, y in zip(GROUPS, sizes, sums, strict=True)
                if v in group
            )
            for v in RECORDS
        }
        estimates.append(sum(s * met[name] for s, name in zip(solved, names, strict=True)))
    mean = sum(estimates) / len(estimates)
    variance = sum((each - mean) ** 2 for each in estimates) / len(estimates)
    assert float(mean) == pytest.approx(truth, abs=1e-10)
    tau = [Fraction(int(1e9 * np.var(RECORDS[name], ddof=1)), 10**9) for name in names]
    exact = sum(Fraction(float(q)) * t for q, t in zip(target.squares, tau, strict=True))
    assert float(variance) == pytest.approx(float(exact), rel=1e-7)


def test_the_estimates_of_all_values_add_up(fitted: tuple[Regression, list[str]]) -> None:
    """The weight of all values has the coefficient 1 in every group: the count is exact."""
    found, _ = fitted
    target = found.solve(np.ones(found.size))
    assert target.squares == pytest.approx(np.zeros(found.size), abs=1e-20)
    assert target.reach == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_rows_and_values_are_counted_together_by_threads(
    fitted: tuple[Regression, list[str]], kind: type
) -> None:
    """The u of each key, against a loop over groups, rows and values."""
    found, names = fitted
    keys = np.array([0, -1, 1, 1, -1, 0, 0, 0, 1], kind)
    expected = np.zeros((2, len(names)))
    rows = iter(keys)
    for group in GROUPS:
        for key in itertools.islice(rows, len(group)):
            for value in group if key >= 0 else ():
                expected[key, names.index(value)] += found.unit / len(group)
    assert (found.together(keys, 2) == expected).all()
    assert found.of_values(np.array([names.index(v) for g in GROUPS for v in g])).tolist() == [
        *range(len(names))
    ]


def test_records_of_a_value_are_dealt_uniformly() -> None:
    """Given which values are in which group, every way to deal the records of a value is equally
    likely: also with a record that no group took at first, and one that is left out.

    Chi-square over 12,000 draws; false alarm at most one in a million.
    """
    from scipy.stats import chi2

    codes = np.array([0, 0, 0, 0, 1, 1, 2, 3])
    counts = np.bincount(codes)
    source = Keystream(7)
    for kept in (counts, np.array([3, 2, 1, 1])):
        seen: dict[tuple, Counter] = {}
        for _ in range(6000):
            groups = groups_of_records(source, codes, kept, 2)
            of = [tuple(groups[codes == value].tolist()) for value in range(4)]
            shape = tuple(tuple(sorted(each)) for each in of)
            seen.setdefault(shape, Counter())[of[0], of[1]] += 1
        statistic, freedom = 0.0, 0
        for shape, ways in seen.items():
            possible = len(set(itertools.permutations(shape[0]))) * len(
                set(itertools.permutations(shape[1]))
            )
            expected = sum(ways.values()) / possible
            if expected < 5:
                continue
            statistic += sum((n - expected) ** 2 / expected for n in ways.values())
            statistic += (possible - len(ways)) * expected
            freedom += possible - 1
        assert freedom
        assert statistic < chi2.isf(5e-7, freedom)


JOBS = tuple("abcdefgh")


def _schema() -> sc.Schema:
    return sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 19)),
            sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
            sc.Attribute("job", "sensitive", sc.Category(JOBS)),
        ]
    )


def _table(people: int, *, tied: float, seed: int = 3) -> pa.Table:
    """A table in which the job follows from the age for a share `tied` of the people."""
    random = np.random.default_rng(seed)
    age = random.integers(0, 20, people)
    job = np.where(random.random(people) < tied, age * 2 // 5, random.integers(0, 8, people))
    sex = np.where(random.random(people) < 0.1 + 0.1 * job, "f", "m")
    return pa.table({"age": age, "sex": sex, "job": np.array(JOBS)[job]})


QUESTIONS = [
    f"{what} FROM t WHERE {rows} AND {values}"
    for what in ("SELECT COUNT(*)", "SELECT SUM(age)", "SELECT AVG(age)")
    for rows in ("age < 5", "age BETWEEN 8 AND 9", "sex = 'f'", "age = 3 AND sex = 'm'", "age >= 0")
    for values in ("job = 'a'", "job IN ('b', 'c', 'h')", "job < 'f'")
]


def _truths(table: pa.Table) -> list[float]:
    import duckdb

    found = [
        duckdb.from_arrow(table).query("t", question).fetchall()[0][0] for question in QUESTIONS
    ]
    return [float("nan") if each is None else float(each) for each in found]


def _check_coverage(people: int, tied: float, least: int, asked: list[str], times: int) -> None:
    """Publish `times` times; at 95 and 80 % the intervals must hold the truth.

    Answers of a publication depend on each other, so the standard error is over publications, and
    four of them are allowed: false alarm below one in ten thousand for each table.
    """
    domain, table = _schema(), _table(people, tied=tied)
    known = dict(zip(QUESTIONS, _truths(table), strict=True))
    asked = [question for question in asked if not np.isnan(known[question])]
    truths = np.array([known[question] for question in asked])
    inside: dict[float, list[float]] = {0.95: [], 0.8: []}
    for seed in range(times):
        release = sc.publish(
            table, domain, sc.Anatomy(l=least, suppress=True), options=sc.PublishOptions(seed=seed)
        )
        answers = release.answer_many(asked)
        assert all("evenly" not in note for answer in answers for note in answer.notes)
        for level, shares in inside.items():
            low, high = np.array([answer.interval(level) for answer in answers]).T
            shares.append(np.mean((low - 1e-6 <= truths) & (truths <= high + 1e-6)))
    for level, shares in inside.items():
        error = np.std(shares) / np.sqrt(times)
        assert np.mean(shares) >= level - 4 * error - 1e-9


TABLES = [(80, 1, 2), (600, 1, 3), (600, 0.3, 4)]  # people, share that is tied, l


@pytest.mark.parametrize(
    ("people", "tied", "least"),
    [TABLES[0], pytest.param(*TABLES[1], marks=pytest.mark.slow), TABLES[2]],
)
def test_intervals_of_counts_hold_whatever_the_table(people: int, tied: float, least: int) -> None:
    _check_coverage(people, tied, least, QUESTIONS[:15], 25)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize(("people", "tied", "least"), TABLES)
def test_intervals_of_sums_and_averages_hold(
    people: int, tied: float, least: int, kind: int
) -> None:
    _check_coverage(people, tied, least, QUESTIONS[15 * kind : 15 * kind + 15], 30)


def _published(table: pa.Table, least: int, seed: int = 1) -> Release:
    return sc.publish(
        table, _schema(), sc.Anatomy(l=least, suppress=True), options=sc.PublishOptions(seed=seed)
    )


def _even(release: Release, question: str) -> float:
    """The count if the values of every group were spread evenly over its rows."""
    *rows, values = question.partition(" WHERE ")[2].split(" AND ")
    shown = f'SELECT "group", sum(({" AND ".join(rows)})::INT) AS r, count(*) AS n FROM view'
    hidden = f'SELECT "group", sum("count") FILTER ({values}) AS s FROM "values"'
    both = f'({shown} GROUP BY 1) JOIN ({hidden} GROUP BY 1) USING ("group")'
    [value] = release._sandbox.rows(f"SELECT sum(r * s / n) FROM {both}").column(0).to_pylist()
    return float(value)


def test_better_than_even_spread_by_far() -> None:
    """The error of counts is below 0.3 of that of even spread, where values go with rows."""
    table = _table(8000, tied=0.7)
    truths = _truths(table)
    errors = []
    release = _published(table, 2)
    for question, truth in list(zip(QUESTIONS, truths, strict=True))[:12]:
        estimate = release.answer(question)
        if not isinstance(estimate.law, Exact):
            errors.append((abs(estimate.value - truth), abs(_even(release, question) - truth)))
    found, even = np.mean(errors, axis=0)
    assert found < 0.3 * even


def test_groups_that_tell_no_values_apart_leave_the_bounds() -> None:
    """Every group has all values: the regression knows nothing, and the interval is certain."""
    table = pa.table({"age": [0, 1, 2, 3] * 10, "sex": ["f"] * 40, "job": list("abcd") * 10})
    release = _published(table, 4)
    estimate = release.answer("SELECT COUNT(*) FROM t WHERE age = 0 AND job = 'a'")
    assert estimate.law.unbiased is None
    assert estimate.interval() == estimate.law.bounds
    assert estimate.interval()[0] <= 10 <= estimate.interval()[1]


def test_rows_that_were_left_out_are_added_above() -> None:
    """Half of the people have one job, of whom Anatomy keeps a third of all."""
    table = pa.table(
        {
            "age": [5] * 100 + list(range(20)) * 5,
            "sex": ["f"] * 200,
            "job": ["a"] * 100 + list("bcdefbgc" * 12) + ["d"] * 4,
        }
    )
    release = _published(table, 3)
    assert not release.evidence.complete
    assert release.evidence.left_out == 200 - release.evidence.rows
    whole = release.answer("SELECT COUNT(*) FROM t")
    assert whole.interval() == (200, 200)  # the number of those left out is published
    assert release.answer("SELECT COUNT(*) FROM t WHERE job = 'a'").interval() == (100, 100)
    low, high = release.answer("SELECT COUNT(*) FROM t WHERE age = 5 AND job = 'a'").interval()
    assert low <= 100 <= high
    rare = release.answer("SELECT COUNT(*) FROM t WHERE job = 'g'")
    assert isinstance(rare.law, Exact)
    assert rare.value == 12
    low, high = release.answer("SELECT AVG(age) FROM t WHERE job = 'a'").interval()
    assert low <= 5 <= high
    low, high = release.answer("SELECT SUM(age) FROM t WHERE job = 'a'").interval()
    assert low <= 500 <= high


def test_many_counts_have_the_same_regression() -> None:
    release = _published(_table(600, tied=0.5), 3)
    questions = [question for question in QUESTIONS if "COUNT" in question]
    for one, many in zip(
        [release.answer(question) for question in questions],
        release.answer_many(questions),
        strict=True,
    ):
        assert many.value == pytest.approx(one.value, rel=1e-12)
        assert many.interval() == pytest.approx(one.interval(), rel=1e-12)
        assert many.method == one.method


def test_groups_of_an_answer_add_up() -> None:
    """The regressions of all jobs add up to the exact count of the rows."""
    release = _published(_table(600, tied=0.5), 3)
    found = release.answer("SELECT job, COUNT(*) FROM t WHERE age < 9 GROUP BY job")
    total = sum(each.law.unbiased.value for _, each in found)
    assert total == pytest.approx(release.answer("SELECT COUNT(*) FROM t WHERE age < 9").value)
