"""Reader of sparse releases: sums of the published cells, and the laws of their errors.

Published weights are added up. How many empty cells a condition has, and what they add in the mean,
follows from the domain, which is counted without enumerating it.
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

from scumble.model.designs.sparse import (
    EmptyCell,
    NoiseTails,
    Sparse,
    filtered_empty_cell,
    sampled_empty_cell,
)
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import LEVEL, Estimate, Exact, Unknown
from scumble.public.estimation.domain_counting import Domain, domain_of
from scumble.public.estimation.interval_laws import (
    AverageLaw,
    clipped,
    noise_half_width,
    score_half_width,
)
from scumble.public.estimation.rows.grouped_counts import Floats, aggregated, floats
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]

ROWS = "noisy number of rows; interval from the law of its noise"
SUMMED = "sum of published cells; interval from noise and sampling"
FILTERED = "sum of published cells, less that of false ones; the interval allows for lost rows"
FIELLER = "ratio of sums of published cells; Fieller interval"
NOTHING = "no cell satisfies the condition, or their estimated number is zero"


class SparseReader:
    """Answers questions from the published cells of one release."""

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self._schema = schema
        self.design = cast(Sparse, evidence.design)
        published = _published_sums(self.design, schema, None, engine)[:, 0]
        domain = np.array([float(domain_of(engine).size)])
        sums = _with_empty_cells(self.design, published, domain)
        self.error = SparseError(self.design, Amounts.counted(sums).spread())

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield every possible group of the answer with its estimate."""
        schema = self._schema
        question = SparseQuestion(self.design, self.error, schema, query, engine)
        if not query.groups:
            yield (), question.estimate(0)
            return
        places = np.flatnonzero(question.possible)
        codes = np.unravel_index(places, [schema[name].size for name in query.groups])
        labels = [schema[name].labels().to_pylist() for name in query.groups]
        for row, place in enumerate(places):
            key = tuple(values[each[row]] for values, each in zip(labels, codes, strict=True))
            yield key, question.estimate(int(place))

    def answer_together(self, queries: Sequence[Query], engine: Sandbox) -> dict[int, Any]:
        """Return nothing: no work is saved by answering several questions together."""
        return {}


@dataclass(frozen=True)
class SparseQuestion:
    """One question to the published cells; `error` is that of the whole release."""

    design: Sparse
    error: SparseError
    schema: Schema
    query: Query
    engine: Sandbox

    @cached_property
    def possible(self) -> npt.NDArray[np.object_]:
        """The number of cells of the domain that satisfy the question, by group."""
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
        law = SparseTotal(self.error, self._amounts(group).spread())
        method = FILTERED if self.design.filtered else SUMMED
        return Estimate(law.spread.value, law, method, self._notes)

    def _mean(self, group: int) -> Estimate:
        amounts = self._amounts(group)
        if not self.possible[group] or not amounts.count:
            notes = (*self.query.notes, NOTHING)
            return Estimate(float("nan"), Unknown(), "average of no rows", notes)
        law = SparseMean(self.error, amounts)
        return Estimate(law.value, law, FIELLER, (*self._notes, *law.notes))

    @property
    def _notes(self) -> tuple[str, ...]:
        if not self.design.filtered:
            return self.query.notes
        lost = self.error.lost(LEVEL)
        return (
            *self.query.notes,
            f"cells with few rows were left out: up to {lost:,.0f} rows may be missing here",
        )

    def _amounts(self, group: int) -> Amounts:
        published, cells = self._published[:, :, group], self._over_domain[:, group]
        return Amounts(_with_empty_cells(self.design, published, cells), *self._limits)

    @cached_property
    def _published(self) -> Floats:
        return _published_sums(self.design, self.schema, self.query, self.engine)

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
        """The least and the largest amount that a row can add."""
        if self.query.argument is None:
            return 1.0, 1.0
        low, high = self._domain.limits(self.query.argument, self.query.clauses)
        return (low, high) if low <= high else (0.0, 0.0)

    @cached_property
    def _domain(self) -> Domain:
        return domain_of(self.engine)


def _with_empty_cells(design: Sparse, published: Floats, cells: Floats) -> Floats:
    """Return the sums over `published` cells, with the estimated rows on top and the sums over all
    `cells` of the condition below.
    """
    weight, times, *others = published
    value = weight - empty_cell(design).shift * (cells - times)
    return np.array([value, times, *others, cells])


