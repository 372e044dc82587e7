"""Questions that people write, over every kind of evidence at near-zero noise, against DuckDB.

`questions.sql` has pairs of a question and what it means, or why it is refused. Where a kind of
evidence cannot tell an answer at all, the test says which sentence refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from tests.support.sql.generated import question
from tests.support.sql.sql_cases import cases

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),
        sc.Attribute("sex", "quasi", sc.Category(("F", "M")), missing=True),
        sc.Attribute("dept", "quasi", sc.Category(("A", "B", "C"))),
        sc.Attribute("pay", "sensitive", sc.IntegerRange(0, 5)),
    ]
)
DEPTS = pa.table(
    {"dept": ["A", "B", "D"], "region": ["north", None, "west"], "floor_no": [1, 3, 2]}
)
ROWS = 60
QUESTIONS = cases("questions.sql")
REFUSED = "refused: "


@cache
def people() -> pa.Table:
    random = np.random.default_rng(7)
    return pa.table(
        {
            "age": random.integers(0, 10, ROWS),
            "sex": pa.array(random.choice(["F", "M", None], ROWS, p=[0.5, 0.4, 0.1])),
            "dept": random.choice(["A", "B", "C"], ROWS, p=[0.5, 0.3, 0.2]),
            "pay": random.integers(0, 6, ROWS),
        }
    )


@cache
def truth() -> Any:
    connection = duckdb.connect()
    connection.register("given", people())
    connection.execute("CREATE TABLE t AS FROM given")
    connection.register("given_depts", DEPTS)
    connection.execute("CREATE TABLE depts AS FROM given_depts")
    return connection


@cache
def meant(sql: str) -> list[tuple[Any, ...]]:
    """Return the rows that DuckDB has; every kind of evidence is compared with the same ones."""
    rows: list[tuple[Any, ...]] = truth().execute(sql).fetchall()
    return rows


ALL = ["age", "sex", "dept", "pay"]
MAKERS: dict[str, Callable[[], Any]] = {
    "rows": lambda: sc.Uniform(keep=1 - 1e-9),
    "tuples": lambda: sc.Frapp(keep=1 - 1e-9),
    "histogram": lambda: sc.Histogram(ALL, epsilon=100, neighbours="replace"),
    "marginals": lambda: sc.Marginals(ALL, epsilon=100, neighbours="replace", ways=4),
    "wavelet": lambda: sc.Wavelet(ALL, epsilon=100, neighbours="replace"),
    "hierarchy": lambda: sc.Hierarchy(ALL, epsilon=100, neighbours="replace"),
    "true and false rows": lambda: sc.AlphaBeta(alpha=1 - 1e-6, beta=1e-9, multiplicity=4),
}
# What these do not publish cannot be made small: the truth must be within the intervals.
INEXACT: dict[str, Callable[[], Any]] = {
    "sparse": lambda: sc.Sparse(ALL, epsilon=100, neighbours="replace"),
    "anatomy": lambda: sc.Anatomy(l=2),
    "multisets": lambda: sc.Aroma(k=2),
}


@cache
def release(kind: str) -> sc.Release:
    return sc.publish(
        people(), SCHEMA, (MAKERS | INEXACT)[kind](), options=sc.PublishOptions(seed=3)
    )


def asked(kind: str, sql: str) -> Any:
    """Return the answer of a release. A side table needs an engine of its own, which is opened for
    the questions that name one.
    """
    return release(kind).answer(sql, tables={"depts": DEPTS} if "depts" in sql else None)


def rows_of(answer: Any) -> Iterator[tuple[tuple[Any, ...], tuple[sc.Estimate, ...]]]:
    """Yield the groups of any kind of answer with their estimates; totals have NULL, as in SQL."""
    if isinstance(answer, sc.Estimate):
        yield (), (answer,)
        return
    for key, found in answer.rows:
        values = tuple(None if part is sc.ALL else part for part in key)
        yield values, (found,) if isinstance(answer, sc.Estimates) else found


def alike(value: float, expected: Any) -> bool:
    """Whether an estimate is the number of DuckDB.

    Where DuckDB has NULL, a sum or an average is over no rows. Noisy evidence cannot tell that from
    a sum of 0, so that any number is accepted there.
    """
    if expected is None:
        return True
    return not math.isnan(value) and abs(value - float(expected)) <= 0.01 * max(1, abs(expected))


def same(
    answer: Any, expected: list[tuple[Any, ...]], *, ordered: bool = False, sized: bool = False
) -> None:
    """Check every group and number; groups that DuckDB does not have must be empty.

    With `sized`, the last number is the count of the group, and decides that.
    """
    found = list(rows_of(answer))
    keys = len(found[0][0]) if found else 0
    left = list(expected)
    for key, estimates in found:
        numbers = [each.value for each in estimates]
        match = next(
            (
                row
                for row in left
                if row[:keys] == key
                and all(alike(*pair) for pair in zip(numbers, row[keys:], strict=True))
            ),
            None,
        )
        if match is None:
            empty = numbers[-1:] if sized else numbers  # a ratio in an empty group is noise
            assert all(math.isnan(n) or abs(n) < 0.01 for n in empty), (key, numbers, expected)
        else:
            assert not ordered or match == left[0], (key, expected)
            left.remove(match)
        for each in estimates:
            low, high = each.interval(0.999)
            assert math.isnan(each.value) or low <= each.value <= high
    assert not left, (found, left)


def spread(
    questions: Sequence[tuple[str, str]], kinds: Sequence[str], all_quick: Sequence[str] = ()
) -> list[Any]:
    """Return questions by kind. Quick tests ask every question of the kinds in `all_quick` and of
    one of the other kinds; slow tests ask the other pairs.
    """
    others = [kind for kind in kinds if kind not in all_quick]
    found = []
    for kind in kinds:
        quick = [
            each
            for place, each in enumerate(questions)
            if kind in all_quick or others[place % len(others)] == kind
        ]
        rest = [each for each in questions if each not in quick]
        found.append(pytest.param(kind, quick, id=kind))
        if rest:
            found.append(pytest.param(kind, rest, id=f"{kind}, rest", marks=pytest.mark.slow))
    return found


@pytest.mark.parametrize(("kind", "questions"), spread(QUESTIONS, list(MAKERS), all_quick=["rows"]))
def test_a_question_means_what_duckdb_says(
    kind: str, questions: list[tuple[str, str]], subtests: pytest.Subtests
) -> None:
    for sql, meaning in questions:
        with subtests.test(meaning):
            if meaning.startswith(REFUSED):
                with pytest.raises(sc.QueryError, match=meaning.removeprefix(REFUSED)):
                    release(kind).answer(sql, tables={"depts": DEPTS})
                continue
            answer = asked(kind, sql)
            expected = meant(sql)
            same(answer, expected, ordered="ORDER BY n" in sql or "ORDER BY age" in sql)


def within(answer: Any, expected: list[tuple[Any, ...]]) -> None:
    """Check that the intervals at 99.99 % of some row have the numbers of each row of DuckDB."""
    found = list(rows_of(answer))
    keys = len(found[0][0]) if found else 0
    for row in expected:
        assert any(
            key == row[:keys]
            and all(_has(each, number) for each, number in zip(numbers, row[keys:], strict=True))
            for key, numbers in found
        ), (row, found)


def _has(estimate: sc.Estimate, number: Any) -> bool:
    if number is None or math.isnan(estimate.value):
        return True
    low, high = estimate.interval(0.9999)
    return low - 1e-6 <= number <= high + 1e-6


ANSWERED = [
    (sql, meaning)
    for sql, meaning in QUESTIONS
    if not meaning.startswith(REFUSED) and "HAVING" not in sql and "LIMIT" not in sql
]


@pytest.mark.parametrize(("kind", "questions"), spread(ANSWERED, list(INEXACT)))
def test_the_truth_is_within_the_intervals(
    kind: str, questions: list[tuple[str, str]], subtests: pytest.Subtests
) -> None:
    for sql, meaning in questions:
        with subtests.test(meaning):
            within(asked(kind, sql), truth().execute(sql).fetchall())


# 150 generated questions in the slow tests, 350 more in the soak tests.
PARTS = [
    pytest.param(part, marks=pytest.mark.slow if part < 3 else pytest.mark.soak)
    for part in range(10)
]


@pytest.mark.parametrize("kind", ["rows", "histogram"])
@pytest.mark.parametrize("part", PARTS)
def test_generated_questions_mean_what_duckdb_says(kind: str, part: int) -> None:
    """50 questions over the grammar: none differs, and at least 95 % are answered."""
    random = Random(100 + part)
    refused = []
    for _ in range(50):
        sql = question(random)
        try:
            answer = asked(kind, sql)
        except sc.QueryError as error:
            refused.append((sql, str(error)))
            continue
        same(answer, truth().execute(sql).fetchall(), sized=True)
    assert len(refused) <= 2, refused
