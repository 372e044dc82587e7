"""The least of some scores after noise: one choice for each of many lists, all at once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.private.sampling.noise import geometric
from scumble.private.sampling.source import Source


def noisy_least(
    source: Source, scores: NDArray[np.int64], starts: NDArray[np.int64], scale: Fraction
) -> NDArray[np.int64]:
    """In each list of scores, which begins at one of `starts`, the place of the least score after
    independent geometric noise was taken from all; equal ones are told apart by random words.

    For fixed noise of all others a score wins if its own noise is at least some whole number, and
    P(noise >= t + 1) >= exp(-1 / scale) P(noise >= t). So if a person changes each score of a list
    by at most d, the choice changes in probability by a factor of at most exp(2 d / scale).
    """
    from scumble.private.sampling import kernels

    reduced = scores - geometric(source, scale, len(scores))
    places = np.empty(len(starts), np.int64)
    choose: Any = kernels.least_places
    if reduced.dtype == object:  # some noise is larger than 64 bits hold
        choose = choose.py_func
    choose(reduced, source.words(len(scores)), starts, places)
    return places
