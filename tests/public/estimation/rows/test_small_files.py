"""Plain counts from small files have the answers that DuckDB gives, and do not start it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.query import Expression
from scumble.public.estimation.rows import small_files
from scumble.public.estimation.rows.small_files import small_counts
from scumble.public.plain_questions import plain_question
from scumble.public.sandbox import Sandbox

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(-3, 20)),
        sc.Attribute("town", "quasi", sc.Category(("a", "b", "it's", "c")), missing=True),
        sc.Attribute("room", "quasi", sc.Category((30, 10, 20))),
        sc.Attribute("job", "sensitive", sc.Category(("x", "y", "z"))),
    ]
)
CLAUSES = (
    "age < 7",
    "age BETWEEN 2 AND 11",
    "age NOT IN (1, 2, 3)",
    "town = 'it''s'",
    "town <> 'a'",
    "room >= 20",
    "room IN (10, 30)",
    "job = 'y'",
    "job <> 'z'",
    "job IN ('x', 'z')",
    "age = 99",
)
LEFT_TO_DUCKDB = (
    "town IS NULL",
    "age + 1 < 7",
    "town LIKE 'a%'",
    "age < 2.5 OR job = 'x'",
    "length(job) = 1",
)


def _people() -> pa.Table:
    rng = np.random.default_rng(3)
    codes = {each.name: rng.integers(0, each.size, 5000) for each in SCHEMA}
    return pa.table(
        {a.name: a.decode(codes[a.name].astype(a.code_type)) for a in SCHEMA},
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, table = tmp_path_factory.mktemp("saved"), _people()
    cells = ["age", "town", "room"]
    methods = {
        "uniform": sc.Uniform(epsilon=1),
        "replace": sc.Histogram(cells, epsilon=1, neighbours="replace"),
        "add_remove": sc.Histogram(cells, epsilon=1, neighbours="add_remove"),
    }
    for name, method in methods.items():
        sc.publish(table, SCHEMA, method).save(folder / name)
    return {name: folder / name for name in methods}


@pytest.mark.parametrize("name", ["uniform", "replace", "add_remove"])
def test_counts_are_those_of_duckdb(saved: dict[str, Path], name: str) -> None:
    rng = random.Random(1)
    known = [each for each in CLAUSES if name == "uniform" or "job" not in each]
    for _ in range(60):
        text = "SELECT COUNT(*) FROM t WHERE " + " AND ".join(rng.sample(known, rng.randint(1, 3)))
        small, by_duckdb = sc.open(saved[name]), sc.open(saved[name])
        by_duckdb._sandbox.rows("SELECT 1")
        assert by_duckdb._sandbox.is_running
        found, expected = small.answer(text), by_duckdb.answer(text)
        assert not small._sandbox.is_running, text
        assert found.value == expected.value, text
        assert found.interval(0.9) == pytest.approx(expected.interval(0.9), rel=1e-12), text
        assert (found.stderr, found.method) == (expected.stderr, expected.method), text


@pytest.mark.parametrize("name", ["uniform", "replace"])
@pytest.mark.parametrize("clause", LEFT_TO_DUCKDB)
def test_other_conditions_are_left_to_duckdb(
    saved: dict[str, Path], name: str, clause: str
) -> None:
    if name == "uniform" or "job" not in clause:
        release = sc.open(saved[name])
        release.answer(f"SELECT COUNT(*) FROM t WHERE {clause}")
        assert release._sandbox.is_running


def _clauses(condition: str) -> tuple[Expression, ...]:
    found = plain_question(f"SELECT COUNT(*) FROM t WHERE {condition}", SCHEMA)
    assert found is not None
    return found.clauses


def _engine(tmp_path: Path, table: pa.Table) -> Sandbox:
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=900)
    return Sandbox(SCHEMA, view=tmp_path / "rows.parquet")


def test_rows_are_counted_by_brute_force(tmp_path: Path) -> None:
    table = _people()
    engine = _engine(tmp_path, table)
    first, second = _clauses("town <> 'a' AND job = 'y'")
    kept = [row for row in table.to_pylist() if row["town"] not in (None, "a")]
    both = sum(row["job"] == "y" for row in kept)
    assert small_counts(engine, SCHEMA, [first], [second]) == (len(kept), both)
    assert small_counts(engine, SCHEMA, [], [first]) == (table.num_rows, len(kept))
    assert small_counts(engine, SCHEMA, [first], []) == (len(kept), len(kept))


def test_a_value_outside_of_its_domain_is_left_to_duckdb(tmp_path: Path) -> None:
    table = _people()
    strange = pa.array(["unknown", *table["job"].to_pylist()[1:]])
    engine = _engine(tmp_path, table.set_column(3, "job", strange))
    [clause] = _clauses("job = 'x'")
    assert small_counts(engine, SCHEMA, [], [clause]) is None


def test_a_large_file_is_left_to_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _engine(tmp_path, _people())
    monkeypatch.setattr(small_files, "SMALL", 4999)
    [clause] = _clauses("job = 'x'")
    assert small_counts(engine, SCHEMA, [], [clause]) is None
