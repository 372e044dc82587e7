"""Answers from a release of ten million rows, against DuckDB counting the same published file."""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path
from typing import Any

import scumble as sc
from benchmarks.measure import at_least, at_most, connect, take_turns
from benchmarks.people import EDUCATIONS, OCCUPATIONS, REGIONS, SCHEMA, SEXES, folder, table

ROWS = 10_000_000
WORKLOAD = 1_000
TEXTS = {"sex": SEXES, "region": REGIONS, "education": EDUCATIONS, "occupation": OCCUPATIONS}
NUMBERS = {"age": 99, "income": 200}
NAMES = (*TEXTS, *NUMBERS)


def run() -> list[dict[str, Any]]:
    view = folder() / "answered"
    sc.publish(table(ROWS), sc.Schema.loads(SCHEMA), sc.Uniform(epsilon=1)).save(view, force=True)
    return [one(view), many(view)]


def one(view: Path) -> dict[str, Any]:
    """One count with three predicates; new constants every round, so no cached answer helps."""
    release, connection = sc.open(view), connect()

    def condition(turn: int) -> str:
        region, occupation = REGIONS[turn % 20], OCCUPATIONS[turn % 50]
        return f"age > {20 + turn} AND region = '{region}' AND occupation = '{occupation}'"

    times = take_turns(
        {
            "scumble": lambda turn: release.answer(
                f"SELECT COUNT(*) FROM t WHERE {condition(turn)}"
            ),
            "duckdb": lambda turn: connection.execute(
                f"SELECT COUNT(*) FROM {_files(view)} WHERE {condition(turn)}"
            ).fetchall(),
        },
        repeats=15,
        warm=2,
    )
    ours, theirs = times["scumble"], times["duckdb"]
    return at_most(
        "one count, 3 predicates, 10M rows / DuckDB count",
        1.5,
        ours.wall / theirs.wall,
        f"scumble {ours}; DuckDB {theirs}; CPU ratio {ours.cpu / theirs.cpu:.2f}",
    )


def many(view: Path) -> dict[str, Any]:
    """A workload of counts from a newly opened release, against the tables that could answer it.

    DuckDB counts the cells of every attribute set that the workload names, in one statement;
    looking up and adding the cells is not charged to it. The ratio is one of processor time; by
    the clock it is smaller, because texts are parsed and cells added up in one thread.
    """
    queries = workload(random.Random(11))
    sets = ", ".join(f"({', '.join(names)})" for names in sorted({names for names, _ in queries}))
    tables = (
        f"SELECT {', '.join(NAMES)}, COUNT(*) FROM {_files(view)} GROUP BY GROUPING SETS ({sets})"
    )
    texts = [f"SELECT COUNT(*) FROM t WHERE {condition}" for _, condition in queries]
    started = time.perf_counter()
    releases = [sc.open(view) for _ in range(4)]
    opening = (time.perf_counter() - started) / len(releases)
    times = take_turns(
        {
            "scumble": lambda turn: releases[turn].answer_many(texts),
            "duckdb": lambda _: connect().sql(tables).to_arrow_table(),
        },
        repeats=3,
    )
    ours, theirs = times["scumble"], times["duckdb"]
    return at_least(
        f"{WORKLOAD:,} counts on 1-3 attributes, 10M rows: DuckDB grouping sets / answer_many, CPU",
        20,
        theirs.cpu / ours.cpu,
        f"scumble {ours} (and {opening:.3g} s to open the release); DuckDB {theirs}; "
        f"by the clock {theirs.wall / ours.wall:.1f} ×; {sets.count('(')} attribute sets",
    )


def workload(chance: random.Random) -> list[tuple[tuple[str, ...], str]]:
    """Attribute set and condition of each query: one value of a text, a stretch of a number."""
    sets = [names for size in (1, 2, 3) for names in itertools.combinations(NAMES, size)]
    chosen = [chance.choice(sets) for _ in range(WORKLOAD)]
    return [(names, " AND ".join(_predicate(name, chance) for name in names)) for names in chosen]


def _predicate(name: str, chance: random.Random) -> str:
    if name in TEXTS:
        return f"{name} = '{chance.choice(TEXTS[name])}'"
    low, high = sorted(chance.sample(range(NUMBERS[name] + 1), 2))
    return f"{name} BETWEEN {low} AND {high}"


def _files(view: Path) -> str:
    return f"read_parquet({[str(path) for path in sorted(view.rglob('*.parquet'))]})"
