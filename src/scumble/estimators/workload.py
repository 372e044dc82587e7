"""Many questions to published rows: plain counts among them share one pass over the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from scumble.engine.duckdb import Engine
from scumble.estimate import Estimate
from scumble.estimators import records
from scumble.estimators.clauses import Clauses
from scumble.estimators.cubes import Cube, Cubes
from scumble.estimators.tally import Tally
from scumble.evidence import Records
from scumble.query import Query
from scumble.schema import Schema

Answer = list[tuple[tuple[Any, ...], Estimate]]

answer = records.answer


def answer_many(
    evidence: Records, schema: Schema, queries: Sequence[Query], engine: Engine
) -> list[Answer]:
    """Each question's groups with their estimates: the same numbers as asking one by one."""
    assert engine.view is not None
    plans = [records.Plan(evidence, schema, query) for query in queries]
    names = [frozenset(query.attributes) if _plain(plan) else None
             for plan, query in zip(plans, queries, strict=True)]
    cubes = Cubes(engine.view, schema, [some for some in names if some])
    together = [some is not None and some in cubes for some in names]
    clauses = Clauses(schema, [q for q, shared in zip(queries, together, strict=True) if shared], engine)
    answers: list[Answer] = []
    for plan, some, shared in zip(plans, names, together, strict=True):
        if shared and some:
            answers.append(_from_cube(plan, cubes.of(some), clauses))
        else:
            engine.check(plan.query)
            answers.append(list(records.answer(evidence, schema, plan.query, engine)))
    return answers


def _plain(plan: records.Plan) -> bool:
    """A count without groups, whose conditions on true and on perturbed attributes are apart."""
    query = plan.query
    return query.aggregate == "count" and not query.groups and plan.shared and bool(query.attributes)


def _from_cube(plan: records.Plan, cube: Cube, clauses: Clauses) -> Answer:
    """The cells that satisfy the clauses on true attributes, added up by perturbed value."""
    schema = plan.schema
    order = [name for name in schema.names if name in plan.query.attributes]
    counts = cube
    for clause in plan.query.clauses:
        if clause not in plan.conditions:
            counts = counts * clauses.along(clause, order)
    true = tuple(place for place, name in enumerate(order) if name not in plan.axes)
    shown = counts.sum(axis=true).reshape(-1).astype(np.float64)
    holds = np.ones([schema[name].size for name in plan.axes])
    for clause in plan.conditions:
        holds = holds * clauses.along(clause, plan.axes)
    cell = np.arange(len(shown), dtype=np.intp)
    counted = Tally(schema, pa.table({}), np.zeros_like(cell), cell, shown, shown, shown)
    return list(records.estimates(plan, counted, holds[np.newaxis], None))
