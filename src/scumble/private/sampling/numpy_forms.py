"""Numpy forms of the samplers' loops: the same results from the same words, without a compiler.

Each function has the parameters and the results of the kernel of its name (see `kernels`), of which
it is the numpy form. `tests/test_kernels.py` compares the two bit by bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def lookup(prefixes: Array, table: Array, ambiguous: int, out: Array, pending: Array) -> int:
    """Write the outcome of each 16-bit prefix to `out`; return the number of pending rows."""
    table.take(prefixes, out=out, mode="clip")  # all are inside; other modes take longer
    return _list_rows(out == ambiguous, pending)


def keep_or_replace(
    codes: Array, prefixes: Array, table: Array, keep: int, out: Array, pending: Array
) -> int:
    """Keep each code or replace it by the table's entry; return the number of pending rows."""
    entries = table[prefixes]
    np.copyto(out, codes)
    np.copyto(out, entries, where=entries < keep, casting="unsafe")
    return _list_rows(entries > keep, pending)


def scale_words(words: Array, bound: Any, refuse: Any, out: Array, rows: Array) -> int:
    """Map words to uniform integers below `bound`; return the number of rejected rows."""
    rejected = words * bound < refuse
    chosen = rows[: len(words)]
    if not rejected.any():
        out[chosen] = high_word(words, bound)
        return 0
    taken = ~rejected
    out[chosen[taken]] = high_word(words[taken], bound)
    again = chosen[rejected]
    rows[: len(again)] = again
    return len(again)


def high_word(left: Any, right: Any) -> Any:
    """Return the upper 64 bits of the products of two arrays of words."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    left_high, left_low = left >> half, left & mask
    right_high, right_low = right >> half, right & mask
    middle = left_high * right_low + ((left_low * right_low) >> half)
    carry = left_low * right_high + (middle & mask)
    return left_high * right_high + (middle >> half) + (carry >> half)


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
    """Compare words with exp(-gamma) in fixed point; return the number of pending rows."""
    slack, one = np.uint64(1 << 18), np.uint64(1)
    size = np.abs(proposed).astype(np.uint64)
    high, low = high_word(size, slope), size * slope
    root = ((high << (np.uint64(63) - shift)) << one) | (low >> shift)
    root = np.where(root >= offset, root - offset, offset - root)
    possible = ((high >> shift) == 0) & (root < np.uint64(8 << 56))
    gamma = high_word(root, root)
    chance = np.full(len(words), 1 << 63, np.uint64)
    for place in range(7):
        digit = (gamma >> np.uint64(8 * place)) & np.uint64(255)
        chance = high_word(chance, exponentials[place, digit]) << one
    chance[~possible] = 0
    word = words >> one
    answers[:] = word + slack < chance
    return _list_rows(~answers & (word < chance + slack), pending)


def _list_rows(marked: Array, rows: Array) -> int:
    """Write the places of the marked elements to the beginning of `rows`; return their number."""
    found = marked.nonzero()[0]
    rows[: len(found)] = found
    return len(found)
