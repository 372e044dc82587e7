"""Sets of a fixed size that hold a given value with an exact probability, all else being equal."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.rational import probability, whole
from scumble.private.sampling.bernoulli import bernoulli
from scumble.private.sampling.source import Source

MOST = 1 << 16  # values: with so few, hardly a draw of 32 bits is refused
_STEP = 1 << 16  # rows at a time, so that their bits are still in the cache when they are read


def subsets(
    source: Source, codes: NDArray[Any], values: int, size: int, inclusion: Fraction
) -> NDArray[Any]:
    """For each code a set of `size` out of `values`, one row each, in no meaningful order.

    It holds the code with probability `inclusion`; the rest of it is a uniform choice among the
    other values, by Floyd's algorithm on exact bounded draws.
    """
    values = whole("subsets", "values", values, least=2)
    size = whole("subsets", "size", size, least=1)
    held = bernoulli(source, probability("subsets", "inclusion", inclusion), len(codes))
    out = np.empty((len(codes), size), np.min_scalar_type(values - 1))
    for begin in range(0, len(codes), _STEP):
        part = slice(begin, begin + _STEP)
        _fill(source, codes[part], held[part], values, out[part])
    return out


def _fill(
    source: Source, codes: NDArray[Any], held: NDArray[Any], values: int, out: NDArray[Any]
) -> None:
    """Draw the sets of some rows; a row with a refused draw is drawn again, all of it."""
    from scumble.private.sampling import subset_kernels

    # The high half of word * bound is uniform below the bound, once the low halves below
    # 2**32 mod bound are refused (Lemire, 2019).
    refuse = np.array([(1 << 32) % bound for bound in range(1, values + 1)], np.uint64)
    last_seen = np.zeros(values, np.int64)
    rows = np.arange(len(codes))
    stamp = 1
    while len(rows):
        words = np.empty(len(rows) * out.shape[1], np.uint32)
        source.fill(words)
        count = subset_kernels.choose(words, codes, held, refuse, last_seen, stamp, out, rows)
        stamp += len(rows)
        rows = rows[:count]
