"""The figures of repeated experiments: clouds, bands, and names that do not meet."""

from __future__ import annotations

import pytest

from research.study import scatter_panels
from scumble.public.plot import curves
from scumble.public.plot.figures import _APART, Line, Panel, _apart

ROWS = [
    {"method": method, "truth": truth, "estimate": truth + off}
    for method, off in (("A", -60.0), ("B", 5.0))
    for truth in (0, 50, 100)
]


def test_names_stay_where_there_is_room():
    assert _apart([0.2, 0.9, 0.5]) == pytest.approx([0.2, 0.9, 0.5])


def test_names_that_would_meet_stand_around_their_mean():
    low, high = _apart([0.5, 0.5])
    assert (low + high) / 2 == pytest.approx(0.5)
    assert high - low == pytest.approx(_APART)
    places = _apart([0.41, 0.40, 0.42, 0.9])
    assert places[1] < places[0] < places[2] < places[3] == pytest.approx(0.9)
    assert places[0] == pytest.approx(0.41)


def test_names_stay_inside():
    assert max(_apart([0.99, 0.99, 0.98])) == pytest.approx(0.99)
    assert min(_apart([0.0, 0.001])) == pytest.approx(_APART / 2)


def test_clouds_share_their_axes():
    first, second = scatter_panels(ROWS, ("A", "B"))
    assert first.frame == second.frame
    low, high = first.frame or (0, 0)
    assert low < -60
    assert high > 105
    assert list(first.lines[0].y) == [-60, -10, 40]
    figure = curves([first, second])
    assert all(axes.get_ylim() == pytest.approx(first.frame) for axes in figure.axes)
    assert figure.axes[0].collections[0].get_rasterized()


@pytest.mark.parametrize("log", [False, True])
def test_a_band_is_as_wide_as_the_spread(log):
    line = Line("a", [1, 2], [10, 20], spread=[1, 2])
    figure = curves([Panel("t", "x", "y", [line], log_y=log)])
    [band] = figure.axes[0].collections
    heights = {round(float(y), 6) for _, y in band.get_paths()[0].vertices}
    assert heights == {9, 11, 18, 22}


def test_a_band_on_a_logarithmic_axis_has_an_end():
    line = Line("a", [1, 2], [10, 20], spread=[50, 1])
    figure = curves([Panel("t", "x", "y", [line], log_y=True)])
    [band] = figure.axes[0].collections
    assert min(float(y) for _, y in band.get_paths()[0].vertices) > 0
