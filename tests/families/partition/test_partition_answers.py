"""Estimates from rows perturbed part by part, against exact enumeration of everything that may be
published.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import pyarrow as pa
import pytest

from scumble.model.evidence.channels import PartitionChannel, UniformChannel
from tests.support.outcomes import Outcomes, every, release
from tests.support.people import people, schema

ONE = schema(ages=4, jobs=("cook", "driver", "nurse", "smith"))
TWO = schema(ages=3, jobs=("cook", "nurse"), health=2)
ROWS = pa.table(
    {
        "age": [1, 3, 1, 2],
        "sex": ["f", "m", "m", "f"],
        "job": ["nurse", "cook", "smith", "nurse"],
        "part": [0, 0, 1, 1],
    }
)
PAIRS = pa.table(
    {
        "age": [1, 2, 1],
        "sex": ["f", "m", "m"],
        "job": ["nurse", "cook", "cook"],
        "health": [0, 1, 1],
        "part": [1, 0, 1],
    }
)
CHANNELS = {
    "two parts": PartitionChannel(
        ("job",), "part", ((0, 1, 2), (2, 3)), (Fraction(2, 5), Fraction(3, 4))
    ),
    "a part kept as it is": PartitionChannel(
        ("job",), "part", ((0, 2), (1, 2, 3)), (Fraction(1, 3), Fraction(1))
    ),
}
PAIRED = PartitionChannel(
    ("job", "health"), "part", ((0, 1), (1, 2, 3)), (Fraction(2, 5), Fraction(1, 2))
)

# question, true answer on ROWS
ON_ROWS = [
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse'", 2),
    ("SELECT COUNT(*) FROM t WHERE job = 'cook'", 1),
    ("SELECT COUNT(*) FROM t WHERE job = 'driver' AND sex = 'm'", 0),
    ("SELECT COUNT(*) FROM t WHERE job IN ('nurse', 'smith') AND age < 2", 2),
    ("SELECT COUNT(*) FROM t WHERE job <> 'nurse' AND sex = 'm'", 2),
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' OR age = 3", 3),
    ("SELECT COUNT(*) FROM t WHERE length(job) > age + 2 + part", 2),
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' AND part = 1", 1),
    ("SELECT SUM(age) FROM t WHERE job = 'smith'", 1),
    ("SELECT SUM(age * age + 1) FROM t WHERE job <> 'smith'", 17),
    ("SELECT SUM(length(job)) FROM t WHERE sex = 'm'", 9),
    ("SELECT SUM(CASE WHEN job = 'cook' THEN 10 * age ELSE age END) FROM t WHERE job < 's'", 33),
]
# question, true answer on PAIRS
ON_PAIRS = [
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' AND health = 0", 1),
    ("SELECT COUNT(*) FROM t WHERE health = 1", 2),
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' OR health > age", 1),
    ("SELECT SUM(health * age) FROM t WHERE job = 'cook'", 3),
]


@cache
def _outcomes(name: str) -> Outcomes:
    return every(ONE, ROWS, CHANNELS[name]) if name in CHANNELS else every(TWO, PAIRS, PAIRED)


def test_one_attribute(subtests: pytest.Subtests) -> None:
    for name, (question, truth) in product(CHANNELS, ON_ROWS):
        with subtests.test(question, channel=name):
            mean, variance, estimated = _outcomes(name).moments(question)
            assert mean == pytest.approx(truth, abs=1e-9)
            assert estimated == pytest.approx(variance, rel=1e-9, abs=1e-12)


def test_two_attributes_as_one(subtests: pytest.Subtests) -> None:
    for question, truth in ON_PAIRS:
        with subtests.test(question):
            mean, variance, estimated = _outcomes("pairs").moments(question)
            assert mean == pytest.approx(truth, abs=1e-9)
            assert estimated == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("groups", ["job", "sex, job", "job, part", "part"])
def test_groups_are_unbiased(groups: str) -> None:
    names = groups.split(", ")
    outcomes = _outcomes("two parts")
    answer = outcomes.release.answer(
        f"SELECT outcome, {groups}, COUNT(*) FROM t GROUP BY outcome, {groups}"
    )
    mean: dict[tuple, float] = {}
    for (outcome, *key), estimate in answer:
        chance = float(outcomes.probabilities[outcome])
        mean[tuple(key)] = mean.get(tuple(key), 0.0) + chance * estimate.value
    true = [tuple(row[name] for name in names) for row in ROWS.to_pylist()]
    assert set(true) <= set(mean)
    for key, value in mean.items():
        assert value == pytest.approx(true.count(key), abs=1e-9)


def test_one_part_of_the_whole_domain_is_the_uniform_channel() -> None:
    private = people(200, schema())
    keep = Fraction(1, 3)
    uniform = release(schema(), [UniformChannel(("job",), keep)], private)
    split = PartitionChannel(("job",), "part", (tuple(range(5)),), (keep,))
    parted = release(schema(), [split], private.append_column("part", pa.array([0] * 200)))
    for question in (
        "SELECT COUNT(*) FROM t WHERE job = 'cook'",
        "SELECT COUNT(*) FROM t WHERE job < 'd' AND age = 3",
        "SELECT COUNT(*) FROM t WHERE length(job) > age",
        "SELECT SUM(age) FROM t WHERE job <> 'smith'",
        "SELECT AVG(length(job)) FROM t WHERE sex = 'f'",
        "SELECT job, sex, COUNT(*) FROM t GROUP BY job, sex",
        "SELECT COUNT(*) FROM t WHERE job IS NOT NULL",
    ):
        assert repr(parted.answer(question)) == repr(uniform.answer(question))


def test_a_value_of_one_part_has_the_exact_law() -> None:
    """Parts without a value that counts, or with no other, add nothing to the error."""
    made = _outcomes("two parts").release
    for condition in ("job = 'cook'", "job = 'smith'", "job IN ('nurse', 'smith')"):
        answer = made.answer(f"SELECT COUNT(*) FROM t WHERE outcome = 0 AND {condition}")
        assert "exact binomial" in answer.method
    both = made.answer("SELECT COUNT(*) FROM t WHERE outcome = 0 AND job = 'nurse'")
    assert "score" in both.method
    nobody = made.answer("SELECT COUNT(*) FROM t WHERE outcome = 0 AND job = 'smith' AND part = 0")
    assert (nobody.value, nobody.stderr) == (0, 0)


def test_values_that_a_part_cannot_have_make_no_group() -> None:
    made = _outcomes("two parts").release
    answer = made.answer("SELECT part, job, COUNT(*) FROM t WHERE outcome = 0 GROUP BY part, job")
    assert [key for key, _ in answer] == [
        (0, "cook"),
        (0, "driver"),
        (0, "nurse"),
        (1, "nurse"),
        (1, "smith"),
    ]


@pytest.mark.parametrize("name", [*CHANNELS, "pairs"])
def test_many_answers_are_the_single_ones(name: str) -> None:
    made = _outcomes(name).release
    questions = [question for question, _ in (ON_ROWS if name in CHANNELS else ON_PAIRS)]
    questions += [
        "SELECT COUNT(*) FROM t WHERE outcome < 5 AND job IS NOT NULL",
        "SELECT COUNT(*) FROM t WHERE outcome < 5 AND age = 0 AND job = 'cook'",
        "SELECT COUNT(*) FROM t WHERE outcome BETWEEN 2 AND 7 AND part = 0 AND sex = 'f'",
    ]
    for question, many in zip(questions, made.answer_many(questions), strict=True):
        assert repr(many) == repr(made.answer(question))
