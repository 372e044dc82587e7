"""The least of some scores after noise: one choice for each of many lists, all at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from scumble.noise.laplace import geometric
from scumble.noise.source import Source


def noisy_least(
    source: Source, scores: NDArray[np.int64], starts: NDArray[np.int64], scale: Fraction
) -> NDArray[np.int64]:
    """In each list of scores, which begins at one of `starts`, the place of the least score after
    independent geometric noise was taken from all; equal ones are told apart by random words.

    For fixed noise of all others a score wins if its own noise is at least some whole number, and
    P(noise >= t + 1) >= exp(-1 / scale) P(noise >= t). So if a person changes each score of a list
    by at most d, the choice changes in probability by a factor of at most exp(2 d / scale).
    """
    lengths = np.diff(starts, append=len(scores))
    reduced = scores - geometric(source, scale, len(scores))
    least = np.repeat(np.minimum.reduceat(reduced, starts), lengths)
    # From 1 on for the least ones and 0 for all others; of equal words the first one wins.
    words = (source.words(len(scores)) >> np.uint64(1)) + np.uint64(1)
    words[reduced != least] = 0
    best = np.repeat(np.maximum.reduceat(words, starts), lengths)
    places = np.where(words == best, np.arange(len(scores)), len(scores))
    found: NDArray[np.int64] = np.minimum.reduceat(places, starts)
    return found
