"""Public side tables: a column has a type only if all its values have that form."""

import gzip
import os
from datetime import date
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scumble.model.errors import ParameterError, SourceError
from scumble.public import side_tables
from scumble.public.side_tables import side_table

KINDS = {
    "whole": (["1", "-20", "0"], pa.int64()),
    "leading zeros": (["01234", "1", "2"], pa.string()),
    "plus": (["+1", "1"], pa.string()),
    "space": ([" 1", "1"], pa.string()),
    "long": (["12345678901234567890"], pa.string()),
    "longest": (["999999999999999999"], pa.int64()),
    "numbers": (["1.50", "-2", "1e3"], pa.float64()),
    "zero numbers": (["00.5", "1"], pa.string()),
    "long numbers": (["12345678901234567", "0.5"], pa.string()),
    "days": (["2024-02-29", "1999-12-31"], pa.date32()),
    "no day": (["2023-02-29"], pa.string()),
    "truths": (["true", "False"], pa.bool_()),
    "words": (["a", "1"], pa.string()),
    "some missing": (["1", "", "2"], pa.int64()),
    "all missing": (["", ""], pa.string()),
}


def test_types_of_csv_columns(tmp_path, subtests: pytest.Subtests) -> None:
    for name, (values, kind) in KINDS.items():
        with subtests.test(name):
            lines = ["key;other", *(f"{value};x" for value in values)]
            (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
            column = side_table(tmp_path / "t.csv")["key"]
            assert column.type == kind
            if kind == pa.string():
                assert column.to_pylist() == [value or None for value in values]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.txt"])
def test_csv_files(tmp_path, name):
    text = '\ufeffzip,"the name",day\n01234,"a, b",2024-01-01\n98765,"c\nd",\n'.encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert side_table(str(tmp_path / name)).to_pydict() == {
        "zip": ["01234", "98765"],
        "the name": ["a, b", "c\nd"],
        "day": [date(2024, 1, 1), None],
    }


def test_tables(tmp_path):
    table = pa.table({"zip": ["01234"], "people": [3]})
    pq.write_table(table, tmp_path / "t.parquet")
    for given in (table, table.to_pandas(), pl.from_arrow(table), tmp_path / "t.parquet"):
        assert side_table(given).to_pydict() == table.to_pydict()
    assert side_table(pd.DataFrame({"zip": ["01234"]}))["zip"].to_pylist() == ["01234"]


def test_a_pipe_is_no_side_table(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(SourceError, match="is a pipe or a device"):
        side_table(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("none.csv", None, "There is no file"),
        ("t.csv", b"a,b\n1\n", "not a readable CSV or Parquet"),
        ("t.csv", b"", "is empty: it has no header line"),
        ("t.csv", b"a\n\xff\n", "not a readable CSV or Parquet"),
        ("t.csv.gz", b"a\n1\n", "not a readable CSV or Parquet"),
        ("t.parquet", b"a\n1\n", "not a readable CSV or Parquet"),
        ("t.csv", b"a,a\n1,2\n", "two columns named 'a'"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, sentence):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=sentence):
        side_table(tmp_path / name)


def test_what_is_no_table():
    with pytest.raises(ParameterError, match="Got a int instead"):
        side_table(3)


@pytest.mark.parametrize("header", ["a" * 140_000, "a," * 70_000, '"' + "a" * 2_000_000])
def test_a_long_header_is_refused(tmp_path, header):
    path = tmp_path / "side.csv"
    path.write_text(header + "\n1,2\n")
    with pytest.raises(SourceError, match="65,536 characters or more"):
        side_table(path)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "folder"])
def test_many_rows_and_columns_are_refused(tmp_path, monkeypatch, name):
    """Of a file before it is read, by its metadata or lines; exactly the most is allowed."""
    monkeypatch.setattr(side_tables, "MOST_ROWS", 3)
    monkeypatch.setattr(side_tables, "MOST_COLUMNS", 2)

    def written(rows: int, columns: int) -> Path:
        table = pa.table({f"c{number}": list(range(rows)) for number in range(columns)})
        place = tmp_path / name
        if name == "folder":
            place.mkdir(exist_ok=True)
            pq.write_table(table.slice(0, 2), place / "1.parquet")
            pq.write_table(table.slice(2), place / "2.parquet")
        elif name == "t.parquet":
            pq.write_table(table, place)
        else:
            text = table.to_pandas().to_csv(index=False).rstrip("\n").encode()
            place.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
        return place

    assert side_table(written(3, 2)).num_rows == 3
    with pytest.raises(SourceError, match="has more than 3 rows, which is the most that a side"):
        side_table(written(4, 2))
    with pytest.raises(SourceError, match="has more than 2 columns, which is the most"):
        side_table(written(3, 3))


def test_a_large_table_in_memory_is_refused():
    wide = pa.table({f"c{number}": [1] for number in range(1001)})
    with pytest.raises(SourceError, match=r"^The side table has more than 1,000 columns"):
        side_table(wide)
