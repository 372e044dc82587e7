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
from scumble.private.database.plan import AnswerPlan, AskOptions
from scumble.private.database.questions.amounts import Amounts
from scumble.private.database.questions.question import Question
from scumble.private.database.space import Box, Space
from scumble.private.database.state import (
    COUNT,
    DatabaseState,
    PastAnswer,
    Snapshot,
    question_of,
    write_quota,
)
from scumble.private.database.tables import BoxCounter, NewBatch, missing_batch
from scumble.private.database.terms import DatabaseTerms
from scumble.private.journal.entries import ANSWER, REPEAT, Entry, salted_text
from scumble.private.journal.group_commit import GroupCommit
from scumble.private.journal.journal import Journal, Turn
from scumble.private.journal.store import full_journal
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream

_SPARE = 256
_FEW = 100  # numbers that are planned faster than a turn takes
_TRIES = 2  # plans of many numbers before their turn, while others are answered


@dataclass(frozen=True)
class Request:
    """Questions that are answered together, with their options, and an idempotency key.

    `text` is the SQL of all of them, `tables` a digest of the public side tables that it reads.
    `grouped` says that there is a GROUP BY.
    """

    text: str
    questions: Sequence[Question]
    options: AskOptions
    key: str | None = None
    tables: str = ""
    grouped: bool = False

    @property
    def size(self) -> int:
        """How many numbers are asked for."""
        parts = (part for each in self.questions for group in each.groups for part in group.parts)
        return sum(map(len, parts))

    @property
    def manner(self) -> list[str]:
        """The options that the journal has of an answer."""
        return [self.options.name, str(self.options.max_relaxation_error)]

    @property
    def question(self) -> list[str]:
        """What is asked, as `question_of` has it of an entry."""
        return [self.text, self.tables, *self.manner]

    @cached_property
    def amounts(self) -> dict[str, Amounts]:
        """What rows add to sums, by kind; equal kinds have equal amounts."""
        summands = [summand for each in self.questions for summand in each.summands]
        numbers = [(each.kind, each.amounts) for each in summands]
        numbers += [(each.kind, each.amounts) for of in summands for each in of.columns]
        return {kind: amounts for kind, amounts in numbers if amounts is not None}

    def noise_factor(self, kind: str) -> int:
        """Return the scale of the noise of a number, in scales of a count."""
        return 1 if kind == COUNT else self.amounts[kind].largest


@dataclass(frozen=True)
class Submitted:
    """A request, and what was planned and drawn for it before its turn, or why that was refused.

    `last` says that it is planned within the turn if others were answered since.
    """

    request: Request
    plan: AnswerPlan | None = None
    drawn: DrawnAnswers | None = None
    refusal: ScumbleError | None = None
    last: bool = True


