"""The trackers of the statistical database on the workload of the paper's section 5.

Questions on two random attributes of four (79 × 14 × 23 × 100 values), each interval a fifth of its
range and centred anywhere, with room for 300 of them at every point (ε = 0.3, λ = 2000).
"""

from __future__ import annotations

import time
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scumble as sc
from benchmarks.measure import at_least, take_turns
from scumble.private.database.space import Boxes, Space
from scumble.private.database.trackers import ExactTracker, HistogramTracker

SIZES = {"age": 79, "education": 14, "occupation": 23, "income": 100}
QUESTIONS = 20_000
VOLUME = 0.04
LIMIT = 300
BUCKETS = 100_000
TURN = 200  # questions of one turn of the index and its rival


def run() -> list[dict[str, Any]]:
    space, questions = _space(), workload()
    for tracker in (ExactTracker(space, LIMIT), HistogramTracker(space, 1, 20)):
        _ask(tracker, questions[:20])  # numba compiles here, not on the clock
    exact, histogram = ExactTracker(space, LIMIT), HistogramTracker(space, LIMIT, BUCKETS)
    return [
        admission("exact", exact, questions, 5_000),
        admission(f"histogram, {BUCKETS:,} buckets", histogram, questions, 2_000),
        points(space, questions),
        index(histogram, questions),
    ]


def admission(
    name: str, tracker: ExactTracker | HistogramTracker, questions: Boxes, target: int
) -> dict[str, Any]:
    """Room for every question, and add if there is: from an empty tracker to a full one."""
    begin, accepted = time.process_time(), 0
    for boxes in questions:
        if tracker.has_room(boxes):
            tracker.add(boxes)
            accepted += 1
    speed = len(questions) / (time.process_time() - begin)
    detail = f"{speed:,.0f} questions/s of CPU, {accepted:,} of {len(questions):,} accepted"
    return at_least(f"{name}: questions/s / {target:,}", 1, speed / target, detail)


def points(space: Space, questions: Boxes) -> dict[str, Any]:
    """The tree of counters against numpy over a plain array of counters, until both are full."""
    timings = take_turns(
        {
            "numpy": lambda _: _ask(_Plain(space, LIMIT), questions),
            "exact": lambda _: _ask(ExactTracker(space, LIMIT), questions),
        },
        repeats=3,
    )
    each = {name: timing.cpu / len(questions) * 1e6 for name, timing in timings.items()}
    detail = f"room and add: {each['exact']:.1f} µs, numpy {each['numpy']:.1f} µs"
    return at_least("exact / numpy brute force", 1, each["numpy"] / each["exact"], detail)


def index(histogram: HistogramTracker, questions: Boxes) -> dict[str, Any]:
    """The blocks of buckets against numpy over all of them; every question is let in."""
    boxes, counters = histogram.buckets()
    rival = _Flat(boxes, counters)
    histogram.limit = rival.limit = 10**9
    timings = take_turns(
        {
            "numpy": lambda turn: _ask(rival, questions[turn * TURN : (turn + 1) * TURN]),
            "index": lambda turn: _ask(histogram, questions[turn * TURN : (turn + 1) * TURN]),
        },
        repeats=7,
    )
    each = {name: timing.cpu / TURN * 1e6 for name, timing in timings.items()}
    cost = f"{each['index']:.0f} µs, numpy {each['numpy']:.0f} µs"
    ratio = each["numpy"] / each["index"]
    detail = f"{len(boxes):,} buckets, room and add: {cost}"
    return at_least("index of buckets / numpy brute force", 10, ratio, detail)


def workload() -> Boxes:
    """The questions: [question, box, attribute, side], one box each."""
    rng, sizes = np.random.default_rng(0), list(SIZES.values())
    found = np.tile([[0, size - 1] for size in sizes], (QUESTIONS, 1, 1, 1))
    for question in found[:, 0]:
        for axis in rng.choice(len(sizes), 2, replace=False):
            centre, reach = rng.integers(sizes[axis]), VOLUME**0.5 * (sizes[axis] - 1) / 2
            question[axis] = (
                max(ceil(centre - reach), 0),
                min(floor(centre + reach), sizes[axis] - 1),
            )
    return found


class _Plain:
    """Numpy over one counter a point."""

    def __init__(self, space: Space, limit: int) -> None:
        self.limit, self.counts = limit, np.zeros(space.sizes, np.uint16)

    def has_room(self, boxes: Boxes) -> bool:
        return bool(self.counts[_cells(boxes)].max() < self.limit)

    def add(self, boxes: Boxes) -> None:
        self.counts[_cells(boxes)] += 1


class _Flat:
    """Numpy over one counter a bucket."""

    limit = LIMIT

    def __init__(self, boxes: Boxes, counts: NDArray[np.int64]) -> None:
        self.low, self.high = boxes[..., 0].T.copy(), boxes[..., 1].T.copy()
        self.counts = counts.copy()

    def has_room(self, boxes: Boxes) -> bool:
        return bool(self.counts[self._meets(boxes[0])].max() < self.limit)

    def add(self, boxes: Boxes) -> None:
        self.counts[self._meets(boxes[0])] += 1

    def _meets(self, box: Boxes) -> NDArray[np.bool_]:
        """Column by column, which is several times faster than row by row."""
        meets = np.ones(len(self.counts), bool)
        for axis, (low, high) in enumerate(box):
            meets &= self.low[axis] <= high
            meets &= self.high[axis] >= low
        return meets


def _cells(boxes: Boxes) -> tuple[slice, ...]:
    return tuple(slice(low, high + 1) for low, high in boxes[0])


def _ask(tracker: Any, questions: Boxes) -> None:
    for boxes in questions:
        if tracker.has_room(boxes):
            tracker.add(boxes)


def _space() -> Space:
    schema = sc.Schema(
        [sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1)) for name, size in SIZES.items()]
    )
    return Space(schema, schema.names)
