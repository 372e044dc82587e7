"""Sparse releases of domains of any size: seconds, and the memory beyond what the table takes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from benchmarks.measure import at_most, take_turns

ROWS = 30_162
# Sizes of the columns; the first are those of the nine columns of Adult: 648,023,040 cells.
DOMAINS = {
    "6·10^8": (72, 7, 16, 7, 14, 5, 2, 41, 2),
    "10^18": (1000,) * 6,
    "10^30": (1000,) * 10,
}
MOST_SECONDS = 1.0
MOST_MEMORY = 64 << 20
FALSE_CELLS = 10_000


def run() -> list[dict[str, Any]]:
    tables = {name: _table(sizes) for name, sizes in DOMAINS.items()}
    return [*(time(name, *made) for name, made in tables.items()), memory(*tables["10^18"])]


def time(name: str, table: pa.Table, schema: sc.Schema) -> dict[str, Any]:
    """From a table in memory to the published file, 10,000 empty cells among it."""
    times = take_turns({"run": lambda _: _publish(table, schema)}, repeats=5, warm=2)["run"]
    return at_most(
        f"sparse: CPU seconds on a domain of {name} / {MOST_SECONDS:g} s",
        1,
        times.cpu / MOST_SECONDS,
        str(times),
    )


def memory(table: pa.Table, schema: sc.Schema) -> dict[str, Any]:
    tracemalloc.start()
    _publish(table, schema)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return at_most(
        f"sparse: peak memory on a domain of 10^18 / {MOST_MEMORY >> 20} MiB",
        1,
        peak / MOST_MEMORY,
        f"{peak / 2**20:.1f} MiB",
    )


def _publish(table: pa.Table, schema: sc.Schema) -> None:
    mechanism = sc.Sparse(schema.names, epsilon=1, neighbours="add_remove", false_cells=FALSE_CELLS)
    sc.publish(table, schema, mechanism)


def _table(sizes: tuple[int, ...]) -> tuple[pa.Table, sc.Schema]:
    random = np.random.default_rng(0)
    names = [f"c{place}" for place in range(len(sizes))]
    pairs = list(zip(names, sizes, strict=True))
    table = pa.table({name: random.integers(0, size, ROWS) for name, size in pairs})
    attributes = [sc.Attribute(n, "quasi", sc.IntegerRange(0, size - 1)) for n, size in pairs]
    return table, sc.Schema(tuple(attributes))
