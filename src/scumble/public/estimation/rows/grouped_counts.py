"""Grouped counts of published rows, by the attributes that a question depends on.

`grouped_counts` counts rows that show one value of each perturbed attribute, `multiset_counts` rows
that show a multiset of values, `product_counts` those that show several. Each takes one pass of the
engine. `aggregated` is the SQL aggregate that other estimators use as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.errors import QueryError
from scumble.model.query import quoted
from scumble.model.schema.schema import Schema
from scumble.model.stored import indices, known_codes
from scumble.public.sandbox import Sandbox

if TYPE_CHECKING:  # noisy counts need neither
    from scumble.model.evidence.channels import MultisetChannel
    from scumble.public.estimation.rows.inverse_channels import Flags

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

AMOUNT = quoted("scumble amount")


@dataclass(frozen=True)
class GroupIndex:
    """The group `members[i]` of each line i, and in `keys` the values that name each group."""

    members: Indices
    keys: list[dict[str, Any]]

    def sums(self, weights: Floats) -> Floats:
        """Return the sum of the weights of the lines of each group."""
        sums = np.bincount(self.members, weights=weights, minlength=len(self.keys))
        return sums.astype(np.float64, copy=False)

    def largest(self, numbers: Floats) -> Floats:
        """Return the largest number of each group; 0 in a group without lines."""
        largest = np.full(len(self.keys), -np.inf)
        np.maximum.at(largest, self.members, numbers)
        return np.where(np.isfinite(largest), largest, 0.0)


@dataclass(frozen=True)
class GroupedCounts:
    """Lines of equal rows: their number, and the sum, sum of squares, minimum and maximum of an
    expression over them. A row that shows several values is in as many lines.

    `combinations` are the distinct values of the unperturbed attributes, in the order of domains.
    `higher` has the sums of third and of fourth powers, where they were computed and are finite.
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
    higher: Floats | None = field(default=None, kw_only=True)

    def repeated(self, times: int) -> GroupedCounts:
        """Return all lines `times` times, one after the other."""
        return GroupedCounts(
            self.schema,
            self.combinations,
            np.tile(self.combination, times),
            np.tile(self.cell, times),
            np.tile(self.count, times),
            np.tile(self.total, times),
            np.tile(self.squares, times),
            np.tile(self.least, times),
            np.tile(self.most, times),
            members=self.members,
            higher=None if self.higher is None else np.tile(self.higher, (1, times)),
        )

    def groups(self, names: Sequence[str]) -> GroupIndex:
        """Group the lines by some unperturbed attributes; without names they are one group."""
        if not names:
            return GroupIndex(np.zeros_like(self.combination), [{}])
        first, inverse = distinct(self.schema, self.combinations.select(names))
        values = pc.take(self.combinations.select(names), first).to_pylist()
        return GroupIndex(inverse[self.combination], values)


def grouped_counts(
    engine: Sandbox,
    schema: Schema,
    unperturbed: Sequence[str],
    cells: Sequence[str],
    summed: str | None,
    filters: Sequence[str],
    hits: str | None = None,
) -> GroupedCounts:
    """Count the rows of the view that pass `filters`, by `unperturbed` attributes and by `cells`.

    `summed` is the SQL of an expression to be added up. `hits` is a condition on the values of the
    cells: cell 1 then has all values for which it is true, and cell 0 the others. This makes two
    lines instead of one for each value of the domain.
    """
    columns = [quoted(name) for name in (*unperturbed, *(() if hits else cells))]
    amount = None if summed is None else AMOUNT
    sums, higher = aggregates(amount), _higher(amount)
    inside = [f"{sum_} FILTER (WHERE {hits})" for sum_ in (*sums[:3], *higher)] if hits else []
    table = aggregated(engine, columns, [*sums, *higher, *inside], filters, amount=summed)
    names = table.column_names
    split, end = len(unperturbed), len(columns)
    found = [floats(table[name]) for name in names[end:]]
    rows = lines(
        schema,
        table.select(names[:split]).rename_columns(list(unperturbed)),
        _cells(schema, cells[: end - split], table.select(names[split:end])),
        found[: len(sums)] if summed is not None else sums_of_ones(found[0]),
    )
    powers = np.array(found[len(sums) : len(sums) + len(higher)])
    if higher and np.isfinite(powers).all():
        rows = replace(rows, higher=powers)
    if not hits:
        return rows
    whole = np.stack([rows.count, rows.total, rows.squares, *powers])
    shown = np.stack(found[len(sums) + len(higher) :])
    halves = np.stack([whole[: len(shown)] - shown, shown], axis=1)
    halved = expanded(rows, halves[:3])
    if rows.higher is None:
        return halved
    return replace(halved, higher=halves[3:].reshape(2, -1))


