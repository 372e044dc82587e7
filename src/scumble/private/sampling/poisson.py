"""Poisson counts of any rational mean, exactly."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, factorial, prod

import numpy as np

from scumble.model.errors import ParameterError
from scumble.private.sampling.bernoulli import bernoulli
from scumble.private.sampling.bits import Cuts, chunks
from scumble.private.sampling.counts import binomial
from scumble.private.sampling.exponential import Enclosure, exponential, floors
from scumble.private.sampling.source import Source

_LAST = 20  # of the table for mean 1: as much or more comes once in 2.6e18 draws
_STEP = 1 << 20


def poisson(source: Source, mean: Fraction) -> int:
    """A Poisson number of the given mean.

    So many numbers of mean 1 that their sum has at least this mean; then each event that they count
    stays with the probability that makes it this mean, and those that stay are Poisson again.
    """
    if not isinstance(mean, Fraction) or mean < 0:
        raise ParameterError.of("poisson", "mean", "a Fraction of at least 0", mean)
    units = ceil(mean)
    events = sum(_units(source, part.stop - part.start) for part in chunks(units, _STEP))
    if units == mean:
        return events
    return int(binomial(source, events, mean / units, 1)[0])


def _units(source: Source, size: int) -> int:
    """The sum of so many numbers of mean 1."""
    drawn = _table().draw(source, size)
    beyond = sum(_beyond(source) for _ in range(int(np.count_nonzero(drawn == _LAST))))
    return int(drawn.sum(dtype=np.int64)) + beyond


def _beyond(source: Source) -> int:
    """How far a number of mean 1 that is `_LAST` or more lies above it.

    P(i) is proportional to _LAST! / (_LAST + i)!: a geometric number of ratio 1 / (_LAST + 1) has
    that law once it is accepted with the probability that it is too frequent by.
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
    """Below k with probability (1/0! + ... + 1/(k - 1)!) / e, which is never rational."""
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
