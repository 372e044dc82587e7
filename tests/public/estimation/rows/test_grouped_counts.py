"""Counts of published rows against a loop over the rows of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from scumble.public.estimation.rows.grouped_counts import grouped_counts
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import parse

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(-3, 20)),
        sc.Attribute("town", "quasi", sc.Category(("a", "b", "it's", "c")), missing=True),
        sc.Attribute("room", "quasi", sc.Category((30, 10, 20))),
        sc.Attribute("job", "sensitive", sc.Category(("x", "y", "z"))),
    ]
)


def _people() -> pa.Table:
    rng = np.random.default_rng(3)
    codes = {each.name: rng.integers(0, each.size, 5000) for each in SCHEMA}
    return pa.table(
        {a.name: a.decode(codes[a.name].astype(a.code_type)) for a in SCHEMA},
    )


def test_rows_are_counted_by_brute_force(tmp_path: Path) -> None:
    table = _people()
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=900)
    engine = Sandbox(SCHEMA, view=tmp_path / "rows.parquet")
    asked = parse("SELECT COUNT(*) FROM t WHERE town <> 'a' AND job = 'y'", SCHEMA)
    first, second = (clause.sql for clause in asked.clauses)
    kept = [row for row in table.to_pylist() if row["town"] not in (None, "a")]
    both = sum(row["job"] == "y" for row in kept)

    def counted(filters: list[str], hits: str | None) -> list[float]:
        return grouped_counts(engine, SCHEMA, [], [], None, filters, hits).count.tolist()

    assert counted([first], second) == [len(kept) - both, both]
    assert counted([], first) == [table.num_rows - len(kept), len(kept)]
    assert counted([first], None) == [len(kept)]
