"""Values of any type are encoded and decoded."""

import random
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scumble.model.errors import SchemaError
from scumble.model.schema.attribute import Attribute, WordCodes
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, IntegerRange
from tests.support.drawn import attributes

PUBLISHED = attributes().filter(lambda attribute: attribute.domain is not None)
COLOURS = Category(("red", "green", " blue "))


def some_codes(attribute: Attribute, seed: int = 0) -> np.ndarray:
    """Return the first and last codes, and a few between."""
    size = attribute.size
    chosen = {0, size - 1, size // 2, *(random.Random(seed).randrange(size) for _ in range(20))}
    return np.array(sorted(chosen), attribute.code_type)


def encoded(attribute: Attribute, values: pa.Array) -> list[int | None]:
    """Return the codes, None for values outside the domain."""
    codes, outside = attribute.encode(values)
    assert codes.dtype == attribute.code_type
    assert outside.dtype == bool
    assert not codes[outside].any()
    return [None if out else int(code) for code, out in zip(codes, outside, strict=True)]


@settings(max_examples=40)
@given(PUBLISHED)
def test_codes_come_back(attribute):
    codes = some_codes(attribute)
    values = attribute.decode(codes)
    back, outside = attribute.encode(values)
    assert np.array_equal(back, codes)
    assert not outside.any()
    assert values.null_count == (int(codes[-1]) == attribute.size - 1) * attribute.missing


@settings(max_examples=40)
@given(PUBLISHED.filter(lambda attribute: not isinstance(attribute.domain, Bins)))
def test_codes_come_back_from_text(attribute):
    codes = some_codes(attribute)
    texts = [None if v is None else str(v) for v in attribute.decode(codes).to_pylist()]
    back, outside = attribute.encode(pa.array(texts, pa.string()))
    assert np.array_equal(back, codes)
    assert not outside.any()


@settings(max_examples=40)
@given(PUBLISHED.filter(lambda attribute: attribute.size < 10_000))
def test_labels_are_the_values_of_all_codes(attribute):
    labels = attribute.labels()
    every = np.arange(attribute.size, dtype=attribute.code_type)
    assert labels.type == attribute.arrow_type
    assert labels.to_pylist() == attribute.decode(every).to_pylist()
    assert len(labels) == attribute.size
    assert (labels[-1].as_py() is None) == attribute.missing


@settings(max_examples=40)
@given(PUBLISHED)
def test_dictionaries_chunks_and_slices_make_no_difference(attribute):
    values = attribute.decode(some_codes(attribute))
    expected = encoded(attribute, values)
    if not isinstance(values, pa.DictionaryArray):
        assert encoded(attribute, values.dictionary_encode()) == expected
    chunked = pa.chunked_array([values.slice(0, 1), values.slice(1)])
    assert encoded(attribute, chunked) == expected
    assert encoded(attribute, values.slice(1)) == expected[1:]


@settings(max_examples=40)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5))))
def test_integers_against_plain_python(values):
    attribute = Attribute("x", "quasi", IntegerRange(-3, 4), missing=True)
    expected = [
        8 if v is None else v + 3 if -3 <= v <= 4 else None for v in values
    ]  # fmt: skip
    assert encoded(attribute, pa.array(values, pa.int64())) == expected
    assert encoded(attribute, pa.array([None if v is None else str(v) for v in values])) == expected


@settings(max_examples=40)
@given(st.lists(st.floats(-2, 12) | st.just(float("nan"))), st.booleans())
def test_bins_against_plain_python(values, missing):
    edges = (-1.0, 0.0, 0.5, 10.0)

    def code(value: float) -> int | None:
        if value != value:
            return 3 if missing else None
        if value == edges[-1]:
            return 2
        return next((k for k in range(3) if edges[k] <= value < edges[k + 1]), None)

    attribute = Attribute("x", "quasi", Bins(edges), missing=missing)
    assert encoded(attribute, pa.array(values, pa.float64())) == [code(v) for v in values]
    spelled = pa.array(["" if v != v else repr(v) for v in values], pa.string())
    assert encoded(attribute, spelled) == [code(v) for v in values]


