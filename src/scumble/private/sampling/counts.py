"""How many of many trials succeed, exactly, without making each trial by itself."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.laws.rational import probability as check
from scumble.model.laws.rational import whole
from scumble.private.sampling.source import Source

_MOST = 1 << 62
_WORDS = 1 << 15


def binomial(source: Source, trials: int, probability: Fraction, size: int) -> NDArray[np.int64]:
    """Independent numbers of successes in `trials` trials of the given probability.

    A trial succeeds if a uniform number lies below the probability. Their bits are compared from
    the top: each step splits the undecided trials by a fair coin each, which is the number of ones
    among as many random bits, and leaves undecided those that agree with the probability so far.
    About half remain, so all steps together read two bits a trial.
    """
    probability = check("binomial", "probability", probability)
    if whole("binomial", "trials", trials) > _MOST:
        raise ParameterError.of("binomial", "trials", "at most 2**62", trials)
    if probability == 1:
        return np.full(size, trials, np.int64)
    successes = np.zeros(size, np.int64)
    undecided = np.full(size, trials, np.int64)
    rest = probability.numerator
    while rest and undecided.any():
        bit, rest = divmod(2 * rest, probability.denominator)
        ones = _coins(source, undecided)
        zeros = undecided - ones
        if bit:
            successes += zeros
        undecided = ones if bit else zeros
    return successes


def _coins(source: Source, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row the number of ones among `counts[row]` fair bits."""
    from scumble.private.sampling import kernels

    ones = np.zeros(len(counts), np.int64)
    needed = int(((counts + 63) // 64).sum())
    buffer = np.empty(min(needed, _WORDS), np.uint64)
    row, left = -1, 0
    while needed:
        words = buffer[: min(needed, _WORDS)]
        source.fill(words)
        row, left = kernels.count_ones(words, counts, ones, row, left)
        needed -= len(words)
    return ones
