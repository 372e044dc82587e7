"""Publishing a Parquet file end to end, against DuckDB copying it; and the memory that it takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import scumble as sc
from benchmarks.measure import at_most, connect, take_turns
from benchmarks.people import SCHEMA, folder, table

ROWS = 10_000_000
FEW, MANY = 5_000_000, 20_000_000
REPEATS = 5


def run() -> list[dict[str, Any]]:
    return [time(), memory()]


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
