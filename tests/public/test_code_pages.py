"""Codes from the pages of Parquet files, against those that are made of the values Arrow reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.public.archive import code_pages
from scumble.public.archive.code_pages import CodePages
from scumble.public.estimation.rows import row_tables
from scumble.public.estimation.rows.row_tables import RowTables, codes_of, constant_stretches

WORDS = [f"word {number:03}" for number in range(300)]
SCHEMA = sc.Schema.loads(
    f"""
format = 1
[attributes.small]
role = "quasi"
type = "category"
values = ["no", "yes", "Zoë's"]
[attributes.one]
role = "quasi"
type = "category"
values = ["only"]
[attributes.word]
role = "quasi"
type = "category"
values = {WORDS}
[attributes.number]
role = "quasi"
type = "integer"
range = [-1000, 1000]
[attributes.amount]
role = "quasi"
type = "binned"
edges = [0.0, 1.0, 2.5, 10.0]
"""
)
NAMES = list(SCHEMA.names)


def _table(rows: int, seed: int, *, in_order: bool) -> pa.Table:
    """Rows of which some values are frequent, so that there are runs and packed groups."""
    random = np.random.default_rng(seed)
    codes = []
    for name in NAMES:
        size = SCHEMA[name].size
        code = np.minimum(random.geometric(min(3 / size, 1), rows) - 1, size - 1)
        codes.append(code.astype(SCHEMA[name].code_type))
    if in_order:
        order = np.lexsort(codes[::-1])
        codes = [code[order] for code in codes]
    pairs = zip(NAMES, codes, strict=True)
    return pa.table({name: SCHEMA[name].decode(code) for name, code in pairs})


def _plain(table: pa.Table) -> pa.Table:
    """The table with texts in place of dictionaries."""
    kinds = {name: SCHEMA[name].arrow_type for name in table.column_names}
    return table.cast(pa.schema(list(kinds.items())))


def _by_arrow(path: Path, group: int, columns: list[str]) -> Any:
    with pq.ParquetFile(path) as file:
        [batch] = file.read_row_group(group, columns).combine_chunks().to_batches()
    return codes_of(batch, SCHEMA, columns)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "none"},
        {"compression": "zstd", "write_batch_size": 1 << 16},
        {"data_page_size": 500, "write_batch_size": 37},
    ],
)
def test_codes_are_those_of_the_values(
    tmp_path: Path, options: dict[str, Any], in_order: bool
) -> None:
    path = tmp_path / "rows.parquet"
    for rows in (1, 7, 1000, 70_000):
        table = _plain(_table(rows, rows, in_order=in_order))
        pq.write_table(table, path, row_group_size=40_000, store_schema=False, **options)
        with pq.ParquetFile(path) as file:
            pages = CodePages(path, SCHEMA, file)
            for group in range(file.metadata.num_row_groups):
                for columns in (NAMES, NAMES[::-1], ["small"], ["one", "number"]):
                    found = pages.codes(group, columns)
                    expected = _by_arrow(path, group, columns)
                    assert found is not None
                    assert found.dtype == expected.dtype
                    assert (found == expected).all()


def test_columns_that_must_be_values_are_values(tmp_path: Path) -> None:
    path = tmp_path / "required.parquet"
    table = _plain(_table(500, 1, in_order=True))
    required = pa.schema([field.with_nullable(False) for field in table.schema])
    pq.write_table(table.cast(required), path, store_schema=False)
    with pq.ParquetFile(path) as file:
        assert (CodePages(path, SCHEMA, file).codes(0, NAMES) == _by_arrow(path, 0, NAMES)).all()


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ("null", {}),
        ("stranger", {}),
        ("padded", {}),
        (None, {"use_dictionary": False}),
        (None, {"data_page_version": "2.0"}),
        (None, {"compression": "gzip"}),
        (None, {"dictionary_pagesize_limit": 64}),
    ],
)
def test_other_pages_are_left_to_arrow(
    tmp_path: Path, change: str | None, options: dict[str, Any]
) -> None:
    path = tmp_path / "rows.parquet"
    words = [WORDS[place % 290] for place in range(5000)]
    words[77] = {"null": None, "stranger": "nobody", "padded": " word 007 "}.get(
        change or "", "word 299"
    )
    pq.write_table(pa.table({"word": words}), path, store_schema=False, **options)
    with pq.ParquetFile(path) as file:
        assert CodePages(path, SCHEMA, file).codes(0, ["word"]) is None


def test_no_change_of_a_byte_is_read_beyond_the_file_or_the_domain(tmp_path: Path) -> None:
    """Changed files are left to Arrow, or give codes of the domain."""
    path = tmp_path / "rows.parquet"
    pq.write_table(
        _plain(_table(3000, 5, in_order=True)), path, store_schema=False, compression="none"
    )
    whole = path.read_bytes()
    random = np.random.default_rng(3)
    with pq.ParquetFile(path) as file:
        left = 0
        chunks = [file.metadata.row_group(0).column(place) for place in range(len(NAMES))]
        end = max(chunk.dictionary_page_offset + chunk.total_compressed_size for chunk in chunks)
        for _ in range(3000):
            changed = bytearray(whole)
            for place in random.integers(4, end, int(random.integers(1, 4))):
                changed[place] = random.integers(0, 256)
            path.write_bytes(changed)
            found = CodePages(path, SCHEMA, file).codes(0, NAMES)
            if found is None:
                left += 1
                continue
            sizes = np.array([SCHEMA[name].size for name in NAMES])
            assert (found.max(axis=1) < sizes).all()
        assert left > 1000
        for size in (0, 3, end // 2, end - 1):
            path.write_bytes(whole[:size])
            assert CodePages(path, SCHEMA, file).codes(0, NAMES) is None


def test_a_page_that_is_shorter_than_it_says_is_left_to_arrow(tmp_path: Path) -> None:
    """Arrow's Snappy does not say how much it wrote: the rest would be memory of others."""
    path = tmp_path / "rows.parquet"
    table = _plain(_table(2_000, 3, in_order=False)).select(["small"])
    pq.write_table(table, path, compression="snappy", store_schema=False, write_statistics=False)
    with pq.ParquetFile(path) as file:
        chunk = file.metadata.row_group(0).column(0)
        assert CodePages(path, SCHEMA, file).codes(0, ["small"]) is not None
        begin = chunk.data_page_offset
        whole = bytearray(path.read_bytes())
        # Kind of the page, then its size: the first two fields of its header. One byte more.
        assert whole[begin : begin + 3] == b"\x15\x00\x15"
        assert whole[begin + 3] & 127 < 126
        whole[begin + 3] += 2
        path.write_bytes(whole)
        assert CodePages(path, SCHEMA, file).codes(0, ["small"]) is None


