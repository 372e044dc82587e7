"""Spelling: how a column writes dates, numbers or truth values as text, as its owner declares it.

Text is respelled in the usual way, value by value, before a domain reads it. What is not spelled as
declared becomes a text that no such domain can read, and so lies outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.errors import SchemaError
from scumble.model.schema.arrow_values import is_text, texts

KEYS: dict[str, tuple[str, ...]] = {
    "date": ("format",),
    "integer": ("decimal",),
    "binned": ("decimal",),
    "number": ("decimal",),
    "boolean": ("true", "false"),
}
_UNREAD = "(not spelled as declared)"
_DIGITS = {"d": "[0-9]{1,2}", "m": "[0-9]{1,2}", "Y": "[0-9]{4}"}
_FORMAT = re.compile(r"%([a-zA-Z])([^%a-zA-Z0-9]*)")
# Between groups of three digits: the other mark of the two, an apostrophe or some kind of space.
_GROUPS = {",": ". '\u2019\u00a0\u202f", ".": ",'\u2019"}


@dataclass(frozen=True)
class Spelling:
    """How a column spells its values in text: dates by `format`, as "%d.%m.%Y"; numbers by
    `decimal`, "," or "."; truth values by the words `true` and `false`, in any case.

    Digits of numbers may stand in groups of three, as in 1.234,56 or 1,234.56.

    >>> Spelling(format="%d.%m.%Y").respell(pa.array(["31.12.2024", "1.2.2024 10:15"])).to_pylist()
    ['2024-12-31', '2024-02-01']
    >>> Spelling(decimal=",").respell(pa.array(["1.234,56", "12,5", "12.5"])).to_pylist()
    ['1234.56', '12.5', '(not spelled as declared)']
    """

    format: str | None = None
    decimal: str | None = None
    true: str | None = None
    false: str | None = None

    def __post_init__(self) -> None:
        for key, given in asdict(self).items():
            if given is not None and (not isinstance(given, str) or not given.strip()):
                raise SchemaError(f"'{key}' must be text. Got {given!r} instead.")
        if self.format is not None:
            self._check_format(self.format)
        if self.decimal not in (None, ",", "."):
            raise SchemaError(
                f'\'decimal\' must be the mark before decimals, "," or ".". Got {self.decimal!r}.'
            )
        if (self.true is None) != (self.false is None):
            raise SchemaError("Give both words, 'true' and 'false', or none of them.")
        if self.true is not None and _folded(self.true) == _folded(self.false):
            raise SchemaError(f"'true' and 'false' must be two words. Got {self.true!r} twice.")

    def _check_format(self, given: str) -> None:
        parts = _FORMAT.findall(given)
        letters = [letter for letter, _ in parts]
        whole = "".join(f"%{letter}{mark}" for letter, mark in parts) == given
        known = set(letters) <= set(_DIGITS) and len(set(letters)) == len(letters)
        if not whole or not known or "Y" not in letters or letters in (["d", "Y"], ["Y", "d"]):
            raise SchemaError(
                "'format' must be made of %d, %m and %Y (a year of four digits), with marks "
                f'between them, such as "%d.%m.%Y" or "%m/%d/%Y". Got {given!r} instead.'
            )

    @property
    def by(self) -> str:
        """The shortest period that a format names: day, month or year."""
        given = self.format or "%d"
        return "day" if "%d" in given else "month" if "%m" in given else "year"

    def respell(self, values: pa.Array) -> pa.Array:
        """Return text in the usual spelling; values of other types as they are."""
        kind = values.type
        if (self.true and not pa.types.is_boolean(kind)) or (
            self.format and pa.types.is_integer(kind)
        ):
            values, _ = texts(values)  # 1 and 2 may be the words, 20241231 a date
        if not is_text(values.type):
            return values
        text = pc.utf8_trim_whitespace(values)
        if self.format is not None:
            return self._as_iso(text)
        if self.decimal is not None:
            return self._as_numbers(text, self.decimal)
        lower = pc.utf8_lower(text)
        true, false = (pc.equal(lower, _folded(word)) for word in (self.true, self.false))
        return _if_good(pc.or_(true, false), pc.if_else(true, "true", "false"), text)

    def _as_iso(self, text: pa.Array) -> pa.Array:
        """Return dates in ISO; a time behind them is left out."""
        parts = _FORMAT.findall(self.format or "")
        places = {letter: place for place, (letter, _) in enumerate(parts, start=1)}
        crowded = not all(mark for _, mark in parts[:-1])  # as in 20240131: two digits each
        digits = {**_DIGITS, "d": "[0-9]{2}", "m": "[0-9]{2}"} if crowded else _DIGITS
        dates = "".join(f"({digits[letter]}){re.escape(mark)}" for letter, mark in parts)
        pattern = f"^{dates}(?:[T ].*)?$"
        good = pc.match_substring_regex(text, pattern)
        parted = "-0".join(f"\\{places[letter]}" for letter in "Ymd" if letter in places)
        found = pc.replace_substring_regex(text, pattern, parted)
        return _if_good(good, pc.replace_substring_regex(found, "-0([0-9]{2})", r"-\1"), text)

    def _as_numbers(self, text: pa.Array, decimal: str) -> pa.Array:
        """Return numbers with a point and without marks between groups of digits."""
        groups = "".join(f"|[1-9][0-9]{{0,2}}(?:[{m}][0-9]{{3}})+" for m in _GROUPS[decimal])
        number = f"^[+-]?(?:[0-9]*{groups})(?:[{decimal}][0-9]*)?(?:[eE][+-]?[0-9]+)?$"
        good = pc.match_substring_regex(text, number)
        found = pc.replace_substring_regex(text, f"[{_GROUPS[decimal]}]", "")
        return _if_good(good, pc.replace_substring(found, decimal, "."), text)

    @classmethod
    def from_table(cls, kind: object, table: Mapping[str, Any]) -> Spelling | None:
        """Read the spelling from the table of an attribute; None if it declares none."""
        given = {key: table[key] for key in KEYS.get(str(kind), ()) if key in table}
        return cls(**given) if given else None

    def to_table(self) -> dict[str, str]:
        """Return the keys that were given."""
        return {key: given for key, given in asdict(self).items() if given is not None}


def has_marks(values: pa.Array, decimal: str) -> bool:
    """Return whether some text is another number, or none, where `decimal` is declared."""
    marks = _GROUPS[decimal] + ("," if decimal == "," else "")
    return bool(pc.any(pc.match_substring_regex(values, f"[{marks}]")).as_py())


def _folded(word: str | None) -> str:
    return str(word).strip().lower()


def _if_good(good: pa.Array, found: pa.Array, text: pa.Array) -> pa.Array:
    """Return what was found; a text that cannot be read where a value was spelled otherwise."""
    return pc.if_else(good, found, pa.scalar(_UNREAD, text.type))
