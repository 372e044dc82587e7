"""The live database: SQL questions about a private table, answered from all that is known; where an
accuracy is asked for, what is missing for it is measured and charged.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np

from scumble.families.axes.publish import Dyadic
from scumble.model.errors import (
    ParameterError,
    QueryError,
    ScumbleError,
    SourceError,
    named,
    setting,
)
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.base import check_level
from scumble.model.laws.distributions import RoundedNormal
from scumble.model.notebook import html_list
from scumble.model.privacy.accounting import Neighbours, PrivacyUnit
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.query import Query
from scumble.model.schema.amounts import Amounts
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.private.database.live.inspect import (
    Base,
    Bases,
    as_base,
    history,
    new_state,
    open_base,
    open_journal,
    packed,
    summary,
    usage,
    used_shares,
)
from scumble.private.database.live.lines import ROWS, Asked, Line, asked_of
from scumble.private.database.live.results import (
    LiveAnswer,
    LiveCost,
    LiveStatus,
    LiveUsage,
    read_within,
)
from scumble.private.database.live.splitting import Joint
from scumble.private.database.live.state import Goal, LiveState, Plan, Purchase
from scumble.private.database.live.terms import (
    BASE_SHARE,
    EDITION,
    LARGEST_PURCHASE,
    UNITS,
    LiveTerms,
    bases_of,
)
from scumble.private.database.questions.amounts import Amounts as RowAmounts
from scumble.private.database.recorded import Recorded
from scumble.private.database.results import Event
from scumble.private.database.space import Space
from scumble.private.database.tables import BoxCounter, Progress, load_schema
from scumble.private.journal.entries import ANSWER, Entry, check_word
from scumble.private.journal.group_commit import GroupCommit
from scumble.private.journal.journal import Journal, Turn, refuse_existing
from scumble.private.journal.store import full_journal, resolve
from scumble.private.ledger.ledger import charged_for_database
from scumble.private.publish import publish
from scumble.private.publish_options import PublishOptions, Table
from scumble.private.sampling.noise import rounded_normal
from scumble.private.sampling.source import Keystream
from scumble.private.tables.open import Source, open_source
from scumble.private.tables.rows import Outside, Rows
from scumble.public.asking import Asking
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import EstimateTable
from scumble.public.estimation.estimators import Estimator
from scumble.public.estimation.interval_laws import AverageLaw
from scumble.public.estimation.measurements.appended import AppendedReader
from scumble.public.estimation.measurements.readings import LinearReading, Weights
from scumble.public.estimation.measurements.sums import SumReaders, sums_of
from scumble.public.estimation.selecting.selection import select
from scumble.public.limits import one_question
from scumble.public.release_answers import ReleaseAnswers
from scumble.public.sql.select_plan import SelectPlan
from scumble.public.views import readable_data

if TYPE_CHECKING:
    from scumble.private.ledger.ledger import Ledger

_APART = 10**9  # of a seed: the base has other noise
_FRESH = "this measurement alone"


class Question(NamedTuple):
    """A question that was read, and what it asks of each group."""

    answers: ReleaseAnswers
    question: Query | SelectPlan
    asked: Sequence[Asked]


class LiveRequest(NamedTuple):
    """A question that was read, its accuracy as the journal has it, and who asks it."""

    question: Question
    terms: Mapping[str, Any]
    key: str | None
    analyst: str | None


class Outcome(NamedTuple):
    """What the journal has of an answer, and the readers of what was known then."""

    content: Mapping[str, Any]
    readers: Mapping[str, AppendedReader]


class LiveDatabase(Recorded, Asking):
    """`LiveDatabase.create(folder, source, schema, epsilon=..., delta=..., neighbours=...)`, then
    `ask(sql, within=...)`.

    All answers together are (ε, δ)-DP, also those that other processes get from the same folder. A
    share of the promise measures a base at creation, from which every question has an answer, free
    of charge. A question that wants more accuracy than that pays for what is missing. The table
    stays where it is. The folder, or tables in PostgreSQL, hold the journal and the base; several
    computers may share those in PostgreSQL.
    """

    def __init__(
        self,
        journal: Journal,
        base: Base,
        counter: BoxCounter,
        seed: int | None,
        journal_bytes: int | None = None,
    ) -> None:
        """Call `LiveDatabase.create` or `LiveDatabase.open`."""
        promise = journal.promise
        self.terms = LiveTerms.from_dict(promise["terms"])
        self.schema = base.schema
        self.space = Space(self.schema, promise["attributes"])
        self.remarks: tuple[str, ...] = ()  # for the owner who created it; they are not stored
        self._journal, self._base, self._counter = journal, base, counter
        self._noise = Keystream(None if seed is None else seed + _APART)
        self._state: LiveState | None = None  # nobody knows it while it changes
        self._reading = threading.Lock()  # the sandbox of the base has one reader at a time
        self._most = journal_bytes
        self._committer: GroupCommit[LiveRequest, Outcome] = GroupCommit(journal, self._decide)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        source: Any,
        schema: Schema | str | Path,
        *,
        epsilon: float,
        delta: float,
        neighbours: Neighbours,
        contribution: int = 1,
        attributes: Sequence[str] | None = None,
        sums: Sequence[str] = (),
        base: float = BASE_SHARE,
        largest_purchase: float = LARGEST_PURCHASE,
        quotas: Mapping[str, float] | None = None,
        table: str | None = None,
        outside: Outside = "error",
        seed: int | None = None,
        ledger: Ledger | str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Create a live database over a table, in a new folder or, with the address
        `postgresql://user@host/database/schema.name`, in new tables of PostgreSQL.

        `epsilon` and `delta` are for all answers together; `neighbours` and `contribution` say who
        is protected, as for Histogram; a schema whose unit is the person says how many rows of each
        count. The share `base` of the promise measures the base, by Dyadic: counts by the
        `attributes` (all by default; by up to three at a time, where their combinations are too
        many for one table) and, with half of it, `sums` of number columns. A purchase takes at most
        the share `largest_purchase` of what is left at the most used point of its set. `quotas` are
        shares of what is for purchases, by analyst. `seed` makes the noise repeatable and the
        database NOT PRIVATE: for tests. `ledger` is the owner's ledger, in which the whole promise
        is charged.
        """
        given = load_schema(schema)
        given.check_unit()
        if outside == "drop" and sums:
            raise ParameterError(
                f"With {setting('outside', 'drop')} the amounts would decide which rows are in the "
                f"base. Use {setting('outside', 'missing')}, or leave {named('sums')} out."
            )
        names = _attributes(given, attributes, sums)
        given = given.with_derived(names)
        whole = Dyadic(
            names,
            epsilon=epsilon,
            delta=delta,
            neighbours=neighbours,
            contribution=contribution,
        )
        if given.unit is not None:
            whole = whole.for_unit(given.unit)
        chosen = bases_of(whole, base, sums, given)
        terms = LiveTerms.read(
            whole,
            *chosen,
            largest_purchase=largest_purchase,
            quotas=quotas,
            seeded=seed is not None,
        )
        place = resolve(folder)
        refuse_existing(place)
        opened = open_source(source, table=table)
        with charged_for_database(ledger, terms.claim(), given, place, seeded=terms.seeded):
            options = PublishOptions(outside=outside, seed=seed, progress=progress)
            tables = []
            for number, each in enumerate(chosen):
                apart = (number + 1) * _APART if number else 0
                own = replace(options, seed=None if seed is None else seed + apart)
                tables.append(publish(Table(opened), given, each, options=own))
            release = as_base(tables)
            rows = release.evidence.rows
            counter = _counter(opened, release, names, outside, terms.unit)
            if rows is not None and counter.rows != rows:
                raise SourceError(
                    "The table was changed while it was read. Nothing was made of it."
                )
            files, digests = packed(tables)
            secret = secrets.token_bytes(32)
            promise = {
                "edition": EDITION,
                "terms": terms.to_dict(),
                "attributes": list(names),
                "schema": release.schema.to_dict(),
                "outside": outside,
                "rows": rows,
                "data": counter.fingerprint(secret),
                "base": {"sha256": digests if len(digests) > 1 else digests[0]},
            }
            journal = Journal.create(place, promise, secret=secret, beside=files)
        # The folder exists and can be opened: from here on the charge has to stay.
        made = cls._begun(journal, open_base(journal), counter, seed)
        made.remarks = tables[0].remarks
        return made

    @classmethod
    def open(
        cls,
        folder: str | Path,
        source: Any,
        *,
        table: str | None = None,
        seed: int | None = None,
        journal_bytes: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Open a live database that was created before. Another table is refused.

        An analyst who has written `journal_bytes` into the journal may write no more; without it
        there is no limit.
        """
        journal = open_journal(folder)
        try:
            promise = journal.promise
            base = open_base(journal)
            opened = open_source(source, table=table)
            unit = LiveTerms.from_dict(promise["terms"]).unit
            names, outside = promise["attributes"], promise["outside"]
            counter = _counter(opened, base, names, outside, unit, progress)
            journal.expect({**promise, "data": counter.fingerprint(journal.secret())})
        except BaseException:
            journal.close()
            raise
        return cls._begun(journal, base, counter, seed, journal_bytes)

    @classmethod
    def _begun(
        cls,
        journal: Journal,
        base: Base,
        counter: BoxCounter,
        seed: int | None,
        journal_bytes: int | None = None,
    ) -> Self:
        try:
            if journal.promise["terms"]["seeded"] != (seed is not None):
                raise ParameterError(
                    "A fixed seed is for databases that were created with one, and only for these."
                )
            return cls(journal, base, counter, seed, journal_bytes)
        except BaseException:
            journal.close()
            raise

    def ask(
        self,
        sql: str,
        *,
        within: float | str | None = None,
        level: float = 0.95,
        tables: Mapping[str, Any] | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> LiveAnswer:
        """Answer one question from all that is known.

        Without `within` that is free, and leaves no entry in the journal. `within` is the
        half-width that is wanted at the `level`, as 50 or "0.1%" of the rows. Counts, sums and
        averages, also by groups, whose half-width is larger are measured, and charged, as far as is
        missing; the charge is durable before the answer is returned. The `status` says whether the
        accuracy was reached: "known", "answered", or "limited" where the promise does not allow it.
        `key` is an idempotency key: a request that is tried again with it, also after a crash, gets
        the stored answer. `tables` are public side tables by name: paths or data frames.
        """
        with one_question(), readable_data():
            request = self.prepare(
                sql, within=within, level=level, tables=tables, key=key, analyst=analyst
            )
            [found] = self.ask_all([request])
        if isinstance(found, Exception):
            raise found
        return found

    def prepare(
        self,
        sql: str,
        *,
        within: float | str | None = None,
        level: float = 0.95,
        tables: Mapping[str, Any] | None = None,
        key: str | None = None,
        analyst: str | None = None,
    ) -> LiveRequest:
        """Read a question for `ask_all`, with the parameters of `ask`."""
        level = check_level(level)
        check_word("key", key)
        check_word("analyst", analyst)
        if key is not None and tables:
            raise ParameterError(
                f"A question with a {named('key')} names no side tables, which may change: leave "
                "one of them out."
            )
        within = read_within(within)
        question = self._read(sql, tables, measured=within is not None)
        if isinstance(within, str) and any(each.total is not None for each in question.asked):
            raise ParameterError(
                f"A share of the rows is an accuracy of counts. Give {named('within')} as a number."
            )
        if isinstance(self._base, Bases) and any(each.total for each in question.asked):
            raise QueryError(
                "A database whose domain is too large for one table measures counts alone: leave "
                f"{named('within')} out."
            )
        return LiveRequest(question, {"sql": sql, "within": within, "level": level}, key, analyst)

    def ask_all(self, requests: Sequence[LiveRequest]) -> list[LiveAnswer | Exception]:
        """Answer questions as `ask` does, in one turn; an exception is in the place of its own.

        They are of several analysts: none is refused for another's sake.
        """
        found: list[LiveAnswer | Exception] = []
        for request, outcome in zip(requests, self._committer.submit_all(requests), strict=True):
            if isinstance(outcome, Outcome):
                try:
                    found.append(self._answer(request, outcome))
                except ScumbleError as error:  # it stands in the journal all the same
                    found.append(error)
            else:
                found.append(outcome)
        return found

    def answer(self, sql: str, **keywords: Any) -> Estimate | Estimates | EstimateTable:
        """Return the estimate of `ask` alone."""
        return self.ask(sql, **keywords).estimate

    def preview(
        self,
        sql: str,
        *,
        within: float | str | None = None,
        level: float = 0.95,
        tables: Mapping[str, Any] | None = None,
        analyst: str | None = None,
    ) -> LiveCost:
        """Return what `ask` would do. Nothing is charged, and no private row is read."""
        with one_question(), readable_data():
            request = self.prepare(sql, within=within, level=level, tables=tables, analyst=analyst)
            with self._turn() as (_, state):  # a trial writes where the state would
                return self._forecast(state, request)

    def _forecast(self, state: LiveState, request: LiveRequest) -> LiveCost:
        question, level = request.question, request.terms["level"]
        goal = self._goal(request.terms, state)
        if goal is not None:
            state.check_analyst(request.analyst)
        now = widest(self._estimate(question, state.readers), level)
        if goal is None:
            return LiveCost("known", now, now, 0.0, 0.0, 0.0)
        trial, plans, bought = state.trial(), list[Plan](), list[tuple[int, int, int]]()
        for place, asked in enumerate(question.asked):

            def buy(purchase: Purchase, place: int = place, query: int = asked.query) -> None:
                trial.foresee(purchase, request.analyst)
                bought.append((query, place, purchase.units))

            plans.append(trial.pursue(asked, goal, request.analyst, buy))
        return LiveCost(
            _status(plans),
            half_width=now,
            affordable=widest(self._estimate(question, trial.readers), level),
            charged=_charged(bought),
            needed=max((plan.needed for plan in plans), default=0) / UNITS,
            room=min((plan.room for plan in plans if plan.needed), default=0) / UNITS,
        )

    def status(self, analyst: str | None = None) -> LiveStatus:
        """Return how much of the promise is used.

        With `analyst`, questions and quotas are those of one analyst only.
        """
        with self._turn() as (_, state):
            return summary(state, analyst)

    def usage(self) -> list[LiveUsage]:
        """Return what each analyst asked and bought, with the quotas, by name."""
        with self._turn() as (_, state):
            return usage(state)

    def usage_by_value(self) -> list[tuple[Attribute, list[float]]]:
        """Return, for each attribute, how much of what is for purchases is used at each value.

        It is the mean over the points with that value.
        """
        with self._turn() as (_, state):
            return used_shares(state)

    def history(self) -> list[Event]:
        """Return each question that was charged, or asked with a key, in order."""
        return history(self._journal)

    @property
    def guarantee(self) -> Guarantee:
        found = self.terms.guarantee(self.space.names, self.schema)
        return replace(found, limits=(*found.limits, *self.schema.impossible_limits()))

    @property
    def sums_alone(self) -> tuple[str, ...]:
        """The columns that only sums and averages are of."""
        return self._base.evidence.sums_alone

    @property
    def rows(self) -> int | None:
        """The number of rows, if it is public."""
        return self._base.evidence.rows

    def __repr__(self) -> str:
        return f"Live database of {', '.join(self.space.names)}\n  {self.guarantee}"

    def _repr_html_(self) -> str:
        return html_list(f"Live database of {', '.join(self.space.names)}", [str(self.guarantee)])

    # --- questions --------------------------------------------------------------------------------

    def _read(self, sql: str, tables: Mapping[str, Any] | None, *, measured: bool) -> Question:
        """Read a question; with `measured`, also find what it asks of each group."""
        if not isinstance(cast(object, sql), str):
            raise ParameterError.of("ask", "sql", "the text of a question", sql)
        answers = self._base._answers(tables)
        question = answers.read(sql)
        return Question(answers, question, self._asked(answers, question) if measured else ())

    def _asked(self, answers: ReleaseAnswers, question: Query | SelectPlan) -> list[Asked]:
        """Return what a question asks of each group, those of its finest groups first."""
        estimator = Estimator(self._base.evidence, answers.schema, answers.sandbox)
        if not isinstance(question, SelectPlan):
            return asked_of(question, [question], estimator)
        queries: list[Query] = []

        def collect(some: Sequence[Query]) -> list[dict[Any, Estimate]]:
            queries.extend(some)
            return [dict(estimator.one(query)) for query in some]

        readers = self._current().readers
        with self._reading:
            self._use(answers, readers)
            select(question, answers.schema, answers.sandbox, collect)
        return asked_of(question, queries, estimator)

    def _goal(self, terms: Mapping[str, Any], state: LiveState) -> Goal | None:
        """Return the half-width that is asked for, as a number of rows."""
        within, level = terms["within"], terms["level"]
        if isinstance(within, str):
            rows = self.rows or state.reader.read(Weights(())).value
            return Goal(float(within.removesuffix("%")) / 100 * rows, level)
        return None if within is None else Goal(within, level)

    # --- decisions --------------------------------------------------------------------------------

    @contextmanager
    def _turn(self) -> Iterator[tuple[Turn, LiveState]]:
        """The turn at the journal, and the state as of all entries."""
        with self._journal.turn() as turn, self._caught_up(turn) as state:
            yield turn, state

    @contextmanager
    def _caught_up(self, turn: Turn) -> Iterator[LiveState]:
        """The state as of all entries. It is built anew after a failure if it has learned a
        purchase that was not written; the journal says so of entries.
        """
        state, self._state = self._state, None
        entries: Sequence[Entry] = turn.new_entries()
        if state is None or turn.fresh:
            state = new_state(self._journal, self._base)
            if not turn.fresh:  # the others were checked before
                entries = self._journal.entries(after=1)
        for entry in entries:
            state.learn(entry)
        known = state.purchases
        try:
            yield state
        except BaseException:
            if state.purchases == known:
                self._state = state
            raise
        self._state = state

    def _current(self) -> LiveState:
        with self._turn() as (_, state):
            return state

    def _decide(self, turn: Turn, requests: Sequence[LiveRequest]) -> list[Outcome | Exception]:
        """Decide about requests one after the other, in one turn at the journal."""
        with self._caught_up(turn) as state:
            return [self._decide_one(turn, state, each) for each in requests]

    def _decide_one(
        self, turn: Turn, state: LiveState, request: LiveRequest
    ) -> Outcome | Exception:
        known = state.purchases
        try:
            stored = None if request.key is None else turn.find(request.key)
            if stored is not None:
                content = _same(stored, request)
            else:
                content = self._decided(state, request)
                if content["new"] or request.key is not None:
                    entry = turn.append(ANSWER, content, request.key, request.analyst)
                    state.count(entry, content)
            return Outcome(content, state.readers_at(content))
        except ScumbleError as refusal:
            if state.purchases != known:
                raise  # nothing of this turn is written; the others are decided by themselves
            return refusal

    def _decided(self, state: LiveState, request: LiveRequest) -> dict[str, Any]:
        """Measure what is missing, and return what became of the question, for the journal."""
        plans: list[Plan] = []
        new: list[dict[str, Any]] = []
        if request.key is not None:
            self._refuse_writing(state, request.analyst)
        if (goal := self._goal(request.terms, state)) is not None:
            state.check_analyst(request.analyst)
            for place, asked in enumerate(request.question.asked):

                def buy(purchase: Purchase, place: int = place) -> None:
                    if not new:
                        self._refuse_writing(state, request.analyst)
                    value = self._measure(purchase)
                    state.add(purchase, value, request.analyst)
                    new.append({"count": place, **purchase.to_dict(), "value": value})

                plans.append(state.pursue(asked, goal, request.analyst, buy))
        return {
            "status": _status(plans),
            "needed": max((plan.needed for plan in plans), default=0),
            "new": new,
            **state.evidence,
            **request.terms,
        }

    def _refuse_writing(self, state: LiveState, analyst: str | None) -> None:
        if self._most is not None and state.written.get(analyst, 0) >= self._most:
            raise full_journal(self._most)

    def _measure(self, purchase: Purchase) -> int:
        """Return the sum of a line over a set, with noise."""
        boxes, line = purchase.charged(self.space), purchase.line
        summed = self._base.evidence.sum_columns
        whole = [[0, Amounts.of(self.schema, name).codes - 1] for name in summed]
        ends = np.broadcast_to(
            np.array(whole, np.int64).reshape(-1, 2), (len(boxes), len(summed), 2)
        )
        boxes = np.concatenate([boxes, ends], axis=1)
        if line == ROWS:
            count = sum(self._counter.counts(boxes))
        else:
            count = sum(self._counter.sums(boxes, self._row_amounts(line)))
        variance = purchase.variance(self.terms, self.schema)
        noisy = count + int(rounded_normal(self._noise, variance, 1)[0])
        return cast(int, self.rows) - noisy if purchase.complement else noisy

    def _row_amounts(self, line: Line) -> RowAmounts:
        """Return what a row adds to a line, by its code."""
        if line.axis:
            place = self.space.names.index(line.axis)
            return RowAmounts((place,), (len(line.values),), np.array(line.values, np.int64))
        amounts = Amounts.of(self.schema, line.column)
        codes = np.arange(amounts.codes)
        added = amounts.present(codes) if line.present else amounts.steps(codes)
        place = len(self.space) + list(self._base.evidence.sum_columns).index(line.column)
        return RowAmounts((place,), (amounts.codes,), added)

    # --- answers ----------------------------------------------------------------------------------

    def _answer(self, request: LiveRequest, outcome: Outcome) -> LiveAnswer:
        question, level, content = request.question, request.terms["level"], outcome.content
        with readable_data():
            estimate = self._estimate(question, outcome.readers)
        new: dict[int, list[Mapping[str, Any]]] = {}
        for each in content["new"]:
            new.setdefault(each["count"], []).append(each)
        bought = [
            (question.asked[place].query, place, int(each["units"]))
            for place, some in new.items()
            for each in some
        ]
        fresh = {
            question.asked[place].key: found
            for place, some in new.items()
            if (found := self._fresh(question.asked[place], some)) is not None
        }
        return LiveAnswer(
            estimate,
            content["status"],
            widest(estimate, level),
            _charged(bought),
            fresh,
            content["needed"] / UNITS,
        )

    def _fresh(self, asked: Asked, new: Sequence[Mapping[str, Any]]) -> Estimate | None:
        """Return what new measurements alone say; None if one of two parts was known before."""
        found: dict[Line, tuple[int, Fraction]] = {}
        for each in new:  # the first of several: whether more is bought depends on its noise
            purchase = Purchase.from_dict(each)
            variance = purchase.variance(self.terms, self.schema)
            found.setdefault(purchase.line, (int(each["value"]), variance))
        notes = self._base.manifest.left_out()
        if asked.total is None:
            value, variance = found[asked.count]
            return Estimate(float(value), RoundedNormal(variance), _FRESH, notes)
        if not {asked.total.line, asked.count} <= found.keys():
            return None
        one, other = (_alone(*found[line]) for line in (asked.total.line, asked.count))
        law, known = Joint(one, other, 0.0).law(asked.total)
        if isinstance(law, AverageLaw):
            return law.estimate(_FRESH, notes)
        return Estimate(known, law, _FRESH, notes)

    def _estimate(
        self, question: Question, readers: Mapping[str, AppendedReader]
    ) -> Estimate | Estimates | EstimateTable:
        with self._reading:
            self._use(question.answers, readers)
            return question.answers.answer(question.question, clamp=False)

    def _use(self, answers: ReleaseAnswers, readers: Mapping[str, AppendedReader]) -> None:
        """Let questions be answered from what these readers know."""
        derived = answers.sandbox.derived
        derived["reader"] = rows = readers[""]
        for each in cast(Measurements, self._base.evidence).sums:
            column = each.amounts.column
            counted = rows if each.present is None else readers[Line(column, present=True).reader]
            derived[sums_of(column)] = SumReaders(each, readers[Line(column).reader], counted, rows)


def _alone(value: int, variance: Fraction) -> LinearReading:
    """Return the reading of one noisy number."""
    law = RoundedNormal(variance)
    return LinearReading(float(value), law.variance, law.fourth, 1.0)


def widest(answer: Estimate | Estimates | EstimateTable, level: float) -> float:
    """Return the largest half-width of an answer; 0 if nothing in it is uncertain."""
    if isinstance(answer, Estimate):
        found = [answer]
    elif isinstance(answer, Estimates):
        found = [estimate for _, estimate in answer.rows]
    else:
        found = [estimate for _, row in answer.rows for estimate in row]
    ends = [each.interval(level) for each in found]
    return max((float(high - low) / 2 for low, high in ends if high - low == high - low), default=0)


def _status(plans: Sequence[Plan]) -> str:
    """Return the status of a question: the worst of its counts."""
    found = {plan.status for plan in plans}
    return next((each for each in ("limited", "answered") if each in found), "known")


def _charged(bought: Sequence[tuple[int, int, int]]) -> float:
    """Return the charge of a question at one point, at most, as a share of what is for purchases;
    from queries, places of their groups, and units. The groups of a query are disjoint.
    """
    groups: dict[tuple[int, int], int] = {}
    for query, place, units in bought:
        groups[query, place] = groups.get((query, place), 0) + units
    most: dict[int, int] = {}
    for (query, _), units in groups.items():
        most[query] = max(most.get(query, 0), units)
    return sum(most.values()) / UNITS


def _same(entry: Entry, request: LiveRequest) -> dict[str, Any]:
    """Return the content of the entry that a request which is tried again made."""
    payload, terms = entry.payload, request.terms
    if entry.analyst != request.analyst or any(payload[name] != terms[name] for name in terms):
        allowed = "a new one for another question, accuracy or analyst"
        raise ParameterError.of("ask", "key", allowed, entry.key)
    return payload


def _counter(
    source: Source,
    base: Base,
    names: Sequence[str],
    outside: Outside,
    unit: PrivacyUnit,
    progress: Progress | None = None,
) -> BoxCounter:
    """Read the codes of the attributes, and the amounts, of all rows that the base counts."""
    rows = Rows(source, base.schema, outside=outside, progress=progress)
    if unit.column is not None:
        rows = rows.limited(unit.column, unit.rows)
    return BoxCounter.over(rows, names, base.evidence.sum_columns)


def _attributes(
    schema: Schema, given: Sequence[str] | None, sums: Sequence[str]
) -> tuple[str, ...]:
    """Return the attributes of a database, in the order of the schema."""
    for name, names in (("attributes", given or ()), ("sums", sums)):
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise ParameterError.of("LiveDatabase", name, "a list of names", names)
    if given is None:
        return tuple(each.name for each in schema.published if each.name not in sums)
    schema.check_limits(given)
    known = schema.with_derived(given)
    for name in given:
        _ = known[name].size  # raises SchemaError for what is not there, with advice for lists
    return tuple(name for name in known.names if name in given)
