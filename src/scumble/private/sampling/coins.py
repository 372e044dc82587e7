"""Coins of several kinds in one throw, each yes with its own exact probability."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.rational import probability as check
from scumble.private.sampling.bits import Floors, decide_below
from scumble.private.sampling.source import Source

_WORD = 1 << 64


class Coins:
    """Kinds of coins; kind k says yes with exactly probabilities[k]."""

    def __init__(self, probabilities: Sequence[Fraction]) -> None:
        self._probabilities = [check("Coins", "probabilities", each) for each in probabilities]
        parts = [divmod(p.numerator << 64, p.denominator) for p in self._probabilities]
        self._certain = np.array([p == 1 for p in self._probabilities])
        self._whole = np.array([whole % _WORD for whole, _ in parts], np.uint64)
        self._exact = np.array([rest == 0 for _, rest in parts])

    def throw(self, source: Source, kinds: NDArray[Any]) -> NDArray[np.bool_]:
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
