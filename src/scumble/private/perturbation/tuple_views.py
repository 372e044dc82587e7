"""False tuples: every tuple of a domain of any size, independently with its own exact probability,
without going through the domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model.schema.cell_keys import Radix
from scumble.private.tables.sorted_keys import Keys
from scumble.private.tables.tuple_keys import Mask, distinct

if TYPE_CHECKING:
    from scumble.private.sampling.source import Source

Columns = list[npt.NDArray[Any]]
Shares = Mapping[int, tuple[Fraction, ...]]


class TupleNoise:
    """Tuple t with probability b(t) = mean · |D| · Π p_j(t_j): `sources` has the p_j of the columns
    that are not uniform.

    Draws are thrown at the domain, as many as a Poisson number says; then the draws at each tuple
    are independent Poisson numbers, and one with mean −ln(1 − b) is above 0 with probability b.
    That is b + b²/2 + b³/3 + ...: a draw gets an order k, geometric with ratio B = max b(t), and
    stays with probability (b(t)/B)^(k−1) / k. With Σ b(t) / (1 − B) draws in the mean, those of
    order k that stay at t are b(t)^k / k. So every coin is a fraction, and no logarithm is taken.
    """

    def __init__(self, radix: Radix, mean: Fraction, sources: Shares | None = None) -> None:
        self._radix = radix
        self._sources = sources or {}
        self.total = mean * radix.size
        self.smallest = mean * prod((len(p) * min(p) for p in self._sources.values()), start=1)
        self.largest = mean * prod((len(p) * max(p) for p in self._sources.values()), start=1)

    def draw(self, source: Source) -> Keys:
        """The tuples that are there, in order."""
        from scumble.private.sampling.poisson import poisson

        count = poisson(source, self.total / (1 - self.largest))
        columns = self._columns(source, count) if self._sources else []
        keys = self._radix.pack(columns) if self._sources else self._uniform(source, count)
        return distinct(keys[self._staying(source, count, columns)])

    def _uniform(self, source: Source, count: int) -> Keys:
        """Word by word: the columns of a word fill it."""
        from scumble.private.sampling.integers import integers

        words = [integers(source, capacity, count) for capacity in self._radix.capacities]
        return words[0] if len(words) == 1 else np.stack(words, axis=1)

    def _columns(self, source: Source, count: int) -> Columns:
        from scumble.private.sampling.integers import integers
        from scumble.private.sampling.randomized_response import Categorical

        return [
            Categorical(self._sources[place]).draw(source, count)
            if place in self._sources
            else integers(source, size, count)
            for place, size in enumerate(self._radix.sizes)
        ]

    def _staying(self, source: Source, count: int, columns: Columns) -> Mask:
        """Which draws stay. The factor 1/k is the product of 1/2, 2/3, ... up to (k−1)/k, so that
        each order above 1 throws one coin of its own, and a second for b(t)/B.
        """
        from scumble.private.sampling.bernoulli import bernoulli

        staying = np.ones(count, bool)
        rows = np.flatnonzero(bernoulli(source, self.largest, count))
        order = 2
        while len(rows):
            passed = bernoulli(source, Fraction(order - 1, order), len(rows))
            passed &= self.relative(source, [column[rows] for column in columns], len(rows))
            staying[rows[~passed]] = False
            rows = rows[passed]
            rows = rows[bernoulli(source, self.largest, len(rows))]
            order += 1
        return staying

    def relative(self, source: Source, columns: Columns, count: int) -> Mask:
        """For each of these tuples a coin that says yes with probability b(t)/B."""
        yes = np.ones(count, bool)
        for place, coins in self._coins.items():
            yes &= coins.throw(source, columns[place])
        return yes

    @cached_property
    def _coins(self) -> dict[int, Any]:
        from scumble.private.sampling.coins import Coins

        return {
            place: Coins([share / max(shares) for share in shares])
            for place, shares in self._sources.items()
        }
