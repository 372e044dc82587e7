"""The disjoint tracker: boxes that meet no box before them."""

from __future__ import annotations

from scumble.private.database.accepted import Accepted, highest
from scumble.private.database.space import Box, Boxes, Counts, Space


class Disjoint:
    """The oldest rule, kept to compare with: no point is ever counted twice."""

    def __init__(self, space: Space, limit: int) -> None:
        self.space, self.limit = space, limit
        self._accepted = Accepted(len(space))
        self._largest = 0

    def room(self, boxes: Boxes, units: int = 1) -> bool:
        return not len(boxes) or (units <= self.limit and not any(map(self._meets, boxes)))

    def add(self, boxes: Boxes, units: int = 1) -> None:
        for box in boxes:
            self._accepted.append(box, units)
            self._largest = max(self._largest, units)

    def largest(self) -> int:
        return self._largest

    def popularity(self, one: int, other: int) -> Counts:
        known = self._accepted
        return highest(known.boxes, known.units[: len(known)], one, other, self.space)

    def _meets(self, box: Box) -> bool:
        starts, stops = self._accepted.boxes[..., 0], self._accepted.boxes[..., 1]
        return bool(((starts <= box[:, 1]) & (stops >= box[:, 0])).all(axis=1).any())
