"""Exact draws from finite distributions, uniform integers and Bernoulli variables.

A finite distribution is the interval [0, 1) cut into outcomes. A uniform number is read bit by bit
until no cut lies inside the interval of the numbers that begin with these bits. Sixteen bits decide
nearly every draw by a table. 64 bits decide nearly all others, by comparing integers with the exact
floors of the cuts. Further bits decide the rest. No step rounds.
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
# Most cuts in one table: with more, too many of the 65536 prefixes have a cut inside.
MOST = 1 << 12

Step = Callable[[slice, NDArray[np.uint16]], NDArray[np.int64]]
Floors = Callable[[int], tuple[Sequence[int], Sequence[bool]]]


def chunks(size: int, step: int = CHUNK) -> Iterator[slice]:
    """Return consecutive slices of at most `step` elements that cover range(size)."""
    return (slice(begin, min(begin + step, size)) for begin in range(0, size, step))


class Cuts:
    """A finite distribution, given by ascending cuts 0 <= c_1 <= c_2 <= ... < 1.

    Outcome k is the interval [c_k, c_k+1), with c_0 = 0 and 1 after the last cut. `floors(bits)`
    returns, for every cut c, the integer floor(c * 2**bits) and whether it equals c * 2**bits.
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
        """Return the distribution with cuts at fractions in [0, 1)."""

        def floors(bits: int) -> tuple[list[int], list[bool]]:
            parts = [divmod(cut.numerator << bits, cut.denominator) for cut in cuts]
            return [whole for whole, _ in parts], [rest == 0 for _, rest in parts]

        return cls(floors)

    def _table(self) -> NDArray[np.uint16]:
        """Return the outcome that each 16-bit prefix decides, or `ambiguous`."""
        prefixes = (self._whole >> np.uint64(48)).astype(np.int64)
        table = np.searchsorted(prefixes, np.arange(_ARENA), side="right").astype(np.uint16)
        inside = ~self._exact | (self._whole << np.uint64(16) != 0)
        table[prefixes[inside]] = self.ambiguous
        return table

    def draw(self, source: Keystream, size: int) -> NDArray[np.uint16]:
        """Return `size` independent outcomes."""
        out = np.empty(size, np.uint16)

        def look_up(part: slice, prefixes: NDArray[np.uint16]) -> NDArray[np.int64]:
            self.table.take(prefixes, out=out[part], mode="clip")  # all are inside
            return np.flatnonzero(out[part] == self.ambiguous)

        rows, prefixes = sweep(source, size, look_up)
        if len(rows):
            out[rows] = self.decide(source, prefixes)
        return out

    def decide(self, source: Keystream, prefixes: NDArray[np.uint16]) -> NDArray[np.int64]:
        """Return the outcomes of uniform numbers whose first 16 bits, `prefixes`, are ambiguous."""
        if not len(prefixes):
            return np.empty(0, np.int64)
        head = prefixes.astype(np.uint64) << np.uint64(48)
        words = head | (source.words(len(prefixes)) >> np.uint64(16))
        outcomes = self._whole.searchsorted(words, side="right")
        if not (self._whole.searchsorted(words) != outcomes).any():  # none is on a floor
            return outcomes
        # Of several cuts with one floor the last is the largest: inexact if any of them is.
        before = np.maximum(outcomes - 1, 0)
        open_ = (outcomes > 0) & (self._whole[before] == words) & ~self._exact[before]
        for row in np.flatnonzero(open_):
            outcomes[row] = self._extend(source, int(words[row]))
        return outcomes

    def _extend(self, source: Keystream, prefix: int, bits: int = 64) -> int:
        """Return the outcome of the number that begins with the `bits` bits of `prefix`, reading 64
        more bits at a time until they decide.
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
    """Run `decide` over fresh 16-bit prefixes, chunk by chunk; it returns the undecided rows.

    Returns these rows and their prefixes. They are gathered over all chunks: with a few per chunk,
    a call for each chunk would cost more than the chunk itself.
    """
    if size <= CHUNK:
        prefixes = source.halves(size)
        undecided = decide(slice(size), prefixes)
        return undecided, prefixes[undecided]
    rows, heads = [], []
    for part in chunks(size):
        prefixes = source.halves(part.stop - part.start)
        undecided = decide(part, prefixes)
        rows.append(undecided + part.start)
        heads.append(prefixes[undecided])
    return np.concatenate(rows), np.concatenate(heads)


def decide_below(source: Keystream, floors: Floors, prefix: int, bits: int) -> bool:
    """Return whether a uniform number that begins with the `bits` bits of `prefix` is below the
    single cut of `floors`.
    """
    while True:
        (whole,), (exact,) = floors(bits)
        if prefix != whole:
            return prefix < whole
        if exact:
            return False
        prefix, bits = (prefix << 64) | source.bits(64), bits + 64


# --- uniform integers ----------------------------------------------------------------------------

_WORD = 1 << 64


def integers(source: Keystream, bound: int, size: int) -> NDArray[Any]:
    """Return `size` independent uniform integers from 0 to `bound - 1`.

    The dtype is uint64 for bounds up to 2**64 and object (Python integers) beyond. The high word of
    word * bound is the result. A low word below 2**64 mod bound is rejected and drawn again, which
    gives every integer exactly the same probability (Lemire, 2019).
    """
    bound = check_whole("integers", "bound", bound, least=1)
    if bound > _WORD:
        return _long(source, bound, size)
    if bound == _WORD:
        return source.words(size)
    out = np.empty(size, np.uint64)
    factor, refuse = np.uint64(bound), np.uint64(_WORD % bound)
    for part in chunks(size):
        target = out[part]
        rows = np.arange(len(target))
        while len(rows):
            words = source.words(len(rows))
            target[rows] = multiply_high(words, factor)
            rows = rows[words * factor < refuse]
    return out


def multiply_high(left: NDArray[np.uint64], right: Any) -> NDArray[np.uint64]:
    """Return the upper 64 bits of the products of words, by products of their halves."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    high, low = left >> half, left & mask
    other_high, other_low = right >> half, right & mask
    middle = low * other_low
    middle >>= half
    middle += high * other_low
    carry = middle & mask
    carry += low * other_high
    carry >>= half
    middle >>= half
    high *= other_high
    high += middle
    high += carry
    return high


