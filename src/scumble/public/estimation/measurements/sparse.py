"""Sparse release and its error laws.

Answers from the published cells of a sparse release.

Published weights are added up; how many empty cells a condition has, and what they add in the mean,
follows from the domain, which is counted without going through it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.model.designs.sparse import EmptyCell, Sparse, Tails, filtered, sampled
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import LEVEL, Estimate, Exact, Unknown
from scumble.public.estimation import interval_laws
from scumble.public.estimation.domain_counting import Domain, domain_of
from scumble.public.estimation.interval_laws import NEAR_ZERO, cut
from scumble.public.estimation.measurements import readings
from scumble.public.estimation.rows.tally import Floats, floats
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]

ROWS = "noisy number of rows; interval from the law of its noise"
SUMMED = "sum of published cells; interval from noise and sampling"
FILTERED = "sum of published cells, less that of false ones; the interval allows for lost rows"
FIELLER = "ratio of sums of published cells; Fieller interval"
NOTHING = "no cell satisfies the condition, or their estimated number is zero"


def answer(
    evidence: Measurements, schema: Schema, query: Query, engine: Sandbox
) -> Iterator[tuple[Key, Estimate]]:
    """Every possible group of the answer with its estimate."""
    question = SparseQuestion(evidence, schema, query, engine)
    if not query.groups:
        yield (), question.estimate(0)
        return
    places = np.flatnonzero(question.possible)
    codes = np.unravel_index(places, [schema[name].size for name in query.groups])
    labels = [schema[name].labels().to_pylist() for name in query.groups]
    for row, place in enumerate(places):
        key = tuple(values[each[row]] for values, each in zip(labels, codes, strict=True))
        yield key, question.estimate(int(place))


def answer_many(
    evidence: Measurements, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> list[list[tuple[Key, Estimate]]]:
    """Each question's groups with their estimates."""
    answers = []
    for query in queries:
        engine.check(query)
        answers.append(list(answer(evidence, schema, query, engine)))
    return answers


@dataclass(frozen=True)
class SparseQuestion:
    """One question to the published cells."""

    evidence: Measurements
    schema: Schema
    query: Query
    engine: Sandbox

    @cached_property
    def design(self) -> Sparse:
        return cast(Sparse, self.evidence.design)

    @cached_property
    def possible(self) -> npt.NDArray[np.object_]:
        """How many cells of the domain satisfy the question, by group."""
        return self._domain.count(self.query.clauses, self.query.groups).reshape(-1)

    def estimate(self, group: int) -> Estimate:
        if self.query.aggregate == "mean":
            return self._mean(group)
        possible = self.possible[group]
        if not possible:
            return Estimate(0.0, Exact(), "no cell satisfies the condition", self.query.notes)
        if self.query.aggregate == "count" and possible == self._domain.size:
            noise = self.design.total_noise
            return Estimate(float(self.design.total), noise, ROWS, self.query.notes)
        law = SparseTotal(self._error, self._amounts(group).spread())
        method = FILTERED if self.design.filtered else SUMMED
        return Estimate(law.spread.value, law, method, self._notes)

    def _mean(self, group: int) -> Estimate:
        amounts = self._amounts(group)
        if not self.possible[group] or not amounts.count:
            notes = (*self.query.notes, NOTHING)
            return Estimate(float("nan"), Unknown(), "average of no rows", notes)
        law = SparseMean(self._error, amounts)
        return Estimate(law.value, law, FIELLER, (*self._notes, *law.notes))

    @property
    def _notes(self) -> tuple[str, ...]:
        if not self.design.filtered:
            return self.query.notes
        lost = self._error.lost(LEVEL)
        return (
            *self.query.notes,
            f"cells with few rows were left out: up to {lost:,.0f} rows may be missing here",
        )

    def _amounts(self, group: int) -> Amounts:
        cells = self._over_domain[:, group]
        return Amounts(self._estimated(self._shown[:, :, group], cells), *self._limits)

    def _estimated(self, shown: Floats, cells: Floats) -> Floats:
        """The sums of published cells with the estimated rows on top and all cells below."""
        weight, times, *others = shown
        value = weight - empty_cell(self.design).shift * (cells - times)
        return np.array([value, times, *others, cells])

    @cached_property
    def _error(self) -> SparseError:
        """Of the whole release: worked out once."""
        kept = self.engine.derived
        if "sparse" not in kept:
            shown = _shown(self.design, self.schema, None, self.engine)[:, 0]
            sums = self._estimated(shown, np.array([float(self._domain.size)]))
            kept["sparse"] = SparseError(self.design, Amounts.counted(sums).spread())
        return cast(SparseError, kept["sparse"])

    @cached_property
    def _shown(self) -> Floats:
        return _shown(self.design, self.schema, self.query, self.engine)

    @cached_property
    def _over_domain(self) -> Floats:
        """Σ g^j over the cells of each group, for j = 0, 1 and 2."""
        argument = self.query.argument
        count = np.array([float(number) for number in self.possible])
        if argument is None:
            return np.array([count, count, count])
        rows = [
            self._domain.sum(self.query.clauses, self.query.groups, amount=argument, power=power)
            for power in (1, 2)
        ]
        return np.array([count, *(row.reshape(-1) for row in rows)])

    @cached_property
    def _limits(self) -> tuple[float, float]:
        """The least and the most that a row can add."""
        if self.query.argument is None:
            return 1.0, 1.0
        low, high = self._domain.limits(self.query.argument, self.query.clauses)
        return (low, high) if low <= high else (0.0, 0.0)

    @cached_property
    def _domain(self) -> Domain:
        return domain_of(self.engine)


