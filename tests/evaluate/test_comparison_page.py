"""The page and the chart of a comparison: what is exact, what is tiny, and what lies together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scumble.evaluate.comparison_measures import unrounded
from scumble.evaluate.comparison_page import _spread
from scumble.evaluate.comparison_points import Point, sentence
from scumble.evaluate.measures import spread
from scumble.plot import svg
from scumble.plot.comparison import Mark, _looks, comparison

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
    both, one = _looks(["subset", "uniform"], KNOWN), _looks(["uniform"], KNOWN)
    assert both["uniform"] == one["uniform"]
    assert len({*_looks([*KNOWN, "another"], KNOWN).values()}) == 5


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
