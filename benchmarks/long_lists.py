"""A million baskets, sequences and trips: CPU seconds, and the memory of four times as many.

A process of its own publishes each file (`python -m benchmarks.long_lists METHOD FILE`), so that
its high-water mark of memory is that of the release. `python -m benchmarks.long_lists write KIND
ROWS FILE` writes a file of any size (set, sequence or trips).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from benchmarks.measure import at_most
from benchmarks.peak import peak

ROWS, MORE = 10**6, 4 * 10**6  # a unit of work is full with less than a million lists
_PIECE = 10**5
SECONDS, GROWTH = 10, 1.5
_GIVEN: dict[str, Any] = {"epsilon": 1, "neighbours": "add_remove"}
METHODS: dict[str, tuple[sc.Mechanism, str]] = {
    "baskets, bases": (sc.Baskets("items", top=50, **_GIVEN), "set"),
    "baskets, clipped": (sc.Baskets("items", top=200, delta=1e-8, **_GIVEN), "set"),
    "sequences": (sc.Sequences("items", length=20, **_GIVEN), "sequence"),
    "trajectories": (sc.Trajectories("x", "y", length=20, **_GIVEN), "trips"),
}
_ITEMS, _CELLS = 1_000, 8


def schema_of(kind: str) -> sc.Schema:
    if kind == "trips":
        text = 'role = "sensitive"\ntype = "sequence"\nrange = [0, 1]\n'
        parts = (f"[attributes.{name}]\n{text}bins = {_CELLS}\n" for name in "xy")
        return sc.Schema.loads("".join(parts))
    values = list(range(_ITEMS if kind == "set" else 60))
    text = f'[attributes.items]\nrole = "sensitive"\ntype = "{kind}"\nvalues = {values}\n'
    return sc.Schema.loads(text)


def write(path: Path, kind: str, rows: int) -> None:
    """Write a file of lists of 1 to 15 members, a piece at a time."""
    draw = np.random.default_rng(1)
    writer = None
    for begin in range(0, rows, _PIECE):
        sizes = draw.integers(1, 16, min(_PIECE, rows - begin))
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        number = int(sizes.sum())
        if kind == "trips":
            steps = (draw.random(number) for _ in "xy")
            columns = {
                name: pa.ListArray.from_arrays(offsets, pa.array(each))
                for name, each in zip("xy", steps, strict=True)
            }
        else:
            codes = (draw.zipf(1.2, number) - 1) % (_ITEMS if kind == "set" else 60)
            columns = {"items": pa.ListArray.from_arrays(offsets, pa.array(codes))}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def run() -> list[dict[str, Any]]:
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("set", "sequence", "trips"):
            files = {rows: Path(folder) / f"{rows}.parquet" for rows in (ROWS, MORE)}
            for rows, path in files.items():
                write(path, kind, rows)
            for method, (_, own) in METHODS.items():
                if own == kind:
                    few, many = (_published(method, path) for path in files.values())
                    cpu, memory = few["cpu"], many["peak"] / few["peak"]
                    told = f"{few['peak'] >> 20} MB, {many['peak'] >> 20} MB of {MORE:,} rows"
                    name = f"{ROWS:,} rows, {method}"
                    results.append(at_most(f"{name}: CPU seconds", SECONDS, cpu, told))
                    results.append(at_most(f"{method}: memory of {MORE:,}", GROWTH, memory, told))
    return results


def _published(method: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.long_lists", method, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[4]), sys.argv[2], int(sys.argv[3]))
        sys.exit()
    mechanism, kind = METHODS[sys.argv[1]]
    start = time.process_time()
    sc.publish(sys.argv[2], schema_of(kind), mechanism)
    sys.stdout.write(json.dumps({"cpu": time.process_time() - start, "peak": peak()}))
