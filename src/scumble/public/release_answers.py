"""ReleaseAnswers: questions to a release are read, answered from its evidence, and presented.

This is all of a release that needs the SQL reader and the estimators. A release that is published,
saved or shown does without, and loads it with the first question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from scumble.model.errors import ParameterError
from scumble.model.evidence.evidence import Evidence
from scumble.model.long_work import part, portion
from scumble.model.privacy.sampling import SAMPLED, Sample
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import LEVEL, TYPICAL, Estimate, Estimates
from scumble.public.estimate_table import EstimateTable, code_order
from scumble.public.estimation.bounds import note_impossible
from scumble.public.estimation.estimators import Estimator
from scumble.public.estimation.marginal_tables import marginal_table
from scumble.public.estimation.measurements.readers import read_strings, reader_with
from scumble.public.estimation.sampled import SampledEstimator
from scumble.public.estimation.selecting.selection import select
from scumble.public.manifest import Manifest
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import read_select_with
from scumble.public.sql.select_plan import SelectPlan
from scumble.public.sql.templates import TemplateParser
from scumble.public.synthesis.release_rows import rows_of
from scumble.public.views import DrawnRows


@dataclass(frozen=True, eq=False)
class ReleaseAnswers:
    """Answers questions to one release: `schema` has the attributes that they may name, and
    `sandbox` its files and the side tables. The laws of some answers ask later questions: of what
    `current` returns for these answers. It keeps the release, whose folder may be a temporary one.
    """

    manifest: Manifest
    schema: Schema
    sandbox: Sandbox
    current: Callable[[ReleaseAnswers], ReleaseAnswers]

    @property
    def evidence(self) -> Evidence:
        return self.manifest.evidence

    def answer(
        self, question: str | Query | SelectPlan, clamp: bool
    ) -> Estimate | Estimates | EstimateTable:
        """Answer one question."""
        query = self.read(question)
        if isinstance(query, Query):
            return self._present(query, self._answered([query])[0], clamp)
        return self._select(query, clamp)

    def answer_many(
        self, questions: Sequence[str | Query], clamp: bool
    ) -> list[Estimate | Estimates | EstimateTable]:
        """Answer many questions, in their order."""
        queries = self._read_many(questions)
        rows = iter(self._answered([query for query in queries if isinstance(query, Query)]))
        return [
            self._present(query, next(rows), clamp)
            if isinstance(query, Query)
            else self._select(query, clamp)
            for query in queries
        ]

    def marginal(self, names: Sequence[str], *, nonnegative: bool, integers: bool) -> pa.Table:
        """Return the estimated counts of all cells of some attributes."""
        held = self.evidence, self.schema, self.sandbox
        return marginal_table(*held, names, nonnegative=nonnegative, integers=integers)

    def synthetic_rows(self) -> DrawnRows:
        """Return what draws rows from the noisy counts."""
        return rows_of(self.evidence, self.schema, self.sandbox)

    def reader_with(self, verb: str) -> Any:
        """Return what has the method `verb` for this release; None if there is none."""
        return reader_with(self.evidence, self.schema, self.sandbox, verb)

    def read(self, sql: str | Query | SelectPlan) -> Query | SelectPlan:
        """Return a question as it is asked; QueryError if it cannot be."""
        if not isinstance(sql, str):
            if not isinstance(sql, (Query, SelectPlan)):
                raise ParameterError.of("ask", "sql", "the text of a question", sql)
            for name in sql.attributes:
                self.schema[name]  # raises SchemaError for an unknown name
            return sql
        column = self.evidence.find_sequence(sql)
        if column is None:
            return read_select_with(sql, self.schema, self.sandbox)
        return read_strings(self.evidence, self.schema, sql, column)

    def _read_many(self, questions: Sequence[str | Query]) -> list[Query | SelectPlan]:
        """Return questions as they are asked; texts that differ by literals are parsed together."""
        if not any(isinstance(sql, str) for sql in questions):
            return [self.read(sql) for sql in questions]
        templates = TemplateParser(self.schema, self.sandbox.columns)
        return [
            templates.read(sql)
            if isinstance(sql, str) and self.evidence.find_sequence(sql) is None
            else self.read(sql)
            for sql in questions
        ]

    def _answered(self, queries: Sequence[Query]) -> list[dict[Any, Estimate]]:
        """Return the groups of each question with their estimates, in few passes over the data."""
        estimator = self._estimator()
        if len(queries) == 1:
            rows, shared = [estimator.one(queries[0])], 0.0
        else:
            shared = 0.5  # what is found for all questions together takes about as long as the rest
            with portion(0, shared):
                rows = list(estimator.many(queries))
        answers = []
        with portion(shared, 1):
            for number, (query, found) in enumerate(zip(queries, rows, strict=True)):
                with part(number, len(queries)):
                    given = dict(found)
                    if query.aggregate == "sum" and not query.groups:
                        given = {
                            key: estimator.null_sum(query, each) for key, each in given.items()
                        }
                answers.append(given)
        return answers

    def _asked(self, queries: Sequence[Query]) -> list[dict[Any, Estimate]]:
        return self.current(self)._answered(queries)

    def _select(self, plan: SelectPlan, clamp: bool) -> Estimate | Estimates | EstimateTable:
        """Answer a SELECT that is more than one COUNT, SUM or AVG by attributes."""
        if clamp:
            raise ParameterError("Only a plain count can be clamped: this question is more.")
        found = select(plan, self.schema, self.sandbox, self._asked)
        notes = self.manifest.left_out(plan.attributes)
        counts = [item.is_count for item in plan.items]
        if isinstance(found, Estimate):
            return self._noted(found, (*_typical([found]), *notes), counts[0])
        if isinstance(found, EstimateTable):
            found.about += _typical(estimate for _, row in found.rows for estimate in row)
            found.rows = tuple(
                (key, tuple(self._noted(e, notes, c) for e, c in zip(row, counts, strict=True)))
                for key, row in found.rows
            )
        else:
            found.about += _typical(estimate for _, estimate in found.rows)
            found.rows = tuple((key, self._noted(e, notes, counts[0])) for key, e in found.rows)
        return found

    def _estimator(self) -> Estimator:
        if SAMPLED not in self.manifest.report:
            return Estimator(self.evidence, self.schema, self.sandbox)
        sample = Sample.from_dict(self.manifest.report[SAMPLED])
        return SampledEstimator(self.evidence, self.schema, self.sandbox, sample)

    def _present(
        self, query: Query, rows: Mapping[Any, Estimate], clamp: bool
    ) -> Estimate | Estimates:
        found = list(rows.items())
        if clamp:
            found = [(key, self._clamped(query, estimate)) for key, estimate in found]
        notes, count = self.manifest.left_out(query.attributes), query.aggregate == "count"
        about = _typical(estimate for _, estimate in found)
        if not query.groups:
            notes = (*about, *notes)
        found = [(key, self._noted(estimate, notes, count)) for key, estimate in found]
        if not query.groups:
            [(_, estimate)] = found
            return replace(estimate, alias=query.aliases[-1]) if query.aliases else estimate
        schema = self.schema
        order = code_order(schema, query.groups, [key for key, _ in found])
        found = [found[place] for place in order]
        types = [(name, schema[name].arrow_type) for name in query.groups]
        return Estimates(types, found, (*query.notes, *about), query.aliases)

    def _clamped(self, query: Query, estimate: Estimate) -> Estimate:
        if query.aggregate != "count":
            raise ParameterError(
                "Only counts can be clamped: sums and averages have no known limits."
            )
        return estimate.clamped(0.0, self._most_rows)

    @property
    def _most_rows(self) -> float:
        """The number of rows that answers are about; infinite if it is not told."""
        sample = self.manifest.report.get(SAMPLED, {})
        rows = sample.get("people") if sample else self.evidence.rows
        return math.inf if rows is None else rows + self.evidence.missing

    def _noted(self, estimate: Estimate, notes: Sequence[str], count: bool) -> Estimate:
        """Return the estimate with more notes, and with one if its value is impossible."""
        if notes:
            estimate = replace(estimate, notes=(*estimate.notes, *notes))
        return note_impossible(estimate, *((0.0, self._most_rows) if count else ()))


def _typical(estimates: Iterable[Estimate]) -> tuple[str, ...]:
    """Return the note on what typical intervals assume, if one of the estimates has one."""
    shown = any(each.typical_label(LEVEL) for each in estimates)
    return (TYPICAL,) if shown else ()
