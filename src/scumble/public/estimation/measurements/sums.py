"""Answers from measured sums of amounts.

Of sums on both sides of the amounts (`SidedQuestion`), a step above the lower limit counts as a
part of a row at the upper limit, and a step below the upper limit as one at the lower limit: SUM,
AVG and COUNT are weighted sums of sides.

Of sums from the middle of the limits (`CentredQuestion`), with y the sum of (amount - centre) and x
the count of a cell, SUM is y + centre · x and AVG is centre + y / x. The noise of y and that of x
are independent. Each has the reader of its design, so that conditions and groups are those of the
counts.

Where a question cuts a piece whose inside was not measured, the rows of the piece add between the
least and the largest weight times what they add in all, as no amount less the lower limit is
negative.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from scumble.model.designs.residuals import Residuals
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Evidence, MeasuredSum, Measurements
from scumble.model.long_work import told
from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Law, Unknown
from scumble.public.estimation.bounds import Bounded, BoundedAverage, Limit
from scumble.public.estimation.measurements.readers import linear_reader, reader_of, sides_reader
from scumble.public.estimation.measurements.readings import (
    AverageReadings,
    AverageWeights,
    GroupedAxes,
    LinearReading,
    NoisyTotal,
    PieceReader,
    QuestionReader,
    Reader,
    Readings,
    Weights,
    WeightTensor,
    added,
    joined,
)
from scumble.public.estimation.measurements.sides import (
    ALL,
    SidedAverage,
    SidesReader,
)
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
from scumble.public.sql.linear_amounts import LinearTree, free_of

SUMMED = "sum of amounts and count, each a {}"
AVERAGED = "ratio of a sum of amounts and a count, each a {}; Fieller interval"
SIDED = "sum above and below the amounts, each a {}"
SIDED_RATIO = "ratio of sums above and below the amounts, each a {}; Fieller interval"
AMOUNT_OF = "scumble amount of "


class AskedSum(NamedTuple):
    """The column whose measured sum answers a question, and the name that its amount has there."""

    column: str
    name: str


def sum_asked(evidence: Evidence, query: Query) -> AskedSum | None:
    """Return the column whose measured sum answers a question; None if the counts do.

    `QueryError` for a question about a column of which there are sums only that they do not answer.
    """
    measured = set(evidence.sum_columns)
    for column in measured:
        if (name := AMOUNT_OF + column) in query.attributes:
            return AskedSum(column, name)
    if not measured or measured.isdisjoint(query.attributes):
        return None
    hidden = measured.difference(evidence.columns)
    inside = [name for name in query.groups if name in hidden]
    inside += [
        name
        for clause in query.clauses
        for name in sorted(hidden.intersection(clause.attributes))
        if not _is_presence(clause, name)
    ]
    if inside:
        raise _refusal(evidence, inside[0])
    argument, wanted = query.argument, hidden.intersection(query.attributes)
    asked = set() if argument is None else measured.intersection(argument.attributes)
    for name in (wanted or asked) if len(wanted or asked) == 1 else ():
        if (argument is None or _is_linear(argument, name)) and _reaches(evidence, query, name):
            return AskedSum(name, name)
    if wanted:
        raise _refusal(evidence, sorted(wanted)[0])
    return None


def _reaches(evidence: Evidence, query: Query, column: str) -> bool:
    """Return whether to ask the sums of a column: they may be by fewer attributes together than the
    question names, and the counts by all.
    """
    if not isinstance(evidence, Measurements) or column not in evidence.columns:
        return True
    [total] = [each.total for each in evidence.sums if each.amounts.column == column]
    if not isinstance(total.design, Residuals):
        return True
    named = {*query.groups, *(name for clause in query.clauses for name in clause.attributes)}
    if query.argument is not None:
        named.update(name for name in query.argument.attributes if name != column)
    places = {evidence.columns.index(name) for name in named}
    return any(places <= table for table in total.design.sets)


def _is_linear(argument: Expression, column: str) -> bool:
    try:
        return bool(LinearTree(argument, column).form)
    except NotBoundedError:
        return False


def _is_presence(clause: Expression, column: str) -> bool:
    """Return whether a condition on a column asks only whether there is an amount."""
    try:
        return bool(LinearTree(clause, column).condition)
    except NotBoundedError:
        return False


def how_to_measure(column: str, product: str) -> str:
    """Return what to measure of a column for what its sums do not answer."""
    return (
        f"For variances and correlations, publish with moments=['{product}'] (--moments {product})."
        f" For all other questions, and in a live database, name '{column}' among the attributes."
    )


def _refusal(evidence: Evidence, name: str) -> QueryError:
    return QueryError(
        f"Of '{name}' only sums were measured: ask for SUM or AVG of '{name}' times and plus what "
        f"does not depend on it, by {', '.join(evidence.columns)}. "
        + how_to_measure(name, f"{name}*{name}")
    )


def measured_amount(evidence: Evidence, engine: Sandbox, query: Query) -> Amount | None:
    """Return the amount of a question that a measured sum answers, for conditions that cut bins;
    None for other questions.
    """
    asked, argument = sum_asked(evidence, query), query.argument
    if asked is None or argument is None or not isinstance(evidence, Measurements):
        return None
    schema, column = engine.schema, asked.column
    check_others(schema, argument, (column,))
    [amounts] = [each.amounts for each in evidence.sums if each.amounts.column == column]
    tree = LinearTree(argument, column)
    rest, factor = (free_of(argument, sql, column) for sql in tree.form[:2])
    names = [name for name in schema.names if name in rest.attributes]
    add, times = engine.evaluate([rest, factor], names)
    ends = [add + times * float(end) for end in (amounts.low, amounts.high)]
    limits = (float(np.minimum(*ends).min()), float(np.maximum(*ends).max()))
    # A name of its own tells the amount from the bins of the column, on which weights may depend.
    sql = tree.text(tree.root, {column: quoted(AMOUNT_OF + column)})
    others = free_of(argument, sql, column).attributes
    alone = column not in argument.attributes
    amount = Expression(sql, others if alone else (*others, AMOUNT_OF + column), argument.start)
    return Amount(amount, amount, amount, cut=False, ends=limits)


def check_others(schema: Schema, argument: Expression, columns: Sequence[str]) -> None:
    """Raise QueryError if what is added up depends on bins of other columns."""
    others = (name for name in argument.attributes if name not in columns)
    if loose := [name for name in others if schema[name].coarse]:
        raise QueryError(
            f"'{loose[0]}' is published in bins, and what is added up depends on it. Put the "
            "condition on it into WHERE or FILTER."
        )


def sums_of(column: str) -> str:
    """Return the name by which a sandbox keeps the readers of a column."""
    return f"sums of {column}"


@dataclass(frozen=True)
class SumReaders:
    """The readers of the sums of a column, and of the counts of the rows that have an amount."""

    measured: MeasuredSum
    total: Reader
    count: Reader
    every: Reader  # of the counts of all rows

    @classmethod
    def of(
        cls, evidence: Measurements, schema: Schema, engine: Sandbox, measured: MeasuredSum
    ) -> SumReaders:
        """Return the readers, which are made for the first question and kept in `engine`."""
        if (kept := sums_of(measured.amounts.column)) not in engine.derived:
            cells = schema.select([name for name in schema.names if name in evidence.columns])
            total = linear_reader(measured.total, cells, engine.of_file(cells, measured.total.file))
            known = reader_of(evidence, schema, engine)
            every = count = (
                linear_reader(evidence, schema, engine)
                if isinstance(known, QuestionReader)
                else known
            )
            if measured.present is not None:
                place = engine.of_file(cells, measured.present.file)
                rows = None if measured.amounts.missing else evidence.rows
                count = linear_reader(replace(measured.present, rows=rows), cells, place)
            engine.derived[kept] = cls(measured, total, count, every)
        found: SumReaders = engine.derived[kept]
        return found

    @cached_property
    def mean(self) -> float:
        """The average of all amounts, about."""
        every = Weights(())
        total, count = self.total.read(every), self.count.read(every)
        amounts = self.measured.amounts
        found = float(amounts.middle)
        if count.value > 0:
            found += float(amounts.step) * total.value / count.value
        return min(max(found, float(amounts.low)), float(amounts.high))


@dataclass(frozen=True)
class _Weighed:
    """A question as weights: `rest` + `factor` times the amount, in the cells of a condition.
    `absent` are the weights of the rows without an amount, None if they are all 0.
    """

    condition: Weights
    rest: WeightTensor
    factor: WeightTensor
    absent: Weights | None = None

    def fixed(self, schema: Schema, codes: dict[str, int]) -> _Weighed:
        absent = None if self.absent is None else self.absent.fixed(schema, codes)
        return replace(self, condition=self.condition.fixed(schema, codes), absent=absent)


@dataclass(frozen=True)
class SumQuestion(WeighedQuestion):
    """A SUM or AVG of an expression that is linear in a column whose sums were measured; or a count
    of the rows that have an amount.
    """

    asked: AskedSum = field(kw_only=True)
    measured: MeasuredSum = field(kw_only=True)

    @classmethod
    def of(
        cls, evidence: Measurements, schema: Schema, query: Query, engine: Sandbox, asked: AskedSum
    ) -> SumQuestion:
        """Return the question to the sides of a sum, or to sums from the middle of the limits."""
        number = schema[asked.column].number
        if number is not None and query.aggregate != "count":
            query = replace(query, notes=(*query.notes, number.clamping(asked.column)))
        [measured] = [each for each in evidence.sums if each.amounts.column == asked.column]
        if measured.sides:
            sides = sides_reader(evidence, schema, engine, measured)
            return SidedQuestion(schema, query, engine, asked=asked, measured=measured, sides=sides)
        readers = SumReaders.of(evidence, schema, engine, measured)
        return CentredQuestion(
            schema, query, engine, asked=asked, measured=measured, readers=readers
        )

    @property
    def column(self) -> str:
        return self.asked.column

    def answers(self) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group that is possible under the condition, with its estimate."""
        asked = self._weighed()
        grouping = self._grouping() if self.query.groups else ALL
        groups = np.flatnonzero(self._there(asked, grouping)).tolist()
        if not self.query.groups:
            groups = [0]
        average = self.query.aggregate == "mean"
        estimates = self._averages if average else self._totals
        keys = self.schema.cell_values(grouping.names, groups) if self.query.groups else [()]
        return zip(told(keys), estimates(asked, grouping, groups), strict=True)

    def _there(self, asked: _Weighed, grouping: GroupedAxes) -> Any:
        """Return whether a row can be in each group."""
        found = grouping.largest(asked.condition) > 0
        return found if asked.absent is None else found | (grouping.largest(asked.absent) > 0)

    # The question as weights.

    def _weighed(self) -> _Weighed:
        """Return the weights. An average over rows without an amount is refused."""
        argument, missing = self.query.argument, self.measured.amounts.missing
        factors: tuple[Expression, ...] = ()
        if argument is not None and argument.factors and self.query.aggregate == "sum":
            amount = self.asked.name
            factors = tuple(each for each in argument.factors if amount not in each.attributes)
            own = [each for each in argument.factors if amount in each.attributes]
            argument = own[0] if own else Expression("1", ())
        parts = [self._number(each) for each in factors]
        without = list(parts)
        for clause in self.query.clauses:
            if not self._hides(clause):
                parts.append(truth := self._truth(clause))
                without.append(truth)
                continue
            here, gone = LinearTree(clause, self.column).condition
            parts.append(self._truth(free_of(clause, here, self.column)))
            without.append(self._truth(free_of(clause, gone, self.column)))
        rest, factor = WeightTensor((), np.array(1.0)), WeightTensor((), np.array(0.0))
        if argument is not None:
            name = self.asked.name
            form = LinearTree(argument, name).form
            rest, factor, none = (self._number(free_of(argument, sql, name)) for sql in form)
            if self.query.aggregate == "sum":
                without.append(none)
        absent = joined(self.schema, without)
        if not missing or not absent.largest():
            return _Weighed(joined(self.schema, parts), rest, factor)
        if self.query.aggregate == "mean":
            raise QueryError(
                f"This average is over rows without '{self.column}' as well. Ask for that of the "
                f"rows that have one, by WHERE {self.column} IS NOT NULL, or for SUM and COUNT."
            )
        return _Weighed(joined(self.schema, parts), rest, factor, absent)

    def _hides(self, clause: Expression) -> bool:
        return self.column in clause.attributes and self.column not in self._cells

    @property
    def _cells(self) -> tuple[str, ...]:
        return self.measured.total.columns

    def _plus(self, asked: _Weighed, amount: float) -> WeightTensor:
        """Return the expression where the amount is this."""
        times = WeightTensor(asked.factor.names, amount * asked.factor.values)
        return added(self.schema, asked.rest, times)

    def _of_amounts(self, asked: _Weighed) -> Weights:
        """Return the weights of the sums of amounts."""
        step = float(self.measured.amounts.step)
        factor = WeightTensor(asked.factor.names, asked.factor.values * step)
        return joined(self.schema, [*asked.condition.parts, factor])

    def _of_counts(self, asked: _Weighed, amount: float) -> Weights:
        """Return the weights of the counts if every amount is this."""
        return joined(self.schema, [*asked.condition.parts, self._plus(asked, amount)])

    @abstractmethod
    def _totals(
        self, asked: _Weighed, grouping: GroupedAxes, groups: Sequence[int]
    ) -> Iterator[Estimate]:
        """Yield the estimate of every group of a SUM, or a count."""

    @abstractmethod
    def _averages(
        self, asked: _Weighed, grouping: GroupedAxes, groups: Sequence[int]
    ) -> Iterator[Estimate]:
        """Yield the estimate of every group of an AVG."""

    def _limits(self, asked: _Weighed, grouping: GroupedAxes) -> list[tuple[float, float]]:
        """Return the least and the largest amount that is averaged, by group."""
        amounts = self.measured.amounts
        ends = [self._plus(asked, float(end)) for end in (amounts.low, amounts.high)]
        least, most = (WeightTensor(ends[0].names, f(*(e.values for e in ends))) for f in _EXTREMES)
        return [
            (low, high)
            for (low, _), (_, high) in zip(
                amount_limits(self.schema, asked.condition, least, grouping),
                amount_limits(self.schema, asked.condition, most, grouping),
                strict=True,
            )
        ]

    def _no_average(self) -> Estimate:
        notes = (*self.query.notes, NOTHING)
        return Estimate(math.nan, Unknown(), "average of no rows", notes)


