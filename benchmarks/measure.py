"""Timing of rivals that take turns, so that a busy minute of the machine hits all of them alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb


@dataclass(frozen=True)
class Timing:
    """Median seconds of one rival: on the wall clock, and of all its threads on the processors."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.3g} s wall, {self.cpu:.3g} s CPU"


def take_turns(
    rivals: Mapping[str, Callable[[int], object]], *, repeats: int, warm: int = 1
) -> dict[str, Timing]:
    """Run all rivals once a round and tell them its number; the first `warm` do not count."""
    walls: dict[str, list[float]] = {name: [] for name in rivals}
    cpus: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(warm + repeats):
        for name, rival in rivals.items():
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            rival(turn)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if turn >= warm:
                walls[name].append(wall)
                cpus[name].append(cpu)
    return {
        name: Timing(statistics.median(walls[name]), statistics.median(cpus[name]))
        for name in rivals
    }


def connect() -> duckdb.DuckDBPyConnection:
    """DuckDB as it comes, but for its progress bar, which would draw over the table of results."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def at_most(name: str, target: float, ratio: float, detail: str) -> dict[str, Any]:
    """The result of a benchmark whose ratio should stay at or under the target."""
    return {
        "name": name,
        "target": f"≤ {target:g} ×",
        "ratio": float(ratio),
        "met": bool(ratio <= target),
        "detail": detail,
    }


def at_least(name: str, target: float, ratio: float, detail: str) -> dict[str, Any]:
    """The result of a benchmark whose ratio should reach the target."""
    return {
        "name": name,
        "target": f"≥ {target:g} ×",
        "ratio": float(ratio),
        "met": bool(ratio >= target),
        "detail": detail,
    }
