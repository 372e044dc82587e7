"""Publishing a Parquet file end to end, against DuckDB copying it; and the memory that it takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from benchmarks.measure import at_most, connect, take_turns
from benchmarks.people import SCHEMA, folder, table

ROWS = 10_000_000
SUMMED = 3_000_000
FEW, MANY = 5_000_000, 20_000_000
REPEATS = 5


def run() -> list[dict[str, Any]]:
    return [time(), sums(), memory()]


def time() -> dict[str, Any]:
    """Read, perturb, sort, write and checksum, against a plain copy of the file."""
    source, schema = table(ROWS), sc.Schema.loads(SCHEMA)
    view, copy = folder() / "view", folder() / "copy.parquet"

    def publish(_: int) -> None:
        sc.publish(source, schema, sc.Uniform(epsilon=1)).save(view, force=True)

    def plain(_: int) -> None:
        connect().execute(f"COPY (FROM '{source}') TO '{copy}'")

    times = take_turns({"scumble": publish, "duckdb": plain}, repeats=REPEATS)
    ours, theirs = times["scumble"], times["duckdb"]
    return at_most(
        "publish 10M rows, 6 columns / DuckDB copy",
        3,
        ours.wall / theirs.wall,
        f"scumble {ours}; DuckDB {theirs}; CPU ratio {ours.cpu / theirs.cpu:.2f}",
    )


def sums() -> dict[str, Any]:
    """Counts by three columns with sums of an amount beside them, against the counts alone."""
    numbers = np.random.default_rng(1)
    amounts = np.minimum(numbers.lognormal(10, 0.7, SUMMED), 200_000).round(2)
    sizes = {"a": 20, "b": 50, "c": 10}
    columns = {name: numbers.integers(0, size, SUMMED) for name, size in sizes.items()}
    source = folder() / "paid.parquet"
    pq.write_table(pa.table({**columns, "pay": amounts}), source)
    counted = [sc.Attribute(n, "quasi", sc.IntegerRange(0, size - 1)) for n, size in sizes.items()]
    pay = sc.Attribute("pay", "sensitive", sc.Number(0, 200_000))
    schema = sc.Schema((*counted, pay), sc.Unit())

    def publish(*summed: str) -> Callable[[int], object]:
        mechanism = sc.Histogram(list(sizes), sums=summed, epsilon=1, neighbours="replace")
        return lambda _: sc.publish(source, schema, mechanism)

    times = take_turns({"sums": publish("pay"), "counts": publish()}, repeats=REPEATS)
    ours, theirs = times["sums"], times["counts"]
    return at_most(
        "publish sums of one column beside counts, 3M rows / counts alone",
        4,
        ours.wall / theirs.wall,
        f"with sums {ours}; counts {theirs}; CPU ratio {ours.cpu / theirs.cpu:.2f}",
    )


def memory() -> dict[str, Any]:
    """Peak memory at four times as many rows; 1.25 leaves room for buffers that fill up."""
    few, many = (_peak(table(rows)) for rows in (FEW, MANY))
    return at_most(
        "publish: peak memory at 20M rows / at 5M rows",
        1.25,
        many / few,
        f"{few / 2**20:.0f} MiB and {many / 2**20:.0f} MiB",
    )


def _peak(source: Path) -> int:
    view = folder() / f"view-of-{source.stem}"
    command = [sys.executable, "-m", "benchmarks.peak", source, view]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
