"""Column profile and proposed schema.

Proposing a schema by READING PRIVATE DATA: what was taken from it is marked, to be checked.
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
from scumble.private.tables.source import attempt, distinct

_BINS = 20
_ROUND = (1, 2, Fraction(5, 2), 5, 10)
_WIDE = 1000  # a longer range of whole numbers is better cut into bins

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
    identifiers: Iterable[str] = (),
    named: Iterable[str] = (),
    limit: int = 1000,
    table: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Schema:
    """A proposal for the schema of a source, in one pass over its private rows.

    Columns in `identifiers` are not looked at; those in `named` must be there. Text with more than
    `limit` distinct values is taken for an identifier.
    """
    opened = open_source(source, table=table)
    known = tuple(identifiers)
    opened.require((*known, *named))
    same = " Names that differ in case only are the same to SQL."
    distinct(opened.description, [name.lower() for name in opened.columns], same)
    profiles = {name: Profile() for name in opened.columns if name not in known}
    rows = 0
    for batch in opened.batches(list(profiles)) if profiles else ():
        attempt(opened.description, partial(_learn, profiles, batch))
        rows += batch.num_rows
        if progress is not None:
            progress(rows)
    return Schema(
        tuple(
            _attribute(name, profiles[name], limit)
            if name in profiles
            else Attribute(name, "identifier")
            for name in opened.columns
        )
    )


def _learn(profiles: Mapping[str, Profile], batch: pa.RecordBatch) -> None:
    for name, profile in profiles.items():
        profile.update(batch.column(name))


def _attribute(name: str, profile: Profile, limit: int) -> Attribute:
    domain, note = _domain(profile, limit)
    if domain is None:
        return Attribute(name, "identifier", note=note)
    # A category of words may have a value "unknown"; a number, code or date that is so is missing.
    blanks = {word for word in profile.blanks if not _has(domain, word)}
    missing = profile.missing or bool(blanks)
    # That a truth value is true or false is no secret; that it may be missing was learnt.
    learnt = missing or not isinstance(domain, Boolean)
    return Attribute(
        name=name,
        role="quasi",
        domain=domain,
        missing=missing,
        null_words=tuple(sorted(profile.words | blanks)),
        from_data=learnt,
        note=note,
    )


def _domain(profile: Profile, limit: int) -> tuple[Domain | None, str]:
    """The domain proposed and what to check, or None and why there is none."""
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
    hint = _SPELLINGS if spelled_twice(values) else ""
    return Category(tuple(sorted(values))), _NOTES["category"] + hint


def _has(domain: Domain, word: str) -> bool:
    return isinstance(domain, Category) and word in domain.values


def _of_kind(kind: str, profile: Profile) -> tuple[Domain | None, str]:
    if kind == "truth":
        return Boolean(), _NOTES["boolean"] if profile.missing or profile.blanks else ""
    if kind == "integer" and _counts_people(profile):
        return None, _SINGULAR
    if kind == "integer":
        domain = _whole(profile)
    elif kind == "number":
        domain = Bins(round_edges(profile.low["number"], profile.high["number"]))
    else:
        domain = _dates(*profile.days())
    return domain, _NOTES[domain.kind]


def _strays(kind: str, profile: Profile) -> str:
    """What to do about some values of another kind; how many there are is said coarsely."""
    share = "less than 1 %" if profile.stray(kind) < 0.01 else "1 to 5 %"
    outside = errors.named("outside")
    return (
        f"The values of {share} of the rows are no {_PLURALS[kind]} and lie outside: clean the "
        f"file, name a word for a missing value in 'missing', or {outside} decides what becomes "
        "of them when the table is published."
    )


def spelled_twice(values: Iterable[str]) -> bool:
    """Whether some values may be the same but for case, spaces, or a letter that stands for a word.

    >>> spelled_twice(["Asthma", "ASTHMA"]), spelled_twice(["F", "female"]), spelled_twice("ab")
    (True, True, False)
    """
    given = list(values)
    folded = {" ".join(value.casefold().split()) for value in given}
    letters = {value for value in folded if len(value) == 1}
    return len(folded) < len(given) or any(
        value[0] in letters and len(value) > 2 and value.isalpha() for value in folded
    )


def _counts_people(profile: Profile) -> bool:
    """Whole numbers, nearly all different and of a wide range: a number given to each row."""
    return profile.unique and profile.high["integer"] - profile.low["integer"] >= _WIDE


def _whole(profile: Profile) -> Domain:
    low, high = int(profile.low["integer"]), int(profile.high["integer"])
    if high >= 1 << 63:  # unsigned numbers that no range of 64-bit integers holds
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
    """Ten to twenty bins or so between round numbers that cover low to high.

    >>> round_edges(13, 97)[:4]
    (10.0, 15.0, 20.0, 25.0)
    """
    if float(low) == float(high):
        return float(floor(low)), max(float(floor(high) + 1), nextafter(high, inf))
    raw = (Decimal(high) - Decimal(low)) / _BINS
    unit = Fraction(10) ** raw.adjusted()
    step = next(unit * size for size in _ROUND if unit * size >= raw)
    places = range(floor(Fraction(low) / step), ceil(Fraction(high) / step) + 1)
    # Where floats are sparser than the steps, several edges fall together.
    return tuple(sorted({float(step * place) for place in places}))


def _dates(first: date, last: date) -> Dates:
    """Days within two months, months within 30 years, or years; whole ones, which tell less."""
    length = (last - first).days
    if length <= 62:
        return Dates(first, last, "day")
    if length <= 30 * 366:
        end = calendar.monthrange(last.year, last.month)[1]
        return Dates(first.replace(day=1), last.replace(day=end), "month")
    return Dates(date(first.year, 1, 1), date(last.year, 12, 31), "year")


# Profile: what one private column holds, learnt in one streaming pass. All of it is private.

NULL_WORDS = ("?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL")

# Words that tell nothing beside numbers, dates or truth values, in any case of letters.
BLANK_WORDS = ("unknown", "missing", "not known", "not available", "n.a.", "-", "--", ".")
FEW = 20  # distinct whole numbers that may stand for categories

_KEEP = 100_000  # distinct values remembered; beyond it a column has "many"
_GLANCE = 64  # distinct values that show whether the others are worth reading
_HOPELESS = 100_000  # rows of another kind; if they are the most as well, it is given up
_STRAY = 0.05  # share of rows of another kind where "nearly all" are of one
_NUMBERS = ("integer", "number")
_TRUTHS = {*arrow_values.TRUE_WORDS, *arrow_values.FALSE_WORDS}
_TRUTH_PAIRS = tuple(zip(arrow_values.TRUE_WORDS, arrow_values.FALSE_WORDS, strict=True))
_PLAIN_TRUTHS = {"true", "false", "yes", "no"}  # one of them will do, letters and digits need both
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
        self.blanks: set[str] = set()  # words that tell nothing, unless they are categories
        self.blank_rows = 0
        self.padded = False  # whether there are numbers like 01234
        self.possible = {"truth", "integer", "number", "date"}
        self.fits: Counter[str] = Counter()  # rows, for each kind
        self.strays: Counter[str] = Counter()  # rows of another kind, blank ones not counted
        self.low: dict[str, float] = {}
        self.high: dict[str, float] = {}

    def update(self, values: pa.Array) -> None:
        """Learn from the next batch."""
        values = arrow_values.bare(values)
        if pa.types.is_nested(values.type):
            self.seen.add(values.type)
            self.possible.clear()
            return
        counted = pc.value_counts(values)
        distinct, counts = counted.field("values"), counted.field("counts").to_numpy()
        if isinstance(distinct, pa.DictionaryArray):
            distinct = distinct.dictionary_decode()
        distinct, garbled = arrow_values.plain(distinct)
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
        """Whether every value occurs once; of many values, nearly every one."""
        share = 0.9 if self.filled >= 20 else 0.999
        return self.filled >= 4 and len(self.seen) > share * self.filled

    def whole(self, kind: str) -> bool:
        """Whether all values are of a kind, but for words that tell nothing."""
        return self._can_be(kind) and not self.strays[kind]

    def nearly(self) -> str:
        """The kind of nearly all values, where some are of another; empty if there is none.

        A few numbers beside a word (1, 2, 3+) are rather categories.
        """
        kinds = ("truth", "date", *(_NUMBERS if len(self.seen) > FEW else ()))
        found = [kind for kind in kinds if self._can_be(kind) and self.stray(kind) <= _STRAY]
        return min(found, key=self.stray, default="")

    def stray(self, kind: str) -> float:
        """The share of rows with a value of another kind."""
        rows = self.strays[kind] + self.fits[kind]
        return self.strays[kind] / rows if rows else 1.0

    @property
    def coded(self) -> bool:
        """Whether nearly all values are whole numbers, some of them with leading zeros."""
        return self.padded and "integer" in self.possible and self.stray("integer") <= _STRAY

    def _can_be(self, kind: str) -> bool:
        if kind not in self.possible or self.fits[kind] <= self.blank_rows:
            return False
        if kind == "truth":
            return self._two_sided()
        # 01234 is a code, not a number
        return kind in self.low and not (self.padded and kind in _NUMBERS)

    def _two_sided(self) -> bool:
        """Whether the truth values are such that nothing else can be meant: F alone is none."""
        words = {str(value).strip().lower() for value in self.seen} & _TRUTHS
        pairs = not self.strays["truth"] and any(words.issuperset(pair) for pair in _TRUTH_PAIRS)
        return pairs or not words.isdisjoint(_PLAIN_TRUTHS)

    def days(self) -> tuple[date, date]:
        """The first and the last day."""
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
        """Count the rows that are of a kind, and widen its range.

        A glance at a few values spares the slow look at many that are not of that kind.
        """
        if not len(values):
            return
        few = np.unique(np.linspace(0, len(values) - 1, _GLANCE).astype(int))
        worth = 2 * self._fitting(kind, values.take(pa.array(few))).sum() >= len(few)
        fits = self._fitting(kind, values) if worth else np.zeros(len(values), bool)
        self.fits[kind] += int(counts[fits].sum())
        self.strays[kind] += int(counts[~fits].sum())
        if self.strays[kind] > max(_HOPELESS, self.fits[kind]):
            self.possible.discard(kind)

    def _fitting(self, kind: str, values: pa.Array) -> np.ndarray:
        """Which values can be of a kind; they widen its range."""
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
    "truth": arrow_values.truths,
    "integer": arrow_values.integers,
    "number": arrow_values.numbers,
    "date": _days,
}


def _kept(values: pa.Array, counts: np.ndarray, mask: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    return values.filter(pa.array(mask)), counts[mask]


def _listed(values: pa.Array) -> list[object]:
    """Values to tell apart; moments as text, for Python cannot hold the farthest."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit)).cast(pa.string())
    elif pa.types.is_date(values.type):
        values = values.cast(pa.string())
    found: list[object] = values.to_pylist()
    return found
