"""SelectQuestion: a SELECT of several numbers, asked of a database as one question.

The plan of the SELECT is that of a release (`public/sql/select_plan.py`), and so are the estimates
that are computed from the answers (`public/estimation/selecting/`). What is asked does not depend
on answers, so that all of it is known, priced and refused before anything is charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from scumble.model.errors import QueryError
from scumble.model.query import Query
from scumble.private.database.answers import DatabaseEstimate, EstimateBuilder
from scumble.private.database.plan import Piece
from scumble.private.database.questions.compiler import Compiler
from scumble.private.database.questions.question import MOST_BOXES, Question
from scumble.private.database.session import Outcome
from scumble.public.estimate import Estimate, Estimates, Exact
from scumble.public.estimate_table import EstimateTable
from scumble.public.estimation.selecting.selection import (
    Answerer,
    Answers,
    Ask,
    CountsBy,
    EstimateRows,
    Groups,
    KeyValues,
    Needed,
    Selection,
    check_plan,
)
from scumble.public.sandbox import Sandbox
from scumble.public.sql.select_plan import UNARRANGED, SelectPlan

# Numbers for which HAVING and ORDER BY are tried out. The largest ones are still an INTEGER.
_MADE_UP = (1.0, 0.0, 0.25, -2e9, 2e9)
_PAID = (
    "The numbers are paid for: the question without HAVING and ORDER BY gives them free of charge."
)


class SelectQuestion:
    """The questions of a SELECT. `tables` is a digest of the side tables that it reads."""

    def __init__(
        self, plan: SelectPlan, compiler: Compiler, engine: Sandbox, tables: str = ""
    ) -> None:
        self.plan, self.tables = plan, tables
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
        boxes = sum(len(g.boxes) * len(q.kinds) for q in self.questions for g in q.groups)
        if boxes > MOST_BOXES:
            raise QueryError(
                f"The question takes {boxes} numbers, and at most {MOST_BOXES} are possible. Ask "
                "for fewer groups, or for fewer numbers at a time."
            )
        self._check_arrangement()

    @property
    def text(self) -> str:
        return self.plan.text

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
        table = self._rows(Answerer(found.ask, self._possible, found.combine))
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
        return Answerer(ask, self._possible, lambda *_: None)

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

    def ask(self, queries: Sequence[Query]) -> list[Answers]:
        found: list[Answers] = []
        for query in queries:
            place, question = self.asked.question(query)
            found.append(
                {
                    group.key: self.builder.estimate(question, pieces, self.outcome.numbers)
                    for group, pieces in zip(question.groups, self._pieces(place), strict=True)
                }
            )
        return found

    def combine(
        self, counts: CountsBy, key: KeyValues, weights: Mapping[float, float]
    ) -> Estimate | None:
        """Return Σ weight · count over the values of a number in a group."""
        place, question = self.asked.question(counts)
        parts = [
            (weights[group.key[-1]], pieces)
            for group, pieces in zip(question.groups, self._pieces(place), strict=True)
            if group.key[:-1] == key and group.key[-1] in weights
        ]
        return self.builder.weighted(parts, self.outcome.numbers) if parts else None

    def with_status(self, estimate: Estimate) -> DatabaseEstimate:
        """Return an estimate with its status. What has none is made of numbers as asked."""
        if isinstance(estimate, DatabaseEstimate):
            return estimate
        statuses = {p["status"] for group in self.outcome.groups for p in group["pieces"]}
        status = "repeated" if statuses == {"repeated"} else "answered"
        return DatabaseEstimate(
            estimate.value, estimate.law, estimate.method, estimate.notes, status=status, numbers=0
        )

    def _pieces(self, place: int) -> list[Sequence[Piece]]:
        """Return the pieces of each group of a question."""
        before = sum(len(each.groups) for each in self.asked.questions[:place])
        count = len(self.asked.questions[place].groups)
        return [group["pieces"] for group in self.outcome.groups[before : before + count]]