@dataclass(frozen=True)
class SidedQuestion(SumQuestion):
    """A question that the sides of amounts answer: of its steps, a row has those above the lower
    limit at the upper one, and the others at the lower one.
    """

    sides: SidesReader = field(kw_only=True)

    def _totals(
        self, asked: _Weighed, grouping: GroupedAxes, groups: Sequence[int]
    ) -> Iterator[Estimate]:
        amounts, condition = self.measured.amounts, asked.condition
        weights = [self._of_counts(asked, float(end)) for end in (amounts.high, amounts.low)]
        if amounts.missing:
            none = WeightTensor((), np.array(0.0))
            weights.append(asked.absent or joined(self.schema, [*condition.parts, none]))
        readings = self.sides.of_sides(weights, grouping)
        there = self._there(asked, grouping)
        for group in groups:
            if not there[group]:
                yield Estimate(0.0, Exact(), "no cell satisfies the condition", self.query.notes)
                continue
            reading = readings.at(group)
            law: Law = NoisyTotal(reading) if reading.variance else Exact()
            method = self.sides.method if self.query.aggregate == "count" else self._method
            yield Estimate(reading.value, law, method, self.query.notes)

    @property
    def _method(self) -> str:
        return SIDED.format(self.sides.method)

    def _averages(
        self, asked: _Weighed, grouping: GroupedAxes, groups: Sequence[int]
    ) -> Iterator[Estimate]:
        amounts = self.measured.amounts
        ends = [self._plus(asked, float(end)) for end in (amounts.high, amounts.low)]
        ratios = self.sides.ratios(asked.condition, ends, grouping)
        limits = self._limits(asked, grouping)
        for group in groups:
            law = SidedAverage(ratios[group], *limits[group])
            if not law.parts[1] or law.least > law.most:
                yield self._no_average()
            else:
                yield law.estimate(SIDED_RATIO.format(self.sides.method), self.query.notes)


