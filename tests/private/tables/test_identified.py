"""Rows with their identifiers: they stay together in every batch, whatever is dropped."""

from __future__ import annotations

import pyarrow as pa
import pytest

import scumble as sc
from scumble.private.tables.rows import Rows
from tests.support.people import JOBS, schema

DOMAIN = sc.Schema([sc.Attribute("pid", "identifier"), *schema()])


def _table(people: list[object], jobs: list[str | None]) -> pa.Table:
    count = len(people)
    return pa.table({"pid": people, "age": list(range(count)), "sex": ["f"] * count, "job": jobs})


def _read(table: pa.Table, **options: str) -> list[tuple[bytes, int, int]]:
    rows = Rows(table, DOMAIN, **options)  # type: ignore[arg-type]
    found = []
    for people, (age, job) in rows.identified("pid", ["age", "job"]):
        found += zip(people.to_pylist(), age.tolist(), job.tolist(), strict=True)
    return found


def test_identifiers_stand_beside_their_codes() -> None:
    table = _table(["x", "y", "z"], ["cook", "smith", "nurse"])
    expected = [(b"x", 0, JOBS.index("cook")), (b"y", 1, JOBS.index("smith"))]
    assert _read(table)[:2] == expected
    chunks = pa.concat_tables([table.slice(0, 1), table.slice(1, 2)])
    assert _read(chunks) == _read(table)
    encoded = table.set_column(0, "pid", table["pid"].dictionary_encode())
    assert _read(encoded) == _read(table)


def test_rows_left_out_take_their_identifiers_with_them() -> None:
    table = _table(["x", "y", None, "z"], ["cook", "king", "nurse", "smith"])
    assert [person for person, _, _ in _read(table, outside="drop")] == [b"x", b"z"]


def test_one_row_for_each() -> None:
    with pytest.raises(sc.SourceError, match="the same identifier in several rows") as error:
        _read(_table(["CANARY", "y", "CANARY "], ["cook"] * 3))
    assert "CANARY" not in str(error.value)
    with pytest.raises(sc.DomainError, match="row 2: there is no identifier"):
        _read(_table(["x", None], ["cook"] * 2))
    with pytest.raises(sc.SchemaError, match="must be an identifier"):
        list(Rows(_table(["x"], ["cook"]), DOMAIN).identified("age", ["job"]))
