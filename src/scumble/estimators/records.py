"""Answers from published rows whose sensitive columns went through a known channel.

One aggregate of the engine counts the published rows by whatever the answer depends on; the rest is
arithmetic on tensors over the sensitive domains.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from scumble.channels import Tensor
from scumble.engine.duckdb import Engine
from scumble.estimate import Estimate
from scumble.estimators.plan import Plan
from scumble.estimators.sums import Sums
from scumble.estimators.tally import Groups, Tally, tally
from scumble.evidence import Records
from scumble.query import Query
from scumble.schema import Schema

Key = tuple[Any, ...]


def answer(
    evidence: Records, schema: Schema, query: Query, engine: Engine
) -> Iterator[tuple[Key, Estimate]]:
    """Every group of the answer with its estimate."""
    plan = Plan(evidence, schema, query)
    counted, holds, amount = _gather(plan, engine)
    return estimates(plan, counted, holds, amount)


def _gather(plan: Plan, engine: Engine) -> tuple[Tally, Tensor, Tensor | None]:
    """Count the rows, and evaluate h on the domain; on the domain first where that saves lines."""
    summed = plan.summed.sql if plan.summed else None
    if not plan.shared:
        counted = tally(engine, plan.schema, plan.kept, plan.axes, summed, plan.filters)
        return counted, *_tensors(plan, engine, counted)
    holds, amount = _tensors(plan, engine)
    hits = _hits(plan, holds) if amount is None else None
    counted = tally(engine, plan.schema, plan.kept, plan.axes, summed, plan.filters, hits)
    return counted, holds, amount


def _tensors(
    plan: Plan, engine: Engine, counted: Tally | None = None
) -> tuple[Tensor, Tensor | None]:
    """Whether a row counts, and what it adds, for every value of the perturbed domains."""
    frame = counted.combinations if counted else None
    outer = plan.kept if counted else ()
    shape = (
        counted.combinations.num_rows if counted else 1,
        *(plan.schema[name].size for name in plan.axes),
    )
    values = engine.evaluate(plan.mixed, (*outer, *plan.axes), frame) if plan.mixed else []
    holds = np.ones(shape)
    for value in values[: len(plan.conditions)]:
        holds = holds * value.reshape(shape)
    if plan.query.argument is None or plan.summed:
        return holds, None
    return holds, values[-1].reshape(shape) * holds


def _hits(plan: Plan, holds: Tensor) -> tuple[str, int, int] | None:
    """One condition on one perturbed attribute splits its domain in two: two lines are enough."""
    yes, no = np.flatnonzero(holds), np.flatnonzero(holds == 0)
    if len(plan.axes) != 1 or plan.grouped_axes or not len(yes) or not len(no):
        return None
    condition = " AND ".join(f"({clause.sql})" for clause in plan.conditions)
    return condition, int(yes[0]), int(no[0])


def estimates(
    plan: Plan, counted: Tally, holds: Tensor, amount: Tensor | None
) -> Iterator[tuple[Key, Estimate]]:
    """One estimate for each group of true attributes and each value of grouped perturbed ones."""
    groups = counted.groups([name for name in plan.kept if name in plan.query.groups])
    alone = len(plan.axes) == len(plan.grouped_axes) == 1
    if alone and plan.shared and plan.query.aggregate == "count":
        yield from _counts_by_value(plan, counted, groups, holds[0])
        return
    for values, chosen in _axis_values(plan):
        part = None if amount is None else amount * chosen
        sums = Sums(plan, counted, groups, holds * chosen, part)
        for index, key in enumerate(groups.keys):
            if plan.query.groups and not sums.possible[index]:
                continue  # the condition excludes every row of this group, as it does in SQL
            named = {**key, **values}
            yield tuple(named[name] for name in plan.query.groups), sums.estimate(index)


def _counts_by_value(
    plan: Plan, counted: Tally, groups: Groups, holds: Tensor
) -> Iterator[tuple[Key, Estimate]]:
    """A count for each value of one perturbed attribute: no tensor per value, since a row counts
    for the value it shows. Thousands of values are common here.
    """
    [name] = plan.axes
    size = plan.schema[name].size
    pairs = groups.members * size + counted.cell
    shown = np.bincount(pairs, counted.count, len(groups.keys) * size).astype(np.int64)
    rows = groups.sums(counted.count)
    for code, label in enumerate(plan.schema[name].labels().to_pylist()):
        for index, key in enumerate(groups.keys):
            if rows[index] and holds[code]:  # as in SQL, a group that cannot be is left out
                named = {**key, name: label}
                found = plan.one_count(1 / size, int(rows[index]), int(shown[index * size + code]))
                yield tuple(named[name] for name in plan.query.groups), found


def _axis_values(plan: Plan) -> Iterator[tuple[dict[str, Any], Tensor]]:
    """Every combination of values of the grouped perturbed attributes, with its indicator."""
    names = plan.grouped_axes
    shape = [plan.schema[name].size for name in plan.axes]
    labels = [plan.schema[name].labels().to_pylist() for name in names]
    for codes in np.ndindex(*map(len, labels)):
        chosen = np.zeros(shape)
        place = dict(zip(names, codes, strict=True))
        chosen[tuple(place.get(name, slice(None)) for name in plan.axes)] = 1
        yield {n: label[c] for n, label, c in zip(names, labels, codes, strict=True)}, chosen
