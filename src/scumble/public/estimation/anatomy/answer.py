"""Answers from Anatomy's two tables: rows whose sensitive values are known by group only.

A question that names only columns of rows, or only sensitive values, is counted exactly. Counts
that name both come from a regression over groups (`regression.py`), sums and averages in `sums.py`.
Their intervals assume nothing about how values go with rows. They are cut to what is certain;
within that, their coverage is tested by enumeration and simulation, and is no theorem.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model import arrow_compute as pc
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Groups
from scumble.model.long_work import told
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.anatomy.laws import DealtSum, Unbiased
from scumble.public.estimation.anatomy.moments import GroupedCount, Moments
from scumble.public.estimation.anatomy.plan import (
    AnatomyPlan,
    Combinations,
    GroupLayout,
    key,
    layout,
)
from scumble.public.estimation.anatomy.regression import Regressed, Regression, Target, regression
from scumble.public.estimation.anatomy.sums import NO_ROWS, DealtSums
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
Integers = npt.NDArray[np.int64]

EXACT = "exact: no sensitive value has to be told from the others of its group"
PUBLISHED = "exact for the published rows; the interval adds the rows that were left out"
REGRESSION = "regression over groups; interval cut to what every assignment of values allows"
BOUNDS = "even spread where groups tell no more; interval of all that they allow"
FIELLER = "ratio of regressions over groups; Fieller interval cut to what is possible"
LEFT_OUT = "rows with too frequent values were left out of the release"
_MOST_SHARES = 1 << 24  # keys of rows, times values, for which there is a regression


def answer(
    evidence: Groups,
    schema: Schema,
    query: Query,
    engine: Sandbox,
) -> Iterator[tuple[Key, Estimate]]:
    """Return every group of the answer to `query` with its estimate."""
    plan = AnatomyPlan(evidence, query)
    if evidence.complete and (plan.only_rows or plan.only_values):
        return ((name, _known(plan, line)) for name, line in _read(engine, plan))
    held = layout(evidence, schema, engine)
    sides = (
        held.rows.combinations(engine, plan.needed(sensitive=False), plan.about_rows),
        held.values.combinations(engine, plan.needed(sensitive=True), plan.about_values),
    )
    fitted = regression(evidence, held, engine)
    if plan.separable and query.aggregate == "count":
        return _counts(plan, schema, held, sides, fitted)
    sums = DealtSums(plan, Moments(plan, schema, engine, held, sides), held, fitted, engine)
    return _sums(plan, schema, sums)


def _read(engine: Sandbox, plan: AnatomyPlan) -> Iterator[tuple[Key, Mapping[str, float]]]:
    """Yield the sums of a question to one table by key; a sum over no rows is 0."""
    table = engine.rows(plan.one_table())
    names = [name for name in table.column_names if not name.startswith("scumble key ")]
    columns = {
        name: pc.fill_null(pc.cast(table[name], pa.float64()), 0.0).to_numpy() for name in names
    }
    _check(list(columns.values()))
    keys = [table[key(name)[1:-1]].to_pylist() for name in plan.query.groups]
    names_of = zip(*keys, strict=True) if keys else iter([()])
    for place, found in enumerate(names_of):
        yield found, {name: float(column[place]) for name, column in columns.items()}


def _sums(plan: AnatomyPlan, schema: Schema, sums: DealtSums) -> Iterator[tuple[Key, Estimate]]:
    """Yield sums, averages and mixed counts by key, without the keys that are impossible."""
    keys, lines = sums.keys, sums.lines
    met = np.flatnonzero(lines[:, 0]) if plan.query.groups else np.arange(1)
    _check([lines[lines[:, 0] > 0]])
    if not len(lines):
        lines = np.zeros((1, lines.shape[1]))
    pairs = np.divmod(met, max(keys[1].size, 1))
    names = _names(plan, schema, keys, pairs) if plan.query.groups else [()]
    for _, name, row, value, line in zip(
        told(met.tolist()), names, *pairs, lines[met], strict=True
    ):
        yield name, _estimate(plan, sums, (int(row), int(value)), line)


def _estimate(
    plan: AnatomyPlan, sums: DealtSums, at: tuple[int, int], line: npt.NDArray[np.float64]
) -> Estimate:
    notes = _notes(plan)
    if plan.query.aggregate == "mean":
        if not line[0]:
            return Estimate(float("nan"), Unknown(), "average of no rows", (*notes, NO_ROWS))
        value, average = sums.average(at, line)
        if average is None:
            return known_estimate(plan, value)
        return Estimate(value, average, FIELLER, (*notes, *average.notes))
    value, law = sums.total(at, line, "count" if plan.query.aggregate == "count" else "total")
    if law is None:
        return known_estimate(plan, value)
    return Estimate(value, law, BOUNDS if law.unbiased is None else REGRESSION, notes)


def _names(
    plan: AnatomyPlan,
    schema: Schema,
    keys: Sequence[Combinations],
    at: Sequence[npt.NDArray[np.int64]],
) -> Iterable[Key]:
    """Return the values of the grouped attributes, of combinations of rows and of values."""
    columns: dict[str, pa.Array] = {}
    for combinations, places in zip(keys, at, strict=True):
        columns |= combinations.values(schema, places)
    if not plan.query.groups:
        return [()] * len(at[0])
    return zip(*(columns[name].to_pylist() for name in plan.query.groups), strict=True)


def _check(columns: Sequence[npt.NDArray[np.float64]]) -> None:
    if not all(np.isfinite(column).all() for column in columns):
        raise QueryError(
            "The summed expression is not a finite number for every row that satisfies the "
            "condition. Exclude such rows in WHERE, or guard the expression with CASE."
        )


def _known(plan: AnatomyPlan, line: Mapping[str, float]) -> Estimate:
    """Return the answer to a question to one table of a complete release."""
    if plan.query.aggregate != "mean":
        return known_estimate(plan, line["count" if plan.query.aggregate == "count" else "total"])
    if not line["count"]:
        return Estimate(float("nan"), Unknown(), "average of no rows", (*_notes(plan), NO_ROWS))
    return known_estimate(plan, line["total"] / line["count"])


def known_estimate(plan: AnatomyPlan, value: float) -> Estimate:
    """Return an answer without error."""
    return Estimate(value, Exact(), EXACT, _notes(plan))


def _counts(
    plan: AnatomyPlan,
    schema: Schema,
    held: GroupLayout,
    sides: Sequence[Combinations],
    fitted: Regression,
) -> Iterator[tuple[Key, Estimate]]:
    """Return counts of which no clause names both rows and values."""
    found = list(count_laws(held, *sides))
    wanted = fitted.of_values(sides[1].of)
    estimates = _counted(plan, found, sides, wanted, fitted)
    if not plan.query.groups:
        nothing = count_estimate(
            plan, GroupedCount.of_nothing(), None, (0.0, plan.evidence.missing)
        )
        return iter([((), next(estimates, nothing))])
    at = [np.array([each[side] for each in found], np.int64) for side in (0, 1)]
    return zip(_names(plan, schema, sides, at), estimates, strict=True)


def _counted(
    plan: AnatomyPlan,
    found: Sequence[tuple[int, int, GroupedCount]],
    sides: Sequence[Combinations],
    wanted: Integers,
    fitted: Regression,
) -> Iterator[Estimate]:
    """Yield the estimates of counts; `wanted` is the key of each value of the regression."""
    rows, several = sides[0], len(found) > 0
    spread = met = None
    if several and fitted.possible and rows.size * fitted.size <= _MOST_SHARES:
        met = fitted.together(rows.of, rows.size).astype(np.float64)
        spread = fitted.spread_of_counts(met)
    known: dict[int, tuple[Target, Regressed]] = {}
    for row, value, law in found:
        missing = missing_rows(plan, fitted.most_frequent, wanted == value)
        if spread is None or met is None:
            yield count_estimate(plan, law, None, missing)
            continue
        if value not in known:
            target = fitted.target((wanted == value).astype(np.float64))
            known[value] = target, fitted.read(target, met, spread)
        target, read = known[value]
        yield count_estimate(plan, law, regressed_count(target, read, row), missing)


def regressed_count(target: Target, read: Regressed, row: int) -> tuple[float, Unbiased | None]:
    """Return the value to show and the regression's estimate; None if it cannot tell."""
    if not target.estimable:
        return float(read.values[row]), None
    value, variance, most = read.unbiased[row], read.variances[row], read.largest[row]
    law = Unbiased(float(value), float(variance), float(most), target.reach)
    return float(read.values[row]), law


