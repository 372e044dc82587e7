"""Grouped counts of published rows.

Published rows counted by the attributes that a question depends on: one pass of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import QueryError
from scumble.model.evidence.channels import MultisetChannel
from scumble.model.query import quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimation.rows.inverse_channels import Flags
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class GroupIndex:
    """Which group each line of a tally belongs to, and the values that name each group."""

    members: Indices
    keys: list[dict[str, Any]]

    def sums(self, weights: Floats) -> Floats:
        sums = np.bincount(self.members, weights=weights, minlength=len(self.keys))
        return sums.astype(np.float64, copy=False)

    def largest(self, numbers: Floats) -> Floats:
        """The largest number of each group; 0 in a group without lines."""
        largest = np.full(len(self.keys), -np.inf)
        np.maximum.at(largest, self.members, numbers)
        return np.where(np.isfinite(largest), largest, 0.0)


@dataclass(frozen=True)
class GroupedCounts:
    """Lines of equal rows: how many, and the sum, the sum of squares and the limits of an
    expression over them. Where a row shows several values, it is in as many lines.

    `combinations` are the distinct values of the kept attributes, in the order of the domains.
    """

    schema: Schema
    combinations: pa.Table
    combination: Indices  # of each line: the row of `combinations`
    cell: Indices  # of each line: the flat index of its values of the other attributes
    count: Floats
    total: Floats
    squares: Floats
    least: Floats
    most: Floats
    members: int = field(default=1, kw_only=True)  # how many lines each row is in

    def groups(self, names: Sequence[str]) -> GroupIndex:
        """The lines grouped by some of the kept attributes; by none, they are one group."""
        if not names:
            return GroupIndex(np.zeros_like(self.combination), [{}])
        first, inverse = distinct(self.schema, self.combinations.select(names))
        values = self.combinations.select(names).take(first).to_pylist()
        return GroupIndex(inverse[self.combination], values)


def grouped_counts(
    engine: Sandbox,
    schema: Schema,
    kept: Sequence[str],
    cells: Sequence[str],
    summed: str | None,
    filters: Sequence[str],
    hits: str | None = None,
) -> GroupedCounts:
    """Count the rows of the view by `kept` and `cells`, after `filters`.

    `hits` is a condition on the values of the cells that replaces them, so that cell 1 stands for
    all in which it is true and cell 0 for the others: two lines instead of as many as the domain
    has values.
    """
    columns = [quoted(name) for name in (*kept, *(() if hits else cells))]
    sums = amounts(summed)
    inside = [f"{sum_} FILTER (WHERE {hits})" for sum_ in sums[:3]] if hits else []
    table = aggregated(engine, columns, [*sums, *inside], filters)
    names = table.column_names
    split, end = len(kept), len(columns)
    found = [floats(table[name]) for name in names[end:]]
    rows = lines(
        schema,
        table.select(names[:split]).rename_columns(list(kept)),
        _cells(schema, cells[: end - split], table.select(names[split:end])),
        found[: len(sums)] if summed is not None else sums_of_ones(found[0]),
    )
    if not hits:
        return rows
    shown = np.stack(found[len(sums) :])
    whole = np.stack([rows.count, rows.total, rows.squares])[: len(shown)]
    return spread(rows, np.stack([whole - shown, shown], axis=1))


def spread(rows: GroupedCounts, shown: Floats, members: int = 1) -> GroupedCounts:
    """Lines for every cell out of one line for every combination. `shown` is how many rows show
    each cell (the second axis), and if there are more, the sums and sums of squares over them.
    """
    powers, cells, _ = shown.shape
    count, total, squares = (shown[min(power, powers - 1)].reshape(-1) for power in range(3))
    return GroupedCounts(
        rows.schema,
        rows.combinations,
        np.tile(rows.combination, cells),
        np.repeat(np.arange(cells), len(rows.cell)),
        count,
        total,
        squares,
        np.tile(rows.least, cells),
        np.tile(rows.most, cells),
        members=members,
    )


def aggregated(
    engine: Sandbox,
    columns: Sequence[str],
    sums: Sequence[str],
    filters: Sequence[str],
    source: str = "view",
) -> pa.Table:
    """Sums by columns, both SQL, over the rows that pass the filters."""
    grouping = f" GROUP BY {', '.join(columns)}" if columns else ""
    listed = ", ".join(f"{column} AS c{i}" for i, column in enumerate([*columns, *sums]))
    return engine.rows(f"SELECT {listed} FROM {source}{passing(filters)}{grouping}")


def passing(filters: Sequence[str]) -> str:
    """The WHERE of some conditions."""
    return f" WHERE {' AND '.join(f'({clause})' for clause in filters)}" if filters else ""


def amounts(summed: str | None) -> list[str]:
    """How many rows, and what an expression comes to over them, as the fields of a tally."""
    if summed is None:
        return ["count(*)"]
    value = f"CAST({summed} AS DOUBLE)"
    sums = [f"sum({value})", f"sum({value} * {value})", f"min({value})", f"max({value})"]
    return ["count(*)", *sums]


def sums_of_ones(count: Floats) -> list[Floats]:
    """Number, sum, sum of squares, least and most of an expression that is 1 for every row."""
    ones = np.ones_like(count)
    return [count, count, count, ones, ones]


def lines(
    schema: Schema, kept: pa.Table, cell: Indices, sums: list[Floats], members: int = 1
) -> GroupedCounts:
    """A tally of lines that are given by columns; `kept` has one for each kept attribute."""
    if any(not np.isfinite(column).all() for column in sums):
        raise QueryError(
            "The summed expression is not a finite number for every row that satisfies the "
            "condition. Exclude such rows in WHERE, or guard the expression with CASE."
        )
    if not kept.num_columns:
        return GroupedCounts(
            schema, kept, np.zeros(len(cell), np.intp), cell, *sums, members=members
        )
    first, inverse = distinct(schema, kept)
    return GroupedCounts(schema, kept.take(first), inverse, cell, *sums, members=members)


def distinct(schema: Schema, table: pa.Table) -> tuple[Indices, Indices]:
    """First occurrence of each distinct row, in the order of the domains, and where each row is in
    it.
    """
    codes = [schema[name].encode(table[name])[0] for name in table.column_names]
    keys = schema.cell_keys(table.column_names).pack(codes)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


def _cells(schema: Schema, names: Sequence[str], table: pa.Table) -> Indices:
    if not names:
        return np.zeros(table.num_rows, np.intp)
    codes = [schema[name].encode(table.column(i))[0] for i, name in enumerate(names)]
    sizes = [schema[name].size for name in names]
    return np.ravel_multi_index([code.astype(np.intp) for code in codes], sizes)


def floats(column: pa.ChunkedArray) -> Floats:
    """Numbers of the engine; the sum over no rows is NULL there and 0 here."""
    filled: Floats = column.cast(pa.float64()).fill_null(0.0).to_numpy()
    return filled


# Bags of published values, counted by the attributes that a question depends on.
#
# A row is in as many lines as its bag has members, so that a line says how often a value is
# shown, and what an expression comes to over the rows that show it.

_MEMBER = quoted("scumble member")


def multiset_counts(
    engine: Sandbox,
    schema: Schema,
    channel: MultisetChannel,
    kept: Sequence[str],
    summed: str | None,
    filters: Sequence[str],
    hits: Flags | None = None,
) -> GroupedCounts:
    """Count the members of the bags by `kept` and their cells, after `filters`.

    With `hits`, cell 1 stands for all cells that it chooses and cell 0 for the others. Bags have
    one size, so only the columns of the fewer of them are read.
    """
    if hits is None and channel.layout == "codes":
        return _by_code(engine, schema, channel, kept, summed, filters)
    fewer = None if hits is None else (hits if 2 * hits.sum() <= len(hits) else ~hits)
    cells = range(channel.law.values)
    chosen = [[cell] for cell in cells] if fewer is None else [np.flatnonzero(fewer).tolist()]
    powers = _powers(summed)
    sums = [_members(channel, some, power) for power in powers for some in chosen]
    limits = amounts(summed)
    found = aggregated(engine, [quoted(name) for name in kept], [*limits, *sums], filters)
    names = found.column_names
    numbers = [floats(found[name]) for name in names[len(kept) :]]
    whole = numbers[: len(limits)] if summed is not None else sums_of_ones(numbers[0])
    rows = lines(
        schema,
        found.select(names[: len(kept)]).rename_columns(list(kept)),
        np.zeros(found.num_rows, np.intp),
        whole,
    )
    shown = np.stack(numbers[len(limits) :]).reshape(len(powers), len(chosen), -1)
    if fewer is not None:
        rest = channel.law.size * np.stack(whole[: len(powers)])[:, None] - shown
        shown = np.concatenate([rest, shown] if fewer is hits else [shown, rest], axis=1)
    return spread(rows, shown, channel.law.size)


def _powers(summed: str | None) -> list[str]:
    """By what a number of members is multiplied to get number, sum and sum of squares."""
    if summed is None:
        return [""]
    value = f" * CAST({summed} AS DOUBLE)"
    return ["", value, value + value]


def _members(channel: MultisetChannel, cells: Sequence[int], power: str) -> str:
    """The sum over all members of bags that lie in some cells, in SQL. Sums of doubles, one for
    each column, are what the engine is quickest at; whole numbers stay exact up to 2^53.
    """
    if not cells:
        return "0.0"
    if channel.layout == "counts":
        parts = [quoted(channel.columns[cell]) for cell in cells]
    else:
        listed = ", ".join(map(str, cells))
        parts = [f"{quoted(name)} IN ({listed})" for name in channel.columns]
    return " + ".join(f"sum(CAST({part} AS DOUBLE){power})" for part in parts)


def _by_code(
    engine: Sandbox,
    schema: Schema,
    channel: MultisetChannel,
    kept: Sequence[str],
    summed: str | None,
    filters: Sequence[str],
) -> GroupedCounts:
    """One line of the engine for every member of a bag."""
    members = ", ".join(map(quoted, channel.columns))
    source = f"(SELECT *, unnest([{members}]) AS {_MEMBER} FROM view{passing(filters)})"
    columns = [*map(quoted, kept), _MEMBER]
    found = aggregated(engine, columns, amounts(summed), (), source)
    names = found.column_names
    numbers = [floats(found[name]) for name in names[len(columns) :]]
    return lines(
        schema,
        found.select(names[: len(kept)]).rename_columns(list(kept)),
        found[names[len(kept)]].to_numpy().astype(np.intp),
        numbers if summed is not None else sums_of_ones(numbers[0]),
        channel.law.size,
    )