def test_a_large_dictionary_is_left_to_arrow(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    column = pa.array([""] * 3, pa.string())
    pq.write_table(pa.table({"small": column}), path, store_schema=False)
    with pq.ParquetFile(path) as file:
        pages = CodePages(path, SCHEMA, file)
        data = np.zeros(4 * ((1 << 16) + 1), np.uint8)
        page = code_pages._Page(2, (1 << 16) + 1, 0, data)
        with pytest.raises(code_pages._Unexpected):
            pages._dictionary(page, SCHEMA["small"], pa.string())


@pytest.mark.parametrize("in_order", [True, False])
def test_tables_do_not_depend_on_how_rows_are_read(
    tmp_path: Path, in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables from pages, from values, and counted one row at a time."""
    path = tmp_path / "rows.parquet"
    table = _plain(_table(30_000, 9, in_order=in_order))
    pq.write_table(table, path, row_group_size=8_000, store_schema=False)
    sets = [("small",), ("small", "number"), ("small", "one", "word"), ("word", "amount")]
    tables = RowTables(path, SCHEMA)
    by_arrow = tables.count(sets)
    monkeypatch.setattr(row_tables, "_COMPILED", 0)
    by_pages = tables.count(sets)
    codes = codes_of(table.combine_chunks().to_batches()[0], SCHEMA, NAMES)
    for names, one, other in zip(sets, by_arrow, by_pages, strict=True):
        expected = np.zeros([SCHEMA[name].size for name in names], np.int64)
        np.add.at(expected, tuple(codes[NAMES.index(name)] for name in names), 1)
        assert (one == expected).all()
        assert (other == expected).all()


def test_a_file_is_opened_as_often_whatever_its_row_groups_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    read = row_tables.batches
    monkeypatch.setattr(row_tables, "batches", lambda *given: (opened.append(1), read(*given))[1])
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    path = tmp_path / "rows.parquet"
    pq.write_table(
        _plain(_table(3_000, 9, in_order=True)), path, row_group_size=100, store_schema=False
    )
    RowTables(path, SCHEMA).count([("small", "number")])
    assert len(opened) == 2  # once in each thread


def test_a_column_that_changes_late_makes_no_short_stretches() -> None:
    """Such as one that only the last group of the first column has values of."""
    rows = 64_000
    first = np.repeat([0, 1], rows // 2)
    late = np.where(first == 1, np.arange(rows) % 7, 0)
    rarely, ends = constant_stretches(np.stack([first, late]).astype(np.uint8))
    assert rarely.tolist() == [True, False]
    assert ends.tolist() == [rows // 2, rows]


@pytest.mark.parametrize(("columns", "rows"), [(0, 3), (2, 1), (2, 0)])
def test_stretches_of_hardly_anything(columns: int, rows: int) -> None:
    rarely, ends = constant_stretches(np.zeros((columns, rows), np.uint8))
    assert len(rarely) == columns
    assert ends.tolist() == [rows]
