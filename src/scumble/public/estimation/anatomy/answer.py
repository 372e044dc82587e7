"""Answers from rows whose sensitive values are known by group only.

What names only rows, or only values, is counted exactly. Everything else rests on one assumption,
which each such answer states: within a group, every way to hand the values to the rows is equally
likely. Mean and variance of the truth are then known exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Groups
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.anatomy.groups_counts import counts
from scumble.public.estimation.anatomy.groups_kinds import Kinds
from scumble.public.estimation.anatomy.groups_law import GroupedCount, reach
from scumble.public.estimation.anatomy.groups_layout import Layout, layout
from scumble.public.estimation.anatomy.groups_many import ManyCounts
from scumble.public.estimation.anatomy.moments import Moments
from scumble.public.estimation.anatomy.plan import Plan, key
from scumble.public.estimation.clauses import Clauses
from scumble.public.estimation.conjunctions import alike
from scumble.public.estimation.interval_laws import Ratio
from scumble.public.estimation.sum_law import WeightedSum
from scumble.public.sandbox import Engine

Key = tuple[Any, ...]
Answer = list[tuple[Key, Estimate]]

EXACT = "exact: no sensitive value has to be told from the others of its group"
HYPERGEOMETRIC = "even spread within groups; exact hypergeometric interval"
MANY = "even spread within groups; normal interval of a hypergeometric sum"
NORMAL = "even spread within groups; normal interval of the exact variance"
FIELLER = "ratio under even spread within groups; Fieller interval"
ASSUMED = (
    "assumes that sensitive values are spread evenly within each group; if they go together with "
    "other columns, this answer is biased, and the interval does not show it"
)
LEFT_OUT = "rows with too frequent values were left out of the release"
COLUMNS = ("count", "total", "count_variance", "total_variance", "covariance", "least", "most")


def answer(
    evidence: Groups,
    schema: Schema,
    query: Query,
    engine: Engine,
) -> Iterator[tuple[Key, Estimate]]:
    """Every group of the answer with its estimate."""
    plan = Plan(evidence, query)
    if plan.only_rows or plan.only_values:
        return ((name, _known(plan, line)) for name, line in _read(engine, plan))
    held = layout(evidence, schema, engine)
    sides = (
        held.rows.kinds(engine, plan.named(sensitive=False), plan.about_rows),
        held.values.kinds(engine, plan.named(sensitive=True), plan.about_values),
    )
    if plan.apart and query.aggregate == "count":
        return _counts(plan, schema, held, sides)
    moments = Moments(plan, schema, engine, held, sides)
    return ((name, _estimate(plan, line)) for name, line in _sums(plan, schema, moments))


def answer_many(
    evidence: Groups, schema: Schema, queries: Sequence[Query], engine: Engine
) -> list[Answer]:
    """Each question's groups with their estimates: the same numbers as asking one by one."""
    found = _together(evidence, schema, queries, engine)
    answers = []
    for place, query in enumerate(queries):
        if place in found:
            answers.append([((), found[place])])
        else:
            engine.check(query)
            answers.append(list(answer(evidence, schema, query, engine)))
    return answers


def _together(
    evidence: Groups, schema: Schema, queries: Sequence[Query], engine: Engine
) -> dict[int, Estimate]:
    """The answers to counts whose conditions are about one attribute each, by place."""
    batches = [
        places
        for (shape, _), places in alike(queries).items()
        if len(places) > 1 and all(len(names) == 1 for names in shape)
    ]
    if not batches:
        return {}
    together = [queries[place] for place in sorted(chain(*batches))]
    clauses = Clauses(schema, together, engine)
    many = ManyCounts(layout(evidence, schema, engine), schema, clauses, evidence.sensitive)
    found: dict[int, Estimate] = {}
    for places in batches:
        plan = Plan(evidence, queries[places[0]])
        for place, law in many.laws({place: queries[place] for place in places}):
            if isinstance(law, GroupedCount):
                found[place] = _count(plan, law)
            else:
                found[place] = Estimate(float(law), Exact(), EXACT, _notes(plan))
    return found


def _read(engine: Engine, plan: Plan) -> Iterator[tuple[Key, Mapping[str, float]]]:
    """The answer from one table by key; what is summed over nothing is 0."""
    table = engine.rows(plan.one_table())
    names = [name for name in table.column_names if not name.startswith("scumble key ")]
    columns = {name: table[name].cast(pa.float64()).fill_null(0.0).to_numpy() for name in names}
    _check(list(columns.values()))
    keys = [table[key(name)[1:-1]].to_pylist() for name in plan.query.groups]
    names_of = zip(*keys, strict=True) if keys else iter([()])
    for place, found in enumerate(names_of):
        yield found, {name: float(column[place]) for name, column in columns.items()}


