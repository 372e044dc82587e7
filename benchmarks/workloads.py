"""A hundred thousand counts from a release of a million rows, against DuckDB counting true rows.

DuckDB is asked for some of the counts, one after the other, and its time is taken as many times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import scumble as sc
from benchmarks.measure import at_least, connect
from benchmarks.people import SCHEMA, table
from scumble.compare.truth import TrueTable
from scumble.compare.workloads import selections

ROWS, QUESTIONS, ASKED = 1_000_000, 100_000, 200
TARGET = 50
PUBLISHERS = {
    "uniform": sc.Uniform(epsilon=1),
    "subset": sc.Subset(epsilon=1),
    "aroma": sc.Aroma(k=49),
    "partition": sc.Partition(rho1=0.1, rho2=0.5),
    "alphabeta": sc.AlphaBeta(k=10, gamma=0.2, duplicates="collapse"),
    "frapp": sc.Frapp(epsilon=1),
}


def run() -> list[dict[str, Any]]:
    schema, source = sc.Schema.loads(SCHEMA), table(ROWS)
    questions = selections(schema, ways=3, most=QUESTIONS, seed=1).queries
    truth, connection = TrueTable.read(source, schema), connect()
    chosen = [query.text for query in questions[:: QUESTIONS // ASKED]]
    single = [text.replace("FROM t ", f"FROM '{source}' ") for text in chosen]

    def compared(name: str, answer: Callable[[], Any]) -> dict[str, Any]:
        wall, cpu = _spent(answer)
        theirs = _spent(lambda: [connection.sql(text).fetchall() for text in single])
        ratio = theirs[1] / ASKED * QUESTIONS / cpu
        words = f"{QUESTIONS:,} counts on 1M rows, {name}: DuckDB one by one / answer_many, CPU"
        detail = f"scumble {cpu:.2f} s of CPU, {wall:.2f} s wall; DuckDB {theirs[1] / ASKED:.4f} s"
        return at_least(words, TARGET, ratio, f"{detail} each")

    results = [compared("true rows", lambda: truth.counts(questions))]
    for name, publisher in PUBLISHERS.items():
        release = sc.publish(source, schema, publisher)
        release.answer_many(questions[:: QUESTIONS // ASKED])  # loops are compiled, once
        results.append(compared(name, lambda release=release: release.answer_many(questions)))
    return results


def _spent(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and processor time."""
    started, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - spent
