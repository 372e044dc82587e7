"""Exact binomial and Poisson samplers that do not simulate each trial by itself."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, factorial, prod

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.laws.base import check_probability as check
from scumble.model.laws.base import check_whole
from scumble.private.sampling import kernels
from scumble.private.sampling.bits import Cuts, bernoulli, chunks
from scumble.private.sampling.noise import Enclosure, exponential, floors
from scumble.private.sampling.source import Keystream

_MOST = 1 << 62
_WORDS = 1 << 15


def binomial(source: Keystream, trials: int, probability: Fraction, size: int) -> NDArray[np.int64]:
    """Return `size` independent numbers of successes in `trials` trials of the given probability.

    A trial succeeds if a uniform number is below the probability. The bits of both are compared
    from the highest down. Each step splits the undecided trials by one fair coin each: the number
    of ones among as many random bits. The trials whose bits agree with the probability so far stay
    undecided. About half remain at each step, so all steps together read two bits per trial.
    """
    probability = check("binomial", "probability", probability)
    if check_whole("binomial", "trials", trials) > _MOST:
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


def _coins(source: Keystream, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each row, the number of ones among `counts[row]` fair bits."""
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


_LAST = 20  # last outcome of the table for mean 1: "20 or more", once in 2.6e18 draws
_STEP = 1 << 20


def poisson(source: Keystream, mean: Fraction) -> int:
    """Return one Poisson variable of the given rational mean.

    It is the sum of ceil(mean) Poisson variables of mean 1, thinned: each of the events that they
    count is kept with probability mean / ceil(mean), and the kept events are Poisson again.
    """
    if not isinstance(mean, Fraction) or mean < 0:
        raise ParameterError.of("poisson", "mean", "a Fraction of at least 0", mean)
    units = ceil(mean)
    events = sum(_units(source, part.stop - part.start) for part in chunks(units, _STEP))
    if units == mean:
        return events
    return int(binomial(source, events, mean / units, 1)[0])


def _units(source: Keystream, size: int) -> int:
    """Return the sum of `size` Poisson variables of mean 1."""
    drawn = _table().draw(source, size)
    beyond = sum(_beyond(source) for _ in range(int(np.count_nonzero(drawn == _LAST))))
    return int(drawn.sum(dtype=np.int64)) + beyond


def _beyond(source: Keystream) -> int:
    """Return the excess over `_LAST` of a Poisson variable of mean 1 that is at least `_LAST`.

    P(i) is proportional to _LAST! / (_LAST + i)!. A geometric variable i of ratio 1 / (_LAST + 1)
    has that law after rejection: it is accepted with probability Π_j (_LAST + 1) / (_LAST + j).
    """
    while True:
        steps = 0
        while bernoulli(source, Fraction(1, _LAST + 1), 1)[0]:
            steps += 1
        surplus = prod((Fraction(_LAST + 1, _LAST + i) for i in range(1, steps + 1)), start=1)
        if bernoulli(source, Fraction(surplus), 1)[0]:
            return steps


@lru_cache(maxsize=1)
def _table() -> Cuts:
    """Return the law of mean 1: P(below k) = (1/0! + ... + 1/(k - 1)!) / e, never rational."""
    sums = [sum(Fraction(1, factorial(i)) for i in range(k)) for k in range(1, _LAST + 1)]

    def enclose(precision: int) -> list[Enclosure]:
        low, high = exponential(Fraction(1), precision)
        return [
            (low * s.numerator // s.denominator, -(-high * s.numerator // s.denominator))
            for s in map(Fraction, sums)
        ]

    def whole(bits: int) -> tuple[list[int], list[bool]]:
        found = floors(enclose, bits)
        return found, [False] * len(found)

    return Cuts(whole)
