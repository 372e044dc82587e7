"""Amounts between limits: how values of any type are clamped and rounded; what a schema says."""

from decimal import Decimal
from fractions import Fraction
from math import floor, isfinite

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scumble.model.errors import SchemaError
from scumble.model.query import ComparedLiteral, Comparison
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.comparisons import satisfying_codes
from scumble.model.schema.domains import BinnedNumber
from scumble.model.schema.numbers import Number, UnlimitedNumber, exact
from scumble.model.schema.schema import Schema
from scumble.public.sql.bin_pieces import cut_at
from tests.support.drawn import binned_numbers, numbers

MONEY = Number(0, 500_000)
CENTS = Number(-100, 100, 0.01)


def nearest_step(number: Number, value: Fraction) -> int:
    """The oracle: the code of an exact value."""
    low, high, step = exact(number.low), exact(number.high), exact(number.step)
    clamped = min(max(value, low), high)
    return floor((clamped - low) / step + Fraction(1, 2))


def codes(number: Number | BinnedNumber, values: list[object], kind: pa.DataType) -> list[int]:
    found, outside = number.encode(pa.array(values, kind))
    assert not outside.any()
    return found.tolist()


@st.composite
def near(draw: st.DrawFn, number: Number) -> Fraction:
    """A value near a step, or halfway between two, inside of the limits or beyond."""
    code = draw(st.integers(-3, number.size + 2) | st.integers(0, 5))
    shift = draw(st.sampled_from([0, Fraction(1, 2), Fraction(1, 3)]))
    tiny = draw(st.sampled_from([0, Fraction(1, 10**6), -Fraction(1, 10**6)]))
    return exact(number.low) + (code + shift + tiny) * exact(number.step)


@settings(max_examples=300)
@given(st.data())
def test_floats_are_clamped_and_rounded_as_the_decimals_they_show(data):
    number = data.draw(numbers())
    values = [float(data.draw(near(number))) for _ in range(8)]
    values += data.draw(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=4))
    expected = [nearest_step(number, Fraction(repr(value))) for value in values]
    assert codes(number, values, pa.float64()) == expected
    assert codes(number, list(map(repr, values)), pa.string()) == expected


@settings(max_examples=100)
@given(st.data())
def test_float32_is_read_as_the_decimal_it_shows(data):
    number = data.draw(numbers())
    values = [np.float32(float(data.draw(near(number)))) for _ in range(8)]
    expected = [nearest_step(number, Fraction(str(value))) for value in values]
    assert codes(number, values, pa.float32()) == expected


@settings(max_examples=200)
@given(st.data())
def test_decimals_and_long_texts_are_exact(data):
    number = data.draw(numbers())
    scaled = [floor(data.draw(near(number)) * 10**12) for _ in range(6)]
    decimals = [Decimal(each).scaleb(-12) for each in scaled]
    expected = [nearest_step(number, Fraction(each)) for each in decimals]
    assert codes(number, decimals, pa.decimal128(38, 12)) == expected
    assert codes(number, [f"{each:f}" for each in decimals], pa.string()) == expected
    assert codes(number, [f"{each:e}" for each in decimals], pa.string()) == expected


@settings(max_examples=100)
@given(numbers(), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(-50, 50))
def test_integers_of_every_width(number, values, shift):
    values = [*values, floor(number.low) + shift, floor(number.high) + shift, 2**63 - 1, -(2**63)]
    expected = [nearest_step(number, Fraction(value)) for value in values]
    assert codes(number, values, pa.int64()) == expected
    assert codes(number, list(map(str, values)), pa.string()) == expected
    small = [value % 256 for value in values]
    assert codes(number, small, pa.uint8()) == [
        nearest_step(number, Fraction(value)) for value in small
    ]
    large = [value % 2**64 for value in values]
    assert codes(number, large, pa.uint64()) == [
        nearest_step(number, Fraction(value)) for value in large
    ]


def test_ties_go_up():
    assert codes(MONEY, [0.5, 1.5, 2.5], pa.float64()) == [1, 2, 3]
    assert codes(Number(-2, 2), [-1.5, -0.5, 0.5], pa.float64()) == [1, 2, 3]
    assert codes(CENTS, [0.005, 1.005], pa.float64()) == codes(
        CENTS, ["0.005", "1.005"], pa.string()
    )


