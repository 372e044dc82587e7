"""Plain counts from noisy cells: one question, many together, and sums over the published file."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(-3, 20)),
        sc.Attribute("town", "quasi", sc.Category(("a", "b", "it's", "c")), missing=True),
        sc.Attribute("room", "quasi", sc.Category((30, 10, 20))),
    ]
)
CLAUSES = {
    "age < 7": lambda row: row["age"] < 7,
    "age BETWEEN 2 AND 11": lambda row: 2 <= row["age"] <= 11,
    "age NOT IN (1, 2, 3)": lambda row: row["age"] not in (1, 2, 3),
    "town = 'it''s'": lambda row: row["town"] == "it's",
    "town <> 'a'": lambda row: row["town"] not in (None, "a"),
    "town IS NULL": lambda row: row["town"] is None,
    "room >= 20": lambda row: row["room"] >= 20,
    "room IN (10, 30)": lambda row: row["room"] in (10, 30),
    "age = 99": lambda row: False,
}


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_counts_are_sums_over_the_file(neighbours: str) -> None:
    rng, chance = np.random.default_rng(3), random.Random(1)
    codes = {each.name: rng.integers(0, each.size, 5000) for each in SCHEMA}
    people = pa.table({a.name: a.decode(codes[a.name].astype(a.code_type)) for a in SCHEMA})
    method = sc.Histogram(list(SCHEMA.names), epsilon=1, neighbours=neighbours)
    release = sc.publish(people, SCHEMA, method, options=sc.PublishOptions(seed=1))
    cells = pq.read_table(Path(release.folder) / release.evidence.file).to_pylist()
    drawn = [chance.sample(list(CLAUSES), chance.randint(1, 3)) for _ in range(60)]
    texts = ["SELECT COUNT(*) FROM t WHERE " + " AND ".join(each) for each in drawn]
    excess = sum(cell["count"] for cell in cells) - 5000 if neighbours == "replace" else 0
    for clauses, text, answer in zip(drawn, texts, release.answer_many(texts), strict=True):
        there = [cell for cell in cells if all(CLAUSES[clause](cell) for clause in clauses)]
        expected = sum(cell["count"] for cell in there) - excess * len(there) / len(cells)
        single = release.answer(text)
        assert single.value == pytest.approx(expected, abs=1e-9), text
        assert answer.value == single.value, text
        assert answer.interval(0.9) == pytest.approx(single.interval(0.9), rel=1e-12), text
        assert (answer.stderr, answer.method) == (single.stderr, single.method), text
