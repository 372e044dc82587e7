"""Example 4 of the paper: c = 3 over Age × Income, step by step."""

import numpy as np

import scumble as sc
from scumble.private.database.space import Space
from scumble.private.database.trackers import HistogramTracker

AGE, INCOME = (0, 99), (0, 109_999)
LOWER = [(0, 99), (0, 39_999)]
CORE = [(30, 50), (40_000, 70_000)]


def started() -> HistogramTracker:
    schema = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(*AGE)),
            sc.Attribute("income", "quasi", sc.IntegerRange(*INCOME)),
        ]
    )
    return HistogramTracker(Space(schema, schema.names), 3, 100)


def ask(tracker, age, income):
    box = np.array([[age, income]])
    assert tracker.has_room(box)
    tracker.add(box)


def buckets(tracker):
    boxes, counters = tracker.buckets()
    return {
        tuple(map(tuple, box.tolist())): int(counter)
        for box, counter in zip(boxes, counters, strict=True)
    }


def test_example_4_comes_out_step_by_step():
    """In codes, the line at 40,000 belongs to one side: the paper draws the region of q1 up to
    the line and counts it on both, and so has 2 where B2 has 1 here. No decision depends on it.
    """
    tracker = started()
    assert buckets(tracker) == {(AGE, INCOME): 0}
    ask(tracker, (20, 50), (40_000, 70_000))
    assert buckets(tracker) == {(AGE, INCOME): 1}
    ask(tracker, (30, 69), (0, 39_999))
    assert buckets(tracker) == {(AGE, INCOME): 2}
    ask(tracker, (30, 69), (40_000, 109_999))  # B1 reaches 3 and is cut at 40,000
    assert buckets(tracker) == {tuple(LOWER): 1, (AGE, (40_000, 109_999)): 2}
    ask(tracker, AGE, (40_000, 109_999))  # B3 reaches 3: the core is cut out of it
    assert buckets(tracker) == {
        tuple(LOWER): 1,
        ((0, 29), (40_000, 109_999)): 2,  # B4: left of age 30
        ((51, 99), (40_000, 109_999)): 2,  # B5: right of age 50
        ((30, 50), (70_001, 109_999)): 2,  # B6: above 70,000
        tuple(CORE): 3,  # B7
    }
    assert tracker.largest() == 3
    assert not tracker.has_room(np.array([[(50, 60), (70_000, 80_000)]]))
    assert tracker.has_room(np.array([[(51, 60), (70_000, 80_000)]]))


def test_a_bucket_that_every_box_covers_is_kept():
    tracker = started()
    for _ in range(3):
        ask(tracker, AGE, INCOME)
    assert buckets(tracker) == {(AGE, INCOME): 3}


def test_what_is_still_full_after_a_cut_is_cut_again():
    """Three boxes in a row and no line that frees both sides of all: one cut is not enough."""
    tracker = started()
    ask(tracker, (0, 49), INCOME)
    ask(tracker, (40, 99), INCOME)
    ask(tracker, (45, 60), (0, 10))
    assert all(count < 3 or box == ((45, 49), (0, 10)) for box, count in buckets(tracker).items())


def test_no_more_buckets_than_allowed_even_within_a_split():
    tracker = started()
    tracker = HistogramTracker(tracker.space, 1, 3)
    ask(tracker, *CORE)
    found = buckets(tracker)
    assert len(found) == 3
    assert found[((30, 50), INCOME)] == 1


def test_a_box_of_more_units_splits_what_stands_in_its_way():
    tracker = started()
    ask(tracker, (0, 9), INCOME)
    ask(tracker, (20, 29), INCOME)
    assert len(buckets(tracker)) == 1
    assert tracker.has_room(np.array([[(40, 50), INCOME]]), 3)
    assert not tracker.has_room(np.array([[(5, 15), INCOME]]), 3)
