"""Ten times the rows: processor time by row of each engine, and of a stream from PostgreSQL.

A first run of each, which imports, compiles and starts a session of Spark, is not counted; of the
others, which take turns, the medians are. Nothing that does not grow is subtracted, but on Spark,
where much does not: there 50 million rows are compared with the line through 5 and 20 million.
The memory of 100 million rows is compared with that of 10 million, one run of each. Where Spark or
PostgreSQL cannot be started, theirs is left out.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import scumble as sc
from benchmarks import relation as postgresql
from benchmarks import spark
from benchmarks.measure import at_most
from benchmarks.people import SCHEMA, folder, table

FEW, MIDDLE, MANY = 5_000_000, 20_000_000, 50_000_000
TENTH, MOST = 10_000_000, 100_000_000
GROWTH, MEMORY = 1.1, 1.2
REPEATS = 3
TURNS = 5  # on Spark, where times vary by a tenth
UNIFORM = sc.Uniform(epsilon=1)
COUNTS = sc.Histogram(["age", "sex", "income"], epsilon=1, neighbours="add_remove")


def run() -> list[dict[str, Any]]:
    return [result for part in PARTS.values() for result in part()]


def processes() -> list[dict[str, Any]]:
    """One process and two."""
    found = []
    for words, mechanism in (("uniform", UNIFORM), ("count", COUNTS)):
        for jobs in (1, 2):

            def work(rows: int, jobs: int = jobs, mechanism: Any = mechanism) -> float:
                before = _clock()
                sc.publish(table(rows), _schema(), mechanism, options=sc.PublishOptions(jobs=jobs))
                return _clock() - before

            found.append(_growth(f"{words}, {jobs} process{'es' * (jobs > 1)}", work))
    return found


def cluster() -> list[dict[str, Any]]:
    """Spark, in one session whose start is not counted."""
    with spark.started() as running:
        if running is None:
            return []
        with spark.session_of(running) as session:

            def work(rows: int) -> float:
                before = spark.clock(running.folder)
                sc.publish(
                    table(rows),
                    _schema(),
                    UNIFORM,
                    options=sc.PublishOptions(engine=sc.Spark(session)),
                )
                return spark.clock(running.folder) - before

            return [_line("uniform, Spark", work)]


def relation() -> list[dict[str, Any]]:
    """A stream from PostgreSQL: processor time of this process, not of the server."""
    with postgresql.database(FEW, MANY) as address:
        if address is None:
            return []

        def work(rows: int) -> float:
            before = _clock()
            sc.publish(sc.Table(address, table=f"people{rows}"), _schema(), UNIFORM)
            return _clock() - before

        return [_growth("uniform, PostgreSQL", work)]


def memory() -> list[dict[str, Any]]:
    """Two jobs of a process of its own, start and saving included."""
    (few, less), (many, more) = _peak(TENTH), _peak(MOST)
    detail = (
        f"{less} for {TENTH // 10**6}M rows; {more} for {MOST // 10**6}M; load "
        f"{os.getloadavg()[0]:.1f}"
    )
    name = "growth, uniform, 2 jobs: peak memory, 100M rows / 10M"
    return [at_most(name, MEMORY, many / few, detail)]


PARTS = {"processes": processes, "memory": memory, "cluster": cluster, "relation": relation}


def _peak(rows: int) -> tuple[int, str]:
    """The most memory that the process held, in bytes, and in words with its times."""
    command = [sys.executable, "-m", "benchmarks.peak", table(rows), folder() / f"view-{rows}", "2"]
    begin, before = time.perf_counter(), _clock()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    clock, cpu, peak = time.perf_counter() - begin, _clock() - before, int(done.stdout)
    return peak, f"{clock:.1f} s ({cpu:.1f} s CPU), {peak / 2**20:.0f} MiB"


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


def _line(words: str, work: Callable[[int], float]) -> dict[str, Any]:
    """Compare many rows with the line through few and fewer ones."""
    work(MIDDLE)
    turns = [[work(rows) for rows in (FEW, MIDDLE, MANY)] for _ in range(TURNS)]
    few, middle, many = map(statistics.median, zip(*turns, strict=True))
    first, last = (middle - few) / (MIDDLE - FEW), (many - middle) / (MANY - MIDDLE)
    detail = (
        f"{few:.2f}, {middle:.2f} and {many:.1f} s CPU for 5M, 20M and 50M rows; a further row "
        f"{1e6 * first:.3f} µs up to 20M and {1e6 * last:.3f} beyond; load {os.getloadavg()[0]:.1f}"
    )
    name = f"growth, {words}: CPU of 50M rows / by the line through 5M and 20M"
    return at_most(name, GROWTH, many / (few + first * (MANY - FEW)), detail)


def _schema() -> sc.Schema:
    return sc.Schema.loads(SCHEMA)


def _clock() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])