@pytest.mark.parametrize("huge", ["1e400", "9" * 350, "1E+99999999999", "1e308"])
def test_texts_of_huge_and_tiny_numbers_are_clamped(huge):
    texts = [huge, "-" + huge, "1e-400", "0e999", "-1e-99999999"]
    assert codes(Number(-5, 10), texts, pa.string()) == [15, 0, 5, 5, 5]


def test_what_is_no_number_is_outside():
    words = ["many", "inf", "-Infinity", "1,5", "0x10", "1_000", "1" * 401]
    assert MONEY.encode(pa.array(words))[1].all()
    assert MONEY.encode(pa.array([np.inf, -np.inf]))[1].all()
    assert MONEY.encode(pa.array([True, False]))[1].all()


def test_an_attribute_reads_missing_values_and_decimal_commas():
    table = {
        "name": "pay", "role": "quasi", "type": "number", "limits": [0, 1000], "step": 0.5,
        "decimal": ",", "missing": ["-9", "n/a"],
    }  # fmt: skip
    pay = Attribute.from_dict(table)
    assert pay.to_dict() == table
    found, outside = pay.encode(pa.array(["1,25", "1.234,5", "-9", "", None, "n/a", "-8"]))
    assert pay.decode(found).to_pylist() == [1.5, 1000.0, None, None, None, None, 0.0]
    assert not outside.any()
    found, outside = pay.encode(pa.array([np.nan, -9.0, np.inf, 3.2]))
    assert pay.decode(found).to_pylist() == [None, None, 0.0, 3.0]
    assert outside.tolist() == [False, False, True, False]


def test_a_null_word_beyond_the_limits_is_no_value():
    assert Attribute("pay", "quasi", MONEY, missing=True, null_words=("999999999",)).missing
    with pytest.raises(SchemaError, match="'500000' is both a value and a word"):
        Attribute("pay", "quasi", MONEY, missing=True, null_words=("500000",))


@settings(max_examples=200)
@given(numbers(), st.data())
def test_every_amount_is_published_as_the_nearest_float_and_comes_back(number, data):
    some = data.draw(st.lists(st.integers(0, number.size - 1), min_size=1, max_size=20))
    values = number.decode(np.array(some), None)
    amounts = [exact(number.low) + code * exact(number.step) for code in some]
    assert values.to_pylist() == [float(amount) for amount in amounts]
    assert values.type == number.arrow_type
    assert [number.values[code] for code in some] == values.to_pylist()
    assert codes(number, values.to_pylist(), values.type) == some
    assert codes(number, list(map(str, values.to_pylist())), pa.string()) == some


@settings(max_examples=200)
@given(binned_numbers(), st.data())
def test_bins_and_amounts_agree(bins, data):
    some = data.draw(st.lists(st.integers(0, bins.number.size - 1), min_size=1, max_size=20))
    some += [*bins.first_steps.tolist(), *bins.last_steps.tolist()]
    values = bins.number.decode(np.array(some), None)
    found, _ = bins.encode(values)
    lows, highs = (each[found] for each in bins.ends())
    amounts = values.to_numpy()
    assert ((lows <= amounts) & (amounts <= highs)).all()
    assert (amounts >= np.array(bins.edges)[found]).all()
    last = found == bins.size - 1
    assert ((amounts < np.array(bins.edges)[found + 1]) | last).all()
    middles = bins.labels()
    assert np.array_equal(bins.encode(middles)[0], np.arange(bins.size))


@settings(max_examples=200)
@given(numbers(), st.data())
def test_comparisons_find_the_codes(number, data):
    value = data.draw(near(number))
    text = f"{float(abs(value)):.4f}"
    sign = -1 if value < 0 else 1
    operator = data.draw(st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]))
    literal = ComparedLiteral("number", text, sign < 0)
    found = satisfying_codes(Comparison("x", operator, (literal,)), Attribute("x", "quasi", number))
    if found is None:
        assert len(text) > 15
        return
    chosen = {code for low, high in found for code in (low, high)}
    near_by = {max(low - 1, 0) for low, _ in found} | {
        min(high + 1, number.size - 1) for _, high in found
    }
    for code in chosen | near_by | {0, number.size - 1}:
        holds = _holds(operator, number.value(code), sign * float(text))
        assert holds == any(low <= code <= high for low, high in found)


def _holds(operator: str, one: float, other: float) -> bool:
    return {
        "<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other,
        "=": one == other, "<>": one != other,
    }[operator]  # fmt: skip