def _higher(summed: str | None) -> list[str]:
    """Return the SQL of the field `higher` of `GroupedCounts`; nothing, if nothing is `summed`."""
    value = f"CAST({summed} AS DOUBLE)"
    return [] if summed is None else [f"sum({' * '.join([value] * power)})" for power in (3, 4)]


def expanded(rows: GroupedCounts, shown: Floats, members: int = 1) -> GroupedCounts:
    """Return a line for every cell, from one line for every combination.

    The axes of `shown` are: the number of rows (then, if given, the sums and the sums of squares of
    the expression); the cells; and the combinations.
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
    *,
    amount: str | None = None,
) -> pa.Table:
    """Return `sums` by `columns`, both in SQL, over the rows of `source` that pass `filters`.

    The columns of the result are named c0, c1, ... in the order of `columns` and then `sums`.
    `amount` is the SQL of a number that the sums name `AMOUNT`. It may be long, and most of the
    time of a statement is spent on its text, so it is written once.
    """
    if amount is not None:
        number = f"CAST({amount} AS DOUBLE) AS {AMOUNT}"
        source, filters = f"(SELECT *, {number} FROM {source}{where(filters)})", ()
    grouping = f" GROUP BY {', '.join(columns)}" if columns else ""
    listed = ", ".join(f"{column} AS c{i}" for i, column in enumerate([*columns, *sums]))
    return engine.rows(f"SELECT {listed} FROM {source}{where(filters)}{grouping}")


def where(filters: Sequence[str]) -> str:
    """Return the WHERE clause of all `filters`; without filters, an empty string."""
    return f" WHERE {' AND '.join(f'({clause})' for clause in filters)}" if filters else ""


def aggregates(summed: str | None) -> list[str]:
    """Return the SQL of the fields `count` to `most` of `GroupedCounts`; only the first, if
    nothing is `summed`.
    """
    if summed is None:
        return ["count(*)"]
    value = f"CAST({summed} AS DOUBLE)"
    sums = [f"sum({value})", f"sum({value} * {value})", f"min({value})", f"max({value})"]
    return ["count(*)", *sums]


def sums_of_ones(count: Floats) -> list[Floats]:
    """Return number, sum, sum of squares, minimum and maximum of the constant 1."""
    ones = np.ones_like(count)
    return [count, count, count, ones, ones]


def lines(
    schema: Schema, unperturbed: pa.Table, cell: Indices, sums: list[Floats], members: int = 1
) -> GroupedCounts:
    """Return grouped counts from columns: those of `unperturbed`, the cells, and the sums."""
    if any(not np.isfinite(column).all() for column in sums):
        raise QueryError(
            "The summed expression is not a finite number for every row that satisfies the "
            "condition. Exclude such rows in WHERE, or guard the expression with CASE."
        )
    if not unperturbed.num_columns:
        return GroupedCounts(
            schema, unperturbed, np.zeros(len(cell), np.intp), cell, *sums, members=members
        )
    first, inverse = distinct(schema, unperturbed)
    return GroupedCounts(schema, pc.take(unperturbed, first), inverse, cell, *sums, members=members)


def distinct(schema: Schema, table: pa.Table) -> tuple[Indices, Indices]:
    """Return the first occurrence of each distinct row, in the order of the domains, and the place
    of each row of `table` among them.
    """
    codes = [known_codes(schema[name], table[name]) for name in table.column_names]
    keys = schema.cell_keys(table.column_names).pack(codes)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


def _cells(schema: Schema, names: Sequence[str], table: pa.Table) -> Indices:
    if not names:
        return np.zeros(table.num_rows, np.intp)
    codes = [known_codes(schema[name], table.column(i)) for i, name in enumerate(names)]
    sizes = [schema[name].size for name in names]
    return np.ravel_multi_index([code.astype(np.intp) for code in codes], sizes)


def floats(column: pa.ChunkedArray) -> Floats:
    """Return a column as floats. The sum over no rows is NULL in SQL and 0 here."""
    filled: Floats = pc.fill_null(pc.cast(column, pa.float64()), 0.0).to_numpy()
    return filled


# Rows that show a multiset of values.
#
# A row is in as many lines as its multiset has members. So a line says how often a value is shown,
# and has the sums of an expression over the rows that show it.

MEMBER = quoted("scumble member")
_MOST_SUMS = 1024  # of one statement, over the members of several multisets


def multiset_counts(
    engine: Sandbox,
    schema: Schema,
    channel: MultisetChannel,
    unperturbed: Sequence[str],
    summed: str | None,
    filters: Sequence[str],
    hits: Flags | None = None,
) -> GroupedCounts:
    """Count the members of multisets by `unperturbed` attributes and by cell, after `filters`.

    With `hits`, cell 1 has all cells for which it is true, and cell 0 the others. All multisets
    have one size, so only the columns of the fewer cells are read.
    """
    if hits is None and channel.layout == "codes":
        return _by_code(engine, schema, channel, unperturbed, summed, filters)
    fewer = None if hits is None else (hits if 2 * hits.sum() <= len(hits) else ~hits)
    cells = range(channel.law.values)
    chosen = [[cell] for cell in cells] if fewer is None else [np.flatnonzero(fewer).tolist()]
    amount = None if summed is None else AMOUNT
    powers, limits = member_powers(amount), aggregates(amount)
    sums = [_members(channel, some, power) for power in powers for some in chosen]
    columns = [quoted(name) for name in unperturbed]
    found = aggregated(engine, columns, [*limits, *sums], filters, amount=summed)
    rows, shown = _by_rows(schema, found, unperturbed, len(limits), len(powers))
    if fewer is not None:
        whole = np.stack([rows.count, rows.total, rows.squares][: len(powers)])
        rest = channel.law.size * whole[:, None] - shown
        shown = np.concatenate([rest, shown] if fewer is hits else [shown, rest], axis=1)
    return expanded(rows, shown, channel.law.size)


def _by_rows(
    schema: Schema, found: pa.Table, unperturbed: Sequence[str], limits: int, powers: int
) -> tuple[GroupedCounts, Floats]:
    """Return one line for every combination, and what `expanded` makes a line of for every cell,
    from columns of the engine: the `unperturbed` attributes, aggregates, and sums over members.
    """
    names = found.column_names
    numbers = [floats(found[name]) for name in names[len(unperturbed) :]]
    rows = lines(
        schema,
        found.select(names[: len(unperturbed)]).rename_columns(list(unperturbed)),
        np.zeros(found.num_rows, np.intp),
        numbers[:limits] if powers > 1 else sums_of_ones(numbers[0]),
    )
    sums = numbers[limits:]
    return rows, np.stack(sums).reshape(powers, len(sums) // powers, -1)


def product_counts(
    engine: Sandbox,
    schema: Schema,
    channels: Sequence[MultisetChannel],
    alike: Sequence[Indices],
    unperturbed: Sequence[str],
    summed: str | None,
    filters: Sequence[str],
) -> GroupedCounts:
    """Count by `unperturbed` attributes and by cell of several multisets: a row is in a cell as
    often as the product of the members that its multisets have of the values of the cell.

    `alike` has for every channel the first of the values that are counted together with each value.
    """
    own = [np.unique(firsts) for firsts in alike]
    if (cells := prod(map(len, own))) > _MOST_SUMS:
        asked = " and ".join(name for channel in channels for name in channel.attributes)
        raise QueryError(
            f"A question about {asked} together would add up {cells:,} combinations of their "
            f"values; at most {_MOST_SUMS:,} are possible. Ask about fewer values."
        )
    factors: list[list[str]] = []
    made: list[str] = []
    for channel, firsts, values in zip(channels, alike, own, strict=True):
        names = [quoted(f"scumble member {len(made) + place}") for place in range(len(values))]
        parts = (
            " + ".join(_doubles(channel, np.flatnonzero(firsts == value).tolist()))
            for value in values
        )
        factors.append(names)
        made += [f"{part} AS {name}" for part, name in zip(parts, names, strict=True)]
    source = f"(SELECT *, {', '.join(made)} FROM view{where(filters)})"
    amount = None if summed is None else AMOUNT
    powers, limits = member_powers(amount), aggregates(amount)
    sums = [f"sum({' * '.join(cell)}{power})" for power in powers for cell in product(*factors)]
    columns = [quoted(name) for name in unperturbed]
    found = aggregated(engine, columns, [*limits, *sums], (), source, amount=summed)
    rows, shown = _by_rows(schema, found, unperturbed, len(limits), len(powers))
    counted = expanded(rows, shown, prod(channel.law.size for channel in channels))
    sizes = [channel.law.values for channel in channels]
    firsts = np.ravel_multi_index(np.meshgrid(*own, indexing="ij"), sizes).reshape(-1)
    return replace(counted, cell=firsts[counted.cell])


def member_powers(summed: str | None) -> list[str]:
    """Return the SQL factors that give number, sum and sum of squares of `summed`."""
    if summed is None:
        return [""]
    value = f" * CAST({summed} AS DOUBLE)"
    return ["", value, value + value]


def _members(channel: MultisetChannel, cells: Sequence[int], power: str) -> str:
    """Return in SQL the sum of `power` over all members of multisets that lie in `cells`.

    The engine is fastest at sums of doubles, one for each column; whole numbers stay exact up to
    2^53.
    """
    return " + ".join(f"sum({part}{power})" for part in _doubles(channel, cells)) or "0.0"


def _doubles(channel: MultisetChannel, cells: Sequence[int]) -> list[str]:
    """Return numbers in SQL that add up to the members of a multiset that lie in `cells`."""
    if channel.layout == "counts":
        parts = [quoted(channel.columns[cell]) for cell in cells]
    else:
        listed = ", ".join(map(str, cells))
        parts = [f"{quoted(name)} IN ({listed})" for name in channel.columns if cells]
    return [f"CAST({part} AS DOUBLE)" for part in parts]


def _by_code(
    engine: Sandbox,
    schema: Schema,
    channel: MultisetChannel,
    unperturbed: Sequence[str],
    summed: str | None,
    filters: Sequence[str],
) -> GroupedCounts:
    """Count with one line of the engine for every member of a multiset."""
    members = ", ".join(map(quoted, channel.columns))
    source = f"(SELECT *, unnest([{members}]) AS {MEMBER} FROM view{where(filters)})"
    columns = [*map(quoted, unperturbed), MEMBER]
    amount = None if summed is None else AMOUNT
    found = aggregated(engine, columns, aggregates(amount), (), source, amount=summed)
    names = found.column_names
    numbers = [floats(found[name]) for name in names[len(columns) :]]
    return lines(
        schema,
        found.select(names[: len(unperturbed)]).rename_columns(list(unperturbed)),
        indices(found[names[len(unperturbed)]].to_numpy(), channel.law.values).astype(np.intp),
        numbers if summed is not None else sums_of_ones(numbers[0]),
        channel.law.size,
    )
