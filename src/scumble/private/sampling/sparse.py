"""Lazy zeros: which of the cells of a domain of any size pass, each by itself with the same
irrational probability, without going through the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scumble.private.sampling.bernoulli import bernoulli
from scumble.private.sampling.bits import CHUNK, Cuts, chunks
from scumble.private.sampling.exponential import Enclosure, floors
from scumble.private.sampling.integers import integers
from scumble.private.sampling.poisson import poisson
from scumble.private.sampling.source import Source

Chance = Callable[[int], Enclosure]  # encloses an irrational probability times 2**precision
# Cells in order: a number each, or a row of numbers where one is too small, the first counting most
Keys = NDArray[np.uint64]

_DENSE = Fraction(1, 4)  # from this probability on, cells are gone through one by one
_CLOSE = 40  # bits to which a fraction above the probability agrees with it


class Sieve(Protocol):
    """What lets cells pass; equal ones do so with the same probability."""

    def chance(self, precision: int) -> Enclosure:
        """Enclose the probability that a cell passes, times 2^precision; it is irrational."""
        ...

    def __hash__(self) -> int: ...


def scattered(source: Source, capacities: Sequence[int], sieve: Sieve) -> Keys:
    """The cells that pass, in order; a cell is a number below each of the capacities (2^64 at
    most).

    So many cells pass as a binomial number says, and they are a uniform choice: both follow from
    what is drawn here. Of the cells, each is taken with a fraction B just above the probability p;
    of those taken, each stays with p/B.
    """
    bound, stays = _tables(sieve)
    if bound >= _DENSE:
        return _one_by_one(source, prod(capacities), stays)
    taken = _distinct(_thrown(source, capacities, bound))
    return np.take(taken, np.flatnonzero(stays.draw(source, len(taken)) == 0), axis=0)


@lru_cache(maxsize=32)
def _tables(sieve: Sieve) -> tuple[Fraction, Cuts]:
    """The fraction B with which cells are taken, and the coin p/B; where many pass, the coin p."""
    bound = _just_above(sieve.chance)
    if bound >= _DENSE:
        return bound, _cut(sieve.chance)

    def share(precision: int) -> Enclosure:
        low, high = sieve.chance(precision)
        above, below = bound.denominator, bound.numerator
        return low * above // below, -(-high * above // below)

    return bound, _cut(share)


def _thrown(source: Source, capacities: Sequence[int], chance: Fraction) -> Keys:
    """Cells, with repeats, among which each cell is with exactly this probability.

    Draws are thrown at the domain, as many as a Poisson number says; then the draws at each cell
    are independent Poisson numbers, and one of mean -ln(1 - b) = b + b²/2 + b³/3 + ... is above 0
    with probability b. A draw gets an order k, geometric with ratio b, and stays with probability
    1/k: with b/(1 - b) draws a cell in the mean, those of order k that stay are b^k/k.
    """
    count = poisson(source, prod(capacities) * chance / (1 - chance))
    staying = np.ones(count, bool)
    rows = np.flatnonzero(bernoulli(source, chance, count))
    order = 2
    while len(rows):
        # 1/k is the product of 1/2, 2/3, ... up to (k - 1)/k: one coin for each further order.
        passed = bernoulli(source, Fraction(order - 1, order), len(rows))
        staying[rows[~passed]] = False
        rows = rows[passed]
        rows = rows[bernoulli(source, chance, len(rows))]
        order += 1
    left = int(np.count_nonzero(staying))
    words = [integers(source, capacity, left) for capacity in capacities]
    return words[0] if len(words) == 1 else np.stack(words, axis=1)


def _one_by_one(source: Source, cells: int, passes: Cuts) -> Keys:
    parts = [np.empty(0, np.uint64)]
    for part in chunks(cells, CHUNK):
        passed = np.flatnonzero(passes.draw(source, part.stop - part.start) == 0)
        parts.append((passed + part.start).astype(np.uint64))
    return np.concatenate(parts)


def _cut(chance: Chance) -> Cuts:
    """Outcome 0 with this probability, which is irrational."""
    return Cuts(lambda bits: (floors(lambda precision: [chance(precision)], bits), [False]))


def _just_above(chance: Chance) -> Fraction:
    """A fraction that is above the probability by less than a part in 2^40."""
    bits = 64
    while True:
        [whole] = floors(lambda precision: [chance(precision)], bits)
        if whole >> _CLOSE:
            return Fraction(whole + 1, 1 << bits)
        bits *= 2


def _distinct(keys: Keys) -> Keys:
    """Cells in order, each once."""
    if keys.ndim == 1:
        return np.unique(keys)
    ordered = keys[np.lexsort(keys.T[::-1])]
    first = np.ones(len(ordered), bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[first]
