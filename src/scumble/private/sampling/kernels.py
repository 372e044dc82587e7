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


@_compiled
def ones_of(word: Any) -> Any:
    """How many bits of a word are set, by adding neighbours in parallel."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    twos = np.uint64(0x3333333333333333)
    word = (word & twos) + ((word >> np.uint64(2)) & twos)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@_compiled
def count_ones(words: Array, counts: Array, ones: Array, row: int, left: int) -> tuple[int, int]:
    """Give each row its number of bits, in whole words; `left` of them remain to `row`."""
    for word in words:
        while left == 0:
            row += 1
            left = counts[row]
        take = min(left, 64)
        ones[row] += ones_of(word >> np.uint64(64 - take))
        left -= take
    return row, left


@_compiled
def accept(
    words: Array,
    proposed: Array,
    slope: Any,
    shift: Any,
    offset: Any,
    exponentials: Array,
    answers: Array,
    pending: Array,
) -> int:
    """Compare words with exp(-gamma) in fixed point; returns how many rows are left open.

    The root of gamma, below 8, has 56 bits after the point and is off by at most 3 units; gamma
    has 48 and is off by at most 3; so exp(-gamma) is off by at most 3 * 2**15 units of 2**-63, and
    by 28 more for the seven factors. `slack` is more than twice that.
    """
    slack, one = np.uint64(1 << 18), np.uint64(1)
    count = 0
    for row in range(len(words)):
        size = np.uint64(abs(proposed[row]))
        high, low = high_word(size, slope), size * slope
        chance = np.uint64(0)
        if (high >> shift) == 0:
            # In two steps, because a shift by all 64 bits is undefined.
            root = ((high << (np.uint64(63) - shift)) << one) | (low >> shift)
            root = root - offset if root >= offset else offset - root
            if root < np.uint64(8 << 56):
                gamma = high_word(root, root)
                chance = np.uint64(1 << 63)
                for place in range(7):
                    digit = (gamma >> np.uint64(8 * place)) & np.uint64(255)
                    chance = high_word(chance, exponentials[place, digit]) << one
        word = words[row] >> one
        answers[row] = word + slack < chance
        if word + slack >= chance and word < chance + slack:
            pending[count] = row
            count += 1
    return count


@_compiled
def least_places(numbers: Array, words: Array, starts: Array, places: Array) -> None:
    """In each list of numbers, which begins at one of `starts`, the place of the least; of equal
    ones that of the largest word without its last bit, and of equal words the first.
    """
    one = np.uint64(1)
    for row in range(len(starts)):
        end = starts[row + 1] if row + 1 < len(starts) else len(numbers)
        best = starts[row]
        for place in range(best + 1, end):
            if numbers[place] > numbers[best]:
                continue
            if numbers[place] < numbers[best] or words[place] >> one > words[best] >> one:
                best = place
        places[row] = best