def _published_sums(design: Sparse, schema: Schema, query: Query | None, engine: Sandbox) -> Floats:
    """Return sums over the published cells of a question, or over all of them.

    The axes are: the weight and the other sums of `Spread`; the power 0, 1 or 2 of the amount that
    each is multiplied by; and the groups of the question.
    """
    groups = query.groups if query else ()
    argument = query.argument if query else None
    amount = f"CAST({argument.sql} AS DOUBLE)" if argument else None
    terms = _terms(design)
    factors = ("1", amount, f"{amount} * {amount}") if amount else ("1",)
    sums = [f"sum({term} * {factor})" for term in terms for factor in factors]
    filters = [clause.sql for clause in query.clauses] if query else []
    table = aggregated(engine, [quoted(name) for name in groups], sums, filters)
    sizes = [schema[name].size for name in groups]
    codes = [
        schema[name].encode(table[f"c{i}"])[0].astype(np.intp) for i, name in enumerate(groups)
    ]
    place = np.ravel_multi_index(codes, sizes) if groups else np.zeros(table.num_rows, np.intp)
    found = np.zeros((len(sums), prod(sizes)))
    for row in range(len(sums)):
        found[row, place] = floats(table[f"c{len(groups) + row}"])
    shaped = found.reshape(len(terms), len(factors), -1)
    return shaped if amount else np.repeat(shaped, 3, axis=1)


def _terms(design: Sparse) -> tuple[str, ...]:
    """Return in SQL what is summed over published cells, without the powers of their amounts."""
    each, weight = f"CAST({quoted(design.count)} AS DOUBLE)", quoted(design.weight)
    tau, shift = float(design.tau), empty_cell(design).shift
    close = design.theta + 3 * (1 + NoiseTails(design.noise).mean) if design.filtered else 0.0
    odds = f"({tau!r} - abs({each})) * {tau!r} / ({each} * {each})"
    return (
        weight,
        f"{weight} / {each}",
        f"CASE WHEN abs({each}) < {tau!r} THEN ({each} + {shift!r})**2 * {odds} ELSE 0 END",
        f"CASE WHEN abs({each}) < {tau!r} THEN 0 ELSE 1 END",
        f"CASE WHEN {each} < {close!r} THEN {weight} ELSE 0 END",
    )


# Error laws.
#
# Let a cell add w to the answer for each of its rows. The error is the noise of cells, the
# randomness of sampling them, and under a filter the rows of cells that were left out. The first
# two have variances that are known or estimated without bias from what is published. The third is
# not random: under a filter the mean published weight of a cell is never above its count
# (`Tails.least_theta`). So what is lost in a condition is at most what is lost in all, the number
# of rows minus what was published.

_HALVINGS = 40
_ROUNDS = 4
# The probability of a miss is divided: `_OWN` of it is for the answer's own error, and `_SIDE` each
# for the number of rows and for the rows that were lost.
_OWN = 0.8
_SIDE = 0.1


