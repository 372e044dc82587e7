"""Keep-or-replace, alias table.

One of several outcomes with exact probabilities, by an alias table in whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.laws.base import check_probability, check_whole
from scumble.private.sampling.bits import (
    MOST,
    Cuts,
    Floors,
    bernoulli,
    chunks,
    decide_below,
    integers,
    sweep,
)
from scumble.private.sampling.source import Keystream


class Categorical:
    """Outcome k with probability weights[k] / sum(weights), exactly.

    Vose's alias method: every outcome owns a column of the same height and fills what it lacks from
    one other outcome. A draw picks a column, then its owner or its alias by an exact threshold.
    """

    def __init__(self, weights: Sequence[int | Fraction]) -> None:
        if not weights or any(not isinstance(w, int | Fraction) or w < 0 for w in weights):
            allowed = "one or more whole numbers or Fractions of at least 0"
            raise ParameterError.of("Categorical", "weights", allowed, weights)
        scale = math.lcm(*(Fraction(weight).denominator for weight in weights))
        shares = [int(weight * scale) for weight in weights]
        self._height = sum(shares)
        if self._height == 0:
            raise ParameterError.of("Categorical", "weights", "not all 0", weights)
        self._owned, alias = _alias(shares, self._height)
        self._alias = np.array(alias, np.int64)
        parts = [divmod(owned << 64, self._height) for owned in self._owned]
        # A full column is its own alias, so that it may own any part of itself: here, none.
        self._whole = np.array([whole % (1 << 64) for whole, _ in parts], np.uint64)
        self._exact = np.array([rest == 0 for _, rest in parts])

    def draw(self, source: Keystream, size: int) -> NDArray[np.int64]:
        """Independent outcomes."""
        out = np.empty(size, np.int64)
        for part in chunks(size):
            columns = integers(source, len(self._owned), part.stop - part.start).astype(np.int64)
            words = source.words(len(columns))
            whole = self._whole[columns]
            owned = words < whole
            for row in np.flatnonzero((words == whole) & ~self._exact[columns]):
                owned[row] = decide_below(source, self._floors(columns[row]), int(words[row]), 64)
            out[part] = np.where(owned, columns, self._alias[columns])
        return out

    def _floors(self, column: int) -> Floors:
        def floors(bits: int) -> tuple[list[int], list[bool]]:
            whole, rest = divmod(self._owned[column] << bits, self._height)
            return [whole], [rest == 0]

        return floors


def _alias(shares: Sequence[int], height: int) -> tuple[list[int], list[int]]:
    """What each column owns of its height, and who has the rest."""
    owned = [share * len(shares) for share in shares]
    alias = list(range(len(shares)))
    lacking = [column for column, share in enumerate(owned) if share < height]
    spare = [column for column, share in enumerate(owned) if share > height]
    while lacking:
        poor, rich = lacking.pop(), spare[-1]
        alias[poor] = rich
        owned[rich] -= height - owned[poor]
        if owned[rich] <= height:
            spare.pop()
        if owned[rich] < height:
            lacking.append(rich)
    return owned, alias


# The channel of uniform perturbation: keep a code, or replace it by one drawn uniformly from all.


def keep_or_replace(
    source: Keystream, codes: NDArray[Any], size: int, keep: Fraction
) -> NDArray[Any]:
    """Each code with probability `keep`, otherwise a uniform one of 0 to `size - 1`; same type of
    array.

    Codes must be unsigned and below `size`; they are not looked at beyond being copied. The
    replacement may be the same code again.
    """
    keep = check_probability("keep_or_replace", "keep", keep)
    size = check_whole("keep_or_replace", "size", size, least=1)
    codes = np.ascontiguousarray(codes)
    if keep == 1 or size == 1:
        return codes.copy()
    if size < MOST:
        return _by_table(source, codes, size, keep)
    return _by_parts(source, codes, size, keep)


def _by_table(source: Keystream, codes: NDArray[Any], size: int, keep: Fraction) -> NDArray[Any]:
    """One 16-bit draw decides a row; the few that hit a cut are decided by more bits."""
    from scumble.private.sampling import kernels

    cuts, table = _channel(size, keep)
    out = np.empty_like(codes)

    def decide(part: slice, prefixes: NDArray[np.uint16], pending: NDArray[np.int64]) -> int:
        return int(kernels.keep_or_replace(codes[part], prefixes, table, size, out[part], pending))

    rows, prefixes = sweep(source, len(codes), decide)
    outcomes = cuts.decide(source, prefixes)
    out[rows] = np.where(outcomes == 0, codes[rows], outcomes - 1)
    return out


@lru_cache(maxsize=64)
def _channel(size: int, keep: Fraction) -> tuple[Cuts, NDArray[Any]]:
    """The cuts (outcome 0 keeps, outcome k + 1 replaces by k) and the table of the compiled
    loop.
    """
    share = (1 - keep) / size
    cuts = Cuts.rational([keep + code * share for code in range(size)])
    # To the loop, entries below `size` are codes, `size` says keep, and `size + 1` is left open.
    entries = np.concatenate([[size], np.arange(size), [size + 1]])
    return cuts, entries[cuts.table].astype(np.uint8 if size <= 254 else np.uint16)


def _by_parts(source: Keystream, codes: NDArray[Any], size: int, keep: Fraction) -> NDArray[Any]:
    """First which rows to replace, then by what: for domains too large for a table."""
    out = codes.copy()
    for part in chunks(len(codes)):
        rows = np.flatnonzero(bernoulli(source, 1 - keep, part.stop - part.start))
        out[part][rows] = integers(source, size, len(rows))
    return out
