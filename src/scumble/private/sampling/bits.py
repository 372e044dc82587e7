"""The interval [0, 1) cut into outcomes, and exact draws from it: a uniform number is read bit by
bit until no cut lies inside what is still possible.

Sixteen bits decide nearly every draw by a table, 64 bits nearly all others by comparing whole
numbers with the exact floors of the cuts, and further bits the rest; no step rounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from scumble.private.sampling.source import Source

CHUNK = 1 << 18  # draws at a time: enough to hide the calls, few enough to stay in cache
_ARENA = 1 << 16
# Cuts in one table: beyond it, too many of the 65536 prefixes would have a cut inside.
MOST = 1 << 12

Step = Callable[[slice, NDArray[np.uint16], NDArray[np.int64]], int]
Floors = Callable[[int], tuple[Sequence[int], Sequence[bool]]]


def chunks(size: int, step: int = CHUNK) -> Iterator[slice]:
    """Slices that cover `size` in order."""
    return (slice(begin, min(begin + step, size)) for begin in range(0, size, step))


class Cuts:
    """Ascending cuts c_1 <= c_2 <= ... inside [0, 1); outcome k is [c_k, c_k+1), from 0 to the
    last.

    `floors(bits)` gives, for every cut c, the whole number floor(c * 2**bits) and whether that is
    exact.
    """

    def __init__(self, floors: Floors) -> None:
        self._floors = floors
        whole, exact = floors(64)
        self.outcomes = len(whole) + 1
        self.ambiguous = self.outcomes
        self._whole = np.array(whole, np.uint64)
        self._exact = np.array(exact, bool)
        self.table = self._table()

    @classmethod
    def rational(cls, cuts: Sequence[Fraction]) -> Cuts:
        """Cuts at fractions from 0 to below 1."""

        def floors(bits: int) -> tuple[list[int], list[bool]]:
            parts = [divmod(cut.numerator << bits, cut.denominator) for cut in cuts]
            return [whole for whole, _ in parts], [rest == 0 for _, rest in parts]

        return cls(floors)

    def _table(self) -> NDArray[np.uint16]:
        """The outcome that each 16-bit prefix decides, or `ambiguous`."""
        prefixes = (self._whole >> np.uint64(48)).astype(np.int64)
        table = np.searchsorted(prefixes, np.arange(_ARENA), side="right").astype(np.uint16)
        inside = ~self._exact | (self._whole << np.uint64(16) != 0)
        table[prefixes[inside]] = self.ambiguous
        return table

    def draw(self, source: Source, size: int) -> NDArray[np.uint16]:
        """Independent outcomes."""
        from scumble.private.sampling import kernels

        out = np.empty(size, np.uint16)

        def decide(part: slice, prefixes: NDArray[np.uint16], pending: NDArray[np.int64]) -> int:
            return int(kernels.lookup(prefixes, self.table, self.ambiguous, out[part], pending))

        rows, prefixes = sweep(source, size, decide)
        out[rows] = self.decide(source, prefixes)
        return out

    def decide(self, source: Source, prefixes: NDArray[np.uint16]) -> NDArray[np.int64]:
        """The outcomes of numbers whose first 16 bits are given and left it open."""
        if not len(prefixes):
            return np.empty(0, np.int64)
        head = prefixes.astype(np.uint64) << np.uint64(48)
        words = head | (source.words(len(prefixes)) >> np.uint64(16))
        outcomes = np.searchsorted(self._whole, words, side="right")
        # Of several cuts with one floor the last is the largest: inexact if any of them is.
        before = np.maximum(outcomes - 1, 0)
        open_ = (outcomes > 0) & (self._whole[before] == words) & ~self._exact[before]
        for row in np.flatnonzero(open_):
            outcomes[row] = self._extend(source, int(words[row]))
        return outcomes

    def _extend(self, source: Source, prefix: int, bits: int = 64) -> int:
        """The outcome of the number that begins with the given bits, by reading as many more as it
        takes.
        """
        while True:
            prefix, bits = (prefix << 64) | source.bits(64), bits + 64
            whole, exact = self._floors(bits)
            passed = bisect_right(whole, prefix)
            if passed == 0 or whole[passed - 1] < prefix or exact[passed - 1]:
                return passed


def sweep(source: Source, size: int, decide: Step) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Run a compiled loop over fresh 16-bit prefixes; the rows it left open, and their prefixes.

    Those are gathered over all chunks and decided together: a few per chunk, they would cost more
    in calls than the chunk itself.
    """
    prefixes, pending = np.empty(min(size, CHUNK), np.uint16), np.empty(min(size, CHUNK), np.int64)
    rows, heads = [np.empty(0, np.int64)], [np.empty(0, np.uint16)]
    for part in chunks(size):
        drawn = prefixes[: part.stop - part.start]
        source.fill(drawn)
        left = pending[: decide(part, drawn, pending)]
        rows.append(left + part.start)
        heads.append(drawn[left])
    return np.concatenate(rows), np.concatenate(heads)


def decide_below(source: Source, floors: Floors, prefix: int, bits: int) -> bool:
    """Whether a uniform number that begins with the given bits lies below a single cut."""
    while True:
        (whole,), (exact,) = floors(bits)
        if prefix != whole:
            return prefix < whole
        if exact:
            return False
        prefix, bits = (prefix << 64) | source.bits(64), bits + 64
