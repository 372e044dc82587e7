"""Reading an Arrow array of any type as integers, numbers, days, booleans or text.

One value may arrive as a number, as text or as a timestamp. Each value is read independently, given
the declared type of its column: the result never depends on the other values. Privacy rests on
this, because the value of one person must not change how the rows of others are encoded.

Each reader returns the values and a mask of those that it could not read, or None if it read all of
them. The result at a null is arbitrary. No message from here contains a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Unread = np.ndarray | None

TRUE_WORDS = ("true", "yes", "t", "y", "1", "1.0")
FALSE_WORDS = ("false", "no", "f", "n", "0", "0.0")
UNREADABLE = b"\xff(unreadable)"  # stands for an object that is not a value; not valid UTF-8
_TICKS = {unit: 86_400 * 1000**power for power, unit in enumerate(("s", "ms", "us", "ns"))}
_LONGEST = 400  # digits; the exponent of a float is smaller
_EPOCH = date(1970, 1, 1).toordinal()
_SHORT_INTEGER = r"^[+-]?[0-9]{1,18}(\.0*)?$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DAY_AND_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]"
_DAY = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type holds text, in any layout."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether an Arrow type holds bytes, in any layout."""
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def unwrap(values: pa.Array) -> pa.Array:
    """Return the array without extension type, run-end encoding or rarely supported layouts."""
    if isinstance(values, pa.ExtensionArray):
        return unwrap(values.storage)
    kind = values.type
    if types.is_run_end_encoded(kind):
        return unwrap(pc.run_end_decode(values))
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pc.cast(values, pa.string() if _is_small(values) else pa.large_string())
    if is_bytes(kind) and not types.is_binary(kind):
        return pc.cast(values, pa.binary() if _is_small(values) else pa.large_binary())
    if types.is_decimal(kind) and kind.bit_width < 128:
        return pc.cast(values, pa.decimal128(kind.precision, kind.scale))
    return values


def _is_small(values: pa.Array) -> bool:
    return bool(values.nbytes < 2**30)


def decode_text(values: pa.Array) -> tuple[pa.Array, Unread]:
    """Return the unwrapped values, bytes decoded as text, and a mask of those that are not UTF-8.

    Those become null. Arrays that are declared to be text are checked too, because their producer
    may not have done it.
    """
    values = unwrap(values)
    if not (is_text(values.type) or is_bytes(values.type)):
        return values, None
    large = types.is_large_string(values.type) or types.is_large_binary(values.type)
    raw = pc.cast(values, pa.large_binary() if large else pa.binary())
    text = pa.large_string() if large else pa.string()
    try:
        return pc.cast(raw, text), None
    except pa.ArrowInvalid:
        garbled = np.array([not _is_utf8(word) for word in raw.to_pylist()], bool)
    return pc.cast(pc.if_else(pa.array(garbled), None, raw), text), garbled


def integers(values: pa.Array) -> tuple[np.ndarray, Unread]:
    """Read integers, in the integer width of the array; 3.0 is read as 3."""
    kind = values.type
    if types.is_integer(kind):
        return _numpy(values, 0), None
    if types.is_floating(kind):
        return _whole(_numpy(pc.cast(values, pa.float64(), safe=False), 0.0))
    if types.is_decimal(kind):
        values, kind = pc.cast(values, pa.string()), pa.string()
    if is_text(kind):
        text = pc.utf8_trim_whitespace(values)
        short = pc.match_substring_regex(text, _SHORT_INTEGER)
        digits = pc.replace_substring_regex(text, r"^\+|\.0*$", "")
        found = _numpy(pc.cast(pc.if_else(short, digits, None), pa.int64()), 0)
        return _rest(text, short, found, _long_integer)
    return np.zeros(len(values), np.int64), _all(values)


def numbers(values: pa.Array) -> tuple[np.ndarray, Unread]:
    """Read numbers as float64."""
    kind = values.type
    if _is_number(kind):
        return _numpy(pc.cast(values, pa.float64(), safe=False), 0.0), None
    if is_text(kind):
        text = pc.utf8_trim_whitespace(values)
        good = pc.match_substring_regex(text, _NUMBER)
        found = _numpy(pc.cast(pc.if_else(good, text, None), pa.float64()), 0.0)
        return found, ~_numpy(good, True)
    return np.zeros(len(values)), _all(values)


def days(values: pa.Array, by: str) -> tuple[np.ndarray, Unread]:
    """Read dates as days since 1970-01-01.

    Text is ISO (2024-03-01); a time after the date is ignored. A month (2024-03) is accepted if
    `by` is "month" or "year", a year alone, also as a number, if `by` is "year".
    """
    kind = values.type
    if types.is_timestamp(kind) and kind.tz is not None:
        values, kind = pc.local_timestamp(values), pa.timestamp(kind.unit)
    if types.is_date32(kind):
        return _numpy(pc.cast(values, pa.int32()), 0), None
    if types.is_date64(kind) or types.is_timestamp(kind):
        ticks = _TICKS["ms" if types.is_date64(kind) else kind.unit]
        return _numpy(pc.cast(values, pa.int64()), 0) // ticks, None
    if by == "year" and _is_number(kind):
        values, _ = texts(values)
        kind = values.type
    if is_text(kind):
        return _days_of_text(pc.utf8_trim_whitespace(values), by)
    return np.zeros(len(values), np.int64), _all(values)


