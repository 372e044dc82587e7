"""Mean, variances and covariance of sums and counts over groups, for every key of an answer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import QueryError
from scumble.model.query import Expression
from scumble.model.schema.schema import Schema
from scumble.public.estimation.anatomy.groups_kinds import Kinds
from scumble.public.estimation.anatomy.groups_layout import Layout
from scumble.public.estimation.anatomy.plan import Plan, number
from scumble.public.sandbox import Engine

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

# Combinations of rows and values for which a question is evaluated at a time, and is known at a
# time; keys that an answer may have, and those of all threads together, each with its own sums.
_BATCH, _MOST_CELLS = 1 << 20, 1 << 25
_MOST_KEYS, _SHARED_KEYS = 1 << 23, 1 << 22


class Moments:
    """The sums of a question over a layout. `rows` and `values` are the kinds that it tells apart;
    kinds with the same grouped attributes share a key.
    """

    def __init__(
        self, plan: Plan, schema: Schema, engine: Engine, layout: Layout, sides: Sequence[Kinds]
    ) -> None:
        self._schema, self._engine, self._layout = schema, engine, layout
        self._parts = plan.together
        self._sides = sides
        named = {name for part in self._parts for name in part.attributes}
        self._keys = [side.on(n for n in side.codes if n in plan.query.groups) for side in sides]
        self._cells = [side.on(name for name in side.codes if name in named) for side in sides]

    def sums(self) -> tuple[list[Kinds], Floats]:
        """The keys of rows and of values, and for each pair of them a line: count, total, their
        variances and covariance, least and most of what is added up.
        """
        total = self._keys[0].size * self._keys[1].size
        if total > _MOST_KEYS:
            raise QueryError("The answer would have too many groups. Group by fewer attributes.")
        empty = np.array([0.0] * 5 + [np.inf, -np.inf])
        if not total:  # no row, or no value, satisfies what is asked of it alone
            return self._keys, np.empty((0, len(empty)))
        threads = max(min(os.cpu_count() or 1, _SHARED_KEYS // total), 1)
        parts = [np.tile(empty, (total, 1)) for _ in range(threads)]
        for first, last in self._blocks(0, self._layout.groups):
            used = [self._used(side, first, last) for side in (0, 1)]
            self._add(first, last, used, parts)
        found = np.sum(parts, axis=0)
        found[:, 5] = np.min([part[:, 5] for part in parts], axis=0)
        found[:, 6] = np.max([part[:, 6] for part in parts], axis=0)
        return self._keys, found

    def _blocks(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Ranges of groups with few enough combinations; as a rule there is one."""
        needed = [len(self._used(side, first, last)) for side in (0, 1)]
        if needed[0] * needed[1] <= _MOST_CELLS or last - first < 2:
            yield first, last
            return
        middle = (first + last) // 2
        yield from self._blocks(first, middle)
        yield from self._blocks(middle, last)

    def _used(self, side: int, first: int, last: int) -> Places:
        """The cells of one side that occur in a range of groups."""
        starts = (self._layout.rows, self._layout.values)[side].starts
        there = np.zeros(self._sides[side].size + 1, bool)
        there[self._sides[side].of[starts[first] : starts[last]]] = True  # -1 is the last
        return np.unique(self._cells[side].of[np.flatnonzero(there[:-1])]).astype(np.int64)

    def _add(self, first: int, last: int, used: Sequence[Places], parts: Sequence[Floats]) -> None:
        from scumble.public.estimation.anatomy.groups_spread import add_moments

        table = self._table(used)
        layout = self._layout
        sides = []
        for side, line in enumerate((layout.rows, layout.values)):
            place = np.zeros(self._cells[side].size, np.int64)
            place[used[side]] = np.arange(len(used[side]))
            cells = place[self._cells[side].of]
            kinds, keys = (each[side].of.astype(np.int32) for each in (self._sides, self._keys))
            sides.append((line.starts, kinds, keys, cells))
        rows, values = sides
        borders = np.linspace(first, last, len(parts) + 1).astype(np.int64).tolist()

        def add(place: int) -> None:
            share = (borders[place], borders[place + 1])
            keys = self._keys[1].size
            add_moments(share, rows, values, layout.counts, table, keys, parts[place])

        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(add, range(len(parts))))

    def _table(self, used: Sequence[Places]) -> Floats:
        """What a row and a value of these cells add to the answer; NaN if they do not count."""
        width = len(used[1])
        found = np.empty(len(used[0]) * width)
        for start in range(0, len(found), _BATCH):
            pair = np.arange(start, min(start + _BATCH, len(found)))
            at = (used[0][pair // width], used[1][pair % width])
            columns: dict[str, pa.Array] = {}
            for cells, places in zip(self._cells, at, strict=True):
                columns |= cells.values(self._schema, places)
            found[pair] = self._evaluated(pa.table(columns) if columns else None)
        return found.reshape(len(used[0]), width)

    def _evaluated(self, frame: pa.Table | None) -> Floats:
        """The argument, infinite if it is not a finite number, which only matters where a row and a
        value do meet.
        """
        *clauses, argument = self._parts
        amount = number(argument)
        finite = f"isfinite(coalesce({amount}, 0))"
        guarded = Expression(f"CASE WHEN {finite} THEN {amount} END", argument.attributes)
        checked = Expression(finite, argument.attributes)
        *holds, amounts = self._engine.evaluate([*clauses, checked, guarded], (), frame)
        found: Floats = np.where(holds.pop(), amounts, np.inf)
        for each in holds:
            found = np.where(each, found, np.nan)
        return found
