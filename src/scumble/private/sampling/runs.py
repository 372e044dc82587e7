"""The exponential mechanism over numbers in their order, whose scores rise or fall evenly.

Candidates are grouped in runs. A run has any number of candidates, whose scores grow by the same
whole number from one to the next; so 2^60 candidates are a few runs. No step rounds: weights are
enclosed between integers, closer and closer, until the random bits decide.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.base import check_positive
from scumble.private.sampling.bits import integers
from scumble.private.sampling.noise import Enclosure, exponential, geometric
from scumble.private.sampling.source import Keystream

Integers = NDArray[np.int64]

_BITS = 64  # that are read at a time
_PRECISION = 128


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of candidates: run i has the numbers `first[i]`, `first[i] + step[i]`, ..., `length[i]`
    of them, with the scores `score[i]`, `score[i] + slope[i]`, ... The slope is at least 0; the
    least scores are the best. Each number stands for a block of `block[i]` candidates, itself and
    those after it, with the same score; a block of more than one has the slope 0. A candidate of
    `weight[i]` is as likely as so many of weight 1; one that is in several runs has all weights.
    """

    first: Integers
    step: Integers
    length: Integers
    score: Integers
    slope: Integers
    block: Integers
    weight: Integers


def pick_number(source: Keystream, runs: Runs, rate: Fraction) -> int:
    """Return one candidate, with probability proportional to weight · exp(-rate · score)."""
    rate = check_positive("pick_number", "rate", rate)
    order = np.argsort(runs.score, kind="stable")
    place = int(order[_pick_run(source, runs, order, rate)])
    length, slope = int(runs.length[place]), int(runs.slope[place])
    if slope == 0:
        steps = int(integers(source, length, 1)[0])
    else:  # geometric noise below a bound is the remainder of geometric noise by this bound
        steps = int(geometric(source, 1 / (rate * slope), 1)[0]) % length
    within = int(integers(source, int(runs.block[place]), 1)[0])
    return int(runs.first[place]) + int(runs.step[place]) * steps + within


def _pick_run(source: Keystream, runs: Runs, order: Integers, rate: Fraction) -> int:
    """Return the place in `order` of a run, with probability proportional to its weight.

    A uniform number begins with the bits of `prefix`. It decides as soon as it lies between the
    enclosed sums of weights up to two neighbouring runs, whatever bits follow.
    """
    gaps = runs.score[order] - runs.score[order[0]]
    lengths, slopes = runs.length[order].tolist(), runs.slope[order].tolist()
    weights = (runs.block * runs.weight)[order].tolist()
    prefix, bits, precision = source.bits(_BITS), _BITS, _PRECISION
    while True:
        # e^-x < 2^-precision beyond: these runs weigh less than their numbers of candidates.
        near = int(np.searchsorted(gaps, int(precision / rate), side="right"))
        low = high = 0
        lows, highs = [], []
        lines = zip(gaps[:near].tolist(), lengths, slopes, weights, strict=False)
        for gap, length, slope, weight in lines:
            least, most = exponential(rate * gap, precision)
            if slope and length > 1:
                fewest, largest = _geometric_sum(rate * slope, length, precision)
                least, most = (least * fewest) >> precision, -(-most * largest >> precision)
            else:
                least, most = least * length, most * length
            low, high = low + least * weight, high + most * weight
            lows.append(low)
            highs.append(high)
        beyond = zip(lengths[near:], weights[near:], strict=True)
        total = low, high + sum(length * weight for length, weight in beyond)
        place = bisect_left(lows, -(-(prefix + 1) * total[1] >> bits))
        if place < near and (not place or highs[place - 1] << bits <= prefix * total[0]):
            return place
        prefix, bits = prefix << _BITS | source.bits(_BITS), bits + _BITS
        precision *= 2


@lru_cache(maxsize=1 << 12)
def _geometric_sum(exponent: Fraction, length: int, precision: int) -> Enclosure:
    """Enclose the sum of exp(-exponent · i) over i below `length`, times 2^precision."""
    one = 1 << precision
    (low, high), (least, most) = (
        exponential(each, precision) for each in (exponent * length, exponent)
    )
    fewest = ((one - high) << precision) // (one - least)
    largest = ((one - low) << precision) // max(one - most, 1) + 1
    return fewest, min(largest, length << precision)
