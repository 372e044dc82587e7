"""Profiles of columns, from which `infer.py` proposes domains. Everything in them is private."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from scumble.model import arrow_compute as pc
from scumble.model.schema import arrow_values
from scumble.private.tables.lists.profiles import FEW, ListProfile

NULL_WORDS = ("?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL")

# Words that mean a missing value among numbers, dates or booleans; case is ignored.
BLANK_WORDS = ("unknown", "missing", "not known", "not available", "n.a.", "-", "--", ".")

_KEEP = 100_000  # distinct values that are stored; beyond it a column has "many"
_TRIED = 64  # distinct values that are tried before the others are read
_HOPELESS = 100_000  # rows of another type; if they are the majority, a type is ruled out
_STRAY = 0.05  # the largest share of rows of another type
_NUMBERS = ("integer", "number")
_TRUTHS = {*arrow_values.TRUE_WORDS, *arrow_values.FALSE_WORDS}
_TRUTH_PAIRS = tuple(zip(arrow_values.TRUE_WORDS, arrow_values.FALSE_WORDS, strict=True))
_PLAIN_TRUTHS = {
    "true",
    "false",
    "yes",
    "no",
}  # one of these suffices; of letters and digits, both must occur
# Steps of money and other skewed amounts: 1, 2 and 5 times powers of ten.
STEPS = np.array([float(Fraction(10) ** k * m) for k in range(-4, 16) for m in (1, 2, 5)])
_DECIMAL_COMMA = re.compile(r"[+-]?(?:[0-9]{1,15}|[0-9]{1,3}(?:\.[0-9]{3})+)(?:,([0-9]{1,6}))?")
FEWEST_DECIMALS = 4  # distinct values from which on such numbers are recognised
_USUAL = 0.8  # of them have the same number of digits after the comma
_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days


class Profile:
    """What one column contains: distinct values (up to a limit), ranges, and possible types.

    The types are "truth", "integer", "number" and "date".
    """

    def __init__(self) -> None:
        self.lists = ListProfile()
        self.filled = 0  # values that are not null
        self.missing = False
        self.words: set[str] = set()  # the words for missing that occur
        self.seen: set[object] = set()
        self.many = False
        self.text = False
        self.blanks: set[str] = set()  # words that mean missing, unless they are categories
        self.blank_rows = 0
        self.padded = False  # whether there are numbers like 01234
        self.possible = {"truth", "integer", "number", "date"}
        self.fits: Counter[str] = Counter()  # by type: rows whose value can be read
        self.strays: Counter[str] = (
            Counter()
        )  # by type: rows whose value cannot, blanks not counted
        self.low: dict[str, float] = {}
        self.high: dict[str, float] = {}
        # Rows with a number by its sign and step: at len(STEPS) + 1 stands 0, at the places after
        # it the numbers from 0 to STEPS[0], from there to STEPS[1] and so on.
        self.by_step = np.zeros(2 * len(STEPS) + 3)

    def update(self, values: pa.Array) -> None:
        """Add the next batch."""
        self.lists.update(values)
        values = arrow_values.unwrap(values)
        if pa.types.is_nested(values.type):
            self.seen.add(values.type)
            self.possible.clear()
            return
        counted = pc.value_counts(values)
        distinct, counts = counted.field("values"), counted.field("counts").to_numpy()
        if isinstance(distinct, pa.DictionaryArray):
            distinct = pc.dictionary_decode(distinct)
        distinct, garbled = arrow_values.decode_text(distinct)
        if garbled is not None:
            self.seen.add(values.type)
            self.possible.clear()
            distinct, counts = _kept(distinct, counts, ~garbled)
        distinct, counts = self._without_missing(distinct, counts)
        if not self.many:
            self.filled += len(values) - values.null_count
            self.seen.update(_listed(distinct))
            self.many = len(self.seen) > _KEEP
        distinct, counts = self._without_blanks(distinct, counts)
        for kind in tuple(self.possible):
            self._learn(kind, distinct, counts)

    @property
    def unique(self) -> bool:
        """Whether every value occurs once; of 20 values or more, nearly every one."""
        share = 0.9 if self.filled >= 20 else 0.999
        return self.filled >= 4 and len(self.seen) > share * self.filled

    def endless(self, limit: int) -> bool:
        """Return whether there are too many distinct values to list."""
        return self.unique or self.many or len(self.seen) > limit

    def has_lists(self, limit: int) -> bool:
        """Return whether the values are lists: of a list type, or texts that are put together from
        far fewer different members.
        """
        if not self.lists.likely:
            return False
        several = len(self.seen) > max(FEW, 2 * len(self.lists.members))
        return self.lists.declared or several or self.endless(limit)

    def whole(self, kind: str) -> bool:
        """Return whether all values, except words for missing, are of one type."""
        return self._can_be(kind) and not self.strays[kind]

    def nearly(self) -> str:
        """Return the type of nearly all values if some are of another; "" if there is none.

        A few distinct numbers and a word (1, 2, 3+) are categories instead.
        """
        kinds = ("truth", "date", *(_NUMBERS if len(self.seen) > FEW else ()))
        found = [kind for kind in kinds if self._can_be(kind) and self.stray(kind) <= _STRAY]
        return min(found, key=self.stray, default="")

    def stray(self, kind: str) -> float:
        """Return the share of rows whose value is of another type."""
        rows = self.strays[kind] + self.fits[kind]
        return self.strays[kind] / rows if rows else 1.0

    @property
    def coded(self) -> bool:
        """Whether nearly all values are integers, some of them with leading zeros."""
        return self.padded and "integer" in self.possible and self.stray("integer") <= _STRAY

    def _can_be(self, kind: str) -> bool:
        if kind not in self.possible or self.fits[kind] <= self.blank_rows:
            return False
        if kind == "truth":
            return self._is_boolean()
        # 01234 is a code, not a number
        return kind in self.low and not (self.padded and kind in _NUMBERS)

    def _is_boolean(self) -> bool:
        """Return whether the values are certainly booleans: a pair, or a full word; not F alone."""
        words = {str(value).strip().lower() for value in self.seen} & _TRUTHS
        pairs = not self.strays["truth"] and any(words.issuperset(pair) for pair in _TRUTH_PAIRS)
        return pairs or not words.isdisjoint(_PLAIN_TRUTHS)

    @property
    def decimals(self) -> int:
        """How many digits are after the comma of values that look like 12,5: numbers, nearly all
        with one comma and as many digits after it. 0 for other values.
        """
        values = [str(value) for value in self.seen - self.blanks]
        found = [_DECIMAL_COMMA.fullmatch(value) for value in values]
        if not self.text or len(values) < FEWEST_DECIMALS or not all(found):
            return 0
        digits = Counter(len(each[1] or "") for each in found if each)
        [(usual, times)] = digits.most_common(1)
        return usual if times >= _USUAL * len(values) else 0

    def whole_numbers(self) -> set[int]:
        """Return the distinct integers of a column of nothing else but words for missing."""
        return {int(Decimal(str(value))) for value in self.seen - self.blanks}

    def days(self) -> tuple[date, date]:
        """Return the first and the last day."""
        ends = (self.low["date"], self.high["date"])
        first, last = (_EPOCH + timedelta(days=int(end)) for end in ends)
        return first, last

    def _without_missing(
        self, distinct: pa.Array, counts: np.ndarray
    ) -> tuple[pa.Array, np.ndarray]:
        real = pc.is_valid(distinct)
        if pa.types.is_floating(distinct.type):
            real = pc.and_(real, pc.invert(pc.fill_null(pc.is_nan(distinct), True)))
        elif arrow_values.is_text(distinct.type):
            self.text = self.text or distinct.null_count < len(distinct)
            distinct = pc.utf8_trim_whitespace(distinct)
            blank = pc.is_in(distinct, pa.array(("", *NULL_WORDS), distinct.type))
            self.words.update(word for word in pc.filter_(distinct, blank).to_pylist() if word)
            real = pc.and_(real, pc.invert(blank))
        mask = real.to_numpy(zero_copy_only=False)
        self.missing = self.missing or not mask.all()
        return _kept(distinct, counts, mask)

    def _without_blanks(
        self, distinct: pa.Array, counts: np.ndarray
    ) -> tuple[pa.Array, np.ndarray]:
        if not arrow_values.is_text(distinct.type):
            return distinct, counts
        blank = pc.is_in(pc.utf8_lower(distinct), pa.array(BLANK_WORDS, distinct.type))
        mask = blank.to_numpy(zero_copy_only=False)
        self.blanks.update(pc.filter_(distinct, blank).to_pylist())
        self.blank_rows += int(counts[mask].sum())
        return _kept(distinct, counts, ~mask)

    def _learn(self, kind: str, values: pa.Array, counts: np.ndarray) -> None:
        """Count the rows whose value is of a type, and widen its range.

        A few values are tried first, because reading many values of another type is slow.
        """
        if not len(values):
            return
        few = np.linspace(0, len(values) - 1, _TRIED).astype(int)
        few = few[np.diff(few, prepend=-1) > 0]  # without repetitions
        worth = 2 * self._fitting(kind, pc.take(values, pc.column(few)))[0].sum() >= len(few)
        fits = np.zeros(len(values), bool)
        if worth:
            fits, found = self._fitting(kind, values)
            if kind == "number":
                self._count_steps(found[fits], counts[fits])
        self.fits[kind] += int(counts[fits].sum())
        self.strays[kind] += int(counts[~fits].sum())
        if self.strays[kind] > max(_HOPELESS, self.fits[kind]):
            self.possible.discard(kind)

    def _count_steps(self, numbers: np.ndarray, counts: np.ndarray) -> None:
        finite = np.isfinite(numbers)
        numbers, counts = numbers[finite].astype(float), counts[finite]
        step = np.searchsorted(STEPS, np.abs(numbers), side="right") + 1
        places = len(STEPS) + 1 + np.sign(numbers).astype(int) * step
        self.by_step += np.bincount(places, counts, len(self.by_step))

    def _fitting(self, kind: str, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return a mask of the values that can be read as a type, and what was read."""
        if kind in _NUMBERS and arrow_values.is_text(values.type):
            found = pc.match_substring_regex(values, "^[+-]?0[0-9]")
            self.padded = self.padded or bool(pc.any_true(found).as_py())
        if kind == "date" and (
            pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        ):
            return np.zeros(len(values), bool), np.zeros(len(values))
        found, unread = _READERS[kind](values)
        fits = np.ones(len(values), bool) if unread is None else ~unread
        if kind == "date":
            fits = fits & (found >= _FIRST) & (found <= _LAST)
        elif kind == "truth":
            return fits, found
        known = found[fits & np.isfinite(found)]
        if len(known):
            low, high = known.min().item(), known.max().item()
            self.low[kind] = min(self.low.get(kind, low), low)
            self.high[kind] = max(self.high.get(kind, high), high)
        return fits, found


def _days(values: pa.Array) -> tuple[np.ndarray, arrow_values.Unread]:
    return arrow_values.days(values, "month")


_READERS: dict[str, Callable[[pa.Array], tuple[np.ndarray, arrow_values.Unread]]] = {
    "truth": arrow_values.booleans,
    "integer": arrow_values.integers,
    "number": arrow_values.numbers,
    "date": _days,
}


def _kept(values: pa.Array, counts: np.ndarray, mask: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    return pc.filter_(values, pc.column(mask)), counts[mask]


def _listed(values: pa.Array) -> list[object]:
    """Return hashable values; timestamps and dates as text, since Python's range is smaller."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit)).cast(pa.string())
    elif pa.types.is_date(values.type):
        values = values.cast(pa.string())
    found: list[object] = values.to_pylist()
    return found
