"""Questions that cut bins: an answer is made of a value, a lower and an upper question.

Evidence tells the bin of a row and not where in the bin it is. A condition that holds for a part of
a bin, and an amount that varies within bins, leave an answer between two others:

| question | conditions             | what a row adds                                        |
|----------|------------------------|--------------------------------------------------------|
| value    | possible               | mean amount x share of its bins that meets the condition |
| lower    | sure, else possible    | least amount; 0 if that is less and the row not sure    |
| upper    | possible, else sure    | largest amount; 0 if that is more and the row not sure  |

Each is an ordinary question to any evidence, with its own error law; `bounds.combined` joins them.
An average under a cut condition is found by inversion of Σ (x - t), least and largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from scumble.model.errors import QueryError
from scumble.model.query import Expression, Query
from scumble.public.estimate import LEVEL, Anywhere, Estimate, Exact, Unknown
from scumble.public.estimation.bounds import (
    BoundedAverage,
    InvertedAverage,
    Limit,
    combined,
    limit_of,
    noise_of,
)
from scumble.public.estimation.interval_laws import NO_VALUE
from scumble.public.sandbox import Sandbox
from scumble.public.sql.bin_bounds import Amount, Condition, Versions, joined, multiplied
from scumble.public.sql.bin_pieces import sql_value

Key = tuple[Any, ...]
Rows = Iterable[tuple[Key, Estimate]]
Ask = Callable[[Query], Rows]

INVERTED = "ratio of two sums; interval by inversion of their difference"
_MOST_CELLS = 10**7
_NOTHING = Estimate(0.0, Exact(), "no row can satisfy the condition")
_CACHED = 256  # questions about one group of an average


def cut_query(query: Query, engine: Sandbox, measured: Amount | None = None) -> CutQuery | None:
    """Return the questions of a question that cuts bins; None if it cuts none. `measured` is its
    amount, if its sums were measured.

    The engine must have checked the question.
    """
    schema = engine.schema
    if not any(schema[name].coarse for part in query.expressions for name in part.attributes):
        return None
    versions = Versions(engine)
    clauses, own = together(query.clauses, versions)
    found = [(clause, versions.condition(clause)) for clause in clauses]
    plain = [clause for clause, condition in found if not condition.cut]
    cut = [condition for _, condition in found if condition.cut]
    amount = measured
    if query.argument is not None:
        own_cut = any({*each.possible.attributes} & {*query.argument.attributes} for each in cut)
        if amount is None or own_cut:
            amount = versions.amount(query.argument, own)
    if not cut and (amount is None or not amount.cut):
        return None
    return CutQuery(query, engine, tuple(plain), tuple(cut), amount)


def together(
    clauses: Sequence[Expression], versions: Versions
) -> tuple[list[Expression], dict[str, Expression]]:
    """Join the clauses on one coarse column each; return all clauses, and these by column."""
    alone: dict[str, list[Expression]] = {}
    others: list[Expression] = []
    for clause in clauses:
        if len(clause.attributes) == 1 and versions.coarse(clause):
            alone.setdefault(clause.attributes[0], []).append(clause)
        else:
            others.append(clause)
    own = {name: joined(some) for name, some in alone.items()}
    return [*others, *own.values()], own


@dataclass(frozen=True)
class CutQuery:
    """A question with conditions that cut bins, or with an amount that varies within bins.

    `plain` are clauses that cut nothing, `cut` are the versions of the others.
    """

    query: Query
    engine: Sandbox
    plain: tuple[Expression, ...]
    cut: tuple[Condition, ...]
    amount: Amount | None

    @property
    def inverted(self) -> bool:
        """Whether the answer is an average that is found by inversion."""
        return self.query.aggregate == "mean" and bool(self.cut)

    def questions(self) -> list[Query]:
        """Return the questions whose answers `answers` needs: the value, and limits.

        None for an average that is found by inversion, which asks by itself.
        """
        if self.inverted:
            return []
        lower, upper = self._limit(lower=True), self._limit(lower=False)
        return [each for each in (self._value(), lower, upper) if each is not None]

    def answers(self, rows: Sequence[Rows], ask: Ask, size: int | None) -> Iterator[Any]:
        """Yield every group with its estimate.

        `rows` are the answers to `questions`, and `ask` answers further ones. `size` is the
        number of rows of the table, if it is public.
        """
        if self.inverted:
            yield from _Inversion(self, ask).answers()
            return
        value, *limits = (dict(each) for each in rows)
        lower = limits[0] if self._limit(lower=True) is not None else {}
        upper = limits[-1] if self._limit(lower=False) is not None else {}
        count = self.query.aggregate == "count"
        least, most = (0.0 if count else -math.inf), math.inf
        if count and size is not None:
            most = float(size)
        if self.query.aggregate == "mean":
            least, most = self._possible_means()
        for key in dict.fromkeys((*value, *upper, *lower)):
            found, low, high = (some.get(key, _NOTHING) for some in (value, lower, upper))
            yield key, combined(found, low, high, least, most)

    def _possible_means(self) -> tuple[float, float]:
        """Return the least and the largest average that there can be."""
        amount = self.amount
        if amount is None or self.engine.schema.size(amount.least.attributes) > _MOST_CELLS:
            return -math.inf, math.inf
        least, most = self.limits[amount.least.sql][0], self.limits[amount.largest.sql][1]
        return (least, most) if least <= most else (-math.inf, math.inf)

    def _value(self) -> Query:
        if self.query.aggregate == "mean" and self.amount is not None:
            return replace(self.query, argument=self.amount.mean)
        return self.value_of(None if self.amount is None else self.amount.mean)

    def value_of(self, amount: Expression | None) -> Query:
        """Return the sum of an amount (None: 1) under an even spread within bins."""
        factors = [condition.share for condition in self.cut]
        if amount is not None:
            factors = [amount, *factors]
        clauses = (*self.plain, *(condition.possible for condition in self.cut))
        return replace(self.query, aggregate="sum", argument=multiplied(factors), clauses=clauses)

    def _limit(self, *, lower: bool) -> Query | None:
        if self.amount is None:
            if lower and any(condition.never for condition in self.cut):
                return None
            return replace(self.query, clauses=self._clauses(sure=lower))
        end = self.amount.least if lower else self.amount.largest
        if not self.cut:
            return replace(self.query, argument=end)
        return self.limit_of(end, 0.0, lower=lower)

    def limit_of(self, end: Expression, centre: float, *, lower: bool) -> Query | None:
        """Return the question for the least or largest sum of `end` - `centre`.

        `end` is the least or largest amount. Rows that only possibly satisfy the conditions count
        where this makes the sum smaller or larger. None if the limit is 0.
        """
        if self.amount is not None and self.amount.ends is not None:
            return self._measured_limit(self.amount.mean, self.amount.ends, centre, lower=lower)
        low, high = self.limits[end.sql]
        sign = 1 if low >= centre else -1 if high <= centre else 0
        if centre:
            end = Expression(f"(({end.sql}) - {sql_value(centre)})", end.attributes)
        query = replace(self.query, aggregate="sum", argument=end)
        if sign and (sign > 0) == lower:
            if any(condition.never for condition in self.cut):
                return None
            return replace(query, clauses=self._clauses(sure=True))
        if sign:
            return replace(query, clauses=self._clauses(sure=False))
        sure = joined([condition.sure for condition in self.cut])
        word = "least" if lower else "greatest"
        mixed = f"CASE WHEN {sure.sql} THEN {end.sql} ELSE {word}({end.sql}, 0) END"
        names = tuple(sorted({*sure.attributes, *end.attributes}))
        return replace(query, argument=Expression(mixed, names), clauses=self._clauses(sure=False))

    def _measured_limit(
        self, amount: Expression, ends: tuple[float, float], centre: float, *, lower: bool
    ) -> Query:
        """Return `limit_of` for an amount whose sums were measured; `ends` are its limits.

        A row adds an amount x from `low` to `high`, or nothing. The least that it can add, min(x,
        0), is concave in x, and so not below the straight line between its values at both ends.
        With the sum of x and the number of rows that line is known; and max(x, 0) is not above it.
        """
        end = f"(({amount.sql}) - {sql_value(centre)})"
        low, high = (sql_value(each - centre) for each in ends)
        sure = joined([condition.sure for condition in self.cut])
        signs, far, near = (f"{low} >= 0", f"{high} <= 0"), low, f"({high} - {end})"
        if not lower:
            signs, far, near = (f"{high} <= 0", f"{low} >= 0"), high, f"({end} - {low})"
        mixed = (
            f"CASE WHEN {sure.sql} THEN {end} WHEN {signs[0]} THEN 0 WHEN {signs[1]} THEN {end} "
            f"ELSE {near} * ({far} / ({high} - {low})) END"
        )
        names = tuple(sorted({*sure.attributes, *amount.attributes}))
        clauses = self._clauses(sure=False)
        argument = Expression(mixed, names)
        return replace(self.query, aggregate="sum", argument=argument, clauses=clauses)

    @cached_property
    def limits(self) -> dict[str, tuple[float, float]]:
        """The range of the least and of the largest amount, by their SQL."""
        if self.amount is None:
            return {}
        if self.amount.ends is not None:
            return {self.amount.mean.sql: self.amount.ends}
        ends = list(dict.fromkeys((self.amount.least, self.amount.largest)))
        names = ends[0].attributes
        if (cells := self.engine.schema.size(names)) > _MOST_CELLS:
            raise QueryError(
                f"The amount depends on {cells} combinations of values of {', '.join(names)}; "
                f"where bins are cut, at most {_MOST_CELLS} are possible."
            )
        own = [each for each in self._clauses(sure=False) if set(each.attributes) <= set(names)]
        *truths, first, last = self.engine.evaluate([*own, ends[0], ends[-1]], names)
        there = np.logical_and.reduce([np.ones(len(first), bool), *truths])
        return {
            end.sql: (float(some.min(initial=np.inf)), float(some.max(initial=-np.inf)))
            for end, some in zip((ends[0], ends[-1]), (first[there], last[there]), strict=True)
        }

    def _clauses(self, *, sure: bool) -> tuple[Expression, ...]:
        parts = (condition.sure if sure else condition.possible for condition in self.cut)
        return (*self.plain, *parts)


class _Inversion:
    """Averages under a condition that cuts bins: all t for which Σ (x - t) may be 0."""

    def __init__(self, cut: CutQuery, ask: Ask) -> None:
        if cut.amount is None:
            raise TypeError(cut)
        self._cut, self._amount = cut, cut.amount
        self._ask: Callable[[Query], Mapping[Key, Estimate]] = lru_cache(_CACHED)(
            lambda query: dict(ask(query))
        )

    def answers(self) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group with its estimate."""
        totals = self._ask(self._cut.value_of(self._amount.mean))
        counts = self._ask(self._cut.value_of(None))
        for key in dict.fromkeys((*totals, *counts)):
            total, count = totals.get(key, _NOTHING), counts.get(key, _NOTHING)
            yield key, self._average(key, total, count)

    def _average(self, key: Key, total: Estimate, count: Estimate) -> Estimate:
        limits = self._cut.limits
        least, most = limits[self._amount.least.sql][0], limits[self._amount.largest.sql][1]
        if not count.value or least > most:
            return Estimate(math.nan, Unknown(), "average of no rows", total.notes)
        near = count.value < 3 * noise_of(count.law).stderr < math.inf
        if not count.value > 0 or (near and count.noise_interval(LEVEL)[0] <= 0):
            return Estimate(math.nan, Anywhere(least, most), INVERTED, (*total.notes, NO_VALUE))
        value = total.value / count.value

        def centred(centre: float) -> Limit:
            mean = self._amount.mean
            shifted = Expression(f"(({mean.sql}) - {sql_value(centre)})", mean.attributes)
            found = self._ask(self._cut.value_of(shifted)).get(key, _NOTHING)
            return Limit(found.value, noise_of(found.law))

        def end(centre: float, lower: bool) -> Limit:
            return self._limit(key, centre, lower=lower)

        noise = InvertedAverage(value, count.value, centred, least, most)
        law = BoundedAverage(noise, end, least, most, value)
        return Estimate(value, law, INVERTED, total.notes)

    def _limit(self, key: Key, centre: float, *, lower: bool) -> Limit:
        end = self._amount.least if lower else self._amount.largest
        query = self._cut.limit_of(end, centre, lower=lower)
        found = _NOTHING if query is None else self._ask(query).get(key, _NOTHING)
        return limit_of(found, lower=lower)
