"""A live database: counts that are bought one after the other by threads and by a server's clients,
free answers from many that were bought, and the creation of a large one.

Every purchase is on the disk before its answer is given, so the disk's time to keep a write limits
both.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from benchmarks.measure import at_least, at_most
from benchmarks.server import ATTRIBUTES, CLIENTS, PEOPLE, Server, load_threads, question
from scumble.demo.census import census

EARLIER = 1_000
FREE = 200
ROWS = 1_000_000
WITHIN = 5  # rows: more than is allowed, so that every question buys something
TERMS: dict[str, Any] = {"epsilon": 1, "delta": 1e-9, "neighbours": "replace"}
# The purchases are small ones, so that thousands of them are possible.
MANY: dict[str, Any] = {**TERMS, "attributes": ATTRIBUTES, "base": 0.1, "largest_purchase": 0.001}


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="scumble-bench-") as work:
        folder = Path(work)
        table, schema = census(PEOPLE)
        pq.write_table(table, folder / "people.parquet")
        for name in ("served", "local"):
            sc.LiveDatabase.create(folder / name, table, schema, **MANY).close()
        with sc.LiveDatabase.open(folder / "local", table) as database:
            local, _ = load_threads([_client(database, seed) for seed in range(CLIENTS)])
            free, most = _free(database)
        with Server(folder) as server:
            new, late, spent = server.load(
                lambda rng: ("answer", {"sql": question(rng), "within": WITHIN})
            )
    created = _created()
    detail = f"{new:,.0f} answers/s, p99 {late:.0f} ms, {spent:.1f} ms CPU of the server each"
    return [
        at_least("32 threads, counts bought/s / 300", 1, local / 300, f"{local:,.0f} answers/s"),
        at_least(f"{CLIENTS} connections, counts bought/s / 200", 1, new / 200, detail),
        at_most(
            f"CPU of a free answer after {EARLIER:,} counts, in ms / 5",
            1,
            free / 5,
            f"{free:.2f} ms, {most:,} counts bought",
        ),
        at_most(
            f"CPU of creation, {ROWS:,} rows × 4, in s / 5", 1, created / 5, f"{created:.2f} s"
        ),
    ]


def _client(database: sc.LiveDatabase, seed: int) -> Callable[[], None]:
    rng = random.Random(seed)
    return lambda: database.ask(question(rng), within=WITHIN) and None


def _free(database: sc.LiveDatabase) -> tuple[float, int]:
    """Return the CPU milliseconds of a free answer once there are many counts, and their number."""
    rng = random.Random(99)
    while database.status().purchases < EARLIER:
        database.ask(question(rng), within=WITHIN)
    begun = time.process_time()
    for _ in range(FREE):
        database.ask(question(rng))
    return 1000 * (time.process_time() - begun) / FREE, database.status().purchases


def _created() -> float:
    """Return the CPU seconds of creating a live database over a large table."""
    rng = np.random.default_rng(0)
    sizes = {"age": 74, "education": 16, "hours": 99, "sex": 2}
    table = pa.table({name: rng.integers(0, size, ROWS) for name, size in sizes.items()})
    schema = sc.Schema(
        tuple(sc.Attribute(n, "quasi", sc.IntegerRange(0, size - 1)) for n, size in sizes.items()),
        unit=sc.Unit(),
    )
    with tempfile.TemporaryDirectory(prefix="scumble-bench-") as work:
        begun = time.process_time()
        sc.LiveDatabase.create(Path(work) / "db", table, schema, **TERMS).close()
        return time.process_time() - begun
