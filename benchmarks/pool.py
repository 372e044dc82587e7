"""The same release with one job and with two: processor time for a row, and the clock.

Processor time is that of the driver and of its workers, their start included. The clock says
something about two processes only while two cores are free, so the load of the machine is part of
the detail. One job reads ahead in a second thread, so that it uses more than one core itself:
the time that it takes on a single core is given too. Workers have sessions of their own: where the
system shares cores by session, a priority that was given to the session of the benchmark is not
theirs.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import scumble as sc
from benchmarks.measure import at_least, at_most
from benchmarks.people import SCHEMA, table

ROWS = 20_000_000
CELLS = ["age", "sex", "income"]  # 40,200 cells
CPU, CLOCK = 1.2, 1.6
REPEATS = 3


@dataclass(frozen=True)
class Spent:
    """Median seconds: on the clock, of the driver, and of its workers."""

    wall: float
    driver: float
    workers: float

    @property
    def cpu(self) -> float:
        return self.driver + self.workers

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.driver:.2f} s CPU, workers {self.workers:.2f})"


def run() -> list[dict[str, Any]]:
    histogram = sc.Histogram(CELLS, epsilon=1, neighbours="add_remove")
    return [
        *_compared(f"uniform, {ROWS // 10**6}M rows, sorted", sc.Uniform(epsilon=1)),
        *_compared(f"count, {ROWS // 10**6}M rows, 40,200 cells", histogram),
    ]


def _compared(words: str, mechanism: Any) -> list[dict[str, Any]]:
    source, schema = table(ROWS), sc.Schema.loads(SCHEMA)

    def publish(jobs: int) -> None:
        sc.publish(source, schema, mechanism, options=sc.PublishOptions(jobs=jobs))

    spent = _turns(
        {
            "local": lambda: publish(1),
            "pool": lambda: publish(2),
            "one core": lambda: _on_one_core(lambda: publish(1)),
        }
    )
    local, pool, alone = spent["local"], spent["pool"], spent["one core"]
    detail = (
        f"two jobs {pool}; one {local}, on one core {alone.wall:.2f} s; load "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    return [
        at_most(f"{words}: CPU of two jobs / of one", CPU, pool.cpu / local.cpu, detail),
        at_least(f"{words}: clock of one job / of two", CLOCK, local.wall / pool.wall, detail),
    ]


def _turns(rivals: Mapping[str, Callable[[], None]]) -> dict[str, Spent]:
    """Run all rivals in turns, the first one not counted."""
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in rivals}
    for turn in range(1 + REPEATS):
        for name, rival in rivals.items():
            before = _clocks()
            rival()
            if turn:
                after = _clocks()
                found[name].append(tuple(b - a for a, b in zip(before, after, strict=True)))
    return {
        name: Spent(*(statistics.median(each) for each in zip(*spent, strict=True)))
        for name, spent in found.items()
    }


def _clocks() -> tuple[float, float, float]:
    """The clock, and the processor time of this process and of its children that have ended."""
    times = os.times()
    own, children = times.user + times.system, times.children_user + times.children_system
    return time.perf_counter(), own, children


def _on_one_core(work: Callable[[], None]) -> None:
    if not hasattr(os, "sched_setaffinity"):
        work()
        return
    cores = os.sched_getaffinity(0)
    _pin(set(list(cores)[:1]))
    try:
        work()
    finally:
        _pin(cores)


def _pin(cores: set[int]) -> None:
    """Let all threads of this process run on these cores only."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)
