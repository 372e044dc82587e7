"""The writer: rows in canonical order, whatever the order of arrival and the size of runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scumble as sc
from scumble.private.tables import writer
from scumble.private.tables.sorted_keys import merge_sorted, sort_keys
from scumble.private.tables.writer import ViewWriter
from tests.support.people import people, schema

KEYS = st.lists(st.integers(0, 9), max_size=60)


@given(st.lists(KEYS, min_size=1, max_size=5), st.integers(1, 20), st.booleans())
def test_merging_is_sorting(runs: list[list[int]], chunk: int, two_words: bool) -> None:
    arrays = [np.array(run, np.uint64) for run in runs]
    if two_words:
        arrays = [np.stack([keys // 4, keys % 4], axis=1) for keys in arrays]
    pieces = list(merge_sorted([sort_keys(keys) for keys in arrays], chunk))
    assert all(len(piece) == chunk for piece in pieces[:-1])
    together = np.concatenate([*pieces, arrays[0][:0]])
    assert np.array_equal(together, sort_keys(np.concatenate(arrays)))


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
