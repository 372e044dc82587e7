"""The same small table from every type of source; and the error messages."""

import gzip
import os
import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import scumble
from scumble.model.errors import SourceError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.tables.open import expected_rows, open_source
from scumble.private.tables.rows import Rows
from scumble.private.tables.source import BATCH_ROWS

SCHEMA = Schema(
    (
        Attribute("age", "quasi", IntegerRange(0, 120), missing=True),
        Attribute("job", "sensitive", Category(("cook", "smith")), missing=True),
    )
)
TABLE = pa.table(
    {
        "name": ["Ann", "Bob", "Cid", "Dot"],
        "age": pa.array([30, 41, None, 7]),
        "job": ["cook", None, "smith", "cook"],
    }
)
CODES = [[30, 41, 121, 7], [0, 2, 1, 0]]
CSV = "name,age,job\nAnn,30,cook\nBob,41,\nCid,,smith\nDot,7,cook\n"


def codes(source: object) -> list[list[int]]:
    """Return all codes of age and job; the source is read twice."""
    rows = Rows(source, SCHEMA)
    passes = []
    for _ in range(2):
        batches = list(rows.batches(["age", "job"]))
        passes.append([[c for batch in batches for c in batch[k].tolist()] for k in range(2)])
    assert passes[0] == passes[1]
    return passes[0]


def write_csv(folder, text=CSV, name="people.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def write_database(folder):
    path = folder / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", TABLE)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
        connection.execute("CREATE SCHEMA other")
        connection.execute('CREATE TABLE other."odd.name" AS SELECT * FROM given')
        connection.execute("CREATE VIEW seen AS SELECT * FROM people")
    return path


IN_MEMORY = {
    "arrow table": lambda: TABLE,
    "arrow dictionary": lambda: TABLE.set_column(2, "job", TABLE["job"].dictionary_encode()),
    "record batch": lambda: TABLE.to_batches()[0],
    "pandas": lambda: TABLE.to_pandas(),
    "pandas with an index": lambda: TABLE.to_pandas().set_index("name"),
    "pandas nullable": lambda: TABLE.to_pandas().convert_dtypes(),
    "pandas arrow": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas category": lambda: TABLE.to_pandas().astype({"job": "category", "age": "Int64"}),
    "pandas objects": lambda: TABLE.to_pandas().astype(object),
    "polars": lambda: pl.from_arrow(TABLE),
    "polars categorical": lambda: pl.from_arrow(TABLE).with_columns(
        pl.col("job").cast(pl.Categorical)
    ),
    "polars enum": lambda: pl.from_arrow(TABLE).with_columns(
        pl.col("job").cast(pl.Enum(["smith", "cook"]))
    ),
}  # fmt: skip


def test_tables_in_memory(subtests):
    for name in IN_MEMORY:
        with subtests.test(name=name):
            assert codes(IN_MEMORY[name]()) == CODES


def test_a_duckdb_relation():
    with duckdb.connect() as connection:
        connection.register("given", TABLE)
        assert codes(connection.sql("SELECT * FROM given")) == CODES


def test_csv_with_any_delimiter(tmp_path_factory, subtests):
    for mark in [",", ";", "\t", "|"]:
        with subtests.test(mark=mark):
            tmp_path = tmp_path_factory.mktemp("case")
            assert codes(write_csv(tmp_path, CSV.replace(",", mark))) == CODES


def test_csv_in_many_spellings(tmp_path_factory, subtests):
    for text in [
        CSV.replace("\n", "\r\n"),
        "\ufeff" + CSV,
        CSV.replace(",", ", "),
        CSV.rstrip("\n"),
        CSV.replace("Ann", '"An\nn, ""the"" first"'),
        CSV.replace("name", '"the\nname"'),
        CSV.replace("Bob", "#Bob"),
        CSV.replace("41,\n", '41,""\n'),
    ]:
        with subtests.test(text=text):
            tmp_path = tmp_path_factory.mktemp("case")
            assert codes(write_csv(tmp_path, text)) == CODES


def test_a_column_without_a_name_is_called_by_its_place(tmp_path):
    source = open_source(write_csv(tmp_path, CSV.replace("name", "")))
    assert source.columns == ["column1", "age", "job"]
    assert codes(source) == CODES


@pytest.mark.parametrize("name", ["people.csv.gz", "people.csv"])
def test_gzipped_csv_is_known_by_name_or_content(tmp_path, name):
    assert codes(write_csv(tmp_path, gzip.compress(CSV.encode()), name)) == CODES


def test_odd_file_names(tmp_path_factory, subtests):
    for name in ["a[1].csv", "it's.csv", "a*b?.csv", "table.txt", "UPPER.CSV"]:
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            write_csv(tmp_path, CSV.replace("30", "99"), "a1.csv")
            assert codes(str(write_csv(tmp_path, CSV, name))) == CODES


def test_parquet_file_folder_and_pattern(tmp_path):
    pq.write_table(TABLE.slice(0, 2), tmp_path / "part-0.parquet")
    pq.write_table(TABLE.slice(2), tmp_path / "part-1.parquet")
    (tmp_path / "notes.txt").write_text("not a table")
    pq.write_table(TABLE, tmp_path / "whole.pq")
    assert codes(tmp_path / "whole.pq") == CODES
    assert codes(str(tmp_path / "part-*.parquet")) == CODES
    os.remove(tmp_path / "whole.pq")
    assert codes(tmp_path) == CODES
    assert open_source(tmp_path).rows == 4


def test_parquet_by_content(tmp_path):
    pq.write_table(TABLE, tmp_path / "people")
    assert codes(tmp_path / "people") == CODES


def test_parquet_partitions_add_a_column(tmp_path):
    ds.write_dataset(
        TABLE.drop_columns("name"),
        tmp_path,
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("job", pa.string())]), flavor="hive"),
    )
    assert sorted(open_source(tmp_path).columns) == ["age", "job"]
    assert sorted(zip(*codes(tmp_path), strict=True)) == sorted(zip(*CODES, strict=True))


