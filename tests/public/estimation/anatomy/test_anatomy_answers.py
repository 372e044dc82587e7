"""Answers from Anatomy against all assignments of values to rows, enumerated: under even spread the
law has the mean and variance of the truth, and the bounds are its least and largest values.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.evidence.evidence import Groups
from scumble.model.privacy.guarantee import Guarantees
from scumble.public.estimate import Exact
from scumble.public.estimation.anatomy.moments import GroupedCount, swap_half_width
from scumble.public.estimation.interval_laws import WeightedSum
from scumble.public.release import Manifest, Release
from tests.support.people import people, schema

# age, sex and group of each row; job, group and count of each value: also more than once.
ROWS = [
    *[(1, "f", 0), (4, "f", 0), (7, "m", 0)],
    *[(1, "m", 1), (1, "f", 1), (9, "f", 1), (5, "m", 1)],
    *[(6, "m", 2), (6, "m", 2)],
    *[(3, "f", 3)],
]
VALUES = [
    *[("cook", 0, 2), ("nurse", 0, 1)],
    *[("cook", 1, 1), ("smith", 1, 1), ("teacher", 1, 2)],
    *[("nurse", 2, 1), ("cook", 2, 1)],
    *[("smith", 3, 1)],
]
Row = dict[str, object]

# Condition and amount of a row, as SQL and as Python.
QUESTIONS: dict[str, tuple[Callable[[Row], bool], Callable[[Row], int] | None]] = {
    "COUNT(*) WHERE job = 'cook' AND age < 6": (
        lambda r: r["job"] == "cook" and r["age"] < 6,
        None,
    ),
    "COUNT(*) WHERE job >= 'n' AND sex = 'f'": (
        lambda r: r["job"] >= "n" and r["sex"] == "f",
        None,
    ),
    "COUNT(*) WHERE length(job) > age": (lambda r: len(r["job"]) > r["age"], None),
    "COUNT(*) WHERE sex = 'm' AND job <> 'smith' AND (job = 'cook' OR age = 6)": (
        lambda r: r["sex"] == "m" and r["job"] != "smith" and (r["job"] == "cook" or r["age"] == 6),
        None,
    ),
    "SUM(age) WHERE job = 'cook'": (lambda r: r["job"] == "cook", lambda r: r["age"]),
    "SUM(length(job) - 5) WHERE age < 7": (lambda r: r["age"] < 7, lambda r: len(r["job"]) - 5),
    "SUM(age * length(job))": (lambda _: True, lambda r: r["age"] * len(r["job"])),
    "SUM(age - 4) WHERE length(job) > age": (
        lambda r: len(r["job"]) > r["age"],
        lambda r: r["age"] - 4,
    ),
    "AVG(age) WHERE job <> 'cook'": (lambda r: r["job"] != "cook", lambda r: r["age"]),
    "AVG(length(job)) WHERE sex = 'f'": (lambda r: r["sex"] == "f", lambda r: len(r["job"])),
    "AVG(age + length(job)) WHERE job <> 'nurse'": (
        lambda r: r["job"] != "nurse",
        lambda r: r["age"] + len(r["job"]),
    ),
}


def _release(rows: list, values: list, *, complete: bool = True) -> Release:
    folder = Path(tempfile.mkdtemp())
    names = (["age", "sex", "group"], ["job", "group", "count"])
    for file, columns, lines in zip(("rows", "values"), names, (rows, values), strict=True):
        table = dict(zip(columns, zip(*lines, strict=True), strict=True))
        pq.write_table(pa.table(table), folder / f"{file}.parquet")
    evidence = Groups(
        "rows.parquet",
        "values.parquet",
        ("age", "sex", "job"),
        ("job",),
        "group",
        "count",
        len(rows),
        complete,
    )
    return Release(Manifest("anatomy", {}, schema(), Guarantees(), evidence), folder, True)


@pytest.fixture(scope="module")
def release() -> Release:
    return _release(ROWS, VALUES)


def _tables() -> Iterator[list[Row]]:
    """Return the table of every assignment that the release allows."""
    ways = []
    for group in range(4):
        slots = [job for job, number, count in VALUES if number == group for _ in range(count)]
        ways.append(list(itertools.permutations(slots)))
    for chosen in itertools.product(*ways):
        jobs = [job for part in chosen for job in part]
        yield [
            {"age": age, "sex": sex, "job": job}
            for (age, sex, _), job in zip(ROWS, jobs, strict=True)
        ]


TABLES = list(_tables())


def _moments(numbers: list[tuple[int, int]]) -> tuple[Fraction, ...]:
    """Means, variances and covariance of pairs that are equally likely."""
    n = len(numbers)
    mean = [Fraction(sum(pair[i] for pair in numbers), n) for i in (0, 1)]
    both = [
        sum((a[i] - mean[i]) * (a[j] - mean[j]) for a in numbers) / n
        for i, j in ((0, 0), (1, 1), (0, 1))
    ]
    return (*mean, *both)


def _sql(question: str, groups: str = "") -> str:
    what, _, condition = question.partition(" WHERE ")
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {groups}{', ' if groups else ''}{what} FROM t{where}" + (
        f" GROUP BY {groups}" if groups else ""
    )


@pytest.mark.parametrize("groups", ["", "sex", "job", "job, sex"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_mean_and_variance_are_those_of_all_assignments(
    release: Release, question: str, groups: str
) -> None:
    """Exact means and variances over 3!·4!·2!·1! ways, in fractions, and exact bounds of questions
    that can be split; of others, valid ones.
    """
    holds, amount = QUESTIONS[question]
    names = groups.split(", ") if groups else []
    found = release.answer(_sql(question, groups))
    answers = dict(found) if groups else {(): found}
    sums: dict[tuple, list[tuple[int, int]]] = {}
    for place, table in enumerate(TABLES):
        for row in filter(holds, table):
            pairs = sums.setdefault(tuple(row[n] for n in names), [(0, 0)] * len(TABLES))
            total, count = pairs[place]
            pairs[place] = (total + (amount(row) if amount else 0), count + 1)
    assert set(answers) == set(sums)
    for key, pairs in sums.items():
        total, count, total_variance, count_variance, covariance = _moments(pairs)
        value, variance = (count, count_variance) if amount is None else (total, total_variance)
        if question.startswith("AVG"):
            value = total / count
            variance = total_variance - 2 * value * covariance + value**2 * count_variance
            variance /= count**2
        law = answers[key].law
        if isinstance(law, Exact):
            assert variance == 0
            assert answers[key].value == pytest.approx(float(value), abs=1e-12)
            continue
        assert law.even == pytest.approx(float(value), abs=1e-12)
        assert law.noise.stderr == pytest.approx(math.sqrt(variance), abs=1e-7)
        numbers = [total if amount else count for total, count in pairs]
        if question.startswith("AVG"):
            numbers = [total / count for total, count in pairs if count]
        low, high = law.bounds
        assert low - 1e-9 <= min(numbers)
        assert max(numbers) <= high + 1e-9
        assert low - 1e-9 <= answers[key].value <= high + 1e-9
        if "length(job) > age" not in question and "OR" not in question and "AVG" not in question:
            assert "age * length" in question or (low, high) == pytest.approx(
                (min(numbers), max(numbers))
            )


@pytest.mark.parametrize(
    "question",
    [
        "COUNT(*)",
        "COUNT(*) WHERE age < 6",
        "COUNT(*) WHERE job = 'cook'",
        "SUM(length(job)) WHERE job > 'd'",
        "AVG(age) WHERE sex = 'f'",
        "AVG(length(job))",
        "COUNT(*) WHERE age < 6 AND 1 = 1",
        "COUNT(*) WHERE job = 'cook' AND 1 = 1",
        "COUNT(*) WHERE age < 0 AND job = 'cook'",
        "COUNT(*) WHERE age < 9 AND job IN ('cook', 'driver', 'nurse', 'smith', 'teacher')",
    ],
)
def test_what_needs_no_assumption_is_exact(release: Release, question: str) -> None:
    """Each of these has one answer, whatever row has whatever value."""
    estimate = release.answer(_sql(question))
    assert isinstance(estimate.law, Exact)
    assert estimate.notes == ()
    first, last = (_answer(TABLES[place], question) for place in (0, -1))
    assert estimate.value == pytest.approx(first)
    assert first == pytest.approx(last)


def _answer(table: list[Row], question: str) -> float:
    """The same question to a table, by DuckDB itself."""
    import duckdb

    t = pa.Table.from_pylist(table)
    [[value]] = duckdb.from_arrow(t).query("t", _sql(question)).fetchall()
    return float(value)


@pytest.mark.parametrize(
    "question", [q for q in QUESTIONS if "COUNT" in q and "length" not in q and "OR" not in q]
)
def test_the_law_of_a_count_is_exact(release: Release, question: str) -> None:
    """At every level the interval leaves out at most half of the rest at each end, and a shorter
    one would leave out more.
    """
    holds, _ = QUESTIONS[question]
    law = Counter(sum(map(holds, table)) for table in TABLES)
    estimate = release.answer(_sql(question))
    even = estimate.law.even
    for level in (0.3, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1 - 1e-12):
        tail = (1 - level) / 2 * len(TABLES)
        low, high = estimate.law.noise_interval(estimate.value, level)
        inside = [count for count in law if low <= count <= high]
        assert sum(law[count] for count in law if count < low) <= tail + 1e-9
        assert sum(law[count] for count in law if count > high) <= tail + 1e-9
        if low < even < high:
            assert sum(law[c] for c in law if c <= min(inside)) > tail - 1e-9
            assert sum(law[c] for c in law if c >= max(inside)) > tail - 1e-9


def test_the_law_of_many_groups_is_the_convolution_of_theirs() -> None:
    kinds = [(1, 1, 3, 40), (2, 1, 4, 25), (3, 2, 5, 17), (2, 2, 2, 9), (1, 2, 9, 30)]
    law = GroupedCount(*(np.array(column, np.int64) for column in zip(*kinds, strict=True)))
    exact = np.ones(1)
    for rows, values, size, times in kinds:
        one = np.zeros(min(rows, values) + 1)
        for number in range(len(one)):
            ways = math.comb(rows, number) * math.comb(size - rows, values - number)
            one[number] = ways / math.comb(size, values)
        for _ in range(times):
            exact = np.convolve(exact, one)
    numbers = np.arange(len(exact))
    assert law.value == pytest.approx(exact @ numbers)
    assert law.variance == pytest.approx(exact @ numbers**2 - law.value**2)
    for level in (0.5, 0.9, 0.95, 0.99, 0.9999):
        low, high = law.interval(law.value, level)
        tail = (1 - level) / 2
        assert exact[numbers < low].sum() <= tail < exact[numbers <= low].sum()
        assert exact[numbers > high].sum() <= tail < exact[numbers >= high].sum()


def test_the_normal_law_takes_over_smoothly() -> None:
    """Just below and just above the standard error at which it does, the limits agree to a part in
    50 of a standard error.
    """
    for level in (0.5, 0.95, 0.999):
        reaches = []
        for times in (179_000, 181_000):
            law = GroupedCount(*(np.array([n], np.int64) for n in (1, 1, 3, times)))
            low, high = law.interval(law.value, level)
            reaches.append(((law.value - low) / law.stderr, (high - law.value) / law.stderr))
        assert np.ptp(np.array(reaches)) < 0.02


def test_sums_cover_at_their_level() -> None:
    """The exact law of sums over 1 to 20 groups of random amounts, by convolution; no chance is
    involved beyond the fixed choice of the amounts.
    """
    random = np.random.default_rng(5)
    for _ in range(60):
        size, times = int(random.integers(2, 5)), int(random.choice([1, 2, 5, 20]))
        amounts = random.integers(-3, 30, size) * random.integers(0, 2, size)
        wanted = random.integers(0, 2, size)
        law: dict[int, float] = {0: 1.0}
        ways = list(itertools.permutations(wanted.tolist()))
        one = Counter(int(np.dot(amounts, way)) for way in ways)
        for _ in range(times):
            folded: Counter = Counter()
            for total, chance in law.items():
                for added, number in one.items():
                    folded[total + added] += chance * number / len(ways)
            law = folded
        spread = [size * np.dot(x, x) - x.sum() ** 2 for x in (amounts, wanted)]
        variance = times * spread[0] * spread[1] / (size**2 * (size - 1))
        mean = times * amounts.sum() * wanted.sum() / size
        largest = max(amounts.max(), 0) - min(amounts.min(), 0)
        for level in (0.5, 0.9, 0.95, 0.99):
            sums = WeightedSum(float(variance), float(largest), swap_half_width)
            low, high = sums.interval(mean, level)
            inside = sum(p for total, p in law.items() if low - 1e-9 <= total <= high + 1e-9)
            assert inside >= level - 1e-9


def test_missing_values_are_values_like_any_other() -> None:
    job = sc.Attribute("job", "sensitive", sc.Category(("cook", "nurse")), missing=True)
    age = sc.Attribute("age", "quasi", sc.IntegerRange(0, 3), missing=True)
    private = pa.table({"age": [0, 1, None, 3] * 50, "job": ["cook", None, "nurse", "nurse"] * 50})
    release = sc.publish(private, sc.Schema([age, job]), sc.Anatomy(l=2), seed=2)
    for where in ("age < 3", "(age < 3 OR job = 'cook')", "age IS NULL"):
        found = release.answer(f"SELECT job, COUNT(*) FROM t WHERE {where} GROUP BY job")
        assert [key for key, _ in found] == [("cook",), ("nurse",), (None,)]
        whole = release.answer(f"SELECT COUNT(*) FROM t WHERE {where}").value
        assert sum(e.value for _, e in found) == pytest.approx(whole)
    both = release.answer(
        "SELECT age, job, SUM(1) FROM t WHERE age IS NULL OR job IS NULL GROUP BY age, job"
    )
    assert (None, None) in dict(both)


def test_names_that_the_statements_use_themselves() -> None:
    """Attributes called like everything that an estimator may want to call something."""
    names = ("group", "count", "rows", "values", "total", "least", "most", "times", "r", "v", "s")
    domain = sc.Schema(
        [
            *(sc.Attribute(name, "quasi", sc.IntegerRange(0, 3)) for name in names),
            sc.Attribute("count_", "sensitive", sc.Category(("a", "bb", "ccc"))),
        ]
    )
    private = people(90, domain)
    release = sc.publish(private, domain, sc.Anatomy(l=2, suppress=True), seed=1)
    questions = itertools.cycle(["COUNT(*)", 'SUM("{}")', "AVG(length(count_))"])
    for name, what in zip(names, questions, strict=False):
        side = {"r": pa.table({"x": [0, 1]})} if name == "v" else None
        for where in (f"\"{name}\" < 2 AND count_ < 'c'", f'"{name}" < length(count_)'):
            asked = f"{what.format(name)} FROM t WHERE {where}"
            one = release.answer(f'SELECT {asked} AND "{name}" = 1')
            grouped = release.answer(f'SELECT "{name}", {asked} GROUP BY "{name}"', tables=side)[1]
            assert grouped.value == pytest.approx(one.value)
            assert grouped.stderr == pytest.approx(one.stderr)


def test_side_tables() -> None:
    release = _release(ROWS, VALUES)
    tables = {"s": pa.table({"name": ["cook", "nurse"]})}
    sql = "SELECT COUNT(*) FROM t WHERE age < 6 AND job IN (SELECT name FROM s)"
    plain = release.answer("SELECT COUNT(*) FROM t WHERE age < 6 AND job IN ('cook', 'nurse')")
    assert repr(release.answer(sql, tables=tables)) == repr(plain)


def test_an_average_of_nothing_and_numbers_that_are_none(release: Release) -> None:
    assert math.isnan(release.answer("SELECT AVG(age) FROM t WHERE age = 0 AND job = 'cook'").value)
    assert math.isnan(release.answer("SELECT AVG(age) FROM t WHERE age = 0").value)
    nothing = release.answer("SELECT SUM(age) FROM t WHERE age = 0 AND job = 'cook'")
    assert math.isnan(nothing.value)  # NULL in SQL
    with pytest.raises(sc.QueryError, match="not a finite number"):
        release.answer("SELECT SUM(1e308 * age * age) FROM t WHERE job = 'cook'")


def test_rows_left_out_are_noted() -> None:
    partial = _release(ROWS, VALUES, complete=False)
    for sql in ("SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t WHERE age < 6 AND job = 'cook'"):
        assert any("left out" in note for note in partial.answer(sql).notes)
