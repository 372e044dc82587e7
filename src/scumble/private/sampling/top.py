"""Private selection of the k candidates with the largest scores, among more than can be listed.

`select_top` adds noise once and is ε-DP; `pick_top` makes k choices by the exponential mechanism,
which cost less together where δ is allowed. Candidates are numbers from 0 to `size - 1`. Most of
them share one score, such as the sets of items that nobody has: of these only the few with large
noise are ever drawn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.laws.base import check_positive, check_whole
from scumble.private.sampling.bits import Cuts, integers
from scumble.private.sampling.noise import Enclosure, exponential, floors, geometric, quotient
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.sparse import passing_cells

Keys = NDArray[np.uint64]
Integers = NDArray[np.int64]

_MOST = 1 << 64
_LISTED = 64  # up to this number of candidates per choice, all are listed
_WANTED = 4  # candidates of the shared score that are drawn per choice, in the mean


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates 0 to `size - 1`: those in `keys` (ascending) have `scores`, all others `rest`."""

    keys: Keys
    scores: Integers
    size: int
    rest: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.size <= _MOST or len(self.keys) != len(self.scores):
            raise ParameterError("There must be from 1 to 2^64 candidates, each with one score.")

    @classmethod
    def listed(cls, scores: Integers) -> Candidates:
        """Return candidates that all have a score of their own."""
        return cls(np.arange(len(scores), dtype=np.uint64), scores, len(scores))

    @property
    def untouched(self) -> int:
        """The number of candidates with the score `rest`."""
        return self.size - len(self.keys)

    def listed_if_few(self, k: int) -> Candidates:
        """Return the same candidates, with a score for each where they are few for k choices."""
        if not self.untouched or self.size > max(_LISTED * k, 2 * len(self.keys)):
            return self
        return Candidates.listed(self.dense())

    def dense(self) -> Integers:
        """Return the scores of all candidates."""
        scores = np.full(self.size, self.rest, np.int64)
        scores[self.keys.astype(np.int64)] = self.scores
        return scores


def select_top(
    source: Keystream,
    candidates: Candidates,
    k: int,
    *,
    sensitivity: int,
    epsilon: Fraction,
    monotone: bool = True,
) -> Keys:
    """Return the k candidates whose scores are largest after geometric noise, the largest first.
    The list is ε-DP. Ties are broken by random words.

    One person changes a score by at most `sensitivity`. `monotone` says that a person changes all
    scores in the same direction, as counts do when a person is added. The noise has scale
    k · sensitivity / ε, or twice that if the scores are not monotone.

    Proof. Fix the noise of all candidates outside the list, and let D be the sensitivity. If scores
    rise by d_i from 0 to D, add D - d_i to the noise of each candidate in the list: all of them
    rise by D and all others by at most D, so the list stays. If scores fall by d_i, add d_i: the
    candidates in the list stay and no other rises. Either way k noises grow by at most D each,
    which changes their probability by a factor of exp(-k D / scale) at least. If some scores
    rise and others fall, add D - d_i with d_i from -D to D, which is at most 2D.
    """
    _check("select_top", candidates, k, sensitivity)
    scale = check_positive("select_top", "epsilon", epsilon)
    scale = Fraction(k * sensitivity * (1 if monotone else 2)) / scale
    candidates = candidates.listed_if_few(k)
    own = candidates.scores + geometric(source, scale, len(candidates.keys))
    if not candidates.untouched:
        return candidates.keys[_largest(source, own, k)]
    drawn = _EmptyDraws(source, candidates, scale, k)
    while np.count_nonzero(own >= candidates.rest + drawn.least) + len(drawn.keys) < k:
        drawn.lower()
    keys = np.concatenate([candidates.keys, drawn.keys])
    values = np.concatenate([own, candidates.rest + drawn.noise])
    return keys[_largest(source, values, k)]


