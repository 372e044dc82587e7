"""Questions as weights of cells: conditions, amounts and groups, which a reader sums up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from scumble.model.errors import QueryError
from scumble.model.long_work import told
from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.readings import (
    AverageReadings,
    AverageWeights,
    GroupedAxes,
    GroupReader,
    LinearReading,
    OneByOne,
    Reader,
    Readings,
    Weights,
    WeightTensor,
    joined,
)
from scumble.public.estimation.tables import Clauses
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
MOST_GROUPS = 10**5
NOTHING = "no cell satisfies the condition, or their estimated number is zero"


@dataclass(frozen=True)
class WeighedQuestion:
    """One question as weights of cells. `known` are clauses that were evaluated before."""

    schema: Schema
    query: Query
    engine: Sandbox
    known: Clauses | None = None

    def weights_by_group(self) -> Iterator[tuple[Key, Weights, Weights]]:
        """Yield every group that is possible under the condition, with the weights of the condition
        and of what is summed up.
        """
        condition, amount = self._condition(), self.amount()
        summed = condition if amount is None else joined(self.schema, [*condition.parts, amount])
        if not self.query.groups:
            yield (), condition, summed
            return
        grouping = self._grouping()
        names = grouping.names
        places = np.flatnonzero(grouping.largest(condition)).tolist()
        for place, key in zip(told(places), self.schema.cell_values(names, places), strict=True):
            codes = [int(code) for code in np.unravel_index(place, grouping.shape)]
            own = dict(zip(names, codes, strict=True))
            yield key, condition.fixed(self.schema, own), summed.fixed(self.schema, own)

    def _condition(self) -> Weights:
        """Return the weights of the condition, and those factors of a sum that stay apart."""
        parts = [self._truth(clause) for clause in self.query.clauses]
        if self.query.argument is not None and self.query.aggregate == "sum":
            parts += map(self._number, self.query.argument.factors)  # attributes stay apart
        return joined(self.schema, parts)

    def _truth(self, clause: Expression) -> WeightTensor:
        names = self._ordered(clause)
        known = self.known or Clauses(self.schema, [Query("count", clauses=(clause,))], self.engine)
        return WeightTensor(names, known.along(clause, names).astype(np.float64))

    def amount(self) -> WeightTensor | None:
        """Return what a row of a cell adds, over the attributes that the argument names."""
        argument = self.query.argument
        if argument is None or (argument.factors and self.query.aggregate == "sum"):
            return None
        return self._number(argument)

    def _number(self, argument: Expression) -> WeightTensor:
        names = self._ordered(argument)
        own = [each for each in self.query.clauses if set(each.attributes) <= set(names)]
        *_, amounts = self.engine.evaluate([*own, argument], names)
        return WeightTensor(names, amounts.astype(np.float64).reshape(self._shape(names)))

    def _grouping(self) -> GroupedAxes:
        groups = self.query.groups
        if (total := self.schema.size(groups)) > MOST_GROUPS:
            raise QueryError(
                f"GROUP BY {', '.join(groups)} makes {total} groups, each with an answer; at most "
                f"{MOST_GROUPS} are possible. Group by fewer attributes."
            )
        return GroupedAxes(groups, tuple(self._shape(groups)))

    def _ordered(self, expression: Expression) -> tuple[str, ...]:
        return tuple(name for name in self.schema.names if name in expression.attributes)

    def _shape(self, names: Sequence[str]) -> list[int]:
        return [self.schema[name].size for name in names]


@runtime_checkable
class TotalsReader(Protocol):
    """A reader that reads the totals of all groups together, where it can."""

    def totals(self, weights: Weights, grouping: GroupedAxes) -> Readings | None:
        """Return the readings of `GroupReader.by_group`; None if groups are read one by one."""
        ...


def read_groups(
    schema: Schema, reader: Reader, weights: Weights, grouping: GroupedAxes
) -> Readings:
    """Return the readings of all groups; without groups, that of all cells."""
    if not grouping.names:
        found = reader.read(weights) if weights.largest() else LinearReading(0.0, 0.0)
        return Readings.of([found])
    some = reader.totals(weights, grouping) if isinstance(reader, TotalsReader) else None
    if some is not None:
        return some
    readers = reader if isinstance(reader, GroupReader) else OneByOne(schema, reader)
    return readers.by_group(weights, grouping)


def read_averages(
    schema: Schema, reader: Reader, weights: AverageWeights, grouping: GroupedAxes
) -> AverageReadings:
    """Return the readings of the averages of all groups; without groups, that of all cells."""
    if grouping.names and isinstance(reader, GroupReader):
        return reader.averages(weights, grouping)
    return OneByOne(schema, reader).averages(weights, grouping)


def amount_limits(
    schema: Schema, condition: Weights, amount: WeightTensor, grouping: GroupedAxes
) -> list[tuple[float, float]]:
    """Return the least and the largest amount that is possible under the condition, by group."""
    near = [part for part in condition.parts if not set(part.names).isdisjoint(amount.names)]
    both = joined(schema, [*near, WeightTensor(amount.names, np.ones_like(amount.values))]).parts[
        -1
    ]
    shape = [
        n if a in amount.names else 1 for a, n in zip(both.names, both.values.shape, strict=True)
    ]
    amounts = np.broadcast_to(amount.values.reshape(shape), both.values.shape)
    others = tuple(axis for axis, name in enumerate(both.names) if name not in grouping.names)
    names = [name for name in both.names if name in grouping.names]
    there = both.values != 0
    least = np.min(amounts, axis=others, initial=np.inf, where=there)
    most = np.max(amounts, axis=others, initial=-np.inf, where=there)
    by_group = (grouping.broadcastable(np.asarray(each), names) for each in (least, most))
    limits = (np.broadcast_to(each, grouping.shape).reshape(-1).tolist() for each in by_group)
    return list(zip(*limits, strict=True))
