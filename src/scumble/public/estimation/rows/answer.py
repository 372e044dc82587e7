"""Answers from published rows whose sensitive columns went through a known channel.

One aggregate of the engine counts the published rows by whatever the answer depends on; the rest is
arithmetic on tensors over the sensitive domains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from scumble.model.evidence.channels import MultisetChannel, Tensor
from scumble.model.evidence.evidence import Records
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate
from scumble.public.estimation.rows.count_laws import counted as shown_count
from scumble.public.estimation.rows.grouped_counts import (
    GroupedCounts,
    GroupIndex,
    grouped_counts,
    multiset_counts,
)
from scumble.public.estimation.rows.inverse_channels import Flags, UniformInverse, flat
from scumble.public.estimation.rows.plan import RowsPlan
from scumble.public.estimation.rows.sums import Sums
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]


def answer(
    evidence: Records, schema: Schema, query: Query, engine: Sandbox
) -> Iterator[tuple[Key, Estimate]]:
    """Every group of the answer with its estimate."""
    plan = RowsPlan(evidence, schema, query)
    counted, holds, amount = _gather(plan, engine)
    return estimates(plan, counted, holds, amount)


def _gather(plan: RowsPlan, engine: Sandbox) -> tuple[GroupedCounts, Tensor, Tensor | None]:
    """Count the rows, and evaluate h on the domain; on the domain first where that saves lines."""
    if not plan.shared:
        counted = _count(plan, engine)
        return counted, *_tensors(plan, engine, counted)
    lens = plan.lens()
    holds, amount = _tensors(plan, engine)
    holds = lens.by_state(holds)
    if amount is not None:
        return _count(plan, engine), holds, lens.by_state(amount)
    if not plan.axes or plan.grouped_axes or not lens.halves(holds):
        return _count(plan, engine), holds, None
    halved = _count(plan, engine, flat(holds)[0] > 0)
    # One value that counts stands for all of them, and one that does not for all others.
    state = plan.states(halved)
    yes = lens.possible(holds, -1.0).argmax(axis=1)[state]
    no = lens.possible(holds, 2.0).argmin(axis=1)[state]
    return replace(halved, cell=np.where(halved.cell, yes, no)), holds, None


def _count(plan: RowsPlan, engine: Sandbox, hits: Flags | None = None) -> GroupedCounts:
    """Lines by true attributes and shown values, or by whether these are `hits`."""
    summed = plan.summed.sql if plan.summed else None
    if isinstance(plan.whole, MultisetChannel):
        return multiset_counts(
            engine, plan.schema, plan.whole, plan.kept, summed, plan.filters, hits
        )
    clauses = [f"({clause.sql})" for clause in plan.conditions]
    condition = None if hits is None else " AND ".join(clauses) or "true"
    return grouped_counts(
        engine, plan.schema, plan.kept, plan.axes, summed, plan.filters, condition
    )


def _tensors(
    plan: RowsPlan, engine: Sandbox, counted: GroupedCounts | None = None
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


def estimates(
    plan: RowsPlan, counted: GroupedCounts, holds: Tensor, amount: Tensor | None
) -> Iterator[tuple[Key, Estimate]]:
    """One estimate for each group of true attributes and each value of grouped perturbed ones."""
    groups = counted.groups([name for name in plan.kept if name in plan.query.groups])
    alone = len(plan.axes) == len(plan.grouped_axes) == len(plan.uniform) == 1
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
    plan: RowsPlan, counted: GroupedCounts, groups: GroupIndex, holds: Tensor
) -> Iterator[tuple[Key, Estimate]]:
    """A count for each value of one perturbed attribute: no tensor per value, since a row counts
    for the value it shows. Thousands of values are common here.
    """
    [name] = plan.axes
    size = plan.schema[name].size
    pairs = groups.members * size + counted.cell
    shown = np.bincount(pairs, counted.count, len(groups.keys) * size).astype(np.int64)
    rows = groups.sums(counted.count)
    coins = UniformInverse(plan.uniform, plan.axes).coins(1 / size)
    for code, label in enumerate(plan.schema[name].labels().to_pylist()):
        for index, key in enumerate(groups.keys):
            if rows[index] and holds[code]:  # as in SQL, a group that cannot be is left out
                named = {**key, name: label}
                number = int(shown[index * size + code])
                found = shown_count(coins, int(rows[index]), number, plan.query.notes)
                yield tuple(named[name] for name in plan.query.groups), found


def _axis_values(plan: RowsPlan) -> Iterator[tuple[dict[str, Any], Tensor]]:
    """Every combination of values of the grouped perturbed attributes, with its indicator."""
    names = plan.grouped_axes
    shape = [plan.schema[name].size for name in plan.axes]
    labels = [plan.schema[name].labels().to_pylist() for name in names]
    for codes in np.ndindex(*map(len, labels)):
        chosen = np.zeros(shape)
        place = dict(zip(names, codes, strict=True))
        chosen[tuple(place.get(name, slice(None)) for name in plan.axes)] = 1
        yield {n: label[c] for n, label, c in zip(names, labels, codes, strict=True)}, chosen
