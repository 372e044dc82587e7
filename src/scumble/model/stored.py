"""Values read from saved files: manifests, ledgers and schemas, which anybody may have written.

Every reader here is bounded in time and memory, and raises `ValueError` for what it does not take.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from scumble.model.errors import ReleaseError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from scumble.model.schema.attribute import Attribute

# Control characters, line and paragraph separators, bidirectional marks and lone surrogates.
CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
LARGEST_FILE = 1 << 28  # bytes of a manifest
DEEPEST = 64  # lists and tables inside each other
_DIGITS = 10_000  # of the numerator or denominator of an exact number
_LARGEST_EXPONENT = 400
_FRACTION = re.compile(
    r"[-+]?([0-9]+/[0-9]+|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?)", re.ASCII
)

Item = TypeVar("Item")
DAMAGED = "The release is damaged: its data do not fit its manifest."

# What reading a damaged description may raise besides the errors of scumble.
MALFORMED = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(ArithmeticError, RecursionError, MemoryError),
)


def indices(numbers: npt.NDArray[Any], size: int, *, least: int = 0) -> npt.NDArray[Any]:
    """Return numbers of a file of a release that are indices, if all are at least `least` and below
    `size`; raise `ReleaseError` if not.

    numpy counts a negative index from the end, and a compiled loop checks none at all.
    """
    if not numbers.size:
        return numbers
    if numbers.dtype.kind not in "iu" or not least <= numbers.min() <= numbers.max() < size:
        raise ReleaseError(DAMAGED)
    return numbers


def counts(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Return a column of a file of a release that holds noisy counts; raise `ReleaseError` if one
    is missing or no whole number.
    """
    from pyarrow import types

    if column.null_count or not types.is_integer(column.type):
        raise ReleaseError(DAMAGED)
    found: npt.NDArray[np.float64] = column.to_numpy().astype("f8")
    return found


def known_codes(attribute: Attribute, values: Any) -> npt.NDArray[Any]:
    """Return the codes of values of a file of a release; raise `ReleaseError` if one of them is
    outside the domain, where `Attribute.encode` gives the code 0.
    """
    found, outside = attribute.encode(values)
    if outside.any():
        raise ReleaseError(DAMAGED)
    return found


def read_regular(path: Path, limit: int = LARGEST_FILE) -> bytes:
    """Return the content of a file; links, devices, pipes and files beyond `limit` are refused."""
    check_regular(path)
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"{path.name} is larger than {limit} bytes")
    return content


def check_regular(path: Path) -> None:
    """Raise `ValueError` if the path is a link, a device, a pipe or a folder."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError(f"{path.name} is a link or no ordinary file")


def parse_json(text: str | bytes) -> Any:
    """Return JSON values; numbers that are not finite and deep nesting are refused."""
    try:
        found = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("the nesting is too deep") from None
    check_nesting(found)
    return found


def without_infinity(value: Any) -> Any:
    """Return values in which None stands for infinity and NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {name: without_infinity(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_visible(value: Any) -> None:
    """Raise `ValueError` if a text has a control character or a bidirectional mark."""
    level = [value]
    while level:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend((*each, *each.values()))
            elif isinstance(each, list):
                inner.extend(each)
            elif isinstance(each, str) and CONTROL.search(each):
                raise ValueError("a text has a control character or a bidirectional mark")
        level = inner


def check_nesting(value: Any, deepest: int = DEEPEST) -> None:
    """Raise `ValueError` if JSON or TOML values are nested deeper than `deepest`."""
    level = [value]
    for _ in range(deepest):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        if not inner:
            return
        level = inner
    raise ValueError("the nesting is too deep")


def _finite(word: str) -> float:
    if not math.isfinite(number := float(word)):
        raise ValueError("a number is not finite")
    return number


class ExactText(str):
    """An exact number as text, as files, forms and command lines have it: 1/3 or 0.25.

    Checks of parameters take it for the number that it is. Other text in place of a number is a
    mistake, and refused.
    """

    __slots__ = ()


def write_exact(value: object) -> str:
    """Return a value as text; a number as ExactText, so that it is read back exactly."""
    exact = isinstance(value, (Fraction, Decimal, ExactText))
    return ExactText(value) if exact else str(value)


def mark_exact(value: Any) -> Any:
    """Return a value of a file or a form, with each text that is an exact number as ExactText."""
    if isinstance(value, str):
        try:
            fraction(value.strip())
        except ValueError:
            return value
        return ExactText(value)
    if isinstance(value, Mapping):
        return {key: mark_exact(each) for key, each in value.items()}
    return [mark_exact(each) for each in value] if isinstance(value, (list, tuple)) else value


def fraction(value: Any) -> Fraction:
    """Return an exact number that was written as text like 1/3 or 0.25, or as an integer."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, float) and math.isfinite(value):
        return Fraction(value)
    if not isinstance(value, str) or len(value) > 2 * _DIGITS or not _FRACTION.fullmatch(value):
        raise ValueError("not an exact number")
    _, _, exponent = value.lower().partition("e")
    if exponent and abs(int(exponent)) > _LARGEST_EXPONENT:
        raise ValueError("an exponent is too large")
    try:
        return Fraction(value)
    except ZeroDivisionError:
        raise ValueError("a denominator is 0") from None


def share(value: Any) -> Fraction:
    """Return an exact number from 0 to 1."""
    found = fraction(value)
    if not 0 <= found <= 1:
        raise ValueError("not a probability")
    return found


def whole(value: Any, least: int = 0) -> int:
    """Return an integer from `least` to 2^128."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1 << 128:
        raise ValueError("not a whole number in range")
    return value


def weight(value: Any) -> float:
    """Return a finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")
    found = float(value)
    if not 0 <= found < math.inf:
        raise ValueError("not a finite number from 0 on")
    return found


def text(value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def flag(value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def table(value: Any) -> dict[str, Any]:
    """Return a table of JSON values."""
    if not isinstance(value, dict):
        raise ValueError("not a table")
    return value


def items(read: Callable[[Any], Item], value: Any) -> tuple[Item, ...]:
    """Return the items of a list, each read by `read`."""
    if not isinstance(value, list):
        raise ValueError("not a list")
    return tuple(map(read, value))


def one_of(value: Any, allowed: Iterable[Item]) -> Item:
    """Return the item of `allowed` that equals `value`."""
    for each in allowed:
        if isinstance(value, type(each)) and value == each:
            return each
    raise ValueError("none of the known words")


def numbers(value: Any) -> Mapping[str, float]:
    """Return a table of finite numbers by name."""
    for each in table(value).values():
        if isinstance(each, bool) or not isinstance(each, int | float) or not math.isfinite(each):
            raise ValueError("not a finite number")
    return table(value)


def data_file(name: Any) -> str:
    """Return the name of a data file, which must be one inside the release folder."""
    if not re.fullmatch(r"[a-z]+\.parquet", text(name)):
        raise ValueError("not the name of a data file")
    return text(name)
