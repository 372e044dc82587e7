"""The page and the chart of a comparison: what is exact, what is tiny, and what lies together."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import scumble as sc
from scumble.compare.comparison import Comparison, Results
from scumble.compare.measures import spread, unrounded
from scumble.compare.page import _spread, page
from scumble.compare.points import Point, command_of_setting, sentence
from scumble.compare.settings import Settings
from scumble.compare.truth import stand_in
from scumble.compare.workloads import from_sql
from scumble.private.mechanism import create
from scumble.public.plot.comparison import Mark, _styles, comparison
from scumble.public.plot.figures import svg

MARK = Mark("uniform", "ε = 1", 0.2, 0.1, 0.01, True, False, False, False)
KNOWN = ("uniform", "subset", "aroma", "histogram")


def _drawn(*marks: Mark) -> str:
    return svg(comparison(marks, 0.1, "error", KNOWN, percent=True))


def test_what_is_exact_has_a_place_of_its_own() -> None:
    """Below all errors, beyond a broken line; the axis says so."""
    exact = replace(MARK, method="subset", error=0.0, stderr=0.0)
    figure = comparison([MARK, exact], 0.1, "error", KNOWN, percent=True)
    [axes] = figure.axes
    ticks = [label.get_text() for label in axes.get_yticklabels()]
    assert ticks[0] == "exact"
    assert all(label.endswith("%") for label in ticks[1:])
    lowest = min(float(dot.get_offsets()[0, 1]) for dot in axes.collections)
    assert lowest == axes.get_yticks()[0] < MARK.error / 1.9
    assert "exact" not in [
        label.get_text()
        for label in comparison([MARK], 0.1, "e", KNOWN, percent=True).axes[0].get_yticklabels()
    ]
    assert _drawn(exact, replace(exact, success=0.5))  # nothing else


def test_a_method_looks_the_same_in_every_figure() -> None:
    both, one = _styles(["subset", "uniform"], KNOWN), _styles(["uniform"], KNOWN)
    assert both["uniform"] == one["uniform"]
    assert len({*_styles([*KNOWN, "another"], KNOWN).values()}) == 5


def test_a_mark_on_another_is_smaller() -> None:
    other = replace(MARK, method="subset")
    [axes] = comparison([MARK, other], 0.1, "error", KNOWN, percent=True).axes
    below, above = axes.collections
    assert above.get_sizes()[0] < below.get_sizes()[0] / 2
    assert above.get_zorder() > below.get_zorder()


def test_errors_of_rounding_are_none() -> None:
    truth = np.array([1e6, 3.0, 0.0])
    found = unrounded(truth, np.array([[1e6 + 1e-5, 3 - 1e-10, 1e-10], [1e6 + 1, 3.01, 0.5]]))
    assert found.tolist() == [[1e6, 3.0, 0.0], [1e6 + 1, 3.01, 0.5]]


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([0.0, 0.0], "0"),
        ([-0.1, 0.1], "0 ± 0.14"),
        ([12.0, 14.0], "13.0 ± 1.4"),
        ([-12.0, -1400.0], "−710 ± 980"),
        ([2e-7, 4e-7], "3.0e−07 ± 1e−07"),
        ([2e-7], "2.0e−07"),
        ([0.0125], "0.0125"),
    ],
)
def test_numbers_are_as_long_as_they_mean_something(runs: list[float], text: str) -> None:
    assert _spread("bias", spread(np.array(runs))) == text


def test_exact_counts_in_a_sentence() -> None:
    error = spread(np.zeros(2))
    point = Point(
        "uniform", "ε = 1", 0.2, "exact", 0.3, False, 0.0, error, {}, 10, None, (5000.0, 0.0), ()
    )
    assert sentence(point, 8).endswith("; a count of 5,000 is answered exactly.")
    mostly = replace(point, error=spread(np.array([0.0, 0.1])))
    assert sentence(mostly, 8).endswith("is answered exactly nineteen times in twenty.")


def test_the_page_says_how_to_publish(results: Results) -> None:
    text = unescape(re.sub("<span[^>]*>|</span>", "", page(results, "relative")))
    assert "scumble publish 'my people.csv' --schema s.toml --method uniform --epsilon 1 -o" in text
    assert "--method anatomy --suppress --l 2 -o view" in text
    assert "--method histogram --attributes a,b,c,d,e --neighbours replace --epsilon 1" in text
    assert "Summaries measured the columns a, b, c, d and e." in text
    assert "(1 question, 2 answers)" in text
    assert "Not DP: an attacker who gave, as the table's own share has it, at most" in text
    assert "(ρ1) to a value can end at most at" in text


def test_a_method_is_left_out_once(results: Results) -> None:
    assert len(results.left_out) == 3
    named = "the questions name 5: a, b, c, d, e. Ask about fewer with --workload."
    assert results.refusals() == {
        "mosaic": f"It takes at most four columns; {named}",
        "dawa": f"It takes at most one column; {named}",
    }


def test_commands_name_what_was_compared() -> None:
    asked = {"queries": ["SELECT COUNT(*) FROM t"], "epsilon": 0.5}
    mechanism = create("workload", attributes=["a"], neighbours="replace", **asked)
    assert mechanism
    about = {"file": "my.sql", "reading": {"outside": "missing"}}
    assert command_of_setting("workload", {"attributes": ["a"], "epsilon": 0.5}, about) == (
        "scumble publish TABLE --schema SCHEMA --method workload --attributes a --epsilon 0.5 "
        "--queries my.sql --outside missing -o view"
    )
    assert "--method grid --uniform -o" in command_of_setting("grid", {"adaptive": False}, {})


@pytest.fixture(scope="module")
def results() -> Results:
    schema = sc.Schema(
        (
            *(sc.Attribute(name, "quasi", sc.Boolean()) for name in "abcd"),
            sc.Attribute("e", "sensitive", sc.Category(("x", "y", "z"))),
        )
    )
    table = stand_in(schema, 300)
    workload = from_sql(
        ["SELECT a, COUNT(*) FROM t WHERE b OR c OR d OR e = 'x' GROUP BY a"], schema
    )
    methods = ["uniform", "anatomy", "partition", "histogram", "mosaic", "dawa"]
    given = {"anatomy": {"l": [2]}, "dawa": {"epsilon": [1.0]}}
    choices = Settings(table, workload, "replace").choices(methods, [1.0, 2.0], given)
    comparison = Comparison(table, workload, choices, 1)
    found = comparison.blank(
        subject="people", preview=False, sensitive=["e"], source="my people.csv", schema="s.toml"
    )
    list(comparison.runs(found))
    return found


def test_stand_ins_keep_to_the_schema() -> None:
    schema = sc.Schema(
        (
            sc.Attribute("flag", "quasi", sc.Boolean()),
            sc.Attribute("pay", "sensitive", sc.Bins((0.0, 1.0, 2.0)), missing=True),
        )
    )
    known = stand_in(schema, 3000, seed=2)
    assert known.rows == 3000
    assert sorted(np.unique(known.codes("pay")).tolist()) == [0, 1, 2]
    assert known.cube(["flag"])[0] > known.cube(["flag"])[1]
