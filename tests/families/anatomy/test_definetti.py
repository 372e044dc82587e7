"""The deFinetti attack on Anatomy: marginals of assignments by enumeration, and its success."""

import itertools
from fractions import Fraction
from math import prod

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.families.anatomy import check as definetti
from scumble.families.anatomy.check import guess_rows, release_findings
from scumble.families.anatomy.read.plan import layout

JOBS = tuple("abcdefgh")
PEOPLE = 4000
SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 19)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("number", "insensitive", sc.IntegerRange(0, PEOPLE - 1)),
        sc.Attribute("job", "sensitive", sc.Category(JOBS)),
    )
)


def _table(tied: float) -> pa.Table:
    random = np.random.default_rng(2)
    age = random.integers(0, 20, PEOPLE)
    job = np.where(random.random(PEOPLE) < tied, age * 2 // 5, random.integers(0, 8, PEOPLE))
    sex = np.array(["f", "m"])[random.integers(0, 2, PEOPLE)]
    columns = {"age": age, "sex": sex, "number": np.arange(PEOPLE), "job": np.array(JOBS)[job]}
    return pa.table(columns)


def _success(tied: float, least: int) -> tuple[float, float]:
    """The share of rows whose value is named, and the mean belief. Column `number` tells who is who
    to the test, and nothing to the attack.
    """
    table = _table(tied)
    release = sc.publish(
        table, SCHEMA, sc.Anatomy(l=least, suppress=True), options=sc.PublishOptions(seed=3)
    )
    found = guess_rows(release)
    held = layout(release.evidence, SCHEMA, release._sandbox)
    people = held.rows.cells(["number"]).astype(np.int64)
    values = held.values.combinations(release._sandbox, ["job"], []).codes["job"]
    named = values[found.values] == SCHEMA["job"].encode(table["job"])[0][people]
    return float(named.mean()), float(found.beliefs.mean())


def test_marginals_are_those_of_all_assignments() -> None:
    likelihood = [[3, 1, 2], [1, 4, 1], [2, 2, 5]]
    ways = list(itertools.permutations(range(3)))
    chances = [Fraction(prod(likelihood[i][way[i]] for i in range(3))) for way in ways]
    found = definetti._marginals(np.log(np.array([likelihood], float)))[0]
    for i, j in itertools.product(range(3), repeat=2):
        exact = sum(c for way, c in zip(ways, chances, strict=True) if way[i] == j) / sum(chances)
        assert found[i, j] == pytest.approx(float(exact), rel=1e-12)


def test_large_groups_have_marginals_that_add_up() -> None:
    found = definetti._marginals(np.log(np.random.default_rng(1).random((5, 7, 7)) + 0.1))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(found.sum(axis=2), 1, rtol=1e-6)


@pytest.mark.parametrize("least", [2, 4])
def test_values_that_go_with_columns_are_named(least: int) -> None:
    """Of a table in which the age tells the job of 70 %, far more than 1/l are named."""
    success, belief = _success(0.7, least)
    assert success > 1 / least + 0.2
    assert abs(belief - success) < 0.15


def test_values_that_go_with_nothing_are_not() -> None:
    """A guess is right in one of four cases; four standard errors, a false alarm in 10^4."""
    success, _ = _success(0.0, 4)
    assert success < 0.25 + 4 * np.sqrt(0.25 * 0.75 / PEOPLE)


def test_the_audit_of_a_release_states_it() -> None:
    release = sc.publish(_table(0.7), SCHEMA, sc.Anatomy(l=4), options=sc.PublishOptions(seed=1))
    [finding] = release_findings(release)
    assert finding.verdict == "noted"
    assert finding.numbers["mean belief"] > 1.5 * finding.numbers["share in the group"]
    assert "learns from all groups" in finding.sentence
    uniform = sc.publish(
        _table(0.7), SCHEMA, sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1)
    )
    assert list(release_findings(uniform)) == []
