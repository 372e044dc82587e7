"""AlphaBeta: noise over product domains of any size, and counts from what was published."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from benchmarks.measure import at_most, connect, take_turns
from benchmarks.people import folder

ROWS = 30_162
NOISE = 600_000  # false tuples, as many as on the Adult data with k = 10 and γ = 0.2
# Sizes of the columns; the first are those of the nine columns of Adult: 648,023,040 rows.
DOMAINS = {
    "6·10^8": (72, 7, 16, 7, 14, 5, 2, 41, 2),
    "10^18": (1000,) * 6,
    "10^30": (1000,) * 10,
}


def run() -> list[dict[str, Any]]:
    return [*publishing(), answering()]


def publishing() -> list[dict[str, Any]]:
    """From a table in memory to the published file, with the same number of false tuples."""
    made = {name: _table(sizes) for name, sizes in DOMAINS.items()}

    def publish(name: str) -> None:
        table, schema = made[name]
        sc.publish(table, schema, _mechanism(schema))

    rivals = {name: (lambda _, name=name: publish(name)) for name in DOMAINS}
    times = take_turns(rivals, repeats=5, warm=2)
    small = times["6·10^8"]
    seconds = at_most(
        "alphabeta: CPU seconds for 600,000 false tuples on a domain of 6·10^8 / 0.5 s",
        1,
        small.cpu / 0.5,
        str(small),
    )
    larger = [
        at_most(
            f"alphabeta: the same on a domain of {name} / of 6·10^8, CPU",
            4,
            times[name].cpu / small.cpu,
            f"{times[name]}; {small}",
        )
        for name in list(DOMAINS)[1:]
    ]
    return [seconds, *larger]


def answering() -> dict[str, Any]:
    """A count with three predicates, against DuckDB counting the published tuples."""
    table, schema = _table(DOMAINS["6·10^8"])
    view = folder() / "tuples"
    sc.publish(table, schema, _mechanism(schema)).save(view, force=True)
    release, connection = sc.open(view), connect()

    def condition(turn: int) -> str:
        return f"c0 > {turn} AND c2 = {turn % 16} AND c4 < 9"

    times = take_turns(
        {
            "scumble": lambda turn: release.answer(
                f"SELECT COUNT(*) FROM t WHERE {condition(turn)}"
            ),
            "duckdb": lambda turn: connection.execute(
                f"SELECT COUNT(*) FROM '{view}/tuples.parquet' WHERE {condition(turn)}"
            ).fetchall(),
        },
        repeats=31,
        warm=3,
    )
    ours, theirs = times["scumble"], times["duckdb"]
    return at_most(
        "alphabeta: one count, 3 predicates, 0.6M tuples / DuckDB count",
        2,
        ours.wall / theirs.wall,
        f"scumble {ours}; DuckDB {theirs}; CPU ratio {ours.cpu / theirs.cpu:.2f}",
    )


def _mechanism(schema: sc.Schema) -> sc.AlphaBeta:
    return sc.AlphaBeta(alpha=0.4, beta=NOISE / schema.size())


def _table(sizes: tuple[int, ...]) -> tuple[pa.Table, sc.Schema]:
    """Different rows, drawn uniformly; a few more are drawn than are kept."""
    random = np.random.default_rng(0)
    names = [f"c{place}" for place in range(len(sizes))]
    drawn = pa.table(
        {name: random.integers(0, size, 2 * ROWS) for name, size in zip(names, sizes, strict=True)}
    )
    table = drawn.group_by(names).aggregate([]).slice(0, ROWS)
    attributes = [
        sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1))
        for name, size in zip(names, sizes, strict=True)
    ]
    return table, sc.Schema(tuple(attributes))
