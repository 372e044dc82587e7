"""The row of one person never changes how the rows of others are counted.

Every guarantee of differential privacy rests on this: the counts of tables that differ in one row
differ by one in total, whatever the row contains and whatever type the table has.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scumble.model.errors import DomainError
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables import files, frames, source
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.rows import Rows

PIECE = 3  # rows in a batch, so that small tables have several
DAYS = (date(2023, 1, 1), date(2025, 12, 31))
DOMAINS = {
    "text": Category(("1", "2", "a", "b", "1.5", "true")),
    "numbers": Category((1, 2, 2024)),
    "range": IntegerRange(0, 9),
    "bins": Bins((0, 1.5, 50)),
    "truth": Boolean(),
    "day": Dates(*DAYS),
    "year": Dates(*DAYS, "year"),
}
SCHEMA = Schema(
    (
        Attribute("person", "identifier"),
        *(
            Attribute(name, "quasi", domain, missing=True, null_words=("?", "77"))
            for name, domain in DOMAINS.items()
        ),
    )
)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    for room in (source, files, frames):
        monkeypatch.setattr(room, "BATCH_ROWS", PIECE)


def unchecked(values, large=False):
    """Return text that was not checked to be UTF-8."""
    raw = pa.array(values, pa.large_binary() if large else pa.binary())
    kind = pa.large_string() if large else pa.string()
    return pa.Array.from_buffers(kind, len(raw), raw.buffers(), raw.null_count)


def runs(values):
    array = pa.array(values)
    ends = pa.array(range(1, len(array) + 1), pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, array)


def typed(kind):
    return lambda values: pa.array(values, kind)


def ticks(unit, zone=None):
    return lambda values: pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone))


def second(power):
    """Return timestamps of 2024 and some out of range, as numbers of ticks."""
    usual = [1_704_067_200 * 1000**power, 1_720_000_000 * 1000**power]
    return usual, [None, -1, 2**63 - 1, -(2**63), 253_402_300_800 * 1000**power]


BYTES = ([b"1", b"a", b"true"], [b"\xff", b"1\xff", b"\xed\xa0\x80", b"", b"\0", b" 1 ", None])
WORDS = (["1", " 2", "a", "2024", "2024-03-01"], ["x", "", "?", "9" * 40, "1e999999999999", "é"])
WHOLE = ([1, 2, 3, 77], [None, -128, 127])
FLOATS = ([1.0, 2.0, 0.0, 2024.0], [float("nan"), float("inf"), -0.0, 1.5, 60000.0, None])
# How an Arrow column is made, values that are usual in it, and strange ones.
COLUMNS = {
    "binary": (typed(pa.binary()), *BYTES),
    "large binary": (typed(pa.large_binary()), *BYTES),
    "binary view": (typed(pa.binary_view()), *BYTES),
    "fixed binary": (typed(pa.binary(1)), [b"1", b"2", b"a"], [b"\xff", b"\0", None]),
    "bytes in dictionaries": (lambda v: pa.array(v, pa.binary()).dictionary_encode(), *BYTES),
    "unchecked text": (unchecked, *BYTES),
    "unchecked large text": (lambda v: unchecked(v, large=True), *BYTES),
    "unchecked dictionaries": (lambda v: unchecked(v).dictionary_encode(), *BYTES),
    "text": (typed(pa.string()), *WORDS),
    "text view": (typed(pa.string_view()), *WORDS),
    "dictionaries": (lambda v: pa.array(v, pa.string()).dictionary_encode(), *WORDS),
    "runs": (runs, *WORDS),
    "int8": (typed(pa.int8()), *WHOLE),
    "int64": (typed(pa.int64()), WHOLE[0], [None, 2**63 - 1, -(2**63), 2**53 + 1]),
    "uint64": (typed(pa.uint64()), WHOLE[0], [None, 2**64 - 1, 2**63]),
    "numbers in dictionaries": (lambda v: pa.array(v, pa.int32()).dictionary_encode(), *WHOLE),
    "float16": (lambda v: pa.array(v, pa.float64()).cast(pa.float16()), *FLOATS),
    "float32": (typed(pa.float32()), *FLOATS),
    "float64": (typed(pa.float64()), FLOATS[0], [*FLOATS[1], 1e300, 2.0**63, 9007199254740993.0]),
    "decimal": (
        typed(pa.decimal128(38, 3)),
        [Decimal("1"), Decimal("2.000"), Decimal("1.5")],
        [None, Decimal(10) ** 34, Decimal("-0.001"), Decimal("9007199254740993")],
    ),
    "truths": (typed(pa.bool_()), [True, False], [None]),
    "days": (typed(pa.date32()), [date(2024, 3, 1)], [None, date.min, date.max]),
    "milliseconds": (lambda v: pa.array(v, pa.int64()).cast(pa.date64()), [1_704_067_200_000], [0]),
    **{
        f"{unit} {zone}": (ticks(unit, zone), *second(power))
        for (power, unit), zone in product(
            enumerate(("s", "ms", "us", "ns")), (None, "Europe/Berlin")
        )
        if unit != "ns"
    },
    "lists": (typed(pa.list_(pa.int8())), [[1], [2]], [None, []]),
    "nothing": (typed(pa.null()), [None], [None]),
}

OBJECTS = [
    *(None, float("nan"), pd.NA, pd.NaT, b"\xff", b"1", "\udc80", "x", "", 1.5, 2.0, -0.0, True),
    *(1e300, float("-inf"), 2**100, -(10**5000), Decimal("1.50"), Decimal("sNaN")),
    *(Decimal("1E+99"), date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), UUID(int=1)),
    *(np.int64(1), np.float32(0.1), np.bool_(1), np.datetime64("2024-01-01")),
    *(np.timedelta64(1, "s"), pd.Timestamp("2024-01-01")),
    *([1], {"a": 1}, object(), (1, 2), np.array([1, 2]), 1 + 2j, pd.Period("2024-01")),
]  # fmt: skip
PANDAS = {
    "text": ["1", "2", " a", "2024"],
    "whole": [1, 2, 3, 77],
    "floats": [1.0, 2.0, 1.5, None],
    "mixed": ["1", 2, 1.5, date(2024, 3, 1)],
    "bytes": [b"1", b"a", b"true", None],
    "truths": [True, False, None],
}
TEXTS = ["x", "", "é", "\0", "NaN", "1e400", "0" * 50, "2024-02-30", "true", "1.0", "01", '"']
TEXTS += ["a\nb"]


def repeated(values, times):
    """Return `times` values, repeated in turn."""
    return [values[place % len(values)] for place in range(times)]


def arrow(array, people):
    """A table of one column under all names, in chunks of a few rows."""
    table = pa.table({"person": people, **dict.fromkeys(DOMAINS, array)})
    return pa.concat_tables(
        [table.slice(start, PIECE) for start in range(0, max(len(table), 1), PIECE)]
    )


def pandas(values, people, kind=object):
    columns = {"person": people, **dict.fromkeys(DOMAINS, values)}
    return pd.DataFrame({name: pd.Series(column, dtype=kind) for name, column in columns.items()})


def written(kind, folder, values, people):
    """A table of text in a file or frame."""
    given = pa.table({"person": people, **dict.fromkeys(DOMAINS, pa.array(values, pa.string()))})
    if kind == "polars":
        return pl.from_arrow(given)
    if kind == "relation":
        return duckdb.sql("SELECT * FROM given")
    path = folder / f"{len(list(folder.iterdir()))}.{kind}"
    if kind == "csv":
        given.to_pandas().to_csv(path, index=False)
    elif kind == "parquet":
        pq.write_table(given, path, row_group_size=PIECE)
    else:
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return path


def codes(source, outside="missing"):
    """The codes of every column, row by row."""
    rows = Rows(source, SCHEMA, outside=outside)
    batches = list(rows.batches(list(DOMAINS)))
    assert len(batches) > 1
    return np.array([np.concatenate(column) for column in zip(*batches, strict=True)]).T.tolist()


def counts(source, name, outside, person=None, most=1):
    rows = Rows(source, SCHEMA, outside=outside)
    table = PrivateTable(RowCounter(rows), BudgetAccount(PrivacyLoss(Fraction(1))), Keystream())
    try:
        return table.counts([name], PrivacyUnit("add_remove", most, person))._counts
    except DomainError:  # with outside="error" there is no release at all
        return None


def check_neighbours(make, usual, strange, names=tuple(DOMAINS)):
    """`make(values, people)` is a source: strange rows are added and put in the place of others."""
    count = 2 * PIECE + 2
    values, people = repeated(usual, count), [f"p{place // 2}" for place in range(count)]
    before = codes(make(values, people))
    for turn, odd in enumerate(strange):
        place = (0, 1, PIECE, count)[turn % 4]
        after = codes(make(inserted(values, place, odd), inserted(people, place, "new")))
        assert after[:place] + after[place + 1 :] == before
        after = codes(make([*values[:1], odd, *values[2:]], people))
        assert after[:1] + after[2:] == before[:1] + before[2:]
    for turn, (outside, person, name) in enumerate(
        product(("drop", "missing", "error"), (None, "person"), names)
    ):
        odd = strange[turn % len(strange)]
        one = counts(make(values, people), name, outside, person, 2)
        other = counts(make([odd, *values], ["new", *people]), name, outside, person, 2)
        if one is not None and other is not None:
            assert np.abs(one - other).sum() <= 1


def inserted(values, place, value):
    return [*values[:place], value, *values[place:]]


def test_arrow_columns(subtests):
    for name, (column, usual, strange) in COLUMNS.items():
        with subtests.test(name=name):
            check_neighbours(partial(arrow_of, column), usual, strange)


def arrow_of(column, values, people):
    return arrow(column(values), people)


def some_slow(names, quick):
    """Parameters of which all but the quick ones are slow."""
    return [pytest.param(n, marks=[] if n in quick else [pytest.mark.slow]) for n in names]


@pytest.mark.parametrize("name", some_slow(PANDAS, {"text", "mixed"}))
def test_pandas_objects(name):
    check_neighbours(pandas, PANDAS[name], OBJECTS)


@pytest.mark.parametrize("name", some_slow(PANDAS, {"floats", "mixed"}))
def test_pandas_categories(name):
    strange = [1.5, b"\xff", "x", 2**100, date(2024, 1, 1), None]
    check_neighbours(lambda v, p: pandas(v, p, "category"), PANDAS[name], strange)


def test_pandas_text():
    strange = ["\udc80", None, "", "x"]
    check_neighbours(lambda v, p: pandas(v, p, "string[python]"), PANDAS["text"], strange)


KINDS = ["csv", "parquet", "duckdb", "polars", "relation"]


@pytest.mark.parametrize("kind", some_slow(KINDS, {"csv", "parquet", "polars"}))
def test_text_in_files_and_frames(kind, tmp_path):
    usual = ["1", "2", "a", "2024-03-01", "77"]
    names = ("text", "bins") if kind in ("csv", "duckdb") else tuple(DOMAINS)  # these are slow
    strange = TEXTS[:4] if kind == "duckdb" else TEXTS
    check_neighbours(lambda v, p: written(kind, tmp_path, v, p), usual, strange, names)


PARTS = {
    "whole": pa.array([1, 2, 77]),
    "small": pa.array([1, 2, 77], pa.uint8()),
    "floats": pa.array([1.0, None, 2.5]),
    "text": pa.array(["1", "x", "2024-03-01"]),
    "bytes": pa.array([b"1", b"\xff", b"a"]),
    "days": pa.array([date(2024, 3, 1), None, date(2024, 3, 2)]),
    "nothing": pa.nulls(3),
    "truths": pa.array([True, False, None]),
}


def test_files_of_several_types(tmp_path):
    """Each file is read as it declares, whichever files are there and come first."""
    alone = {}
    for name, array in PARTS.items():
        (tmp_path / name).mkdir()
        for part in range(2):
            pq.write_table(arrow(array, ["p"] * 3), tmp_path / name / f"{part}.parquet")
        alone[name] = codes(tmp_path / name)[:3]
    for one, other in product(PARTS, PARTS):
        both = tmp_path / f"{one} {other}"
        both.mkdir()
        pq.write_table(arrow(PARTS[one], ["p"] * 3), both / "a.parquet")
        pq.write_table(arrow(PARTS[other], ["p"] * 3), both / "b.parquet")
        assert codes(both) == alone[one] + alone[other]


def test_folders_that_name_values(tmp_path):
    schema = Schema((Attribute("zip", "quasi", Category(("01", "1", "2024-01-01")), missing=True),))
    found = []
    for folder, odd in enumerate([None, "x", "1.5", "__HIVE_DEFAULT_PARTITION__", "%FF", "1%2F2"]):
        for value in ["01", "1", "2024-01-01", *([odd] if odd else [])]:
            place = tmp_path / str(folder) / f"zip={value}"
            place.mkdir(parents=True)
            pq.write_table(pa.table({"other": [1, 2]}), place / "part.parquet")
        rows = Rows(tmp_path / str(folder), schema, outside="drop")
        found.append([code for [batch] in rows.batches(["zip"]) for code in batch.tolist()])
    assert found[0] == [0, 0, 1, 1, 2, 2]
    for odd in found[1:]:
        assert [code for code in odd if code < 3] == found[0]


# Identifiers in which strange ones may not be taken for usual ones.
PEOPLE = {
    **{
        name: (lambda values, column=column: column(values), usual, strange)
        for name, (column, usual, strange) in COLUMNS.items()
        if name not in ("lists", "nothing", "fixed binary")
    },
    "objects": (None, ["1", 2, 2.5, b"three", date(2024, 3, 1)], OBJECTS),
    "object numbers": (None, [2**60, 2**60 + 1, 2**60 + 2], OBJECTS),
    "object text": (None, ["p", "q", "r"], OBJECTS),
}


def canonical(person):
    """Return the canonical identifier; None if there is none."""
    found = frames._object_text(person)
    if found in (None, frames.arrow_values.UNREADABLE):
        return None
    return found.strip() or None


def rows_of(column, people):
    values = repeated(["a", "b", "1"], len(people))[::-1]
    if column is None:
        return pandas(values, people).assign(person=pd.Series(people, dtype=object))
    return arrow(pa.array(values), column(people))


@pytest.mark.parametrize("most", some_slow([1, 2], {2}))
def test_identifiers(most, subtests):
    """One more person with many rows changes the counts by `most`; rows without one, by 0."""
    for name, (column, usual, strange) in PEOPLE.items():
        with subtests.test(name=name):
            people = repeated(usual, 4 * PIECE + 1)
            one = counts(rows_of(column, people), "text", "drop", "person", most)
            assert one.sum() == sum(
                min(most, people.count(who)) for who in set(usual) if canonical(who) is not None
            )
            for odd in strange:
                if canonical(odd) in map(canonical, usual):
                    continue
                # The rows of the odd person are at the end, so that others keep their values.
                more = [*[odd] * (2 * PIECE), *people]
                other = counts(rows_of(column, more), "text", "drop", "person", most)
                limit = 0 if canonical(odd) is None else most
                assert np.abs(one - other).sum() <= limit


def test_one_person_in_many_spellings(subtests):
    """Over batches, over types in one column, and over files of several types."""
    for same in [
        [1, 1.0, "1", " 1 ", Decimal("1.00"), b"1", np.int8(1), np.float32(1)],
        [0.0, -0.0, 0, "0", Decimal("-0.0")],
        ["id1", b"id1", " id1"],
        [date(2024, 1, 1), "2024-01-01"],
        [2.5, "2.5", Decimal("2.50")],
        [None, float("nan"), "", "  ", pd.NaT, [1], object()],
    ]:
        with subtests.test(same=same):
            frame = pandas(["a"] * 3 * len(same), same * 3)
            expected = 0 if same[0] is None else 1
            assert counts(frame, "text", "drop", "person").sum() == expected


def test_one_person_over_files_of_several_types(tmp_path):
    people = [
        pa.array([1, 2]),
        pa.array([1.0, None]),
        pa.array(["1", "02"]),
        pa.array([b"1", b"2"]),
    ]
    for place, ids in enumerate(people):
        pq.write_table(arrow(pa.array(["a", "b"]), ids), tmp_path / f"{place}.parquet")
    # 1 and 2 in the first file; of the others only 02 is new.
    assert counts(tmp_path, "text", "drop", "person").tolist()[2:4] == [1, 2]


def test_arrow_and_python_agree_on_what_utf8_is():
    """Otherwise an invalid neighbour would decide which of the two checks a value."""
    pairs = [bytes(pair) for pair in product(range(0x80, 0x100), range(0, 0x100, 3))]
    edges = (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0)
    longer = [
        bytes([lead, *rest]) for lead in range(0xE0, 0xF8) for rest in product(edges, repeat=3)
    ]
    words = [*pairs, *longer, *(word[:3] for word in longer)]

    def is_text(word: bytes) -> bool:
        try:
            return pa.array([word]).cast(pa.string()) is not None
        except pa.ArrowInvalid:
            return False

    text, garbled = frames.arrow_values.decode_text(pa.array(words))
    assert garbled.tolist() == [not is_text(word) for word in words]
    assert text.null_count == garbled.sum()
