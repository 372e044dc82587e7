"""Dealing: rows sent to the parts of a split at random, and through the channel of their part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import SourceError
from scumble.model.schema.cell_keys import smallest
from scumble.private.perturbation.partition_groups import Part
from scumble.private.sampling.channel import keep_or_replace
from scumble.private.sampling.source import Source
from scumble.private.sampling.without_replacement import Urns

Cells = npt.NDArray[np.uint64]
CHANGED = "The table changed while it was read; publish a copy that stays as it is."


class Deal:
    """Takes the rows of a table in any order and in batches, and gives every part its rows.

    Each value is an urn with as many balls for a part as the part has rows of that value; every row
    draws a ball of its value. So which rows of a value go to a part is a uniformly random choice.
    """

    def __init__(self, parts: Sequence[Part], cells: int) -> None:
        self._parts = parts
        holders: dict[int, list[int]] = {}
        for number, part in enumerate(parts):
            for value in part.counts:
                holders.setdefault(value, []).append(number)
        self._urn = np.full(cells, -1, np.int64)
        self._urn[list(holders)] = np.arange(len(holders))
        self._urns = Urns(
            [[parts[number].counts[value] for number in held] for value, held in holders.items()]
        )
        # What stands behind each compartment: a part, and the place of the value in its domain.
        pairs = [(number, value) for value, held in holders.items() for number in held]
        places = [{value: place for place, value in enumerate(part.domain)} for part in parts]
        self._part = np.array([number for number, _ in pairs], smallest(len(parts)))
        largest = max(len(part.domain) for part in parts)
        self._place = np.array([places[n][value] for n, value in pairs], smallest(largest))

    def through(self, noise: Source, cells: Cells) -> tuple[npt.NDArray[Any], Cells]:
        """The part of each row, and the cell that it shows."""
        urns = self._urn[cells.astype(np.int64)]
        if (urns < 0).any():
            raise SourceError(CHANGED)
        try:
            drawn = self._urns.draw(noise, urns)
        except LookupError:
            raise SourceError(CHANGED) from None
        numbers, places = self._part[drawn], self._place[drawn]
        shown = np.empty_like(cells)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(self._parts)))
        for part, rows in zip(self._parts, np.split(order, ends[:-1]), strict=True):
            domain = np.array(part.domain, np.uint64)
            kept = keep_or_replace(noise, places[rows], len(domain), part.keep)
            shown[rows] = domain[kept]
        return numbers, shown

    def finish(self) -> None:
        """Complain if rows are missing."""
        if self._urns.left:
            raise SourceError(CHANGED)
