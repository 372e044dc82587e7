"""The figures of a database: their texts, maps of any size, and the bounds of Lemma 3."""

import xml.etree.ElementTree as ElementTree
from datetime import date

import numpy as np
import pytest

import scumble as sc
from scumble.private.database.inspect import _side
from scumble.public import plot
from scumble.public.plot import database
from scumble.public.plot.database import Axis, popularity


def heat(width=3, height=2, limit=4):
    counts = np.arange(width * height).reshape(width, height) % (limit + 1)
    sides = (Axis(name, [0], [f"first {name}"]) for name in ("age", "income"))
    return popularity(counts, *sides, limit)


def curve(*bounds, answered=(0, 1, 2, 2)):
    return database.capacity([database.Answered("exact", range(4), answered)], bounds)


def words(axes):
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    found = [text.get_text() for text in (*ticks, *axes.texts)]
    return [*found, axes.get_xlabel(), axes.get_ylabel(), axes.get_title(), axes.get_title("left")]


def test_the_map_names_its_sides_and_what_is_used_up():
    figure = heat()
    figure.draw_without_rendering()
    picture, bar = figure.axes
    assert {"first age", "age", "first income", "income"} <= set(words(picture))
    assert "4: used up" in words(bar)
    assert [int(tick) for tick in bar.get_yticks()] == [0, 1, 2, 3]


def test_what_is_used_up_is_a_colour_apart():
    figure = heat(limit=4)
    [image] = figure.axes[0].images
    colours = {count: tuple(image.cmap(image.norm(count))) for count in range(5)}
    lightness = [sum(colours[count][:3]) for count in range(5)]
    assert lightness == sorted(lightness, reverse=True)
    assert lightness[3] - lightness[4] > 0.5


@pytest.mark.parametrize("limit", [1, 2, 300])
def test_any_limit(limit):
    assert plot.png(heat(limit=limit)).startswith(b"\x89PNG")


def test_a_large_map_keeps_what_is_used_up():
    counts = np.zeros((5000, 3000), np.int64)
    counts[4321, 1234] = 7
    sides = (Axis(name, [0], ["0"]) for name in ("age", "income"))
    [image] = popularity(counts, *sides, 7).axes[0].images
    shown = np.asarray(image.get_array())
    assert shown.max() == 7
    assert max(shown.shape) <= 1000


def test_bounds_of_lemma_3():
    """The paper's parameters: ε = 0.3, λ = 2000, s = 4 %."""
    fixed = database.fixed_volume(0.3 * 2000, 0.04)
    assert (round(fixed.value, 6), fixed.name) == (7812.5, "ελ/(2s(1−s)) for s = 4 %")
    least = database.least_volume(0.3 * 2000, 0.04)
    assert (round(least.value, 6), least.name) == (15000, "ελ/s′ for s′ = 4 %")


def test_the_curve_tells_a_near_bound_and_a_far_one():
    near, far = database.Bound("near", 4), database.Bound("far", 4000)
    [axes] = curve(near, far).axes
    assert "near: 4" in words(axes)
    assert "bound, far above: far: 4,000" in words(axes)
    assert axes.get_ylim()[1] < 10
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["exact"]


@pytest.mark.parametrize("answered", [(), (0,), (0, 0, 0, 0)])
def test_little_or_nothing_answered(answered):
    lines = [database.Answered("none", range(len(answered)), answered)]
    assert plot.png(database.capacity(lines)).startswith(b"\x89PNG")


@pytest.mark.parametrize("make", [heat, curve])
def test_files(make):
    assert ElementTree.fromstring(plot.svg(make())).tag.endswith("svg")
    assert plot.svg(make()) == plot.svg(make())


def test_ticks_of_the_bar_are_even(subtests: pytest.Subtests) -> None:
    for limit in [1, 2, 6, 7, 10, 13, 25, 300, 12345]:
        with subtests.test(limit=limit):
            figure = heat(limit=limit)
            ticks = [int(tick) for tick in figure.axes[1].get_yticks()]
            assert ticks[0] == 0
            assert ticks[-1] < limit
            assert len(ticks) <= 6
            assert len(set(np.diff(ticks))) <= 1


@pytest.mark.parametrize(("letters", "turned"), [(4, 0), (14, 90)])
def test_names_along_the_bottom_have_room(letters, turned):
    names = [str(place) * letters for place in range(8)]
    sides = (Axis("month", range(8), names), Axis("job", [0], ["cook"]))
    axes = popularity(np.zeros((8, 2), np.int64), *sides, 4).axes[0]
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {turned}


@pytest.mark.parametrize(
    ("by", "missing", "labels"),
    [
        ("month", False, ["2023-01", "2023-04", "2023-07", "2023-10", "2024-01"]),
        ("month", True, ["2023-01", "2023-04", "2024-10", "(missing)"]),
        ("year", False, ["2023", "2024"]),
        ("day", False, ["2023-01-01", "2023-04-02"]),
    ],
)
def test_dates_are_as_fine_as_they_are_published(by, missing, labels):
    domain = sc.Dates(date(2023, 1, 1), date(2024, 12, 31), by=by)
    side = _side(sc.Attribute("admitted", "quasi", domain, missing=missing))
    assert set(labels) <= set(side.labels)
    assert len(set(side.labels)) == len(side.ticks) <= 10
