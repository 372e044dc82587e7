"""Spellings: one value may arrive as a number, as text, as a timestamp. This room reads any Arrow
array as whole numbers, numbers, days, truth values or text.

Every reader returns the values and a mask of those that it could not read, or None when it could
read them all. What stands at a null is of no account. Nothing here ever quotes a value.
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
_EPOCH = date(1970, 1, 1).toordinal()
_SHORT_INTEGER = r"^[+-]?[0-9]{1,18}(\.0*)?$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DAY_AND_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]"
_DAY = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds text in any of its layouts."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def plain(values: pa.Array) -> pa.Array:
    """Without extension wrappers or unusual layouts of text; bytes become text if UTF-8."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    kind = values.type
    if types.is_large_string(kind) or types.is_string_view(kind):
        return values.cast(pa.string()) if values.nbytes < 2**30 else values.cast(pa.large_string())
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            return values
    return values


def integers(values: pa.Array) -> tuple[np.ndarray, Unread]:
    """Whole numbers, in whatever integer width they came; 3.0 counts as 3."""
    kind = values.type
    if types.is_integer(kind):
        return _numpy(values, 0), None
    if types.is_boolean(kind):
        return _numpy(values, False).view(np.uint8), None
    if types.is_floating(kind) or types.is_decimal(kind):
        return _whole(_numpy(values.cast(pa.float64(), safe=False), 0.0))
    if is_text(kind):
        text = pc.utf8_trim_whitespace(values)
        short = pc.match_substring_regex(text, _SHORT_INTEGER)
        digits = pc.replace_substring_regex(text, r"^\+|\.0*$", "")
        found = _numpy(pc.if_else(short, digits, None).cast(pa.int64()), 0)
        return _rest(text, short, found, _long_integer)
    return np.zeros(len(values), np.int64), _all(values)


def numbers(values: pa.Array) -> tuple[np.ndarray, Unread]:
    """Numbers as float64."""
    kind = values.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _numpy(values.cast(pa.float64(), safe=False), 0.0), None
    if types.is_boolean(kind):
        return _numpy(values, False).astype(np.float64), None
    if is_text(kind):
        text = pc.utf8_trim_whitespace(values)
        good = pc.match_substring_regex(text, _NUMBER)
        found = _numpy(pc.if_else(good, text, None).cast(pa.float64()), 0.0)
        return found, ~_numpy(good, True)
    return np.zeros(len(values)), _all(values)


def days(values: pa.Array, by: str) -> tuple[np.ndarray, Unread]:
    """Days since 1970-01-01.

    Text is ISO (2024-03-01; a time after it is ignored); a month or a year alone will do where
    `by` asks for no more.
    """
    kind = values.type
    if types.is_timestamp(kind) and kind.tz is not None:
        values, kind = pc.local_timestamp(values), pa.timestamp(kind.unit)
    if types.is_date(kind) or types.is_timestamp(kind):
        as_days = values.cast(pa.date32(), safe=False)
        return _numpy(as_days.cast(pa.int32()), 0), None
    if types.is_integer(kind) and by == "year":
        values, kind = values.cast(pa.string()), pa.string()
    if is_text(kind):
        return _days_of_text(pc.utf8_trim_whitespace(values), by)
    return np.zeros(len(values), np.int64), _all(values)


def truths(values: pa.Array) -> tuple[np.ndarray, Unread]:
    """Truth values: true, yes, y, t, 1 and their opposites, in any case."""
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
    """Text as it is; whole numbers and truth values in their usual spelling."""
    kind = values.type
    if is_text(kind):
        return values, None
    if types.is_integer(kind) or types.is_boolean(kind):
        return values.cast(pa.string()), None
    return pa.nulls(len(values), pa.string()), _all(values)


def _numpy(values: pa.Array, filler: Any) -> np.ndarray:
    """Without a copy where there are no nulls."""
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
    """Read, one by one, what the vectorised way could not (`done` says what it could)."""
    left = text.is_valid()
    if done is not None:
        left = pc.and_(left, pc.invert(done.fill_null(True)))
    places = np.flatnonzero(left.to_numpy(zero_copy_only=False))
    if not len(places):
        return found, None
    unread = np.zeros(len(text), bool)
    found = found.copy()
    for place, word in zip(places, text.take(pa.array(places)).to_pylist(), strict=True):
        value = read(word)
        if value is None:
            unread[place] = True
        else:
            found[place] = value
    return found, unread


def _days_of_text(text: pa.Array, by: str) -> tuple[np.ndarray, Unread]:
    """Few distinct days remain once the time is cut off, so each is read once."""
    timed = pc.match_substring_regex(text, _DAY_AND_TIME)
    cut = pc.if_else(timed, pc.utf8_slice_codeunits(text, 0, 10), text).dictionary_encode()
    words = cut.dictionary
    found, unread = _rest(words, None, np.zeros(len(words), np.int64), lambda word: _day(word, by))
    places = _numpy(cut.indices, 0)
    if not len(words):
        return np.zeros(len(text), np.int64), None
    return found[places], None if unread is None else unread[places]


def _long_integer(word: str) -> int | None:
    """Integers of 19 digits and those with an exponent."""
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
