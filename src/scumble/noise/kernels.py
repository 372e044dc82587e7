"""The inner loops, compiled by numba on first use; imported only when something is drawn.

Each function reads words of the keystream and writes results and, where its bits did not decide,
the numbers of the rows left open; it never touches a floating-point number.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def lookup(prefixes: Array, table: Array, ambiguous: int, out: Array, pending: Array) -> int:
    """The outcome of each 16-bit prefix; returns how many rows are left open."""
    count = 0
    for row in range(len(out)):
        outcome = table[prefixes[row]]
        out[row] = outcome
        if outcome == ambiguous:
            pending[count] = row
            count += 1
    return count


@_compiled
def replace(
    codes: Array, prefixes: Array, table: Array, keep: int, out: Array, pending: Array
) -> int:
    """Replace each code by the table's entry, unless that is `keep`, or `keep + 1`: left open."""
    count = 0
    for row in range(len(out)):
        entry = table[prefixes[row]]
        code = codes[
            row
        ]  # read in any case: a choice between two values needs no branch to mispredict
        out[row] = code if entry >= keep else entry
        if entry > keep:
            pending[count] = row
            count += 1
    return count


@_compiled
def high_word(left: Any, right: Any) -> Any:
    """The upper 64 bits of the product of two words, by schoolbook multiplication of their
    halves.
    """
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    left_high, left_low = left >> half, left & mask
    right_high, right_low = right >> half, right & mask
    middle = left_high * right_low + ((left_low * right_low) >> half)
    carry = left_low * right_high + (middle & mask)
    return left_high * right_high + (middle >> half) + (carry >> half)


@_compiled
def scale(words: Array, bound: Any, refuse: Any, out: Array, rows: Array) -> int:
    """Spread words over 0 to below `bound`; moves the refused rows to the front and counts them."""
    count = 0
    for index in range(len(words)):
        row = rows[index]
        if words[index] * bound < refuse:
            rows[count] = row
            count += 1
        else:
            out[row] = high_word(words[index], bound)
    return count
