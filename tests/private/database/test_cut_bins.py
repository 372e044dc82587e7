"""A database has whole bins only: a question that cuts one is refused, and nothing is charged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc

SCHEMA = sc.Schema(
    (
        sc.Attribute("pay", "quasi", sc.Bins((0, 10, 20, 40))),
        sc.Attribute("n", "quasi", sc.IntegerRange(0, 9)),
    )
)
TABLE = pa.table({"pay": np.arange(200) % 40 * 1.0, "n": np.arange(200) % 10})


@pytest.fixture
def database(tmp_path: Path):
    with sc.Database.create(tmp_path / "db", TABLE, SCHEMA, epsilon=1, noise=20) as found:
        yield found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t WHERE pay < 15",
        "SELECT COUNT(*) FROM t WHERE NOT pay >= 10 + 5",
        "SELECT SUM(pay) FROM t",
        "SELECT AVG(pay) FROM t WHERE n < 3",
    ],
)
def test_a_cut_bin_is_refused(database: sc.Database, sql: str) -> None:
    before = database.status()
    with pytest.raises(sc.QueryError, match="where in a bin or period of 'pay'"):
        database.answer(sql)
    with pytest.raises(sc.QueryError, match="Compare with the edges of bins"):
        database.preview(sql)
    assert database.status() == before


def test_whole_bins_are_answered(database: sc.Database) -> None:
    whole = database.answer("SELECT COUNT(*) FROM t WHERE pay >= 10 AND pay < 20")
    assert whole.bounds is None
    assert len(database.answer("SELECT pay, COUNT(*) FROM t GROUP BY pay")) == 3
