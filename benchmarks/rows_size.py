"""Synthetic rows of large tables: CPU seconds and memory of a million rows, and growth in columns.

Columns have ten values, each the one before or a new one, so that there is something to find.
Every table is published, and its rows are drawn, in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from benchmarks.measure import at_most
from benchmarks.peak import peak

LARGE = (1_000_000, 20)  # rows and columns
MOST_SECONDS, MOST_BYTES = 60, 2 << 30
ROWS, COLUMNS = 20_000, (10, 30, 100)
VALUES = 10


def run() -> list[dict[str, Any]]:
    large = _apart(*LARGE)
    title = f"synthetic rows, {LARGE[0]:,} x {LARGE[1]}"
    used = (large["publish"] + large["rows"]) / MOST_SECONDS
    results = [
        at_most(f"{title}: CPU s / {MOST_SECONDS}", 1, used, _said(large)),
        at_most(f"{title}: memory / 2 GB", 1, large["bytes"] / MOST_BYTES, _said(large)),
    ]
    before = None
    for columns in COLUMNS:
        found = _apart(ROWS, columns)
        if before is not None:
            # Pairs grow with the square of the columns, and every pair is counted once.
            squares = (columns / before[0]) ** 2
            ratio = found["publish"] / before[1]["publish"]
            name = f"synthetic rows, CPU s of {columns} columns / {before[0]}"
            results.append(at_most(name, squares, ratio, f"{_said(found)} / {_said(before[1])}"))
        before = columns, found
    return results


def _said(found: dict[str, float]) -> str:
    return (
        f"{found['publish']:.3g} s CPU to publish, {found['rows']:.3g} s for the rows, "
        f"{found['bytes'] / (1 << 20):.0f} MB"
    )


def _apart(rows: int, columns: int) -> dict[str, float]:
    """Measure in a new process."""
    words = [sys.executable, "-m", "benchmarks.rows_size", str(rows), str(columns)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measured(rows: int, columns: int) -> dict[str, float]:
    """Return the CPU seconds of a release and of its rows, and the most memory held."""
    table, schema = _table(rows, columns)
    names = list(schema.names)
    mechanism = sc.Synthesis(names, epsilon=1, delta=1e-9, neighbours="add_remove")
    start = time.process_time()
    release = sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=1))
    between = time.process_time()
    release.synthetic.rows(rows, seed=1)
    end = time.process_time()
    return {"publish": between - start, "rows": end - between, "bytes": peak()}


def _table(rows: int, columns: int) -> tuple[pa.Table, sc.Schema]:
    draw = np.random.default_rng(1)
    found = [draw.integers(0, VALUES, rows)]
    for _ in range(columns - 1):
        kept = draw.random(rows) < 0.5
        found.append(np.where(kept, found[-1], draw.integers(0, VALUES, rows)))
    names = [f"c{place}" for place in range(columns)]
    attributes = [sc.Attribute(name, "quasi", sc.IntegerRange(0, VALUES - 1)) for name in names]
    return pa.table(dict(zip(names, found, strict=True))), sc.Schema(attributes)


if __name__ == "__main__":
    print(json.dumps(measured(*map(int, sys.argv[1:]))))
