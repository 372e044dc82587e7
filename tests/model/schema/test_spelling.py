"""Declared spellings of dates, numbers and truth values: what is read, refused, and written."""

from datetime import date

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scumble.model.errors import SchemaError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Boolean, Dates, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.model.schema.spelling import Spelling
from scumble.private.tables.rows import Rows

YEAR = Dates(date(2024, 1, 1), date(2024, 12, 31))
UNREAD = object()

READ = {
    "day first": (
        Attribute("x", "quasi", YEAR, spelling=Spelling(format="%d.%m.%Y")),
        {
            "31.12.2024": date(2024, 12, 31),
            " 1.2.2024 ": date(2024, 2, 1),
            "01.02.2024 10:15": date(2024, 2, 1),
            "2024-02-01": UNREAD,
            "12.31.2024": UNREAD,
            "30.02.2024": UNREAD,
            "01.02.24": UNREAD,
        },
    ),
    "month first": (
        Attribute("x", "quasi", YEAR, spelling=Spelling(format="%m/%d/%Y")),
        {"12/31/2024": date(2024, 12, 31), "3/4/2024": date(2024, 3, 4), "31/12/2024": UNREAD},
    ),
    "without marks": (
        Attribute("x", "quasi", YEAR, spelling=Spelling(format="%Y%m%d")),
        {"20240304": date(2024, 3, 4), "2024034": UNREAD},
    ),
    "months": (
        Attribute(
            "x", "quasi", Dates(YEAR.low, YEAR.high, "month"), spelling=Spelling(format="%m/%Y")
        ),
        {"3/2024": date(2024, 3, 1), "2024-03": UNREAD},
    ),
    "decimal comma": (
        Attribute("x", "quasi", Bins((0, 10, 1000, 5000)), spelling=Spelling(decimal=",")),
        {
            "9,5": 5,
            "1.234,56": 3000,
            "1 234": 3000,
            "1'234,0": 3000,
            "1234": 3000,
            "9.5": UNREAD,
            "1,5,6": UNREAD,
        },
    ),
    "decimal point": (
        Attribute("x", "quasi", Bins((0, 10, 1000, 5000)), spelling=Spelling(decimal=".")),
        {"9.5": 5, "1,234.56": 3000, "9,5": UNREAD, "12,34": UNREAD},
    ),
    "whole numbers": (
        Attribute("x", "quasi", IntegerRange(0, 9999), spelling=Spelling(decimal=",")),
        {"1.234": 1234, "17,0": 17, "17,5": UNREAD},
    ),
    "words": (
        Attribute("x", "quasi", Boolean(), spelling=Spelling(true="ja", false="nein")),
        {"Ja": True, " NEIN": False, "yes": UNREAD, "true": UNREAD},
    ),
}


@pytest.mark.parametrize("name", READ)
def test_values_are_read_as_declared(name):
    attribute, cases = READ[name]
    codes, outside = attribute.encode(pa.array(list(cases)))
    found = attribute.decode(codes).to_pylist()
    read = [UNREAD if out else value for value, out in zip(found, outside, strict=True)]
    assert read == list(cases.values())
    assert Schema.loads(Schema((attribute,)).dumps()) == Schema((attribute,))
    assert Attribute.from_dict(attribute.to_dict()) == attribute


def test_values_of_their_own_type_are_read_as_they_are():
    for name in ("day first", "decimal comma", "words"):
        attribute, _ = READ[name]
        labels = attribute.labels()
        codes, outside = attribute.encode(labels)
        assert codes.tolist() == list(range(attribute.size))
        assert not outside.any()


def test_numbers_may_be_the_words():
    """Many surveys have 1 for yes and 2 for no."""
    attribute = Attribute("x", "quasi", Boolean(), spelling=Spelling(true="1", false="2"))
    for values in (pa.array([1, 2, 3]), pa.array([1.0, 2.0, 3.0]), pa.array(["1", "2", "3"])):
        codes, outside = attribute.encode(values)
        assert codes.tolist()[:2] == [1, 0]
        assert outside.tolist() == [False, False, True]


