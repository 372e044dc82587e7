"""Estimates from multisets against exact enumeration of everything that may be published."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scumble.model.evidence.channels import PoolLaw, SubsetLaw, UniformChannel
from tests.support.outcomes import Outcomes, every, multiset_channel, release
from tests.support.people import schema

ONE = schema(ages=4, jobs=("cook", "driver", "nurse", "smith"))
TWO = schema(ages=3, jobs=("cook", "nurse"), health=2)
ROWS = pa.table({"age": [1, 3, 1], "sex": ["f", "m", "m"], "job": ["nurse", "cook", "smith"]})
PAIRS = pa.table({"age": [1, 2], "sex": ["f", "m"], "job": ["nurse", "cook"], "health": [0, 1]})
LAWS = {
    "subset of 1": SubsetLaw(4, 1, Fraction(3, 5)),
    "subset of 2": SubsetLaw(4, 2, Fraction(4, 5)),
    "subset of 3": SubsetLaw(4, 3, Fraction(19, 20)),
    "pool": PoolLaw((1, 2, 3, 2), 3),
    "even pool with caps": PoolLaw((1, 1, 1, 1), 3, (2, 2, 2, 2)),
    "pool with caps": PoolLaw((1, 2, 3, 2), 3, (1, 2, 2, 3)),
}

# question, true answer on ROWS
ON_ROWS = [
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse'", 1),
    ("SELECT COUNT(*) FROM t WHERE job IN ('nurse', 'smith') AND age < 2", 2),
    ("SELECT COUNT(*) FROM t WHERE job <> 'nurse' AND sex = 'm'", 2),
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' OR age = 3", 2),
    ("SELECT COUNT(*) FROM t WHERE length(job) > age + 2", 2),
    ("SELECT SUM(age) FROM t WHERE job = 'smith'", 1),
    ("SELECT SUM(age * age + 1) FROM t WHERE job <> 'smith'", 12),
    ("SELECT SUM(length(job)) FROM t WHERE sex = 'm'", 9),
    ("SELECT SUM(CASE WHEN job = 'cook' THEN 10 * age ELSE age END) FROM t WHERE job < 's'", 31),
]
# question, true answer on PAIRS
ON_PAIRS = [
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' AND health = 0", 1),
    ("SELECT COUNT(*) FROM t WHERE health = 1", 1),
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' OR health > age", 1),
    ("SELECT SUM(health * age) FROM t WHERE job = 'cook'", 2),
]


@cache
def _outcomes(name: str, layout: str, people: int) -> Outcomes:
    domain, private = (ONE, ROWS) if people == 3 else (TWO, PAIRS)
    return every(domain, private, multiset_channel(domain, LAWS[name], layout))


@pytest.mark.parametrize("name", LAWS)
def test_one_attribute(name: str, subtests: pytest.Subtests) -> None:
    for question, truth in ON_ROWS:
        with subtests.test(question):
            mean, variance, estimated = _outcomes(name, "counts", 3).moments(question)
            assert mean == pytest.approx(truth, abs=1e-9)
            assert estimated == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("name", LAWS)
def test_layouts_have_the_same_answers(name: str, subtests: pytest.Subtests) -> None:
    """Of every outcome: what is unbiased in one layout is so in the other."""
    counts, codes = (_outcomes(name, layout, 3) for layout in ("counts", "codes"))
    assert counts.probabilities == codes.probabilities
    for question, _ in ON_ROWS:
        with subtests.test(question):
            one, other = (
                np.array([(each.value, each.stderr) for each in outcomes.answers(question)])
                for outcomes in (codes, counts)
            )
            assert one == pytest.approx(other)


def test_two_attributes_as_one(subtests: pytest.Subtests) -> None:
    for name, (question, truth) in product(LAWS, ON_PAIRS):
        with subtests.test(question, law=name):
            mean, variance, estimated = _outcomes(name, "counts", 2).moments(question)
            assert mean == pytest.approx(truth, abs=1e-9)
            assert estimated == pytest.approx(variance, rel=1e-9)


def test_groups_are_unbiased(subtests: pytest.Subtests) -> None:
    for name, groups in product(
        ["subset of 2", "pool", "pool with caps"], ["job", "sex, job", "job, age", "age"]
    ):
        with subtests.test(name=name, groups=groups):
            names = groups.split(", ")
            outcomes = _outcomes(name, "counts", 3)
            answer = outcomes.release.answer(
                f"SELECT outcome, {groups}, COUNT(*) FROM t GROUP BY outcome, {groups}"
            )
            mean: dict[tuple, float] = {}
            total = 0.0
            for (outcome, *key), estimate in answer:
                chance = float(outcomes.probabilities[outcome])
                mean[tuple(key)] = mean.get(tuple(key), 0.0) + chance * estimate.value
                total += estimate.value
            assert total == pytest.approx(3 * len(outcomes.probabilities))
            true = [tuple(row[name] for name in names) for row in ROWS.to_pylist()]
            assert set(true) <= set(mean)
            for key, value in mean.items():
                assert value == pytest.approx(true.count(key), abs=1e-9)


@pytest.mark.parametrize("name", LAWS)
def test_groups_are_the_questions_asked_one_by_one(name: str) -> None:
    """Also in the other layout: what is read to answer is another part of the file each time."""
    release = _outcomes(name, "counts", 3).release
    other = _outcomes(name, "codes", 3).release
    what = "COUNT(*), job, sex FROM t WHERE outcome < 9 AND job <> 'cook' GROUP BY job, sex"
    grouped = release.answer(f"SELECT {what}")
    assert repr(other.answer(f"SELECT {what}")) == repr(grouped)
    assert len(grouped) == 6
    for (job, sex), estimate in grouped:
        question = f"SELECT COUNT(*) FROM t WHERE outcome < 9 AND sex = '{sex}' AND job = '{job}'"
        for alone in (release.answer(question), other.answer(question)):
            assert (estimate.value, estimate.stderr) == pytest.approx((alone.value, alone.stderr))
            assert estimate.interval() == pytest.approx(alone.interval())


@pytest.mark.parametrize("name", LAWS)
def test_many_answers_are_the_single_ones(name: str) -> None:
    release = _outcomes(name, "counts", 3).release
    questions = [question for question, _ in ON_ROWS]
    for question, many in zip(questions, release.answer_many(questions), strict=True):
        assert repr(many) == repr(release.answer(question))


@pytest.mark.parametrize("layout", ["counts", "codes"])
def test_what_names_no_perturbed_attribute_is_exact(layout: str) -> None:
    release = _outcomes("subset of 2", layout, 3).release
    everybody = release.answer("SELECT COUNT(*) FROM t WHERE outcome = 0 AND age = 1")
    assert (everybody.value, everybody.stderr, everybody.interval()) == (2, 0, (2, 2))
    named = release.answer("SELECT COUNT(*) FROM t WHERE outcome = 0 AND job IS NOT NULL")
    assert (named.value, named.stderr) == (3, 0)
    total = release.answer("SELECT SUM(age) FROM t WHERE outcome = 0 AND job IS NOT NULL")
    assert (total.value, total.stderr) == (5, 0)
    nobody = release.answer("SELECT COUNT(*) FROM t WHERE outcome = 0 AND age = 0 AND job = 'cook'")
    assert (nobody.value, nobody.stderr) == (0, 0)
    average = release.answer("SELECT AVG(age) FROM t WHERE outcome = 0 AND job IS NULL")
    assert average.to_dict()["value"] is None


def test_the_law_is_exact_where_it_is_known(subtests: pytest.Subtests) -> None:
    for name, condition, method in [
        ("subset of 2", "job = 'cook'", "exact binomial"),
        ("subset of 2", "job <> 'cook'", "exact binomial"),
        ("subset of 2", "job IN ('cook', 'nurse')", "score"),
        ("subset of 1", "job IN ('cook', 'nurse')", "exact binomial"),
        ("subset of 2", "job = 'cook' OR age = 3", "exact binomial"),
        ("pool", "job IN ('cook', 'nurse')", "exact binomial"),
        ("pool", "job = 'cook' OR job = 'nurse' AND age = 1", "score"),
        ("pool with caps", "job = 'cook'", "score"),
    ]:
        with subtests.test(name=name, condition=condition, method=method):
            release = _outcomes(name, "counts", 3).release
            answer = release.answer(f"SELECT COUNT(*) FROM t WHERE outcome = 0 AND ({condition})")
            assert method in answer.method


def test_sets_of_one_are_uniform_perturbation() -> None:
    """A set of one value is that value, kept or replaced by any: the same law, and answers."""
    law = LAWS["subset of 1"]
    keep = law.inclusion - law.chance
    multisets = _outcomes("subset of 1", "codes", 3).release
    published = pq.read_table(multisets.folder / "records.parquet")
    shown = ONE["job"].decode(published["c0"].to_numpy().astype("uint8"))
    plain = published.drop_columns(["c0"]).append_column("job", shown)
    uniform = release(multisets.schema, [UniformChannel(("job",), keep)], plain)
    for what in ("COUNT(*)", "SUM(age)", "AVG(age)", "SUM(length(job))"):
        question = f"SELECT {what} FROM t WHERE outcome < 50 AND job <> 'cook'"
        one, other = multisets.answer(question), uniform.answer(question)
        assert (one.value, one.stderr) == pytest.approx((other.value, other.stderr))
    exact = "SELECT COUNT(*) FROM t WHERE outcome < 20 AND job IN ('cook', 'nurse')"
    assert multisets.answer(exact).interval() == uniform.answer(exact).interval()
