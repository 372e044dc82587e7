"""Answers from sums of products of amounts, with those of the amounts themselves.

With A = (a - middle) / step for each column, a · b is a polynomial in A, B and A · B. Of each of
these the sum by cells was measured with noise of its own, and so was the number of rows. SUM and
AVG of a polynomial of degree 2 are one linear functional of all of them, whose law knows each noise
once. Variances, covariances, correlations and regressions ask for such averages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Self

import numpy as np

from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Evidence, MeasuredSum, Measurements
from scumble.model.long_work import told
from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.amounts import Amounts, Products
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.measurements.readers import linear_reader
from scumble.public.estimation.measurements.readings import (
    AverageReadings,
    AverageWeights,
    GroupedAxes,
    NoisyTotal,
    Reader,
    Readings,
    Weights,
    WeightTensor,
    added,
    joined,
)
from scumble.public.estimation.measurements.sums import (
    AMOUNT_OF,
    SumReaders,
    check_others,
    how_to_measure,
)
from scumble.public.estimation.measurements.sums import measured_amount as sum_amount
from scumble.public.estimation.measurements.weighed import (
    NOTHING,
    Key,
    WeighedQuestion,
    amount_limits,
    read_averages,
    read_groups,
)
from scumble.public.sandbox import Sandbox
from scumble.public.sql.bin_bounds import Amount
from scumble.public.sql.bounding import NotBoundedError
from scumble.public.sql.linear_amounts import Polynomial, PolynomialTree, free_of

SUMMED = "sums of products of amounts, of amounts, and count, each a {}"
AVERAGED = "ratio of sums of products of amounts and a count, each a {}; Fieller interval"
_MOST_COLUMNS = 8  # that a question multiplies and adds up: their limits are tried together
_ALL = GroupedAxes((), ())


@dataclass(frozen=True)
class AskedMoments:
    """A polynomial of degree 2 in the amounts of columns; `named` has what each is called in it."""

    polynomial: Polynomial
    named: dict[str, str]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.named.values())

    @classmethod
    def of(cls, evidence: Evidence, schema: Schema, query: Query) -> Self | None:
        """Return what a question asks of products or of several columns; None if it does not.
        QueryError if a product was not measured, or for more columns than are tried together.
        """
        argument = query.argument
        if not isinstance(evidence, Measurements) or any(each.sides for each in evidence.sums):
            return None
        if not evidence.sums or argument is None or query.aggregate == "count":
            return None
        named = dict(_amounts_named(evidence, schema, argument))
        try:
            polynomial = PolynomialTree(argument, list(named)).polynomial if named else {}
        except NotBoundedError:
            return None
        products = [{named[name] for name in key} for key in polynomial if len(key) == 2]
        if not products and len(named) < 2:
            return None
        for columns in products:
            found = "*".join(name for name in evidence.sum_columns if name in columns)
            found = f"{found}*{found}" if len(columns) == 1 else found
            if found in evidence.moments:
                continue
            if not columns.isdisjoint(evidence.columns):
                return None  # the bins of a column tell something
            raise QueryError(
                f"Of '{min(columns)}' only sums were measured, and none of '{found}'. "
                f"{how_to_measure(min(columns), found)}"
            )
        if len(named) > _MOST_COLUMNS:
            raise QueryError(f"A question adds up at most {_MOST_COLUMNS} columns of amounts.")
        return cls(Polynomial(polynomial), named)


def _amounts_named(
    evidence: Evidence, schema: Schema, argument: Expression
) -> Iterator[tuple[str, str]]:
    """Yield the columns whose sums an argument needs, each with its name there. Cells have the
    values of other columns.
    """
    for column in evidence.sum_columns:
        if (name := AMOUNT_OF + column) in argument.attributes:
            yield name, column
        elif column not in argument.attributes:
            continue
        elif column not in evidence.columns or schema[column].coarse:
            yield column, column


def measured_amount(evidence: Evidence, engine: Sandbox, query: Query) -> Amount | None:
    """Return the amount of a question that measured sums answer, for conditions that cut bins; None
    for other questions.
    """
    asked, argument = AskedMoments.of(evidence, engine.schema, query), query.argument
    if asked is None or argument is None or not isinstance(evidence, Measurements):
        return sum_amount(evidence, engine, query)
    check_others(engine.schema, argument, asked.columns)
    least, most = MomentQuestion(
        engine.schema, query, engine, asked=asked, evidence=evidence
    ).limits()
    tree = PolynomialTree(argument, list(asked.named))
    sql = tree.text(tree.root, {name: quoted(AMOUNT_OF + name) for name in asked.named})
    names = [AMOUNT_OF + name if name in asked.named else name for name in argument.attributes]
    amount = Expression(sql, tuple(names), argument.start)
    ends = float(least.values.min()), float(most.values.max())
    return Amount(amount, amount, amount, cut=False, ends=ends)


def without_presence(evidence: Measurements, query: Query, engine: Sandbox) -> Query:
    """Return a question without the conditions that amounts are not NULL which always are there."""
    always = {each.amounts.column for each in evidence.sums if not each.amounts.missing}
    always -= {*evidence.columns}

    def holds(clause: Expression) -> bool:
        if not clause.attributes or not always.issuperset(clause.attributes):
            return False
        try:
            sql, _ = PolynomialTree(clause, clause.attributes).condition
        except NotBoundedError:
            return False
        return bool(engine.evaluate([Expression(sql, ())], [])[0].all())

    left = tuple(each for each in query.clauses if not holds(each)) if always else query.clauses
    return query if len(left) == len(query.clauses) else replace(query, clauses=left)


@dataclass(frozen=True)
class _Weighed:
    """A question as weights: what each count is multiplied by, and each sum of amounts."""

    condition: Weights
    plain: WeightTensor
    sums: dict[str, WeightTensor]


@dataclass(frozen=True)
class MomentQuestion(WeighedQuestion):
    """A SUM or AVG of a polynomial of degree 2 in columns whose sums were measured."""

    asked: AskedMoments = field(kw_only=True)
    evidence: Measurements = field(kw_only=True)

    @cached_property
    def measured(self) -> dict[str, MeasuredSum]:
        return {each.amounts.column: each for each in self.evidence.sums}

    @cached_property
    def count(self) -> Reader:
        """The reader of the number of rows that have all amounts."""
        columns = self.asked.columns
        missing = [name for name in columns if self.measured[name].amounts.missing]
        if missing and len(columns) > 1:
            raise QueryError(
                f"'{missing[0]}' may be missing, and sums of the rows that have both it and "
                "another amount were not measured. Ask for one of them at a time."
            )
        return SumReaders.of(
            self.evidence, self.schema, self.engine, self.measured[columns[0]]
        ).count

    def _reader(self, name: str) -> Reader:
        """Return the reader of the sums of a column, or of products."""
        if (kept := f"moments of {name}") not in self.engine.derived:
            cells = self.schema.select([n for n in self.schema.names if n in self.evidence.columns])
            total = self.measured[name].total
            place = self.engine.of_file(cells, total.file)
            self.engine.derived[kept] = linear_reader(total, cells, place)
        found: Reader = self.engine.derived[kept]
        return found

    def answers(self) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group that is possible under the condition, with its estimate."""
        weighed = self._weighed()
        grouping = self._grouping() if self.query.groups else _ALL
        groups = np.flatnonzero(grouping.largest(weighed.condition) > 0).tolist()
        if not self.query.groups:
            groups = [0]
        average = self.query.aggregate == "mean"
        estimates = self._averages if average else self._totals
        keys = self.schema.cell_values(grouping.names, groups) if self.query.groups else [()]
        return zip(told(keys), estimates(weighed, grouping, groups), strict=True)

    # The question as weights.

    def _weighed(self) -> _Weighed:
        """Return the weights of the counts and sums that make up the polynomial."""
        parts = [self._present(clause) for clause in self.query.clauses]
        plain = self._factors.get((), WeightTensor((), np.array(0.0)))
        sums = dict[str, WeightTensor]()

        def add(name: str, factor: WeightTensor, times: float) -> None:
            if times:
                more = WeightTensor(factor.names, factor.values * times)
                sums[name] = added(self.schema, sums[name], more) if name in sums else more

        for key in self.asked.polynomial:
            factor = self._factors[key]
            columns = [self.measured[self.asked.named[name]].amounts for name in key]
            constant = math.prod(float(each.middle) for each in columns)
            if len(columns) == 2:
                moment = self._moment(columns)
                constant += float(moment.middle)
                add(moment.column, factor, float(moment.step))
                for one, other in (columns, columns[::-1]):
                    add(one.column, factor, float(one.step * other.middle))
            elif columns:
                add(columns[0].column, factor, float(columns[0].step))
            if key:
                more = WeightTensor(factor.names, factor.values * constant)
                plain = added(self.schema, plain, more)
        return _Weighed(joined(self.schema, parts), plain, sums)

    def _moment(self, columns: Sequence[Amounts]) -> Amounts:
        wanted = {each.column for each in columns}
        [found] = [
            each.amounts
            for each in self.evidence.sums
            if isinstance(each.amounts, Products) and {*each.amounts.columns} == wanted
        ]
        return found

    def _present(self, clause: Expression) -> WeightTensor:
        """Return where a condition holds for rows with all amounts. Others are never meant: the
        condition that the argument is not NULL is one of the clauses.
        """
        cells = self.evidence.columns
        hidden = [n for n in self.asked.named if n in clause.attributes and n not in cells]
        if not hidden:
            return self._truth(clause)
        try:
            sql, _ = PolynomialTree(clause, hidden).condition
        except NotBoundedError:
            raise QueryError(
                f"Of '{hidden[0]}' only sums were measured: no condition on it is answered."
            ) from None
        return self._truth(self._free(clause, sql))

    def _free(self, expression: Expression, sql: str) -> Expression:
        """Return SQL over the columns of an expression that are not added up."""
        found = Expression(sql, expression.attributes, expression.start)
        for name in self.asked.named:
            found = free_of(found, sql, name)
        return found

    @cached_property
    def _factors(self) -> dict[tuple[str, ...], WeightTensor]:
        """The factor of each product of amounts, by cells."""
        assert self.query.argument is not None  # noqa: S101  (`AskedMoments.of` says so)
        free = {
            key: self._free(self.query.argument, sql) for key, sql in self.asked.polynomial.items()
        }
        names = self._ordered(next(iter(free.values())))
        own = [each for each in self.query.clauses if set(each.attributes) <= set(names)]
        found = self.engine.evaluate([*own, *free.values()], names)[len(own) :]
        return {
            key: WeightTensor(names, values.astype(np.float64).reshape(self._shape(names)))
            for key, values in zip(free, found, strict=True)
        }

    def _apart(self, weighed: _Weighed, grouping: GroupedAxes) -> Readings | None:
        """Return the readings of the sums of amounts and products, each with noise of its own."""
        found: Readings | None = None
        for name, factor in weighed.sums.items():
            weights = joined(self.schema, [*weighed.condition.parts, factor])
            one = self._whole(read_groups(self.schema, self._reader(name), weights, grouping))
            found = one if found is None else found.plus(one, apart=True)
        return found

    def _whole(self, readings: Readings) -> Readings:
        """Refuse readings that have bounds."""
        if readings.low is not None:
            raise QueryError(
                "This cuts boxes of the release, and products of amounts are known for whole boxes "
                "alone. Ask about all rows, or publish by a method without boxes, as Histogram."
            )
        return readings

    # Sums and averages.

    def _totals(
        self, weighed: _Weighed, grouping: GroupedAxes, groups: Sequence[int]
    ) -> Iterator[Estimate]:
        counts = joined(self.schema, [*weighed.condition.parts, weighed.plain])
        readings = self._whole(read_groups(self.schema, self.count, counts, grouping))
        apart = self._apart(weighed, grouping)
        if apart is not None:
            readings = readings.plus(apart, apart=True)
        method = SUMMED.format(self.count.method)
        for group in groups:
            reading = readings.at(group)
            law = NoisyTotal(reading) if reading.variance else Exact()
            notes = (*self._notes, *reading.notes)
            yield Estimate(reading.value, law, method, notes)

    def _averages(
        self, weighed: _Weighed, grouping: GroupedAxes, groups: Sequence[int]
    ) -> Iterator[Estimate]:
        average = self._average_readings(weighed, grouping)
        ends = self.limits()
        lows, highs = (amount_limits(self.schema, weighed.condition, end, grouping) for end in ends)
        method = AVERAGED.format(self.count.method)
        for group in groups:
            limits = lows[group][0], highs[group][1]
            law = average.law(group, *limits)
            if not law.count.value or limits[0] > limits[1]:
                notes = (*self._notes, NOTHING)
                yield Estimate(math.nan, Unknown(), "average of no rows", notes)
                continue
            said = dict.fromkeys((*law.apart.notes, *law.total.notes, *law.count.notes))
            yield law.estimate(method, (*self._notes, *said))

    def _average_readings(self, weighed: _Weighed, grouping: GroupedAxes) -> AverageReadings:
        counts = joined(self.schema, [*weighed.condition.parts, weighed.plain])
        weights = AverageWeights(weighed.condition, weighed.plain, counts)
        found = read_averages(self.schema, self.count, weights, grouping)
        self._whole(found.totals)
        self._whole(found.counts)
        return AverageReadings(
            found.totals,
            found.counts,
            found.covariances,
            found.centred,
            self._apart(weighed, grouping),
        )

    def limits(self) -> tuple[WeightTensor, WeightTensor]:
        """Return the least and the largest value of the polynomial by cells.

        A square is (a - low)(a - high) + (low + high) a - low · high, of which the first part is
        from -width²/4 to 0. What remains is linear in each amount: its ends are at those of the
        amounts.
        """
        ends = {
            name: (float(each.low), float(each.high))
            for name, column in self.asked.named.items()
            for each in [self.measured[column].amounts]
        }
        squares = [key for key in self.asked.polynomial if len(key) == 2 and key[0] == key[1]]
        corners = list[WeightTensor]()
        for corner in product(*ends.values()):
            at = dict(zip(ends, corner, strict=True))
            value = WeightTensor((), np.array(0.0))
            for key in self.asked.polynomial:
                factor = self._factors[key]
                amount = math.prod(at[name] for name in key)
                if key in squares:
                    low, high = ends[key[0]]
                    amount = (low + high) * at[key[0]] - low * high
                value = added(
                    self.schema, value, WeightTensor(factor.names, factor.values * amount)
                )
            corners.append(value)
        names, values = corners[0].names, np.stack([each.values for each in corners])
        least, most = (WeightTensor(names, each) for each in (values.min(axis=0), values.max(0)))
        for key in squares:
            factor, (low, high) = self._factors[key], ends[key[0]]
            bent = factor.values * -((high - low) ** 2) / 4
            least = added(self.schema, least, WeightTensor(factor.names, np.minimum(bent, 0.0)))
            most = added(self.schema, most, WeightTensor(factor.names, np.maximum(bent, 0.0)))
        return least, most

    @cached_property
    def _notes(self) -> tuple[str, ...]:
        numbers = [(name, self.schema[name].number) for name in self.asked.columns]
        clamped = [number.clamping(name) for name, number in numbers if number is not None]
        return (*self.query.notes, *clamped)
