"""Estimators by kind of evidence, and how a question is put to them, alone or with others.

A question that cuts bins becomes several questions, whose answers are joined (`cut_bins`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scumble.families import evidence_reader
from scumble.model.evidence.evidence import Evidence
from scumble.model.query import ListQuery, Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.cut_bins import cut_query
from scumble.public.estimation.impossible import (
    impossible_groups,
    only_possible,
    with_zeros,
    without_amounts,
)
from scumble.public.estimation.measurements import answer as measurements
from scumble.public.estimation.measurements.moments import measured_amount
from scumble.public.estimation.rows import answer as rows
from scumble.public.estimation.rows import answer_many as rows_together
from scumble.public.estimation.tables import portions
from scumble.public.sandbox import Sandbox

if TYPE_CHECKING:
    from scumble.public.estimation.cut_bins import CutQuery

Rows = Iterable[tuple[tuple[Any, ...], Estimate]]
_NO_ROWS = "sum of no rows"

# The estimators of evidence that several families write: of one question, and of many together.
_SHARED: Mapping[str, tuple[Any, Any]] = {
    "records": (rows.answer, rows_together.answer_together),
    "measurements": (measurements.answer, measurements.answer_together),
}


@dataclass(frozen=True)
class Estimator:
    """Answers questions from the evidence of a release; `schema` has what they may name."""

    evidence: Evidence
    schema: Schema
    sandbox: Sandbox

    def one(self, query: Query) -> Rows:
        """Check one question, and return its groups with their estimates."""
        if isinstance(query, ListQuery):
            return self._direct(query)
        self.sandbox.check(query)
        cut = self._cut(query) if self._is_coarse(query) else None
        if cut is None:
            return self._direct(query)
        return self._joined(cut, [self._direct(each) for each in cut.questions()])

    def many(self, queries: Sequence[Query]) -> Iterable[Rows]:
        """Yield the groups of every question, found with few passes over the published data."""
        if any(isinstance(query, ListQuery) for query in queries):
            yield from map(self.one, queries)
            return
        cuts = [self._checked_cut(query) for query in queries]
        asked = [
            each.questions() if each else [query] for query, each in zip(queries, cuts, strict=True)
        ]
        found: list[Rows] = []
        for some in portions(self.schema, [each for part in asked for each in part]):
            never = list(map(self._never, some))
            asked_of = [place for place, each in enumerate(never) if () not in each]
            read = [self._read(some[place]) for place in asked_of]
            answers = self._functions[1](self.evidence, self.schema, read, self.sandbox)
            rows = {asked_of[place]: each for place, each in answers.items()}
            for place, query in enumerate(some):
                if place in rows:
                    found.append(with_zeros(query, rows[place], never[place]))
                else:
                    found.append(self._checked(query))
        given = iter(found)
        for cut, part in zip(cuts, asked, strict=True):
            own = [next(given) for _ in part]
            yield own[0] if cut is None else self._joined(cut, own)

    def cuts(self, query: Query) -> bool:
        """Whether a condition of a question cuts bins, months or years."""
        return self._checked_cut(query) is not None

    def null_sum(self, query: Query, estimate: Estimate) -> Estimate:
        """Return the answer to a sum without groups: NULL if there are certainly no rows."""
        if not (isinstance(estimate.law, Exact) and estimate.value == 0):
            return estimate
        [(_, count)] = self.one(replace(query, aggregate="count", argument=None))
        if isinstance(count.law, Exact) and not count.value:
            return replace(estimate, value=math.nan, law=Unknown(), method=_NO_ROWS)
        return estimate

    def _checked_cut(self, query: Query) -> CutQuery | None:
        if not self._is_coarse(query):
            return None
        self.sandbox.check(query)
        return self._cut(query)

    def _cut(self, query: Query) -> CutQuery | None:
        amount = measured_amount(self.evidence, self.sandbox, query)
        return cut_query(query, self.sandbox, amount)

    def _is_coarse(self, query: Query) -> bool:
        """Return whether an expression names a column whose values are bins, months or years."""
        return any(self.schema[n].coarse for part in query.expressions for n in part.attributes)

    def _checked(self, query: Query) -> Rows:
        self.sandbox.check(query)
        return self._direct(query)

    def _direct(self, query: Query) -> Rows:
        """Return the groups of a question in which a published value stands for its whole bin."""
        never = self._never(query)
        if () in never:
            return with_zeros(query, (), never)
        asked = self._read(query)
        rows: Rows = self._functions[0](self.evidence, self.schema, asked, self.sandbox)
        return with_zeros(query, rows, never) if never else rows

    def _read(self, query: Query) -> Query:
        """Return a question as it is read: without amounts that only impossible rows have, and
        without impossible cells where these have no noise.
        """
        if not self.schema.impossible or isinstance(query, ListQuery):
            return query
        query = without_amounts(query, self.sandbox)
        return only_possible(query, self.sandbox) if self.evidence.exact_zeros else query

    def _never(self, query: Query) -> Mapping[tuple[Any, ...], None]:
        """Return the groups of a question that no row can be in; () for all of it."""
        known = self.schema.impossible and not isinstance(query, ListQuery)
        return impossible_groups(query, self.sandbox) if known else {}

    def _joined(self, cut: CutQuery, rows: Sequence[Rows]) -> Rows:
        return cut.answers(rows, self._direct, self.evidence.rows)

    @cached_property
    def _functions(self) -> tuple[Any, Any]:
        """The functions that answer one question, and many together, from this evidence."""
        kind = self.evidence.kind
        if kind in _SHARED:
            return _SHARED[kind]
        family = evidence_reader(kind)
        return family.answer, family.answer_together
