"""Exact sampling without replacement: urns, random permutations and random subsets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.laws.base import check_probability, check_whole
from scumble.private.sampling import kernels
from scumble.private.sampling.bits import CHUNK, bernoulli, chunks
from scumble.private.sampling.kernels import draw_balls
from scumble.private.sampling.source import Keystream


class Urns:
    """Urns numbered from 0, each with compartments that hold balls of one colour.

    `balls[urn]` lists the number of balls in each compartment of an urn. Compartments are numbered
    consecutively over all urns. Balls are drawn without replacement, and every ball of an urn is
    equally likely. So the rows that get a compartment are a uniformly random choice among all rows
    that draw from its urn.
    """

    def __init__(self, balls: Sequence[Sequence[int]]) -> None:
        flat = [count for urn in balls for count in urn]
        if any(count < 0 for count in flat) or sum(flat) >= 1 << 62:
            allowed = "numbers of at least 0, below 2^62 in all"
            raise ParameterError.of("Urns", "balls", allowed, len(flat))
        self._starts = np.cumsum([0, *map(len, balls)]).astype(np.int64)
        self._balls = np.array(flat, np.int64)
        self._left = np.array([sum(urn) for urn in balls], np.int64)

    @property
    def left(self) -> int:
        """The number of balls in all urns."""
        return int(self._left.sum())

    def rest(self) -> NDArray[np.int64]:
        """Return the number of balls in each compartment."""
        return self._balls.copy()

    def take(self, source: Keystream, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw `counts[urn]` balls from every urn and return how many came from each compartment: a
        multivariate hypergeometric variable for each urn.

        Raises LookupError if an urn has too few balls.
        """
        drawn = self.draw(source, np.repeat(np.arange(len(counts)), counts))
        return np.bincount(drawn, minlength=len(self._balls))

    def draw(self, source: Keystream, urns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw one ball from each element of `urns` in turn and return its compartment.

        Raises LookupError at an empty urn; then no ball of that row and the following is drawn.
        """
        out = np.empty(len(urns), np.int64)
        for part in chunks(len(urns)):
            asked, drawn = urns[part], out[part]
            done = 0
            while done < len(asked):
                # Each rejected word leaves one row at the end without a word.
                words = source.words(len(asked) - done)
                more = int(
                    draw_balls(
                        asked[done:], words, self._starts, self._balls, self._left, drawn[done:]
                    )
                )
                if more < 0:
                    raise LookupError("an urn is empty")
                done += more
        return out


def shuffle(source: Keystream, items: NDArray[Any], starts: NDArray[np.int64]) -> None:
    """Permute each part `items[starts[k]:starts[k + 1]]` in place, uniformly at random and exactly.

    The parts must be consecutive and cover all items.
    """
    parts, part, row = len(starts) - 1, 0, 0
    words = np.empty(min(len(items) + 1, CHUNK), np.uint64)
    while part < parts:
        source.fill(words)
        part, row = kernels.fisher_yates(words, items, starts, part, row)


MOST = 1 << 16  # most values of `subsets`: with these, hardly a draw of 32 bits is rejected
_STEP = 1 << 16  # rows at a time, so that their bits are still in the cache when they are read


def subsets(
    source: Keystream, codes: NDArray[Any], values: int, size: int, inclusion: Fraction
) -> NDArray[Any]:
    """Return, for each code, a random set of `size` out of the values 0 to `values - 1`, one row
    each, in no particular order.

    The set holds the code with probability `inclusion`. Its other members are a uniform choice
    among the other values, by Floyd's algorithm on exact bounded draws.
    """
    values = check_whole("subsets", "values", values, least=2)
    size = check_whole("subsets", "size", size, least=1)
    held = bernoulli(source, check_probability("subsets", "inclusion", inclusion), len(codes))
    out = np.empty((len(codes), size), np.min_scalar_type(values - 1))
    for begin in range(0, len(codes), _STEP):
        part = slice(begin, begin + _STEP)
        _fill(source, codes[part], held[part], values, out[part])
    return out


def _fill(
    source: Keystream, codes: NDArray[Any], held: NDArray[Any], values: int, out: NDArray[Any]
) -> None:
    """Draw the sets of some rows into `out`; a row with a rejected draw is drawn again as a
    whole.
    """
    # The high half of word * bound is uniform below the bound, once the low halves below
    # 2**32 mod bound are rejected (Lemire, 2019).
    refuse = np.array([(1 << 32) % bound for bound in range(1, values + 1)], np.uint64)
    last_seen = np.zeros(values, np.int64)
    rows = np.arange(len(codes))
    stamp = 1
    while len(rows):
        words = np.empty(len(rows) * out.shape[1], np.uint32)
        source.fill(words)
        count = kernels.choose_subsets(words, codes, held, refuse, last_seen, stamp, out, rows)
        stamp += len(rows)
        rows = rows[:count]
