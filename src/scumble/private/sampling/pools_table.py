"""One of several outcomes in exact shares, by a table of 16-bit prefixes whose rest is again such a
table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scumble.private.sampling.source import Source

_BITS = 16


class PrefixTable:
    """Outcome k with probability weights[k] / sum(weights), exactly.

    Every outcome owns as many of the 65536 prefixes as fit into its share; the prefixes that are
    left over stand for a further draw, from what the outcomes still lack. Half a prefix is lacking
    on average, so that few draws need a second look, and hardly any a third.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        total = sum(weights)
        parts = [divmod(weight << _BITS, total) for weight in weights]
        self.open = len(parts)  # the entry of a prefix that decides nothing yet
        owned = [whole for whole, _ in parts]
        prefixes = [*owned, (1 << _BITS) - sum(owned)]
        self.table: NDArray[np.uint16] = np.repeat(np.arange(self.open + 1, dtype="u2"), prefixes)
        self._lacking = [rest for _, rest in parts]

    @cached_property
    def rest(self) -> PrefixTable:
        """The law of a draw that its first prefix left open."""
        return PrefixTable(self._lacking)

    def draw(self, source: Source, size: int) -> NDArray[np.uint16]:
        """Independent outcomes."""
        outcomes: NDArray[np.uint16] = self.table[source.halves(size)]
        rows = np.flatnonzero(outcomes == self.open)
        if len(rows):
            outcomes[rows] = self.rest.draw(source, len(rows))
        return outcomes
