"""The groups of a SELECT, what is asked about them, and the answers for groups without rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.sandbox import Sandbox
from scumble.public.sql.bin_pieces import among
from scumble.public.sql.names import sql_literal
from scumble.public.sql.select_plan import SelectPlan, value_clause

KeyValues = tuple[Any, ...]
Answers = Mapping[KeyValues, Estimate]
Ask = Callable[[Sequence[Query]], Sequence[Answers]]


@dataclass(frozen=True)
class CountsBy:
    """The counts of the rows of a question, from which other numbers are computed.

    They are counts by the values of a number `by`, if it is given.
    """

    query: Query
    by: Expression | None = None


Needed = Query | CountsBy
# A count in a weighted sum: its weight, the question, and its group, with the number of `by`.
WeightedCount = tuple[float, CountsBy, KeyValues]


Shares = Callable[
    [Sequence[Sequence[WeightedCount]], Sequence[WeightedCount], tuple[float, float]],
    Sequence[Estimate],
]


@dataclass(frozen=True)
class Answerer:
    """What a selection gets its numbers from.

    `ask` answers COUNT, SUM and AVG questions by attributes. The others are given by a database.
    `possible` returns the groups of questions in which a row can satisfy the condition; without it,
    the answer to a count tells. `combine` returns Σ weight · count, None without any count; with
    it, what is asked never depends on an answer. `shares` returns the quotients of such sums by
    one that may have counts in common with them, given the least and the largest quotient. `sized`
    says that the number of all rows is public.
    """

    ask: Ask
    possible: Callable[[Sequence[Query]], Sequence[Iterable[KeyValues]]] | None = None
    combine: Callable[[Sequence[WeightedCount]], Estimate | None] | None = None
    shares: Shares | None = None
    sized: bool = False


MOST_COMBINATIONS = 2_000
NOTHING = "no rows"
NO_CELL = "no row can satisfy the condition"


def none_counted(query: Query) -> Estimate:
    """Return the count of a group in which no row can satisfy the condition."""
    return Estimate(0.0, Exact(), NO_CELL, query.notes)


def nothing(query: Query, method: str = NOTHING) -> Estimate:
    """Return the sum or average of no rows, which is NULL in SQL."""
    return Estimate(math.nan, Unknown(), method, query.notes)


@dataclass(frozen=True)
class Groups:
    """The groups of one grouping set: attributes, and combinations of values of expressions."""

    plan: SelectPlan
    schema: Schema
    sandbox: Sandbox
    chosen: tuple[int, ...]  # indices of keys

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        names = [self.plan.keys[index].attribute for index in self.chosen]
        return tuple(name for name in names if name is not None)

    @cached_property
    def expressions(self) -> list[int]:
        """The indices of the keys that are expressions."""
        return [index for index in self.chosen if self.plan.keys[index].attribute is None]

    @cached_property
    def _values(self) -> pa.Table:
        """The combinations of values of the expressions, on the public domain."""
        wanted = [self.plan.keys[index].expression for index in self.expressions]
        names = sorted({name for each in wanted for name in each.attributes})
        names = [name for name in self.schema.names if name in names]
        within = [each for each in self.plan.clauses if set(each.attributes) <= set(names)]
        return self.sandbox.distinct(wanted, names, within, MOST_COMBINATIONS)

    @cached_property
    def combinations(self) -> list[tuple[KeyValues, tuple[Expression, ...]]]:
        """The values of the expressions, each with the clauses that they have these values."""
        if not self.expressions:
            return [((), ())]
        table, types = self._values, self.sandbox.sql_types(self._values)
        found = []
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            clauses = tuple(
                value_clause(self.plan.keys[index].expression, value, kind)
                for index, value, kind in zip(self.expressions, row, types, strict=True)
            )
            found.append((row, clauses))
        return found

    def types(self) -> dict[int, pa.DataType]:
        """Return the Arrow types of the keys by index."""
        found = dict(zip(self.expressions, self._expression_types(), strict=True))
        for index in self.chosen:
            name = self.plan.keys[index].attribute
            if name is not None:
                found[index] = self.schema[name].arrow_type
        return found

    def _expression_types(self) -> list[pa.DataType]:
        return [column.type for column in self._values.columns] if self.expressions else []

    def queries(self, query: Query) -> list[Query]:
        """Return the question for every combination of values of the expressions."""
        return [
            replace(query, clauses=(*query.clauses, *more), groups=self.attributes)
            for _, more in self.combinations
        ]

    def merged(self, answers: Sequence[Answers]) -> dict[KeyValues, Estimate]:
        """Return the answers by the values of all keys, in the order of `chosen`."""
        found: dict[KeyValues, Estimate] = {}
        for (values, _), answer in zip(self.combinations, answers, strict=True):
            for key, estimate in answer.items():
                of_attributes, of_expressions = iter(key), iter(values)
                whole = tuple(
                    next(of_expressions if index in self.expressions else of_attributes)
                    for index in self.chosen
                )
                found[whole] = estimate
        return found

    def parted(self, key: KeyValues) -> tuple[tuple[Expression, ...], KeyValues]:
        """Return the clauses of the expressions of a group, and the values of its attributes."""
        pairs = list(zip(self.chosen, key, strict=True))
        values = tuple(value for index, value in pairs if index in self.expressions)
        clauses = dict(self.combinations)[values]
        return clauses, tuple(value for index, value in pairs if index not in self.expressions)

    def counts_of(self, counts: CountsBy, key: KeyValues) -> tuple[CountsBy, KeyValues]:
        """Return the question that has a group, and the values of its attributes."""
        clauses, attributes = self.parted(key)
        query = counts.query
        one = replace(query, clauses=(*query.clauses, *clauses), groups=self.attributes)
        return replace(counts, query=one), attributes

    def within(self, key: KeyValues, outer: Groups) -> KeyValues:
        """Return the values that a group has of the keys of `outer`, groups of fewer keys."""
        pairs = zip(self.chosen, key, strict=True)
        return tuple(value for index, value in pairs if index in outer.chosen)

    def conditions(self, key: KeyValues, outer: Groups) -> list[Expression]:
        """Return the clauses that say which rows are in a group, of those in a group of `outer`."""
        clauses, _ = self.parted(key)
        found = [
            clause
            for index, clause in zip(self.expressions, clauses, strict=True)
            if index not in outer.chosen
        ]
        for index, value in zip(self.chosen, key, strict=True):
            name = self.plan.keys[index].attribute
            if name is not None and index not in outer.chosen:
                found.append(_has_value(self.schema[name], value))
        return found

    def order(self, keys: Sequence[KeyValues]) -> list[KeyValues]:
        """Return the keys sorted: attributes by code, expressions by value, NULL last."""
        ranks: list[dict[Any, int]] = []
        for place, index in enumerate(self.chosen):
            name = self.plan.keys[index].attribute
            if name is not None:
                values: list[Any] = self.schema[name].labels().to_pylist()
            else:
                present = {key[place] for key in keys}
                values = [*sorted(v for v in present if v is not None), None]
            ranks.append({value: rank for rank, value in enumerate(values)})
        return sorted(
            keys, key=lambda key: [rank[part] for rank, part in zip(ranks, key, strict=True)]
        )


def _has_value(attribute: Attribute, value: object) -> Expression:
    """Return the condition that an attribute has a value, as it is published."""
    names = (attribute.name,)
    if value is None:
        return Expression(f"{quoted(attribute.name)} IS NULL", names)
    if attribute.coarse:
        labels = attribute.labels().to_pylist()[: attribute.size - attribute.missing]
        return among(attribute, np.array([label == value for label in labels]))
    return Expression(f"{quoted(attribute.name)} = {sql_literal(value)}", names)  # type: ignore[arg-type]
