"""The state of a database: past answers and batches, built from the entries of its journal.

The state of a process is thus what is on the disk: after a crash, after another process wrote,
after a turn that was rolled back. There is one exception. A histogram tracker may split buckets
when it is asked whether a box fits. This changes how tightly it bounds popularity, never whether
the bound holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scumble.model.errors import LedgerError, ParameterError
from scumble.private.database.space import Box, Boxes, Space
from scumble.private.database.terms import DatabaseTerms
from scumble.private.database.trackers import Tracker, make_tracker
from scumble.private.journal.chain import out_of_order
from scumble.private.journal.entries import ANSWER, APPEND, Entry


class DatabaseState:
    """Past answers, how many questions had each status, and the batches of rows."""

    def __init__(self, terms: DatabaseTerms, space: Space) -> None:
        self.terms = terms
        self.space = space
        self.past_answers: list[PastAnswer] = []
        self.status_counts = {"answered": 0, "repeated": 0, "relaxed": 0}
        self.batches = [Batch(terms, space)]
        self.added: list[str] = []  # fingerprints of the batches after the first

    def learn(self, entry: Entry, payload: Mapping[str, Any] | None = None) -> None:
        """Apply one entry. `payload` is what its text was made of, where that is at hand."""
        if entry.kind == ANSWER:
            self._answered(entry.payload if payload is None else payload, entry.analyst)
        elif entry.kind == APPEND:
            if wrong := out_of_order(entry, len(self.batches) + 1):
                raise LedgerError(
                    f"The journal is not used: it was tampered with. {wrong.sentence}"
                )
            self.batches.append(Batch(self.terms, self.space))
            self.added.append(entry.payload["data"])
        else:
            raise LedgerError(
                f"Entry {entry.number} of the journal is of a kind that this version of scumble "
                f"does not know, {entry.kind!r}. Upgrade scumble."
            )

    def used(self) -> int:
        """Return the largest popularity of any point in any batch. A person is in one batch."""
        return max(batch.tracker.largest() for batch in self.batches)

    def _answered(self, payload: Mapping[str, Any], analyst: str | None) -> None:
        for item in payload["new"]:
            answer = PastAnswer.from_dict(item)
            self.batches[answer.batch - 1].add(answer, len(self.past_answers), analyst)
            self.past_answers.append(answer)
        for group in payload["groups"]:
            for piece in group["pieces"]:
                if piece["status"] == "relaxed" and piece["terms"]:
                    asked = np.array(piece["asked"], np.int64)
                    batch = self.batches[batch_of(piece) - 1]
                    batch.relaxed[piece["manner"], asked.tobytes()] = piece
                    batch.relaxed_for[analyst, piece["manner"], asked.tobytes()] = piece
        self.status_counts[payload["status"]] += 1


class Batch:
    """The past answers about one batch of rows, and how they cover the points.

    A person is in one batch, so every batch has all of ε: its own trackers, and relaxation by
    answers about its own rows.
    """

    def __init__(self, terms: DatabaseTerms, space: Space) -> None:
        self._terms, self._space = terms, space
        # Relaxed pieces, by the name of the options and the box.
        self.relaxed: dict[tuple[str, bytes], dict[str, Any]] = {}
        # The same, by the analyst too: another one may have a quota left.
        self.relaxed_for: dict[tuple[str | None, str, bytes], dict[str, Any]] = {}
        self.tracker = self._tracker(terms.limit)
        self.of_analysts: dict[str, Tracker] = {
            name: self._tracker(terms.limit_of(part)) for name, part in terms.quotas.items()
        }
        self._places: dict[tuple[str, bytes], int] = {}
        self._boxes = np.empty((64, len(space.names), 2), np.int64)
        self._counts: list[int] = []  # numbers of the past answers that are counts

    @property
    def boxes(self) -> Boxes:
        """The boxes of all counts, in order. Relaxation uses them."""
        return self._boxes[: len(self._counts)]

    def number(self, count: int) -> int:
        """Return the number, among all past answers, of the count at an index."""
        return self._counts[count]

    def find(self, kind: str, box: Box) -> int | None:
        """Return the number of the past answer of this kind for exactly this box, if any."""
        return self._places.get((kind, box.tobytes()))

    def has_room(self, box: Box, units: int, analyst: str | None) -> bool:
        """Whether `units` more answers for a box fit within ε and the analyst's quota."""
        known = (self.tracker, self.quota(analyst))
        return all(tracker.has_room(box[np.newaxis], units) for tracker in known if tracker)

    def quota(self, analyst: str | None) -> Tracker | None:
        """Return the tracker of an analyst; None if there are no quotas."""
        if not self.of_analysts:
            return None
        if analyst not in self.of_analysts:
            allowed = f"one of {', '.join(self.of_analysts)}, who have quotas"
            raise ParameterError.of("Database", "analyst", allowed, analyst)
        return self.of_analysts[analyst]

    def add(self, answer: PastAnswer, number: int, analyst: str | None) -> None:
        """Add a past answer about these rows, with its number."""
        box = answer.box[np.newaxis]
        self.tracker.add(box)
        quota = self.quota(analyst)
        if quota is not None:
            quota.add(box)
        self._places[answer.kind, answer.box.tobytes()] = number
        if answer.kind == COUNT:
            self._keep(answer.box)
            self._counts.append(number)

    def _keep(self, box: Box) -> None:
        count = len(self._counts)
        if count == len(self._boxes):
            self._boxes = np.concatenate([self._boxes, np.empty_like(self._boxes)])
        self._boxes[count] = box

    def _tracker(self, limit: int) -> Tracker:
        return make_tracker(self._terms.tracker, self._space, limit, self._terms.buckets)


COUNT = "count"


@dataclass(frozen=True)
class PastAnswer:
    """One noisy number that was published: its kind, its box, and the batch of its rows."""

    kind: str  # "count", or the expression that was added up
    box: Box
    value: int
    times: int = 1  # the scale of its noise, in scales of a count
    batch: int = 1

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "box": self.box.tolist(),
            "value": self.value,
            "times": self.times,
            **of_batch(self.batch),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PastAnswer:
        box = np.array(data["box"], np.int64)
        return cls(data["kind"], box, int(data["value"]), int(data["times"]), batch_of(data))


def of_batch(number: int) -> dict[str, int]:
    """The field of the journal for a batch number: none for the first batch."""
    return {"batch": number} if number > 1 else {}


def batch_of(data: Mapping[str, Any]) -> int:
    """Return the batch number of a record in the journal."""
    return int(data.get("batch", 1))
