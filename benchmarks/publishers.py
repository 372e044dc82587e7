"""Publishers that look at the whole table first, against sorting the sensitive column of the same
file; and counts from releases of rows, against the same count on the table itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scumble as sc
from benchmarks.measure import Timing, at_most, connect, take_turns
from benchmarks.people import OCCUPATIONS, REGIONS, SCHEMA, folder, table
from scumble.private.mechanism import Mechanism

ROWS = 10_000_000
FEW = 2_500_000
REPEATS = 3

PUBLISHED: dict[str, Callable[[], Mechanism]] = {
    "anatomy": lambda: sc.Anatomy(l=5),
    "partition": lambda: sc.Partition(rho1=0.05, rho2=0.2),
}
ANSWERED: dict[str, Callable[[], Mechanism]] = {
    **PUBLISHED,
    "subset": lambda: sc.Subset(epsilon=1),
    "aroma": lambda: sc.Aroma(k=49),
}


def run() -> list[dict[str, Any]]:
    results = [line for name, make in PUBLISHED.items() for line in publishing(name, make)]
    return [*results, *(answering(name, make) for name, make in ANSWERED.items())]


def publishing(name: str, make: Callable[[], Mechanism]) -> list[dict[str, Any]]:
    """From the file to the published files, against DuckDB sorting one column of the file; and
    with four times as many rows.
    """
    schema = sc.Schema.loads(SCHEMA)

    def publish(rows: int) -> None:
        sc.publish(table(rows), schema, make())

    def sort(_: int) -> None:
        column = f"SELECT occupation FROM '{table(ROWS)}' ORDER BY occupation"
        connect().sql(column).to_arrow_table()

    table(ROWS), table(FEW)
    times = take_turns(
        {"many": lambda _: publish(ROWS), "few": lambda _: publish(FEW), "sort": sort},
        repeats=REPEATS,
    )
    many, few, sorting = times["many"], times["few"], times["sort"]
    return [
        at_most(
            f"{name}: publish 10M rows, 6 columns / DuckDB sorts the sensitive column",
            20,
            many.wall / sorting.wall,
            _detail(many, sorting),
        ),
        at_most(
            f"{name}: publish 10M rows / 2.5M rows (linear: 4)",
            5,
            many.wall / few.wall,
            f"{many}; {few}; CPU ratio {many.cpu / few.cpu:.2f}",
        ),
    ]


def answering(name: str, make: Callable[[], Mechanism]) -> dict[str, Any]:
    """A count with a condition on a published and one on a sensitive column; new constants every
    round. What a release reads once, when it is first asked, is in the rounds that do not count.
    Aroma's answer depends on all 50 columns of its multisets: for DuckDB, to sum them up over the
    same rows took 5.2 times as long as to count the table.
    """
    view = folder() / f"published-{name}"
    sc.publish(table(ROWS), sc.Schema.loads(SCHEMA), make()).save(view, force=True)
    release, connection = sc.open(view), connect()

    def condition(turn: int) -> str:
        return f"region = '{REGIONS[turn % 20]}' AND occupation = '{OCCUPATIONS[turn % 50]}'"

    times = take_turns(
        {
            "scumble": lambda turn: release.answer(
                f"SELECT COUNT(*) FROM t WHERE {condition(turn)}"
            ),
            "duckdb": lambda turn: connection.execute(
                f"SELECT COUNT(*) FROM '{table(ROWS)}' WHERE {condition(turn)}"
            ).fetchall(),
        },
        repeats=15,
        warm=2,
    )
    return at_most(
        f"{name}: one count, 2 predicates, 10M rows / DuckDB count of the table",
        2,
        times["scumble"].wall / times["duckdb"].wall,
        _detail(times["scumble"], times["duckdb"]),
    )


def _detail(ours: Timing, theirs: Timing) -> str:
    return f"scumble {ours}; DuckDB {theirs}; CPU ratio {ours.cpu / theirs.cpu:.2f}"
