"""Memory: all that follows from the ledger, built by reading its entries in their order.

What a process remembers is thus what is on the disk: after a crash, after another process wrote,
after a turn that came to nothing. One thing is besides: a histogram may cut buckets finer when it
is asked for room, which changes how closely it bounds popularity, never whether the bound holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scumble.database.entry import Entry
from scumble.database.space import Box, Boxes, Space
from scumble.database.terms import Terms
from scumble.database.tracker import Tracker, make_tracker
from scumble.errors import ParameterError

COUNT = "count"


@dataclass(frozen=True)
class Given:
    """One noisy number that was given out: of which kind, for which box."""

    kind: str  # "count", or the expression that was added up
    box: Box
    value: int
    times: int = 1  # its noise has so many times the scale of a count's

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "box": self.box.tolist(),
            "value": self.value,
            "times": self.times,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Given:
        box = np.array(data["box"], np.int64)
        return cls(data["kind"], box, int(data["value"]), int(data["times"]))


class Memory:
    """The numbers that were given out, how often each point is covered, and what was relaxed."""

    def __init__(self, terms: Terms, space: Space) -> None:
        self.terms = terms
        self.space = space
        self.given: list[Given] = []
        self.relaxed: dict[tuple[str, bytes], dict[str, Any]] = {}  # by manner and box
        self.answers = {"answered": 0, "repeated": 0, "relaxed": 0}
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

    def learn(self, entry: Entry) -> None:
        """Take in one entry."""
        payload = entry.payload
        for item in payload["new"]:
            self._add(Given.from_dict(item), entry.analyst)
        for group in payload["groups"]:
            for piece in group["pieces"]:
                if piece["status"] == "relaxed" and piece["terms"]:
                    asked = np.array(piece["asked"], np.int64)
                    self.relaxed[piece["manner"], asked.tobytes()] = piece
        self.answers[payload["status"]] += 1

    def _add(self, given: Given, analyst: str | None) -> None:
        box = given.box[np.newaxis]
        self.tracker.add(box)
        quota = self.quota(analyst)
        if quota is not None:
            quota.add(box)
        self._places[given.kind, given.box.tobytes()] = len(self.given)
        if given.kind == COUNT:
            self._keep(given.box)
            self._counts.append(len(self.given))
        self.given.append(given)

    def _keep(self, box: Box) -> None:
        count = len(self._counts)
        if count == len(self._boxes):
            self._boxes = np.concatenate([self._boxes, np.empty_like(self._boxes)])
        self._boxes[count] = box

    def _tracker(self, limit: int) -> Tracker:
        return make_tracker(self.terms.tracker, self.space, limit, self.terms.buckets)
