"""Answers from rows whose sensitive values are known by group only.

What names only rows, or only values, is counted exactly. Everything else rests on one assumption,
which each such answer states: within a group, every way to hand the values to the rows is equally
likely. Mean and variance of the truth are then known exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from scumble.engine.duckdb import Engine
from scumble.errors import QueryError
from scumble.estimate import Estimate, Exact, Unknown
from scumble.estimators import groups_pairs
from scumble.estimators.groups_law import GroupedCount, GroupedSum, reach
from scumble.estimators.groups_layout import layout
from scumble.estimators.groups_plan import SIZE, Plan, condition, key
from scumble.estimators.ratio_law import Ratio
from scumble.evidence import Groups
from scumble.query import Query
from scumble.schema import Schema

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
# Of a variance that is a difference of large numbers, what rounding may leave of zero.
_ROUNDING = 1e-12


def answer(
    evidence: Groups,
    schema: Schema,  # noqa: ARG001  (what every estimator is given)
    query: Query,
    engine: Engine,
) -> Iterator[tuple[Key, Estimate]]:
    """Every group of the answer with its estimate."""
    plan = Plan(evidence, query)
    if plan.only_rows or plan.only_values:
        lines = _read(engine, plan, plan.one_table())
        return ((name, _known(plan, line)) for name, line in lines)
    if plan.apart and query.aggregate == "count":
        return _counts(plan, engine)
    statement = plan.moments() if plan.apart else groups_pairs.moments(plan)
    return ((name, _estimate(plan, line)) for name, line in _read(engine, plan, statement))


def answer_many(
    evidence: Groups, schema: Schema, queries: Sequence[Query], engine: Engine
) -> list[Answer]:
    """Each question's groups with their estimates."""
    answers = []
    for query in queries:
        engine.check(query)
        answers.append(list(answer(evidence, schema, query, engine)))
    return answers


def _read(engine: Engine, plan: Plan, statement: str) -> Iterator[tuple[Key, Mapping[str, float]]]:
    """The lines of a statement by key; what is summed over nothing is 0."""
    table = engine.rows(statement)
    names = [name for name in table.column_names if not name.startswith("scumble key ")]
    numbers = {name: table[name].cast(pa.float64()).fill_null(0.0).to_numpy() for name in names}
    if not all(np.isfinite(column).all() for column in numbers.values()):
        raise QueryError(
            "The summed expression is not a finite number for every row that satisfies the "
            "condition. Exclude such rows in WHERE, or guard the expression with CASE."
        )
    for place, found in enumerate(_keys(plan, table)):
        yield found, {name: float(column[place]) for name, column in numbers.items()}


def _keys(plan: Plan, table: pa.Table) -> Iterable[Key]:
    columns = [table[key(name)[1:-1]].to_pylist() for name in plan.query.groups]
    return zip(*columns, strict=True) if columns else [()] * table.num_rows


def _known(plan: Plan, line: Mapping[str, float]) -> Estimate:
    """An answer from one table."""
    if plan.query.aggregate == "mean":
        return _mean(plan, {**line, "count_variance": 0.0, "total_variance": 0.0})
    value = line["count" if plan.query.aggregate == "count" else "total"]
    return Estimate(value, Exact(), EXACT, _notes(plan))


def _counts(plan: Plan, engine: Engine) -> Iterator[tuple[Key, Estimate]]:
    """Counts whose conditions on rows and on values are apart: their law is known."""
    if not plan.query.groups:
        rows, values = condition(plan.about_rows), condition(plan.about_values)
        law = layout(plan.evidence, engine).count(engine, f"({rows})", values)
        return iter([((), _count(plan, law))])
    kinds: dict[Key, list[Mapping[str, float]]] = {}
    for name, line in _read(engine, plan, plan.counts()):
        kinds.setdefault(name, []).append(line)
    names = ("rows", "values", SIZE[1:-1], "times")
    columns = (
        (name, (np.array([line[each] for line in lines], np.int64) for each in names))
        for name, lines in kinds.items()
    )
    return ((name, _count(plan, GroupedCount(*each))) for name, each in columns)


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
    if variance <= _ROUNDING * largest * largest * line["count"]:
        return Estimate(line[what], Exact(), EXACT, _notes(plan))
    law = GroupedSum(variance, largest)
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
