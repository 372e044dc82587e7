"""Profiles of columns, from which `infer.py` proposes domains. Everything in them is private."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.schema import arrow_values
from scumble.model.schema.domains import Bins, Category, IntegerRange
from scumble.model.schema.lists import LIST_MARK, ListDomain, ListKind, is_list, split_lists
from scumble.model.schema.spelling import Spelling, has_marks
from scumble.private.tables.persons.limit import RowLimit

NULL_WORDS = ("?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL")

# Words that mean a missing value among numbers, dates or booleans; case is ignored.
BLANK_WORDS = ("unknown", "missing", "not known", "not available", "n.a.", "-", "--", ".")

_KEEP = 100_000  # distinct values that are stored; beyond it a column has "many"
_LOOKED_AT = 1_000_000  # rows in which repeated identifiers are looked for
_TRIED = 64  # distinct values that are tried before the others are read
_HOPELESS = 100_000  # rows of another type; if they are the majority, a type is ruled out
_STRAY = 0.05  # the largest share of rows of another type
_NUMBERS = ("integer", "number")
DATE_FORMATS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
)
DECIMALS = (",", ".")
# Types in a spelling that a schema declares, each with the type and the spelling.
SPELLED = {
    **{form: ("date", Spelling(format=form)) for form in DATE_FORMATS},
    **{f"{kind}{mark}": (kind, Spelling(decimal=mark)) for mark in DECIMALS for kind in _NUMBERS},
}
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
_DECIMAL_COMMA = re.compile(
    r"[+-]?(?:[0-9]{1,15}|[0-9]{1,3}(?:[. '\u2019\u00a0\u202f][0-9]{3})+)(?:,([0-9]{1,6}))?"
)
_MIXED = re.compile(r".*[0-9][. '\u2019\u00a0\u202f][0-9]{3},[0-9]")  # 1.234,5 is no list
FEWEST_DECIMALS = 4  # distinct values from which on such numbers are recognised
_USUAL = 0.8  # of them have the same number of digits after the comma
_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days


class Repeats:
    """Whether some identifier stands in several rows; of many, the first ones decide."""

    def __init__(self) -> None:
        self.repeated = False
        self._limit = RowLimit("", 1)
        self._rows = 0

    def update(self, values: pa.Array) -> None:
        """Look at the next batch."""
        if self.decided:
            return
        self._rows += len(values)
        if not pa.types.is_nested(arrow_values.unwrap(values).type):
            keep, unidentified = self._limit.keep(values)
            self.repeated = not bool((keep | unidentified).all())

    @property
    def decided(self) -> bool:
        """Whether further rows are not looked at."""
        return self.repeated or self._rows >= _LOOKED_AT


class Profile:
    """What one column contains: distinct values (up to a limit), ranges, and possible types.

    The types are "truth", "integer", "number", "date" and those of `SPELLED`.
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
        self.possible = {*_READERS, *SPELLED}
        self.fits: Counter[str] = Counter()  # by type: rows whose value can be read
        self.strays: Counter[str] = (
            Counter()
        )  # by type: rows whose value cannot, blanks not counted
        self.low: dict[str, float] = {}
        self.high: dict[str, float] = {}
        # Rows with a number by its sign and step: at len(STEPS) + 1 stands 0, at the places after
        # it the numbers from 0 to STEPS[0], from there to STEPS[1] and so on. By type of number.
        self.by_step: dict[str, np.ndarray] = {}

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
        for kind in (*_READERS, *SPELLED):  # the usual spelling first
            if kind in self.possible:
                self._learn(kind, distinct, counts)

    @property
    def repeated(self) -> bool:
        """Whether some value occurs in several rows."""
        return len(self.seen) < self.filled

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
        found = [kind for kind in kinds if self.nearly_is(kind)]
        return min(found, key=self.stray, default="")

    def nearly_is(self, kind: str) -> bool:
        """Return whether nearly all values are of this type."""
        return self._can_be(kind) and self.stray(kind) <= _STRAY

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
        return kind in self.low and not (self.padded and base_of(kind) in _NUMBERS)

    def _is_boolean(self) -> bool:
        """Return whether the values are certainly booleans: a pair, or a full word; not F alone."""
        words = {str(value).strip().lower() for value in self.seen} & _TRUTHS
        pairs = not self.strays["truth"] and any(words.issuperset(pair) for pair in _TRUTH_PAIRS)
        return pairs or not words.isdisjoint(_PLAIN_TRUTHS)

    @property
    def regular(self) -> bool:
        """Whether values look like 12,5 or 1.234: numbers, nearly all with as many digits after the
        comma, or some with marks between groups, too.
        """
        values = [str(value) for value in self.seen - self.blanks]
        found = [_DECIMAL_COMMA.fullmatch(value) for value in values]
        if not self.text or len(values) < FEWEST_DECIMALS or not all(found):
            return False
        digits = Counter(len(each[1] or "") for each in found if each)
        usual = digits.most_common(1)[0][1] >= _USUAL * len(values)
        return usual or any(map(_MIXED.match, values))

    @property
    def thousands(self) -> bool:
        """Whether every point stands before three digits, so that 1.234 may be a thousand."""
        values = [str(value) for value in self.seen - self.blanks]
        points = [value for value in values if "." in value]
        few = len(values) < FEWEST_DECIMALS or not self.text or len(points) == len(values)
        return not few and all(re.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}", p) for p in points)

    def whole_numbers(self) -> set[int]:
        """Return the distinct integers of a column of nothing else but words for missing."""
        return {int(Decimal(str(value))) for value in self.seen - self.blanks}

    def days(self, kind: str = "date") -> tuple[date, date]:
        """Return the first and the last day."""
        ends = (self.low[kind], self.high[kind])
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
            self.words.update(word for word in pc.filter(distinct, blank).to_pylist() if word)
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
        self.blanks.update(pc.filter(distinct, blank).to_pylist())
        self.blank_rows += int(counts[mask].sum())
        return _kept(distinct, counts, ~mask)

    def _learn(self, kind: str, values: pa.Array, counts: np.ndarray) -> None:
        """Count the rows whose value is of a type, and widen its range.

        A few values are tried first, because reading many values of another type is slow.
        """
        if not len(values) or (kind in SPELLED and not arrow_values.is_text(values.type)):
            self.strays[kind] += int(counts.sum())
            return
        few = np.linspace(0, len(values) - 1, _TRIED).astype(int)
        few = few[np.diff(few, prepend=-1) > 0]  # without repetitions
        worth = 2 * self._fitting(kind, pc.take(values, pa.array(few)))[0].sum() >= len(few)
        fits = np.zeros(len(values), bool)
        if worth:
            fits, found = self._fitting(kind, values)
            if base_of(kind) == "number":
                self._count_steps(kind, found[fits], counts[fits])
        self.fits[kind] += int(counts[fits].sum())
        self.strays[kind] += int(counts[~fits].sum())
        if self.strays[kind] > max(_HOPELESS, self.fits[kind]):
            self.possible.discard(kind)

    def _count_steps(self, kind: str, numbers: np.ndarray, counts: np.ndarray) -> None:
        finite = np.isfinite(numbers)
        numbers, counts = numbers[finite].astype(float), counts[finite]
        step = np.searchsorted(STEPS, np.abs(numbers), side="right") + 1
        places = len(STEPS) + 1 + np.sign(numbers).astype(int) * step
        rows = np.bincount(places, counts, 2 * len(STEPS) + 3)
        self.by_step[kind] = self.by_step.get(kind, 0) + rows

    def _fitting(self, kind: str, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return a mask of the values that can be read as a type, and what was read."""
        if kind in _NUMBERS and arrow_values.is_text(values.type):
            found = pc.match_substring_regex(values, "^[+-]?0[0-9]")
            self.padded = self.padded or bool(pc.any(found).as_py())
        if kind == "date" and (
            pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        ):
            return np.zeros(len(values), bool), np.zeros(len(values))
        base, spelling = SPELLED.get(kind, (kind, None))
        if spelling is not None:
            if base in _NUMBERS and not has_marks(values, kind[-1]):
                base, spelling = base, None  # spelled as usual
            else:
                values = spelling.respell(values)
        found, unread = _READERS[base](values)
        fits = np.ones(len(values), bool) if unread is None else ~unread
        if base == "date":
            fits = fits & (found >= _FIRST) & (found <= _LAST)
        elif kind == "truth":
            return fits, found
        known = found[fits & np.isfinite(found)]
        if len(known):
            low, high = known.min().item(), known.max().item()
            self.low[kind] = min(self.low.get(kind, low), low)
            self.high[kind] = max(self.high.get(kind, high), high)
        return fits, found


def base_of(kind: str) -> str:
    """Return the type of values that are in a spelling of their own: date for "%d.%m.%Y"."""
    return SPELLED[kind][0] if kind in SPELLED else kind


def _days(values: pa.Array) -> tuple[np.ndarray, arrow_values.Unread]:
    return arrow_values.days(values, "month")


_READERS: dict[str, Callable[[pa.Array], tuple[np.ndarray, arrow_values.Unread]]] = {
    "truth": arrow_values.booleans,
    "integer": arrow_values.integers,
    "number": arrow_values.numbers,
    "date": _days,
}


def _kept(values: pa.Array, counts: np.ndarray, mask: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    return pc.filter(values, pa.array(mask)), counts[mask]


def _listed(values: pa.Array) -> list[object]:
    """Return hashable values; timestamps and dates as text, since Python's range is smaller."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit)).cast(pa.string())
    elif pa.types.is_date(values.type):
        values = values.cast(pa.string())
    found: list[object] = values.to_pylist()
    return found


# --- lists ----------------------------------------------------------------------------------------
#
# ListProfile: whether a column holds lists, and of which values. Everything in it is private.

Edges = Callable[[float, float], tuple[float, ...]]
Whole = npt.NDArray[np.int64]

FEW = 20  # up to this number of distinct numbers may be categories

_SEPARATORS = (";", "|", ",", " ")
_LISTS_TRIED = 1000  # texts of the first batch that are tried
_LENGTHS = (5, 10, 20, 50, 100, 200, 500, 1000)
_LATE, _ALONE = 3, 4  # the bits of places: 0 to 2, all later ones, and alone in a list
_PLACES = (1 << _ALONE) - 1


class ListProfile:
    """The members of the lists of a column, learned batch by batch.

    A text column may be lists if the texts of its first batch have 1.5 members or more in the mean,
    for some separator. Names, addresses and prose are separated by commas and white space, too; but
    a word of a name or an address has its place in it, and many words of prose occur once or twice,
    while most members of lists of several lengths occur at three places, or both alone and not
    first.
    """

    def __init__(self) -> None:
        self.separator: str | None = None  # None before the first batch; "" if there are no lists
        self.declared = False  # whether the column has a list type
        self.members: dict[str, int] = {}  # each with its places as bits: see `_places`
        self.whole = True  # whether all members are whole numbers
        self.numbers = True  # whether all members are numbers
        self.low: float = 0
        self.high: float = 0
        self.lists = self.total = self.longest = 0
        self.repeats = False

    def update(self, values: pa.Array) -> None:
        """Add the next batch."""
        if self.separator is None:
            sample = _sample(values)
            self.declared = is_list(values.type) or _is_marked(sample)
            self.separator = " " if self.declared else _likely_separator(sample)
        if not self.separator:
            return
        values, rows = _distinct(values)
        split = split_lists(values, self.separator)
        if not len(split.values):
            return
        texts, _ = arrow_values.texts(split.values)
        coded = pc.dictionary_encode(texts)
        codes, lengths = coded.indices.to_numpy(), np.bincount(split.owners, minlength=len(values))
        starts = np.cumsum(lengths) - lengths
        place = np.arange(len(codes)) - starts[split.owners]
        alone = codes[lengths[split.owners] == 1]
        self._learn(coded.dictionary, _places(len(coded.dictionary), codes, place, alone))
        self.lists += int(rows[lengths > 0].sum())
        self.total += int(rows @ lengths)
        self.longest = max(self.longest, int(lengths.max()))
        pairs = np.sort(split.owners * len(coded.dictionary) + codes)
        self.repeats = self.repeats or bool((pairs[1:] == pairs[:-1]).any())

    def _learn(self, distinct: pa.Array, places: Whole) -> None:
        if len(self.members) <= _KEEP:
            for member, bits in zip(distinct.to_pylist(), places.tolist(), strict=True):
                self.members[member] = self.members.get(member, 0) | bits
        if self.numbers:
            self._widen(distinct)

    def _widen(self, distinct: pa.Array) -> None:
        """Widen the range of the members, if all of them are numbers."""
        if self.whole:
            found, unread = arrow_values.integers(distinct)
            self.whole = unread is None or not unread.any()
        if not self.whole:
            found, unread = arrow_values.numbers(distinct)
            self.numbers = (unread is None or not unread.any()) and bool(np.isfinite(found).all())
        if self.numbers:
            low, high = found.min().item(), found.max().item()
            self.low = min(self.low, low) if self.lists else low
            self.high = max(self.high, high) if self.lists else high

    @property
    def likely(self) -> bool:
        """Whether the column certainly or probably holds lists."""
        if self.declared:
            return bool(self.total)
        least = 2 if self.whole else 1.5  # 1 200 may be a number
        if self.total < least * max(self.lists, 1) or self.total < 5 * len(self.members):
            return False
        if self.separator in (";", "|") or self.whole:
            return True
        places = self.members.values()
        if self.separator == ",":  # Springfield, Ohio
            return 2 * sum((bits & _PLACES).bit_count() > 1 for bits in places) >= len(places)
        return 3 * sum(map(_moves, places)) >= 2 * len(places)

    def domain(self, limit: int, edges: Edges, kind: ListKind | None = None) -> ListDomain | None:
        """Return the proposed domain: a sequence if a list repeats a member or holds measurements;
        None if the members are too many to list. `edges` returns those of bins for a range.
        """
        if not self.total:
            return None
        members: Category | IntegerRange | Bins
        close = self.high - self.low < max(2 * len(self.members), 10)
        if self.whole and (close or len(self.members) > limit):
            members = IntegerRange(int(self.low), int(self.high))
        elif self.numbers and not self.whole and len(self.members) > FEW:
            members = Bins(edges(self.low, self.high))
        elif len(self.members) > limit:
            return None
        elif self.whole:
            members = Category(tuple(sorted(map(int, self.members))))
        else:
            members = Category(tuple(sorted(self.members)))
        longest = next((each for each in _LENGTHS if each >= self.longest), self.longest)
        measured = isinstance(members, Bins)  # as coordinates, which come one after the other
        kind = kind or ("sequence" if self.repeats or measured else "set")
        return ListDomain(kind, members, self.separator or " ", longest)


def _places(size: int, codes: Whole, place: Whole, alone: Whole) -> Whole:
    """Return for each of `size` members bits of the places where it occurs."""
    occurs = np.zeros((size, _ALONE + 1), bool)
    occurs[codes, np.minimum(place, _LATE)] = True
    occurs[alone, _ALONE] = True
    bits: Whole = occurs @ (1 << np.arange(_ALONE + 1))
    return bits


def _moves(bits: int) -> bool:
    """Return whether a member occurs at three places, or both alone and not first."""
    place = bits & _PLACES
    return place.bit_count() > 2 or (bits >> _ALONE == 1 and place > 1)


def _distinct(values: pa.Array) -> tuple[pa.Array, Whole]:
    """Return the distinct values, each with its number of rows; lists as they are."""
    values = arrow_values.unwrap(values)
    kind = values.type.value_type if isinstance(values, pa.DictionaryArray) else values.type
    if pa.types.is_nested(kind):
        return values, np.ones(len(values), np.int64)
    counted = pc.value_counts(values)
    return counted.field("values"), counted.field("counts").to_numpy()


def _sample(values: pa.Array) -> pa.Array:
    """Return the first values, bytes as text."""
    values = arrow_values.unwrap(values.slice(0, _LISTS_TRIED))
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    return values if is_list(values.type) else arrow_values.decode_text(values)[0]


def _is_marked(values: pa.Array) -> bool:
    """Return whether some of the values are lists of Python objects."""
    if not arrow_values.is_text(values.type):
        return False
    return bool(pc.any(pc.starts_with(values, LIST_MARK)).as_py())


def _likely_separator(values: pa.Array) -> str:
    """Return the separator by which texts have 1.5 members or more in the mean; "" for none."""
    if not arrow_values.is_text(values.type):
        return ""
    texts = pc.drop_null(values)
    texts = pc.filter(texts, pc.not_equal(texts, ""))
    for separator in _SEPARATORS:
        found = pc.sum(pc.count_substring(texts, separator)).as_py() or 0
        if 2 * found >= len(texts) > 0:
            return separator
    return ""
