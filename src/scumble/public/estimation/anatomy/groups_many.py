"""Many plain counts over groups: questions about the same attributes go through the rows together.

Rows are sorted by cell, so that a question looks at its own rows only, and adds up by group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimation.anatomy.groups_law import GroupedCount
from scumble.public.estimation.anatomy.groups_layout import Layout
from scumble.public.estimation.clauses import Clauses
from scumble.public.estimation.conjunctions import BoxSums, Side, Sides, boxes

Integers = npt.NDArray[np.int64]
Asked = Mapping[int, Sequence[Side]]  # the sides of questions by their places

MOST_CELLS = 1 << 22
_MOST_CODES = 1 << 12  # different combinations of numbers that groups may have
_BLOCK = 1 << 9


class ManyCounts:
    """Counts of questions without groups about the same rows' and values' attributes."""

    def __init__(
        self, layout: Layout, schema: Schema, clauses: Clauses, sensitive: Sequence[str]
    ) -> None:
        self._layout, self._schema, self._clauses = layout, schema, clauses
        self._sensitive = sensitive
        self._sides = Sides(schema, clauses)

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
        together: dict[tuple[Side, ...], list[int]] = defaultdict(list)
        for place, sides in asked.items():
            together[tuple(sides[true:])].append(place)
        for condition, places in together.items():
            values = self._values(condition, cells)
            for start in range(0, len(places), _BLOCK):
                some = places[start : start + _BLOCK]
                laws = rows.laws([asked[place][:true] for place in some], values, radix)
                yield from zip(some, laws, strict=True)

    def _values(self, condition: Sequence[Side], cells: npt.NDArray[np.integer]) -> Integers:
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
        self, questions: Sequence[Sequence[Side]], values: Integers, radix: Integers
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
