"""The page and the chart of a comparison: what is exact, what is tiny, and what lies together."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import scumble as sc
from scumble.compare.chart import Mark, assign_colours, draw_chart
from scumble.compare.comparison import Comparison, Results
from scumble.compare.measures import spread, unrounded
from scumble.compare.page import _spread, page
from scumble.compare.points import Point, command_of_setting, sentence
from scumble.compare.settings import Settings
from scumble.compare.truth import stand_in
from scumble.compare.workloads import from_sql
from scumble.private.mechanism import create

MARK = Mark("uniform", "ε = 1", 0.2, 0.1, True, False, False, False)


def _drawn(*marks: Mark) -> str:
    return str(draw_chart(marks, 0.1, "error", percent=True))


def _heights(drawn: str) -> list[float]:
    return [float(found) for found in re.findall(r'<circle cx="[^"]+" cy="([^"]+)"', drawn)]


def test_what_is_exact_has_a_place_of_its_own() -> None:
    """Below all errors; the axis says so."""
    exact = replace(MARK, method="subset", error=0.0)
    drawn = _drawn(MARK, exact)
    ticks = re.findall(r'text-anchor="end" x="76" y="([^"]+)">([^<]*)<', drawn)
    assert ticks[0][1] == "exact"
    assert all(label.endswith(" %") for _, label in ticks[1:])
    above, below = _heights(drawn)
    assert below == pytest.approx(float(ticks[0][0]) - 4)
    assert below > above + 50
    assert "exact" not in _drawn(MARK)
    assert _drawn(exact, replace(exact, success=0.5))  # nothing else
    assert not _drawn(replace(MARK, error=math.nan))


def test_every_method_has_its_colour_and_its_name() -> None:
    methods = ["uniform", "subset", "aroma", "histogram", "uniform"]
    assert len({*assign_colours(methods).values()}) == 4
    marks = [replace(MARK, method=name, success=0.2 + 0.1 * n) for n, name in enumerate(methods)]
    drawn = _drawn(*marks)
    for name in set(methods):
        assert f">{name}, ε = 1</text>" in drawn


def test_texts_that_would_overlap_are_left_out() -> None:
    """Thirty settings in one place: the method is named, and every mark has a title."""
    drawn = _drawn(*[replace(MARK, words=f"k = {number}") for number in range(30)])
    assert drawn.count("<title>uniform, k = ") == 30
    assert 1 < drawn.count("k = ") - 30 < 15
    assert drawn.count('font-size="12.5" font-weight="bold"') == 1


def test_methods_without_a_promise_have_a_panel_of_their_own() -> None:
    """With the same axes, and a line from the average person to the unluckiest one."""
    open_ = replace(MARK, method="aroma", private=False, worst=0.9)
    drawn = _drawn(MARK, open_)
    with_promise, without = drawn.split(">No promise: an unlucky person is exposed<")
    assert ">With a promise: it holds for everybody<" in with_promise
    assert "uniform" in with_promise
    assert "aroma" not in with_promise.partition("<title>")[2]
    assert "<title>aroma" in without
    assert without.count('class="worst"') == 1
    assert 'class="worst"' not in _drawn(MARK, replace(open_, worst=None))
    assert 'class="worst"' not in _drawn(replace(MARK, worst=0.9))
    first, second = (re.findall(r'<circle cx="([^"]+)"', each) for each in (with_promise, without))
    assert first == second  # of equal chances
    assert "No promise" not in _drawn(MARK)
    assert "With a promise" not in _drawn(open_)


def test_styles_of_marks_and_curves() -> None:
    plain = _drawn(MARK)
    assert "M " not in plain  # no arrow
    assert 'fill="none" stroke-width' not in plain
    assert 'r="5.5" stroke-width="2" fill="none"' in _drawn(replace(MARK, private=False))
    assert 'stroke-dasharray="6 4"' in _drawn(replace(MARK, whole=True))
    assert 'stroke-dasharray="6 4"' not in plain
    assert "<path d=" in _drawn(replace(MARK, limit=True))
    assert 'opacity=".45"' in _drawn(replace(MARK, beaten=True))
    assert 'opacity=".45"' not in plain
    assert "&lt;b&gt;" in _drawn(replace(MARK, words="<b>"))


def test_errors_of_rounding_are_none() -> None:
    truth = np.array([1e6, 3.0, 0.0])
    found = unrounded(truth, np.array([[1e6 + 1e-5, 3 - 1e-10, 1e-10], [1e6 + 1, 3.01, 0.5]]))
    assert found.tolist() == [[1e6, 3.0, 0.0], [1e6 + 1, 3.01, 0.5]]


NUMBERS = [
    ([0.0, 0.0], "0"),
    ([-0.1, 0.1], "0 ± 0.14"),
    ([12.0, 14.0], "13.0 ± 1.4"),
    ([-12.0, -1400.0], "−710 ± 980"),
    ([2e-7, 4e-7], "3.0e−07 ± 1e−07"),
    ([2e-7], "2.0e−07"),
    ([0.0125], "0.0125"),
]


def test_numbers_are_as_long_as_they_mean_something(subtests: pytest.Subtests) -> None:
    for runs, text in NUMBERS:
        with subtests.test(runs=runs):
            assert _spread("bias", spread(np.array(runs))) == text


def test_exact_counts_in_a_sentence() -> None:
    error = spread(np.zeros(2))
    point = Point(
        "uniform", "ε = 1", 0.2, "exact", 0.3, False, 0.0, error, {}, 10, None, (5000.0, 0.0), ()
    )
    assert sentence(point).endswith("; a count of 5,000 is answered exactly.")
    mostly = replace(point, error=spread(np.array([0.0, 0.1])))
    assert sentence(mostly).endswith("is answered exactly nineteen times in twenty.")


def test_the_page_says_how_to_publish(results: Results) -> None:
    text = unescape(re.sub("<span[^>]*>|</span>", "", page(results, "relative")))
    assert "scumble publish uniform 'my people.csv' --schema s.toml --epsilon 1 -o" in text
    assert (
        "scumble publish anatomy 'my people.csv' --schema s.toml --suppress --l 2 -o view" in text
    )
    assert "--schema s.toml --attributes a,b,c,d,e --neighbours replace --epsilon 1" in text
    assert "Summaries measured the columns a, b, c, d and e." in text
    assert "(1 question, 2 answers)" in text
    assert "Not DP: the best guess is right in" in text
    assert "a value that at most" in text
    assert "(ρ1) of the rows have is right in at most" in text


def test_a_method_is_left_out_once(results: Results) -> None:
    assert len(results.left_out) == 3
    named = "the questions name 5: a, b, c, d, e. Ask about fewer with --queries."
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
        "scumble publish workload TABLE --schema SCHEMA --attributes a --epsilon 0.5 "
        "--queries my.sql --outside missing -o view"
    )
    grid = command_of_setting("grid", {"adaptive": False}, {})
    assert grid == "scumble publish grid TABLE --schema SCHEMA --uniform -o view"
    assert "--prior-multiple 10 " in command_of_setting("alphabeta", {"k": 10, "gamma": 0.2}, {})


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
