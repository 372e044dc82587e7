"""Estimates from bags against exact enumeration of everything that may be published."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pyarrow as pa
import pytest
from outcomes import Outcomes, bag_channel, every
from people import schema

from scumble.pool_law import PoolLaw
from scumble.subset_law import SubsetLaw

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
    return every(domain, private, bag_channel(domain, LAWS[name], layout))


@pytest.mark.parametrize("layout", ["counts", "codes"])
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("question", "truth"), ON_ROWS)
def test_one_attribute(question: str, truth: int, name: str, layout: str) -> None:
    mean, variance, estimated = _outcomes(name, layout, 3).moments(question)
    assert mean == pytest.approx(truth, abs=1e-9)
    assert estimated == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("question", "truth"), ON_PAIRS)
def test_two_attributes_as_one(question: str, truth: int, name: str) -> None:
    mean, variance, estimated = _outcomes(name, "counts", 2).moments(question)
    assert mean == pytest.approx(truth, abs=1e-9)
    assert estimated == pytest.approx(variance, rel=1e-9)
