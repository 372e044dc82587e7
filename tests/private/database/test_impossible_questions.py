"""Questions to a database about combinations that no row can have: exactly 0, and free."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

import scumble as sc

SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 29)),
        sc.Attribute("job", "sensitive", sc.Category(("cook", "smith")), missing=True),
    ),
    impossible=("age < 16 AND job = 'cook'", "age < 5 AND job = 'smith'", "age = 3"),
)
TABLE = pa.table({"age": [3, 10, 20, 25], "job": [None, "smith", "cook", "cook"]})


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> sc.Database:
    return sc.Database.create(
        tmp_path / "db", TABLE, SCHEMA, epsilon=4, noise=3, outside="drop", seed=1
    )


@pytest.mark.parametrize(
    "condition",
    ["age < 16 AND job = 'cook'", "age < 4 AND job IN ('cook', 'smith')", "age = 3", "3 = age"],
)
def test_counts_nothing_for_free(database: sc.Database, condition: str) -> None:
    answer = database.ask(f"SELECT COUNT(*) FROM t WHERE {condition}")
    assert answer.estimate.interval(0.999999) == (0, 0)
    assert math.isnan(database.answer(f"SELECT AVG(age) FROM t WHERE {condition}").value)
    assert database.status().used == 0
    assert "is public and was used: age < 16 AND job" in database.guarantee.limits[-1]


def test_groups_are_counted_where_rows_can_be(database: sc.Database) -> None:
    groups = dict(database.answer("SELECT job, COUNT(*) FROM t WHERE age < 16 GROUP BY job"))
    assert groups["cook",].interval(0.999) == (0, 0)
    assert groups["smith",].stderr > 0
    assert groups[None,].stderr > 0
    assert database.status().used == 1


def test_rows_that_cannot_be_are_left_out_of_the_table(
    database: sc.Database, tmp_path: Path
) -> None:
    low, high = database.answer("SELECT COUNT(*) FROM t WHERE job IS NULL").interval(0.999)
    assert low <= 0 <= high
    with pytest.raises(sc.DomainError, match="age = 3"):
        sc.Database.create(tmp_path / "other", TABLE, SCHEMA, epsilon=4, noise=3, seed=1)