class _EmptyDraws:
    """The untouched candidates whose noise is at least `least`, a level that can be lowered."""

    def __init__(self, source: Keystream, candidates: Candidates, scale: Fraction, k: int) -> None:
        self._source, self._known, self._scale = source, candidates, scale
        self._size = candidates.size
        self._step = max(1, ceil(float(scale)))
        share = log(candidates.size / (_WANTED * k))
        self.least = max(1, int(float(scale) * share))
        sieve = _AtLeast(scale, self.least)
        self.keys = self._new(passing_cells(source, [self._size], sieve))
        self.noise: NDArray[Any] = self.least + geometric(source, scale, len(self.keys))

    def lower(self) -> None:
        """Lower the level, and draw the candidates whose noise lies between both levels."""
        above, self.least = self.least, max(0, self.least - self._step)
        if self.least:
            sieve = _Between(self._scale, self.least, above)
            found = self._new(passing_cells(self._source, [self._size], sieve))
        else:  # all that are left
            found = self._new(np.arange(self._size, dtype=np.uint64))
        # Geometric noise below a bound is the remainder of geometric noise by this bound.
        more = geometric(self._source, self._scale, len(found)) % (above - self.least)
        self.keys = np.concatenate([self.keys, found])
        self.noise = np.concatenate([self.noise, self.least + more])

    def _new(self, keys: Keys) -> Keys:
        """Return those of these keys that have no score of their own and were not drawn before."""
        fresh = ~np.isin(keys, self._known.keys)
        if hasattr(self, "keys"):
            fresh &= ~np.isin(keys, self.keys)
        return keys[fresh]


@dataclass(frozen=True)
class _AtLeast:
    """The probability that geometric noise is at least `least` >= 1."""

    scale: Fraction
    least: int

    def chance(self, precision: int) -> Enclosure:
        return exponential(self.least / self.scale, precision)


@dataclass(frozen=True)
class _Between:
    """The probability that geometric noise is at least `least`, given that it is below `above`."""

    scale: Fraction
    least: int
    above: int

    def chance(self, precision: int) -> Enclosure:
        one = 1 << precision
        low, high = exponential(self.least / self.scale, precision)
        least, most = exponential(self.above / self.scale, precision)
        return quotient((low - most, high - least), (one - most, one - least), precision)


