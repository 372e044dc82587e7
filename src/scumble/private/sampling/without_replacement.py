"""Urns: balls of several colours, drawn one by one and not put back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.private.sampling.bits import chunks
from scumble.private.sampling.source import Source


class Urns:
    """Urns numbered from 0, each with compartments that hold balls of one colour.

    `balls[urn]` says how many balls each compartment of an urn has. Compartments are numbered
    through, urn after urn. Every ball of an urn is equally likely to be drawn, so that the rows
    that get a compartment are a uniformly random choice among all rows that draw from its urn.
    """

    def __init__(self, balls: Sequence[Sequence[int]]) -> None:
        flat = [count for urn in balls for count in urn]
        if any(count < 0 for count in flat) or sum(flat) >= 1 << 62:
            allowed = "numbers of at least 0, below 2^62 in all"
            raise ParameterError.of("Urns", "balls", allowed, len(flat))
        self._starts = np.cumsum([0, *map(len, balls)]).astype(np.int64)
        self._balls = np.array(flat, np.int64)
        self._left = np.array([sum(urn) for urn in balls], np.int64)

    @property
    def left(self) -> int:
        """How many balls are in all urns."""
        return int(self._left.sum())

    def draw(self, source: Source, urns: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each of these urns in turn, the compartment of the ball that is drawn from it.

        LookupError if an urn is empty: no ball of that row and the following ones is drawn.
        """
        from scumble.private.sampling.urn_kernel import draw

        out = np.empty(len(urns), np.int64)
        for part in chunks(len(urns)):
            asked, drawn = urns[part], out[part]
            done = 0
            while done < len(asked):
                # A word that is refused has to be replaced, and then the last rows find none.
                words = source.words(len(asked) - done)
                more = int(
                    draw(asked[done:], words, self._starts, self._balls, self._left, drawn[done:])
                )
                if more < 0:
                    raise LookupError("an urn is empty")
                done += more
        return out
