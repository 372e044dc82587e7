"""A session at a ledger: decides about one question after the other, and only then counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from scumble.model.errors import ParameterError, ScumbleError
from scumble.private.database.plan import AnswerOptions, AnswerPlan
from scumble.private.database.question import Question
from scumble.private.database.space import Box, Space
from scumble.private.database.state import COUNT, DatabaseState, PastAnswer
from scumble.private.database.tables import Addition, BoxCounter, missing
from scumble.private.database.terms import DatabaseTerms
from scumble.private.journal.entries import ANSWER, Entry
from scumble.private.journal.group_commit import GroupCommit
from scumble.private.journal.journal import Journal, Turn
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream

_SPARE = 256


@dataclass(frozen=True)
class Request:
    """A question that waits for its decision."""

    asked: Question
    manner: AnswerOptions
    key: str | None = None
    analyst: str | None = None


@dataclass(frozen=True)
class Settled:
    """What was decided, as the ledger has it, the numbers that it is made of, and where that is
    public the number of rows of each batch.
    """

    groups: Sequence[Mapping[str, Any]]
    numbers: Mapping[int, PastAnswer]
    new: int
    rows: Sequence[int] | None

    @property
    def status(self) -> str:
        return status_of(self.groups)


class Session:
    """The memory of a ledger, the private tables and the noise, behind one writer's turns. There is
    a table for every batch of rows, by the fingerprint that the ledger has of it.

    What is decided depends on the ledger and the question alone. The table is counted afterwards,
    still within the turn: a table of cumulative counts takes microseconds for it, and a million
    rows take a few milliseconds, less than the disk takes for the commit. Memory changes only by
    what was appended to the ledger. If anything fails after that, the turn is undone, and the
    ledger says by `turn.fresh` that memory is to be built anew.
    """

    def __init__(
        self,
        journal: Journal,
        terms: DatabaseTerms,
        space: Space,
        tables: Mapping[str, BoxCounter],
        seed: int | None,
    ) -> None:
        self.terms, self.space = terms, space
        self._journal = journal
        self._first: str = journal.promise["data"]
        self._tables = dict(tables)
        self._noise = Keystream(seed)
        self._spare: list[int] = []
        self._memory = DatabaseState(terms, space)
        self._committer: GroupCommit[Request, Settled] = GroupCommit(journal, self._decide)

    def submit(self, request: Request) -> Settled:
        """The outcome of a request once it is durable; or the reason why it is refused."""
        return self._committer.submit(request)

    def imagine(self, request: Request) -> Settled:
        """What would become of a request: nothing is counted, charged or written. Numbers that
        would be new have the values that they would have if all combinations were equally frequent.
        """
        with self.memory() as memory:
            plan = AnswerPlan(memory, request.analyst, request.manner)
            try:
                self._refuse_without_rows()
                groups = plan.groups(request.asked)
            except ScumbleError as refusal:  # raised when the turn is over: it was no failure
                reason = refusal
            else:
                new = [
                    PastAnswer(
                        kind,
                        box,
                        self._expected(batch, kind, box, request.asked),
                        _times(kind, request),
                        batch,
                    )
                    for batch, kind, box in plan.new
                ]
                return self._settled(groups, new, len(new))
        raise reason

    def append(self, rows: Addition, key: str | None) -> int:
        """Add a batch of rows; its number, once it is durable."""
        with self._journal.turn() as turn:
            self._catch_up(turn)
            entry = rows.enter(turn, key, len(self._memory.batches) + 1)
            if turn.appended:
                self._memory.learn(entry)
            self._tables[entry.payload["data"]] = rows.counter
        return int(entry.payload["batch"])

    @contextmanager
    def memory(self) -> Iterator[DatabaseState]:
        """The memory as it is now; nobody changes it meanwhile."""
        with self._journal.turn() as turn:
            self._catch_up(turn)
            yield self._memory

    def _decide(self, turn: Turn, requests: Sequence[Request]) -> list[Settled | Exception]:
        self._catch_up(turn)
        return [self._outcome(turn, request) for request in requests]

    def _outcome(self, turn: Turn, request: Request) -> Settled | Exception:
        try:
            self._refuse_without_rows()
            stored = None if request.key is None else turn.find(request.key)
            if stored is not None:
                return self._stored(stored, request)
            plan = AnswerPlan(self._memory, request.analyst, request.manner)
            groups = plan.groups(request.asked)
        except ScumbleError as refusal:  # nothing has changed; the others of this turn go on
            return refusal
        new = self._given(plan, request)
        settled = self._settled(groups, new, len(new))
        if plan.changes or request.key is not None:
            payload = {
                "sql": request.asked.query.text,
                "manner": [request.manner.name, str(request.manner.most_error)],
                "status": settled.status,
                "groups": groups,
                "new": [each.to_dict() for each in new],
            }
            entry = turn.append(ANSWER, payload, request.key, request.analyst)
            self._memory.learn(entry, payload)
        return settled

    def _stored(self, entry: Entry, request: Request) -> Settled:
        payload = entry.payload
        asked = (payload.get("sql"), payload.get("manner"), entry.analyst)
        manner = [request.manner.name, str(request.manner.most_error)]
        if asked != (request.asked.query.text, manner, request.analyst):
            allowed = "a new one for another question, analyst or way to relax"
            raise ParameterError.of("answer", "key", allowed, request.key)
        groups = payload["groups"]
        return self._settled(groups, (), len(payload["new"]))

    def _settled(
        self, groups: Sequence[Mapping[str, Any]], new: Sequence[PastAnswer], bought: int
    ) -> Settled:
        """An outcome, with the numbers that it is made of; new ones follow all that were given
        out.
        """
        given = self._memory.given
        pieces = [piece for group in groups for piece in group["pieces"]]
        numbers = {
            number: given[number] if number < len(given) else new[number - len(given)]
            for piece in pieces
            for number, _ in piece["terms"]
        }
        rows = [table.rows for table in self._batches()] if self.terms.sized else None
        return Settled(groups, numbers, bought, rows)

    def _given(self, plan: AnswerPlan, request: Request) -> list[PastAnswer]:
        """The numbers that a plan gives out: true ones with noise."""
        amounts = request.asked.amounts
        values = [0] * len(plan.new)
        tables = self._batches()
        for batch, kind in dict.fromkeys((batch, kind) for batch, kind, _ in plan.new):
            places = [place for place, of in enumerate(plan.new) if of[:2] == (batch, kind)]
            boxes = np.array([plan.new[place][2] for place in places])
            if kind == COUNT or amounts is None:
                found = tables[batch - 1].counts(boxes)
            else:
                found = tables[batch - 1].sums(boxes, amounts.axis, amounts.values)
            noise = self._drawn(_times(kind, request), len(places))
            for place, value, error in zip(places, found, noise, strict=True):
                values[place] = value + error
        return [
            PastAnswer(kind, box, value, _times(kind, request), batch)
            for (batch, kind, box), value in zip(plan.new, values, strict=True)
        ]

    def _drawn(self, times: int, size: int) -> list[int]:
        """Noise that was never used. That of single counts is drawn in advance, many at a time,
        which is several times faster.
        """
        if times > 1 or size > 1:
            noise = discrete_laplace(self._noise, self.terms.noise * times, size)
            return [int(error) for error in noise]
        if not self._spare:
            self._spare = self._drawn(times, _SPARE)
        return [self._spare.pop()]

    def _expected(self, batch: int, kind: str, box: Box, asked: Question) -> int:
        if not self.terms.sized:
            return 0
        sides = [int(high - low) + 1 for low, high in box]
        count = self._batches()[batch - 1].rows * prod(sides) // self.space.points
        if kind == COUNT or asked.amounts is None:
            return count
        low, high = box[asked.amounts.axis]
        return round(count * float(asked.amounts.values[low : high + 1].mean()))

    def _catch_up(self, turn: Turn) -> None:
        """Take in what others wrote; everything, if this process cannot be sure of its memory."""
        if turn.fresh:
            self._memory = DatabaseState(self.terms, self.space)
        for entry in turn.news():
            self._memory.learn(entry)

    def _batches(self) -> list[BoxCounter]:
        """The tables of all batches, in their order."""
        return [self._tables[data] for data in (self._first, *self._memory.added)]

    def _refuse_without_rows(self) -> None:
        """Another program may have added rows that this one does not have."""
        for place, data in enumerate(self._memory.added):
            if data not in self._tables:
                raise missing(place + 2)


def status_of(groups: Sequence[Mapping[str, Any]]) -> str:
    """Of a whole question: the worst that became of any part of it."""
    found = {piece["status"] for group in groups for piece in group["pieces"]}
    return next((s for s in ("relaxed", "answered", "repeated") if s in found), "answered")


def _times(kind: str, request: Request) -> int:
    amounts = request.asked.amounts
    return 1 if kind == COUNT or amounts is None else amounts.largest
