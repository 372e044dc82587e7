"""The writer: rows in canonical order, whatever the order of arrival and the size of runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.private.tables import writer
from scumble.private.tables.writer import ViewWriter
from tests.support.people import people, schema


@pytest.mark.parametrize("wide", [False, True])
def test_spilling_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    domain = schema()
    if wide:
        extra = [sc.Attribute(f"q{i}", "quasi", sc.IntegerRange(0, 10**6)) for i in range(5)]
        domain = sc.Schema([*extra, *domain])
    table = people(5000, domain)
    codes = [attribute.encode(table[attribute.name])[0] for attribute in domain]

    def written(name: str, batch: int) -> pq.ParquetFile:
        with ViewWriter(tmp_path / name, domain.published) as writer:
            for begin in range(0, 5000, batch):
                writer.add([code[begin : begin + batch] for code in codes])
        assert writer.rows == 5000
        return pq.read_table(tmp_path / name)

    whole = written("whole", 5000)
    monkeypatch.setattr(writer, "RUN", 700)
    monkeypatch.setattr(writer, "CHUNK", 128)
    assert written("spilled", 100).equals(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spilled", "whole"]


def test_an_error_leaves_no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RUN", 10)
    domain = schema()
    codes = [attribute.encode(people(50, domain)[attribute.name])[0] for attribute in domain]

    def interrupted() -> None:
        with ViewWriter(tmp_path / "view", domain.published) as writer:
            writer.add(codes)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


def test_only_columns_that_may_lack_values_are_optional(tmp_path: Path) -> None:
    job = sc.Attribute("job", "sensitive", sc.Category(("cook", "smith")), missing=True)
    domain = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)), job])
    table = pa.table({"age": [3, 3, 4], "job": ["smith", None, "cook"]})
    with ViewWriter(tmp_path / "view", domain.published) as writer:
        writer.add([attribute.encode(table[attribute.name])[0] for attribute in domain])
    found = pq.read_table(tmp_path / "view")
    assert [field.nullable for field in found.schema] == [False, True]
    assert found.to_pydict() == table.to_pydict()
