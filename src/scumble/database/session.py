"""A session at a ledger: decides about one question after the other, and only then counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from scumble.database.asking import Asked
from scumble.database.committer import Committer
from scumble.database.counting import Counter
from scumble.database.entry import Entry
from scumble.database.journal import Journal
from scumble.database.manner import Manner
from scumble.database.memory import COUNT, Given, Memory
from scumble.database.plan import Plan
from scumble.database.reading import ANSWER
from scumble.database.space import Box, Space
from scumble.database.terms import Terms
from scumble.database.turn import Turn
from scumble.errors import ParameterError, ScumbleError
from scumble.noise.laplace import discrete_laplace
from scumble.noise.source import Source

_SPARE = 256


@dataclass(frozen=True)
class Request:
    """A question that waits for its decision."""

    asked: Asked
    manner: Manner
    key: str | None = None
    analyst: str | None = None


@dataclass(frozen=True)
class Settled:
    """What was decided, as the ledger has it, and the numbers that it is made of."""

    groups: Sequence[Mapping[str, Any]]
    numbers: Mapping[int, Given]
    new: int

    @property
    def status(self) -> str:
        return status_of(self.groups)


class Session:
    """The memory of a ledger, the private table and the noise, behind one writer's turns.

    What is decided depends on the ledger and the question alone. The table is counted afterwards,
    still within the turn: a table of cumulative counts takes microseconds for it, and a million
    rows take a few milliseconds, less than the disk takes for the commit. Memory changes only by
    what was appended to the ledger. If anything fails after that, the turn is undone, and the
    ledger says by `turn.fresh` that memory is to be built anew.
    """

    def __init__(
        self, journal: Journal, terms: Terms, space: Space, counter: Counter, seed: int | None
    ) -> None:
        self.terms, self.space = terms, space
        self._journal = journal
        self._counter = counter
        self._noise = Source(seed)
        self._spare: list[int] = []
        self._memory = Memory(terms, space)
        self._committer: Committer[Request, Settled] = Committer(journal, self._decide)

    def submit(self, request: Request) -> Settled:
        """The outcome of a request once it is durable; or the reason why it is refused."""
        return self._committer.submit(request)

    def imagine(self, request: Request) -> Settled:
        """What would become of a request: nothing is counted, charged or written. Numbers that
        would be new have the values that they would have if all combinations were equally frequent.
        """
        with self.memory() as memory:
            plan = Plan(memory, request.analyst, request.manner)
            try:
                groups = plan.groups(request.asked)
            except ScumbleError as refusal:  # raised when the turn is over: it was no failure
                reason = refusal
            else:
                new = [
                    Given(
                        kind, box, self._expected(kind, box, request.asked), _times(kind, request)
                    )
                    for kind, box in plan.new
                ]
                return Settled(groups, self._numbers(groups, new), len(new))
        raise reason

    @contextmanager
    def memory(self) -> Iterator[Memory]:
        """The memory as it is now; nobody changes it meanwhile."""
        with self._journal.turn() as turn:
            self._catch_up(turn)
            yield self._memory

    def _decide(self, turn: Turn, requests: Sequence[Request]) -> list[Settled | Exception]:
        self._catch_up(turn)
        return [self._outcome(turn, request) for request in requests]

    def _outcome(self, turn: Turn, request: Request) -> Settled | Exception:
        try:
            stored = None if request.key is None else turn.find(request.key)
            if stored is not None:
                return self._stored(stored, request)
            plan = Plan(self._memory, request.analyst, request.manner)
            groups = plan.groups(request.asked)
        except ScumbleError as refusal:  # nothing has changed; the others of this turn go on
            return refusal
        new = self._given(plan, request)
        settled = Settled(groups, self._numbers(groups, new), len(new))
        if plan.changes or request.key is not None:
            payload = {
                "sql": request.asked.query.text,
                "manner": [request.manner.name, str(request.manner.most_error)],
                "status": settled.status,
                "groups": groups,
                "new": [each.to_dict() for each in new],
            }
            self._memory.learn(turn.append(ANSWER, payload, request.key, request.analyst))
        return settled

    def _stored(self, entry: Entry, request: Request) -> Settled:
        payload = entry.payload
        asked = (payload["sql"], payload["manner"], entry.analyst)
        manner = [request.manner.name, str(request.manner.most_error)]
        if asked != (request.asked.query.text, manner, request.analyst):
            allowed = "a new one for another question, analyst or way to relax"
            raise ParameterError.of("answer", "key", allowed, request.key)
        groups = payload["groups"]
        return Settled(groups, self._numbers(groups, ()), len(payload["new"]))

    def _numbers(
        self, groups: Sequence[Mapping[str, Any]], new: Sequence[Given]
    ) -> dict[int, Given]:
        """The numbers that an outcome is made of; new ones follow all that were given out."""
        given = self._memory.given
        pieces = [piece for group in groups for piece in group["pieces"]]
        return {
            number: given[number] if number < len(given) else new[number - len(given)]
            for piece in pieces
            for number, _ in piece["terms"]
        }

    def _given(self, plan: Plan, request: Request) -> list[Given]:
        """The numbers that a plan gives out: true ones with noise."""
        amounts = request.asked.amounts
        values = [0] * len(plan.new)
        for kind in {kind for kind, _ in plan.new}:
            places = [place for place, (of, _) in enumerate(plan.new) if of == kind]
            boxes = np.array([plan.new[place][1] for place in places])
            if kind == COUNT or amounts is None:
                found = self._counter.counts(boxes)
            else:
                found = self._counter.sums(boxes, amounts.axis, amounts.values)
            noise = self._drawn(_times(kind, request), len(places))
            for place, value, error in zip(places, found, noise, strict=True):
                values[place] = value + error
        return [
            Given(kind, box, value, _times(kind, request))
            for (kind, box), value in zip(plan.new, values, strict=True)
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

    def _expected(self, kind: str, box: Box, asked: Asked) -> int:
        if not self.terms.sized:
            return 0
        sides = [int(high - low) + 1 for low, high in box]
        count = self._counter.rows * prod(sides) // self.space.points
        if kind == COUNT or asked.amounts is None:
            return count
        low, high = box[asked.amounts.axis]
        return round(count * float(asked.amounts.values[low : high + 1].mean()))

    def _catch_up(self, turn: Turn) -> None:
        """Take in what others wrote; everything, if this process cannot be sure of its memory."""
        if turn.fresh:
            self._memory = Memory(self.terms, self.space)
        for entry in turn.news():
            if entry.kind == ANSWER:
                self._memory.learn(entry)


def status_of(groups: Sequence[Mapping[str, Any]]) -> str:
    """Of a whole question: the worst that became of any part of it."""
    found = {piece["status"] for group in groups for piece in group["pieces"]}
    return next((s for s in ("relaxed", "answered", "repeated") if s in found), "answered")


def _times(kind: str, request: Request) -> int:
    amounts = request.asked.amounts
    return 1 if kind == COUNT or amounts is None else amounts.largest
