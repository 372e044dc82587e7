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


# A hash table of texts is an array with a row for each place: 1 + the offset of the text in the
# bytes of all texts, or 0 in an empty place; and its hash of 32 bits beside a count of 31 bits. The
# length stands before the text.
PLACE, COUNT = 0, 1
LENGTH_BYTES = 4
_AHEAD = 8  # rows
_COUNT_BITS, _COUNT_MASK = 32, 0xFFFFFFFF


@kernel
def _hash(data: Array, begin: int, end: int) -> Any:
    """Return a hash of some bytes, a number of 31 bits."""
    found = np.uint64(0xCBF29CE484222325)
    for at in range(begin, end):
        found = (found ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    found = (found ^ (found >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(found >> np.uint64(33))


@kernel
def hash_texts(data: Array, offsets: Array, found: Array) -> None:
    """Write the hash of each text to `found`. The texts are the bytes between `offsets`."""
    for row in range(len(found)):
        found[row] = _hash(data, offsets[row], offsets[row + 1])


@kernel
def _same(data: Array, begin: int, length: int, known: Array, place: int) -> bool:
    """Return whether a text is the one that stands at a place among those that are known."""
    for at in range(LENGTH_BYTES):
        if known[place + at] != (length >> (8 * at)) & 255:
            return False
    at = 0
    while at < length and data[begin + at] == known[place + LENGTH_BYTES + at]:
        at += 1
    return at == length


@kernel
def _add(data: Array, begin: int, length: int, known: Array, place: int) -> int:
    """Write a text behind those that are known; return where the next one begins."""
    for at in range(LENGTH_BYTES):
        known[place + at] = (length >> (8 * at)) & 255
    place += LENGTH_BYTES
    known[place : place + length] = data[begin : begin + length]
    return place + length


@kernel
def keep_first_texts(
    data: Array,
    offsets: Array,
    there: Array,
    most: int,
    table: Array,
    known: Array,
    used: int,
    keep: Array,
) -> tuple[int, int]:
    """Write to `keep` which rows are among the first `most` of their person, as `keep_first`.

    The texts of the rows are the bytes of `data` between `offsets`. `known` has the bytes of all
    texts in the table, `used` of them, and room for more. Returns the number of new persons and of
    the bytes that are used now.
    """
    new, last, rows = 0, len(table) - 1, len(there)
    hashes = np.zeros(rows + 2 * _AHEAD, np.int64)
    for row in range(rows):
        hashes[row] = _hash(data, offsets[row], offsets[row + 1])
    touched = 0
    for row in range(rows):
        # What later rows will read comes into the processor's cache meanwhile.
        touched ^= table[hashes[row + 2 * _AHEAD] & last, PLACE]
        touched ^= known[max(0, table[hashes[row + _AHEAD] & last, PLACE] - 1)]
        keep[row] = False
        if not there[row]:
            continue
        begin, length, hashed = offsets[row], offsets[row + 1] - offsets[row], hashes[row]
        at = hashed & last
        while table[at, PLACE] and not (
            table[at, COUNT] >> _COUNT_BITS == hashed
            and _same(data, begin, length, known, table[at, PLACE] - 1)
        ):
            at = (at + 1) & last
        if not table[at, PLACE]:
            table[at, PLACE], table[at, COUNT] = used + 1, hashed << _COUNT_BITS
            used = _add(data, begin, length, known, used)
            new += 1
        if table[at, COUNT] & _COUNT_MASK < most:
            table[at, COUNT] += 1
            keep[row] = True
    hashes[0] = touched  # so that it is computed
    return new, used


@kernel
def rehash_texts(table: Array, larger: Array) -> None:
    """Write a hash table of texts into an empty one of another length."""
    last = len(larger) - 1
    for place in range(len(table)):
        if table[place, PLACE]:
            at = (table[place, COUNT] >> _COUNT_BITS) & last
            while larger[at, PLACE]:
                at = (at + 1) & last
            larger[at, PLACE], larger[at, COUNT] = table[place, PLACE], table[place, COUNT]