def _shown(design: Sparse, schema: Schema, query: Query | None, engine: Sandbox) -> Floats:
    """For the published cells of a question (or all), by group: the sums of their weights and of
    the other kinds of `Spread`, each times the amounts to the powers 0, 1 and 2.
    """
    groups = query.groups if query else ()
    argument = query.argument if query else None
    amount = f"CAST({argument.sql} AS DOUBLE)" if argument else None
    kinds = _kinds(design)
    factors = ("1", amount, f"{amount} * {amount}") if amount else ("1",)
    sums = [f"sum({kind} * {factor})" for kind in kinds for factor in factors]
    names = [quoted(name) for name in groups]
    listed = ", ".join(f"{column} AS c{place}" for place, column in enumerate([*names, *sums]))
    where = " AND ".join(f"({clause.sql})" for clause in query.clauses) if query else ""
    grouping = f" GROUP BY {', '.join(names)}" if names else ""
    table = engine.rows(f"SELECT {listed} FROM view{' WHERE ' + where if where else ''}{grouping}")
    sizes = [schema[name].size for name in groups]
    codes = [
        schema[name].encode(table[f"c{i}"])[0].astype(np.intp) for i, name in enumerate(groups)
    ]
    place = np.ravel_multi_index(codes, sizes) if groups else np.zeros(table.num_rows, np.intp)
    found = np.zeros((len(sums), prod(sizes)))
    for row in range(len(sums)):
        found[row, place] = floats(table[f"c{len(names) + row}"])
    shaped = found.reshape(len(kinds), len(factors), -1)
    return shaped if amount else np.repeat(shaped, 3, axis=1)


def _kinds(design: Sparse) -> tuple[str, ...]:
    """What is summed over published cells, but for the squares of their amounts."""
    each, weight = f"CAST({quoted(design.count)} AS DOUBLE)", quoted(design.weight)
    tau, shift = float(design.tau), empty_cell(design).shift
    close = design.theta + 3 * (1 + Tails(design.noise).mean) if design.filtered else 0.0
    odds = f"({tau!r} - abs({each})) * {tau!r} / ({each} * {each})"
    return (
        weight,
        f"{weight} / {each}",
        f"CASE WHEN abs({each}) < {tau!r} THEN ({each} + {shift!r})**2 * {odds} ELSE 0 END",
        f"CASE WHEN abs({each}) < {tau!r} THEN 0 ELSE 1 END",
        f"CASE WHEN {each} < {close!r} THEN {weight} ELSE 0 END",
    )


