"""Estimates from perturbed rows against exact enumeration of everything that may be published."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

from scumble.model.evidence.channels import UniformChannel
from scumble.public.estimate import Estimate
from scumble.public.estimation.rows.answer import _gather
from scumble.public.estimation.rows.plan import RowsPlan
from scumble.public.estimation.rows.sums import Sums
from scumble.public.sandbox import Sandbox
from tests.support.people import all_outcomes, records_release, schema

ONE = schema(ages=4, jobs=("cook", "nurse", "smith"))
TWO = schema(ages=3, jobs=("cook", "nurse", "smith"), health=2)
THREE_ROWS = pa.table({"age": [1, 3, 1], "sex": ["f", "m", "m"], "job": ["nurse", "cook", "smith"]})
TWO_ROWS = pa.table({"age": [1, 2], "sex": ["f", "m"], "job": ["nurse", "cook"], "health": [0, 1]})
KEEP = Fraction(2, 5)
EACH = (UniformChannel(("job",), KEEP), UniformChannel(("health",), Fraction(1, 3)))
COMPOUND = (UniformChannel(("job", "health"), KEEP),)

# question, true answer on THREE_ROWS
ON_ONE = [
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
# question, true answer on TWO_ROWS
ON_TWO = [
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' AND health = 0", 1),
    ("SELECT COUNT(*) FROM t WHERE health = 1", 1),
    ("SELECT COUNT(*) FROM t WHERE job = 'nurse' OR health = 1", 2),
    ("SELECT SUM(health * age) FROM t WHERE job <> 'smith'", 2),
]


def _moments(domain, private, channels, question):
    """Mean and variance of the estimate, and the mean of the estimated variance, over all
    outcomes.
    """
    mean = square = estimated = 0.0
    total = Fraction(0)
    for probability, published in all_outcomes(domain, private, channels):
        release = records_release(domain, published, channels)
        answer = release.answer(question)
        assert isinstance(answer, Estimate)
        weight = float(probability)
        total += probability
        mean += weight * answer.value
        square += weight * answer.value**2
        estimated += weight * _unclamped_variance(release, question)
    assert total == 1
    return mean, square - mean**2, estimated


def _unclamped_variance(release, question) -> float:
    query = release.parse(question)
    plan = RowsPlan(release.evidence, release.schema, query)
    engine = Sandbox(release.schema, {}, release.folder / "records.parquet")
    counted, holds, amount = _gather(plan, engine)
    sums = Sums(plan, counted, counted.groups([]), holds, amount)
    if query.aggregate == "count" or amount is not None:
        lines, tensor = counted.count, holds if amount is None else amount
    else:
        lines, tensor = counted.squares, holds
    return float(sums._weighted(lines, sums.inverse.covariance(tensor, tensor))[0])


@pytest.mark.parametrize(("question", "truth"), ON_ONE)
def test_one_attribute(question: str, truth: int) -> None:
    mean, variance, estimated = _moments(
        ONE, THREE_ROWS, (UniformChannel(("job",), KEEP),), question
    )
    assert mean == pytest.approx(truth, abs=1e-9)
    assert estimated == pytest.approx(variance, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("channels", [EACH, COMPOUND], ids=["each", "compound"])
@pytest.mark.parametrize(("question", "truth"), ON_TWO)
def test_two_attributes(question: str, truth: int, channels) -> None:
    mean, variance, estimated = _moments(TWO, TWO_ROWS, channels, question)
    assert mean == pytest.approx(truth, abs=1e-9)
    assert estimated == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("groups", ["job", "sex, job", "job, age"])
def test_groups_add_up_and_are_unbiased(groups: str) -> None:
    channels = (UniformChannel(("job",), KEEP),)
    names = groups.split(", ")
    mean: dict[tuple, float] = {}
    for probability, published in all_outcomes(ONE, THREE_ROWS, channels):
        answer = records_release(ONE, published, channels).answer(
            f"SELECT {groups}, COUNT(*) FROM t GROUP BY {groups}"
        )
        assert sum(estimate.value for _, estimate in answer) == pytest.approx(3)
        for key, estimate in answer:
            mean[key] = mean.get(key, 0.0) + float(probability) * estimate.value
    true = [tuple(row[name] for name in names) for row in THREE_ROWS.to_pylist()]
    for key, value in mean.items():
        assert value == pytest.approx(true.count(key), abs=1e-9)


def test_groups_are_the_questions_asked_one_by_one() -> None:
    release = records_release(ONE, THREE_ROWS, (UniformChannel(("job",), KEEP),))
    grouped = release.answer(
        "SELECT sex, job, COUNT(*) FROM t WHERE job <> 'cook' GROUP BY sex, job"
    )
    assert [key for key, _ in grouped] == [
        (sex, job) for sex in ("f", "m") for job in ("nurse", "smith")
    ]
    for (sex, job), estimate in grouped:
        alone = release.answer(f"SELECT COUNT(*) FROM t WHERE sex = '{sex}' AND job = '{job}'")
        assert (estimate.value, estimate.stderr) == pytest.approx((alone.value, alone.stderr))
        assert estimate.interval() == pytest.approx(alone.interval())


def test_what_names_no_perturbed_attribute_is_exact() -> None:
    release = records_release(ONE, THREE_ROWS, (UniformChannel(("job",), KEEP),))
    count = release.answer("SELECT COUNT(*) FROM t WHERE age = 1")
    assert (count.value, count.stderr, count.interval()) == (2, 0, (2, 2))
    assert release.answer("SELECT AVG(age) FROM t").value == pytest.approx(5 / 3)
    everything = release.answer("SELECT COUNT(*) FROM t WHERE job IS NOT NULL")
    assert (everything.value, everything.stderr) == (3, 0)


def test_average_of_nothing_is_unknown() -> None:
    release = records_release(ONE, THREE_ROWS, (UniformChannel(("job",), KEEP),))
    answer = release.answer("SELECT AVG(age) FROM t WHERE job = 'cook' AND age = 0")
    assert answer.value != answer.value
    assert answer.to_dict()["value"] is None
    assert answer.notes
