"""Databases in a comparison: asked every question, at the place of their promise."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import scumble as sc
from scumble.cli.app import app
from scumble.compare import databases
from scumble.compare.comparison import Comparison, Results
from scumble.compare.page import page
from scumble.compare.points import points
from scumble.compare.questions import questions
from scumble.compare.settings import Choice, Settings
from scumble.compare.truth import TrueTable, stand_in
from scumble.compare.workloads import from_sql
from scumble.model.errors import ParameterError

JOBS = 8
SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(20, 29)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("job", "sensitive", sc.Category(tuple("abcdefgh"))),
    )
)
ASKED = [
    "SELECT job, COUNT(*) FROM t GROUP BY job",
    "SELECT COUNT(*) FROM t WHERE age BETWEEN 22 AND 25 AND job = 'a'",
    "SELECT COUNT(*) FROM t WHERE age < 24 AND job IN ('a', 'b')",
    "SELECT COUNT(*) FROM t WHERE age > 23 AND sex = 'f'",
]
MOST = 3  # age 22 or 23, job a: the first three


@pytest.fixture(scope="module")
def table() -> TrueTable:
    return stand_in(SCHEMA, 2000, seed=4)


def _choices(table: TrueTable, **given: list[float]) -> list[Choice]:
    settings = Settings(table, from_sql(ASKED, SCHEMA), "replace")
    return settings.choices(["database"], [1.0, 3.0], {"database": given} if given else {})


@pytest.fixture(scope="module")
def compared(table: TrueTable) -> Results:
    workload = from_sql(ASKED, SCHEMA)
    choices = Settings(table, workload, "replace").choices(["dyadic", "database"], [1.0], {})
    comparison = Comparison(table, workload, choices, 12)
    results = comparison.blank(subject="people", preview=False, sensitive=["job"])
    list(comparison.runs(results))
    assert not results.left_out
    return results


def test_both_databases_at_every_epsilon_say_how_many_questions(table: TrueTable) -> None:
    names = [choice.name for choice in _choices(table)]
    pairs = product(("database", "database-pure"), ("1", "3"))
    assert names == [f"{method}, ε = {epsilon}, 4 questions" for method, epsilon in pairs]


def test_settings_of_a_database(table: TrueTable) -> None:
    [choice] = _choices(table, epsilon=[2], delta=[1e-6])
    assert choice.name == "database, ε = 2, δ = 1e-06, 4 questions"
    assert [each.method for each in _choices(table, delta=[0])] == ["database-pure"] * 2
    with pytest.raises(ParameterError, match="database:epsilon=NUMBERS or database:delta=NUMBERS"):
        _choices(table, noise=[3])


def test_the_noise_is_the_least_with_which_all_are_answered(table: TrueTable) -> None:
    """By hand: three of the questions cover a point. The loss is 2 · 3/λ."""
    noise = [each.parameters["noise"] for each in _choices(table) if each.method == databases.PURE]
    assert noise == [2 * MOST, 2 * MOST / 3]


def test_the_noise_of_a_large_domain_is_as_small() -> None:
    """The tracker of 10^9 points divides them only as far as its limit makes it."""
    wide = sc.Schema(
        (
            sc.Attribute("a", "quasi", sc.IntegerRange(0, 999)),
            sc.Attribute("b", "quasi", sc.IntegerRange(0, 999)),
            sc.Attribute("c", "sensitive", sc.IntegerRange(0, 999)),
        )
    )
    asked = [f"SELECT COUNT(*) FROM t WHERE {name} = {n}" for n in range(5) for name in "abc"]
    chosen = Settings(stand_in(wide, 100), from_sql(asked, wide), "replace")
    pure = chosen.choices(["database"], [1.0], {"database": {"delta": [0]}})
    assert [each.parameters["noise"] for each in pure] == [2 * 3]


def test_they_stand_where_their_promise_allows(compared: Results) -> None:
    """For one person and d values: e^ε / (e^ε + d - 1), and δ at most for each further value."""
    for point in points(compared, "root"):
        limit = np.e / (np.e + JOBS - 1)
        assert point.success == pytest.approx(limit, abs=1e-8)
        assert point.success == pytest.approx(point.worst)
        assert (point.basis, point.private, point.whole) == ("limit", True, True)
        assert point.delta == (0 if point.method == "database-pure" else 1e-9)
    assert len(points(compared, "root")) == 3


def test_errors_are_those_of_the_noise(compared: Results) -> None:
    """λ = 6 has a root mean square error of √2 · 6. The squares of Laplace noise have a variance of
    5 squares of their mean: that of 12 runs of 11 answers has a standard error of 20 %, its root
    one of 10 %. 45 % are more than four of them.
    """
    found = {point.name: point for point in points(compared, "root")}
    pure = found["database-pure, ε = 1, 4 questions"].numbers["squared"].mean ** 0.5
    assert pure == pytest.approx(np.sqrt(2) * 2 * MOST, rel=0.45)
    live = found["database, ε = 1, 4 questions"].numbers
    base = found["dyadic, ε = 1"].numbers
    assert live["squared"].mean < base["squared"].mean  # it measures what was asked
    for point in found.values():
        assert point.numbers["coverage"].mean > 0.85


def test_a_planned_database_beats_no_release(compared: Results) -> None:
    beaten = {point.name: point.beaten_by for point in points(compared, "root")}
    assert not any(by.startswith("database-pure") for by in beaten.values())
    assert "database-pure, ε = 1, 4 questions" in page(compared, "root")


def test_every_command_is_one_of_db_create(compared: Results) -> None:
    from typer.main import get_command

    commands = [p.command for p in points(compared, "root") if p.method in databases.METHODS]
    create = get_command(app).commands["db"].commands["create"]  # type: ignore[attr-defined]
    for command in commands:
        words = shlex.split(command)
        assert words[:3] == ["scumble", "db", "create"]
        create.make_parser(create.context_class(create)).parse_args(words[3:])
    assert any("--delta 1e-09" in command for command in commands)
    assert any("--noise 6" in command for command in commands)


def test_a_secret_that_is_not_asked_about_is_not_exposed(table: TrueTable) -> None:
    workload = from_sql(["SELECT COUNT(*) FROM t WHERE age < 24"], SCHEMA)
    choices = Settings(table, workload, "replace").choices(["database"], [1.0], {})
    comparison = Comparison(table, workload, choices, 1)
    results = comparison.blank(subject="people", preview=False, sensitive=["job"])
    list(comparison.runs(results))
    assert [run.success for run in results.runs] == [1 / JOBS] * 2
    assert [run.words for run in results.runs] == ["ε = 1, 1 question"] * 2


def test_what_a_database_refuses_is_left_out_with_its_reason(table: TrueTable) -> None:
    workload = questions("breakdowns", table, 3, 0)
    [choice, *_] = Settings(table, workload, "replace").choices(["database"], [1.0], {})
    wrong = replace(choice, parameters={**choice.parameters, "delta": 2})
    comparison = Comparison(table, workload, [wrong], 1)
    results = comparison.blank(subject="people", preview=False, sensitive=["job"])
    list(comparison.runs(results))
    assert "delta" in results.refusals()["database"]
