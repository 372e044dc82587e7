"""Generalisation of a million rows: the optimal levels, and local recoding, against one GROUP BY of
the same columns in DuckDB; and with four times as many rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scumble as sc
from benchmarks.measure import at_most, connect, take_turns
from benchmarks.people import SCHEMA, table
from scumble.private.mechanism import Mechanism

ROWS = 1_000_000
FEW = 250_000
REPEATS = 3
METHODS: dict[str, Callable[[], Mechanism]] = {
    "global": lambda: sc.Generalise(k=5, recoding="global", suppress=0.02),
    "local": lambda: sc.Generalise(k=5),
}


def run() -> list[dict[str, Any]]:
    return [line for name, make in METHODS.items() for line in publishing(name, make)]


def publishing(name: str, make: Callable[[], Mechanism]) -> list[dict[str, Any]]:
    """From the file to the published rows, in CPU seconds."""
    schema = sc.Schema.loads(SCHEMA)

    def publish(rows: int) -> None:
        sc.publish(table(rows), schema, make())

    def group(_: int) -> None:
        columns = ", ".join(attribute.name for attribute in schema.quasi)
        counted = f"SELECT {columns}, count(*) FROM '{table(ROWS)}' GROUP BY ALL"
        connect().sql(counted).to_arrow_table()

    table(ROWS), table(FEW)
    times = take_turns(
        {"many": lambda _: publish(ROWS), "few": lambda _: publish(FEW), "group": group},
        repeats=REPEATS,
    )
    many, few, grouping = times["many"], times["few"], times["group"]
    return [
        at_most(
            f"generalise, {name}: publish 1M rows, 6 columns / one GROUP BY of them in DuckDB",
            100,
            many.cpu / grouping.cpu,
            f"{many}; {grouping}",
        ),
        at_most(
            f"generalise, {name}: publish 1M rows / 250k rows (linear: 4)",
            6,
            many.cpu / few.cpu,
            f"{many}; {few}",
        ),
    ]
