"""Exact Bernoulli, integers, cuts of [0,1).

The interval [0, 1) cut into outcomes, and exact draws from it: a uniform number is read bit by
bit until no cut lies inside what is still possible.

Sixteen bits decide nearly every draw by a table, 64 bits nearly all others by comparing whole
numbers with the exact floors of the cuts, and further bits the rest; no step rounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.base import check_probability as check
from scumble.model.laws.base import check_whole
from scumble.private.sampling.source import Keystream

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

    def draw(self, source: Keystream, size: int) -> NDArray[np.uint16]:
        """Independent outcomes."""
        from scumble.private.sampling import kernels

        out = np.empty(size, np.uint16)

        def decide(part: slice, prefixes: NDArray[np.uint16], pending: NDArray[np.int64]) -> int:
            return int(kernels.lookup(prefixes, self.table, self.ambiguous, out[part], pending))

        rows, prefixes = sweep(source, size, decide)
        out[rows] = self.decide(source, prefixes)
        return out

    def decide(self, source: Keystream, prefixes: NDArray[np.uint16]) -> NDArray[np.int64]:
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

    def _extend(self, source: Keystream, prefix: int, bits: int = 64) -> int:
        """The outcome of the number that begins with the given bits, by reading as many more as it
        takes.
        """
        while True:
            prefix, bits = (prefix << 64) | source.bits(64), bits + 64
            whole, exact = self._floors(bits)
            passed = bisect_right(whole, prefix)
            if passed == 0 or whole[passed - 1] < prefix or exact[passed - 1]:
                return passed


def sweep(
    source: Keystream, size: int, decide: Step
) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
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


def decide_below(source: Keystream, floors: Floors, prefix: int, bits: int) -> bool:
    """Whether a uniform number that begins with the given bits lies below a single cut."""
    while True:
        (whole,), (exact,) = floors(bits)
        if prefix != whole:
            return prefix < whole
        if exact:
            return False
        prefix, bits = (prefix << 64) | source.bits(64), bits + 64


# Whole numbers from 0 to below a bound, all equally likely.

_WORD = 1 << 64


def integers(source: Keystream, bound: int, size: int) -> NDArray[Any]:
    """Independent uniform numbers below `bound`: uint64 up to 2**64, Python integers beyond.

    The high word of word * bound is the number; a low word below 2**64 mod bound is refused and
    drawn again, which leaves every number exactly the same share (Lemire, 2019).
    """
    bound = check_whole("integers", "bound", bound, least=1)
    if bound > _WORD:
        return _long(source, bound, size)
    if bound == _WORD:
        return source.words(size)
    from scumble.private.sampling import kernels

    out = np.empty(size, np.uint64)
    refuse = np.uint64(_WORD % bound)
    for part in chunks(size):
        target = out[part]
        rows = np.arange(len(target))
        while len(rows):
            words = source.words(len(rows))
            count = kernels.scale_words(words, np.uint64(bound), refuse, target, rows)
            rows = rows[:count]
    return out


def _long(source: Keystream, bound: int, size: int) -> NDArray[Any]:
    """The same beyond 64 bits, by drawing as many bits as the bound has until they lie below it."""
    bits = (bound - 1).bit_length()
    out = np.empty(size, object)
    for row in range(size):
        number = source.bits(bits)
        while number >= bound:
            number = source.bits(bits)
        out[row] = number
    return out


# Yes with an exact probability.


def bernoulli(source: Keystream, probability: Fraction, size: int) -> NDArray[np.bool_]:
    """Independent answers, each yes with exactly the given probability.

    Sixteen bits decide a row unless they equal the first sixteen of the probability; then 48 more
    do, and as many as it takes.
    """
    probability = check("bernoulli", "probability", probability)
    if probability == 1:
        return np.ones(size, bool)

    def floors(bits: int) -> tuple[list[int], list[bool]]:
        whole, rest = divmod(probability.numerator << bits, probability.denominator)
        return [whole], [rest == 0]

    (short,), (exact,) = floors(16)
    out = np.empty(size, bool)
    for part in chunks(size):
        prefixes = source.halves(part.stop - part.start)
        target = out[part]
        np.less(prefixes, np.uint16(short), out=target)
        if not exact:
            rows = np.flatnonzero(prefixes == np.uint16(short))
            target[rows] = _decide(source, floors, short, len(rows))
    return out


def _decide(source: Keystream, floors: Floors, short: int, size: int) -> NDArray[np.bool_]:
    """Whether numbers that all begin with the 16 bits `short` lie below the cut."""
    words = np.uint64(short << 48) | (source.words(size) >> np.uint64(16))
    (whole,), _ = floors(64)
    below: NDArray[np.bool_] = words < np.uint64(whole)
    for row in np.flatnonzero(words == np.uint64(whole)):
        below[row] = decide_below(source, floors, whole, 64)
    return below


# Coins of several kinds in one throw, each yes with its own exact probability.


class Coins:
    """Kinds of coins; kind k says yes with exactly probabilities[k]."""

    def __init__(self, probabilities: Sequence[Fraction]) -> None:
        self._probabilities = [check("Coins", "probabilities", each) for each in probabilities]
        parts = [divmod(p.numerator << 64, p.denominator) for p in self._probabilities]
        self._certain = np.array([p == 1 for p in self._probabilities])
        self._whole = np.array([whole % _WORD for whole, _ in parts], np.uint64)
        self._exact = np.array([rest == 0 for _, rest in parts])

    def throw(self, source: Keystream, kinds: NDArray[Any]) -> NDArray[np.bool_]:
        """One independent coin of each of these kinds."""
        words = source.words(len(kinds))
        whole = self._whole[kinds]
        yes: NDArray[np.bool_] = (words < whole) | self._certain[kinds]
        for row in np.flatnonzero((words == whole) & ~self._exact[kinds]):
            yes[row] = decide_below(source, self._floors(int(kinds[row])), int(words[row]), 64)
        return yes

    def _floors(self, kind: int) -> Floors:
        probability = self._probabilities[kind]

        def floors(bits: int) -> tuple[list[int], list[bool]]:
            whole, rest = divmod(probability.numerator << bits, probability.denominator)
            return [whole], [rest == 0]

        return floors
