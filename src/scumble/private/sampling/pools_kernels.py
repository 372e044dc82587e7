"""The inner loops of draws from a pool, compiled by numba on first use.

Each reads `blocks` prefixes of 16 bits a row, four to a word and a new word for every row, looks up
the outcome of several draws together by each, and notes the rows in which one decided nothing.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def tally_packed(
    words: Array, blocks: int, table: Array, packed: Array, open_: int, out: Array, rows: Array
) -> int:
    """Add outcomes as 16 counters of a byte each, in two words; returns how many were left open.

    A word is four prefixes, whose lookups do not wait for each other.
    """
    mask, width = np.uint64(0xFFFF), np.uint64(16)
    quads, rest = blocks // 4, blocks % 4
    count = place = 0
    for row in range(len(out)):
        low, high = out[row, 0], out[row, 1]
        for _ in range(quads):
            word = words[place]
            place += 1
            one, two = table[word & mask], table[(word >> width) & mask]
            three = table[(word >> (width + width)) & mask]
            four = table[word >> (width + width + width)]
            low += packed[one, 0] + packed[two, 0] + packed[three, 0] + packed[four, 0]
            high += packed[one, 1] + packed[two, 1] + packed[three, 1] + packed[four, 1]
            if (one == open_) | (two == open_) | (three == open_) | (four == open_):
                for outcome in (one, two, three, four):
                    if outcome == open_:
                        rows[count] = row
                        count += 1
        if rest:
            word = words[place]
            place += 1
            for _ in range(rest):
                outcome = table[word & mask]
                word >>= width
                low += packed[outcome, 0]
                high += packed[outcome, 1]
                if outcome == open_:
                    rows[count] = row
                    count += 1
        out[row, 0], out[row, 1] = low, high
    return count


@_compiled
def tally(
    words: Array, blocks: int, table: Array, members: Array, open_: int, out: Array, rows: Array
) -> int:
    """Count the members of outcomes, one counter a value; returns how many were left open."""
    mask, width = np.uint64(0xFFFF), np.uint64(16)
    count = place = 0
    for row in range(len(out)):
        word = np.uint64(0)
        for block in range(blocks):
            if block % 4 == 0:
                word = words[place]
                place += 1
            outcome = table[word & mask]
            word >>= width
            if outcome == open_:
                rows[count] = row
                count += 1
            else:
                for member in range(members.shape[1]):
                    out[row, members[outcome, member]] += 1
    return count


@_compiled
def tally_rows(outcomes: Array, members: Array, rows: Array, out: Array) -> None:
    """Count the members of outcomes in the rows that they belong to."""
    for place in range(len(rows)):
        for member in range(members.shape[1]):
            out[rows[place], members[outcomes[place], member]] += 1
