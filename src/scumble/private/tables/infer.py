"""Proposing a schema by READING PRIVATE DATA.

`infer_schema` profiles every column in one pass and proposes a domain. Domains that were read from
the data are marked `from_data`, for the owner to check.
"""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import ceil, floor, inf, nextafter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model import errors
from scumble.model.schema import arrow_values
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, Domain, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.tables.open import open_source
from scumble.private.tables.source import check_distinct, read_safely

_BINS = 20
_ROUND = (1, 2, Fraction(5, 2), 5, 10)
_WIDE = 1000  # a longer range of integers is proposed as bins

_NOTES = {
    "category": "Read from the data: list every value that is possible, not only those that occur.",
    "integer": "Read from the data: write the range that is possible, not the one that occurs.",
    "binned": "Read from the data: choose edges that cover what is possible.",
    "date": "Read from the data: write the range that is possible, not the one that occurs.",
    "boolean": "Read from the data: may a value be missing?",
}
_PLURALS = {
    "truth": "truth values",
    "integer": "whole numbers",
    "number": "numbers",
    "date": "dates like 2024-12-31",
}
_SINGULAR = (
    "Nearly every value occurs once: taken for an identifier, which is never published. "
    "If it is none, give it a role and a type."
)
_ENDLESS = (
    "Too many different values to list: taken for an identifier, which is never published. "
    "To publish it, give it a role and a type with fewer values."
)
_CODES = (
    " Nearly all are whole numbers, some with zeros in front: a type integer with a range reads "
    "them as numbers."
)
_SPELLINGS = (
    " Some values look like one value spelled in several ways (upper and lower case, spaces, one "
    "letter for a word): clean the file, or they count as different values."
)
_EMPTY = "No value to learn from: never published until you give it a role and a type."
_STRANGE = "Values of a kind that cannot be published; never published until they are converted."


