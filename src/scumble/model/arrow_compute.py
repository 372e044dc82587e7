"""Functions of Arrow on whole columns, without `pyarrow.compute`.

Importing `pyarrow.compute` writes the documentation of 300 functions, which takes as long as a
question. The functions here have the names, parameters and results that they have there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import _compute, types

_call = _compute.call_function


def _function(name: str) -> Callable[..., Any]:
    """Return the function of Arrow that takes columns or values and no options."""

    def call(*arguments: Any) -> Any:
        return _call(name, list(arguments))

    return call


all_true = _function("all")  # `all` of `pyarrow.compute`: nulls are left out
and_ = _function("and")
any_true = _function("any")  # `any`: nulls are left out
coalesce = _function("coalesce")
drop_null = _function("drop_null")
equal = _function("equal")
if_else = _function("if_else")
invert = _function("invert")
is_nan = _function("is_nan")
is_null = _function("is_null")
is_valid = _function("is_valid")
list_flatten = _function("list_flatten")
list_value_length = _function("list_value_length")
local_timestamp = _function("local_timestamp")
not_equal = _function("not_equal")
or_ = _function("or")
run_end_decode = _function("run_end_decode")
total = _function("sum")  # `sum`: nulls are left out
utf8_lower = _function("utf8_lower")
utf8_split_whitespace = _function("utf8_split_whitespace")
utf8_trim_whitespace = _function("utf8_trim_whitespace")
value_counts = _function("value_counts")


def column(numbers: np.ndarray, nulls: np.ndarray | None = None) -> pa.Array:
    """Return an array of numbers or truth values as a column; null where the mask `nulls` is set.

    `pa.array` does the same, but first asks whether the array is masked, for which it imports a
    large part of numpy.
    """
    plain = numbers.dtype != bool
    values = pa.py_buffer(np.ascontiguousarray(numbers)) if plain else _bits(numbers)
    valid = None if nulls is None else _bits(~nulls)
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, len(numbers), [valid, values])


def to_numpy(values: Any) -> np.ndarray:
    """Return a column as an array, maybe read-only; one of numbers without nulls is not copied.

    The method `to_numpy` does the same, but imports pandas, if it is installed.
    """
    kind = values.type
    truth = types.is_boolean(kind)
    plain = truth or types.is_integer(kind) or types.is_floating(kind)
    if not plain or not isinstance(values, pa.Array) or values.null_count or not len(values):
        other: np.ndarray = values.to_numpy(zero_copy_only=False)
        return other
    data, end = values.buffers()[1], values.offset + len(values)
    if not truth:
        return np.frombuffer(data, kind.to_pandas_dtype(), end)[values.offset :]
    bits = np.frombuffer(data, np.uint8, (end + 7) // 8)
    return np.unpackbits(bits, count=end, bitorder="little")[values.offset :].view(bool)


def _bits(mask: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def binary_join_element_wise(*values: Any) -> Any:
    """Return the texts of the first columns of each row, joined by that of the last one."""
    return _call("binary_join_element_wise", list(values), _compute.JoinOptions())


def cast(values: Any, kind: pa.DataType, *, safe: bool = True) -> Any:
    """Return values in another type.

    If `safe`, one that would lose a part of it raises `ArrowInvalid`.
    """
    options = _compute.CastOptions
    return _call("cast", [values], options.safe(kind) if safe else options.unsafe(kind))


def count_substring(text: Any, pattern: str) -> Any:
    """Return how often each text contains `pattern`."""
    return _call("count_substring", [text], _compute.MatchSubstringOptions(pattern))


def dictionary_decode(values: pa.DictionaryArray) -> pa.Array:
    """Return the values of a dictionary column as a plain one."""
    return take(values.dictionary, values.indices)


def dictionary_encode(values: Any) -> Any:
    """Return values as indices into a dictionary of the distinct ones."""
    if isinstance(values, pa.DictionaryArray):
        return values
    return _call("dictionary_encode", [values])


def fill_null(values: Any, filler: Any) -> Any:
    """Return values with `filler`, a value of their type, in place of nulls."""
    if not isinstance(filler, pa.Scalar):
        filler = pa.scalar(filler, values.type)
    return _call("coalesce", [values, filler])


def filter_(values: Any, mask: Any) -> Any:
    """Return the values where a mask is true: `filter` of `pyarrow.compute`."""
    return _call("filter", [values, mask], _compute.FilterOptions())


def index_in(values: Any, known: Any) -> Any:
    """Return the index of each value in the array `known`; null if it is not there."""
    return _call("index_in", [values], _compute.SetLookupOptions(known))


def is_in(values: Any, known: Any) -> Any:
    """Return whether each value is in the array `known`."""
    return _call("is_in", [values], _compute.SetLookupOptions(known))


def match_substring_regex(text: Any, pattern: str) -> Any:
    """Return whether each text contains a match of a regular expression."""
    return _call("match_substring_regex", [text], _compute.MatchSubstringOptions(pattern))


def replace_substring_regex(text: Any, pattern: str, replacement: str) -> Any:
    """Return texts with every match of a regular expression replaced."""
    options = _compute.ReplaceSubstringOptions(pattern, replacement)
    return _call("replace_substring_regex", [text], options)


def split_pattern(text: Any, pattern: str) -> Any:
    """Return the list of parts of each text between the occurrences of `pattern`."""
    return _call("split_pattern", [text], _compute.SplitPatternOptions(pattern))


def starts_with(text: Any, beginning: str) -> Any:
    """Return whether each text starts with `beginning`."""
    return _call("starts_with", [text], _compute.MatchSubstringOptions(beginning))


def take(values: Any, places: Any, *, boundscheck: bool = True) -> Any:
    """Return the values at some places."""
    return _call("take", [values, places], _compute.TakeOptions(boundscheck=boundscheck))


def utf8_slice_codeunits(text: Any, start: int, stop: int | None = None) -> Any:
    """Return the characters of each text from `start` to before `stop`."""
    return _call("utf8_slice_codeunits", [text], _compute.SliceOptions(start, stop))