AGE = Attribute("age", "quasi", IntegerRange(17, 90), missing=True, null_words=("?", "99"))
SMOKES = Attribute("smokes", "quasi", Boolean())
MONTHS = Attribute("month", "quasi", Dates(date(2024, 1, 15), date(2024, 3, 2), "month"))
DAYS = Attribute("day", "quasi", Dates(date(2024, 1, 15), date(2024, 3, 2)))
YEARS = Attribute("year", "quasi", Dates(date(2019, 6, 1), date(2021, 6, 1), "year"))
CODES = Attribute("code", "quasi", Category((5, -3, 100)), missing=True)
FAR = Attribute("far", "quasi", Category((5, -3, 10**15)), missing=True)
COLOUR = Attribute("colour", "quasi", COLOURS, missing=True, null_words=("NA",))
DIGITS = Attribute("digit", "quasi", Category(("1", "2", "0", "1.5")), missing=True)
BIG = Attribute("big", "quasi", Category((2**53 + 1,)), missing=True, null_words=(f"{2**53 + 2}",))
WEIGHT = Attribute("weight", "quasi", Bins((0, 10, 20.5)))

SPELLINGS = [
    (AGE, ["17", " 18 ", "+19", "20.0", "2.1e1", "?", "", "  ", None], [0, 1, 2, 3, 4, *[74] * 4]),
    (AGE, ["16", "91", "x", "17.5", "1_8", "0x12", "nan", "9" * 30, "1e999"], [None] * 9),
    (AGE, ["9223372036854775807", "-9223372036854775808", "9223372036854775808"], [None] * 3),
    (AGE, [17.0, 18.5, float("nan"), float("inf"), 1e300, None], [0, None, 74, None, None, 74]),
    (AGE, [99, 17, 98], [74, 0, None]),
    (AGE, [99.0, 17.0], [74, 0]),
    (AGE, ["99", "17"], [74, 0]),
    (AGE, [Decimal("17"), Decimal("18.5"), None], [0, None, 74]),
    (AGE, [True, False], [None, None]),
    (AGE, [None, None], [74, 74]),
    (AGE, [date(2024, 1, 1)], [None]),
    (AGE, [], []),
    (SMOKES, ["True", "NO", "t", "F", "y", "n", "1", "0", "1.0", "0.0"], [1, 0] * 2 + [1, 0] * 3),
    (SMOKES, ["maybe", "2", "", None], [None] * 4),
    (SMOKES, [1, 0, 2, -1], [1, 0, None, None]),
    (SMOKES, [1.0, 0.0, 0.5], [1, 0, None]),
    (SMOKES, [True, False, None], [1, 0, None]),
    (
        MONTHS,
        ["2024-01-01", "2024-03-31 23:59", "2024-02", "2024-02-30", "2024"],
        [0, 2, 1, None, None],
    ),
    (MONTHS, [date(2023, 12, 31), date(2024, 1, 1), date(2024, 4, 1)], [None, 0, None]),
    (MONTHS, [datetime(2024, 2, 29, 23, 59), datetime(2024, 4, 1)], [1, None]),
    (DAYS, ["2024-01-15T10:00:00Z", "2024-01-14", "2024-03-02", "15.01.2024"], [0, None, 47, None]),
    (DAYS, ["2024-02", 3], [None, None]),
    (YEARS, ["2019", "2021-12-31", "2022-01"], [0, 2, None]),
    (YEARS, [2019, 2021, 2022], [0, 2, None]),
    (YEARS, [2019.0, 2021.0, None, 2020.5, float("nan"), 1e300], [0, 2, *[None] * 4]),
    (YEARS, [Decimal("2019.0"), Decimal("2020.5")], [0, None]),
    (CODES, [5, -3, 100, 4, 10**12, None], [0, 1, 2, None, None, 3]),
    (CODES, ["5", "-3.0", "100", "x"], [0, 1, 2, None]),
    (FAR, [5, -3, 10**15, 4, None], [0, 1, 2, None, 3]),
    (FAR, [5.0, 1e15, 0.5], [0, 2, None]),
    (COLOUR, ["red", " green", " blue ", "blue", "Red", "NA", " NA "], [0, 1, 2, None, None, 3, 3]),
    (DIGITS, [1.0, 2.0, None, float("nan"), 3.0, -0.0, 1.5, 1e300], [0, 1, 4, 4, None, 2, 3, None]),
    (DIGITS, [1, 2, 0, 15], [0, 1, 2, None]),
    (DIGITS, [Decimal("1.00"), Decimal("1.50"), Decimal("-0.00")], [0, 3, 2]),
    (DIGITS, ["1", "1.0", "01", " 1.5"], [0, None, None, 3]),
    (BIG, [Decimal(2**53 + 1), Decimal(2**53)], [0, None]),
    (BIG, [2**53 + 1, 2**53, 2**53 + 2], [0, None, 1]),
    (BIG, [b"9007199254740993", b"\xff", b""], [0, None, 1]),
    (WEIGHT, [0, 10, 20, 21, -1], [0, 1, 1, None, None]),
    (WEIGHT, ["0", "9.99", "20.5", ".5", "1e1", "1e400", "ten"], [0, 0, 1, 0, 1, None, None]),
    (WEIGHT, [Decimal("9.99"), Decimal("10.00")], [0, 1]),
]


