"""The exact tracker: one counter for every point of the space."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from scumble.model.errors import PromiseError
from scumble.private.database.space import Box, Boxes, Counts, Space


class Exact:
    """The popularity of every point: no decision can be better that allows each point the limit.

    Counters stand in a tree, one level for each attribute, the one with most values last: a box
    that does not restrict the last attributes is noted above them, and a maximum known for a node
    spares the question what lies below it.
    """

    def __init__(self, space: Space, limit: int) -> None:
        self.space, self.limit = space, limit
        self._order = np.argsort(space.sizes, kind="stable")
        self._sizes = np.array(space.sizes, np.int64)[self._order]
        levels = [
            prod(space.sizes[axis] for axis in self._order[:k]) for k in range(len(space) + 1)
        ]
        self._starts = np.concatenate([[0], np.cumsum(levels[:-1])]).astype(np.int64)
        kinds = (np.uint16, np.uint32, np.int64)
        kind = next(kind for kind in kinds if limit <= np.iinfo(kind).max)
        self._top = np.zeros(sum(levels), kind)
        self._own = np.zeros(sum(levels[:-1]), kind)

    def room(self, boxes: Boxes, units: int = 1) -> bool:
        return all(self._fits(box, units) for box in boxes)

    def add(self, boxes: Boxes, units: int = 1) -> None:
        from scumble.private.database.tracker_kernels import cover

        for box in boxes:
            if not self._fits(box, units):  # a counter must not overflow, whoever calls
                raise PromiseError("There is no room for these boxes.")
            amount = self._top.dtype.type(units)
            cover(self._top, self._own, self._starts, self._sizes, self._order, box, amount)

    def largest(self) -> int:
        return int(self._top[0])

    def popularity(self, one: int, other: int) -> Counts:
        found = self.space.matrix(one, other)
        kept = [level for level, axis in enumerate(self._order) if axis in (one, other)]
        turned = self._order[kept[0]] != one
        # One slice of the first attribute at a time, so that no second copy of the space is made.
        for code in range(self._sizes[0]):
            part = self._below(code, kept)
            target = found.T if turned else found
            if kept[0] == 0:
                target[code] = part
            else:
                np.maximum(target, part, out=target)
        return found

    def _below(self, code: int, kept: list[int]) -> Any:
        """The largest popularity where the first attribute has this code, over those kept."""
        part: Any = None
        for level in range(len(self._sizes), 0, -1):
            shape = (*self._sizes[1:level],)
            values = self._top if level == len(self._sizes) else self._own
            size = prod(map(int, shape))
            begin = int(self._starts[level]) + code * size
            noted = values[begin : begin + size].astype(np.int64).reshape(shape)
            if part is None:
                part = noted
            else:
                part = part + noted.reshape(shape + (1,) * (part.ndim - noted.ndim))
            if level > 1 and level - 1 not in kept:
                part = part.max(axis=level - 2)
        return part + int(self._own[0])

    def _fits(self, box: Box, units: int) -> bool:
        from scumble.private.database.tracker_kernels import fits

        most = self.limit - units
        return bool(fits(self._top, self._own, self._starts, self._sizes, self._order, box, most))
