"""Synthetic rows in a comparison: their questions are counted in rows of the same release."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.compare.comparison import Comparison, Results
from scumble.compare.page import page
from scumble.compare.points import points
from scumble.compare.settings import Settings
from scumble.compare.truth import TrueTable
from scumble.compare.workloads import from_sql
from scumble.model.errors import ParameterError

SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 5)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("job", "sensitive", sc.Category(tuple("abcd"))),
        sc.Attribute("unasked", "quasi", sc.Category(("x", "y"))),
    )
)
METHODS = ["synthesis", "synthesis-rows", "marginals", "marginals-rows", "histogram-rows"]
QUESTIONS = [
    "SELECT job, COUNT(*) FROM t WHERE age >= 3 GROUP BY job",
    "SELECT COUNT(*) FROM t WHERE sex = 'f'",
    "SELECT AVG(age) FROM t WHERE job = 'b'",
]


@pytest.fixture(scope="module")
def table() -> TrueTable:
    draw = np.random.default_rng(5)
    age = draw.integers(0, 6, 4000)
    people = {
        "age": age,
        "sex": np.where(draw.random(4000) < 0.6, "f", "m"),
        "job": np.array(list("abcd"))[np.clip(age // 2 + draw.integers(0, 2, 4000), 0, 3)],
        "unasked": np.full(4000, "x"),
    }
    return TrueTable.read(pa.table(people), SCHEMA)


@pytest.fixture(scope="module")
def results(table: TrueTable) -> Results:
    workload = from_sql(QUESTIONS, SCHEMA)
    choices = Settings(table, workload, "add_remove").choices(METHODS, [0.5, 4.0], {})
    comparison = Comparison(table, workload, choices, 2)
    found = comparison.blank(subject="people", preview=False, sensitive=["job"])
    list(comparison.runs(found))
    return found


def test_rows_stand_beside_their_release(results: Results) -> None:
    """Same release and promise, so the same place on the axis of exposure; no intervals."""
    assert not results.left_out
    found = {(p.method, p.words): p for p in points(results, "relative")}
    for name in ("synthesis", "marginals"):
        asked, rows = found[name, "ε = 0.5"], found[f"{name}-rows", "ε = 0.5"]
        assert (rows.success, rows.posterior) == (asked.success, asked.posterior)
        assert rows.intervals == 0
        assert asked.intervals > 0
        assert rows.error.mean != asked.error.mean
        assert rows.command.endswith("-o view && scumble rows view -o rows.csv")
        assert f"scumble publish {name} " in rows.command
    assert "synthesis-rows" in page(results, "relative")


def test_rows_of_almost_exact_counts_are_almost_right(results: Results) -> None:
    """With little noise, rows of a table of all columns answer all questions;
    those of its pairs are right about pairs. With much noise they are not.
    """
    errors = {(p.method, p.words): p.error.mean for p in points(results, "relative")}
    assert errors["histogram-rows", "ε = 4"] < 0.01
    assert errors["synthesis-rows", "ε = 4"] < 0.03
    assert errors["synthesis-rows", "ε = 0.5"] > errors["synthesis-rows", "ε = 4"]


def test_the_answers_are_those_of_the_drawn_rows(table: TrueTable) -> None:
    """Recomputed from the release that the seed of the run makes."""
    from scumble.compare.runs import Material, Runner, _seed

    workload = from_sql(QUESTIONS, SCHEMA)
    [choice] = Settings(table, workload, "add_remove").choices(["synthesis-rows"], [2.0], {})
    runner = Runner(Material.of(table, workload.queries, 3))
    seed = _seed(3, choice, 0)
    drawn = sc.publish(
        runner._rows, SCHEMA, choice.mechanism, options=sc.PublishOptions(seed=seed)
    ).synthetic.rows(seed=seed)
    women = drawn["sex"].to_pylist().count("f")
    jobs = [
        sum(a >= 3 and j == job for a, j in zip(*map(pa.ChunkedArray.to_pylist, two), strict=True))
        for two in [(drawn["age"], drawn["job"])]
        for job in "abcd"
    ]
    there = [count for count, true in zip(jobs, runner.truth[:4], strict=True) if true]
    assert runner.run(choice, 0).values[:-1] == [*there, women]


def test_publishers_of_rows_have_no_synthetic_rows(table: TrueTable) -> None:
    settings = Settings(table, from_sql(QUESTIONS, SCHEMA), "replace")
    with pytest.raises(ParameterError, match="uniform publishes rows"):
        settings.choices(["uniform-rows"], [1.0], {})
    with pytest.raises(ParameterError, match="names among"):
        settings.choices(["synthetic-rows"], [1.0], {})
