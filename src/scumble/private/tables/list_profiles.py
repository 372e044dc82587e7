"""ListProfile: whether a column holds lists, and of which values. Everything in it is private."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model import arrow_compute as pc
from scumble.model.schema import arrow_values
from scumble.model.schema.domains import Category, IntegerRange
from scumble.model.schema.lists import LIST_MARK, ListDomain, ListKind, is_list, split_lists

_SEPARATORS = (";", "|", ",", " ")
_TRIED = 1000  # texts of the first batch that are tried
_KEEP = 100_000  # distinct members that are stored
_LENGTHS = (5, 10, 20, 50, 100, 200, 500, 1000)
_WORDS = 200  # the most distinct words of lists that white space separates; more may be prose


class ListProfile:
    """The members of the lists of a column, learned batch by batch.

    A text column may be lists if the texts of its first batch have two members or more in the
    mean, for some separator.
    """

    def __init__(self) -> None:
        self.separator: str | None = None  # None before the first batch; "" if there are no lists
        self.declared = False  # whether the column has a list type
        self.members: set[str] = set()
        self.whole = True  # whether all members are whole numbers
        self.low = self.high = 0
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
        self._learn(coded.dictionary)
        lengths = np.bincount(split.owners, minlength=len(values))
        self.lists += int(rows[lengths > 0].sum())
        self.total += int(rows @ lengths)
        self.longest = max(self.longest, int(lengths.max()))
        pairs = np.sort(split.owners * len(coded.dictionary) + coded.indices.to_numpy())
        self.repeats = self.repeats or bool((pairs[1:] == pairs[:-1]).any())

    def _learn(self, distinct: pa.Array) -> None:
        if len(self.members) <= _KEEP:
            self.members.update(distinct.to_pylist())
        if self.whole:
            numbers, unread = arrow_values.integers(distinct)
            self.whole = unread is None or not unread.any()
            if self.whole:
                empty = not self.lists
                self.low = int(numbers.min()) if empty else min(self.low, int(numbers.min()))
                self.high = int(numbers.max()) if empty else max(self.high, int(numbers.max()))

    @property
    def likely(self) -> bool:
        """Whether the column certainly or probably holds lists."""
        if self.declared:
            return bool(self.total)
        if self.total < 2 * max(self.lists, 1) or self.total < 5 * len(self.members):
            return False
        if self.separator != " " or self.whole:
            return True
        return self.total >= 3 * self.lists and len(self.members) <= _WORDS

    def domain(self, limit: int, kind: ListKind | None = None) -> ListDomain | None:
        """Return the proposed domain: a sequence if a list repeats a member; None if the members
        are too many to list.
        """
        if not self.total:
            return None
        members: Category | IntegerRange
        if self.whole and self.high - self.low < max(2 * len(self.members), 10):
            members = IntegerRange(self.low, self.high)
        elif len(self.members) > limit:
            if not self.whole:
                return None
            members = IntegerRange(self.low, self.high)
        elif self.whole:
            members = Category(tuple(sorted(map(int, self.members))))
        else:
            members = Category(tuple(sorted(self.members)))
        longest = next((each for each in _LENGTHS if each >= self.longest), self.longest)
        kind = kind or ("sequence" if self.repeats else "set")
        return ListDomain(kind, members, self.separator or " ", longest)


def _distinct(values: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
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
    """Return the separator by which texts have two members or more in the mean; "" for none."""
    if not arrow_values.is_text(values.type):
        return ""
    texts = pc.drop_null(values)
    for separator in _SEPARATORS:
        found = pc.total(pc.count_substring(texts, separator)).as_py() or 0
        if found >= len(texts) > 0:
            return separator
    return ""
