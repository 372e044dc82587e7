"""The trackers of the statistical database on the workload of the paper's section 5.

Questions on two random attributes of four (79 × 14 × 23 × 100 values), each interval a fifth of its
range and centred anywhere, with room for 300 of them at every point (ε = 0.3, λ = 2000). And the
plan of a question by 10,000 groups: how long it takes, and how long others wait for it and for
answers by as many groups.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import scumble as sc
from benchmarks.measure import at_least, at_most, take_turns
from scumble.private.database.space import Boxes, Space
from scumble.private.database.trackers import ExactTracker, HistogramTracker
from scumble.server.serve import short_waits

SIZES = {"age": 79, "education": 14, "occupation": 23, "income": 100}
QUESTIONS = 20_000
VOLUME = 0.04
LIMIT = 300
BUCKETS = 100_000
TURN = 200  # questions of one turn of the index and its rival
GROUPS = 10_000


def run() -> list[dict[str, Any]]:
    space, questions = _space(), workload()
    _ask(HistogramTracker(space, 1, 20), questions[:20])  # numba compiles here, not on the clock
    exact, histogram = ExactTracker(space, LIMIT), HistogramTracker(space, LIMIT, BUCKETS)
    return [
        admission("exact", exact, questions, 5_000),
        admission(f"histogram, {BUCKETS:,} buckets", histogram, questions, 2_000),
        index(histogram, questions),
        *planning(),
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


def planning() -> list[dict[str, Any]]:
    """`cost` and answers of questions by 10,000 groups, while somebody else asks one count after
    the other.

    Threads take turns as they do in the server. Every answer is of other numbers.
    """
    schema = sc.Schema([sc.Attribute("n", "quasi", sc.IntegerRange(0, GROUPS - 1))])
    table, sql = pa.table({"n": np.arange(GROUPS)}), "SELECT n, COUNT(*) FROM t GROUP BY n"
    sums = "SELECT n, SUM(n % {}) FROM t GROUP BY n"
    with (
        tempfile.TemporaryDirectory() as place,
        sc.Database.create(Path(place) / "db", table, schema, epsilon=1, noise=400) as database,
        short_waits(),
    ):
        timing = take_turns({"cost": lambda _: database.preview(sql)}, repeats=3)["cost"]
        of_cost = _waits(database, [partial(database.cost, sql)] * 5)
        of_answers = _waits(
            database, [partial(database.answer, sums.format(each)) for each in range(7, 12)]
        )
    return [
        at_most("cost of 10,000 groups / 1 s", 1, timing.wall, str(timing)),
        at_most("waiting for it / 50 ms", 1, max(of_cost) / 0.05, _longest(of_cost)),
        at_most("waiting for answers / 250 ms", 1, max(of_answers) / 0.25, _longest(of_answers)),
    ]


def _waits(database: sc.Database, calls: Sequence[Callable[[], object]]) -> list[float]:
    """Return how long counts took that were asked during some calls."""
    waits: list[float] = []
    over = threading.Event()

    def others() -> None:
        for number in range(10**9):
            begin = time.perf_counter()
            database.answer(f"SELECT COUNT(*) FROM t WHERE n < {number % 50 + 1}")
            waits.append(time.perf_counter() - begin)
            if over.wait(0.002):
                return

    crowd = threading.Thread(target=others)
    crowd.start()
    for call in calls:
        call()
    over.set()
    crowd.join()
    return waits


def _longest(waits: Sequence[float]) -> str:
    return f"{1000 * max(waits):.1f} ms, the longest of {len(waits)}"


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


def _ask(tracker: Any, questions: Boxes) -> None:
    for boxes in questions:
        if tracker.has_room(boxes):
            tracker.add(boxes)


def _space() -> Space:
    schema = sc.Schema(
        [sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1)) for name, size in SIZES.items()]
    )
    return Space(schema, schema.names)
