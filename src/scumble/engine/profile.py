"""Profile: what one private column holds, learnt in one streaming pass. All of it is private."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scumble import spelling

NULL_WORDS = ("?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL")

_KEEP = 100_000  # distinct values remembered; beyond it a column has "many"
_TRUTH_PAIRS = (
    {"true", "false"},
    {"yes", "no"},
    {"y", "n"},
    {"t", "f"},
    {"1", "0"},
    {"1.0", "0.0"},
)
_TRUTH_WORDS = {"true", "false", "yes", "no"}
_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days


class Profile:
    """Distinct values (up to a limit), range, and what the values can be read as."""

    def __init__(self) -> None:
        self.filled = 0  # values that are not null
        self.missing = False
        self.words: set[str] = set()  # spellings of missing that occur
        self.seen: set[object] = set()
        self.many = False
        self.text = False
        self.possible = {"integer", "number", "date"}
        self.low: dict[str, float] = {}
        self.high: dict[str, float] = {}

    def update(self, values: pa.Array) -> None:
        """Learn from the next batch."""
        values = spelling.bare(values)
        if pa.types.is_nested(values.type):
            self.seen.add(values.type)
            self.possible.clear()
            return
        distinct = pc.unique(values)
        if isinstance(distinct, pa.DictionaryArray):
            distinct = distinct.dictionary_decode()
        distinct, garbled = spelling.plain(distinct)
        if garbled is not None:
            self.seen.add(values.type)
            self.possible.clear()
            distinct = distinct.filter(pa.array(~garbled))
        distinct = self._without_missing(distinct)
        if not self.many:
            self.filled += len(values) - values.null_count
            self.seen.update(_listed(distinct))
            self.many = len(self.seen) > _KEEP
        for kind in tuple(self.possible):
            # A glance at a few values spares the slow look at many that are not of that kind.
            few = distinct.slice(0, 64)
            if len(few) and not (self._extend(kind, few) and self._extend(kind, distinct)):
                self.possible.discard(kind)

    @property
    def unique(self) -> bool:
        """Whether every value occurs once; of many values, nearly every one."""
        share = 0.9 if self.filled >= 20 else 0.999
        return self.filled >= 4 and len(self.seen) > share * self.filled

    @property
    def truth(self) -> bool:
        """Whether the values are the two sides of a truth value."""
        if self.many or len(self.seen) > 4:
            return False
        words = {str(value).strip().lower() for value in self.seen}
        return words in _TRUTH_PAIRS or (0 < len(words) <= 2 and words < _TRUTH_WORDS)

    def days(self) -> tuple[date, date]:
        """The first and the last day."""
        ends = (self.low["date"], self.high["date"])
        first, last = (_EPOCH + timedelta(days=int(end)) for end in ends)
        return first, last

    def _without_missing(self, distinct: pa.Array) -> pa.Array:
        if distinct.null_count:
            self.missing = True
            distinct = distinct.drop_null()
        if pa.types.is_floating(distinct.type):
            real = distinct.filter(pc.invert(pc.is_nan(distinct)))
        elif spelling.is_text(distinct.type):
            self.text = self.text or len(distinct) > 0
            distinct = pc.utf8_trim_whitespace(distinct)
            words = pa.array(("", *NULL_WORDS), distinct.type)
            blank = pc.is_in(distinct, words)
            self.words.update(word for word in distinct.filter(blank).to_pylist() if word)
            real = distinct.filter(pc.invert(blank))
        else:
            return distinct
        self.missing = self.missing or len(real) < len(distinct)
        return real

    def _extend(self, kind: str, values: pa.Array) -> bool:
        """Widen the range of a kind; False if some value cannot be of that kind."""
        if kind != "date" and spelling.is_text(values.type):
            padded = pc.any(pc.match_substring_regex(values, "^[+-]?0[0-9]")).as_py()
            if padded:  # 01234 is a code, not a number
                return False
        if kind == "date":
            if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
                return False
            found, unread = spelling.days(values, "month")
        else:
            read = spelling.integers if kind == "integer" else spelling.numbers
            found, unread = read(values)
        if unread is not None and unread.any():
            return False
        found = found[np.isfinite(found)]
        if len(found):
            low, high = found.min().item(), found.max().item()
            if kind == "date" and (low < _FIRST or high > _LAST):
                return False
            self.low[kind] = min(self.low.get(kind, low), low)
            self.high[kind] = max(self.high.get(kind, high), high)
        return True


def _listed(values: pa.Array) -> list[object]:
    """Values to tell apart; moments as text, for Python cannot hold the farthest."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit)).cast(pa.string())
    elif pa.types.is_date(values.type):
        values = values.cast(pa.string())
    found: list[object] = values.to_pylist()
    return found
