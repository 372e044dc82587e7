"""Estimates from perturbed rows against exact enumeration of everything that may be published."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from scumble.model.evidence.channels import UniformChannel
from scumble.public.estimate import Estimate
from tests.support.outcomes import Outcomes, every
from tests.support.people import records_release, schema

ONE = schema(ages=4, jobs=("cook", "nurse", "smith"))
TWO = schema(ages=3, jobs=("cook", "nurse", "smith"), health=2)
THREE_ROWS = pa.table({"age": [1, 3, 1], "sex": ["f", "m", "m"], "job": ["nurse", "cook", "smith"]})
TWO_ROWS = pa.table({"age": [1, 2], "sex": ["f", "m"], "job": ["nurse", "cook"], "health": [0, 1]})
KEEP = Fraction(2, 5)
CHANNELS = {
    "one": (UniformChannel(("job",), KEEP),),
    "each": (UniformChannel(("job",), KEEP), UniformChannel(("health",), Fraction(1, 3))),
    "compound": (UniformChannel(("job", "health"), KEEP),),
}

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


@cache
def _outcomes(name: str) -> Outcomes:
    domain, private = (ONE, THREE_ROWS) if name == "one" else (TWO, TWO_ROWS)
    return every(domain, private, *CHANNELS[name])


def test_one_attribute(subtests: pytest.Subtests) -> None:
    for question, truth in ON_ONE:
        with subtests.test(question):
            mean, variance, estimated = _outcomes("one").moments(question)
            assert mean == pytest.approx(truth, abs=1e-9)
            assert estimated == pytest.approx(variance, rel=1e-9)


def test_two_attributes(subtests: pytest.Subtests) -> None:
    for name, (question, truth) in product(("each", "compound"), ON_TWO):
        with subtests.test(question, channels=name):
            mean, variance, estimated = _outcomes(name).moments(question)
            assert mean == pytest.approx(truth, abs=1e-9)
            assert estimated == pytest.approx(variance, rel=1e-9)


def test_groups_add_up_and_are_unbiased(subtests: pytest.Subtests) -> None:
    outcomes = _outcomes("one")
    for groups in ("job", "sex, job", "job, age"):
        with subtests.test(groups):
            names = groups.split(", ")
            mean: dict[tuple, float] = {}
            total = [0.0] * len(outcomes.probabilities)
            answer = outcomes.release.answer(
                f"SELECT outcome, {groups}, COUNT(*) FROM t GROUP BY outcome, {groups}"
            )
            for (outcome, *key), estimate in answer:
                chance = float(outcomes.probabilities[outcome])
                mean[tuple(key)] = mean.get(tuple(key), 0.0) + chance * estimate.value
                total[outcome] += estimate.value
            assert total == pytest.approx([3] * len(total))
            true = [tuple(row[name] for name in names) for row in THREE_ROWS.to_pylist()]
            assert set(true) <= set(mean)
            for key, value in mean.items():
                assert value == pytest.approx(true.count(key), abs=1e-9)


def test_an_outcome_alone_has_the_answer_of_its_group(subtests: pytest.Subtests) -> None:
    """The tests above ask all outcomes as groups of one release; here they are releases."""
    for name, questions in (("one", ON_ONE), ("each", ON_TWO)):
        outcomes = _outcomes(name)
        published = pq.read_table(outcomes.release.folder / "records.parquet")
        domain = outcomes.release.schema.select(outcomes.release.schema.names[1:])
        last = len(outcomes.probabilities) - 1
        grouped = {question: outcomes.answers(question) for question, _ in questions}
        for outcome in (0, last // 2, last):
            chosen = published.filter(pc.equal(published["outcome"], outcome))
            alone = records_release(domain, chosen.drop_columns(["outcome"]), CHANNELS[name])
            for question in grouped:
                with subtests.test(question, outcome=outcome):
                    found, single = grouped[question][outcome], alone.answer(question)
                    assert isinstance(single, Estimate)
                    assert (found.value, found.stderr) == pytest.approx(
                        (single.value, single.stderr), abs=1e-9
                    )
                    assert found.interval() == pytest.approx(single.interval(), abs=1e-9)


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
