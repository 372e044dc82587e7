"""The inner loop of drawing from urns, compiled by numba on first use."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from scumble.private.sampling.kernels import high_word

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def draw(urns: Array, words: Array, starts: Array, balls: Array, left: Array, out: Array) -> int:
    """One ball for each row; returns how many rows the words were enough for, or -1 at an empty
    urn.

    The high word of word * bound is the number of the ball; a low word below 2**64 mod bound is
    refused, which leaves every ball exactly the same share (Lemire, 2019).
    """
    used = 0
    for row in range(len(urns)):
        urn = urns[row]
        bound = np.uint64(left[urn])
        if left[urn] == 0:
            return -1
        compartment = starts[urn]
        if compartment + 1 < starts[urn + 1]:
            refuse = (~bound + np.uint64(1)) % bound
            while used < len(words) and words[used] * bound < refuse:
                used += 1
            if used == len(words):
                return row
            ball = np.int64(high_word(words[used], bound))
            used += 1
            while ball >= balls[compartment]:
                ball -= balls[compartment]
                compartment += 1
        balls[compartment] -= 1
        left[urn] -= 1
        out[row] = compartment
    return len(urns)
