"""Decides about questions one after the other; counts, adds noise and writes only afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from scumble.model.errors import LedgerError, ParameterError, PromiseError, ScumbleError
from scumble.private.database.plan import AnswerOptions, AnswerPlan
from scumble.private.database.questions.amounts import Amounts
from scumble.private.database.questions.question import Question
from scumble.private.database.space import Box, Space
from scumble.private.database.state import COUNT, DatabaseState, PastAnswer, write_quota
from scumble.private.database.tables import BoxCounter, NewBatch, missing_batch
from scumble.private.database.terms import DatabaseTerms
from scumble.private.journal.entries import ANSWER, Entry
from scumble.private.journal.group_commit import GroupCommit
from scumble.private.journal.journal import Journal, Turn
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream

_SPARE = 256


@dataclass(frozen=True)
class Request:
    """Questions that are answered together, the options of their analyst, and an idempotency key.

    `text` is the SQL of all of them, `tables` a digest of the public side tables that it reads.
    """

    text: str
    questions: Sequence[Question]
    options: AnswerOptions
    key: str | None = None
    analyst: str | None = None
    tables: str = ""

    @cached_property
    def amounts(self) -> dict[str, Amounts]:
        """What rows add to sums, by kind; equal kinds have equal amounts."""
        return {kind: found for each in self.questions for kind, found in each.amounts.items()}

    def noise_factor(self, kind: str) -> int:
        """Return the scale of the noise of a number, in scales of a count."""
        return 1 if kind == COUNT else self.amounts[kind].largest


@dataclass(frozen=True)
class Outcome:
    """The decision about a request.

    `groups` has the pieces of each group as the journal stores them, `numbers` the answers that
    they are made of, by number. `new` is how many of these were charged. `rows` is the number of
    rows of each batch, or None where it is not public. `used` is how many answers cover the most
    popular point afterwards.
    """

    groups: Sequence[Mapping[str, Any]]
    numbers: Mapping[int, PastAnswer]
    new: int
    rows: Sequence[int] | None
    used: int = 0

    @property
    def status(self) -> str:
        return status_of(self.groups)


class Session:
    """The state that follows from the journal, the private tables and the noise.

    `tables` has the rows of every batch, by the fingerprint that the journal has of them.

    A decision depends on the journal and the question alone. The table is counted afterwards, still
    within the turn: a table of cumulative counts takes microseconds for it, and a million rows take
    a few milliseconds, less than the disk takes for the commit. The state changes only by what was
    appended to the journal. If anything fails after that, the turn is rolled back, and the next
    turn is `fresh`: the state is then built anew.
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
        self._state = DatabaseState(terms, space)
        self._committer: GroupCommit[Request, Outcome] = GroupCommit(journal, self._decide)

    def submit(self, requests: Sequence[Request]) -> Sequence[Outcome | Exception]:
        """Return the outcomes of requests once they are durable, or why they are refused."""
        return self._committer.submit_all(requests)

    def preview(self, requests: Sequence[Request]) -> list[Outcome | Exception]:
        """Return the outcomes that requests would have. Nothing is counted, charged or written.

        Numbers that would be new have the values for rows that are spread evenly over all points.
        """
        with self.state() as state:
            return [self._preview_one(state, request) for request in requests]

    def _preview_one(self, state: DatabaseState, request: Request) -> Outcome | Exception:
        plan = AnswerPlan(state, request.analyst, request.options)
        try:
            self._refuse_without_rows()
            groups = plan.groups(request.questions)
        except ScumbleError as refusal:  # of one request; the turn has not failed
            return refusal
        new = [
            PastAnswer(
                kind,
                box,
                self._expected(batch, kind, box, request),
                request.noise_factor(kind),
                batch,
            )
            for batch, kind, box in plan.new
        ]
        return self._outcome_of(groups, new, len(new))

    def used_after(self, request: Request) -> int:
        """Return how many answers would cover the most popular point after a request.

        Nothing is charged: its answers are added to copies of the trackers. A request that would be
        refused adds none.
        """
        with self.state() as state:
            plan = AnswerPlan(state, request.analyst, request.options)
            try:
                plan.groups(request.questions)
            except PromiseError:
                return state.used()
            trackers = {n: deepcopy(state.batches[n - 1].tracker) for n, _, _ in plan.new}
            for number, _, box in plan.new:
                trackers[number].add(box[np.newaxis])
            return max(state.used(), *(each.largest() for each in trackers.values()), 0)

    def append(self, rows: NewBatch, key: str | None) -> int:
        """Append a batch of rows, and return its number once it is durable."""
        with self._journal.turn() as turn:
            self._catch_up(turn)
            entry = rows.write_entry(turn, key, len(self._state.batches) + 1)
            if turn.appended:
                self._state.learn(entry)
            self._tables[entry.payload["data"]] = rows.counter
        return int(entry.payload["batch"])

    def set_quota(self, analyst: str, epsilon: float | None) -> None:
        """Give an analyst a part of ε, or end the quota; durable when it returns."""
        with self._journal.turn() as turn:
            self._catch_up(turn)
            write_quota(turn, self._state, analyst, epsilon)

    def first_quota(self, analyst: str, share: float) -> None:
        """Give a share of ε to an analyst for whom no quota was ever given or ended.

        It is at least what the analyst has used already, and enough for one answer. Nothing is
        given where all quotas were named when the database was created.
        """
        with self._journal.turn() as turn:
            self._catch_up(turn)
            state, terms = self._state, self.terms
            if analyst in state.quotas or terms.quotas:
                return
            limit = max(terms.limit_of(terms.epsilon * Fraction(share)), state.used_by(analyst), 1)
            write_quota(turn, state, analyst, min(2 * limit / terms.noise, terms.epsilon))

    @contextmanager
    def state(self) -> Iterator[DatabaseState]:
        """The present state. Nobody changes it within the context."""
        with self._journal.turn() as turn:
            self._catch_up(turn)
            yield self._state

    def _decide(self, turn: Turn, requests: Sequence[Request]) -> list[Outcome | Exception]:
        self._catch_up(turn)
        return [self._decide_one(turn, request) for request in requests]

    def _decide_one(self, turn: Turn, request: Request) -> Outcome | Exception:
        try:
            self._refuse_without_rows()
            stored = None if request.key is None else turn.find(request.key)
            if stored is not None:
                return self._stored(stored, request)
            plan = AnswerPlan(self._state, request.analyst, request.options)
            groups = plan.groups(request.questions)
        except ScumbleError as refusal:  # nothing has changed; other requests of this turn go on
            return refusal
        new = self._new_answers(plan, request)
        outcome = self._outcome_of(groups, new, len(new))
        if plan.changes or request.key is not None:
            payload = {
                "sql": request.text,
                **({"tables": request.tables} if request.tables else {}),
                "manner": [request.options.name, str(request.options.most_error)],
                "status": outcome.status,
                "groups": groups,
                "new": [each.to_dict() for each in new],
            }
            entry = turn.append(ANSWER, payload, request.key, request.analyst)
            self._state.learn(entry, payload)
        return replace(outcome, used=self._state.used())

    def _stored(self, entry: Entry, request: Request) -> Outcome:
        payload = entry.payload
        question = (payload.get("sql"), payload.get("manner"), entry.analyst)
        options = [request.options.name, str(request.options.most_error)]
        same = question == (request.text, options, request.analyst)
        if not same or payload.get("tables", "") != request.tables:
            allowed = "a new one for another question, analyst, side table or way to relax"
            raise ParameterError.of("answer", "key", allowed, request.key)
        groups = payload["groups"]
        if not _fits(groups, request.questions):
            raise LedgerError(
                f"The answer with the key {request.key!r} was made by another version of scumble. "
                "Ask the question without the key: what was answered before is free of charge."
            )
        return self._outcome_of(groups, (), len(payload["new"]))

    def _outcome_of(
        self, groups: Sequence[Mapping[str, Any]], new: Sequence[PastAnswer], bought: int
    ) -> Outcome:
        """Return an outcome with the answers that it is made of. New ones are numbered after all
        past answers.
        """
        past = self._state.past_answers
        pieces = [piece for group in groups for piece in group["pieces"]]
        numbers = {
            number: past[number] if number < len(past) else new[number - len(past)]
            for piece in pieces
            for number, _ in piece["terms"]
        }
        rows = [table.rows for table in self._batches()] if self.terms.sized else None
        return Outcome(groups, numbers, bought, rows, self._state.used())

    def _new_answers(self, plan: AnswerPlan, request: Request) -> list[PastAnswer]:
        """Return the new answers of a plan: true counts and sums, with noise."""
        values = [0] * len(plan.new)
        tables = self._batches()
        for batch, kind in dict.fromkeys((batch, kind) for batch, kind, _ in plan.new):
            places = [place for place, of in enumerate(plan.new) if of[:2] == (batch, kind)]
            boxes = np.array([plan.new[place][2] for place in places])
            if kind == COUNT:
                found = tables[batch - 1].counts(boxes)
            else:
                found = tables[batch - 1].sums(boxes, request.amounts[kind])
            noise = self._draw_noise(request.noise_factor(kind), len(places))
            for place, value, error in zip(places, found, noise, strict=True):
                values[place] = value + error
        return [
            PastAnswer(kind, box, value, request.noise_factor(kind), batch)
            for (batch, kind, box), value in zip(plan.new, values, strict=True)
        ]

    def _draw_noise(self, times: int, size: int) -> list[int]:
        """Return `size` fresh noises with `times` the scale of a count's.

        Noise of single counts is drawn in advance, many at a time, which is several times faster.
        """
        if times > 1 or size > 1:
            noise = discrete_laplace(self._noise, self.terms.noise * times, size)
            return [int(error) for error in noise]
        if not self._spare:
            self._spare = self._draw_noise(times, _SPARE)
        return [self._spare.pop()]

    def _expected(self, batch: int, kind: str, box: Box, request: Request) -> int:
        if not self.terms.sized:
            return 0
        sides = [int(high - low) + 1 for low, high in box]
        count = self._batches()[batch - 1].rows * prod(sides) // self.space.points
        return count if kind == COUNT else round(count * request.amounts[kind].mean(box))

    def _catch_up(self, turn: Turn) -> None:
        """Apply the entries that others wrote; all entries, if the turn is fresh."""
        if turn.fresh:
            self._state = DatabaseState(self.terms, self.space)
        for entry in turn.new_entries():
            self._state.learn(entry)

    def _batches(self) -> list[BoxCounter]:
        """The tables of all batches, in order."""
        return [self._tables[data] for data in (self._first, *self._state.added)]

    def _refuse_without_rows(self) -> None:
        """Raise `LedgerError` if another program appended rows that this one was not given."""
        for place, data in enumerate(self._state.added):
            if data not in self._tables:
                raise missing_batch(place + 2)


def status_of(groups: Sequence[Mapping[str, Any]]) -> str:
    """The status of a whole question: the worst of its pieces."""
    found = {piece["status"] for group in groups for piece in group["pieces"]}
    return next((s for s in ("relaxed", "answered", "repeated") if s in found), "answered")


def _fits(groups: Sequence[Mapping[str, Any]], questions: Sequence[Question]) -> bool:
    """Whether stored pieces are those of these questions, for one batch or several."""
    wanted = [
        [(kind, box.tolist()) for kind in question.kinds for box in group.boxes]
        for question in questions
        for group in question.groups
    ]
    stored = [
        [(piece["kind"], piece["asked"]) for piece in group["pieces"]][: len(pieces)]
        for group, pieces in zip(groups, wanted, strict=False)
    ]
    return len(groups) == len(wanted) and stored == wanted
