"""One of several candidates, the better ones more likely: permute-and-flip, and the exponential
mechanism, with exact probabilities.

Both see the scores only through e^(-x), x = rate · (best - score), which is transcendental unless
x is 0; it is enclosed between whole numbers, closer and closer, until the random bits decide.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from scumble.errors import ParameterError
from scumble.noise.cuts import decide_below
from scumble.noise.exponential import Enclosure, exponential, floors
from scumble.noise.integers import integers
from scumble.noise.rational import positive
from scumble.noise.shuffle import shuffle
from scumble.noise.source import Source

Score = int | Fraction
_WORD = 1 << 64
_FIRST = 64  # candidates whose coins are made together at first; then twice as many


def permute_and_flip(source: Source, scores: Sequence[Score], rate: Fraction) -> int:
    """The number of a candidate: they are tried in random order, and each is taken with
    probability e^(rate · (score - best)); the best one always is.

    With rate = ε/2Δ for scores that a person changes by at most Δ, or ε/Δ if all change in the same
    direction, the choice is ε-DP (McKenna and Sheldon, 2020).
    """
    gaps = _gaps("permute_and_flip", scores, rate)
    order = np.arange(len(gaps))
    shuffle(source, order, np.array([0, len(order)]))
    begin, step = 0, _FIRST
    while True:
        tried = order[begin : begin + step]
        found = _first_head(source, [gaps[place] for place in tried])
        if found is not None:
            return int(tried[found])
        begin, step = begin + step, 2 * step


def exponential_choice(
    source: Source,
    scores: Sequence[Score],
    rate: Fraction,
    weights: Sequence[int] | None = None,
) -> int:
    """The number of a candidate, taken with probability proportional to weight · e^(rate · score).

    Weights are whole numbers, 1 by default; of candidates of weight 0 none is taken. With rate
    ε/2Δ this is the exponential mechanism (McSherry and Talwar, 2007).
    """
    each = _weights(scores, weights)
    places = [place for place, weight in enumerate(each) if weight]
    gaps = _gaps("exponential_choice", [scores[place] for place in places], rate)
    groups: dict[Fraction, list[int]] = {}
    for place, gap in zip(places, gaps, strict=True):
        groups.setdefault(gap, []).append(place)
    totals = [sum(each[place] for place in members) for members in groups.values()]

    def enclose(precision: int) -> list[Enclosure]:
        powers = (exponential(gap, precision) for gap in groups)
        return [(n * low, n * high) for n, (low, high) in zip(totals, powers, strict=True)]

    group = _pick(source, enclose, spare=sum(totals).bit_length())
    members, total = list(groups.values())[group], totals[group]
    ends = list(accumulate(each[place] for place in members))
    return members[bisect_right(ends, int(integers(source, total, 1)[0]))]


def _gaps(owner: str, scores: Sequence[Score], rate: Fraction) -> list[Fraction]:
    """rate · (best - score) of every candidate."""
    rate = positive(owner, "rate", rate)
    if not scores or any(not isinstance(q, int | Fraction) or isinstance(q, bool) for q in scores):
        allowed = "one or more whole numbers or Fractions"
        raise ParameterError(f"The 'scores' parameter of {owner} must be {allowed}.")
    best = max(scores)
    return [rate * (best - score) for score in scores]


def _weights(scores: Sequence[Score], weights: Sequence[int] | None) -> Sequence[int]:
    if weights is None:
        return [1] * len(scores)
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in weights)
    if len(weights) != len(scores) or not whole or not any(weights):
        raise ParameterError(
            "The 'weights' parameter of exponential_choice must be whole numbers of at least 0, "
            "one for each score and not all 0."
        )
    return weights


def _first_head(source: Source, gaps: Sequence[Fraction]) -> int | None:
    """The first of these coins, heads with probability e^(-gap), that shows heads."""
    kinds = {gap: kind for kind, gap in enumerate(dict.fromkeys(gaps))}
    limits = [_WORD - 1 if gap == 0 else _floors(gap)(64)[0][0] for gap in kinds]
    words = source.words(len(gaps))
    whole: NDArray[np.uint64] = np.array(limits, np.uint64)[[kinds[gap] for gap in gaps]]
    for place in map(int, np.flatnonzero(words <= whole)):
        gap = gaps[place]
        if gap == 0 or decide_below(source, _floors(gap), int(words[place]), 64):
            return place
    return None


def _floors(gap: Fraction) -> Callable[[int], tuple[list[int], list[bool]]]:
    return lambda bits: (floors(lambda precision: [exponential(gap, precision)], bits), [False])


def _pick(source: Source, enclose: Callable[[int], list[Enclosure]], spare: int) -> int:
    """An outcome with probability proportional to a weight that `enclose(precision)` encloses,
    times 2^precision; a weight is that loose by less than 2^spare units, and their sum at least 1.

    A uniform number of the first few bits is multiplied by the sum of all weights; more bits and
    more precision are taken until what that may be lies inside one outcome.
    """
    bits, number = 64, source.bits(64)
    while True:
        parts = enclose(2 * bits + spare)
        lows = list(accumulate(low for low, _ in parts))
        highs = list(accumulate(high for _, high in parts))
        least, most = number * lows[-1], (number + 1) * highs[-1]
        outcome = bisect_right(highs, least >> bits)
        if outcome < len(parts) and most <= lows[outcome] << bits:
            return outcome
        number, bits = (number << 64) | source.bits(64), bits + 64