def count_estimate(
    plan: AnatomyPlan,
    law: GroupedCount,
    regressed: tuple[float, Unbiased | None] | None,
    missing: tuple[float, float] = (0.0, 0.0),
) -> Estimate:
    """Return a count by its law under even spread and by regression; exact if it has one value.

    `missing` are the least and the largest number of left-out rows that belong to the count.
    """
    least, most = law.limits
    if least == most and missing[0] == missing[1] < math.inf:
        return known_estimate(plan, least + missing[0])
    known = None if regressed is None or least == most else regressed[1]
    found = DealtSum(law.value, law, (float(least), float(most)), known, missing)
    value = found.clip(law.value if regressed is None else regressed[0])
    method = PUBLISHED if least == most else BOUNDS if known is None else REGRESSION
    return Estimate(value, found, method, _notes(plan))


def missing_rows(
    plan: AnatomyPlan, frequent: npt.NDArray[np.bool_], counted: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """Return the least and the largest number of left-out rows among those that are `counted`.

    All that were left out have one of the most frequent values. So all of them count if these
    values do, whatever else the rows are like, and none if none of these values does.
    """
    missing = plan.evidence.missing
    if not frequent[counted].any():
        return 0.0, 0.0
    free = not plan.about_rows and not plan.needed(sensitive=False)
    return (missing if free and counted[frequent].all() else 0.0), missing


def _notes(plan: AnatomyPlan) -> tuple[str, ...]:
    return plan.query.notes if plan.evidence.complete else (*plan.query.notes, LEFT_OUT)


# Separable counts: the groups behind each answer, counted by how many of their rows and of their
# values satisfy the question.

_CELL_BLOCK = 1 << 20  # keys that are written at a time


def count_laws(
    layout: GroupLayout, rows: Combinations, values: Combinations
) -> Iterator[tuple[int, int, GroupedCount]]:
    """Yield every combination of rows and of values in a common group, and the law of its count."""
    radix = np.array(
        [values.size, layout.most_rows + 1, layout.most_values + 1, len(layout.distinct_sizes)]
    )
    if rows.size * np.prod(radix.astype(object)) >= 1 << 63:
        raise QueryError("The answer would have too many groups. Group by fewer attributes.")
    codes, times = _codes(layout, rows, values, radix)
    digits = []
    for base in radix[::-1]:
        codes, digit = np.divmod(codes, base)
        digits.append(digit)
    size, value_times, row_times, column = digits
    ends = np.flatnonzero(np.diff(codes * values.size + column, append=-1)) + 1
    for begin, end in pairwise([0, *ends.tolist()]):
        part = slice(begin, end)
        law = GroupedCount(
            row_times[part], value_times[part], layout.distinct_sizes[size[part]], times[part]
        )
        yield int(codes[begin]), int(column[begin]), law


def _codes(
    layout: GroupLayout, rows: Combinations, values: Combinations, radix: Integers
) -> tuple[Integers, Integers]:
    """Return the distinct codes of groups, sorted, and how many groups have each.

    A code packs the keys, the numbers of rows and of values, and the index of the group's size.
    """
    from scumble.public.estimation.anatomy.kernels import count_keys

    most = min(layout.most_rows, rows.size) * min(layout.most_lines, values.size)
    step = max(_CELL_BLOCK // max(most, 1), 1)
    # The kernel is compiled for each pair of types: use one type for both.
    common = np.result_type(rows.of, values.of)
    shown, hidden = (each.of.astype(common, copy=False) for each in (rows, values))

    def count(first: int) -> tuple[Integers, Integers]:
        codes = np.empty(step * most, np.int64)
        written = count_keys(
            (first, min(first + step, layout.groups)),
            (layout.rows.starts, shown),
            (layout.values.starts, hidden),
            layout.counts,
            layout.size_index,
            radix,
            codes,
        )
        found = pc.value_counts(pc.column(codes[:written]))
        return found.field("values").to_numpy(), found.field("counts").to_numpy()

    nothing = np.empty(0, np.int64)
    if layout.groups <= step:
        found = [count(0)]
    else:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = [(nothing, nothing), *pool.map(count, range(0, layout.groups, step))]
    codes, places = np.unique(np.concatenate([part for part, _ in found]), return_inverse=True)
    times = np.zeros(len(codes), np.int64)
    np.add.at(times, places, np.concatenate([part for _, part in found]))
    return codes, times