def infer_schema(
    source: object,
    *,
    sensitive: str | Iterable[str] = (),
    identifier: str | Iterable[str] = (),
    insensitive: str | Iterable[str] = (),
    limit: int = 1000,
    table: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Schema:
    """Return a proposed schema of a source, in one pass over its private rows.

    See `Schema.infer` for the parameters. The columns of `identifier` are not read.
    """
    roles = {"sensitive": _names(sensitive), "insensitive": _names(insensitive)}
    identifiers = _names(identifier)
    opened = open_source(source, table=table)
    opened.require((*identifiers, *roles["sensitive"], *roles["insensitive"]))
    same = " Names that differ in case only are the same to SQL."
    check_distinct(opened.description, [name.lower() for name in opened.columns], same)
    profiles = {name: Profile() for name in opened.columns if name not in identifiers}
    rows = 0
    for batch in opened.batches(list(profiles)) if profiles else ():
        read_safely(opened.description, partial(_learn, profiles, batch))
        rows += batch.num_rows
        if progress is not None:
            progress(rows)
    proposed = Schema(
        tuple(
            _attribute(name, profiles[name], limit)
            if name in profiles
            else Attribute(name, "identifier")
            for name in opened.columns
        )
    )
    return proposed.with_roles(**roles)


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _learn(profiles: Mapping[str, Profile], batch: pa.RecordBatch) -> None:
    for name, profile in profiles.items():
        profile.update(batch.column(name))


def _attribute(name: str, profile: Profile, limit: int) -> Attribute:
    domain, note = _domain(profile, limit)
    if domain is None:
        return Attribute(name, "identifier", note=note)
    # "unknown" may be a value of a category; among numbers, codes or dates it means missing.
    blanks = {word for word in profile.blanks if not _has(domain, word)}
    missing = profile.missing or bool(blanks)
    # The domain of a boolean is public; that a value may be missing was read from the data.
    from_data = missing or not isinstance(domain, Boolean)
    return Attribute(
        name=name,
        role="quasi",
        domain=domain,
        missing=missing,
        null_words=tuple(sorted(profile.words | blanks)),
        from_data=from_data,
        note=note,
    )


def _domain(profile: Profile, limit: int) -> tuple[Domain | None, str]:
    """Return the proposed domain and a note on what to check, or None and the reason."""
    if not profile.seen:
        return None, _EMPTY
    for kind in ("truth", "integer", "number", "date"):
        if profile.whole(kind):
            return _of_kind(kind, profile)
    if kind := profile.nearly():
        domain, note = _of_kind(kind, profile)
        return domain, note if domain is None else f"{note} {_strays(kind, profile)}".strip()
    values = {str(value) for value in profile.seen if not isinstance(value, pa.DataType)}
    if not (profile.text and values):
        return None, _STRANGE
    if profile.unique:
        return None, _SINGULAR
    if profile.many or len(profile.seen) > limit:
        return None, _ENDLESS + (_CODES if profile.coded else "")
    if profile.coded:
        return Category(tuple(sorted(values - profile.blanks))), _NOTES["category"] + _CODES
    hint = _SPELLINGS if near_duplicates(values) else ""
    return Category(tuple(sorted(values))), _NOTES["category"] + hint


def _has(domain: Domain, word: str) -> bool:
    return isinstance(domain, Category) and word in domain.values


def _of_kind(kind: str, profile: Profile) -> tuple[Domain | None, str]:
    if kind == "truth":
        return Boolean(), _NOTES["boolean"] if profile.missing or profile.blanks else ""
    if kind == "integer" and _numbers_rows(profile):
        return None, _SINGULAR
    if kind == "integer":
        domain = _whole(profile)
    elif kind == "number":
        domain = Bins(round_edges(profile.low["number"], profile.high["number"]))
    else:
        domain = _dates(*profile.days())
    return domain, _NOTES[domain.kind]


def _strays(kind: str, profile: Profile) -> str:
    """Return advice on values of another type; their share is stated in coarse steps."""
    share = "less than 1 %" if profile.stray(kind) < 0.01 else "1 to 5 %"
    outside = errors.named("outside")
    return (
        f"The values of {share} of the rows are no {_PLURALS[kind]} and lie outside: clean the "
        f"file, name a word for a missing value in 'missing', or {outside} decides what becomes "
        "of them when the table is published."
    )


def near_duplicates(values: Iterable[str]) -> bool:
    """Return whether values differ only by case or spaces, or one is the first letter of another.

    >>> near_duplicates(["Asthma", "ASTHMA"]), near_duplicates(["F", "female"])
    (True, True)
    >>> near_duplicates("ab")
    False
    """
    given = list(values)
    folded = {" ".join(value.casefold().split()) for value in given}
    letters = {value for value in folded if len(value) == 1}
    return len(folded) < len(given) or any(
        value[0] in letters and len(value) > 2 and value.isalpha() for value in folded
    )


def _numbers_rows(profile: Profile) -> bool:
    """Return whether integers look like row numbers: nearly all distinct, over a wide range."""
    return profile.unique and profile.high["integer"] - profile.low["integer"] >= _WIDE


def _whole(profile: Profile) -> Domain:
    low, high = int(profile.low["integer"]), int(profile.high["integer"])
    if high >= 1 << 63:  # unsigned integers beyond the range of signed 64-bit ones
        return Bins(round_edges(low, high))
    values = (
        {int(Decimal(str(value))) for value in profile.seen - profile.blanks}
        if len(profile.seen) <= FEW
        else set()
    )
    if values and high - low >= 10 * len(values):
        return Category(tuple(sorted(values)), ordered=True)
    if high - low < _WIDE:
        return IntegerRange(low, high)
    return Bins(round_edges(low, high))


def round_edges(low: float, high: float) -> tuple[float, ...]:
    """Return the edges of about ten to twenty bins at round numbers that cover low to high.

    >>> round_edges(13, 97)[:4]
    (10.0, 15.0, 20.0, 25.0)
    """
    if float(low) == float(high):
        return float(floor(low)), max(float(floor(high) + 1), nextafter(high, inf))
    raw = (Decimal(high) - Decimal(low)) / _BINS
    unit = Fraction(10) ** raw.adjusted()
    step = next(unit * size for size in _ROUND if unit * size >= raw)
    places = range(floor(Fraction(low) / step), ceil(Fraction(high) / step) + 1)
    # If floats are sparser than the steps, several edges are equal.
    return tuple(sorted({float(step * place) for place in places}))


def _dates(first: date, last: date) -> Dates:
    """Return a domain by day (up to 62 days), by month (up to 30 years) or by year.

    Its ends are rounded to whole months or years, which reveals less.
    """
    length = (last - first).days
    if length <= 62:
        return Dates(first, last, "day")
    if length <= 30 * 366:
        end = calendar.monthrange(last.year, last.month)[1]
        return Dates(first.replace(day=1), last.replace(day=end), "month")
    return Dates(date(first.year, 1, 1), date(last.year, 12, 31), "year")


# Profiles of columns. Everything in a profile is private.

NULL_WORDS = ("?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL")

# Words that mean a missing value among numbers, dates or booleans; case is ignored.
BLANK_WORDS = ("unknown", "missing", "not known", "not available", "n.a.", "-", "--", ".")
FEW = 20  # up to this number of distinct integers may be categories

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
_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days


class Profile:
    """What one column contains: distinct values (up to a limit), ranges, and possible types.

    The types are "truth", "integer", "number" and "date".
    """

    def __init__(self) -> None:
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

    def update(self, values: pa.Array) -> None:
        """Add the next batch."""
        values = arrow_values.unwrap(values)
        if pa.types.is_nested(values.type):
            self.seen.add(values.type)
            self.possible.clear()
            return
        counted = pc.value_counts(values)
        distinct, counts = counted.field("values"), counted.field("counts").to_numpy()
        if isinstance(distinct, pa.DictionaryArray):
            distinct = distinct.dictionary_decode()
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

    def days(self) -> tuple[date, date]:
        """Return the first and the last day."""
        ends = (self.low["date"], self.high["date"])
        first, last = (_EPOCH + timedelta(days=int(end)) for end in ends)
        return first, last

    def _without_missing(
        self, distinct: pa.Array, counts: np.ndarray
    ) -> tuple[pa.Array, np.ndarray]:
        real = distinct.is_valid()
        if pa.types.is_floating(distinct.type):
            real = pc.and_(real, pc.invert(pc.is_nan(distinct).fill_null(True)))
        elif arrow_values.is_text(distinct.type):
            self.text = self.text or distinct.null_count < len(distinct)
            distinct = pc.utf8_trim_whitespace(distinct)
            blank = pc.is_in(distinct, pa.array(("", *NULL_WORDS), distinct.type))
            self.words.update(word for word in distinct.filter(blank).to_pylist() if word)
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
        self.blanks.update(distinct.filter(blank).to_pylist())
        self.blank_rows += int(counts[mask].sum())
        return _kept(distinct, counts, ~mask)

    def _learn(self, kind: str, values: pa.Array, counts: np.ndarray) -> None:
        """Count the rows whose value is of a type, and widen its range.

        A few values are tried first, because reading many values of another type is slow.
        """
        if not len(values):
            return
        few = np.unique(np.linspace(0, len(values) - 1, _TRIED).astype(int))
        worth = 2 * self._fitting(kind, values.take(pa.array(few))).sum() >= len(few)
        fits = self._fitting(kind, values) if worth else np.zeros(len(values), bool)
        self.fits[kind] += int(counts[fits].sum())
        self.strays[kind] += int(counts[~fits].sum())
        if self.strays[kind] > max(_HOPELESS, self.fits[kind]):
            self.possible.discard(kind)

    def _fitting(self, kind: str, values: pa.Array) -> np.ndarray:
        """Return a mask of the values that can be read as a type; they widen its range."""
        if kind in _NUMBERS and arrow_values.is_text(values.type):
            found = pc.match_substring_regex(values, "^[+-]?0[0-9]")
            self.padded = self.padded or bool(pc.any(found).as_py())
        if kind == "date" and (
            pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        ):
            return np.zeros(len(values), bool)
        found, unread = _READERS[kind](values)
        fits = np.ones(len(values), bool) if unread is None else ~unread
        if kind == "date":
            fits = fits & (found >= _FIRST) & (found <= _LAST)
        elif kind == "truth":
            return fits
        found = found[fits & np.isfinite(found)]
        if len(found):
            low, high = found.min().item(), found.max().item()
            self.low[kind] = min(self.low.get(kind, low), low)
            self.high[kind] = max(self.high.get(kind, high), high)
        return fits


def _days(values: pa.Array) -> tuple[np.ndarray, arrow_values.Unread]:
    return arrow_values.days(values, "month")


_READERS: dict[str, Callable[[pa.Array], tuple[np.ndarray, arrow_values.Unread]]] = {
    "truth": arrow_values.booleans,
    "integer": arrow_values.integers,
    "number": arrow_values.numbers,
    "date": _days,
}


def _kept(values: pa.Array, counts: np.ndarray, mask: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    return values.filter(pa.array(mask)), counts[mask]


def _listed(values: pa.Array) -> list[object]:
    """Return hashable values; timestamps and dates as text, since Python's range is smaller."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit)).cast(pa.string())
    elif pa.types.is_date(values.type):
        values = values.cast(pa.string())
    found: list[object] = values.to_pylist()
    return found
