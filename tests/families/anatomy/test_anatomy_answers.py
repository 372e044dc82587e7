"""Answers from Anatomy against all assignments of values to rows, enumerated: the bounds are the
least and the largest truth, and questions that cannot be split have its mean as their value.
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
from scumble.families.anatomy.design import Groups
from scumble.families.anatomy.read import regression
from scumble.families.anatomy.read.answers import swap_half_width
from scumble.model.privacy.guarantee import Guarantees
from scumble.public.estimate import Exact
from scumble.public.manifest import Manifest
from scumble.public.release import Release
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
# Those of which a clause or the amount names both a column of rows and a sensitive value.
JOINT = [q for q in QUESTIONS if "length(job) > age" in q or " OR " in q or "age * " in q]
JOINT.append("AVG(age + length(job)) WHERE job <> 'nurse'")


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


def _sql(question: str, groups: str = "") -> str:
    what, _, condition = question.partition(" WHERE ")
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {groups}{', ' if groups else ''}{what} FROM t{where}" + (
        f" GROUP BY {groups}" if groups else ""
    )


@pytest.mark.parametrize("regresses", [True, False])
@pytest.mark.parametrize("groups", ["", "sex", "job", "job, sex"])
def test_means_and_bounds_are_those_of_all_assignments(
    release: Release,
    groups: str,
    regresses: bool,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    """Over 3!·4!·2!·1! ways: exact means, in fractions, of questions without a regression, and
    exact bounds of those that can be split; of others, valid ones.
    """
    if not regresses:
        monkeypatch.setattr(regression, "_MOST_VALUES", 0)
    for question in QUESTIONS:
        with subtests.test(question):
            _check_against_all_assignments(release, question, groups, regresses)


def _check_against_all_assignments(
    release: Release, question: str, groups: str, regresses: bool
) -> None:
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
        numbers = [total if amount else count for total, count in pairs]
        mean = Fraction(sum(numbers), len(numbers))
        if question.startswith("AVG"):
            mean = Fraction(*(sum(each) for each in zip(*pairs, strict=True)))
            numbers = [total / count for total, count in pairs if count]
        law = answers[key].law
        if isinstance(law, Exact):
            assert max(numbers) == pytest.approx(min(numbers), abs=1e-12)
            assert answers[key].value == pytest.approx(float(mean), abs=1e-12)
            continue
        assert "AVG" in question or min(numbers) < max(numbers)
        low, high = law.bounds
        if question in JOINT or not regresses:
            assert answers[key].value == pytest.approx(float(mean), abs=1e-12)
            assert answers[key].interval() == (low, high)
        assert low - 1e-9 <= min(numbers)
        assert max(numbers) <= high + 1e-9
        assert low - 1e-9 <= answers[key].value <= high + 1e-9
        if "length(job) > age" not in question and "OR" not in question and "AVG" not in question:
            assert "age * length" in question or (low, high) == pytest.approx(
                (min(numbers), max(numbers))
            )


def test_what_needs_no_assumption_is_exact(release: Release, subtests: pytest.Subtests) -> None:
    """Each of these has one answer, whatever row has whatever value."""
    for question in [
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
    ]:
        with subtests.test(question=question):
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


def test_no_noise_is_shown_beside_the_interval(release: Release) -> None:
    """Nothing but the groups is between an estimate and the truth."""
    for question in ("COUNT(*)", "SUM(age)", "AVG(age)"):
        answer = release.answer(f"SELECT {question} FROM t WHERE job = 'cook' AND age < 6")
        assert answer.bounds is not None
        assert answer.noise_interval() == answer.interval()
        assert "noise alone" not in repr(answer)


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
            half = swap_half_width(float(variance), float(largest), level)
            low, high = mean - half, mean + half
            inside = sum(p for total, p in law.items() if low - 1e-9 <= total <= high + 1e-9)
            assert inside >= level - 1e-9


def test_missing_values_are_values_like_any_other() -> None:
    job = sc.Attribute("job", "sensitive", sc.Category(("cook", "nurse")), missing=True)
    age = sc.Attribute("age", "quasi", sc.IntegerRange(0, 3), missing=True)
    private = pa.table({"age": [0, 1, None, 3] * 50, "job": ["cook", None, "nurse", "nurse"] * 50})
    release = sc.publish(
        private, sc.Schema([age, job]), sc.Anatomy(l=2), options=sc.PublishOptions(seed=2)
    )
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
    release = sc.publish(
        private, domain, sc.Anatomy(l=2, suppress=True), options=sc.PublishOptions(seed=1)
    )
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
    for what in (
        "SUM(age) FROM t WHERE age = 0 AND job = 'cook'",
        "SUM(length(job)) FROM t WHERE age > 1 AND job = 'driver'",
    ):
        assert math.isnan(release.answer(f"SELECT {what}").value)  # NULL in SQL
    with pytest.raises(sc.QueryError, match="not a finite number"):
        release.answer("SELECT SUM(1e308 * age * age) FROM t WHERE job = 'cook'")


def test_rows_left_out_are_noted() -> None:
    partial = _release(ROWS, VALUES, complete=False)
    for sql in ("SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t WHERE age < 6 AND job = 'cook'"):
        found = partial.answer(sql)
        assert any("left out" in note for note in found.notes)
        assert found.value <= found.bounds[1] == math.inf  # how many is not told
        assert found.interval()[0] <= len(ROWS)
