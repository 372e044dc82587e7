"""Private selection: report-noisy-min over many lists of scores, and permute-and-flip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.laws.base import check_positive
from scumble.private.sampling import kernels
from scumble.private.sampling.bits import decide_below
from scumble.private.sampling.noise import exponential, floors, geometric
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.without_replacement import shuffle


def report_noisy_min(
    source: Keystream, scores: NDArray[np.int64], starts: NDArray[np.int64], scale: Fraction
) -> NDArray[np.int64]:
    """Return, for each list, the place of the least score after independent geometric noise of the
    given scale is subtracted from all scores. List k begins at `starts[k]`. Ties are broken by
    random words.

    For fixed noise of all others a score wins if its own noise is at least some integer t, and
    P(noise >= t + 1) >= exp(-1 / scale) P(noise >= t). So if a person changes each score of a list
    by at most d, the choice changes in probability by a factor of at most exp(2 d / scale).
    """
    reduced = scores - geometric(source, scale, len(scores))
    places = np.empty(len(starts), np.int64)
    choose: Any = kernels.least_places
    if reduced.dtype == object:  # some noise does not fit 64 bits
        choose = choose.py_func
    choose(reduced, source.words(len(scores)), starts, places)
    return places


# --- permute-and-flip, with exact probabilities --------------------------------------------------
#
# The scores enter only through e^(-x), x = rate · (best - score), which is transcendental unless x
# is 0. It is enclosed between integers, closer and closer, until the random bits decide.

Score = int | Fraction
_WORD = 1 << 64
_FIRST = 64  # candidates whose coins are drawn together at first; then twice as many


def permute_and_flip(source: Keystream, scores: Sequence[Score], rate: Fraction) -> int:
    """Return the index of one candidate. Candidates are tried in random order; each is accepted
    with probability e^(rate · (score - best)), so the best one always is.

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


def _gaps(owner: str, scores: Sequence[Score], rate: Fraction) -> list[Fraction]:
    """Return rate · (best - score) of every candidate; `owner` is named in errors."""
    rate = check_positive(owner, "rate", rate)
    if not scores or any(not isinstance(q, int | Fraction) or isinstance(q, bool) for q in scores):
        allowed = "one or more whole numbers or Fractions"
        raise ParameterError(f"The 'scores' parameter of {owner} must be {allowed}.")
    best = max(scores)
    return [rate * (best - score) for score in scores]


def _first_head(source: Keystream, gaps: Sequence[Fraction]) -> int | None:
    """Return the index of the first coin that shows heads, or None; coin i shows heads with
    probability e^(-gaps[i]).
    """
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
