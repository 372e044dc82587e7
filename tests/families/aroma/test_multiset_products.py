"""Estimates from rows that show a multiset of each of several attributes, against enumeration of
everything that may be published, and the coverage of their intervals by simulation: each of the 24
checks raises a false alarm once in a million sets of draws (`covered.py`: what it finds).
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.evidence.channels import MultisetChannel, PoolLaw
from tests.support.covered import COPIES, check
from tests.support.outcomes import Outcomes, every
from tests.support.outcomes import release as made_of
from tests.support.people import people, records_release, schema

DOMAIN = schema(ages=3, jobs=("cook", "nurse", "smith"), health=2)
LAWS = {"job": PoolLaw((1, 2, 3), 3), "health": PoolLaw((3, 2), 3)}
PAIRS = pa.table({"age": [1, 2], "sex": ["f", "m"], "job": ["nurse", "cook"], "health": [0, 1]})
# question, true answer on PAIRS
QUESTIONS = [
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' AND health = 0", 1),
    ("SELECT COUNT(*) FROM t WHERE job <> 'nurse' AND health = 0", 0),
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' OR health = 1", 2),
    ("SELECT COUNT(*) FROM t WHERE health = 1", 1),
    ("SELECT COUNT(*) FROM t WHERE job IN ('cook', 'smith')", 1),
    ("SELECT COUNT(*) FROM t WHERE length(job) > health + 3 AND sex = 'f'", 1),
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' OR health > age", 1),
    ("SELECT SUM(age) FROM t WHERE job = 'cook' AND health = 1", 2),
    ("SELECT SUM(health * age) FROM t WHERE job = 'cook'", 2),
    ("SELECT SUM(health * length(job)) FROM t WHERE sex = 'm'", 4),
]


def channels(laws: dict[str, PoolLaw], layout: Any) -> list[MultisetChannel]:
    return [
        MultisetChannel(
            (name,),
            layout,
            tuple(f"{name} {n}" for n in range(law.values if layout == "counts" else law.size)),
            law,
        )
        for name, law in laws.items()
    ]


@cache
def _outcomes(layout: str) -> Outcomes:
    return every(DOMAIN, PAIRS, *channels(LAWS, layout))


@pytest.mark.parametrize(("question", "truth"), QUESTIONS)
def test_unbiased_with_the_variance_that_is_said(question: str, truth: float) -> None:
    mean, variance, estimated = _outcomes("counts").moments(question)
    assert mean == pytest.approx(truth, abs=1e-9)
    assert estimated == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize(("question", "truth"), QUESTIONS)
def test_layouts_have_the_same_answers(question: str, truth: float) -> None:
    one, other = (
        np.array([(each.value, each.stderr) for each in _outcomes(layout).answers(question)])
        for layout in ("codes", "counts")
    )
    assert one == pytest.approx(other)


def test_groups_are_unbiased(subtests: pytest.Subtests) -> None:
    outcomes = _outcomes("counts")
    for groups in ["job, health", "sex, health, job", "health"]:
        with subtests.test(groups):
            names = groups.split(", ")
            condition = "WHERE job < 's'"
            answer = outcomes.release.answer(
                f"SELECT outcome, {groups}, COUNT(*) FROM t {condition} GROUP BY outcome, {groups}"
            )
            mean: dict[tuple, float] = {}
            for (outcome, *key), estimate in answer:
                chance = float(outcomes.probabilities[outcome])
                mean[tuple(key)] = mean.get(tuple(key), 0.0) + chance * estimate.value
            true = [tuple(row[name] for name in names) for row in PAIRS.to_pylist()]
            assert set(true) <= set(mean)
            for key, value in mean.items():
                assert value == pytest.approx(true.count(key), abs=1e-9)


def test_groups_are_the_questions_asked_one_by_one() -> None:
    release = _outcomes("counts").release
    grouped = release.answer(
        "SELECT job, health, COUNT(*) FROM t WHERE outcome < 9 GROUP BY job, health"
    )
    assert len(grouped) == 6
    for (job, health), estimate in grouped:
        alone = release.answer(
            f"SELECT COUNT(*) FROM t WHERE outcome < 9 AND job = '{job}' AND health = {health}"
        )
        assert estimate.value == pytest.approx(alone.value)
        assert estimate.interval(0.95) == pytest.approx(alone.interval(0.95))


def test_many_questions_have_the_answers_of_each() -> None:
    release = _outcomes("counts").release
    asked = [question for question, _ in QUESTIONS] * 2
    for question, found in zip(asked, release.answer_many(asked), strict=True):
        alone = release.answer(question)
        assert (found.value, found.stderr) == pytest.approx((alone.value, alone.stderr))


def test_an_average_is_the_ratio_of_sum_and_count() -> None:
    release, what = _outcomes("counts").release, "FROM t WHERE job = 'cook' AND health = 1"
    total, count = (release.answer(f"SELECT {each} {what}") for each in ("SUM(age)", "COUNT(*)"))
    found = release.answer(f"SELECT AVG(age) {what}")
    low, high = found.interval(0.95)
    assert found.value == pytest.approx(total.value / count.value)
    assert 0 <= low < found.value < high


def test_too_many_combinations_are_refused_in_a_sentence() -> None:
    domain = schema(jobs=[f"job {place}" for place in range(70)], health=70)
    laws = {"job": PoolLaw((1,) * 70, 2), "health": PoolLaw((1,) * 70, 2)}
    table = pa.table({"age": [1], "sex": ["f"], "job": ["job 1"], "health": [1]})
    named = {each.attributes[0]: each for each in channels(laws, "codes")}
    shown = table.drop_columns(["job", "health"])
    for channel, column in product(named.values(), (0, 1)):
        shown = shown.append_column(channel.columns[column], pa.array([column]))
    release = made_of(domain, list(named.values()), shown)
    assert release.answer("SELECT COUNT(*) FROM t WHERE job = 'job 0' AND health < 9").stderr > 0
    with pytest.raises(sc.QueryError, match="add up 4,900 combinations of their values; at most"):
        release.answer("SELECT job, health, COUNT(*) FROM t GROUP BY job, health")


@cache
def _copies(k: int) -> tuple[sc.Release, pa.Table]:
    """Copies of the same 60 people, told apart by `copy`; multisets are drawn by numpy."""
    own, one = schema(health=3), people(60, schema(health=3), seed=3)
    domain = sc.Schema([sc.Attribute("copy", "quasi", sc.IntegerRange(0, COPIES - 1)), *own])
    many, rng = pa.concat_tables([one] * COPIES), np.random.default_rng(8)
    shown = many.drop_columns(["job", "health"])
    shown = shown.append_column("copy", pa.array(np.repeat(np.arange(COPIES), one.num_rows)))
    laws = {"job": PoolLaw((1, 2, 3, 4, 10), k), "health": PoolLaw((1, 1, 1), k)}
    for channel in (made := channels(laws, "counts")):
        [name] = channel.attributes
        shares = [float(share) for share in channel.law.shares]
        counts = rng.multinomial(k - 1, shares, many.num_rows)
        counts[np.arange(many.num_rows), domain[name].encode(many[name])[0]] += 1
        for place, column in enumerate(channel.columns):
            shown = shown.append_column(column, pa.array(counts[:, place]))
    return made_of(domain, made, shown), one


@pytest.mark.slow  # the variance is exact above
@pytest.mark.parametrize("k", [4, 20])
@pytest.mark.parametrize(
    "question",
    [
        "COUNT(*) FROM t WHERE job = 'nurse' AND health = 0",
        "COUNT(*) FROM t WHERE length(job) > health + 4",
        "SUM(age * age) FROM t WHERE job < 'n' AND health < 2",
        "AVG(health) FROM t WHERE job = 'cook'",
    ],
)
def test_coverage(k: int, question: str) -> None:
    made, one = _copies(k)
    truth = records_release(schema(health=3), one, ()).answer(f"SELECT {question}").value
    answers = made.answer(f"SELECT copy, {question} GROUP BY copy")
    check((estimate for _, estimate in answers), truth)
