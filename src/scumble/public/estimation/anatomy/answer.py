"""Answers from Anatomy's two tables.

Answers from rows whose sensitive values are known by group only.

What names only rows, or only values, is counted exactly. Everything else rests on one assumption,
which each such answer states: within a group, every way to hand the values to the rows is equally
likely. Mean and variance of the truth are then known exactly.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from math import prod
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
from scumble.public.estimation.anatomy.plan import AnatomyPlan, Kinds, Layout, key, layout
from scumble.public.estimation.interval_laws import Ratio, WeightedSum
from scumble.public.estimation.tables import BoxSums, Clauses, CodeSet, CodeSets, boxes, same_shape
from scumble.public.sandbox import Sandbox

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
    engine: Sandbox,
) -> Iterator[tuple[Key, Estimate]]:
    """Every group of the answer with its estimate."""
    plan = AnatomyPlan(evidence, query)
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


def answer_together(
    evidence: Groups, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, Answer]:
    """Return the answers to counts whose conditions are about one attribute each.

    Keys are places in `queries`. The numbers are those of asking one by one.
    """
    batches = [
        places
        for (shape, _), places in same_shape(queries).items()
        if len(places) > 1 and all(len(names) == 1 for names in shape)
    ]
    if not batches:
        return {}
    together = [queries[place] for place in sorted(chain(*batches))]
    clauses = Clauses(schema, together, engine)
    many = ManyCounts(layout(evidence, schema, engine), schema, clauses, evidence.sensitive)
    found: dict[int, Answer] = {}
    for places in batches:
        plan = AnatomyPlan(evidence, queries[places[0]])
        for place, law in many.laws({place: queries[place] for place in places}):
            if isinstance(law, GroupedCount):
                found[place] = [((), _count(plan, law))]
            else:
                found[place] = [((), Estimate(float(law), Exact(), EXACT, _notes(plan)))]
    return found


def _read(engine: Sandbox, plan: AnatomyPlan) -> Iterator[tuple[Key, Mapping[str, float]]]:
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
    plan: AnatomyPlan, schema: Schema, moments: Moments
) -> Iterator[tuple[Key, Mapping[str, float]]]:
    """The moments by key; keys that nothing can have are left out."""
    keys, sums = moments.sums()
    met = np.flatnonzero(sums[:, 0]) if plan.query.groups else np.arange(1)
    _check([sums[sums[:, 0] > 0]])
    pairs = np.divmod(met, keys[1].size)
    for name, line in zip(_names(plan, schema, keys, pairs), sums[met], strict=True):
        yield name, dict(zip(COLUMNS, line.tolist(), strict=True))


def _names(
    plan: AnatomyPlan, schema: Schema, keys: Sequence[Kinds], at: Sequence[npt.NDArray[np.int64]]
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


def _known(plan: AnatomyPlan, line: Mapping[str, float]) -> Estimate:
    """An answer from one table."""
    if plan.query.aggregate == "mean":
        return _mean(plan, {**line, "count_variance": 0.0, "total_variance": 0.0})
    value = line["count" if plan.query.aggregate == "count" else "total"]
    return Estimate(value, Exact(), EXACT, _notes(plan))


def _counts(
    plan: AnatomyPlan, schema: Schema, held: Layout, sides: Sequence[Kinds]
) -> Iterator[tuple[Key, Estimate]]:
    """Counts whose conditions on rows and on values are apart: their law is known."""
    found = list(counts(held, *sides))
    laws = [law for *_, law in found]
    if not plan.query.groups:
        return iter([((), _count(plan, laws[0] if laws else GroupedCount.of_nothing()))])
    at = [np.array([each[side] for each in found], np.int64) for side in (0, 1)]
    names = _names(plan, schema, sides, at)
    return ((name, _count(plan, law)) for name, law in zip(names, laws, strict=True))


def _count(plan: AnatomyPlan, law: GroupedCount) -> Estimate:
    if law.limits[0] == law.limits[1]:
        return Estimate(float(law.limits[0]), Exact(), EXACT, _notes(plan))
    method = HYPERGEOMETRIC if law.exact else MANY
    return Estimate(law.value, law, method, (*_notes(plan), ASSUMED))


def _estimate(plan: AnatomyPlan, line: Mapping[str, float]) -> Estimate:
    """An answer by mean and variance."""
    if plan.query.aggregate == "mean":
        return _mean(plan, line)
    what = "count" if plan.query.aggregate == "count" else "total"
    largest = _swapped(plan, max(line["most"], 0.0) - min(line["least"], 0.0))
    variance = line[f"{what}_variance"]
    if not variance:
        return Estimate(line[what], Exact(), EXACT, _notes(plan))
    law = WeightedSum(variance, largest, swap_half_width)
    return Estimate(line[what], law, NORMAL, (*_notes(plan), ASSUMED))


def _mean(plan: AnatomyPlan, line: Mapping[str, float]) -> Estimate:
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
        amounts=(least, (least + most) / 2, most),
        largest=(width, width, width),
        slope=_swapped(plan, 1.0),
        bound=swap_half_width,
    )
    return Estimate(law.value, law, FIELLER, (*notes, *law.notes, ASSUMED))


def _swapped(plan: AnatomyPlan, width: float) -> float:
    """What an answer can change by if two rows swap their values and `width` is the most that one
    row can change: where the parts of the question are apart, (x - x')(y - y').
    """
    return width if plan.apart else 2 * width


def _notes(plan: AnatomyPlan) -> tuple[str, ...]:
    return plan.query.notes if plan.evidence.complete else (*plan.query.notes, LEFT_OUT)


# Many plain counts over groups: questions about the same attributes go through the rows together.
#
# Rows are sorted by cell, so that a question looks at its own rows only, and adds up by group.

Integers = npt.NDArray[np.int64]
Asked = Mapping[int, Sequence[CodeSet]]  # the sides of questions by their places

MOST_CELLS = 1 << 22
_MOST_CODES = 1 << 12  # different combinations of numbers that groups may have
_QUESTION_BLOCK = 1 << 9


class ManyCounts:
    """Counts of questions without groups about the same rows' and values' attributes."""

    def __init__(
        self, layout: Layout, schema: Schema, clauses: Clauses, sensitive: Sequence[str]
    ) -> None:
        self._layout, self._schema, self._clauses = layout, schema, clauses
        self._sensitive = sensitive
        self._sides = CodeSets(schema, clauses)

    def laws(self, queries: Mapping[int, Query]) -> Iterator[tuple[int, GroupedCount | int]]:
        """The law of each count, or the count itself if it is known, by the places of the
        questions. Those that have to be asked one by one are left out.
        """
        names = next(iter(queries.values())).attributes
        true = [name for name in names if name not in self._sensitive]
        order = [*true, *(name for name in names if name in self._sensitive)]
        found = {place: self._sides.of(query, order) for place, query in queries.items()}
        asked = {place: sides for place, sides in found.items() if sides is not None}
        if not 0 < len(true) < len(order):
            return self._known(order, asked, rows=bool(true))
        return self._spread(order, len(true), asked)

    def _known(
        self, names: Sequence[str], asked: Asked, *, rows: bool
    ) -> Iterator[tuple[int, int]]:
        """Counts of rows, or of values, which are published as they are."""
        sizes = [self._schema[name].size for name in names]
        if prod(sizes) > MOST_CELLS:
            return iter(())
        side = self._layout.rows if rows else self._layout.values
        weights = None if rows else self._layout.counts
        table = np.bincount(side.cells(names), weights, prod(sizes)).astype(np.int64)
        sums = BoxSums(table.reshape(sizes), len(sizes))
        return zip(asked, sums.of(list(asked.values())).tolist(), strict=True)

    def _spread(
        self, names: Sequence[str], true: int, asked: Asked
    ) -> Iterator[tuple[int, GroupedCount]]:
        """Counts of rows with values of their groups; questions with one condition on values
        together.
        """
        layout, sizes = self._layout, [self._schema[name].size for name in names]
        radix = np.array([layout.most_rows + 1, layout.most_values + 1, len(layout.sorts)])
        if max(prod(sizes[:true]), prod(sizes[true:])) > MOST_CELLS or radix.prod() > _MOST_CODES:
            return
        rows = _Rows(layout, names[:true], sizes[:true])
        cells = layout.values.cells(names[true:])
        together: dict[tuple[CodeSet, ...], list[int]] = defaultdict(list)
        for place, sides in asked.items():
            together[tuple(sides[true:])].append(place)
        for condition, places in together.items():
            values = self._values(condition, cells)
            for start in range(0, len(places), _QUESTION_BLOCK):
                some = places[start : start + _QUESTION_BLOCK]
                laws = rows.laws([asked[place][:true] for place in some], values, radix)
                yield from zip(some, laws, strict=True)

    def _values(self, condition: Sequence[CodeSet], cells: npt.NDArray[np.integer]) -> Integers:
        """How many values of each group satisfy a condition."""
        from scumble.public.estimation.anatomy.kernels import sum_values

        holds = np.ones(1, bool)
        for side in condition:
            holds = (holds[:, None] & side.holds).reshape(-1)
        found = np.empty(self._layout.groups, np.int64)
        sum_values(self._layout.values.starts, cells, self._layout.counts, holds, found)
        return found


class _Rows:
    """The rows of a layout in the order of their cells."""

    def __init__(self, layout: Layout, names: Sequence[str], sizes: Sequence[int]) -> None:
        self._layout = layout
        self._strides = np.array([prod(sizes[place + 1 :]) for place in range(len(sizes))])
        cells = layout.rows.cells(names)
        groups = np.repeat(np.arange(layout.groups, dtype=np.int32), layout.sizes)
        self._groups = groups[np.argsort(cells, kind="stable")]
        counts = np.bincount(cells, minlength=prod(sizes))
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    def laws(
        self, questions: Sequence[Sequence[CodeSet]], values: Integers, radix: Integers
    ) -> Iterator[GroupedCount]:
        from scumble.public.estimation.anatomy.kernels import count_boxes

        ends, first = boxes(questions, len(self._strides))
        most = len(questions) * int(radix.prod())
        codes, times = np.empty(most, np.int64), np.empty(most, np.int64)
        stops = np.empty(len(questions), np.int64)
        lines, groups = (self._starts, self._groups), (values, self._layout.sort)
        count_boxes(ends, first, self._strides, lines, groups, radix, (codes, times, stops))
        start = 0
        for stop in stops.tolist():
            rest, sort = np.divmod(codes[start:stop], radix[2])
            rows, found = np.divmod(rest, radix[1])
            yield GroupedCount(rows, found, self._layout.sorts[sort], times[start:stop].copy())
            start = stop


# Counts whose conditions on rows and on values are apart: the groups behind each answer, counted
# by how many of their rows and values satisfy it.

# Keys that are written down at a time.
_CELL_BLOCK = 1 << 20


def counts(layout: Layout, rows: Kinds, values: Kinds) -> Iterator[tuple[int, int, GroupedCount]]:
    """The law of the count for every kind of row and of value that meet."""
    radix = np.array([values.size, layout.most_rows + 1, layout.most_values + 1, len(layout.sorts)])
    if rows.size * np.prod(radix.astype(object)) >= 1 << 63:
        raise QueryError("The answer would have too many groups. Group by fewer attributes.")
    codes, times = _codes(layout, rows, values, radix)
    digits = []
    for base in radix[::-1]:
        codes, digit = np.divmod(codes, base)
        digits.append(digit)
    sort, value_times, row_times, column = digits
    ends = np.flatnonzero(np.diff(codes * values.size + column, append=-1)) + 1
    for begin, end in pairwise([0, *ends.tolist()]):
        part = slice(begin, end)
        law = GroupedCount(
            row_times[part], value_times[part], layout.sorts[sort[part]], times[part]
        )
        yield int(codes[begin]), int(column[begin]), law


def _codes(
    layout: Layout, rows: Kinds, values: Kinds, radix: Integers
) -> tuple[Integers, Integers]:
    """Keys, numbers of rows and of values, and sort of the groups, as one number each, sorted; and
    how many groups have it.
    """
    from scumble.public.estimation.anatomy.kernels import count_keys

    most = min(layout.most_rows, rows.size) * min(layout.most_lines, values.size)
    step = max(_CELL_BLOCK // max(most, 1), 1)
    # Each pair of types is compiled for itself: let there be two.
    kind = np.result_type(rows.of, values.of)
    shown, hidden = (each.of.astype(kind, copy=False) for each in (rows, values))

    def count(first: int) -> tuple[Integers, Integers]:
        codes = np.empty(step * most, np.int64)
        written = count_keys(
            (first, min(first + step, layout.groups)),
            (layout.rows.starts, shown),
            (layout.values.starts, hidden),
            layout.counts,
            layout.sort,
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