def test_values_of_other_types(subtests: pytest.Subtests) -> None:
    for attribute, values, codes in SPELLINGS:
        with subtests.test(attribute=attribute.name, values=values):
            if len({type(value) for value in values} - {type(None)}) > 1:
                values = [None if value is None else str(value) for value in values]
            array = pa.array(values) if values else pa.array([], pa.string())
            assert encoded(attribute, array) == codes
            assert encoded(attribute, array.dictionary_encode()) == codes


def test_every_layout_of_text(subtests: pytest.Subtests) -> None:
    for kind in [
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
        *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.large_string())),
    ]:
        with subtests.test(kind=kind):
            values = pa.array(["red", None, "green", "white"]).cast(kind)
            assert encoded(COLOUR, values) == [0, 3, 1, None]


def test_bytes_that_are_not_text_are_outside():
    assert encoded(COLOUR, pa.array([b"\xff\xfe"])) == [None]


def test_every_width_of_numbers(subtests: pytest.Subtests) -> None:
    for kind in ["int8", "int16", "int32", "uint8", "uint16", "uint64", "float32"]:
        with subtests.test(kind=kind):
            values = pa.array([17, 90, 91, None], getattr(pa, kind)())
            assert encoded(AGE, values) == [0, 73, None, 74]


def test_numbers_and_text_of_numpy():
    assert IntegerRange(np.int64(1), np.uint8(9)) == IntegerRange(1, 9)
    assert Category(tuple(np.array([1, 2]))) == Category((1, 2))
    assert Category(tuple(np.array(["a", "b"]))) == Category(("a", "b"))
    assert Bins(tuple(np.array([0, 1], np.float32))) == Bins((0, 1))
    assert type(IntegerRange(np.int64(1), np.uint8(9)).high) is int
    with pytest.raises(SchemaError, match="must be two whole numbers"):
        IntegerRange(np.float64(1.5), 2)


def test_numbers_above_the_signed_range_are_outside():
    attribute = Attribute("x", "quasi", IntegerRange(-(2**63), 2**63 - 1))
    values = pa.array([0, 2**63, 2**64 - 1], pa.uint64())
    assert encoded(attribute, values) == [2**63, None, None]
    assert attribute.size == 2**64
    assert attribute.code_type == np.uint64


def test_a_large_domain_uses_wide_codes():
    attribute = Attribute("x", "quasi", IntegerRange(-(10**12), 10**12), missing=True)
    assert encoded(attribute, pa.array([-(10**12), 10**12, None])) == [
        0,
        2 * 10**12,
        2 * 10**12 + 1,
    ]
    with pytest.raises(SchemaError, match="too many to list"):
        attribute.labels()


def test_unused_entries_of_a_dictionary_do_no_harm():
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["red", None, "oops"]))
    assert encoded(COLOUR, values) == [0, 3, 3]
    strict = Attribute("colour", "quasi", COLOURS)
    assert encoded(strict, values) == [0, None, None]
    assert encoded(strict, values.slice(0, 1)) == [0]


def test_a_full_dictionary_with_nulls():
    """128 entries fill signed bytes: the code of null must not wrap."""
    words = [f"w{k}" for k in range(128)]
    attribute = Attribute("x", "quasi", Category(tuple(words)), missing=True)
    values = pa.DictionaryArray.from_arrays(pa.array([127, None, 0], pa.int8()), pa.array(words))
    assert encoded(attribute, values) == [127, 128, 0]


