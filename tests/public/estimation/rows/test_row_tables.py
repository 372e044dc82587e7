"""Tables of published rows, however their Parquet file is written and whatever was forged in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.errors import ReleaseError
from scumble.public.estimation.rows import row_tables
from scumble.public.estimation.rows.row_tables import RowTables, batches, codes_of

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


def _codes(table: pa.Table, columns: list[str]) -> Any:
    """The codes of a table that has only values of the domain, before it is written."""
    codes = [SCHEMA[name].encode(table[name])[0] for name in columns]
    return np.stack(codes, dtype=np.result_type(*codes))


def _read(path: Path, columns: list[str]) -> Any:
    """The codes of a file, one row group after the other."""
    with pq.ParquetFile(path) as file:
        groups = range(file.metadata.num_row_groups)
    read = batches(path, SCHEMA, columns, groups)
    return np.concatenate([codes_of(batch, SCHEMA, columns) for batch in read], axis=1)


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
        for columns in (NAMES, NAMES[::-1], ["small"], ["one", "number"]):
            found, expected = _read(path, columns), _codes(table, columns)
            assert found.dtype == expected.dtype
            assert (found == expected).all()


def test_columns_that_must_be_values_are_values(tmp_path: Path) -> None:
    path = tmp_path / "required.parquet"
    table = _plain(_table(500, 1, in_order=True))
    required = pa.schema([field.with_nullable(False) for field in table.schema])
    pq.write_table(table.cast(required), path, store_schema=False)
    assert (_read(path, NAMES) == _codes(table, NAMES)).all()


def _words(strange: str | None) -> pa.Table:
    words: list[str | None] = [WORDS[place % 290] for place in range(5000)]
    words[77] = strange
    return pa.table({"word": pa.array(words, pa.string())})


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": False},
        {"data_page_version": "2.0"},
        {"compression": "gzip"},
        {"dictionary_pagesize_limit": 64},
    ],
)
@pytest.mark.parametrize("word", ["word 299", " word 299 "])
def test_other_pages_have_the_same_codes(
    tmp_path: Path, word: str, options: dict[str, Any]
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(_words(word), path, store_schema=False, **options)
    assert (_read(path, ["word"]) == _codes(_words("word 299"), ["word"])).all()


@pytest.mark.parametrize("strange", [None, "nobody"])
def test_values_that_the_schema_does_not_have_are_refused(
    tmp_path: Path, strange: str | None
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(_words(strange), path, store_schema=False)
    with pytest.raises(ReleaseError):
        RowTables(path, SCHEMA).count([("word",)])


@pytest.mark.parametrize("files", [600, pytest.param(3000, marks=pytest.mark.slow)])
def test_no_change_of_a_byte_is_read_beyond_the_file_or_the_domain(
    tmp_path: Path, files: int
) -> None:
    """Changed files are refused, or give codes of the domain."""
    path = tmp_path / "rows.parquet"
    pq.write_table(
        _plain(_table(3000, 5, in_order=True)), path, store_schema=False, compression="none"
    )
    whole = path.read_bytes()
    random = np.random.default_rng(3)
    with pq.ParquetFile(path) as file:
        chunks = [file.metadata.row_group(0).column(place) for place in range(len(NAMES))]
    end = max(chunk.dictionary_page_offset + chunk.total_compressed_size for chunk in chunks)
    sizes = np.array([SCHEMA[name].size for name in NAMES])
    refused = 0
    for _ in range(files):
        changed = bytearray(whole)
        for place in random.integers(4, end, int(random.integers(1, 4))):
            changed[place] = random.integers(0, 256)
        path.write_bytes(changed)
        try:
            found = _read(path, NAMES)
        except (ReleaseError, pa.ArrowException, OSError):
            refused += 1
        else:
            assert (found.max(axis=1, initial=0) < sizes).all()
    assert refused > files // 3
    for size in (0, 3, end // 2, end - 1):
        path.write_bytes(whole[:size])
        with pytest.raises((pa.ArrowException, OSError)):
            _read(path, NAMES)


def test_a_page_that_is_shorter_than_it_says_is_refused(tmp_path: Path) -> None:
    """The rest would be memory of others."""
    path = tmp_path / "rows.parquet"
    table = _plain(_table(2_000, 3, in_order=False)).select(["small"])
    pq.write_table(table, path, compression="snappy", store_schema=False, write_statistics=False)
    assert (_read(path, ["small"]) == _codes(table, ["small"])).all()
    with pq.ParquetFile(path) as file:
        begin = file.metadata.row_group(0).column(0).data_page_offset
    whole = bytearray(path.read_bytes())
    # Kind of the page, then its size: the first two fields of its header. One byte more.
    assert whole[begin : begin + 3] == b"\x15\x00\x15"
    assert whole[begin + 3] & 127 < 126
    whole[begin + 3] += 2
    path.write_bytes(whole)
    with pytest.raises(OSError, match="size"):
        _read(path, ["small"])


def test_indices_beyond_a_dictionary_are_outside_the_domain() -> None:
    """Arrow reads them from a file as they are, and the next byte would be memory of others."""
    dictionary = pa.array(["no", "yes"])
    for kind in (pa.int8(), pa.int32(), pa.int64()):
        for places in ([0, 2, 1], [0, 3, 1], [0, 100, 1], [0, -1, 1], [0, -1, None]):
            indices = pa.array(places, kind)
            values = pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)
            codes, outside = SCHEMA["small"].encode(values)
            assert codes.tolist() == [0, 0, 1 if places[2] else 0]
            assert outside.tolist() == [False, True, places[2] is None]
    indices = pa.array([0, 2, None], pa.int8())
    values = pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)
    codes, outside = replace(SCHEMA["small"], missing=True).encode(values)
    assert codes.tolist() == [0, 0, 3]
    assert outside.tolist() == [False, True, False], "only null is missing"


@pytest.mark.parametrize("in_order", [True, False])
def test_tables_are_those_counted_one_row_at_a_time(tmp_path: Path, in_order: bool) -> None:
    path = tmp_path / "rows.parquet"
    table = _plain(_table(30_000, 9, in_order=in_order))
    pq.write_table(table, path, row_group_size=8_000, store_schema=False)
    sets = [("small",), ("small", "number"), ("small", "one", "word"), ("word", "amount")]
    codes = _codes(table, NAMES)
    for names, found in zip(sets, RowTables(path, SCHEMA).count(sets), strict=True):
        expected = np.zeros([SCHEMA[name].size for name in names], np.int64)
        np.add.at(expected, tuple(codes[NAMES.index(name)] for name in names), 1)
        assert (found == expected).all()


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
