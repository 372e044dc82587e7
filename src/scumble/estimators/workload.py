"""Many questions to published rows: those that ask for plain counts share one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.engine.duckdb import Engine
from scumble.errors import QueryError
from scumble.estimate import Estimate
from scumble.estimators import records
from scumble.estimators.cubes import Cubes
from scumble.estimators.tally import Tally
from scumble.evidence import Records
from scumble.query import Expression, Query
from scumble.schema import Schema

Answer = list[tuple[tuple[Any, ...], Estimate]]


def answer_many(
    evidence: Records, schema: Schema, queries: Sequence[Query], engine: Engine
) -> list[Answer]:
    """Each question's groups with their estimates; the same numbers as asking one by one."""
    plans = [records.Plan(evidence, schema, query) for query in queries]
    asked = {frozenset(plan.query.attributes) for plan in plans if _plain(plan)}
    cubes = Cubes(engine.view, schema, asked)
    shared = [plan for plan in plans if _plain(plan) and frozenset(plan.query.attributes) in cubes]
    workload = Workload(schema, cubes, _truth(shared, queries, engine))
    answers: list[Answer] = []
    for plan in plans:
        if _plain(plan) and frozenset(plan.query.attributes) in cubes:
            answers.append(list(workload.answer(plan)))
        else:
            engine.check(plan.query)
            answers.append(list(records.answer(evidence, schema, plan.query, engine)))
    return answers


def _plain(plan: records.Plan) -> bool:
    """A count without groups, whose conditions on true and on perturbed attributes are apart."""
    query = plan.query
    return query.aggregate == "count" and not query.groups and plan.shared and bool(query.attributes)


def _truth(
    plans: Sequence[records.Plan], queries: Sequence[Query], engine: Engine
) -> dict[Expression, npt.NDArray[np.bool_]]:
    """Every distinct clause evaluated once, all clauses on the same attributes in one go."""
    clauses = dict.fromkeys(clause for plan in plans for clause in plan.query.clauses)
    by_names: dict[tuple[str, ...], list[Expression]] = {}
    for clause in clauses:
        by_names.setdefault(clause.attributes, []).append(clause)
    truth: dict[Expression, npt.NDArray[np.bool_]] = {}
    try:
        for names, together in by_names.items():
            values = engine.evaluate(together, names)
            truth.update(zip(together, values, strict=True))
    except QueryError:
        for query in queries:  # find the question that is wrong, and say so with its text
            engine.check(query)
        raise
    return truth


@dataclass(frozen=True)
class Workload:
    """Answers to plain counts from counted cells."""

    schema: Schema
    cubes: Cubes
    truth: dict[Expression, npt.NDArray[np.bool_]]

    def answer(self, plan: records.Plan) -> Iterator[tuple[tuple[Any, ...], Estimate]]:
        names = frozenset(plan.query.attributes)
        order = [name for name in self.schema.names if name in names]
        counts = self.cubes.of(names).astype(np.float64)
        filters = [clause for clause in plan.query.clauses if clause not in plan.conditions]
        for clause in filters:
            counts = counts * self._along(clause, order)
        true = tuple(axis for axis, name in enumerate(order) if name not in plan.axes)
        shown = counts.sum(axis=true).reshape(-1)
        holds = np.ones([self.schema[name].size for name in plan.axes])
        for clause in plan.conditions:
            holds = holds * self._along(clause, plan.axes)
        cell = np.arange(len(shown), dtype=np.intp)
        counted = Tally(
            self.schema, pa.table({}), np.zeros_like(cell), cell, shown, shown, shown
        )
        return records.estimates(plan, counted, holds[np.newaxis], None)

    def _along(self, clause: Expression, order: Sequence[str]) -> npt.NDArray[np.bool_]:
        """The truth of a clause as a tensor that broadcasts over axes in this order."""
        places = [order.index(name) for name in clause.attributes]
        sizes = [self.schema[name].size for name in clause.attributes]
        values = self.truth[clause].reshape(sizes)
        shape = [1] * len(order)
        for place, size in zip(places, sizes, strict=True):
            shape[place] = size
        return values.transpose(np.argsort(places)).reshape(shape)
