"""Questions that name both rows and values, and questions answered in several pieces: the same
answers by every code path, and intervals that cover.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.families.anatomy.read import limits, plan
from scumble.public.release import Release
from tests.families.anatomy.test_anatomy_answers import (
    JOINT,
    QUESTIONS,
    ROWS,
    TABLES,
    VALUES,
    Row,
    _release,
    _sql,
)

MIXED = [q for q in QUESTIONS if "COUNT" in q or "SUM" in q if "length" in q or " OR " in q]
GROUPED = [("", q) for q in QUESTIONS] + [(g, q) for g in ("sex", "job, sex") for q in MIXED]


@pytest.fixture(scope="module")
def release() -> Release:
    return _release(ROWS, VALUES)


def test_intervals_hold_all_assignments(release: Release, subtests: pytest.Subtests) -> None:
    """Exact: where the regression cannot tell, the interval holds the answers of all 288
    assignments of values, at every level.
    """
    for question in MIXED:
        with subtests.test(question=question):
            holds, amount = QUESTIONS[question]
            truths = [
                sum(amount(r) if amount else 1 for r in table if holds(r)) for table in TABLES
            ]
            estimate = release.answer(_sql(question))
            assert (estimate.law.unbiased is None) or question not in JOINT
            for level in (0.5, 0.8, 0.9, 0.95, 0.99):
                if estimate.law.unbiased is None:
                    low, high = estimate.interval(level)
                    assert low - 1e-9 <= min(truths) <= max(truths) <= high + 1e-9


def _repeated(times: int) -> tuple[list, list]:
    """The same groups many times over, the copies under numbers of their own."""
    rows = [(age, sex, group + 4 * n) for n in range(times) for age, sex, group in ROWS]
    values = [(job, group + 4 * n, count) for n in range(times) for job, group, count in VALUES]
    return rows[::-1], values[::-1]


def test_groups_are_independent(release: Release, subtests: pytest.Subtests) -> None:
    """Of 500 copies of each group, means and bounds are 500 times as large; lines may come in any
    order.
    """
    repeated = _release(*_repeated(500))
    for question in MIXED:
        with subtests.test(question=question):
            one, many = (each.answer(_sql(question)) for each in (release, repeated))
            if question in JOINT:
                assert many.value == pytest.approx(500 * one.value, rel=1e-12)
            assert many.law.bounds == pytest.approx(
                [500 * each for each in one.law.bounds], rel=1e-12
            )


def test_pieces_make_the_same_answer(
    release: Release, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Groups in blocks, pairs in batches, clauses left to the database, and combinations found by
    hashing: all that large tables need, on a small one.
    """
    whole = [release.answer(_sql(question, groups)) for groups, question in GROUPED]
    monkeypatch.setattr(limits, "_MOST_CELLS", 2)
    monkeypatch.setattr(limits, "_BATCH", 3)
    monkeypatch.setattr(plan, "_MOST_LOOKED_UP", 0)
    monkeypatch.setattr(plan, "_MOST_MARKED", 0)
    for (groups, question), expected in zip(GROUPED, whole, strict=True):
        with subtests.test(groups=groups, question=question):
            found = release.answer(_sql(question, groups))
            if not groups:
                expected, found = [((), expected)], [((), found)]
            assert [key for key, _ in found] == [key for key, _ in expected]
            for (_, one), (_, other) in zip(found, expected, strict=True):
                assert one.value == pytest.approx(other.value, rel=1e-12)
                assert one.stderr == pytest.approx(other.stderr, rel=1e-9)


def test_a_large_constant_does_not_drown_the_bounds(release: Release) -> None:
    """All rows count, so that adding 10^9 to every amount moves mean and bounds by as much."""

    def amount(row: Row) -> int:
        return row["age"] * len(row["job"])

    totals = [sum(map(amount, table)) for table in TABLES]
    mean = Fraction(sum(totals), len(totals))
    found = release.answer("SELECT SUM(1000000000 + age * length(job)) FROM t")
    plain = release.answer("SELECT SUM(age * length(job)) FROM t")
    whole = 10**9 * len(ROWS)
    assert found.value == pytest.approx(whole + float(mean), rel=1e-15)
    assert [each - whole for each in found.bounds] == pytest.approx(plain.bounds, rel=1e-6)


def test_nothing_has_no_groups(release: Release, subtests: pytest.Subtests) -> None:
    for groups, where, what in itertools.product(
        ["job", "sex", "sex, job"],
        ["job = 'driver' AND age > 1", "age = 0 AND length(job) > age"],
        ["COUNT(*)", "SUM(age)", "AVG(age)"],
    ):
        with subtests.test(groups=groups, where=where, what=what):
            assert len(release.answer(_sql(f"{what} WHERE {where}", groups))) == 0


def test_only_pairs_that_meet_have_to_be_numbers(release: Release) -> None:
    """The only row of age 3 is in a group without nurses: that the two would overflow is nothing
    to complain about.
    """
    sql = "SELECT SUM(CASE WHEN job = 'nurse' AND age = {} THEN 1e308 * 10 ELSE 1 END) FROM t"
    assert release.answer(sql.format(3)).value == pytest.approx(len(ROWS))
    with pytest.raises(sc.QueryError, match="not a finite number"):
        release.answer(sql.format(4))


def test_several_sensitive_attributes() -> None:
    """Values that agree in what a question names are counted together: exact, against all ways."""
    lines = list(itertools.product(["a", "bb"], [0, 1, 2]))
    domain = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 5)),
            sc.Attribute("job", "sensitive", sc.Category(("a", "bb"))),
            sc.Attribute("debt", "sensitive", sc.IntegerRange(0, 2)),
        ]
    )
    jobs, debts = zip(*lines, strict=True)
    private = pa.table({"age": list(range(6)), "job": list(jobs), "debt": list(debts)})
    release = sc.publish(private, domain, sc.Anatomy(l=6), options=sc.PublishOptions(seed=1))
    ways = list(itertools.permutations(lines))
    for what, count in {
        "length(job) > age AND debt > 0": lambda age, job, debt: len(job) > age and debt > 0,
        "age > debt": lambda age, _, debt: age > debt,
        "age < 2 AND job = 'a'": lambda age, job, _: age < 2 and job == "a",
    }.items():
        counts = [sum(count(age, *value) for age, value in enumerate(way)) for way in ways]
        estimate = release.answer(f"SELECT COUNT(*) FROM t WHERE {what}")
        assert estimate.value == pytest.approx(np.mean(counts))
        low, high = estimate.interval()  # one group tells no values apart
        assert low <= min(counts) <= max(counts) <= high