def booleans(values: pa.Array) -> tuple[np.ndarray, Unread]:
    """Read booleans: true, yes, y, t, 1 and their opposites, in upper or lower case."""
    kind = values.type
    if types.is_boolean(kind):
        return _numpy(values, False), None
    if is_text(kind):
        text = pc.utf8_lower(pc.utf8_trim_whitespace(values))
        true = _numpy(pc.is_in(text, pa.array(TRUE_WORDS, text.type)), False)
        false = _numpy(pc.is_in(text, pa.array(FALSE_WORDS, text.type)), False)
        return true, ~(true | false)
    found, unread = numbers(values)
    wrong = (found != 0) & (found != 1)
    return found == 1, wrong if unread is None else wrong | unread


def texts(values: pa.Array) -> tuple[pa.Array, Unread]:
    """Read text: text as it is, numbers and booleans formatted as usual, 3.0 as 3."""
    kind = values.type
    if is_text(kind):
        return values, None
    if types.is_integer(kind) or types.is_boolean(kind):
        return pc.cast(values, pa.string()), None
    if types.is_floating(kind):
        whole, broken = integers(values)
        text = pc.cast(pa.array(whole), pa.string())
        if broken is not None:
            text = pc.if_else(pa.array(broken), pc.cast(values, pa.string()), text)
        return pc.if_else(pc.is_null(values), None, text), None
    if types.is_decimal(kind):
        found = [None if value is None else decimal_text(value) for value in values.to_pylist()]
        return pa.array(found, pa.string()), None
    return pa.nulls(len(values), pa.string()), _all(values)


def decimal_text(number: Decimal) -> str:
    """Format a decimal without trailing zeros, and without an exponent unless it is very large."""
    if not number.is_finite() or abs(number.adjusted()) > _LONGEST:
        return str(number).lower()
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_utf8(word: bytes | None) -> bool:
    """Return whether bytes are UTF-8; a null is."""
    try:
        return word is None or word.decode() is not None
    except UnicodeDecodeError:
        return False


def _numpy(values: pa.Array, filler: Any) -> np.ndarray:
    """Convert to numpy with nulls replaced by `filler`; without nulls, there is no copy."""
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(filler, values.type))
    found: np.ndarray = values.to_numpy(zero_copy_only=False)
    return found


def _all(values: pa.Array) -> np.ndarray:
    return np.ones(len(values), bool)


def _whole(numbers: np.ndarray) -> tuple[np.ndarray, Unread]:
    with np.errstate(invalid="ignore"):
        good = (numbers >= -(2.0**63)) & (numbers < 2.0**63) & (numbers == np.rint(numbers))
        found = np.where(good, numbers, 0.0).astype(np.int64)
    return found, None if good.all() else ~good


def _rest(
    text: pa.Array, done: pa.Array | None, found: np.ndarray, read: Callable[[str], int | None]
) -> tuple[np.ndarray, Unread]:
    """Read the values one by one that the vectorised path did not read (`done` masks those it did).

    `found` are the results of the vectorised path; `read` returns None for an unreadable value.
    """
    left = pc.is_valid(text)
    if done is not None:
        left = pc.and_(left, pc.invert(pc.fill_null(done, True)))
    places = np.flatnonzero(left.to_numpy(zero_copy_only=False))
    if not len(places):
        return found, None
    unread = np.zeros(len(text), bool)
    found = found.copy()
    for place, word in zip(places, pc.take(text, pa.array(places)).to_pylist(), strict=True):
        value = read(word)
        if value is None:
            unread[place] = True
        else:
            found[place] = value
    return found, unread


def _days_of_text(text: pa.Array, by: str) -> tuple[np.ndarray, Unread]:
    """Cut off the time, then read each distinct day once: there are few of them."""
    timed = pc.match_substring_regex(text, _DAY_AND_TIME)
    cut = pc.dictionary_encode(pc.if_else(timed, pc.utf8_slice_codeunits(text, 0, 10), text))
    words = cut.dictionary
    found, unread = _rest(words, None, np.zeros(len(words), np.int64), lambda word: _day(word, by))
    places = _numpy(cut.indices, 0)
    if not len(words):
        return np.zeros(len(text), np.int64), None
    return found[places], None if unread is None else unread[places]


def _long_integer(word: str) -> int | None:
    """Read an integer of 19 digits, or one with an exponent."""
    if not re.match(_NUMBER, word):
        return None
    try:
        number = Decimal(word)
    except InvalidOperation:
        return None
    if number.adjusted() > 19 or number != number.to_integral_value():
        return None
    return int(number) if -(2**63) <= number < 2**63 else None


def _day(word: str, by: str) -> int | None:
    match = _DAY.fullmatch(word)
    if match is None:
        return None
    year, month, day = match.groups()
    if (month is None and by != "year") or (day is None and by == "day"):
        return None
    try:
        return date(int(year), int(month or 1), int(day or 1)).toordinal() - _EPOCH
    except ValueError:
        return None
