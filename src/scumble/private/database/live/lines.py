"""What a question asks of each of its groups: a count, or a sum or average of one column. And the
lines that are measured for it: what each row of a set adds.

With S the sum of (amount - middle) in whole steps and N the count of the rows, SUM is
scale · S + middle · N, and AVG is middle + scale · S / N.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm
from typing import Any, cast

import numpy as np

from scumble.model.errors import QueryError, named
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import Query
from scumble.model.schema.amounts import Amounts
from scumble.model.schema.numbers import exact
from scumble.model.schema.schema import Schema
from scumble.public.estimation.estimators import Estimator
from scumble.public.estimation.measurements.readings import (
    GroupedAxes,
    Weights,
    WeightTensor,
    joined,
)
from scumble.public.estimation.measurements.sums import CentredQuestion, SumQuestion, sum_asked
from scumble.public.estimation.measurements.weighed import WeighedQuestion, amount_limits
from scumble.public.sql.aggregates import Term
from scumble.public.sql.select_plan import SelectPlan

MOST_STEPS = 1 << 31  # of the values of an attribute
_ALL = GroupedAxes((), ())
_NOT_MEASURED = (
    "An accuracy can be asked for counts of rows, and for sums and averages of one column, one "
    "kind at a time. What is made of several numbers is answered from what is known: leave {} out."
)


@dataclass(frozen=True)
class Line:
    """What each row of a set adds: 1, or 1 if it has an amount of `column` (`present`), or the
    steps of its amount, or a whole number by its code of the attribute `axis`.
    """

    column: str = ""
    present: bool = False
    axis: str = ""
    values: tuple[int, ...] = ()

    @property
    def signed(self) -> bool:
        """Whether a row may add numbers of either sign."""
        return bool(self.axis or (self.column and not self.present))

    @property
    def reader(self) -> str:
        """The name of what reads its sums: "" for all that follows from the attributes."""
        return f"{self.column} present" if self.present else self.column

    def largest(self, schema: Schema) -> int:
        """Return the most that one row adds, with either sign."""
        if self.axis:
            return max(1, *map(abs, self.values))  # 1 where all rows have one amount
        return Amounts.of(schema, self.column).largest if self.signed else 1

    def weights(self, schema: Schema, points: Weights) -> Weights:
        """Return the weights of its sum over a set, for the reader of the line."""
        if not self.axis:
            return points
        own = WeightTensor((self.axis,), np.array(self.values, np.float64))
        return joined(schema, [*points.parts, own])

    def to_dict(self) -> dict[str, Any]:
        if self.axis:
            return {"axis": self.axis, "values": list(self.values)}
        return {"column": self.column, "present": self.present} if self.column else {}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Line:
        return cls(
            data.get("column", ""),
            bool(data.get("present", False)),
            data.get("axis", ""),
            tuple(map(int, data.get("values", ()))),
        )


ROWS = Line()


@dataclass(frozen=True)
class Asked:
    """What is asked of one group: the number of its query, its key, and its rows, as weights of the
    `count` line. Without a `total` it is their number.
    """

    query: int
    key: tuple[Any, ...]
    rows: Weights
    count: Line = ROWS
    total: Total | None = None


@dataclass(frozen=True)
class Total:
    """A sum, or an average: of `middle` + `scale` times what the `line` adds for each row, which is
    between the `limits`.
    """

    line: Line
    middle: float
    scale: float
    limits: tuple[float, float]
    average: bool


def asked_of(
    question: SelectPlan | Query, asked: Sequence[Query], estimator: Estimator
) -> list[Asked]:
    """Return what is asked of the groups of a question, those of its finest groups first. `asked`
    are all questions that are asked for it.
    """
    queries = _measured(question, asked)
    if any(estimator.cuts(query) for query in queries):
        raise QueryError(
            "An accuracy can be asked for whole bins, and the condition cuts some: compare with "
            f"their edges, or leave {named('within')} out."
        )
    schema = estimator.schema
    queries.sort(key=lambda each: -schema.size(each.groups))
    found = [
        each for number, query in enumerate(queries) for each in _groups(number, query, estimator)
    ]
    return [each for each in found if each.rows.largest()]


def _measured(question: SelectPlan | Query, asked: Sequence[Query]) -> list[Query]:
    """Return the questions whose answers are the numbers of the answer."""
    kinds: set[str] = {each.aggregate for each in asked}
    if isinstance(question, SelectPlan):
        nodes = [item.node for item in question.items]
        kinds = {node.kind if isinstance(node, Term) else "" for node in nodes}
    found = [each for each in asked if each.aggregate in kinds]
    if len(kinds) == 1 and found and all(type(each) is Query for each in found):
        return found
    raise QueryError(_NOT_MEASURED.format(named("within")))


def _groups(number: int, query: Query, estimator: Estimator) -> Iterator[Asked]:
    schema, sandbox, evidence = estimator.schema, estimator.sandbox, estimator.evidence
    sandbox.check(query)
    assert isinstance(evidence, Measurements)  # noqa: S101  (a base is nothing else)
    column = sum_asked(evidence, query)
    if column is not None:
        question = SumQuestion.of(evidence, schema, query, sandbox, column)
        yield from _of_column(number, cast(CentredQuestion, question))  # a base has no other
        return
    if query.aggregate == "count":
        whole = WeighedQuestion(schema, query, sandbox)
        for key, rows, _ in whole.weights_by_group():
            yield Asked(number, key, rows)
        return
    argument = query.argument
    if argument is None or argument.factors or len(argument.attributes) != 1:
        raise QueryError(_NOT_MEASURED.format(named("within")))
    amount = cast(WeightTensor, WeighedQuestion(schema, query, sandbox).amount())
    counted = WeighedQuestion(schema, replace(query, aggregate="count", argument=None), sandbox)
    for key, rows, _ in counted.weights_by_group():
        if rows.largest():
            total = _of_attribute(schema, rows, amount, average=query.aggregate == "mean")
            yield Asked(number, key, rows, total=total)


def _of_column(number: int, question: CentredQuestion) -> Iterator[Asked]:
    """Yield what is asked of the groups of a question about the amounts of a column."""
    query, measured = question.query, question.measured
    column, amounts = measured.amounts.column, measured.amounts
    count = Line(column, present=True) if measured.present is not None else ROWS
    found = question.plain()
    if found is None:
        raise QueryError(_NOT_MEASURED.format(named("within")))
    rest, factor, groups = found
    ends = sorted(rest + factor * float(end) for end in (amounts.low, amounts.high))
    for key, rows in groups:
        total = None
        if query.aggregate != "count":
            middle, scale = rest + factor * float(amounts.middle), factor * float(amounts.step)
            average = query.aggregate == "mean"
            total = Total(Line(column), middle, scale, (ends[0], ends[1]), average)
        yield Asked(number, key, rows, count, total)


def _of_attribute(schema: Schema, rows: Weights, amount: WeightTensor, *, average: bool) -> Total:
    """Return what is asked where a row adds an amount that follows from an attribute."""
    [name] = amount.names
    possible = _possible(rows, name, len(amount.values))
    amounts = [exact(each) for each in amount.values[possible].tolist()]
    whole = lcm(*(each.denominator for each in amounts))
    numbers = [int(each * whole) for each in amounts]
    step = gcd(*(each - numbers[0] for each in numbers)) or 1
    steps = [(each - min(numbers)) // step for each in numbers]
    centre = max(steps) // 2
    if max(steps) > MOST_STEPS:
        raise QueryError(
            f"The amounts of '{name}' are too different to be measured: round them, or leave "
            f"{named('within')} out."
        )
    values = np.zeros(len(amount.values), np.int64)
    values[possible] = [each - centre for each in steps]
    line = Line(axis=name, values=tuple(values.tolist()))
    middle = Fraction(min(numbers) + centre * step, whole)
    [limits] = amount_limits(schema, rows, amount, _ALL)
    return Total(line, float(middle), float(Fraction(step, whole)), limits, average)


def _possible(rows: Weights, name: str, size: int) -> Any:
    """Return the codes of an attribute that the rows may have."""
    for part in rows.parts:
        if name in part.names:
            others = tuple(i for i, each in enumerate(part.names) if each != name)
            return np.flatnonzero(part.values.any(axis=others))
    return np.arange(size)
