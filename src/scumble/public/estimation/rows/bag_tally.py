"""Bags of published values, counted by the attributes that a question depends on.

A row is in as many lines as its bag has members, so that a line says how often a value is shown,
and what an expression comes to over the rows that show it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scumble.model.evidence.channels import BagChannel
from scumble.model.query import quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimation.rows.inverse_channels import Flags
from scumble.public.estimation.rows.tally import (
    Tally,
    aggregated,
    amounts,
    floats,
    lines,
    passing,
    spread,
    sums_of_ones,
)
from scumble.public.sandbox import Engine

_MEMBER = quoted("scumble member")


def bag_tally(
    engine: Engine,
    schema: Schema,
    channel: BagChannel,
    kept: Sequence[str],
    summed: str | None,
    filters: Sequence[str],
    hits: Flags | None = None,
) -> Tally:
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


def _members(channel: BagChannel, cells: Sequence[int], power: str) -> str:
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
    engine: Engine,
    schema: Schema,
    channel: BagChannel,
    kept: Sequence[str],
    summed: str | None,
    filters: Sequence[str],
) -> Tally:
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
