"""Answers from Anatomy's two tables: rows whose sensitive values are known by group only.

A question that names only columns of rows, or only sensitive values, is counted exactly. All others
rest on one assumption, which each such answer states: within a group, every assignment of the
values to the rows is equally likely. Mean and variance of the truth are then known exactly.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Groups
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.anatomy.moments import GroupedCount, Moments, swap_half_width
from scumble.public.estimation.anatomy.plan import (
    AnatomyPlan,
    Combinations,
    GroupLayout,
    key,
    layout,
)
from scumble.public.estimation.interval_laws import Ratio, WeightedSum
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
Integers = npt.NDArray[np.int64]

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
    engine: Sandbox,
) -> Iterator[tuple[Key, Estimate]]:
    """Return every group of the answer to `query` with its estimate."""
    plan = AnatomyPlan(evidence, query)
    if plan.only_rows or plan.only_values:
        return ((name, _known(plan, line)) for name, line in _read(engine, plan))
    held = layout(evidence, schema, engine)
    sides = (
        held.rows.combinations(engine, plan.needed(sensitive=False), plan.about_rows),
        held.values.combinations(engine, plan.needed(sensitive=True), plan.about_values),
    )
    if plan.separable and query.aggregate == "count":
        return _counts(plan, schema, held, sides)
    moments = Moments(plan, schema, engine, held, sides)
    return ((name, _estimate(plan, line)) for name, line in _sums(plan, schema, moments))


def _read(engine: Sandbox, plan: AnatomyPlan) -> Iterator[tuple[Key, Mapping[str, float]]]:
    """Yield the sums of a question to one table by key; a sum over no rows is 0."""
    table = engine.rows(plan.one_table())
    names = [name for name in table.column_names if not name.startswith("scumble key ")]
    columns = {name: table[name].cast(pa.float64()).fill_null(0.0).to_numpy() for name in names}
    _check(list(columns.values()))
    keys = [table[key(name)[1:-1]].to_pylist() for name in plan.query.groups]
    names_of = zip(*keys, strict=True) if keys else iter([()])
    for place, found in enumerate(names_of):
        yield found, {name: float(column[place]) for name, column in columns.items()}


def _sums(
    plan: AnatomyPlan, schema: Schema, moments: Moments
) -> Iterator[tuple[Key, Mapping[str, float]]]:
    """Yield the moments by key, without the keys that are impossible."""
    keys, sums = moments.sums()
    met = np.flatnonzero(sums[:, 0]) if plan.query.groups else np.arange(1)
    _check([sums[sums[:, 0] > 0]])
    pairs = np.divmod(met, keys[1].size)
    for name, line in zip(_names(plan, schema, keys, pairs), sums[met], strict=True):
        yield name, dict(zip(COLUMNS, line.tolist(), strict=True))


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
    """Return the answer to a question to one table."""
    if plan.query.aggregate == "mean":
        return _mean(plan, {**line, "count_variance": 0.0, "total_variance": 0.0})
    return known_estimate(plan, line["count" if plan.query.aggregate == "count" else "total"])


def known_estimate(plan: AnatomyPlan, value: float) -> Estimate:
    """Return an answer without error."""
    return Estimate(value, Exact(), EXACT, _notes(plan))


def _counts(
    plan: AnatomyPlan, schema: Schema, held: GroupLayout, sides: Sequence[Combinations]
) -> Iterator[tuple[Key, Estimate]]:
    """Return counts of which no clause names both rows and values: their law is known."""
    found = list(count_laws(held, *sides))
    laws = [law for *_, law in found]
    if not plan.query.groups:
        return iter([((), count_estimate(plan, laws[0] if laws else GroupedCount.of_nothing()))])
    at = [np.array([each[side] for each in found], np.int64) for side in (0, 1)]
    names = _names(plan, schema, sides, at)
    return ((name, count_estimate(plan, law)) for name, law in zip(names, laws, strict=True))


def count_estimate(plan: AnatomyPlan, law: GroupedCount) -> Estimate:
    """Return a count by its law; it is exact if the law has one value."""
    if law.limits[0] == law.limits[1]:
        return known_estimate(plan, float(law.limits[0]))
    method = HYPERGEOMETRIC if law.exact else MANY
    return Estimate(law.value, law, method, (*_notes(plan), ASSUMED))


def _estimate(plan: AnatomyPlan, line: Mapping[str, float]) -> Estimate:
    """Return an answer by its mean and variance."""
    if plan.query.aggregate == "mean":
        return _mean(plan, line)
    what = "count" if plan.query.aggregate == "count" else "total"
    largest = _swapped(plan, max(line["most"], 0.0) - min(line["least"], 0.0))
    variance = line[f"{what}_variance"]
    if not variance:
        return known_estimate(plan, line[what])
    law = WeightedSum(variance, largest, swap_half_width)
    return Estimate(line[what], law, NORMAL, (*_notes(plan), ASSUMED))


def _mean(plan: AnatomyPlan, line: Mapping[str, float]) -> Estimate:
    total, count, notes = line["total"], line["count"], _notes(plan)
    if not count:
        nothing = "no published row satisfies the condition"
        return Estimate(float("nan"), Unknown(), "average of no rows", (*notes, nothing))
    if not line["count_variance"] and not line["total_variance"]:
        return known_estimate(plan, total / count)
    least, most = line["least"], line["most"]
    width = _swapped(plan, most - least)
    law = Ratio(
        total,
        count,
        variances=(max(line["total_variance"], 0.0), line["count_variance"], line["covariance"]),
        amounts=(least, (least + most) / 2, most),
        largest=(width, width, width),
        slope=_swapped(plan, 1.0),
        bound=swap_half_width,
    )
    return Estimate(law.value, law, FIELLER, (*notes, *law.notes, ASSUMED))


def _swapped(plan: AnatomyPlan, width: float) -> float:
    """Return the largest change of an answer if two rows swap their values.

    `width` is the largest change by one row. If the question is separable, the change by a swap is
    (x - x')(y - y').
    """
    return width if plan.separable else 2 * width


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
        found = pa.array(codes[:written]).value_counts()
        return found.field("values").to_numpy(), found.field("counts").to_numpy()

    nothing = np.empty(0, np.int64)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [(nothing, nothing), *pool.map(count, range(0, layout.groups, step))]
    codes, places = np.unique(np.concatenate([part for part, _ in found]), return_inverse=True)
    times = np.zeros(len(codes), np.int64)
    np.add.at(times, places, np.concatenate([part for _, part in found]))
    return codes, times