@settings(max_examples=100)
@given(binned_numbers().filter(lambda bins: bins.number.size < 200), st.data())
def test_pieces_hold_every_amount_once(bins, data):
    steps = bins.number.values
    points = [float(data.draw(near(bins.number))) for _ in range(3)]
    pieces = cut_at(Attribute("x", "quasi", bins), points)
    for amount in steps:
        within = (pieces.low <= amount) & (amount <= pieces.high)
        assert within.sum() == 1
        assert pieces.code[within] == codes(bins, [amount], bins.number.arrow_type)
    for point in points:  # a comparison is the same on all of a piece
        for low, high in zip(pieces.low, pieces.high, strict=True):
            assert (low < point) == (high < point)
            assert (low <= point) == (high <= point)
    assert np.allclose(pieces.total(pieces.share), 1)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((5, 5), "The lower limit must be below the upper one. Got 5 and 5."),
        ((0, 1, 0), "'step' must be above 0. Got 0."),
        ((0, 1, 0.3), "The limits must be a whole number of steps of 0.3 apart. Got 0 and 1."),
        ((0, 10**16), "too wide for steps of 1; choose a larger step"),
        ((0, "1"), "'limits' must be made of numbers. Got '1' instead."),
        ((0, float("inf")), "'limits' must be made of numbers. Got inf instead."),
        ((True, 5), "'limits' must be made of numbers. Got True instead."),
    ],
)
def test_limits_and_steps_are_checked(given, sentence):
    with pytest.raises(SchemaError, match=sentence.replace(".", r"\.")):
        Number(*given)


def schema(lines: str) -> Schema:
    return Schema.loads(f'[attributes.pay]\nrole = "quasi"\ntype = "number"\n{lines}')


@pytest.mark.parametrize(
    ("lines", "domain"),
    [
        ("limits = [0, 500000]", MONEY),
        ("limits = [-100, 100]\nstep = 0.01", CENTS),
        ("limits = [0, 10.0]\nedges = []", BinnedNumber((0, 10), Number(0, 10))),
        ("limits = [0, 10]\nedges = [1, 5]", BinnedNumber((0, 1, 5, 10), Number(0, 10))),
        ("limits = [0, 10]\nbins = 4", BinnedNumber((0, 2, 5, 8, 10), Number(0, 10))),
        ("limits = [0, 1]\nstep = 0.1\nbins = 2", BinnedNumber((0, 0.5, 1), Number(0, 1, 0.1))),
        ("limits_needed = true\nstep = 0.01", UnlimitedNumber(0.01)),
    ],
)
def test_a_schema_file_says_it(lines, domain):
    found = schema(lines)
    assert found["pay"].domain == domain
    assert Schema.loads(found.dumps()) == found
    assert Schema.from_dict(found.to_dict()) == found
    assert found["pay"].kind == "number"


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("step = 1", "give its limits, as limits = [0, 500000]: amounts beyond them count"),
        ("limits = [0]", "'limits' must be two values, the lowest and the highest. Got 1."),
        ("limits = [0, 10]\nedges = [5, 12]", "edges must increase. Got 12 before 10."),
        (
            "limits = [0, 10]\nedges = [2.5]",
            "must be the lower limit plus whole steps of 1. Got 2.5.",
        ),
        ("limits = [0, 10]\nbins = 11", "'bins' must be from 1 to 10. Got 11."),
        ("limits = [0, 10]\nbins = 2\nedges = [5]", "give either 'edges' or 'bins'."),
        ("limits = [0, 10]\nlimits_needed = true", "give either 'limits_needed' or 'limits'."),
        ("range = [0, 10]", "'range' is not for type number, which takes 'limits'"),
    ],
)
def test_a_wrong_schema_file_is_refused(lines, sentence):
    with pytest.raises(SchemaError, match="Attribute 'pay': .*" + sentence.replace("[", r"\[")):
        schema(lines)


def test_a_number_without_limits_says_what_to_write():
    pay = schema("limits_needed = true")["pay"]
    assert not pay.tabular
    assert pay.describe() == "number, limits needed"
    with pytest.raises(SchemaError, match=r"'pay' needs its limits\. Write limits = \[LOW, HIGH\]"):
        pay.encode(pa.array([1]))


def test_clamping_is_said():
    assert MONEY.clamping("pay") == (
        "Amounts of 'pay' above 500,000 count as 500,000, and those below 0 as 0."
    )
    assert CENTS.clamping("pay").endswith("below -100 as -100, rounded to 0.01.")


def test_floats_that_are_read_are_finite():
    assert all(map(isfinite, CENTS.labels().to_pylist()))
    assert CENTS.size == 20_001