# The laws of errors of answers from sparse releases.
#
# Let a cell add w to the answer for each of its rows. The error is the noise of cells, the chance
# in sampling them, and under a filter the rows of cells that were left out. The first two have
# variances that are known or estimated without bias from what is published. The third is no
# chance: under a filter what a cell stands for in the mean is never above its count
# (`Tails.least_theta`), so what is lost in a condition is at most what is lost in all, the number
# of rows less what was published.

_HALVINGS = 40
_ROUNDS = 4
_OWN = 0.8  # of the probability of a miss, that of the answer's own error; the rest is shared by
_SIDE = 0.1  # the number of rows and what was lost of them


@dataclass(frozen=True)
class Spread:
    """Cells with weights w: `value` estimates the sum of w times their rows. The others are sums of
    w² over published cells, over as many cells as these stand for (`times`), times the variances
    that their sampling added (`sampling`), over those that were not sampled (`sure`), and times the
    noisy counts of those that are close to the threshold of a filter (`near`); and over all `cells`
    of the condition. `number` is how many these are; `low` and `high` are limits of w.
    """

    value: float
    times: float
    sampling: float
    sure: float
    near: float
    cells: float
    number: float
    low: float
    high: float

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class SparseError:
    """What the design of a release says about errors; `whole` is the count of all its cells."""

    design: Sparse
    whole: Spread

    @cached_property
    def tails(self) -> Tails:
        return Tails(self.design.noise)

    @cached_property
    def empty(self) -> EmptyCell:
        return empty_cell(self.design)

    def variance(self, spread: Spread) -> float:
        """Of the sum of published weights."""
        noise = self.design.noise.variance
        if self.design.filtered:
            own = noise * spread.times
            own += (self.empty.variance - self.empty.sampling) * spread.cells
        else:
            own = noise * spread.cells
        return own + self._sampling(spread)

    def _sampling(self, spread: Spread) -> float:
        """As estimated, but not less than what the empty cells alone bring."""
        return max(spread.sampling, self.empty.sampling * max(spread.cells - spread.sure, 0.0))

    def interval(self, spread: Spread, level: float) -> tuple[float, float]:
        """Limits of Σ w · count over the cells of the condition."""
        miss = 1 - level
        rows = self.rows(1 - _SIDE * miss)
        lost = self.lost(1 - _SIDE * miss)
        half = self._half(spread, 1 - _OWN * miss, lost)
        low = spread.value - half + min(spread.low, 0.0) * lost
        high = spread.value + half + max(spread.high, 0.0) * lost
        least, most = min(spread.low, 0.0) * rows, max(spread.high, 0.0) * rows
        if high < least or low > most:  # so far off as a known law is less often than it may miss
            return least, most
        return max(low, least), min(high, most)

    def rows(self, level: float) -> float:
        """A number that the rows do not exceed."""
        return max(self.design.total + self.design.total_noise.half_width(level), 0.0)

    def lost(self, level: float) -> float:
        """A number that the rows which a filter left out do not exceed."""
        if not self.design.filtered:
            return 0.0
        if level not in self._lost:
            rows = lost = self.rows(level)
            for _ in range(_ROUNDS):  # the fewer are lost, the better it is known how many
                published = self.whole.value - self._half(self.whole, level, lost)
                lost = min(max(rows - published, 0.0), lost)
            self._lost[level] = lost
        return self._lost[level]

    @cached_property
    def _lost(self) -> dict[float, float]:
        """What was worked out, by level."""
        return {}

    @cached_property
    def _excess(self) -> float:
        return self.tails.excess(self.design.theta)

    def _half(self, spread: Spread, level: float, lost: float) -> float:
        """How far the sum of published weights is from its mean.

        Noise by the expansion of its law. A cell that is sampled makes the sum jump by tau, and how
        many small cells there are is known from the sample alone: as for Poisson counts. Empty
        cells that pass a filter are a known number in the mean; the sum of their skewness and of
        half a jump is less than one jump.
        """
        largest, filters = spread.largest, self.design.filtered
        variance = self.variance(spread)
        if filters:
            small = largest**2 * lost + spread.near
            variance += self._excess * small
        noisy = spread.times if filters else spread.cells
        fourth = self.design.noise.fourth * largest**2 * noisy
        half = readings.reach(variance, fourth, largest, level)
        if self.design.tau and spread.cells > spread.sure:
            half = max(half, interval_laws.reach(variance, float(self.design.tau) * largest, level))
        if filters and self.empty.chance * spread.number > (1 - level) / 10:
            half += (self.design.theta + 2 * self.tails.mean) * largest
        return half


