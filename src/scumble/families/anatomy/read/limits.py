"""The least and the largest count and total over all assignments of values to rows, for every key
of an answer, and their means.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.families.anatomy.read.kernels import COUNT, add_counts, add_limits
from scumble.families.anatomy.read.plan import AnatomyPlan, Combinations, GroupLayout, number
from scumble.model.errors import QueryError
from scumble.model.query import Expression
from scumble.model.schema.schema import Schema
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

_BATCH = 1 << 20  # pairs of cells of rows and of values for which a question is evaluated at a time
_MOST_CELLS = 1 << 25  # such pairs whose amounts are in memory at a time
_MOST_KEYS = 1 << 23  # of an answer
_SHARED_KEYS = 1 << 22  # of all threads together, each of which has its own sums


class AnswerLimits:
    """The limits of a question over a layout.

    `sides` are the combinations of rows and of values on which the question depends. Combinations
    with the same values of the grouped attributes share a key.
    """

    def __init__(
        self,
        plan: AnatomyPlan,
        schema: Schema,
        engine: Sandbox,
        layout: GroupLayout,
        sides: Sequence[Combinations],
    ) -> None:
        self._schema, self._engine, self._layout = schema, engine, layout
        self._groups = plan.query.groups
        self._parts = plan.joint_parts
        self.kind = plan.amount_kind
        self._sides = sides
        named = {name for part in self._parts for name in part.attributes}
        self._keys = list(sides)  # of a count, which depends on the grouped attributes alone
        if self.kind != COUNT:
            self._keys = [
                side.on(n for n in side.codes if n in plan.query.groups) for side in sides
            ]
        self._cells = [side.on(name for name in side.codes if name in named) for side in sides]

    def sums(self) -> tuple[list[Combinations], Floats]:
        """Return the keys of rows and of values, and for each pair of keys a line.

        A line has the count (its mean over all assignments, the least and the largest). If it is
        not a count that is asked for, the total follows in the same way, and the least and the
        largest amount.
        """
        total = self._keys[0].size * self._keys[1].size
        if total > _MOST_KEYS:
            raise QueryError(
                f"GROUP BY {', '.join(self._groups)} has more than {_MOST_KEYS:,} combinations of "
                "values. Group by fewer columns."
            )
        empty = np.array([0.0] * 3 if self.kind == COUNT else [0.0] * 6 + [np.inf, -np.inf])
        if not total:  # no row, or no value, satisfies what is asked of it alone
            return self._keys, np.empty((0, len(empty)))
        threads = max(min(os.cpu_count() or 1, _SHARED_KEYS // total), 1)
        parts = [np.tile(empty, (total, 1)) for _ in range(threads)]
        if self.kind == COUNT:
            self._add_counts(parts)
            return self._keys, np.sum(parts, axis=0)
        every = [np.arange(cells.size) for cells in self._cells]
        for first, last, used in self._blocks(0, self._layout.groups, every):
            self._add(first, last, used, parts)
        sums = np.sum(parts, axis=0)
        sums[:, 6] = np.min([part[:, 6] for part in parts], axis=0)
        sums[:, 7] = np.max([part[:, 7] for part in parts], axis=0)
        return self._keys, sums

    def amounts(self) -> Floats:
        """Return the amount of every cell of rows or of values, if it depends on one of them."""
        return self._table([np.arange(cells.size) for cells in self._cells]).reshape(-1)

    def keys_by_line(self, side: int) -> Places:
        """Return the key of each line of rows (0) or values (1); -1 for no key."""
        of = self._sides[side].of
        return of if self.kind == COUNT else np.append(self._keys[side].of, -1)[of]

    def cells_by_line(self, side: int) -> Places:
        """Return the cell of each line of rows (0) or values (1); -1 for no cell."""
        return np.append(self._cells[side].of, -1)[self._sides[side].of]

    def _add_counts(self, parts: Sequence[Floats]) -> None:
        # The kernel is compiled for each pair of types: use one type for both.
        common = np.result_type(*(side.of for side in self._sides))
        shown, hidden = (side.of.astype(common, copy=False) for side in self._sides)
        rows, values = (self._layout.rows.starts, shown), (self._layout.values.starts, hidden)

        def add(share: tuple[int, int], sums: Floats) -> None:
            add_counts(share, rows, values, self._layout.counts, self._keys[1].size, sums)

        self._in_threads(0, self._layout.groups, parts, add)

    def _blocks(
        self, first: int, last: int, used: Sequence[Places]
    ) -> Iterator[tuple[int, int, Sequence[Places]]]:
        """Yield ranges of groups with few enough cells, and these; usually there is one range."""
        if len(used[0]) * len(used[1]) <= _MOST_CELLS or last - first < 2:
            yield first, last, used
            return
        for part in pairwise((first, (first + last) // 2, last)):
            yield from self._blocks(*part, [self._list_used(side, *part) for side in (0, 1)])

    def _list_used(self, side: int, first: int, last: int) -> Places:
        """Return the cells of one side that occur in a range of groups."""
        starts = (self._layout.rows, self._layout.values)[side].starts
        there = np.zeros(self._sides[side].size + 1, bool)
        there[self._sides[side].of[starts[first] : starts[last]]] = True  # -1 is the last
        return np.unique(self._cells[side].of[np.flatnonzero(there[:-1])]).astype(np.int64)

    def _add(self, first: int, last: int, used: Sequence[Places], parts: Sequence[Floats]) -> None:
        table = self._table(used)
        layout = self._layout
        sides = []
        for side, line in enumerate((layout.rows, layout.values)):
            position = np.zeros(self._cells[side].size, np.int64)
            position[used[side]] = np.arange(len(used[side]))
            cells = position[self._cells[side].of]
            combinations, keys = (
                lists[side].of.astype(np.int32) for lists in (self._sides, self._keys)
            )
            sides.append((line.starts, combinations, keys, cells))
        rows, values = sides

        def add(share: tuple[int, int], sums: Floats) -> None:
            keys = self._keys[1].size
            add_limits(share, rows, values, layout.counts, table, keys, self.kind, sums)

        self._in_threads(first, last, parts, add)

    @staticmethod
    def _in_threads(
        first: int,
        last: int,
        parts: Sequence[Floats],
        add: Callable[[tuple[int, int], Floats], None],
    ) -> None:
        """Call `add` with a range of the groups and the sums of each thread."""
        borders = np.linspace(first, last, len(parts) + 1).astype(np.int64).tolist()
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(add, pairwise(borders), parts))

    def _table(self, used: Sequence[Places]) -> Floats:
        """Return what a row and a value of these cells add to the answer; NaN if nothing."""
        width = len(used[1])
        amounts = np.empty(len(used[0]) * width)
        for start in range(0, len(amounts), _BATCH):
            pair = np.arange(start, min(start + _BATCH, len(amounts)))
            at = (used[0][pair // width], used[1][pair % width])
            columns: dict[str, pa.Array] = {}
            for cells, places in zip(self._cells, at, strict=True):
                columns |= cells.values(self._schema, places)
            amounts[pair] = self._evaluate(pa.table(columns) if columns else None)
        return amounts.reshape(len(used[0]), width)

    def _evaluate(self, frame: pa.Table | None) -> Floats:
        """Return the amount; NaN where a clause is false, infinity where it is not finite.

        An infinite amount matters only where a row and a value are in the same group.
        """
        *clauses, argument = self._parts
        amount = number(argument)
        finite = f"isfinite(coalesce({amount}, 0))"
        guarded = Expression(f"CASE WHEN {finite} THEN {amount} END", argument.attributes)
        checked = Expression(finite, argument.attributes)
        *holds, amounts = self._engine.evaluate([*clauses, checked, guarded], (), frame)
        counted: Floats = np.where(holds.pop(), amounts, np.inf)
        for holding in holds:
            counted = np.where(holding, counted, np.nan)
        return counted
