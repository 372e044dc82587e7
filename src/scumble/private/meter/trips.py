"""Trips on a public grid: sequences of points as sequences of the cells that they go through."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from scumble.model.parameters import free_name
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import smallest_unsigned
from scumble.model.schema.domains import Category
from scumble.model.schema.lists import EncodedLists, ListDomain
from scumble.model.schema.schema import Schema
from scumble.private.tables.counter import CellCounter, CountedLists
from scumble.private.tables.lists.kept import KeptLists


def trip_schema(schema: Schema, x: str, y: str, longest: int) -> Schema:
    """Return the schema of trips: one sequence of cells of the grid of two sequences of numbers.

    The cell x3y5 is in the bin 3 of the attribute `x` and the bin 5 of `y`, both counted from 0.
    """
    columns, lines = (schema[name].lists.members.size for name in (x, y))
    cells = tuple(f"x{column}y{line}" for column, line in product(range(columns), range(lines)))
    name = free_name("trip", schema.names)
    domain = ListDomain("sequence", Category(cells), longest=longest)
    return Schema((Attribute(name, schema[x].role, domain),))


class TripCounter(CountedLists):
    """The trips of a table. A cell that a trip stays in is counted once until the trip leaves it.

    Every trip is a function of the points of its own row.
    """

    def __init__(self, counter: CellCounter, x: str, y: str, schema: Schema) -> None:
        self.schema = schema
        self.counted = 0
        self._counter, self._points = counter, (x, y)
        columns, lines = (counter.schema[name].lists.members.size for name in (x, y))
        self._type = smallest_unsigned(columns * lines + 1)
        self._trips: dict[PrivacyUnit, KeptLists] = {}

    @property
    def selects(self) -> bool:
        return self._counter.selects

    def lists(self, name: str, unit: PrivacyUnit) -> Iterator[EncodedLists]:
        if unit not in self._trips:
            read = partial(_trips, self._counter, self._points, unit, self._type)
            self._trips[unit] = KeptLists(read)
        return iter(self._trips[unit])


def _trips(
    counter: CellCounter, points: tuple[str, str], unit: PrivacyUnit, cell_type: np.dtype[Any]
) -> Iterator[EncodedLists]:
    """Yield the cells that the sequences of points go through."""
    lines = counter.schema[points[1]].lists.members.size
    for x, y in counter.paired_lists(points, unit):
        cells = x.codes.astype(cell_type) * cell_type.type(lines)
        cells += y.codes.astype(cell_type, copy=False)
        new = np.ones(len(cells) + 1, bool)
        np.not_equal(cells[1:], cells[:-1], out=new[1:-1])
        new[x.offsets] = True  # the first cell of every trip
        before = np.cumsum(new) - 1
        yield EncodedLists(before[x.offsets], cells[new[:-1]], x.outside)
