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
from scumble.public.estimation.anatomy import moments, plan
from scumble.public.release import Release
from tests.public.estimation.anatomy.test_anatomy_answers import (
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


@pytest.mark.parametrize("question", MIXED)
def test_intervals_cover_at_their_level(release: Release, question: str) -> None:
    """Exact: the interval of even spread holds the answers of its share of all 288 assignments of
    values, and the interval that is printed all of them.
    """
    holds, amount = QUESTIONS[question]
    truths = [sum(amount(r) if amount else 1 for r in table if holds(r)) for table in TABLES]
    estimate = release.answer(_sql(question))
    for level in (0.5, 0.8, 0.9, 0.95, 0.99):
        low, high = estimate.law.noise_interval(estimate.value, level)
        inside = sum(low - 1e-9 <= truth <= high + 1e-9 for truth in truths)
        assert inside >= level * len(truths)
        if estimate.law.unbiased is None:
            low, high = estimate.interval(level)
            assert low - 1e-9 <= min(truths) <= max(truths) <= high + 1e-9


def _repeated(times: int) -> tuple[list, list]:
    """The same groups many times over, the copies under numbers of their own."""
    rows = [(age, sex, group + 4 * n) for n in range(times) for age, sex, group in ROWS]
    values = [(job, group + 4 * n, count) for n in range(times) for job, group, count in VALUES]
    return rows[::-1], values[::-1]


@pytest.mark.parametrize("question", MIXED)
def test_groups_are_independent(release: Release, question: str) -> None:
    """Of 500 copies of each group, mean and variance are 500 times as large; lines may come in any
    order.
    """
    one, many = (each.answer(_sql(question)) for each in (release, _release(*_repeated(500))))
    assert many.law.even == pytest.approx(500 * one.law.even, rel=1e-12)
    assert many.law.noise.stderr**2 == pytest.approx(500 * one.law.noise.stderr**2, rel=1e-12)
    assert many.law.bounds == pytest.approx([500 * each for each in one.law.bounds], rel=1e-12)


@pytest.mark.parametrize(("groups", "question"), GROUPED)
def test_pieces_make_the_same_answer(
    release: Release, question: str, groups: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups in blocks, pairs in batches, clauses left to the database, and combinations found by
    hashing: all that large tables need, on a small one.
    """
    expected = release.answer(_sql(question, groups))
    monkeypatch.setattr(moments, "_MOST_CELLS", 2)
    monkeypatch.setattr(moments, "_BATCH", 3)
    monkeypatch.setattr(plan, "_MOST_LOOKED_UP", 0)
    monkeypatch.setattr(plan, "_MOST_MARKED", 0)
    found = release.answer(_sql(question, groups))
    if not groups:
        expected, found = [((), expected)], [((), found)]
    assert [key for key, _ in found] == [key for key, _ in expected]
    for (_, one), (_, other) in zip(found, expected, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-12)
        assert one.stderr == pytest.approx(other.stderr, rel=1e-9)


def test_a_large_constant_does_not_drown_the_variance(release: Release) -> None:
    """All rows count, so that adding 10^9 to every amount leaves the variance as it is."""

    def amount(row: Row) -> int:
        return row["age"] * len(row["job"])

    totals = [sum(map(amount, table)) for table in TABLES]
    mean = Fraction(sum(totals), len(totals))
    variance = sum((total - mean) ** 2 for total in totals) / len(totals)
    law = release.answer("SELECT SUM(1000000000 + age * length(job)) FROM t").law
    assert law.even == pytest.approx(10**9 * len(ROWS) + float(mean), rel=1e-15)
    assert law.noise.stderr**2 == pytest.approx(float(variance), rel=1e-6)


@pytest.mark.parametrize("what", ["COUNT(*)", "SUM(age)", "AVG(age)"])
@pytest.mark.parametrize("where", ["job = 'driver' AND age > 1", "age = 0 AND length(job) > age"])
@pytest.mark.parametrize("groups", ["job", "sex", "sex, job"])
def test_nothing_has_no_groups(release: Release, what: str, where: str, groups: str) -> None:
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
    release = sc.publish(private, domain, sc.Anatomy(l=6), seed=1)
    ways = list(itertools.permutations(lines))
    for what, count in {
        "length(job) > age AND debt > 0": lambda age, job, debt: len(job) > age and debt > 0,
        "age > debt": lambda age, _, debt: age > debt,
        "age < 2 AND job = 'a'": lambda age, job, _: age < 2 and job == "a",
    }.items():
        counts = [sum(count(age, *value) for age, value in enumerate(way)) for way in ways]
        estimate = release.answer(f"SELECT COUNT(*) FROM t WHERE {what}")
        assert estimate.law.even == pytest.approx(np.mean(counts))
        assert estimate.law.noise.stderr == pytest.approx(np.std(counts))
        low, high = estimate.interval()  # one group tells no values apart
        assert low <= min(counts) <= max(counts) <= high
