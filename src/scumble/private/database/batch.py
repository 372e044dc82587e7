"""A batch of rows as the ledger knows it: what was given out about it, and how often each point is
covered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.errors import ParameterError
from scumble.private.database.given import COUNT, Given
from scumble.private.database.space import Box, Boxes, Space
from scumble.private.database.terms import Terms
from scumble.private.database.trackers import Tracker, make_tracker


class Batch:
    """Rows that came together. A person is in one batch, so every batch has the whole promise: its
    own trackers, and relaxation by answers about its own rows.
    """

    def __init__(self, terms: Terms, space: Space) -> None:
        self._terms, self._space = terms, space
        self.relaxed: dict[tuple[str, bytes], dict[str, Any]] = {}  # by manner and box
        self.tracker = self._tracker(terms.limit)
        self.of_analysts: dict[str, Tracker] = {
            name: self._tracker(terms.limit_of(part)) for name, part in terms.quotas.items()
        }
        self._places: dict[tuple[str, bytes], int] = {}
        self._boxes = np.empty((64, len(space.names), 2), np.int64)
        self._counts: list[int] = []  # the numbers of the answers that are counts

    @property
    def boxes(self) -> Boxes:
        """The boxes of all counts, which relaxation may use."""
        return self._boxes[: len(self._counts)]

    def number(self, count: int) -> int:
        """The number, among all that was given out, of a count."""
        return self._counts[count]

    def find(self, kind: str, box: Box) -> int | None:
        """The number that was given out for exactly this."""
        return self._places.get((kind, box.tobytes()))

    def room(self, box: Box, units: int, analyst: str | None) -> bool:
        """Whether one more answer for a box is within the promise, and the analyst's quota."""
        known = (self.tracker, self.quota(analyst))
        return all(tracker.room(box[np.newaxis], units) for tracker in known if tracker)

    def quota(self, analyst: str | None) -> Tracker | None:
        """What counts an analyst's answers, where there are quotas."""
        if not self.of_analysts:
            return None
        if analyst not in self.of_analysts:
            allowed = f"one of {', '.join(self.of_analysts)}, who have quotas"
            raise ParameterError.of("Database", "analyst", allowed, analyst)
        return self.of_analysts[analyst]

    def add(self, given: Given, number: int, analyst: str | None) -> None:
        """Take in what was given out about these rows, under its number."""
        box = given.box[np.newaxis]
        self.tracker.add(box)
        quota = self.quota(analyst)
        if quota is not None:
            quota.add(box)
        self._places[given.kind, given.box.tobytes()] = number
        if given.kind == COUNT:
            self._keep(given.box)
            self._counts.append(number)

    def _keep(self, box: Box) -> None:
        count = len(self._counts)
        if count == len(self._boxes):
            self._boxes = np.concatenate([self._boxes, np.empty_like(self._boxes)])
        self._boxes[count] = box

    def _tracker(self, limit: int) -> Tracker:
        return make_tracker(self._terms.tracker, self._space, limit, self._terms.buckets)