@dataclass(frozen=True)
class Spread:
    """What the error of a sum over cells with weights w depends on.

    - `value` estimates the sum of w times the rows of the cells.
    - `times`: the sum of w² over published cells, each as often as the cells that it represents.
    - `sampling`: the sum of w² times the variance that sampling added, over published cells.
    - `sure`: the sum of w² over published cells that were not sampled.
    - `near`: the sum of w² times the noisy count, over published cells close to the threshold of a
      filter.
    - `cells`: the sum of w² over all cells of the condition; `number`: how many these are.
    - `low`, `high`: limits of w.
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
    """The error laws of one release; `whole` is the spread of the count of all its cells."""

    design: Sparse
    whole: Spread

    @cached_property
    def tails(self) -> NoiseTails:
        return NoiseTails(self.design.noise)

    @cached_property
    def empty(self) -> EmptyCell:
        return empty_cell(self.design)

    def variance(self, spread: Spread) -> float:
        """Return the variance of the sum of published weights."""
        noise = self.design.noise.variance
        if self.design.filtered:
            own = noise * spread.times
            own += (self.empty.variance - self.empty.sampling) * spread.cells
        else:
            own = noise * spread.cells
        return own + self._sampling(spread)

    def _sampling(self, spread: Spread) -> float:
        """Return the estimated variance by sampling, at least that of the empty cells alone."""
        return max(spread.sampling, self.empty.sampling * max(spread.cells - spread.sure, 0.0))

    def interval(self, spread: Spread, level: float) -> tuple[float, float]:
        """Return limits of Σ w · count over the cells of the condition."""
        miss = 1 - level
        rows = self.rows(1 - _SIDE * miss)
        lost = self.lost(1 - _SIDE * miss)
        half = self._half(spread, 1 - _OWN * miss, lost)
        low = spread.value - half + min(spread.low, 0.0) * lost
        high = spread.value + half + max(spread.high, 0.0) * lost
        least, most = min(spread.low, 0.0) * rows, max(spread.high, 0.0) * rows
        if high < least or low > most:  # rarer than the probability of a miss
            return least, most
        return max(low, least), min(high, most)

    def rows(self, level: float) -> float:
        """Return a number that the rows do not exceed with probability `level`."""
        return max(self.design.total + self.design.total_noise.half_width(level), 0.0)

    def lost(self, level: float) -> float:
        """Return a number that the rows left out by a filter do not exceed, by `level`."""
        if not self.design.filtered:
            return 0.0
        if level not in self._lost:
            rows = lost = self.rows(level)
            for _ in range(_ROUNDS):  # a smaller bound makes its own error smaller
                published = self.whole.value - self._half(self.whole, level, lost)
                lost = min(max(rows - published, 0.0), lost)
            self._lost[level] = lost
        return self._lost[level]

    @cached_property
    def _lost(self) -> dict[float, float]:
        """The results of `lost`, by level."""
        return {}

    @cached_property
    def _excess(self) -> float:
        return self.tails.excess(self.design.theta)

    def _half(self, spread: Spread, level: float, lost: float) -> float:
        """Return how far the sum of published weights is from its mean.

        The noise is bounded by the expansion of its law. A cell that is sampled makes the sum jump
        by tau, and the number of small cells is known from the sample alone, as for Poisson counts.
        The mean number of empty cells that pass a filter is known; the sum of their skewness and of
        half a jump is less than one jump.
        """
        largest, filters = spread.largest, self.design.filtered
        variance = self.variance(spread)
        if filters:
            small = largest**2 * lost + spread.near
            variance += self._excess * small
        noisy = spread.times if filters else spread.cells
        fourth = self.design.noise.fourth * largest**2 * noisy
        half = noise_half_width(variance, fourth, largest, level)
        if self.design.tau and spread.cells > spread.sure:
            jump = float(self.design.tau) * largest
            half = max(half, score_half_width(variance, jump, level))
        if filters and self.empty.chance * spread.number > (1 - level) / 10:
            half += (self.design.theta + 2 * self.tails.mean) * largest
        return half


def empty_cell(design: Sparse) -> EmptyCell:
    """Return the moments of what a cell without rows adds to published sums."""
    tails, tau = NoiseTails(design.noise), float(design.tau)
    return (
        filtered_empty_cell(tails, design.theta, tau)
        if design.filtered
        else sampled_empty_cell(tails, tau)
    )


@dataclass(frozen=True)
class SparseTotal:
    """The law of the error of a count or a sum."""

    error: SparseError
    spread: Spread

    @property
    def stderr(self) -> float:
        return math.sqrt(self.error.variance(self.spread))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return clipped(self.error.interval(self.spread, level), value, -math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class Amounts:
    """Cells with amounts g between `low` and `high`.

    The first row of `sums` is their estimated number of rows; the others are the five sums of
    `Spread` in their order. The columns are these sums times g to the powers 0, 1 and 2.
    """

    sums: npt.NDArray[np.float64]
    low: float
    high: float

    @classmethod
    def counted(cls, sums: npt.NDArray[np.float64]) -> Amounts:
        """Return cells of which every row adds 1."""
        return cls(np.repeat(sums.reshape(-1, 1), 3, axis=1), 1.0, 1.0)

    @property
    def count(self) -> float:
        return float(self.sums[0, 0])

    @property
    def total(self) -> float:
        return float(self.sums[0, 1])

    def spread(self, ratio: float = 0.0) -> Spread:
        """Return the spread of the cells with weights g - ratio."""
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
class SparseMean(AverageLaw):
    """The law of an average: a ratio r is possible if Σ (g - r) · count may be 0 (Fieller).

    The interval is not a `FiellerRatio`, since the error of a filtered release is not symmetric.
    """

    error: SparseError
    amounts: Amounts

    @property
    def parts(self) -> tuple[float, float]:
        return self.amounts.total, self.amounts.count

    @property
    def count_variance(self) -> float:
        return self.error.variance(Amounts.counted(self.amounts.sums[:, 0]).spread())

    def variance(self, ratio: float) -> float:
        return self.error.variance(self.amounts.spread(ratio))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.amounts.low, self.amounts.high
        middle = min(max(self.value, low), high)
        if not self._possible(middle, level):
            return clipped((low, high), self.value, low, high)
        ends = self._end(middle, low, level), self._end(middle, high, level)
        return clipped(ends, self.value, low, high)

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
