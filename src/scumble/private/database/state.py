"""The state of a database: past answers and batches, built from the entries of its journal.

The state of a process is thus what is on the disk: after a crash, after another process wrote,
after a turn that was rolled back. There is one exception. A histogram tracker may split buckets
when it is asked whether a box fits. This changes how tightly it bounds popularity, never whether
the bound holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from scumble.model import stored
from scumble.model.errors import LedgerError, ParameterError
from scumble.model.privacy.guarantee import read_positive
from scumble.private.database.space import Box, Boxes, Space
from scumble.private.database.terms import DatabaseTerms
from scumble.private.database.trackers import Tracker, make_tracker
from scumble.private.journal.chain import out_of_order
from scumble.private.journal.entries import ANSWER, APPEND, QUOTA, REPEAT, Entry, check_word
from scumble.private.journal.journal import Turn

STATUSES = ("answered", "repeated", "relaxed")


class DatabaseState:
    """Past answers, how many questions had each status, quotas, and the batches of rows.

    `quotas` has the present part of ε of each analyst, None where it was ended. Only analysts with
    a quota may ask a database that was created with quotas.
    """

    def __init__(self, terms: DatabaseTerms, space: Space) -> None:
        self.terms = terms
        self.space = space
        self.past_answers: list[PastAnswer] = []
        self.usage: dict[str | None, dict[str, int]] = {}  # of each analyst
        self.quotas: dict[str, Fraction | None] = dict(terms.quotas)
        self.batches = [Batch(terms, space, self.quotas)]
        self.added: list[str] = []  # fingerprints of the batches after the first
        self.entries = 0  # that were learned
        self.written: dict[str | None, int] = {}  # bytes of the journal, by each analyst
        self._asked: dict[str | None, dict[bytes, int]] = {}  # entries by analyst and question

    def snapshot(self) -> Snapshot:
        """Return the present state, for a plan that is made while others write."""
        batches = tuple(BatchSnapshot(batch, batch.boxes) for batch in self.batches)
        return Snapshot(self, self.entries, len(self.past_answers), batches)

    def learn(
        self,
        entry: Entry,
        payload: Mapping[str, Any] | None = None,
        new: Sequence[PastAnswer] | None = None,
    ) -> None:
        """Apply one entry. `payload` is what its text was made of, and `new` has the new answers of
        it, where these are at hand.
        """
        self.entries += 1
        if entry.kind in (ANSWER, REPEAT):
            self._answered(entry, entry.payload if payload is None else payload, new)
        elif entry.kind == APPEND:
            if wrong := out_of_order(entry, len(self.batches) + 1):
                raise LedgerError(
                    f"The journal is not used: it was tampered with. {wrong.sentence}"
                )
            self.batches.append(Batch(self.terms, self.space, self.quotas))
            self.added.append(entry.payload["data"])
        elif entry.kind == QUOTA:
            self._set_quota(str(entry.analyst), entry.payload["epsilon"])
        else:
            raise LedgerError(
                f"Entry {entry.number} of the journal is of a kind that this version of scumble "
                f"does not know, {entry.kind!r}. Upgrade scumble."
            )

    def answer_to(self, analyst: str | None, question: Sequence[str]) -> int | None:
        """Return the number of the last entry with all of an analyst's answer to a question.

        It is None if the analyst's quota was changed since: then relaxed pieces are forgotten.
        """
        return self._asked.get(analyst, {}).get(_digest(question))

    def used(self) -> int:
        """Return the largest popularity of any point in any batch. A person is in one batch."""
        return max(batch.tracker.largest() for batch in self.batches)

    def count(self, status: str) -> int:
        """Return how many entries have a status: answered, repeated or relaxed."""
        return sum(each[status] for each in self.usage.values())

    def used_by(self, analyst: str) -> int:
        """Return the largest popularity of any point by the answers that an analyst was charged."""
        return max(batch.used_by(analyst) for batch in self.batches)

    def _set_quota(self, analyst: str, part: str | None) -> None:
        self.quotas[analyst] = None if part is None else stored.fraction(part)
        self._asked.pop(analyst, None)
        for batch in self.batches:
            batch.set_quota(analyst, self.quotas[analyst])

    def _answered(
        self, entry: Entry, payload: Mapping[str, Any], new: Sequence[PastAnswer] | None
    ) -> None:
        analyst = entry.analyst
        own = self.usage.setdefault(analyst, dict.fromkeys((*STATUSES, "numbers"), 0))
        own[payload["status"]] += 1
        self.written[analyst] = self.written.get(analyst, 0) + entry.size
        if entry.kind == REPEAT:
            return
        answers = [*map(PastAnswer.from_dict, payload["new"])] if new is None else new
        own["numbers"] += len(answers)
        numbered: dict[int, dict[int, PastAnswer]] = {}
        for number, answer in enumerate(answers, len(self.past_answers)):
            numbered.setdefault(answer.batch, {})[number] = answer
        for of, some in numbered.items():
            self.batches[of - 1].add(some, analyst)
        self.past_answers += answers
        for group in payload["groups"]:
            for piece in group["pieces"]:
                if piece["status"] == "relaxed" and piece["terms"]:
                    asked = np.array(piece["asked"], np.int64)
                    batch = self.batches[batch_of(piece) - 1]
                    batch.relaxed[piece["manner"], asked.tobytes()] = piece
                    batch.relaxed_for[analyst, piece["manner"], asked.tobytes()] = piece
        self._asked.setdefault(analyst, {})[_digest(question_of(payload))] = entry.number


def question_of(payload: Mapping[str, Any]) -> list[str]:
    """Return what was asked in an entry: the SQL, the digest of its side tables, the options."""
    return [payload["sql"], payload.get("tables", ""), *payload["manner"]]


def _digest(question: Sequence[str]) -> bytes:
    return hashlib.blake2b(repr(list(question)).encode(), digest_size=16).digest()


class BatchSnapshot(NamedTuple):
    """A batch, and the boxes of the counts about it at the time of a snapshot."""

    batch: Batch
    boxes: Boxes


@dataclass(frozen=True)
class Snapshot:
    """The state at one moment: what was learned by then stays readable while others write.

    Numbers of past answers from `past` on are not part of it. Only trackers go on: a plan sees room
    that others took meanwhile as taken. `is_current` says that nothing was learned since, so that a
    plan is what would be planned now.
    """

    state: DatabaseState
    entries: int
    past: int
    batches: tuple[BatchSnapshot, ...]

    def is_current(self, state: DatabaseState) -> bool:
        return self.state is state and self.entries == state.entries


class Batch:
    """The past answers about one batch of rows, and how they cover the points.

    A person is in one batch, so every batch has all of ε: its own trackers, and relaxation by
    answers about its own rows.
    """

    def __init__(
        self, terms: DatabaseTerms, space: Space, quotas: Mapping[str, Fraction | None]
    ) -> None:
        self._terms, self._space = terms, space
        # Relaxed pieces, by the name of the options and the box.
        self.relaxed: dict[tuple[str, bytes], dict[str, Any]] = {}
        # The same, by the analyst too: another one may have a quota left.
        self.relaxed_for: dict[tuple[str | None, str, bytes], dict[str, Any]] = {}
        self.tracker = self._tracker(terms.limit)
        self.of_analysts: dict[str, Tracker] = {}
        self._charged: dict[str | None, list[Box]] = {}  # to each analyst
        for name, part in quotas.items():
            self.set_quota(name, part)
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

    def quota(self, analyst: str | None) -> Tracker | None:
        """Return the tracker of an analyst; None for one without a quota who may ask."""
        found = None if analyst is None else self.of_analysts.get(analyst)
        if found is not None:
            return found
        if self._terms.quotas:
            allowed = f"one of {', '.join(list(self.of_analysts))}, who have quotas"
            raise ParameterError.of("Database", "analyst", allowed, analyst)
        return None

    def set_quota(self, analyst: str, part: Fraction | None) -> None:
        """Give an analyst a part of ε, or end the quota. Past answers count against a new one."""
        # What was relaxed for want of room may be answered now.
        for name in [each for each in self.relaxed_for if each[0] == analyst]:
            del self.relaxed_for[name]
        if part is None:
            self.of_analysts.pop(analyst, None)
        else:  # in one step: others may plan meanwhile
            self.of_analysts[analyst] = self._covered(analyst, self._terms.limit_of(part))

    def allows(self, analyst: str, limit: int) -> bool:
        """Whether the answers that were charged to an analyst stay within a limit."""
        found = self._tracker(limit)
        for box in self._charged.get(analyst, ()):
            if not found.has_room(box[np.newaxis]):
                return False
            found.add(box[np.newaxis])
        return True

    def used_by(self, analyst: str) -> int:
        """Return how many answers charged to an analyst cover the point with most of them."""
        known = self.of_analysts.get(analyst) or self._covered(analyst, self._terms.limit)
        return known.largest()

    def _covered(self, analyst: str, limit: int) -> Tracker:
        """Return a tracker of the answers that were charged to an analyst."""
        found = self._tracker(limit)
        for box in self._charged.get(analyst, ()):
            found.add(box[np.newaxis])
        return found

    def add(self, answers: Mapping[int, PastAnswer], analyst: str | None) -> None:
        """Add past answers about these rows, by their numbers."""
        boxes = np.array([answer.box for answer in answers.values()])
        self.tracker.add(boxes)
        quota = self.quota(analyst)
        if quota is not None:
            quota.add(boxes)
        self._charged.setdefault(analyst, []).extend(boxes)
        for number, answer in answers.items():
            self._places[answer.kind, answer.box.tobytes()] = number
        counts = {number: of.box for number, of in answers.items() if of.kind == COUNT}
        if counts:
            self._keep(np.array([*counts.values()]))
            self._counts += counts

    def _keep(self, boxes: Boxes) -> None:
        count = len(self._counts)
        while count + len(boxes) > len(self._boxes):
            self._boxes = np.concatenate([self._boxes, np.empty_like(self._boxes)])
        self._boxes[count : count + len(boxes)] = boxes

    def _tracker(self, limit: int) -> Tracker:
        return make_tracker(self._terms.tracker, self._space, limit, self._terms.buckets)


def write_quota(turn: Turn, state: DatabaseState, analyst: str, epsilon: object) -> None:
    """Append the entry that gives an analyst a part of ε, or (None) ends it, and learn it.

    Raises `ParameterError` for a part that allows no answer, is above ε, or is below what the
    analyst was charged already.
    """
    check_word("analyst", analyst)
    if not isinstance(analyst, str):
        raise ParameterError.of("quota", "analyst", "a name", analyst)
    text = None
    if epsilon is None:
        if state.quotas.get(analyst) is None:
            raise ParameterError.of("quota", "analyst", "one who has a quota", analyst)
    else:
        part, terms = read_positive("quota", "epsilon", epsilon), state.terms
        limit = terms.limit_of(part)
        if part > terms.epsilon or limit < 1:
            allowed = f"from {float(2 / terms.noise):g}, for one answer, to {terms.epsilon}"
            raise ParameterError.of("quota", "epsilon", allowed, epsilon)
        if not all(batch.allows(analyst, limit) for batch in state.batches):
            allowed = "at least what the analyst has used already"
            raise ParameterError.of("quota", "epsilon", allowed, epsilon)
        text = str(part)
    state.learn(turn.append(QUOTA, {"epsilon": text}, analyst=analyst))


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