def empty_cell(design: Sparse) -> EmptyCell:
    """What a cell without rows adds to published sums."""
    tails, tau = Tails(design.noise), float(design.tau)
    return filtered(tails, design.theta, tau) if design.filtered else sampled(tails, tau)


@dataclass(frozen=True)
class SparseTotal:
    """The law of the error of a count or a sum."""

    error: SparseError
    spread: Spread

    @property
    def stderr(self) -> float:
        return math.sqrt(self.error.variance(self.spread))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return cut(self.error.interval(self.spread, level), value, -math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class Amounts:
    """Cells with amounts g, which lie between `low` and `high`. The rows of `sums` are their
    estimated rows, then the five sums of `Spread` in their order; the columns are these sums times
    g to the powers 0, 1 and 2.
    """

    sums: npt.NDArray[np.float64]
    low: float
    high: float

    @classmethod
    def counted(cls, sums: npt.NDArray[np.float64]) -> Amounts:
        """Cells of which every row adds 1."""
        return cls(np.repeat(sums.reshape(-1, 1), 3, axis=1), 1.0, 1.0)

    @property
    def count(self) -> float:
        return float(self.sums[0, 0])

    @property
    def total(self) -> float:
        return float(self.sums[0, 1])

    def spread(self, ratio: float = 0.0) -> Spread:
        """The cells with weights g - ratio."""
        squares = self.sums[1:] @ np.array([ratio * ratio, -2 * ratio, 1.0])
        times, sampling, sure, near, cells = np.maximum(squares, 0.0).tolist()
        return Spread(
            value=self.total - ratio * self.count,
            times=times,
            sampling=sampling,
            sure=sure,
            near=near,
            cells=cells,
            number=float(self.sums[-1, 0]),
            low=self.low - ratio,
            high=self.high - ratio,
        )


@dataclass(frozen=True)
class SparseMean:
    """The law of an average: a ratio r is possible if Σ (g - r) · count may be 0 (Fieller)."""

    error: SparseError
    amounts: Amounts

    @property
    def value(self) -> float:
        return self.amounts.total / self.amounts.count if self.amounts.count else math.nan

    @property
    def stderr(self) -> float:
        count = self.amounts.count
        if not count:
            return math.inf
        return math.sqrt(self.error.variance(self.amounts.spread(self.value))) / abs(count)

    @property
    def notes(self) -> tuple[str, ...]:
        """A warning, if the count is within three standard errors of zero."""
        ones = Amounts.counted(self.amounts.sums[:, 0])
        safe = self.amounts.count**2 >= 9 * self.error.variance(ones.spread())
        return () if safe else (NEAR_ZERO,)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.amounts.low, self.amounts.high
        middle = min(max(self.value, low), high)
        if not self._possible(middle, level):
            return cut((low, high), self.value, low, high)
        ends = self._end(middle, low, level), self._end(middle, high, level)
        return cut(ends, self.value, low, high)

    def _possible(self, ratio: float, level: float) -> bool:
        low, high = self.error.interval(self.amounts.spread(ratio), level)
        return low <= 0 <= high

    def _end(self, inside: float, outside: float, level: float) -> float:
        if self._possible(outside, level):
            return outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            if self._possible(middle, level):
                inside = middle
            else:
                outside = middle
        return outside
