"""One count from a release of boxes with the bounds of cut boxes, against the same without them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from benchmarks.measure import at_most, take_turns
from scumble.families.boxes.read import BoxTreeReader
from scumble.public.estimation.measurements.readings import LinearReading, Weights

ROWS, SIZE, TARGET = 300_000, 256, 1.3
ROUNDS = 60
SHARED: dict[str, Any] = {"epsilon": 1, "neighbours": "replace"}
RELEASES = {
    "mosaic, one attribute": sc.Mosaic(["x"], **SHARED),
    "mosaic": sc.Mosaic(["x", "y"], **SHARED),
    "grid": sc.Grid(["x", "y"], **SHARED),
    "pruned quadtree": sc.Quadtree(["x", "y"], prune=50, **SHARED),
}


def run() -> list[dict[str, Any]]:
    chance = np.random.default_rng(1)
    schema = sc.Schema(
        tuple(sc.Attribute(name, "quasi", sc.IntegerRange(0, SIZE - 1)) for name in ("x", "y"))
    )
    drawn = {name: np.clip(chance.normal(100, 40, ROWS), 0, SIZE - 1) for name in ("x", "y")}
    people = pa.table({name: values.astype(np.int64) for name, values in drawn.items()})
    return [
        one(name, sc.publish(people, schema, method, options=sc.PublishOptions(seed=1)))
        for name, method in RELEASES.items()
    ]


def one(name: str, release: sc.Release) -> dict[str, Any]:
    """A count and its interval; every question is new, as answers to known clauses are cached."""
    names = ("x",) if "one" in name else ("x", "y")
    with_bounds = BoxTreeReader.read_many

    def without(self: BoxTreeReader, several: Sequence[Weights]) -> list[LinearReading]:
        return self._leaves.questions.read(several, limits=False)

    def asked(turn: int, read: Any) -> None:
        BoxTreeReader.read_many = read  # type: ignore[method-assign]
        try:
            release.answer(_question(turn, names)).interval(0.95)
        finally:
            BoxTreeReader.read_many = with_bounds  # type: ignore[method-assign]

    times = take_turns(
        {
            "with": lambda turn: asked(2 * turn, with_bounds),
            "without": lambda turn: asked(2 * turn + 1, without),
        },
        repeats=ROUNDS,
        warm=5,
    )
    return at_most(
        f"one count with bounds / without, CPU: {name}",
        TARGET,
        times["with"].cpu / times["without"].cpu,
        f"with {times['with']}; without {times['without']}",
    )


def _question(turn: int, names: tuple[str, ...]) -> str:
    chance = random.Random(turn)
    ends = {name: sorted(chance.sample(range(SIZE), 2)) for name in names}
    parts = [f"{name} BETWEEN {low} AND {high}" for name, (low, high) in ends.items()]
    return f"SELECT COUNT(*) FROM t WHERE {' AND '.join(parts)}"
