"""Drawings of the pages: an axis begins at 0 or near the data, and ends at ticks."""

from __future__ import annotations

import re

import numpy as np

from scumble.model.laws.base import Normal
from scumble.public.estimate import Estimate
from scumble.server.pages.drawings import Scale, axis_drawing, interval_drawing, row_drawing


def test_an_axis_begins_at_zero_unless_the_data_are_far_from_it(subtests):
    for numbers, low, high in (
        ([0, 800], 0, 800),
        ([300, 971], 0, 1000),
        ([3266, 4464], 3200, 4600),
        ([9_000, 9_100], 9000, 9100),
        ([-708, 4089], -1000, 5000),
        ([-4464, -3266], -4600, -3200),
        ([0.012, 0.0134], 0.012, 0.0135),
        ([7, 7], 2, 12),
        ([0, 0], 0, 1),
    ):
        with subtests.test(numbers=numbers):
            scale = Scale.of(numbers)
            assert scale.low <= min(numbers) <= max(numbers) <= scale.high
            np.testing.assert_allclose([scale.low, scale.high], [low, high], rtol=1e-9)
            ticks = scale.ticks()
            assert 2 <= len(ticks) <= 9
            np.testing.assert_allclose([ticks[0], ticks[-1]], [low, high], rtol=1e-9)
            assert len({scale.label(each) for each in ticks}) == len(ticks)
    assert Scale.of([float("inf")]) is None


def test_labels_of_ticks_do_not_overlap():
    drawn = interval_drawing(Estimate(12_237_000.0, Normal(152.0**2), "noise"), 0.95)
    labels = re.findall(r">([-\d,.]+)</text>", drawn)
    assert labels[0] == "12,236,700"
    assert sum(len(each) + 2 for each in labels) <= 60
    assert drawn.count('class="axis"') > len(labels) + 1  # each tick has a line


def test_rows_of_a_table_have_one_axis_below_them():
    scale = Scale.of([-708, 4089])
    assert re.findall(r">([-\d,]+)</text>", axis_drawing(scale)) == ["-1,000", "5,000"]
    even = Scale.of([-4000, 4089])
    assert re.findall(r">([-\d,]+)</text>", axis_drawing(even)) == ["-4,000", "0", "6,000"]
    row = row_drawing(Estimate(1762.0, Normal(300.0**2), "noise"), 0.95, scale)
    assert row.count('class="grid"') == 2
