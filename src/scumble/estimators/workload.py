"""Many questions to published rows: plain counts among them share one pass over the data."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from scumble.channels import BagChannel
from scumble.engine.duckdb import Engine
from scumble.estimate import Estimate, Exact
from scumble.estimators import records
from scumble.estimators.clauses import Clauses
from scumble.estimators.cubes import Cube, Cubes, affordable
from scumble.estimators.plan import Plan
from scumble.estimators.shown import EXACT
from scumble.estimators.shown import counted as shown_count
from scumble.estimators.tally import Indices, Tally, sums_of_ones
from scumble.estimators.uniform_lens import UniformLens
from scumble.evidence import Records
from scumble.query import Expression, Query
from scumble.schema import Schema

Answer = list[tuple[tuple[Any, ...], Estimate]]

answer = records.answer


def answer_many(
    evidence: Records, schema: Schema, queries: Sequence[Query], engine: Engine
) -> list[Answer]:
    """Each question's groups with their estimates: the same numbers as asking one by one."""
    plans = [Plan(evidence, schema, query) for query in queries]
    names = [frozenset((*plan.query.attributes, *plan.kept, *plan.axes)) for plan in plans]
    pairs = zip(plans, names, strict=True)
    plain = [some if _plain(plan) else None for plan, some in pairs]
    counted = affordable(schema, plain)
    together = [some in counted for some in plain]
    file = cast(Path, engine.view)  # the engine of a release has one
    with ThreadPoolExecutor(1) as pool:  # the rows are counted while the clauses are evaluated
        counting = pool.submit(Cubes, file, schema, counted)
        clauses = Clauses(schema, compress(queries, together), engine)
        cubes = counting.result()
    answers: list[Answer] = []
    for plan, some, shared in zip(plans, names, together, strict=True):
        if shared:
            answers.append(_from_cube(plan, cubes.of(some), clauses))
        else:
            engine.check(plan.query)
            answers.append(list(records.answer(evidence, schema, plan.query, engine)))
    return answers


def _plain(plan: Plan) -> bool:
    """A count without groups, whose conditions on true and on perturbed attributes are apart, of
    rows that show one value each.
    """
    query = plan.query
    ungrouped = query.aggregate == "count" and not query.groups and bool(query.attributes)
    return ungrouped and plan.shared and not isinstance(plan.whole, BagChannel)


def _from_cube(plan: Plan, cube: Cube, clauses: Clauses) -> Answer:
    """The cells that satisfy the clauses on true attributes, added up by perturbed value."""
    asked = {*plan.query.attributes, *plan.kept, *plan.axes}
    order = [name for name in plan.schema.names if name in asked]
    filters = [clause for clause in plan.query.clauses if clause not in plan.conditions]
    counts = _selected(cube, filters, clauses, order, plan.kept)
    told = (*plan.kept, *plan.axes)
    left = [name for name in order if name in told]
    others = tuple(place for place, name in enumerate(order) if name not in told)
    shown = counts.sum(axis=others).transpose([left.index(name) for name in told])
    holds = np.ones(shown.shape[len(plan.kept) :], bool)
    for clause in plan.conditions:
        holds = holds & clauses.along(clause, plan.axes)
    rows, share = int(shown.sum()), float(holds.mean())
    if share in (0, 1) or not rows:
        return [((), Estimate(rows * share, Exact(), EXACT, plan.query.notes))]
    if len(plan.uniform) == 1:
        coins = UniformLens(plan.uniform, plan.axes).coins(share)
        return [((), shown_count(coins, rows, int(shown[holds].sum()), plan.query.notes))]
    counted = _tallied(plan, shown)
    return list(records.estimates(plan, counted, records.stated(holds[None], plan.lens()), None))


def _tallied(plan: Plan, shown: Cube) -> Tally:
    """Lines of a cube whose first axes are the kept attributes."""
    lengths = shown.shape[: len(plan.kept)]
    states, cells = prod(lengths), prod(shown.shape[len(plan.kept) :])
    codes = np.indices(lengths).reshape(len(lengths), states)
    kept = [plan.schema[name] for name in plan.kept]
    combinations = pa.table(
        {a.name: a.decode(code.astype(a.code_type)) for a, code in zip(kept, codes, strict=True)}
    )
    combination, cell = np.divmod(np.arange(states * cells), cells)
    lines = shown.reshape(-1).astype(np.float64)
    return Tally(plan.schema, combinations, combination, cell, *sums_of_ones(lines))


def _selected(
    cube: Cube,
    filters: Sequence[Expression],
    clauses: Clauses,
    order: Sequence[str],
    kept: Sequence[str],
) -> Cube:
    """The cells in which all filters hold. What a filter on one attribute excludes is cut off,
    unless the attribute is kept; the other cells that must not count are set to zero.
    """
    for clause in filters:
        if len(clause.attributes) != 1 or clause.attributes[0] in kept:
            cube = cube * clauses.along(clause, order)
    for axis, name in enumerate(order):
        alone = [clauses.along(c, [name]) for c in filters if c.attributes == (name,)]
        if alone and name not in kept:
            cube = _cut(cube, np.flatnonzero(np.logical_and.reduce(alone)), axis)
    return cube


def _cut(cube: Cube, places: Indices, axis: int) -> Cube:
    """The cube at some places of an axis; neighbouring ones are a view, and nothing is copied."""
    if len(places) and places[-1] - places[0] + 1 == len(places):
        where: list[slice] = [slice(None)] * cube.ndim
        where[axis] = slice(places[0], places[-1] + 1)
        return cube[tuple(where)]
    return cube.take(places, axis=axis)
