"""One of several outcomes with exact probabilities, by an alias table in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.private.sampling.bits import Floors, chunks, decide_below
from scumble.private.sampling.integers import integers
from scumble.private.sampling.source import Source


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

    def draw(self, source: Source, size: int) -> NDArray[np.int64]:
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
