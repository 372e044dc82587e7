"""Drawn rows that the schema allows: values inside of their bins, and no impossible combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.errors import ReleaseError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import BinnedNumber, Bins, Dates
from scumble.model.schema.schema import Schema
from scumble.public.synthesis.tree_model import Codes

if TYPE_CHECKING:
    from scumble.model.schema.impossible import ImpossibleCondition

_ROUNDS = 50
_MOST_TRIES = 1000
Mask = npt.NDArray[np.bool_]


def value_within(attribute: Attribute, codes: Codes, generator: np.random.Generator) -> pa.Array:
    """Return codes as values; where a code stands for several values, one of them at random.

    Every step of an amount, every day of a month or year, and every whole number of a bin is as
    likely as the others. Bins without whole edges hold real numbers.
    """
    codes = codes.astype(attribute.code_type)
    domain = attribute.domain
    if not attribute.coarse or not isinstance(domain, Bins | Dates):
        return attribute.decode(codes)
    nulls = codes == attribute.size - 1 if attribute.missing else np.zeros(len(codes), bool)
    bins, shares = np.where(nulls, 0, codes).astype(np.int64), generator.random(len(codes))
    if isinstance(domain, BinnedNumber):
        first, last = domain.first_steps[bins], domain.last_steps[bins]
        values = domain.number.decode(_among(first, last, shares), nulls)
        return pc.cast(values, attribute.arrow_type)
    if isinstance(domain, Dates):
        first, last = (each.astype(np.int64)[bins] for each in domain.ends())
        days = _among(first, last, shares).astype("M8[D]")
        return pa.array(days, attribute.arrow_type, mask=nulls)
    least, largest = (each[bins] for each in domain.ends())
    numbers = least + shares * (largest - least)
    if all(edge.is_integer() for edge in domain.edges):
        numbers = np.floor(least + shares * (np.floor(largest) - least + 1))
    return pa.array(np.clip(numbers, least, largest), mask=nulls)


def _among(
    first: npt.NDArray[np.int64], last: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Return the whole numbers from `first` to `last` at these shares of the way."""
    places = np.floor(shares * (last - first + 1)).astype(np.int64)
    found: npt.NDArray[np.int64] = np.minimum(first + places, last)
    return found


def make_possible(
    schema: Schema,
    names: Sequence[str],
    columns: list[Codes],
    generator: np.random.Generator,
) -> None:
    """Change the rows that no row of the table can be, in place.

    Such a row exchanges one value with another row, so that the counts of every column stay what
    they are. Rows for which no partner is found become copies of others.
    """
    conditions = [e for e in schema.impossible_conditions if set(e.names) <= set(names)]
    if not conditions:
        return
    by_name = dict(zip(names, columns, strict=True))
    for _ in range(_ROUNDS):
        for condition in conditions:
            _exchange(conditions, condition, by_name, generator)
        bad = _wrong(conditions, by_name)
        if not bad.any():
            return
    donors = np.flatnonzero(~bad)
    if len(donors):
        chosen = generator.choice(donors, size=int(bad.sum()))
        for column in columns:
            column[bad] = column[chosen]
        return
    for _ in range(_MOST_TRIES):
        for name in sorted({name for condition in conditions for name in condition.names}):
            by_name[name][bad] = generator.integers(0, schema[name].size, size=int(bad.sum()))
        bad = _wrong(conditions, by_name)
        if not bad.any():
            return
    raise ReleaseError("The impossible combinations of the schema leave no row that can be drawn.")


def _wrong(conditions: Sequence[ImpossibleCondition], columns: Mapping[str, Codes]) -> Mask:
    """Return the rows that satisfy a condition."""
    found: Mask = np.logical_or.reduce([condition.holds(columns) for condition in conditions])
    return found


def _exchange(
    conditions: Sequence[ImpossibleCondition],
    condition: ImpossibleCondition,
    columns: Mapping[str, Codes],
    generator: np.random.Generator,
) -> None:
    """Let rows that satisfy a condition exchange a value with other rows, where both are possible
    afterwards.
    """
    bad = condition.holds(columns)
    rows, others = np.flatnonzero(bad), np.flatnonzero(~_wrong(conditions, columns))
    number = min(len(rows), len(others))
    if not number:
        return
    rows = generator.permutation(rows)[:number]
    others = generator.choice(others, size=number, replace=False)
    column = columns[condition.names[generator.integers(len(condition.names))]]
    both = np.concatenate([rows, others])
    before = column[both]
    column[rows], column[others] = column[others], column[rows]
    chosen = {name: own[both] for name, own in columns.items()}
    wrong = _wrong(conditions, chosen).reshape(2, -1).any(axis=0)
    undone = np.concatenate([wrong, wrong])
    column[both[undone]] = before[undone]