def _largest(source: Keystream, values: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Return the places of the k largest values in falling order; ties are broken by random words,
    and by further ones where words are equal.
    """
    bound = np.partition(values, len(values) - k)[len(values) - k]
    places = np.flatnonzero(values >= bound)
    _, ranks = np.unique(-values[places], return_inverse=True)
    columns: list[NDArray[Any]] = [ranks]
    order = np.arange(len(places))
    tied = len(places) > 1
    while tied:
        columns.append(source.words(len(places)))
        order = np.lexsort(columns[::-1])
        same = [column[order][1:] == column[order][:-1] for column in columns]
        tied = bool(np.logical_and.reduce(same).any())
    return places[order][:k]


# --- k choices by the exponential mechanism ------------------------------------------------------


def pick_top(
    source: Keystream,
    candidates: Candidates,
    k: int,
    *,
    sensitivity: int,
    epsilon: Fraction,
    monotone: bool = True,
) -> Keys:
    """Return k different candidates, chosen one after the other by the exponential mechanism: each
    of those that are left with probability proportional to exp(rate · score).

    `sensitivity` and `monotone` are as for `select_top`. The rate is epsilon / sensitivity, or half
    of it if the scores are not monotone. Each choice is ε-DP and has an ε-bounded range, so that it
    costs ρ = ε²/8 (Cesar and Rogers, ALT 2021): `picks_rho`.
    """
    _check("pick_top", candidates, k, sensitivity)
    rate = check_positive("pick_top", "epsilon", epsilon)
    rate = rate / (sensitivity * (1 if monotone else 2))
    classes = _Classes(candidates.listed_if_few(k), rate)
    return np.array([classes.pick(source) for _ in range(k)], np.uint64)


def picks_rho(k: int, epsilon: Fraction) -> Fraction:
    """Return the ρ of zCDP that `pick_top` costs."""
    return k * epsilon**2 / 8


class _Classes:
    """The candidates that are left, by score; choices are made from them without replacement."""

    def __init__(self, candidates: Candidates, rate: Fraction) -> None:
        self._known, self._rate = candidates, rate
        order = np.argsort(-candidates.scores, kind="stable")
        falling = candidates.scores[order]
        self._scores: list[int] = np.unique(falling)[::-1].tolist()
        starts = np.searchsorted(-falling, [-score for score in self._scores])
        members = np.split(candidates.keys[order], starts[1:])
        self._members: list[list[int]] = [each.tolist() for each in members if len(each)]
        self._untouched = candidates.untouched
        self._taken: set[int] = set()
        if self._untouched and candidates.rest not in self._scores:
            place = bisect_left(self._scores, -candidates.rest, key=lambda score: -score)
            self._scores.insert(place, candidates.rest)
            self._members.insert(place, [])
        self._weights: dict[tuple[int, int], list[Enclosure]] = {}

    def pick(self, source: Keystream) -> int:
        sizes = [self._size(place) for place in range(len(self._scores))]
        places = [place for place, size in enumerate(sizes) if size]
        place = places[0] if len(places) == 1 else self._class(source, places, sizes)
        number = int(integers(source, sizes[place], 1)[0])
        members = self._members[place]
        if number < len(members):
            return members.pop(number)
        return self._draw_untouched(source)

    def _size(self, place: int) -> int:
        shared = self._untouched if self._scores[place] == self._known.rest else 0
        return len(self._members[place]) + shared

    def _class(self, source: Keystream, places: Sequence[int], sizes: Sequence[int]) -> int:
        """Return the class that is chosen: the share of each is its size times exp(rate · score).

        No sum of shares is rational, by the theorem of Lindemann and Weierstrass.
        """

        def enclose(precision: int) -> list[Enclosure]:
            weights = self._exponentials(self._anchor(places[0], precision), precision)
            low = high = 0
            sums = []
            for place in places:
                low += sizes[place] * weights[place][0]
                high += sizes[place] * weights[place][1]
                sums.append((low, high))
            return [quotient(part, (low, high), precision) for part in sums[:-1]]

        def whole(bits: int) -> tuple[list[int], list[bool]]:
            found = floors(enclose, bits)
            return found, [False] * len(found)

        return places[int(Cuts(whole).draw(source, 1)[0])]

    def _anchor(self, best: int, precision: int) -> int:
        """Return the class whose weight is taken as 1: one of before, if `best` weighs more than
        2^-64 of it, so that its exponentials need not be computed again.
        """
        for anchor, known in self._weights:
            if known == precision and anchor <= best:
                gap = self._rate * (self._scores[anchor] - self._scores[best])
                if gap < 44:  # e^-44 > 2^-64
                    return anchor
        return best

    def _exponentials(self, anchor: int, precision: int) -> list[Enclosure]:
        """Return exp(rate · (score - score of the anchor)) of every class from the anchor on, with
        64 bits more than `precision` asks for.
        """
        if (anchor, precision) not in self._weights:
            top = self._scores[anchor]
            after = self._scores[anchor:]
            found = [exponential(self._rate * (top - score), precision + 64) for score in after]
            self._weights[anchor, precision] = [(0, 0)] * anchor + found
        return self._weights[anchor, precision]

    def _draw_untouched(self, source: Keystream) -> int:
        """Return one of the candidates without a score of their own that were not taken."""
        while True:
            key = int(integers(source, self._known.size, 1)[0])
            place = int(np.searchsorted(self._known.keys, np.uint64(key)))
            listed = place < len(self._known.keys) and int(self._known.keys[place]) == key
            if not listed and key not in self._taken:
                self._taken.add(key)
                self._untouched -= 1
                return key


def _check(owner: str, candidates: Candidates, k: int, sensitivity: int) -> None:
    check_whole(owner, "sensitivity", sensitivity, least=1)
    if check_whole(owner, "k", k, least=1) > candidates.size:
        allowed = f"at most the number of candidates, {candidates.size}"
        raise ParameterError.of(owner, "k", allowed, k)
