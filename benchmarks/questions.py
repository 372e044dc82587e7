"""Many counts from one summary given as SQL texts: processor time of a question."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from benchmarks.measure import at_most

ROWS, SIZE, QUESTIONS = 300_000, 256, 2_000
MOST_SECONDS = 0.0003
NAMES = ("x", "y")
SHARED: dict[str, Any] = {"epsilon": 1, "neighbours": "replace"}
SUMMARIES = {
    "quadtree": sc.Quadtree(NAMES, **SHARED),
    "kdtree": sc.KdTree(NAMES, **SHARED),
    "privtree": sc.PrivTree(NAMES, **SHARED),
    "grid": sc.Grid(NAMES, **SHARED),
    "mosaic": sc.Mosaic(NAMES, **SHARED),
    "sparse": sc.Sparse(NAMES, false_cells=1_000, **SHARED),
}


def run() -> list[dict[str, Any]]:
    chance = np.random.default_rng(1)
    schema = sc.Schema(
        tuple(sc.Attribute(name, "quasi", sc.IntegerRange(0, SIZE - 1)) for name in NAMES)
    )
    drawn = {name: np.clip(chance.normal(100, 40, ROWS), 0, SIZE - 1) for name in NAMES}
    people = pa.table({name: values.astype(np.int64) for name, values in drawn.items()})
    return [
        one(name, sc.publish(people, schema, method, options=sc.PublishOptions(seed=1)))
        for name, method in SUMMARIES.items()
    ]


def one(name: str, release: sc.Release) -> dict[str, Any]:
    """Ranges of one or both attributes; other questions come before, so that loops are compiled."""
    texts = [_question(number) for number in range(QUESTIONS)]
    release.answer_many([_question(QUESTIONS + number) for number in range(QUESTIONS)])
    started = time.process_time()
    release.answer_many(texts)
    spent = (time.process_time() - started) / QUESTIONS
    words = f"{name}: answer_many of {QUESTIONS:,} counts, CPU of one / {MOST_SECONDS * 1e3} ms"
    return at_most(words, 1, spent / MOST_SECONDS, f"{spent * 1e3:.3f} ms")


def _question(number: int) -> str:
    chance = random.Random(number)
    parts = []
    for name in chance.sample(NAMES, chance.randint(1, 2)):
        low, high = sorted(chance.sample(range(SIZE), 2))
        parts.append(f"{name} BETWEEN {low} AND {high}")
    return f"SELECT COUNT(*) FROM t WHERE {' AND '.join(parts)}"