@dataclass(frozen=True)
class DrawnAnswers:
    """What a plan comes to: nothing of it is given to anybody before `text` is in the journal.

    `payload` and `text` are those of its entry, empty if the plan needs none.
    """

    groups: Sequence[dict[str, Any]]
    new: Sequence[PastAnswer]
    outcome: Outcome
    payload: Mapping[str, Any]
    text: str


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
    `journal_bytes` is how much one analyst may write into the journal.

    A decision depends on the journal and the question alone. The table is counted afterwards, still
    within the turn: a table of cumulative counts takes microseconds for it, and a million rows take
    a few milliseconds, less than the disk takes for the commit. For many numbers all this is done
    before the turn, which takes it if nobody was answered since. The state changes only by what was
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
        journal_bytes: int | None,
    ) -> None:
        self.terms, self.space = terms, space
        self._most = journal_bytes
        self._journal = journal
        self._first: str = journal.promise["data"]
        self._tables = dict(tables)
        self._noise = Keystream(seed)
        self._spare: list[int] = []
        self._state = DatabaseState(terms, space)
        self._committer: GroupCommit[Submitted, Outcome | None] = GroupCommit(journal, self._decide)

    def submit(self, requests: Sequence[Request]) -> Sequence[Outcome | Exception]:
        """Return the outcomes of requests once they are durable, or why they are refused."""
        found: dict[int, Outcome | Exception] = {}
        for last in (*[False] * _TRIES, True):
            left = [place for place in range(len(requests)) if place not in found]
            if not left:
                break
            ahead = [self._planned_ahead(requests[place]) for place in left]
            submitted = [replace(each, last=last) for each in ahead]
            for place, each in zip(left, self._committer.submit_all(submitted), strict=True):
                if each is not None:
                    found[place] = each
        return [found[place] for place in range(len(requests))]

    def _planned_ahead(self, request: Request) -> Submitted:
        """Plan and draw many numbers before their turn, so that others need not wait for it."""
        if request.size <= _FEW:
            return Submitted(request)
        try:
            plan, groups = self._plan(request, self._now())
            self._refuse_without_rows(plan.snapshot)
            return Submitted(request, plan, self._drawn(plan, request, groups))
        except ScumbleError as refusal:  # unless its key has an answer
            return Submitted(request, refusal=refusal)

    def _drawn(
        self, plan: AnswerPlan, request: Request, groups: Sequence[dict[str, Any]]
    ) -> DrawnAnswers:
        """Count what a plan asks for, and add noise."""
        new = self._new_answers(plan, request)
        outcome = self._outcome_of(plan.snapshot, groups, new, len(new))
        payload: dict[str, Any] = {}
        if plan.changes:
            payload = self._payload(request, groups, new)
        return DrawnAnswers(groups, new, outcome, payload, salted_text(payload) if payload else "")

    def _payload(
        self,
        request: Request,
        groups: Sequence[Mapping[str, Any]],
        new: Sequence[PastAnswer],
    ) -> dict[str, Any]:
        """Return what the journal has of an answer."""
        return {
            "status": status_of(groups),
            "sql": request.text,
            **({"tables": request.tables} if request.tables else {}),
            "manner": request.manner,
            "groups": groups,
            "new": [each.to_dict() for each in new],
        }

    def _plan(self, request: Request, now: Snapshot) -> tuple[AnswerPlan, list[dict[str, Any]]]:
        """Return a plan of a request, and the pieces of its groups; raises why it is refused.

        A plan sees room that others took since its snapshot, and not the answers that they got for
        it, which may be those that are asked for: it is made once more then.
        """
        plan = AnswerPlan(now, request.options, request.grouped)
        try:
            return plan, plan.groups(request.questions)
        except ScumbleError:
            now = self._now()
            if plan.snapshot.is_current(now.state):
                raise
        plan = AnswerPlan(now, request.options, request.grouped)
        return plan, plan.groups(request.questions)

    def rows(self) -> int | None:
        """Return the number of rows of all batches that this program was given, if it is public."""
        if not self.terms.sized:
            return None
        return sum(table.rows for table in self._tables.values())

    def preview(
        self, requests: Sequence[Request], *, after: bool = False
    ) -> tuple[int, list[Outcome | Exception]]:
        """Return how many answers cover the most popular point, and the outcomes that requests
        would have. Nothing is counted, charged or written.

        Numbers that would be new have the values for rows that are spread evenly over all points.
        `used` of an outcome is only found with `after`: the answers are added to copies of the
        trackers.
        """
        now = self._now()
        return now.state.used(), [self._preview_one(now, each, after) for each in requests]

    def _preview_one(self, now: Snapshot, request: Request, after: bool) -> Outcome | Exception:
        try:
            self._refuse_without_rows(now)
            plan, groups = self._plan(request, now)
            if plan.changes:
                self._refuse_writing(request.options.analyst)
        except ScumbleError as refusal:  # of one request; the turn has not failed
            return refusal
        now = plan.snapshot
        rows = [table.rows for table in self._batches(now)]
        new = [
            PastAnswer(
                kind,
                box,
                self._expected(rows[batch - 1], kind, box, request),
                request.noise_factor(kind),
                batch,
            )
            for batch, kind, box in plan.new
        ]
        used = self._used_after(now, plan) if after else 0
        return replace(self._outcome_of(now, groups, new, len(new)), used=used)

    def _used_after(self, now: Snapshot, plan: AnswerPlan) -> int:
        """Return how many answers would cover the most popular point after a plan; as many as now
        if others took the room since it was made.
        """
        batches = now.batches
        trackers = {n: deepcopy(batches[n - 1].batch.tracker) for n, _, _ in plan.new}
        try:
            for number, _, box in plan.new:
                trackers[number].add(box[np.newaxis])
        except PromiseError:
            return now.state.used()
        return max(now.state.used(), *(each.largest() for each in trackers.values()), 0)

    def _now(self) -> Snapshot:
        """Return the present state, as it is on disk; the turn at the journal is over then."""
        with self.state() as state:
            return state.snapshot()

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

    def _decide(
        self, turn: Turn, submitted: Sequence[Submitted]
    ) -> list[Outcome | Exception | None]:
        self._catch_up(turn)
        return [self._decide_one(turn, each) for each in submitted]

    def _decide_one(self, turn: Turn, submitted: Submitted) -> Outcome | Exception | None:
        """Return the outcome of a request, or None if it is to be planned again before its turn."""
        request, now = submitted.request, self._state.snapshot()
        try:
            self._refuse_without_rows(now)
            stored = None if request.key is None else turn.find(request.key)
            if stored is not None:
                return self._stored(now, turn, stored, request)
            if submitted.refusal is not None:
                return submitted.refusal
            plan, drawn = submitted.plan, submitted.drawn
            if plan is None or not plan.snapshot.is_current(self._state):
                if plan is not None and not submitted.last:
                    return None
                plan, drawn = AnswerPlan(now, request.options, request.grouped), None
                groups = plan.groups(request.questions)
            writes = plan.changes or request.key is not None
            if writes:
                self._refuse_writing(request.options.analyst)
        except ScumbleError as refusal:  # nothing has changed; other requests of this turn go on
            return refusal
        if drawn is None:
            drawn = self._drawn(plan, request, groups)
        return self._written(turn, request, drawn) if writes else drawn.outcome

    def _written(self, turn: Turn, request: Request, drawn: DrawnAnswers) -> Outcome:
        """Write an answer and learn it; return its outcome."""
        kind, payload = ANSWER, drawn.payload
        if not payload:  # nothing is new
            first = self._same_answer(turn, request, drawn.groups)
            if first is None:
                payload = self._payload(request, drawn.groups, ())
            else:
                kind, payload = REPEAT, {"status": drawn.outcome.status, "entry": first}
        entry = turn.append(kind, drawn.text or payload, request.key, request.options.analyst)
        self._state.learn(entry, payload, drawn.new)
        return replace(drawn.outcome, used=self._state.used())

    def _refuse_writing(self, analyst: str | None) -> None:
        """Raise `PromiseError` if an analyst has filled the journal as far as one may."""
        if self._most is not None and self._state.written.get(analyst, 0) >= self._most:
            raise full_journal(self._most)

    def _same_answer(
        self, turn: Turn, request: Request, groups: Sequence[Mapping[str, Any]]
    ) -> int | None:
        """Return the number of the entry that has all of a repeated answer, if there is one."""
        number = self._state.answer_to(request.options.analyst, request.question)
        if number is None or _repeated(turn.entry(number).payload["groups"]) != groups:
            return None
        return number

    def _stored(self, now: Snapshot, turn: Turn, entry: Entry, request: Request) -> Outcome:
        """Return the outcome of an earlier request, which the entry has or refers to."""
        first = turn.entry(entry.payload["entry"]) if entry.kind == REPEAT else entry
        payload = first.payload
        same = first.kind == ANSWER and question_of(payload) == request.question
        if not same or entry.analyst != request.options.analyst:
            allowed = "a new one for another question, analyst, side table or way to relax"
            raise ParameterError.of("ask", "key", allowed, request.key)
        groups, new = payload["groups"], payload["new"]
        if first is not entry:
            groups, new = _repeated(groups), []
        if not _fits(groups, request.questions):
            raise LedgerError(
                f"The answer with the key {request.key!r} was made by another version of scumble. "
                "Ask the question without the key: what was answered before is free of charge."
            )
        return self._outcome_of(now, groups, (), len(new))

    def _outcome_of(
        self,
        now: Snapshot,
        groups: Sequence[Mapping[str, Any]],
        new: Sequence[PastAnswer],
        bought: int,
    ) -> Outcome:
        """Return an outcome with the answers that it is made of. New ones are numbered after all
        past answers.
        """
        past = now.state.past_answers
        pieces = [piece for group in groups for piece in group["pieces"]]
        numbers = {
            number: past[number] if number < now.past else new[number - now.past]
            for piece in pieces
            for number, _ in piece["terms"]
        }
        rows = [table.rows for table in self._batches(now)] if self.terms.sized else None
        return Outcome(groups, numbers, bought, rows, now.state.used())

    def _new_answers(self, plan: AnswerPlan, request: Request) -> list[PastAnswer]:
        """Return the new answers of a plan: true counts and sums, with noise."""
        values = [0] * len(plan.new)
        tables = self._batches(plan.snapshot)
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
        try:
            return [self._spare.pop()]
        except IndexError:
            *spare, first = self._draw_noise(times, _SPARE)
            self._spare = spare  # another thread may have drawn some meanwhile: these are lost
            return [first]

    def _expected(self, rows: int, kind: str, box: Box, request: Request) -> int:
        if not self.terms.sized:
            return 0
        sides: list[int] = [high - low + 1 for low, high in box.tolist()]
        count = rows * prod(sides) // self.space.points
        return count if kind == COUNT else round(count * request.amounts[kind].mean(box))

    def _catch_up(self, turn: Turn) -> None:
        """Apply the entries that others wrote; all entries, if the turn is fresh."""
        if turn.fresh:
            self._state = DatabaseState(self.terms, self.space)
        for entry in turn.new_entries():
            self._state.learn(entry)

    def _batches(self, now: Snapshot) -> list[BoxCounter]:
        """The tables of all batches, in order."""
        added = now.state.added[: len(now.batches) - 1]
        return [self._tables[data] for data in (self._first, *added)]

    def _refuse_without_rows(self, now: Snapshot) -> None:
        """Raise `LedgerError` if another program appended rows that this one was not given."""
        for place, data in enumerate(now.state.added[: len(now.batches) - 1]):
            if data not in self._tables:
                raise missing_batch(place + 2)


def status_of(groups: Sequence[Mapping[str, Any]]) -> str:
    """The status of a whole question: the worst of its pieces."""
    found = {piece["status"] for group in groups for piece in group["pieces"]}
    return next((s for s in ("relaxed", "answered", "repeated") if s in found), "answered")


def _repeated(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the pieces of an answer as they are when it is repeated: nothing in it is new."""

    def again(piece: Mapping[str, Any]) -> Mapping[str, Any]:
        charged = piece["status"] == "answered" and piece["terms"]
        return {**piece, "status": "repeated"} if charged else piece

    return [{**group, "pieces": [again(piece) for piece in group["pieces"]]} for group in groups]


def _fits(groups: Sequence[Mapping[str, Any]], questions: Sequence[Question]) -> bool:
    """Whether stored pieces are those of these questions, for one batch or several."""
    wanted = [
        [(summand.kind, box.tolist()) for summand, box in question.numbers(group)]
        for question in questions
        for group in question.groups
    ]
    stored = [
        [(piece["kind"], piece["asked"]) for piece in group["pieces"]][: len(pieces)]
        for group, pieces in zip(groups, wanted, strict=False)
    ]
    return len(groups) == len(wanted) and stored == wanted
