"""ListProfile: whether a column holds lists, and of which values. Everything in it is private."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model import arrow_compute as pc
from scumble.model.schema import arrow_values
from scumble.model.schema.domains import Bins, Category, IntegerRange
from scumble.model.schema.lists import LIST_MARK, ListDomain, ListKind, is_list, split_lists

Edges = Callable[[float, float], tuple[float, ...]]
Whole = npt.NDArray[np.int64]

FEW = 20  # up to this number of distinct numbers may be categories

_SEPARATORS = (";", "|", ",", " ")
_TRIED = 1000  # texts of the first batch that are tried
_KEEP = 100_000  # distinct members that are stored
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
    values = arrow_values.unwrap(values.slice(0, _TRIED))
    if isinstance(values, pa.DictionaryArray):
        values = pc.dictionary_decode(values)
    return values if is_list(values.type) else arrow_values.decode_text(values)[0]


def _is_marked(values: pa.Array) -> bool:
    """Return whether some of the values are lists of Python objects."""
    if not arrow_values.is_text(values.type):
        return False
    return bool(pc.any_true(pc.starts_with(values, LIST_MARK)).as_py())


def _likely_separator(values: pa.Array) -> str:
    """Return the separator by which texts have 1.5 members or more in the mean; "" for none."""
    if not arrow_values.is_text(values.type):
        return ""
    texts = pc.drop_null(values)
    texts = pc.filter_(texts, pc.not_equal(texts, ""))
    for separator in _SEPARATORS:
        found = pc.total(pc.count_substring(texts, separator)).as_py() or 0
        if 2 * found >= len(texts) > 0:
            return separator
    return ""
