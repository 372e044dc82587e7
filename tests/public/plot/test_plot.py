"""The figures: their texts, and that they use no global state."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import matplotlib
import pytest

from scumble.public import plot

GROUPS, TRUTH = ["a", "b", "c"], [10.0, 30.0, 20.0]
SERIES = [
    plot.Series("first", [11.0, 29.0, 21.0], [5.0, 20.0, 15.0], [15.0, 40.0, 25.0]),
    plot.Series("second", [10.5, 30.5, 19.0], [9.0, 28.0, 18.0], [12.0, 33.0, 22.0]),
]
CURVES = [plot.Curve("first", [30.0, 20.0], [29.0, 22.0]), plot.Curve("second", [3.0, 2.0], [2, 2])]


def intervals():
    return plot.intervals(GROUPS, TRUTH, SERIES, "people")


def tradeoff():
    return plot.tradeoff([0.5, 1.0], CURVES, prior=0.1, axis="error")


def words(figure):
    [axes] = figure.axes
    figure.draw_without_rendering()
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    inner = [label for child in axes.child_axes for label in child.get_xticklabels()]
    return [text.get_text() for text in (*ticks, *inner, *axes.texts)] + [axes.get_xlabel()]


def test_intervals_are_labelled_directly():
    found = words(intervals())
    assert {"a", "b", "c", "first", "second", "truth", "people"} <= set(found)
    assert intervals().axes[0].get_legend() is None


def test_the_largest_group_is_on_top():
    labels = [label.get_text() for label in intervals().axes[0].get_yticklabels()]
    assert labels == ["a", "c", "b"]


def test_tradeoff_says_what_epsilon_means():
    found = words(tradeoff())
    assert {"0.5", "1", "first", "second", "23.2 %"} <= set(found)


def test_series_differ_in_more_than_colour():
    from scumble.public.plot.figures import COLOURS, MARKERS

    assert len(set(MARKERS)) == len(set(COLOURS)) == 4


@pytest.mark.parametrize("make", [intervals, tradeoff])
def test_files(make):
    before = dict(matplotlib.rcParams)
    element = ElementTree.fromstring(plot.svg(make()))
    assert element.tag.endswith("svg")
    assert plot.png(make()).startswith(b"\x89PNG")
    assert dict(matplotlib.rcParams) == before
    assert plot.svg(make()) == plot.svg(make())


def test_the_library_is_imported_late():
    code = "import scumble.public.plot, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
