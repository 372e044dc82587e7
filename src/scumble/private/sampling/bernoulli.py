"""Yes with an exact probability."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.rational import probability as check
from scumble.private.sampling.bits import Floors, chunks, decide_below
from scumble.private.sampling.source import Source


def bernoulli(source: Source, probability: Fraction, size: int) -> NDArray[np.bool_]:
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


def _decide(source: Source, floors: Floors, short: int, size: int) -> NDArray[np.bool_]:
    """Whether numbers that all begin with the 16 bits `short` lie below the cut."""
    words = np.uint64(short << 48) | (source.words(size) >> np.uint64(16))
    (whole,), _ = floors(64)
    below: NDArray[np.bool_] = words < np.uint64(whole)
    for row in np.flatnonzero(words == np.uint64(whole)):
        below[row] = decide_below(source, floors, whole, 64)
    return below