def test_parquet_text_stays_a_dictionary(tmp_path):
    pq.write_table(TABLE, tmp_path / "t.parquet")
    batch = next(open_source(tmp_path / "t.parquet").batches(["job", "age"]))
    assert pa.types.is_dictionary(batch.column("job").type)
    assert batch.schema.names == ["job", "age"]


def test_parquet_identifiers_are_no_dictionary(tmp_path):
    ids = pa.array([f"person {number}" for number in range(20_000)])
    pq.write_table(pa.table({"id": ids, "job": ["cook"] * len(ids)}), tmp_path / "t.parquet")
    batch = next(open_source(tmp_path / "t.parquet").batches(["id", "job"]))
    assert [pa.types.is_dictionary(kind) for kind in batch.schema.types] == [False, True]
    assert batch.column("id").equals(ids)


def test_small_row_groups_are_joined_and_order_is_kept(tmp_path):
    table = pa.table({"age": pa.array(range(5000))})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7)
    batches = list(open_source(tmp_path / "t.parquet").batches(["age"]))
    assert [age for batch in batches for age in batch.column(0).to_pylist()] == list(range(5000))


def test_csv_order_is_kept(tmp_path):
    count = 400_000
    path = write_csv(tmp_path, "age\n" + "\n".join(str(number) for number in range(count)))
    batches = list(open_source(path).batches(["age"]))
    assert max(batch.num_rows for batch in batches) <= BATCH_ROWS
    found = pa.concat_arrays([batch.column(0) for batch in batches]).cast(pa.int64())
    assert found.equals(pa.array(range(count)))


def test_large_batches_are_cut():
    stream = pa.table({"age": pa.array(range(BATCH_ROWS + 5))}).combine_chunks()
    for source in (stream, pa.RecordBatchReader.from_stream(stream), stream.to_pandas()):
        sizes = [batch.num_rows for batch in open_source(source).batches(["age"])]
        assert sum(sizes) == BATCH_ROWS + 5
        assert max(sizes) <= BATCH_ROWS


