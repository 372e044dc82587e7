"""Numba loops over the identifiers of rows. Import this module only where a loop runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel

Array = Any


@kernel
def _slot(number: int, numbers: Array, counts: Array) -> Any:
    """Return where a number is in a hash table, or the empty place where it belongs.

    Places with count 0 are empty. The length of the table is a power of 2.
    """
    last = np.uint64(len(numbers) - 1)
    mixed = np.uint64(number)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    place = (mixed >> np.uint64(32)) & last
    while counts[place] and numbers[place] != number:
        place = (place + np.uint64(1)) & last
    return place


@kernel
def keep_first(
    people: Array, there: Array, most: int, numbers: Array, counts: Array, keep: Array
) -> int:
    """Write to `keep` which rows are among the first `most` of their person; rows that are not
    `there` are not. The hash table of `numbers` has how many rows of each person were kept before.
    Returns the number of new persons.
    """
    new = 0
    for row in range(len(people)):
        keep[row] = False
        if not there[row]:
            continue
        place = _slot(people[row], numbers, counts)
        if counts[place] == 0:
            numbers[place] = people[row]
            new += 1
        if counts[place] < most:
            counts[place] += 1
            keep[row] = True
    return new


@kernel
def rehash(numbers: Array, counts: Array, new_numbers: Array, new_counts: Array) -> None:
    """Write a hash table into an empty one of another length."""
    for place in range(len(numbers)):
        if counts[place]:
            to = _slot(numbers[place], new_numbers, new_counts)
            new_numbers[to], new_counts[to] = numbers[place], counts[place]


# A text is stored as words of 64 bits. The first word has a count of rows of 31 bits, the length of
# the text in 16 bits, and the first two bytes; each further word has eight bytes. Where the length
# does not fit, the second word is the length. So two texts differ in a word that both have.
_COUNT_SHIFT, _LENGTH_SHIFT, _LONG, _FIRST_BYTES = 32, 16, 0xFFFF, 2
_TEXT_MASK = (1 << _COUNT_SHIFT) - 1
MOST_WORDS = 3  # of a text, beyond one for eight bytes

# A hash table of texts has a number for each place, of which there is a power of 2: where the words
# of the text begin among those of all texts, beside its hash; or 0 in an empty place. A text is at
# the place of the first bits of its hash, or behind it: the texts of a larger table are in the same
# order, so that it is written from its beginning to its end.
_HASH_BITS = 28
_HASH_MASK = (1 << _HASH_BITS) - 1
_BLOCK = 128  # rows


@kernel
def _word(data: Array, begin: int, end: int) -> Any:
    """Return at most eight bytes as a number."""
    found = np.uint64(0)
    for at in range(begin, end):
        found = found << np.uint64(8) | np.uint64(data[np.uint64(at)])
    return np.int64(found)


@kernel
def _mixed(found: int, word: int) -> Any:
    """Return a hash of all words up to this one, given the hash of those before it."""
    product = (np.uint64(found) ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    return product ^ (product >> np.uint64(32))


@kernel
def pack_texts(data: Array, offsets: Array, words: Array, starts: Array, hashes: Array) -> None:
    """Write the words of each text, with a count of 0, where those of each text begin and end, and
    its hash. The texts are the bytes of `data` between `offsets`.
    """
    used = 0
    for row in range(len(hashes)):
        begin, end = offsets[row], offsets[row + 1]
        length = end - begin
        at = min(begin + _FIRST_BYTES, end)
        starts[row] = used
        words[used] = min(length, _LONG) << _LENGTH_SHIFT | _word(data, begin, at)
        found = _mixed(0, words[used])
        used += 1
        if length >= _LONG:
            words[used] = length
            used += 1
        while at < end:
            words[used] = _word(data, at, min(at + 8, end))
            found = _mixed(found, words[used])
            used, at = used + 1, at + 8
        hashes[row] = (found * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(64 - _HASH_BITS)
    starts[len(hashes)] = used


@kernel
def _place(hashed: int, places: int) -> int:
    """Return the place of a hash in a table of this number of places."""
    return (hashed * places) >> _HASH_BITS


@kernel
def _touch(hashes: Array, table: Array, known: Array, begins: Array) -> int:
    """Read what is first read for rows with these hashes, so that it comes into the processor's
    cache for all of them at the same time. `begins` is overwritten.
    """
    for row in range(len(hashes)):
        begins[row] = table[_place(hashes[row], len(table))] >> _HASH_BITS
    touched, last = 0, len(known) - 1
    for row in range(len(hashes)):
        touched ^= known[begins[row]] ^ known[min(begins[row] + 1, last)]
    return touched


@kernel
def _same(words: Array, begin: int, end: int, known: Array, place: int) -> bool:
    """Return whether the words of a text are those at a place among the known ones."""
    mask = _TEXT_MASK
    while begin < end and words[begin] == known[place] & mask:
        begin, place, mask = begin + 1, place + 1, -1
    return begin == end


@kernel
def _add(words: Array, begin: int, end: int, known: Array, place: int) -> int:
    """Write words behind those that are known; return where the next ones begin."""
    for at in range(begin, end):
        known[place] = words[at]
        place += 1
    return place


@kernel
def keep_first_texts(
    words: Array,
    starts: Array,
    hashes: Array,
    there: Array,
    most: int,
    table: Array,
    known: Array,
    used: int,
    keep: Array,
) -> tuple[int, int]:
    """Write to `keep` which rows are among the first `most` of their person, as `keep_first`.

    The texts of the rows are those of `pack_texts`. `known` has the words of all texts in the
    table, `used` of them, and room for more. Returns the number of new persons and of the words
    that are used now.
    """
    new, last = 0, len(table) - 1
    begins = np.zeros(_BLOCK, np.int64)
    for row in range(len(there)):
        if row % _BLOCK == 0:
            begins[0] = _touch(hashes[row : row + _BLOCK], table, known, begins)
        keep[row] = False
        if not there[row]:
            continue
        begin, end, hashed = starts[row], starts[row + 1], hashes[row]
        at = _place(hashed, len(table))
        while table[at] and not (
            table[at] & _HASH_MASK == hashed
            and _same(words, begin, end, known, table[at] >> _HASH_BITS)
        ):
            at = (at + 1) & last
        if not table[at]:
            table[at] = used << _HASH_BITS | hashed
            used = _add(words, begin, end, known, used)
            new += 1
        place = table[at] >> _HASH_BITS
        if known[place] >> _COUNT_SHIFT < most:
            known[place] += 1 << _COUNT_SHIFT
            keep[row] = True
    return new, used


@kernel
def rehash_texts(table: Array, larger: Array) -> None:
    """Write a hash table of texts into an empty one that is larger."""
    last = len(larger) - 1
    for each in table:
        if each:
            at = _place(each & _HASH_MASK, len(larger))
            while larger[at]:
                at = (at + 1) & last
            larger[at] = each
