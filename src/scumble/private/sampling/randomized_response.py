"""Randomised response: keep a code or replace it uniformly; and exact categorical sampling."""

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
    """A finite distribution: outcome k has probability weights[k] / sum(weights), exactly.

    Vose's alias method in integers: every outcome owns one column of equal height, and one other
    outcome, its alias, fills the rest. A draw picks a column, then its owner or its alias by an
    exact threshold.
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
        # A full column is its own alias, so that its threshold may be any number: here, 0.
        self._whole = np.array([whole % (1 << 64) for whole, _ in parts], np.uint64)
        self._exact = np.array([rest == 0 for _, rest in parts])

    def draw(self, source: Keystream, size: int) -> NDArray[np.int64]:
        """Return `size` independent outcomes."""
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
    """Return the height that the owner of each column has of it, and the alias of each column."""
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


# --- the channel of uniform perturbation ---------------------------------------------------------


def keep_or_replace(
    source: Keystream, codes: NDArray[Any], size: int, keep: Fraction
) -> NDArray[Any]:
    """Return each code with probability `keep`, and else a uniform code from 0 to `size - 1`.

    `codes` must be unsigned and below `size`. The result has their dtype. Codes are copied and not
    compared with anything. The replacement may equal the code.
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
    """Decide each row by 16 bits, and the few rows that hit a cut by more bits."""
    cuts, table = _channel(size, keep)
    out = np.empty_like(codes)

    def choose(part: slice, prefixes: NDArray[np.uint16]) -> NDArray[np.int64]:
        """Write the table's entry of each prefix, or the code where the entry is at least `size`;
        an entry above it leaves the row undecided.
        """
        entries = table.take(prefixes, mode="clip")  # all are inside
        # Bit by bit, by a mask of ones: several times faster than a choice row by row.
        replaced = np.negative((entries < size).astype(codes.dtype))
        np.bitwise_xor(codes[part], entries.astype(codes.dtype, copy=False), out=out[part])
        out[part] &= replaced
        out[part] ^= codes[part]
        return (entries > size).nonzero()[0]

    rows, prefixes = sweep(source, len(codes), choose)
    outcomes = cuts.decide(source, prefixes)
    out[rows] = np.where(outcomes == 0, codes[rows], outcomes - 1)
    return out


@lru_cache(maxsize=64)
def _channel(size: int, keep: Fraction) -> tuple[Cuts, NDArray[Any]]:
    """Return the cuts (outcome 0 keeps, outcome k + 1 replaces by k) and the loop's table."""
    share = (1 - keep) / size
    cuts = Cuts.rational([keep + code * share for code in range(size)])
    # In the table, entries below `size` are codes, `size` keeps, and `size + 1` is undecided.
    entries = np.concatenate([[size], np.arange(size), [size + 1]])
    return cuts, entries[cuts.table].astype(np.uint8 if size <= 254 else np.uint16)


def _by_parts(source: Keystream, codes: NDArray[Any], size: int, keep: Fraction) -> NDArray[Any]:
    """Draw the rows to replace, then their codes: for domains too large for a table."""
    out = codes.copy()
    for part in chunks(len(codes)):
        rows = np.flatnonzero(bernoulli(source, 1 - keep, part.stop - part.start))
        out[part][rows] = integers(source, size, len(rows))
    return out