def _long(source: Keystream, bound: int, size: int) -> NDArray[Any]:
    """Return uniform integers below a bound of more than 64 bits, by rejection."""
    bits = (bound - 1).bit_length()
    out = np.empty(size, object)
    for row in range(size):
        number = source.bits(bits)
        while number >= bound:
            number = source.bits(bits)
        out[row] = number
    return out


# --- Bernoulli variables -------------------------------------------------------------------------


def bernoulli(source: Keystream, probability: Fraction, size: int) -> NDArray[np.bool_]:
    """Return `size` independent booleans, each True with exactly the given probability.

    Sixteen bits decide a row unless they equal the first sixteen bits of the probability. Then 48
    more bits are read, and 64 at a time after that.
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
    """Return whether each of `size` numbers that begin with the 16 bits `short` is below
    the cut.
    """
    words = np.uint64(short << 48) | (source.words(size) >> np.uint64(16))
    (whole,), _ = floors(64)
    below: NDArray[np.bool_] = words < np.uint64(whole)
    for row in np.flatnonzero(words == np.uint64(whole)):
        below[row] = decide_below(source, floors, whole, 64)
    return below


class Coins:
    """Bernoulli variables of several kinds; kind k is True with exactly `probabilities[k]`."""

    def __init__(self, probabilities: Sequence[Fraction]) -> None:
        self._probabilities = [check("Coins", "probabilities", each) for each in probabilities]
        parts = [divmod(p.numerator << 64, p.denominator) for p in self._probabilities]
        self._certain = np.array([p == 1 for p in self._probabilities])
        self._whole = np.array([whole % _WORD for whole, _ in parts], np.uint64)
        self._exact = np.array([rest == 0 for _, rest in parts])

    def throw(self, source: Keystream, kinds: NDArray[Any]) -> NDArray[np.bool_]:
        """Return one independent variable for each element of `kinds`."""
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