@pytest.mark.parametrize("group", [BATCH_ROWS // 3, BATCH_ROWS, 2 * BATCH_ROWS])
def test_batches_of_text_end_with_their_row_groups(tmp_path, group):
    """Each of them costs time, and Arrow ends one with each row group anyway."""
    rows = 2 * BATCH_ROWS + 7
    text = pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) % 3, pa.int8()), ["a", "b", "c"])
    path = tmp_path / "text.parquet"
    pq.write_table(pa.table({"word": text}), path, row_group_size=group, store_schema=False)
    batches = list(open_source(path).batches(["word"]))
    least = min(group, BATCH_ROWS)
    assert [batch.num_rows for batch in batches] == [least] * (rows // least) + [rows % least]
    found = [batch.column(0).dictionary_decode() for batch in batches]
    assert pa.concat_arrays(found).equals(text.dictionary_decode())


def test_database_tables(tmp_path):
    path = write_database(tmp_path)
    for table in ("people", "main.people", "other.odd.name", "seen"):
        assert codes(open_source(path, table=table)) == CODES


def test_a_database_with_one_table_needs_no_name(tmp_path):
    with duckdb.connect(str(tmp_path / "one.db")) as connection:
        connection.register("given", TABLE)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    assert codes(tmp_path / "one.db") == CODES


def test_columns_rows_and_description(tmp_path):
    assert open_source(TABLE).rows == 4
    assert open_source(TABLE.to_pandas()).rows == 4
    assert open_source(pl.from_arrow(TABLE)).rows == 4
    csv = open_source(write_csv(tmp_path))
    assert csv.rows is None
    assert csv.columns == ["name", "age", "job"]
    assert csv.description == f"The CSV file '{tmp_path / 'people.csv'}'"
    assert open_source(csv) is csv


def test_a_table_without_rows(tmp_path):
    assert codes(TABLE.slice(0, 0)) == [[], []]
    assert codes(TABLE.to_pandas().iloc[:0]) == [[], []]
    assert codes(write_csv(tmp_path, "name,age,job\n")) == [[], []]
    pq.write_table(TABLE.slice(0, 0), tmp_path / "none.parquet")
    assert codes(tmp_path / "none.parquet") == [[], []]


def test_a_stream_flows_once():
    rows = Rows(TABLE.to_reader(), SCHEMA)
    assert len(list(rows.batches(["age"]))) == 1
    with pytest.raises(SourceError, match="can be read only once, and this needs a second pass"):
        list(rows.batches(["age"]))


def test_a_column_of_pandas_that_is_not_needed_may_be_of_any_kind():
    frame = TABLE.to_pandas().assign(odd=[1, "x", object(), None])
    assert codes(frame) == CODES


def write_pipe(folder):
    os.mkfifo(folder / "pipe.csv")
    return folder / "pipe.csv"


REFUSED = {
    "no file": (lambda folder: folder / "none.csv", "There is no file"),
    "no match": (lambda folder: str(folder / "*.parquet"), "There is no file"),
    "pipe": (write_pipe, "is a pipe or a device: write the table to a file first."),
    "csv pattern": (lambda folder: str(write_csv(folder).parent / "*.csv"), "Parquet files only"),
    "empty folder": (lambda folder: folder, "holds no Parquet file"),
    "empty file": (lambda folder: write_csv(folder, ""), "is empty: it has no header line"),
    "twice": (lambda folder: write_csv(folder, "age,job,age\n"), "the columns 1 and 3. Does"),
    "lost": (lambda folder: write_csv(folder, "age,jib\n"), "It has 2 columns, among them 'age'."),
    "latin": (lambda folder: write_csv(folder, "age,job\n1,é\n".encode("latin-1")), "not UTF-8"),
    "late latin": (
        lambda folder: write_csv(folder, b"age,job\n" + b"1,cook\n" * 90_000 + b"1,\xe9\n"),
        "converts a Windows or Latin-1 file) (line",
    ),
    "utf-16": (
        lambda folder: write_csv(folder, CSV.encode("utf-16")),
        "it is UTF-16 text, not UTF-8 (iconv -f utf-16 -t utf-8 converts it).",
    ),
    "other mark": (
        lambda folder: write_csv(folder, CSV.replace(",", "~")),
        "header line? Commas, semicolons, tabs or bars separate the columns of a CSV file.",
    ),
    "long line": (
        lambda folder: write_csv(folder, f"age,job\n1,{'x' * 2_100_000}\n"),
        "a line is longer than 2,000,000 bytes",
    ),
    "bytes": (lambda folder: write_csv(folder, b"\x7fELF\0\0age,job\n1,cook\n"), "it is not text"),
    "workbook": (lambda folder: write_csv(folder, b"PK\3\4\0", "a.xlsx"), "save it as CSV (UTF-8)"),
    "archive": (lambda folder: write_csv(folder, b"PK\3\4\0\6"), "is a workbook or an archive"),
    "short line": (lambda folder: write_csv(folder, "age,job\n1,cook\n2\n"), "header (line 3)"),
    "mixed ends": (lambda folder: write_csv(folder, b"age,job\n1,a\r\n2,b\n"), "not all end alike"),
    "letters": (lambda folder: write_csv(folder, "Age,job\n"), "lower case count: it has 'Age'."),
    "quote": (lambda folder: write_csv(folder, 'age,job\n1,"cook\n'), "not closed (line 2)"),
    "not gzip": (
        lambda folder: write_csv(folder, CSV, "a.csv.gz"),
        "its name ends in .gz and it is not compressed; rename it",
    ),
    "cut gzip": (
        lambda folder: write_csv(folder, gzip.compress(CSV.encode() * 9999)[:-20], "a.csv.gz"),
        "gzip compression is damaged",
    ),
    "not parquet": (lambda folder: write_csv(folder, CSV, "a.parquet"), "is damaged"),
    "not duckdb": (lambda folder: write_csv(folder, CSV * 999, "a.duckdb"), "is damaged"),
    "no table": (
        write_database,
        "name one with table='NAME'. Its tables: 'people', 'seen', 'other.odd.name'.",
    ),
    "number": (lambda folder: 3, "Got a int instead"),
    "lazy": (lambda folder: pl.from_arrow(TABLE).lazy(), "Call .collect() on it first"),
    "pandas twice": (
        lambda folder: pd.DataFrame([[1, 2]], columns=["age", "age"]), "of the same name"
    ),
    "arrow twice": (
        lambda folder: pa.table([[1], [2]], names=["age", "age"]), "same name, the columns 1 and 2"
    ),
    "mixed": (
        lambda folder: pd.DataFrame({"age": [1, "x"], "job": ["cook", "cook"]}),
        "Column 'age', row 2: the value is outside the domain",
    ),
}  # fmt: skip


def test_refused_in_one_sentence(tmp_path_factory, subtests):
    for name in REFUSED:
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            make, sentence = REFUSED[name]
            with pytest.raises(SourceError) as caught:
                codes(make(tmp_path))
            assert sentence in str(caught.value)


def test_a_damaged_page_of_parquet(tmp_path):
    pq.write_table(pa.table({"age": range(1000), "job": ["cook"] * 1000}), tmp_path / "t.parquet")
    raw = bytearray((tmp_path / "t.parquet").read_bytes())
    raw[4:80] = b"\xff" * 76
    (tmp_path / "t.parquet").write_bytes(raw)
    with pytest.raises(SourceError, match="is damaged"):
        codes(tmp_path / "t.parquet")


def test_a_part_that_lacks_a_column(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    pq.write_table(TABLE.drop_columns("job"), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match="has a file without the column 'job'"):
        codes(tmp_path)


def test_table_is_for_databases(tmp_path):
    with pytest.raises(SourceError, match="has no table 'q'"):
        open_source(write_database(tmp_path), table="q")
    with pytest.raises(SourceError, match="Only a DuckDB file has tables"):
        open_source(write_csv(tmp_path), table="people")
    with pytest.raises(SourceError, match="Only a DuckDB file has tables"):
        open_source(TABLE, table="people")


def test_a_database_held_open_elsewhere(tmp_path):
    path = write_database(tmp_path)
    with duckdb.connect(str(path)), pytest.raises(SourceError, match="holds it open"):
        open_source(path, table="people")


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_a_pass_may_be_left_early(tmp_path, kind):
    table = pa.table({"age": np.zeros(3 * BATCH_ROWS, np.int64), "job": ["cook"] * 3 * BATCH_ROWS})
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=BATCH_ROWS)
    elif kind == "csv":
        arrow_csv.write_csv(table, path)
    else:
        with duckdb.connect(str(path)) as connection:
            connection.register("given", table)
            connection.execute("CREATE TABLE t AS SELECT * FROM given")
    source = open_source(path)
    for _ in range(2):
        batches = source.batches(["age"])
        assert next(batches).num_rows > 0
        batches.close()
    assert sum(batch.num_rows for batch in source.batches(["age"])) == 3 * BATCH_ROWS


def test_rows_to_expect_of_a_csv_file(tmp_path):
    """For a progress bar: from the length of the first lines. None where nothing is known."""
    path = tmp_path / "people.csv"
    path.write_text("age\n" + "10\n" * 200_000)
    assert abs(expected_rows(path) - 200_000) < 2_000
    pq.write_table(pa.table({"age": [1, 2, 3]}), tmp_path / "people.parquet")
    assert expected_rows(tmp_path / "people.parquet") == 3
    assert expected_rows(tmp_path / "none.csv") is None


def test_lists_parts_and_samples_are_chosen_in_one_place():
    made = re.compile(r"(?<!class )\b(?:LongRows|PartOfSource|SampledSource)\(")
    package = Path(scumble.__file__).parent
    found = [path.name for path in package.rglob("*.py") if made.search(path.read_text())]
    assert found == ["open.py"]


def test_one_call_groups_rows_and_takes_a_part_of_them():
    rows = pa.table({"b": [1, 1, 2, 2, 3], "sex": list("ffmmf"), "x": list("abcde")})
    sex = Attribute("sex", "quasi", Category(("f", "m")))
    options = {"basket": "b", "lists": ["x"], "require": ["sex"]}
    source = open_source(rows, part=(sex, "f"), **options)
    table = pa.Table.from_batches(source.batches(["b", "x"]))
    assert table.to_pydict() == {"b": [1, 3], "x": [["a", "b"], ["e"]]}
    assert source.grouped
    with pytest.raises(SourceError, match="has no column 'age'"):
        open_source(rows, basket="b", require=["age"])


def test_a_release_is_not_a_table(tmp_path: Path) -> None:
    """A folder of Parquet files with another manifest.json is one."""
    scumble.publish(TABLE, SCHEMA, scumble.Uniform(epsilon=1)).save(tmp_path / "release")
    with pytest.raises(SourceError, match="is a release, which is public already, and not a table"):
        open_source(str(tmp_path / "release"))
    plain = tmp_path / "plain"
    plain.mkdir()
    pq.write_table(TABLE, plain / "a.parquet")
    (plain / "manifest.json").write_text("{}")
    assert open_source(str(plain)) is not None
