"""The inner loops of shuffling, compiled by numba on first use."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from scumble.private.sampling.kernels import high_word

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def below(words: Array, place: int, bound: Any) -> Any:
    """A uniform number below `bound` (uint64), made of the words from `place` on, and the place
    after them; the place is -1 if there were too few words.

    Lemire's way, as in `integers`; what has to be refused is worked out only if it may happen.
    """
    while place < len(words):
        word = words[place]
        place += 1
        low = word * bound
        if low >= bound or low >= (np.uint64(0) - bound) % bound:
            return high_word(word, bound), place
    return np.uint64(0), -1


@_compiled
def exchange(words: Array, items: Array, starts: Array, part: int, row: int) -> tuple[int, int]:
    """Fisher and Yates within each part, forwards, from a row of a part on, as far as the words
    reach; returns where to go on.
    """
    place = 0
    while part < len(starts) - 1:
        start = starts[part]
        while row < starts[part + 1]:
            offset, place = below(words, place, np.uint64(row - start + 1))
            if place < 0:
                return part, row
            other = start + np.int64(offset)
            items[row], items[other] = items[other], items[row]
            row += 1
        part += 1
    return part, row
