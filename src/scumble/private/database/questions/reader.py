"""QuestionReader: SQL text to what is asked of a database, from any thread."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from scumble.model.cache import Cache
from scumble.model.errors import LedgerError, QueryError
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.private.database.answers import DatabaseEstimate, EstimateBuilder
from scumble.private.database.plan import Piece
from scumble.private.database.questions.amounts import Evaluated
from scumble.private.database.questions.compiler import FEW_BOXES, Compiler
from scumble.private.database.questions.question import MOST_BOXES, Question
from scumble.private.database.results import Cost, CostPart
from scumble.private.database.session import Outcome
from scumble.private.database.space import Space
from scumble.public.estimate import NOT_ANSWERED, Estimate, Estimates, Exact
from scumble.public.estimate_table import EstimateTable
from scumble.public.estimation.selecting.groups import (
    Answerer,
    Answers,
    Ask,
    CountsBy,
    Groups,
    KeyValues,
    Needed,
    WeightedCount,
)
from scumble.public.estimation.selecting.selection import EstimateRows, Selection, check_plan
from scumble.public.limits import one_question
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import read_select_with
from scumble.public.sql.select_plan import UNARRANGED, SelectPlan
from scumble.public.sql.templates import TemplateParser

if TYPE_CHECKING:
    from scumble.public.estimate_table import EstimateTable
    from scumble.public.sandbox import Sandbox
    from scumble.public.sql.select_plan import SelectPlan
    from scumble.public.sql.templates import TemplateParser


_MOST_KEPT = 1 << 26  # bytes of questions that were read, and as many of amounts
_LONGEST_QUICK = 400  # characters of a question that is read in a few milliseconds


class ParsedQuestions(Protocol):
    """What a SQL text asks: the questions that are answered together or not at all."""

    @property
    def text(self) -> str: ...

    @property
    def questions(self) -> Sequence[Question]: ...

    @property
    def tables(self) -> str: ...

    @property
    def grouped(self) -> bool: ...

    def present(
        self, builder: EstimateBuilder, outcome: Outcome
    ) -> Estimate | Estimates | EstimateTable:
        """Return the answer, given the outcome of the questions."""
        ...

    def parts(
        self, builder: EstimateBuilder, outcome: Outcome
    ) -> Mapping[str, Sequence[DatabaseEstimate]]:
        """Return the estimates of all groups, by the name of the selected number."""
        ...


@dataclass(frozen=True)
class PlainQuestion:
    """One COUNT, SUM or AVG by attributes. `tables` is a digest of the side tables it reads."""

    question: Question
    tables: str = ""

    @property
    def text(self) -> str:
        return self.question.query.text

    @property
    def questions(self) -> tuple[Question]:
        return (self.question,)

    @property
    def grouped(self) -> bool:
        return bool(self.question.query.groups)

    @property
    def small(self) -> bool:
        """Whether it asks for one number about few boxes."""
        groups = self.question.groups
        return not self.question.query.groups and len(groups[0].boxes) <= FEW_BOXES

    def present(self, builder: EstimateBuilder, outcome: Outcome) -> Estimate | Estimates:
        return builder.read(self.question, outcome.groups, outcome.numbers)

    def parts(
        self, builder: EstimateBuilder, outcome: Outcome
    ) -> dict[str, list[DatabaseEstimate]]:
        groups = zip(self.question.groups, outcome.groups, strict=True)
        return {
            "": [
                builder.estimate(self.question, group, found["pieces"], outcome.numbers)
                for group, found in groups
            ]
        }


class QuestionReader:
    """Reads SQL as boxes and amounts, from any thread; results are cached.

    The engine is opened for the first question that needs it. Plain comparisons do not.
    """

    def __init__(self, schema: Schema, space: Space, *, sized: bool = True) -> None:
        self.schema, self.space, self.sized = schema, space, sized
        self._lock = threading.Lock()
        self._engine: Sandbox | None = None
        self._closed = False
        self._parser: TemplateParser | None = None
        self._compiler = Compiler(schema, space, self._opened, Cache[str, Evaluated](_MOST_KEPT))
        self._read_before = Cache[str, ParsedQuestions](_MOST_KEPT)

    @contextmanager
    def reading(self, sql: str, tables: Mapping[str, Any] | None) -> Iterator[ParsedQuestions]:
        """What a text asks, with public side tables; raises `QueryError` if it cannot be asked."""
        if self._closed:
            raise _closed()
        if not tables:
            found = self._read_before.get(sql)
            if found is None:
                self._keep(sql, found := self._read(sql))
            yield found
            return
        engine = Sandbox(self.schema, tables)
        try:
            yield self._read_with(sql, engine)
        finally:
            engine.close()

    def quick(self, sql: str) -> ParsedQuestions | None:
        """Return what a text asks if neither reading nor answering it can take long, else None.

        It is one number about few boxes: one that was read before, or a plain count.
        """
        if self._closed:
            raise _closed()
        found = self._read_before.get(sql)
        if found is not None:
            return found if isinstance(found, PlainQuestion) and found.small else None
        if len(sql) > _LONGEST_QUICK:
            return None
        try:
            parsed = self._parsed(sql)
        except QueryError:  # asked by itself, it is refused
            return None
        question = self._compiler.plain_count(parsed) if isinstance(parsed, Query) else None
        if question is None:
            return None
        self._keep(sql, asked := PlainQuestion(question))
        return asked

    def _keep(self, sql: str, asked: ParsedQuestions) -> None:
        """Keep what a text asks for the next time."""
        size = len(sql) + sum(question.nbytes for question in asked.questions)
        self._read_before.put(sql, asked, size)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    @one_question()
    def _read(self, sql: str) -> ParsedQuestions:
        parsed = self._parsed(sql)
        if isinstance(parsed, Query):
            return PlainQuestion(self._compiler.question(parsed))
        return SelectQuestion(parsed, self._compiler, self._opened(), sized=self.sized)

    @one_question()
    def _read_with(self, sql: str, engine: Sandbox) -> ParsedQuestions:
        """Read a question that may look up side tables."""
        parsed = read_select_with(sql, self.schema, engine)
        compiler = Compiler(self.schema, self.space, lambda: engine, self._compiler.sums)
        digest = (
            _digest(engine) if any("SELECT" in e.sql.upper() for e in parsed.expressions) else ""
        )
        if isinstance(parsed, SelectPlan):
            return SelectQuestion(parsed, compiler, engine, digest, sized=self.sized)
        return PlainQuestion(compiler.question(parsed), digest)

    def _parsed(self, sql: str) -> Query | SelectPlan:
        with self._lock:
            if self._parser is None:
                self._parser = TemplateParser(self.schema)
            parser = self._parser
        return parser.read(sql)

    def _opened(self) -> Sandbox:
        with self._lock:
            if self._closed:
                raise _closed()
            if self._engine is None:
                self._engine = Sandbox(self.schema)
            return self._engine


def _digest(engine: Sandbox) -> str:
    """Return a digest of the side tables, of which the meaning of a question depends."""
    digest = hashlib.blake2b(digest_size=16)
    for name, columns in sorted(engine.columns.items()):
        table = engine.rows('FROM "' + name.replace('"', '""') + '"')
        digest.update(repr((name.lower(), columns, str(table.schema), table.to_pydict())).encode())
    return digest.hexdigest()


def _closed() -> LedgerError:
    return LedgerError("This database was closed. Open it again.")


def forecast(parts: Mapping[str, Sequence[DatabaseEstimate]], outcome: Outcome) -> Cost:
    """Return what a question costs, given the estimates of its parts for made-up numbers."""
    found = [each for part in parts.values() for each in part]
    return Cost(
        outcome.status,
        outcome.new,
        stderr=_largest_error(found),
        distance=max((each.distance for each in found), default=0.0),
        answered=found[0].answered if len(found) == 1 else "",
        unanswered=sum(each.status_label == NOT_ANSWERED for each in found),
        parts={} if "" in parts else {name: _part(part) for name, part in parts.items()},
    )


def _part(estimates: Sequence[DatabaseEstimate]) -> CostPart:
    statuses = {each.status for each in estimates}
    order = ("relaxed", "answered", "repeated")
    return CostPart(
        next((status for status in order if status in statuses), "answered"),
        _largest_error(estimates),
    )


def _largest_error(estimates: Sequence[DatabaseEstimate]) -> float:
    """Return the largest standard error, without groups that are not answered beside others."""
    known = [each for each in estimates if each.reason != NOT_ANSWERED]
    return max((each.stderr for each in known or estimates), default=0.0)


# --- a SELECT of several numbers ------------------------------------------------------------------
#
# SelectQuestion: a SELECT of several numbers, asked of a database as one question.
#
# The plan of the SELECT is that of a release (`public/sql/select_plan.py`), and so are the
# estimates that are computed from the answers (`public/estimation/selecting/`). What is asked does
# not depend on answers, so that all of it is known, priced and refused before anything is charged.

# Numbers for which HAVING and ORDER BY are tried out. The largest ones are still an INTEGER.
_MADE_UP = (1.0, 0.0, 0.25, -2e9, 2e9)
_PAID = (
    "The numbers are paid for: the question without HAVING and ORDER BY gives them free of charge."
)


class SelectQuestion:
    """The questions of a SELECT. `tables` is a digest of the side tables that it reads, and `sized`
    says that the number of rows is public.
    """

    def __init__(
        self,
        plan: SelectPlan,
        compiler: Compiler,
        engine: Sandbox,
        tables: str = "",
        *,
        sized: bool = True,
    ) -> None:
        self.plan, self.tables, self._sized = plan, tables, sized
        self._engine, self._compiler = engine, compiler
        check_plan(plan, engine)
        self._schema = compiler.schema
        self._sets = [Groups(plan, self._schema, engine, chosen) for chosen in plan.sets]
        self._bases: dict[Query, Question] = {}
        self._places: dict[Needed, int] = {}
        self.questions: list[Question] = []
        for groups in self._sets:
            selection = self._selection(groups, self._asker(self._made_up))
            for need in selection.needed():
                self._add(need)
            for query in groups.queries(selection.base) if groups.chosen else ():
                self._bases[query] = compiler.question(query)
        boxes = sum(len(part) for q in self.questions for g in q.groups for part in g.parts)
        if boxes > MOST_BOXES:
            raise QueryError(
                f"The question takes {boxes} numbers, and at most {MOST_BOXES} are possible. Ask "
                "for fewer groups, or for fewer numbers at a time."
            )
        self._check_arrangement()

    @property
    def text(self) -> str:
        return self.plan.text

    @property
    def grouped(self) -> bool:
        return bool(self.plan.keys)

    def present(
        self, builder: EstimateBuilder, outcome: Outcome
    ) -> Estimate | Estimates | EstimateTable:
        """Return the answer, given the outcome of the questions."""
        table = self._table(builder, outcome)
        try:
            return table.answer()
        except QueryError as error:  # numbers beyond the made-up ones
            raise QueryError(f"{error.message} {_PAID}") from None

    def parts(
        self, builder: EstimateBuilder, outcome: Outcome
    ) -> dict[str, list[DatabaseEstimate]]:
        """Return the estimates of all groups, shown or not, by the name of the selected number."""
        found = _Answered(self, builder, outcome)
        rows = self._table(builder, outcome).rows
        return {
            item.name: [found.with_status(estimates[place]) for _, estimates in rows]
            for place, item in enumerate(self.plan.items)
        }

    def _table(self, builder: EstimateBuilder, outcome: Outcome) -> EstimateRows:
        found = _Answered(self, builder, outcome)
        table = self._rows(
            Answerer(found.ask, self._possible, found.combine, found.shares, self._sized)
        )
        table.rows = [(key, tuple(map(found.with_status, each))) for key, each in table.rows]
        return table

    def question(self, need: Needed) -> tuple[int, Question]:
        """Return the place of a question among all, and the question."""
        place = self._places[need]
        return place, self.questions[place]

    def _add(self, need: Needed) -> None:
        if need not in self._places:
            compiled = self._compiler
            found = (
                compiled.counts_by(need) if isinstance(need, CountsBy) else compiled.question(need)
            )
            self._places[need] = len(self.questions)
            self.questions.append(found)

    def _rows(self, answerer: Answerer) -> EstimateRows:
        table = EstimateRows(self.plan, self._schema, self._engine)
        for groups in self._sets:
            table.add(groups, self._selection(groups, answerer))
        return table

    def _selection(self, groups: Groups, answerer: Answerer) -> Selection:
        return Selection(self.plan, groups, self._engine, answerer)

    def _asker(self, ask: Ask) -> Answerer:
        same = Estimate(1.0, Exact(), "")
        shares = lambda above, *_: [same] * len(above)  # noqa: E731
        return Answerer(ask, self._possible, lambda _: None, shares, self._sized)

    def _possible(self, queries: Sequence[Query]) -> list[Iterable[KeyValues]]:
        """Return the groups of each question that have boxes."""
        found: list[Iterable[KeyValues]] = []
        for query in queries:
            groups = self._bases[query].groups
            found.append([group.key for group in groups if len(group.boxes)])
        return found

    def _check_arrangement(self) -> None:
        """Evaluate HAVING and ORDER BY on made-up numbers, small, large and negative ones.

        Types that do not fit, and conversions that fail for some numbers, are so refused before
        anything is charged.
        """
        if self.plan.arrangement != UNARRANGED:
            for value in _MADE_UP:
                self._rows(self._asker(partial(self._made_up, value=value))).answer()

    def _made_up(self, queries: Sequence[Query], value: float = 1.0) -> list[Answers]:
        """Return the same value for every group of some questions."""
        same = Estimate(value, Exact(), "")
        return [{group.key: same for group in self.question(each)[1].groups} for each in queries]


@dataclass(frozen=True)
class _Answered:
    """The outcome of a `SelectQuestion`, as answers to its questions."""

    asked: SelectQuestion
    builder: EstimateBuilder
    outcome: Outcome
    _known: dict[CountsBy, dict[KeyValues, Sequence[Piece]]] = field(
        default_factory=dict, init=False, compare=False
    )

    def ask(self, queries: Sequence[Query]) -> list[Answers]:
        found: list[Answers] = []
        for query in queries:
            place, question = self.asked.question(query)
            found.append(
                {
                    group.key: self.builder.estimate(question, group, pieces, self.outcome.numbers)
                    for group, pieces in zip(question.groups, self._pieces(place), strict=True)
                }
            )
        return found

    def combine(self, counts: Sequence[WeightedCount]) -> Estimate | None:
        """Return Σ weight · count, of the groups that are possible."""
        parts = self._weighted(counts)
        return self.builder.weighted(parts, self.outcome.numbers) if parts else None

    def shares(
        self,
        above: Sequence[Sequence[WeightedCount]],
        below: Sequence[WeightedCount],
        limits: tuple[float, float],
    ) -> list[Estimate]:
        """Return the quotients of sums of counts by another one."""
        parts = [self._weighted(each) for each in above]
        return [*self.builder.shares(parts, self._weighted(below), limits, self.outcome.numbers)]

    def _weighted(self, counts: Sequence[WeightedCount]) -> list[tuple[float, Sequence[Piece]]]:
        found = []
        for weight, need, key in counts:
            pieces = self._by_key(need).get(key)
            if pieces is not None:
                found.append((weight, pieces))
        return found

    def _by_key(self, need: CountsBy) -> dict[KeyValues, Sequence[Piece]]:
        """Return the pieces of the counts of a question by group."""
        if need not in self._known:
            place, question = self.asked.question(need)
            pieces = zip(question.groups, self._pieces(place), strict=True)
            self._known[need] = {group.key: each for group, each in pieces}
        return self._known[need]

    def with_status(self, estimate: Estimate) -> DatabaseEstimate:
        """Return an estimate with its status. What has none is made of numbers as asked."""
        if isinstance(estimate, DatabaseEstimate):
            return estimate
        statuses = {p["status"] for group in self.outcome.groups for p in group["pieces"]}
        statuses.discard("relaxed")
        status = "repeated" if statuses == {"repeated"} else "answered"
        return DatabaseEstimate(
            estimate.value, estimate.law, estimate.method, estimate.notes, status=status, numbers=0
        )

    def _pieces(self, place: int) -> list[Sequence[Piece]]:
        """Return the pieces of each group of a question."""
        before = sum(len(each.groups) for each in self.asked.questions[:place])
        count = len(self.asked.questions[place].groups)
        return [group["pieces"] for group in self.outcome.groups[before : before + count]]
