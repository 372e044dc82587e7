"""Files that would lose rows, read other files, or take long: refused with a sentence, or fast."""

from __future__ import annotations

import gzip
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scumble.model.errors import SourceError
from scumble.private.tables.open import open_source


def rows(path: Path, **how: str) -> int:
    source = open_source(str(path), **how)
    return sum(batch.num_rows for batch in source.batches(source.columns[:1]))


def test_a_last_line_longer_than_a_buffer_is_refused(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for zipped, end in product([False, True], [b"", b"\n", b"\r\n"]):
        with subtests.test(zipped=zipped, end=end):
            tmp_path = tmp_path_factory.mktemp("case")
            text = b"a,b\n1,x\n2,y\n3," + b"z" * 33_700_000 + end
            path = tmp_path / ("t.csv.gz" if zipped else "t.csv")
            path.write_bytes(gzip.compress(text, 1) if zipped else text)
            with pytest.raises(SourceError, match="a line is longer than 2,000,000 bytes"):
                rows(path)


def test_files_with_ordinary_lines_are_read_whatever_their_size(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,xxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n" * 1_100_000)
    assert rows(path) == 1_100_000


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("a" * 140_000 + ",b", "more than 131,072 characters"),
        ("a" * 2_000_000, "1,048,576 characters or more"),
        ('"' + "a\n" * 1_000_000, "1,048,576 characters or more"),
    ],
)
def test_a_long_header_is_refused(tmp_path, header, reason) -> None:
    path = tmp_path / "t.csv"
    path.write_text(header + "\n1,2\n")
    with pytest.raises(SourceError, match=reason):
        open_source(str(path))


def test_a_header_of_many_names_is_read(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(";".join(f"column {i}" for i in range(20_000)) + "\n")
    assert len(open_source(str(path)).columns) == 20_000


def test_many_small_row_groups_are_read_as_one_batch(tmp_path) -> None:
    path = tmp_path / "t.parquet"
    numbers = list(range(3000))
    words = [None if i % 7 == 0 else f"word {i % 50}" for i in numbers]
    pq.write_table(pa.table({"a.b": words, "a": numbers}), path, row_group_size=1)
    source = open_source(str(path))
    [batch] = source.batches(["a", "a.b"])
    assert batch.column("a").to_pylist() == numbers
    assert batch.column("a.b").to_pylist() == words


@pytest.fixture
def database(tmp_path) -> Path:
    (tmp_path / "secret.txt").write_text("private")
    path = tmp_path / "t.duckdb"
    secret = f"read_text('{tmp_path / 'secret.txt'}')"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE plain AS SELECT 1 AS a")
        connection.execute("CREATE VIEW inside AS SELECT a + 1 AS a FROM plain")
        connection.execute(f"CREATE VIEW file AS SELECT content AS a FROM {secret}")
        connection.execute(f"CREATE MACRO reading() AS TABLE SELECT content AS a FROM {secret}")
        connection.execute("CREATE VIEW macro AS FROM reading()")
        connection.execute(f"CREATE MACRO value() AS (SELECT content FROM {secret})")
        connection.execute("CREATE VIEW scalar AS SELECT value() AS a")
        connection.execute("CREATE VIEW folder AS SELECT file AS a FROM glob('/*')")
    return path


@pytest.mark.parametrize("view", ["file", "macro", "scalar", "folder"])
def test_a_view_that_reads_outside_of_its_database_is_refused(database, view) -> None:
    with pytest.raises(SourceError, match="reads outside of the file, which is refused"):
        rows(database, table=view)


@pytest.mark.parametrize("table", ["plain", "inside"])
def test_tables_and_views_inside_the_database_are_read(database, table) -> None:
    assert rows(database, table=table) == 1


def test_a_view_cannot_read_variables_of_the_process(tmp_path) -> None:
    path = tmp_path / "t.duckdb"
    private_frame = pa.table({"a": [1]})
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE private_frame (a INTEGER)")
        connection.execute("CREATE VIEW v AS FROM private_frame")
        connection.execute("DROP TABLE private_frame")
    with pytest.raises(SourceError):
        rows(path, table="v")
    assert private_frame.num_rows == 1
