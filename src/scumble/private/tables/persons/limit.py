"""The limit on the rows of one person, told apart by an identifier column."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.errors import SourceError
from scumble.model.schema import arrow_values
from scumble.model.schema.lists import LIST_MARK
from scumble.model.schema.unit import Unit
from scumble.private.tables.persons import kernels

if TYPE_CHECKING:
    from scumble.private.tables.source import Source

# Rows from which a compiled loop counts persons, and where numba is there already.
_MANY, _MANY_STARTED = 1 << 18, 1 << 16
_MOST = 2**31 - 1  # the most rows of a person that the loop counts
_SPACE, _DELETE = 32, 127  # visible ASCII characters are between them


def check_rows_of_people(source: Source, unit: Unit) -> None:
    """Refuse a table in which somebody has more rows than the unit says, or a row has nobody: no
    row is left out by a method that publishes all of them.
    """
    if unit.person is None:
        return
    source.require([unit.person])
    limit = RowLimit(unit.person, unit.most_rows)
    for batch in source.batches([unit.person]):
        keep, unidentified = limit.keep(batch.column(unit.person))
        if unidentified.any():
            raise SourceError(
                f"A row has no identifier in '{unit.person}', so the rows of its person cannot be "
                "counted. Leave such rows out of the table."
            )
        if not keep.all():
            rows = "one row" if unit.most_rows == 1 else f"{unit.most_rows} rows"
            raise SourceError(
                f"Somebody in '{unit.person}' has more than {rows} (most_rows), and a method that "
                "publishes rows publishes all of them. Write a larger most_rows into the schema, "
                "leave rows out of the table, or choose a method that counts, which leaves them "
                "out itself."
            )


def shares_kept(source: Source, person: str, bounds: Sequence[int]) -> dict[int, float]:
    """Return which share of the rows each bound on the rows of a person keeps. It is read from the
    private data, for the eyes of the owner.
    """
    source.require([person])
    limits = {most: RowLimit(person, most) for most in bounds}
    kept, rows = dict.fromkeys(bounds, 0), 0
    for batch in source.batches([person]):
        rows += batch.num_rows
        for most, limit in limits.items():
            kept[most] += int(limit.keep(batch.column(person))[0].sum())
    return {most: number / max(rows, 1) for most, number in kept.items()}


class RowLimit:
    """Keeps the first `most` rows of each identifier in the column `name`.

    Identifiers are stored in full, not as hashes: on a collision, one person would push out the
    rows of another, and the bound on the contribution of one person would no longer hold.
    `expected` is the number of rows in all batches, as far as it is known.
    """

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.most = most
        self.expected = self._rows = 0
        self._seen: dict[bytes, int] = {}
        self._numbers: NumberCounts | None = None  # in place of `_seen`
        self._texts: TextCounts | None = None  # in place of both
        self._whole = True  # whether all identifiers so far are whole numbers

    def keep(self, people: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return masks of the rows of the next batch to keep, and of those without identifier.

        A row without identifier is not kept.
        """
        people = arrow_values.unwrap(people)
        self._rows += len(people)
        self._whole = self._whole and _is_whole(people.type)
        least = min(_MANY, _MANY_STARTED) if "numba" in sys.modules else _MANY
        many = max(self._rows, self.expected) > least
        if self._whole and many:
            if self._numbers is None:
                self._numbers = NumberCounts.of(self._seen, self.most)
            return self._numbers.keep(people)
        if self._numbers is not None:
            self._seen, self._numbers = self._numbers.by_text(), None
        if many:
            if self._texts is None:
                self._texts, self._seen = TextCounts(self._seen, self.most), {}
            return self._texts.keep(self.canonical(people))
        return self._keep(*self._coded(people))

    def canonical(self, people: pa.Array) -> pa.Array:
        """Return the identifiers in canonical form: see `identifiers`."""
        people = arrow_values.unwrap(people)
        self._check(people.type)
        if isinstance(people, pa.DictionaryArray):
            return pc.take(identifiers(people.dictionary), people.indices)
        return identifiers(people)

    def _keep(self, codes: np.ndarray, names: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        unidentified = codes == len(names)
        # One more entry, for rows without identifier. Loops inside map, update and zip are fast.
        before = np.fromiter(map(self._seen.get, [*names, b""], repeat(0)), np.int64)
        keep = (before[codes] + _ranks(codes) < self.most) & ~unidentified
        # Counts beyond `most` do not matter, and Python shares small integers.
        after = np.minimum(before + np.bincount(codes, minlength=len(before)), self.most)
        more = np.flatnonzero(after[:-1] > before[:-1]).tolist()
        self._seen.update(zip(map(names.__getitem__, more), after[more].tolist(), strict=True))
        return keep, unidentified

    def _coded(self, people: pa.Array) -> tuple[np.ndarray, list[bytes]]:
        """Return the position of each identifier in a list of distinct ones, and that list.

        The position of a missing identifier is the length of the list.
        """
        self._check(people.type)
        if not isinstance(people, pa.DictionaryArray):
            people = people.dictionary_encode()
        canonical = identifiers(people.dictionary).dictionary_encode()
        # Two entries of the dictionary may be the same person.
        places = pc.take(canonical.indices, people.indices)
        names = canonical.dictionary.to_numpy(zero_copy_only=False).tolist()
        return places.fill_null(len(names)).to_numpy(), names

    def _check(self, kind: pa.DataType) -> None:
        if not _is_simple(kind):
            raise SourceError(
                f"Column '{self.name}' cannot tell persons apart: it holds lists, structs or other "
                "compounds. An identifier is text, a number, a date or bytes."
            )


class UnitLimit(RowLimit):
    """The limit in one unit of work, in which the rows at the places `surplus`, ascending, are too
    many because of units before it. `watch` is told the identifiers in canonical form.
    """

    def __init__(
        self,
        name: str,
        most: int,
        *,
        surplus: npt.NDArray[np.int64],
        watch: Callable[[pa.Array], None],
    ) -> None:
        super().__init__(name, most)
        self._known = TextCounts({}, most)
        self._surplus, self._watch = surplus, watch
        self._first = 0

    def keep(self, people: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        names = self.canonical(people)
        self._watch(names)
        kept, unidentified = self._known.keep(names)
        begin, end = np.searchsorted(self._surplus, [self._first, self._first + len(people)])
        kept[self._surplus[begin:end] - self._first] = False
        self._first += len(people)
        return kept, unidentified


class TextCounts:
    """How many rows of each person were kept, where persons are bytes: a hash table that has every
    identifier in full.
    """

    def __init__(self, seen: Mapping[bytes, int], most: int) -> None:
        self._most = min(most, _MOST)
        self._persons, self._used = 0, 1
        self._table, self._known = np.zeros(1, np.int64), np.zeros(1, np.int64)
        if seen:
            rows = [name for name, count in seen.items() for _ in range(count)]
            self.keep(pa.array(rows, pa.large_binary()))

    def keep(self, people: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows to keep, and which have no identifier."""
        there = pc.is_valid(people).to_numpy(zero_copy_only=False)
        kept = np.empty(len(people), bool)
        if not len(people):
            return kept, ~there
        words, starts, hashes = _packed(people)
        self._make_room(len(people), len(words))
        new, self._used = kernels.keep_first_texts(
            words, starts, hashes, there, self._most, self._table, self._known, self._used, kept
        )
        self._persons += new
        return kept, ~there

    def _make_room(self, persons: int, words: int) -> None:
        """Have room for further persons, and for the words of their identifiers."""
        if 2 * (self._persons + persons) > len(self._table):
            larger = np.zeros(1 << (2 * (self._persons + persons)).bit_length(), np.int64)
            kernels.rehash_texts(self._table, larger)
            self._table = larger
        if self._used + words > len(self._known):
            more = np.empty(2 * (self._used + words), np.int64)
            more[: self._used] = self._known[: self._used]
            self._known = more


def laid_out(people: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bytes of all identifiers in canonical form, where each begins and ends in them,
    and which ones are not missing.
    """
    there = pc.is_valid(people).to_numpy(zero_copy_only=False)
    return *_bytes(people), there


def _bytes(people: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of all identifiers, and where each begins and ends in them."""
    if not len(people):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = people.buffers()
    places = np.frombuffer(offsets, np.int64)[people.offset : people.offset + len(people) + 1]
    return np.frombuffer(data or b"", np.uint8), places


def _packed(people: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the words of all identifiers, where each begins and ends in them, and their hashes."""
    texts, places = _bytes(people)
    size = int(places[-1] - places[0]) // 8 + kernels.MOST_WORDS * len(people)
    words, hashes = np.empty(size, np.int64), np.empty(len(people), np.int64)
    starts = np.empty(len(people) + 1, np.int64)
    kernels.pack_texts(texts, places, words, starts, hashes)
    return words[: starts[-1]], starts, hashes


def parts_of(people: pa.Array, parts: int) -> npt.NDArray[np.int64]:
    """Return a number below `parts` for each person: the same for the same identifier."""
    *_, hashes = _packed(people)
    found: npt.NDArray[np.int64] = hashes % parts
    return found


class NumberCounts:
    """How many rows of each person were kept, where persons are whole numbers: a hash table."""

    def __init__(self, numbers: np.ndarray, counts: np.ndarray, most: int) -> None:
        self._most = most
        self._persons = len(numbers)
        self._numbers, self._counts = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._fill(numbers, counts, len(numbers))

    @classmethod
    def of(cls, seen: Mapping[bytes, int], most: int) -> NumberCounts:
        """Return the counts of persons that were counted by the text of their number."""
        return cls(
            np.array([*map(int, seen)], np.int64), np.array([*seen.values()], np.int64), most
        )

    def keep(self, people: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows to keep, and which have no identifier."""
        if 2 * (self._persons + len(people)) > len(self._numbers):
            self._fill(self._numbers, self._counts, self._persons + len(people))
        there = pc.is_valid(people).to_numpy(zero_copy_only=False)
        numbers, _ = arrow_values.integers(pc.cast(people, pa.int64()))
        kept = np.empty(len(people), bool)
        self._persons += kernels.keep_first(
            numbers, there, self._most, self._numbers, self._counts, kept
        )
        return kept, ~there

    def by_text(self) -> dict[bytes, int]:
        """Return the counts by the text of each number."""
        used = self._counts > 0
        pairs = zip(self._numbers[used].tolist(), self._counts[used].tolist(), strict=True)
        return {str(number).encode(): count for number, count in pairs}

    def _fill(self, numbers: np.ndarray, counts: np.ndarray, persons: int) -> None:
        """Make a table for four times as many persons, with these counts."""
        size = 1 << (4 * persons).bit_length()
        table = np.zeros(size, np.int64), np.zeros(size, np.int64)
        kernels.rehash(numbers, counts, *table)
        self._numbers, self._counts = table


def identifiers(values: pa.Array) -> pa.Array:
    """Return each identifier as bytes in canonical form, whatever its type; null if there is none.

    Numbers are formatted as usual, so 1, 1.0 and the text "1" are the same person; the text "01" is
    another. Empty text and NaN are no identifier. White space around text is ignored. Bytes that
    are not UTF-8 are unchanged. A list is no identifier.
    """
    if _is_canonical(values):
        return pc.cast(values, pa.large_binary())
    text, garbled = arrow_values.decode_text(values)
    if pa.types.is_floating(text.type):
        text = pc.if_else(pc.is_nan(pc.cast(text, pa.float64())), None, text)
    if pa.types.is_timestamp(text.type):
        text = pc.cast(text, pa.timestamp(text.type.unit))  # the same instant in UTC
    if pa.types.is_temporal(text.type):
        text = pc.cast(text, pa.string())
    text = arrow_values.texts(text)[0]
    text = pc.if_else(pc.starts_with(text, LIST_MARK), None, pc.utf8_trim_whitespace(text))
    canonical = pc.cast(pc.if_else(pc.equal(text, ""), None, text), pa.large_binary())
    if garbled is None:
        return canonical
    raw = pc.cast(arrow_values.unwrap(values), pa.large_binary())
    opaque = pc.and_(pa.array(garbled), pc.not_equal(raw, arrow_values.UNREADABLE))
    return pc.if_else(opaque, raw, canonical)


def _is_canonical(values: pa.Array) -> bool:
    """Return whether it is seen at once that text or bytes are in canonical form: none is missing
    or empty, and each begins and ends with a visible ASCII character.

    Then there is nothing to trim, and no list, whose mark is not visible.
    """
    kinds = {pa.string(): np.int32, pa.binary(): np.int32}
    kinds |= {pa.large_string(): np.int64, pa.large_binary(): np.int64}
    if values.type not in kinds or values.null_count or not len(values):
        return False
    _, offsets, data = values.buffers()
    places = np.frombuffer(offsets, kinds[values.type])
    places = places[values.offset : values.offset + len(values) + 1]
    if (places[1:] == places[:-1]).any():
        return False
    texts = np.frombuffer(data, np.uint8)
    ends = texts[places[:-1]], texts[places[1:] - 1]
    return all(bool(each.min() > _SPACE and each.max() < _DELETE) for each in ends)


def _is_whole(kind: pa.DataType) -> bool:
    """Return whether all values of a type are whole numbers of 64 bits."""
    return bool(pa.types.is_integer(kind)) and kind != pa.uint64()


def _is_simple(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_simple(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_interval(kind))


def _ranks(codes: np.ndarray) -> np.ndarray:
    """Return how many earlier positions hold the same code."""
    order = np.argsort(codes, kind="stable")
    inverse = codes[order]
    starts = np.flatnonzero(np.r_[True, inverse[1:] != inverse[:-1]]) if len(codes) else codes
    lengths = np.diff(np.r_[starts, len(codes)])
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return ranks