def test_words_for_missing_have_the_spelling_of_the_table():
    day = Attribute(
        *("x", "quasi", YEAR, True, ("01.01.1900", "?")), spelling=Spelling(format="%d.%m.%Y")
    )
    codes, outside = day.encode(pa.array(["01.01.1900", "?", "", None, "02.01.2024"]))
    assert codes.tolist() == [366, 366, 366, 366, 1]
    assert not outside.any()
    with pytest.raises(SchemaError, match="both a value and a word for a missing value"):
        Attribute(
            *("x", "quasi", YEAR, True, ("01.02.2024",)), spelling=Spelling(format="%d.%m.%Y")
        )
    number = Attribute(
        *("x", "quasi", Bins((0, 9)), True, ("-9,5",)), spelling=Spelling(decimal=",")
    )
    assert number.encode(pa.array([-9.5, 1.0]))[0].tolist() == [1, 0]


TABLE = {"a": ["01.02.2024", "31.12.2024"], "b": ["1,5", "2,5"], "c": ["ja", "nein"]}
SCHEMA = Schema(
    (
        Attribute("a", "quasi", YEAR, spelling=Spelling(format="%d.%m.%Y")),
        Attribute("b", "quasi", Bins((1, 2, 3)), spelling=Spelling(decimal=",")),
        Attribute("c", "quasi", Boolean(), spelling=Spelling(true="ja", false="nein")),
    )
)


def test_every_source_of_text_is_read_alike(tmp_path, subtests):
    table = pa.table(TABLE)
    pq.write_table(table, tmp_path / "t.parquet")
    lines = ["a;b;c", *(";".join(row) for row in zip(*TABLE.values(), strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    coded = pa.table({name: pa.array(values).dictionary_encode() for name, values in TABLE.items()})
    bytes_ = pa.table({name: pa.array(values).cast(pa.binary()) for name, values in TABLE.items()})
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.register("rows", table)
        connection.execute("CREATE TABLE t AS FROM rows")
    sources = {
        "arrow": table,
        "dictionaries": coded,
        "bytes": bytes_,
        "pandas": pd.DataFrame(TABLE),
        "pandas objects": pd.DataFrame(TABLE, dtype=object),
        "polars": pl.DataFrame(TABLE),
        "csv": tmp_path / "t.csv",
        "parquet": tmp_path / "t.parquet",
        "duckdb": tmp_path / "t.duckdb",
    }
    for name, source in sources.items():
        with subtests.test(name=name):
            [codes] = Rows(source, SCHEMA).batches(["a", "b", "c"])
            assert [column.tolist() for column in codes] == [[31, 365], [0, 1], [1, 0]]


WRONG = {
    'type = "date"\nrange = [2024-01-01, 2024-12-31]\nformat = "dd.mm.yyyy"': "made of %d, %m and",
    'type = "date"\nrange = [2024-01-01, 2024-12-31]\nformat = "%d.%m.%y"': "a year of four digits",
    'type = "date"\nrange = [2024-01-01, 2024-12-31]\nformat = "%m.%Y"': "must name the day",
    'type = "date"\nrange = [2024-01-01, 2024-12-31]\nformat = 5': "'format' must be text",
    'type = "date"\nrange = [2024-01-01, 2024-12-31]\ndecimal = ","': "not for type date, which",
    'type = "binned"\nedges = [1, 2]\ndecimal = ";"': "the mark before decimals",
    'type = "boolean"\ntrue = "ja"': "Give both words, 'true' and 'false'",
    'type = "boolean"\ntrue = "ja"\nfalse = "JA"': "must be two words",
    'type = "category"\nvalues = ["ja"]\ntrue = "ja"': "'true' is not for type category",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_declarations_are_refused(text):
    with pytest.raises(SchemaError, match="Attribute 'x': ") as caught:
        Schema.loads(f'[attributes.x]\nrole = "quasi"\n{text}\n')
    assert WRONG[text] in str(caught.value)


def test_a_spelling_for_another_type_is_refused():
    with pytest.raises(SchemaError, match="'decimal' is not for type boolean"):
        Attribute("x", "quasi", Boolean(), spelling=Spelling(decimal=","))