@dataclass(frozen=True)
class CentredQuestion(SumQuestion):
    """A question that sums from the middle of the limits answer, with counts beside them."""

    readers: SumReaders = field(kw_only=True)

    def plain(self) -> tuple[float, float, Iterator[tuple[Key, Weights]]] | None:
        """Return what each row adds, a number and another times its amount, and the groups with
        their rows, as weights; None if rows with equal amounts add different numbers.
        """
        asked = self._weighed()
        numbers = [part.values for part in (asked.rest, asked.factor)]
        sets = [np.isin(part.values, (0, 1)).all() for part in asked.condition.parts]
        if asked.absent is not None or not all(sets) or any(np.ptp(each) for each in numbers):
            return None
        grouping = self._grouping() if self.query.groups else ALL
        places = np.flatnonzero(self._there(asked, grouping)).tolist() if self.query.groups else [0]
        keys = self.schema.cell_values(grouping.names, places) if self.query.groups else [()]
        rows = (self._at(asked, grouping, place).condition for place in places)
        rest, factor = (float(each.flat[0]) for each in numbers)
        return rest, factor, zip(keys, rows, strict=True)

    # Sums.

    def _totals(
        self, asked: _Weighed, grouping: GroupedAxes, groups: Sequence[int]
    ) -> Iterator[Estimate]:
        readings = self._readings(asked, grouping)
        there = self._there(asked, grouping)
        for group in groups:
            yield self._total(readings.at(group) if there[group] else None, asked, grouping, group)

    def _readings(self, asked: _Weighed, grouping: GroupedAxes) -> Readings:
        """Return the readings of the sums of all groups, with their limits."""
        amounts = self.measured.amounts
        totals, counts = self._of_amounts(asked), self._of_counts(asked, float(amounts.middle))
        found = read_groups(self.schema, self.readers.total, totals, grouping)
        plain = read_groups(self.schema, self.readers.count, counts, grouping)
        both = found.plus(plain, apart=True)
        if asked.absent is not None:
            return self._with_absent(both, asked.absent, grouping)
        if found.low is None and plain.low is None:
            return both
        # The steps from the lower limit, of which no row has fewer than 0, and what they start at.
        steps = read_groups(self.schema, self.readers.count, totals, grouping).times(amounts.centre)
        least = self._of_counts(asked, float(amounts.low))
        starts = read_groups(self.schema, self.readers.count, least, grouping)
        low, high = (
            one.plus(two.plus(three, apart=False), apart=True)
            for one, two, three in zip(*map(_ends, (found, steps, starts)), strict=True)
        )
        return replace(both, low=low, high=high)

    def _with_absent(self, readings: Readings, absent: Weights, grouping: GroupedAxes) -> Readings:
        """Add the rows without an amount: all rows less those that have one."""
        every, some = (
            read_groups(self.schema, reader, absent, grouping)
            for reader in (self.readers.every, self.readers.count)
        )
        if every.low is not None or some.low is not None:
            raise QueryError(
                f"This counts rows without '{self.column}' as well, and cuts boxes: ask about "
                f"those that have one, by WHERE {self.column} IS NOT NULL."
            )
        there = readings.plus(some.times(-1.0), apart=not readings.numbers[1].any())
        return there.plus(every, apart=True)

    def _total(
        self, reading: LinearReading | None, asked: _Weighed, grouping: GroupedAxes, group: int
    ) -> Estimate:
        if reading is None:
            return Estimate(0.0, Exact(), "no cell satisfies the condition", self.query.notes)
        law: Law = NoisyTotal(reading) if reading.variance else Exact()
        if reading.low is not None:
            low, high = reading.limits
            least = 0.0 if self.query.aggregate == "count" else -math.inf
            spread = lambda: self._spread(self._at(asked, grouping, group), 0.0)  # noqa: E731
            law = Bounded(law, low, high, least, spread=spread)
        method = SUMMED.format(self.readers.count.method)
        if self.query.aggregate == "count":
            method = self.readers.count.method
        return Estimate(reading.value, law, method, (*self.query.notes, *reading.notes))

    def _at(self, asked: _Weighed, grouping: GroupedAxes, group: int) -> _Weighed:
        """Return the weights of one group."""
        places = np.unravel_index(group, grouping.shape) if grouping.names else ()
        codes = {name: int(at) for name, at in zip(grouping.names, places, strict=True)}
        return asked.fixed(self.schema, codes)

    def _spread(self, asked: _Weighed, centre: float) -> float:
        """Return the variance around an even spread within pieces, by the model of the counts."""
        reader = self.readers.count
        if not isinstance(reader, PieceReader):
            return math.nan
        rest = WeightTensor(asked.rest.names, asked.rest.values - centre)
        return reader.spread(self._of_counts(replace(asked, rest=rest), self.readers.mean))

    # Averages.

    def _averages(
        self, asked: _Weighed, grouping: GroupedAxes, groups: Sequence[int]
    ) -> Iterator[Estimate]:
        average = self._average_readings(asked, grouping)
        limits = self._limits(asked, grouping)
        for group in groups:
            yield self._average(average, limits[group], asked, grouping, group)

    def _average_readings(self, asked: _Weighed, grouping: GroupedAxes) -> AverageReadings:
        schema, reader = self.schema, self.readers.count
        middle = float(self.measured.amounts.middle)
        amount = self._plus(asked, middle)
        apart = read_groups(schema, self.readers.total, self._of_amounts(asked), grouping)
        if (amount.values == amount.values.flat[0]).all():
            ratio = float(amount.values.flat[0])
            counts = read_groups(schema, reader, asked.condition, grouping)
            covariances = ratio * counts.numbers[1]
            totals, centred = counts.times(ratio), counts.times(0.0)
            return AverageReadings(totals, counts, covariances, centred, apart)
        weighted = self._of_counts(asked, middle)
        weights = AverageWeights(asked.condition, amount, weighted)
        return replace(read_averages(schema, reader, weights, grouping), apart=apart)

    def _average(
        self,
        average: AverageReadings,
        limits: tuple[float, float],
        asked: _Weighed,
        grouping: GroupedAxes,
        group: int,
    ) -> Estimate:
        law = average.law(group, *limits)
        if not law.count.value or limits[0] > limits[1]:
            return self._no_average()
        said = dict.fromkeys((*law.apart.notes, *law.total.notes, *law.count.notes))
        method = AVERAGED.format(self.readers.count.method)
        found = law.estimate(method, (*self.query.notes, *said))
        if law.few or (law.apart.low is None and law.count.low is None):
            return found
        one = self._at(asked, grouping, group)

        def centred(centre: float, lower: bool) -> Limit:
            rest = WeightTensor(one.rest.names, one.rest.values - centre)
            return self._readings(replace(one, rest=rest), ALL).at(0).limits[0 if lower else 1]

        spread: Callable[[], float] = lambda: (  # noqa: E731
            self._spread(one, law.value) / law.count.value**2
        )
        return replace(found, law=BoundedAverage(law, centred, *law.limits, law.value, spread))


_EXTREMES: tuple[Any, Any] = (np.minimum, np.maximum)


def _ends(readings: Readings) -> tuple[Readings, Readings]:
    """Return the limits of readings; those that have none are their own."""
    return readings.low or readings, readings.high or readings
