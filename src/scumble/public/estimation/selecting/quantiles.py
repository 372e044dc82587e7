"""Quantiles by inversion of estimated counts.

Let F(t) = N(x ≤ t) - q·N, a sum over rows: 1 - q for rows with x ≤ t, and -q for the others. The
discrete quantile t satisfies F(t) ≥ 0 and N(x < t) - q·N ≤ 0. The interval holds every value t of
the domain for which the upper limit of the first and the lower limit of the second say so. The true
quantile is left out only if one of two limits fails, each with probability α/2, with ties and with
an unknown N. The interpolated quantile lies between the order statistics number ⌊q(N-1)⌋ + 1 and
⌈q(N-1)⌉ + 1, for which the bounds are F(t) > -q and N(x < t) - q·N < 1 - q.

A number of a column that is published in bins is between a least and a largest one in every bin. A
quantile rises with the number of every row, so it is between the quantiles of these two numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import types

from scumble.model.errors import QueryError
from scumble.model.query import Expression, Query, quoted
from scumble.public.estimate import NOT_ANSWERED, Anywhere, Estimate, Exact
from scumble.public.estimation.bounds import combined
from scumble.public.estimation.cut_bins import together
from scumble.public.estimation.selecting.groups import NO_CELL, CountsBy, KeyValues, nothing
from scumble.public.sql.aggregates import Term
from scumble.public.sql.bin_bounds import Versions
from scumble.public.sql.bin_pieces import among

if TYPE_CHECKING:
    from scumble.public.estimation.selecting.selection import Selection

METHOD = "inversion of estimated counts; the interval inverts their intervals"
FEW = "too few people to tell a quantile: it may be any value of the domain"
MOST_VALUES = 1_000_000
_SCANNED = 100  # places that are tried one after the other; more are searched in stages
_ONE_SIGMA = 0.6826894921370859


def quantiles(selection: Selection, term: Term) -> dict[KeyValues, Estimate]:
    """Return the quantile for each group."""
    versions = _by_bin(Inversion(selection, term))
    if len(versions) == 1:
        return {key: versions[0].estimate(key) for key in selection.keys}
    return {key: _between(versions, key) for key in selection.keys}


def _between(versions: Sequence[Inversion], key: KeyValues) -> Estimate:
    """Return the quantile between those of the least and of the largest numbers; its value is that
    under an even spread of rows within bins. `versions` are those of `_by_bin`.
    """
    value, low, high = (each.estimate(key) for each in versions)
    if value.reason == NOT_ANSWERED:
        return value
    if not math.isnan(value.value):
        value = replace(value, value=_spread_evenly(versions, key))
    return combined(value, low, high)


def _spread_evenly(versions: Sequence[Inversion], key: KeyValues) -> float:
    """Return the quantile if the rows of a bin are spread evenly over its numbers."""
    mean, least, largest = versions
    number = mean.number(key)
    place = mean.first_place(key, mean.term.share * number)
    counts = [0.0 if at < 0 else mean.count(at, key, number) for at in (place - 1, place)]
    share = (mean.term.share * number - counts[0]) / max(counts[1] - counts[0], 1.0)
    bins = [at for at, each in enumerate(mean.numbers or ()) if each == mean.values[place]]
    low = min((least.numbers or ())[at] for at in bins)
    high = max((largest.numbers or ())[at] for at in bins)
    return low + min(max(share, 0.0), 1.0) * (high - low)


def _by_bin(inversion: Inversion) -> list[Inversion]:
    """Return the inversions for the mean, the least and the largest number in every bin; the given
    one, if the argument has no column in bins.
    """
    argument, selection = inversion.argument, inversion.selection
    versions = Versions(selection.sandbox)
    if not versions.coarse(argument):
        return [inversion]
    if len(argument.attributes) > 1:
        raise QueryError(
            f"The quantile of {argument.sql} cannot be bounded: of a column in bins, by month or "
            "by year, a quantile is of an expression of that column alone."
        )
    _, own = together(inversion.clauses, versions)
    [name] = argument.attributes
    amount = versions.amount(argument, own)
    where = versions.condition(own[name]).possible if name in own else Expression("TRUE", (name,))
    holds, *numbers = selection.sandbox.evaluate(
        [where, amount.mean, amount.least, amount.largest], [name]
    )
    bins = len(holds) - selection.groups.schema[name].missing
    found = [np.where(holds, each, np.nan)[:bins].tolist() for each in numbers]
    return [replace(inversion, numbers=tuple(each)) for each in found[: 3 if amount.cut else 1]]


@dataclass(frozen=True)
class Inversion:
    """The counts that are asked for, at the values of the argument on the public domain.

    `numbers` are the values of the argument in the bins of its only column, if it is published in
    bins; nan in a bin in which the condition does not hold.
    """

    selection: Selection
    term: Term
    numbers: tuple[float, ...] | None = None

    @cached_property
    def clauses(self) -> tuple[Expression, ...]:
        return tuple(dict.fromkeys((*self.selection.plan.clauses, *self.term.clauses)))

    @cached_property
    def argument(self) -> Expression:
        assert self.term.argument is not None  # noqa: S101  (the parser saw to it)
        return self.term.argument

    @cached_property
    def values(self) -> list[float]:
        """The values of the argument on the domain, in rising order."""
        if self.numbers is not None:
            return sorted({each for each in self.numbers if not math.isnan(each)})
        return domain_values(self.selection, self.argument, self.clauses, "A quantile")

    @cached_property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.selection.plan.notes, *self.term.notes)))

    @cached_property
    def counts(self) -> CountsBy:
        """The counts by value, from which a database computes everything else."""
        if len(self.argument.attributes) != 1:
            raise QueryError(
                "A quantile in a database is of an expression of exactly one column. "
                f"{self.argument.sql} has {len(self.argument.attributes)}."
            )
        query = Query("count", None, self.clauses, text=self.selection.plan.text)
        return CountsBy(query, self._column or self.argument)

    @cached_property
    def _column(self) -> Expression | None:
        """The only column of the argument, if it is published in bins."""
        coarse = Versions(self.selection.sandbox).coarse(self.argument)
        return Expression(quoted(coarse[0]), coarse) if coarse else None

    @cached_property
    def _counted(self) -> list[tuple[float, float]]:
        """The values that a database counts rows by, each with the value of the argument."""
        if self.numbers is None or self._column is None:
            return [(each, each) for each in self.values]
        [shown] = self.selection.sandbox.evaluate([self._column], self._column.attributes)
        pairs = zip(shown.tolist(), self.numbers, strict=False)  # a missing value is last
        return [(each, number) for each, number in pairs if not math.isnan(number)]

    def number(self, key: KeyValues) -> float:
        """Return the estimated number of rows."""
        found = self._rows(key)
        return 0.0 if found is None else found.value

    def _rows(self, key: KeyValues) -> Estimate | None:
        """Return the estimate of the number of rows; None in an impossible group."""
        if self.selection.fixed:
            ones = {shown: 1.0 for shown, _ in self._counted}
            return self.selection.combine(self.counts, key, ones)
        query = Query("count", None, self.clauses, text=self.selection.plan.text)
        return self.selection.ask(query).get(key)

    def excess(self, place: int, key: KeyValues) -> Estimate | None:
        """Return the estimate of F at the value number `place`; None in an impossible group."""
        share, value = self.term.share, self.values[place]
        if self.selection.fixed:
            weights = {
                shown: 1 - share if number <= value else -share for shown, number in self._counted
            }
            return self.selection.combine(self.counts, key, weights)
        rows = self._at_most(value)
        sql = f"CASE WHEN {rows} THEN {1 - share!r}::DOUBLE ELSE {-share!r}::DOUBLE END"
        amount = Expression(sql, self.argument.attributes, self.argument.start)
        query = Query("sum", amount, self.clauses, text=self.selection.plan.text)
        return self.selection.ask(query).get(key)

    def _at_most(self, value: float) -> str:
        """Return in SQL the condition that the argument is at most `value`."""
        if self.numbers is None:
            return f"({self.argument.sql}) <= CAST('{value!r}' AS DOUBLE)"
        attribute = self.selection.groups.schema[self.argument.attributes[0]]
        return among(attribute, np.array(self.numbers) <= value).sql

    def estimate(self, key: KeyValues) -> Estimate:
        rows = self._rows(key) if self.values else None
        if rows is not None and rows.reason == NOT_ANSWERED:
            return replace(rows, notes=self.notes)
        number = 0 if rows is None else round(rows.value)
        if number < 1 and not self._surely_none(key):
            return Estimate(math.nan, Anywhere(self.values[0], self.values[-1]), FEW, self.notes)
        if number < 1:
            return nothing(Query("count", notes=self.notes), NO_CELL if not number else "no rows")
        law = QuantileLaw(self, key)
        share = self.term.share
        if self.term.option == "disc":
            value = self._order_statistic(key, max(math.ceil(share * number - 1e-9), 1))
        else:
            place = share * (number - 1)
            low = self._order_statistic(key, math.floor(place + 1e-9) + 1)
            high = self._order_statistic(key, math.ceil(place - 1e-9) + 1)
            value = low + (place - math.floor(place + 1e-9)) * (high - low) if high > low else low
        if self._exact(key):
            return Estimate(value, Exact(), METHOD, self.notes)
        return Estimate(value, law, METHOD, self.notes)

    def _surely_none(self, key: KeyValues) -> bool:
        """Whether there is certainly no row, or no number to take a quantile of."""
        rows = self._rows(key) if self.values else None
        return rows is None or isinstance(rows.law, Exact)

    def _exact(self, key: KeyValues) -> bool:
        """Whether all counts are exact: those up to the middle value and in all are."""
        if self.selection.fixed:
            return False
        excess = self.excess(len(self.values) // 2, key)
        asked = self.selection.ask(
            Query("count", None, self.clauses, text=self.selection.plan.text)
        )
        return (
            excess is not None
            and isinstance(excess.law, Exact)
            and isinstance(asked[key].law, Exact)
            and len(self.values) > 1
        )

    def _order_statistic(self, key: KeyValues, rank: int) -> float:
        """Return the first value, by bisection, up to which there are `rank` rows."""
        return self.values[self.first_place(key, rank - 0.5)]

    def first_place(self, key: KeyValues, rows: float) -> int:
        """Return the place of the first value, by bisection, up to which there are `rows` rows."""
        number = self.number(key)
        low, high = 0, len(self.values) - 1
        while low < high:
            middle = (low + high) // 2
            enough = self.count(middle, key, number) >= rows
            low, high = (low, middle) if enough else (middle + 1, high)
        return low

    def count(self, place: int, key: KeyValues, number: float) -> float:
        """Return the estimated rows of a group of `number` up to the value number `place`."""
        excess = self.excess(place, key)
        return 0.0 if excess is None else excess.value + self.term.share * number


@dataclass(frozen=True)
class QuantileLaw:
    """The law of a quantile; its standard error is half the width of the 68 % interval."""

    inversion: Inversion
    key: KeyValues

    @cached_property
    def stderr(self) -> float:
        low, high = self.interval(0.0, _ONE_SIGMA)
        return (high - low) / 2

    def interval(self, value: float, level: float) -> tuple[float, float]:
        values, share = self.inversion.values, self.inversion.term.share
        disc = self.inversion.term.option == "disc"
        below, above = (0.0, 0.0) if disc else (-share, 1 - share)
        # The first accepted place is looked for among at most `_SCANNED` places, then among those
        # between it and the one before, and so on. An end is wrong only if a decision on the way to
        # the true quantile is, one of each stage: each is made at 1 - α/stages.
        last = len(values) - 1
        each = 1 - (1 - level) / _stages(last)
        low = _first(
            lambda place: place == last or self._limits(place, each)[1] >= below - 1e-9, last
        )
        high = last - _first(
            lambda back: back == last or self._limits(last - back - 1, each)[0] <= above + 1e-9,
            last,
        )
        ends = values[min(low, high)], values[max(low, high)]
        return (ends[0], ends[1]) if not value else (min(ends[0], value), max(ends[1], value))

    def _limits(self, place: int, level: float) -> tuple[float, float]:
        found = self.inversion.excess(place, self.key)
        return (0.0, 0.0) if found is None else found.interval(level)


def _stages(last: int) -> int:
    """Return the number of stages in which the places from 0 to `last` are searched."""
    stages = 1
    while _SCANNED**stages <= last:
        stages += 1
    return stages


def _first(accepts: Callable[[int], bool], last: int) -> int:
    """Return the first accepted place; `last` is accepted."""
    low, high = 0, last
    for stage in reversed(range(_stages(last))):
        step = _SCANNED**stage
        high = next(place for place in (*range(low + step - 1, high, step), high) if accepts(place))
        low = max(low, high - step + 1)
    return high


def domain_values(
    selection: Selection, argument: Expression, clauses: tuple[Expression, ...], what: str
) -> list[float]:
    """Return the values of a number on the public domain where the clauses hold, rising."""
    schema = selection.groups.schema
    names = [name for name in schema.names if name in argument.attributes]
    within = [each for each in clauses if set(each.attributes) <= set(names)]
    plain = len(names) == 1 and argument.sql.strip('"') == names[0] and not within
    if plain and schema.size(names) > MOST_VALUES:  # to list them takes minutes
        raise QueryError(
            f"{what} needs at most {MOST_VALUES:,} possible values. '{names[0]}' has "
            f"{schema.size(names):,}: publish it in bins."
        )
    found = selection.sandbox.distinct([argument], names, within, MOST_VALUES).column(0)
    kind = found.type
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if not number and not types.is_null(kind):
        raise QueryError(f"{what} needs a number. {argument.sql} is of type {kind}.")
    values = found.cast(pa.float64()).drop_null().to_pylist()
    return sorted(set(values))
