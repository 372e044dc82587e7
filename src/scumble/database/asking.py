"""What a question asks of a database: for each group, numbers of one kind over disjoint boxes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.database.conditions import boxes_of
from scumble.database.memory import COUNT
from scumble.database.space import Boxes, Space
from scumble.engine.duckdb import Engine
from scumble.errors import QueryError
from scumble.query import Query

MOST_GROUPS = 10_000
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Amounts:
    """What one row adds to a sum, by its code of one attribute."""

    axis: int
    values: Integers

    @property
    def largest(self) -> int:
        """What one row can change the sum by."""
        return int(np.abs(self.values).max(initial=0))


@dataclass(frozen=True)
class Group:
    """The values that name a group, and its boxes."""

    key: tuple[Any, ...]
    boxes: Boxes


@dataclass(frozen=True)
class Asked:
    """A question in terms of boxes. `kinds` are the numbers that it needs of each box: a count, a
    sum, or both for an average.
    """

    query: Query
    groups: tuple[Group, ...]
    kinds: tuple[str, ...]
    amounts: Amounts | None


def understood(query: Query, space: Space, engine: Engine) -> Asked:
    """The boxes and amounts of a question; a sentence where it cannot be put so."""
    boxes = boxes_of(query.clauses, space, engine)
    groups = tuple(_groups(query, boxes, space))
    if query.aggregate == "count" or query.argument is None:
        return Asked(query, groups, (COUNT,), None)
    amounts = _amounts(query, space, engine)
    summed = f"sum {query.argument.sql}"
    kinds = (summed,) if query.aggregate == "sum" else (summed, COUNT)
    return Asked(query, groups, kinds, amounts)


def _groups(query: Query, boxes: Boxes, space: Space) -> Iterator[Group]:
    axes = [space.names.index(name) for name in query.groups]
    labels = [space.attributes[axis].labels().to_pylist() for axis in axes]
    if np.prod([float(len(values)) for values in labels]) > MOST_GROUPS:
        raise QueryError(
            f"GROUP BY {', '.join(query.groups)} would make more than {MOST_GROUPS} groups. Ask "
            "for fewer by WHERE, or group by fewer columns."
        )
    for codes in product(*(range(len(values)) for values in labels)):
        part = boxes
        for axis, code in zip(axes, codes, strict=True):
            inside = (part[:, axis, 0] <= code) & (code <= part[:, axis, 1])
            part = part[inside].copy()
            part[:, axis] = code
        if len(part) or not axes:
            yield Group(tuple(v[c] for v, c in zip(labels, codes, strict=True)), part)


def _amounts(query: Query, space: Space, engine: Engine) -> Amounts:
    """Whole numbers, by the values of the one attribute that is added up."""
    argument = query.argument
    if argument is None or len(argument.attributes) != 1:
        raise QueryError("A sum or average is over an expression of exactly one column.")
    [name] = argument.attributes
    [values] = engine.evaluate([argument], [name])
    numbers = np.asarray(values, np.float64)
    if not (np.isfinite(numbers) & (np.abs(numbers) < 2**52) & (numbers == np.rint(numbers))).all():
        raise QueryError(
            f"{argument.sql} is not a whole number for every value of {name}. Write "
            "CAST(ROUND(...) AS INTEGER), in units small enough."
        )
    amounts = Amounts(space.names.index(name), numbers.astype(np.int64))
    if not amounts.largest:
        raise QueryError(f"{argument.sql} is 0 for every value of {name}.")
    return amounts
