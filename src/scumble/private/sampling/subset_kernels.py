"""The inner loop of uniform subsets, compiled by numba on first use."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any


@numba.njit(cache=True, nogil=True)
def choose(
    words: Array,
    codes: Array,
    held: Array,
    refuse: Array,
    last_seen: Array,
    stamp: int,
    out: Array,
    rows: Array,
) -> int:
    """One set for each of `rows`; moves the rows with a refused draw to the front and counts them.

    Values other than a row's own are numbered without a gap; `last_seen` tells by its stamp whether
    a number is in the set already. Step j of Floyd's algorithm takes a number up to j, or j itself
    if that one is there.
    """
    size = out.shape[1]
    others = len(refuse) - 1
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    count = 0
    for index in range(len(rows)):
        row = rows[index]
        own = np.int64(codes[row])
        number = size - 1 if held[row] else size
        good = True
        for place in range(number):
            top = others - number + place
            product = np.uint64(words[index * size + place]) * np.uint64(top + 1)
            good = good and (product & mask) >= refuse[top]
            drawn = np.int64(product >> half)
            if last_seen[drawn] == stamp + index:
                drawn = top
            last_seen[drawn] = stamp + index
            out[row, place] = drawn + (drawn >= own)
        if held[row]:
            out[row, number] = own
        if not good:
            rows[count] = row
            count += 1
    return count