def _sums(
    plan: Plan, schema: Schema, moments: Moments
) -> Iterator[tuple[Key, Mapping[str, float]]]:
    """The moments by key; keys that nothing can have are left out."""
    keys, sums = moments.sums()
    met = np.flatnonzero(sums[:, 0]) if plan.query.groups else np.arange(1)
    _check([sums[sums[:, 0] > 0]])
    pairs = np.divmod(met, keys[1].size)
    for name, line in zip(_names(plan, schema, keys, pairs), sums[met], strict=True):
        yield name, dict(zip(COLUMNS, line.tolist(), strict=True))


def _names(
    plan: Plan, schema: Schema, keys: Sequence[Kinds], at: Sequence[npt.NDArray[np.int64]]
) -> Iterable[Key]:
    """The values of the grouped attributes, of kinds of rows and of values."""
    columns: dict[str, pa.Array] = {}
    for kinds, places in zip(keys, at, strict=True):
        columns |= kinds.values(schema, places)
    if not plan.query.groups:
        return [()] * len(at[0])
    return zip(*(columns[name].to_pylist() for name in plan.query.groups), strict=True)


def _check(columns: Sequence[npt.NDArray[np.float64]]) -> None:
    if not all(np.isfinite(column).all() for column in columns):
        raise QueryError(
            "The summed expression is not a finite number for every row that satisfies the "
            "condition. Exclude such rows in WHERE, or guard the expression with CASE."
        )


def _known(plan: Plan, line: Mapping[str, float]) -> Estimate:
    """An answer from one table."""
    if plan.query.aggregate == "mean":
        return _mean(plan, {**line, "count_variance": 0.0, "total_variance": 0.0})
    value = line["count" if plan.query.aggregate == "count" else "total"]
    return Estimate(value, Exact(), EXACT, _notes(plan))


def _counts(
    plan: Plan, schema: Schema, held: Layout, sides: Sequence[Kinds]
) -> Iterator[tuple[Key, Estimate]]:
    """Counts whose conditions on rows and on values are apart: their law is known."""
    found = list(counts(held, *sides))
    laws = [law for *_, law in found]
    if not plan.query.groups:
        return iter([((), _count(plan, laws[0] if laws else GroupedCount.of_nothing()))])
    at = [np.array([each[side] for each in found], np.int64) for side in (0, 1)]
    names = _names(plan, schema, sides, at)
    return ((name, _count(plan, law)) for name, law in zip(names, laws, strict=True))


def _count(plan: Plan, law: GroupedCount) -> Estimate:
    if law.limits[0] == law.limits[1]:
        return Estimate(float(law.limits[0]), Exact(), EXACT, _notes(plan))
    method = HYPERGEOMETRIC if law.exact else MANY
    return Estimate(law.value, law, method, (*_notes(plan), ASSUMED))


def _estimate(plan: Plan, line: Mapping[str, float]) -> Estimate:
    """An answer by mean and variance."""
    if plan.query.aggregate == "mean":
        return _mean(plan, line)
    what = "count" if plan.query.aggregate == "count" else "total"
    largest = _swapped(plan, max(line["most"], 0.0) - min(line["least"], 0.0))
    variance = line[f"{what}_variance"]
    if not variance:
        return Estimate(line[what], Exact(), EXACT, _notes(plan))
    law = WeightedSum(variance, largest, reach)
    return Estimate(line[what], law, NORMAL, (*_notes(plan), ASSUMED))


def _mean(plan: Plan, line: Mapping[str, float]) -> Estimate:
    total, count, notes = line["total"], line["count"], _notes(plan)
    if not count:
        nothing = "no published row satisfies the condition"
        return Estimate(float("nan"), Unknown(), "average of no rows", (*notes, nothing))
    if not line["count_variance"] and not line["total_variance"]:
        return Estimate(total / count, Exact(), EXACT, notes)
    least, most = line["least"], line["most"]
    width = _swapped(plan, most - least)
    law = Ratio(
        total,
        count,
        variances=(max(line["total_variance"], 0.0), line["count_variance"], line["covariance"]),
        bends=(least, (least + most) / 2, most),
        largest=(width, width, width),
        slope=_swapped(plan, 1.0),
        reach=reach,
    )
    return Estimate(law.value, law, FIELLER, (*notes, *law.notes, ASSUMED))


def _swapped(plan: Plan, width: float) -> float:
    """What an answer can change by if two rows swap their values and `width` is the most that one
    row can change: where the parts of the question are apart, (x - x')(y - y').
    """
    return width if plan.apart else 2 * width


def _notes(plan: Plan) -> tuple[str, ...]:
    return plan.query.notes if plan.evidence.complete else (*plan.query.notes, LEFT_OUT)