def test_time_zones_count_days_where_the_clock_stands():
    utc = pa.array([1709427600], pa.timestamp("s", tz="UTC"))  # 2024-03-03 01:00 UTC
    west = utc.cast(pa.timestamp("s", tz="America/New_York"))  # still 2024-03-02 there
    assert encoded(DAYS, utc) == [None]
    assert encoded(DAYS, west) == [47]


def test_labels_of_bins_and_dates():
    assert WEIGHT.labels().to_pylist() == [5.0, 15.25]
    assert MONTHS.labels().to_pylist() == [date(2024, month, 1) for month in (1, 2, 3)]
    assert YEARS.labels().to_pylist() == [date(year, 1, 1) for year in (2019, 2020, 2021)]


def test_categories_are_published_as_dictionaries():
    found = COLOUR.decode(np.array([0, 3, 2], np.uint8))
    assert found.type == pa.dictionary(pa.int8(), pa.string())
    assert found.to_pylist() == ["red", None, " blue "]
    assert pa.table({"x": found}).to_pandas()["x"].tolist()[0] == "red"


def test_descriptions():
    assert AGE.describe() == "integer 17 to 90, or missing"
    assert COLOUR.describe() == "category of 3 values, or missing"
    assert Attribute("x", "quasi", Category(("a",))).describe() == "category of 1 value"
    assert WEIGHT.describe() == "number from 0 to 20.5 in 2 bins"
    assert MONTHS.describe() == "date 2024-01-15 to 2024-03-02 by month"
    assert SMOKES.describe() == "boolean"
    assert Attribute("x", "identifier").describe() == "identifier"


def test_attributes_that_cannot_be(subtests: pytest.Subtests) -> None:
    for make, sentence in [
        (lambda: Attribute("", "quasi", Boolean()), "name of an attribute must be text"),
        (lambda: Attribute("x", "secret", Boolean()), "role must be one of"),
        (lambda: Attribute("x", "quasi"), "needs a domain"),
        (lambda: Attribute("x", "identifier", Boolean()), "has no domain"),
        (lambda: Attribute("x", "quasi", Boolean(), null_words=("?",)), "need missing=True"),
        (lambda: Attribute("x", "quasi", IntegerRange(-(2**63), 2**63 - 1), True), "at most 2"),
        (lambda: Attribute("x", "quasi", IntegerRange(0, 9), True, ("?", "9")), "'9' is both a"),
        (lambda: Attribute("x", "identifier").size, "is an identifier"),
        (lambda: Attribute("x", "identifier").encode(pa.array([1])), "is an identifier"),
    ]:
        with subtests.test(sentence=sentence), pytest.raises(SchemaError, match=sentence):
            make()


def test_one_value_is_enough_for_a_sensitive_attribute_that_may_be_missing():
    assert Attribute("x", "sensitive", Category(("ill",)), missing=True).size == 2


@pytest.mark.parametrize("count", [2, 101, 102, 103, 300])
def test_few_and_many_bins_agree_with_a_search(count):
    edges = np.cumsum(np.random.default_rng(count).integers(1, 9, count)).astype(float)
    attribute = Attribute("x", "quasi", Bins(tuple(edges)))
    values = np.concatenate([edges, (edges[1:] + edges[:-1]) / 2, np.nextafter(edges, -1)[1:]])
    expected = np.minimum(np.searchsorted(edges, values, side="right") - 1, count - 2)
    assert encoded(attribute, pa.array(values)) == expected.tolist()


def test_dictionaries_of_batches_are_encoded_by_their_words():
    """The same indices with other words, other null words, other types: as without a memory."""
    attribute = Attribute("job", "quasi", Category(("a", "b", "c")), missing=True)
    words = WordCodes(attribute)
    for dictionary in (["a", "b"], ["a", "b"], ["b", "a"], ["b", "x"], ["b", ""], [b"b", b"\xff"]):
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(dictionary))
        for found, expected in zip(
            attribute.encode(column, words), attribute.encode(column), strict=True
        ):
            assert np.array_equal(found, expected)
