"""Reader of sparse releases: sums of the published cells, and the laws of their errors.

Published weights are added up. How many empty cells a condition has, and what they add in the mean,
follows from the domain, which is counted without enumerating it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.families.histogram.design import (
    EmptyCell,
    NoiseTails,
    Sparse,
    filtered_empty_cell,
    sampled_empty_cell,
)
from scumble.model.evidence.evidence import Measurements
from scumble.model.long_work import told
from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.public.estimate import LEVEL, Estimate, Exact, Law, Unknown
from scumble.public.estimation.bounds import Bounded, BoundedAverage, Limit
from scumble.public.estimation.domain_counting import Domain, domain_of
from scumble.public.estimation.impossible import possible_clauses
from scumble.public.estimation.interval_laws import (
    AverageLaw,
    ComplementLaw,
    clipped,
    noise_half_width,
    score_half_width,
)
from scumble.public.estimation.rows.grouped_counts import AMOUNT, Floats, aggregated, floats
from scumble.public.estimation.tables import Clauses, CodeSets, same_shape
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]

ROWS = "noisy number of rows; interval from the law of its noise"
KNOWN = "number of rows, which is published"
SUMMED = "sum of published counts; interval from noise and sampling"
FILTERED = (
    "sum of published cells, less that of false ones, in proportion to all rows; the interval "
    "allows for lost rows"
)
LEFT_OUT = "cells with few rows were left out: {}; the value takes these as spread like the others"
FIELLER = "ratio of sums of published counts"
RESTED = "number of rows less that of the other cells: {}"
NOTHING = "no cell satisfies the condition, or their estimated number is zero"


class SparseReader:
    """Answers questions from the published cells of one release."""

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self._schema = schema
        self.design = cast(Sparse, evidence.design)
        self._published = _sum_published(self.design, schema, None, engine)[:, 0, 0]
        self._cells = int(domain_of(engine).count(possible_clauses(engine)).reshape(-1)[0])
        shift = empty_cell(self.design).shift
        sums = _add_empty_cells(shift, self._published, float(self._cells))
        self.error = SparseError(self.design, SparseSum.of_counts(sums))

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield every possible group of the answer with its estimate."""
        schema = self._schema
        domain, whole = domain_of(engine), (self.design, self.error, self._published, self._cells)
        question = SparseQuestion(*whole, schema, query, engine, domain)
        if not query.groups:
            yield (), question.estimate(0)
            return
        places = np.flatnonzero(question.possible).tolist()
        for group, key in zip(told(places), schema.cell_values(query.groups, places), strict=True):
            yield key, question.estimate(group)

    def answer_together(
        self, queries: Sequence[Query], engine: Sandbox
    ) -> dict[int, list[tuple[Key, Estimate]]]:
        """Return the answers to plain counts by place: published cells are read once for all."""
        if self._published[2] > _MOST_PUBLISHED:
            return {}
        design, schema, answers = self.design, self._schema, {}
        domain, whole = domain_of(engine), (design, self.error, self._published, self._cells)
        for index, known in count_together(design, schema, queries, engine).items():
            question = SparseQuestion(*whole, schema, queries[index], engine, domain, known)
            answers[index] = [((), question.estimate(0))]
        return answers


@dataclass(frozen=True)
class SparseQuestion:
    """One question to the published cells; `error` and `published`, the sums over all published
    cells, are those of the whole release, and `cells` is the number of cells that rows can be in,
    which are all that a question is about. `counts` has the cells of the domain and the sums over
    published cells of the question, if they were counted before.
    """

    design: Sparse
    error: SparseError
    published: Floats
    cells: int
    schema: Schema
    query: Query
    engine: Sandbox
    domain: Domain
    counts: KnownCounts | None = None

    @cached_property
    def possible(self) -> npt.NDArray[np.object_]:
        """The number of cells of the domain that satisfy the question, by group."""
        if self.counts is not None:
            return np.array([self.counts[0]], object)
        return self.domain.count(self.query.clauses, self.query.groups).reshape(-1)

    def estimate(self, group: int) -> Estimate:
        if self.query.aggregate == "mean":
            return self._estimate_mean(group)
        possible = self.possible[group]
        if not possible:
            return Estimate(0.0, Exact(), "no cell satisfies the condition", self.query.notes)
        if self.query.aggregate == "count" and possible == self.cells:
            law: Law = self.design.total_noise or Exact()
            method = ROWS if self.design.total_noise else KNOWN
            return Estimate(float(self.design.total), law, method, self.query.notes)
        if self._known and 2 * possible > self.cells:
            return self._estimate_rest(group)
        spread = self._compute_spread(group)
        method = FILTERED if self.design.filtered else SUMMED
        law = total_law(self.error, spread)
        return Estimate(self.error.estimate(spread), law, method, self._write_notes(spread))

    @property
    def _known(self) -> bool:
        """Whether the question is a count, and the number of all rows is known."""
        return self.query.aggregate == "count" and self.design.total_noise is None

    def _estimate_rest(self, group: int) -> Estimate:
        """Return the count of most cells: all rows less the count of the other cells."""
        left = float(self.cells - self.possible[group])
        published = self.published - self._published[:, 0, group]
        others = SparseSum.of_counts(self._add_empty_cells(published, left))
        method = RESTED.format(FILTERED if self.design.filtered else SUMMED)
        notes = self.query.notes
        if self.error.left(others):
            lost = self.error.missing(others, LEVEL)
            notes = (*notes, LEFT_OUT.format(f"up to {lost:,.0f} rows not asked for are in them"))
        law = rest_law(self.error, others)
        return Estimate(self.design.total - self.error.estimate(others), law, method, notes)

    def _estimate_mean(self, group: int) -> Estimate:
        amounts = self._compute_amounts(group)
        if not self.possible[group] or not amounts.count:
            notes = (*self.query.notes, NOTHING)
            return Estimate(float("nan"), Unknown(), "average of no rows", notes)
        law = SparseMean(self.error, amounts)
        estimate = law.estimate(FIELLER, self._write_notes(amounts.rows))
        return estimate if law.few else replace(estimate, law=average_law(law))

    def _write_notes(self, counted: SparseSum) -> tuple[str, ...]:
        """Return the notes of the question, and how many of the rows that it asks about may be in
        cells that were left out.
        """
        if not self.error.left(counted):
            return self.query.notes
        lost = self.error.missing(counted, LEVEL)
        return (
            *self.query.notes,
            LEFT_OUT.format(f"up to {lost:,.0f} rows of this answer are in them"),
        )

    def _compute_spread(self, group: int) -> SparseSum:
        if self.query.argument is not None:
            return self._compute_amounts(group).spread()
        cells = float(self.possible[group])
        return SparseSum.of_counts(self._add_empty_cells(self._published[:, 0, group], cells))

    def _compute_amounts(self, group: int) -> Amounts:
        published, cells = self._published[:, :, group], self._over_domain[:, group]
        return Amounts(self._add_empty_cells(published, cells), *self._limits)

    def _add_empty_cells(self, published: Floats, cells: Floats | float) -> Floats:
        return _add_empty_cells(self.error.empty.shift, published, cells)

    @cached_property
    def _published(self) -> Floats:
        if self.counts is not None:
            return self.counts[1][:, None, None]
        return _sum_published(self.design, self.schema, self.query, self.engine)

    @cached_property
    def _over_domain(self) -> Floats:
        """Σ g^j over the cells of each group, for j = 0, 1 and 2."""
        argument = self.query.argument
        count = np.array([float(number) for number in self.possible])
        if argument is None:
            return np.array([count, count, count])
        rows = [
            self.domain.sum(self.query.clauses, self.query.groups, amount=argument, power=power)
            for power in (1, 2)
        ]
        return np.array([count, *(row.reshape(-1) for row in rows)])

    @cached_property
    def _limits(self) -> tuple[float, float]:
        """The least and the largest amount that a row can add."""
        if self.query.argument is None:
            return 1.0, 1.0
        low, high = self.domain.limits(self.query.argument, self.query.clauses)
        return (low, high) if low <= high else (0.0, 0.0)


def _add_empty_cells(shift: float, published: Floats, cells: Floats | float) -> Floats:
    """Return the sums over `published` cells, with the estimated rows on top and the sums over all
    `cells` of the condition below. A cell that is not published stands for -`shift` rows.
    """
    weight, seen, shown, times, *others = published
    value = weight - shift * (cells - times)
    return np.array([value, seen, shown, times, *others, cells])


def _sum_published(design: Sparse, schema: Schema, query: Query | None, engine: Sandbox) -> Floats:
    """Return sums over the published cells of a question, or over all of them.

    The axes are: the weight and the other sums of `SparseSum`; the power 0, 1 or 2 of the amount
    that each is multiplied by; and the groups of the question.
    """
    groups = query.groups if query else ()
    amount = query.argument.sql if query and query.argument else None
    terms = _list_terms(design)
    factors = ("1", AMOUNT, f"{AMOUNT} * {AMOUNT}") if amount else ("1",)
    sums = [f"sum({term} * {factor})" for term in terms for factor in factors]
    filters = [clause.sql for clause in query.clauses] if query else []
    columns = [quoted(name) for name in groups]
    table = aggregated(engine, columns, sums, filters, amount=amount)
    sizes = [schema[name].size for name in groups]
    codes = [
        known_codes(schema[name], table[f"c{i}"]).astype(np.intp) for i, name in enumerate(groups)
    ]
    group = np.ravel_multi_index(codes, sizes) if groups else np.zeros(table.num_rows, np.intp)
    values = np.zeros((len(sums), prod(sizes)))
    for row in range(len(sums)):
        values[row, group] = floats(table[f"c{len(groups) + row}"])
    shaped = values.reshape(len(terms), len(factors), -1)
    return shaped if amount else np.repeat(shaped, 3, axis=1)


def _list_terms(design: Sparse) -> tuple[str, ...]:
    """Return in SQL what is summed over published cells, without the powers of their amounts."""
    count, weight = f"CAST({quoted(design.count)} AS DOUBLE)", quoted(design.weight)
    tau, shift = float(design.tau), empty_cell(design).shift
    close = design.theta + 3 * (1 + NoiseTails(design.noise).mean) if design.filtered else 0.0
    odds = f"({tau!r} - abs({count})) * {tau!r} / ({count} * {count})"
    return (
        weight,
        count,
        "1e0",
        f"{weight} / {count}",
        f"CASE WHEN abs({count}) < {tau!r} THEN ({count} + {shift!r})**2 * {odds} ELSE 0 END",
        f"CASE WHEN abs({count}) < {tau!r} THEN 0 ELSE 1 END",
        f"CASE WHEN {count} < {close!r} THEN {weight} ELSE 0 END",
    )


# Plain counts of many questions, from the published cells in memory.

KnownCounts = tuple[int, Floats]  # the cells of the domain, and the sums over published ones

_MOST_PUBLISHED = 1 << 21  # cells in memory
_MOST_COMBINATIONS = 1 << 16  # of values of the attributes of a clause


def count_together(
    design: Sparse, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, KnownCounts]:
    """Return what is counted for plain counts with small clauses, by position in `queries`."""
    plain = {
        index: queries[index]
        for some in same_shape(queries).values()
        for index in some
        if all(
            schema.size(clause.attributes) <= _MOST_COMBINATIONS
            for clause in queries[index].clauses
        )
    }
    if not plain:
        return {}
    if "published cells" not in engine.derived:
        engine.derived["published cells"] = PublishedCells(design, schema, engine)
    cells: PublishedCells = engine.derived["published cells"]
    asked, clauses = list(plain.values()), Clauses(schema, plain.values(), engine)
    possible = _count_possible(schema, asked, clauses, engine)
    return dict(zip(plain, zip(possible, cells.sums(asked, clauses), strict=True), strict=True))


def _count_possible(
    schema: Schema, queries: Sequence[Query], clauses: Clauses, engine: Sandbox
) -> Iterator[int]:
    """Yield the number of cells of the domain that satisfy each question."""
    code_sets, domain = CodeSets(schema, clauses), domain_of(engine)
    for query in queries:
        if any(len(clause.attributes) != 1 for clause in query.clauses):
            yield int(domain.count(query.clauses).reshape(-1)[0])
        else:
            names = query.attributes
            others = domain.size // schema.size(names)
            yield prod(codes.size for codes in code_sets.by_name(query, names)) * others


class PublishedCells:
    """All published cells of a release: the codes of their attributes, and the terms of sums."""

    def __init__(self, design: Sparse, schema: Schema, engine: Sandbox) -> None:
        names, terms = [attribute.name for attribute in schema.published], _list_terms(design)
        listed = [*map(quoted, names), *terms]
        columns = ", ".join(f"{expression} AS c{index}" for index, expression in enumerate(listed))
        table = engine.rows(f"SELECT {columns} FROM view")
        self._schema = schema
        self._codes = {
            name: known_codes(schema[name], table[f"c{index}"]).astype(np.int32)
            for index, name in enumerate(names)
        }
        self._terms = np.stack([floats(column) for column in table.columns[len(names) :]])

    def sums(self, queries: Sequence[Query], clauses: Clauses) -> Floats:
        """Return the sums of the terms over the published cells of each question."""
        places: dict[tuple[str, ...], npt.NDArray[np.int32]] = {}
        truths: dict[Expression, npt.NDArray[np.bool_]] = {}
        out = np.zeros((len(queries), len(self._terms)))
        for row, query in enumerate(queries):
            holds = np.ones(self._terms.shape[1], bool)
            for clause in query.clauses:
                names = clause.attributes
                if names not in places:
                    places[names] = self._find_places(names)
                if clause not in truths:
                    truths[clause] = clauses.along(clause, names).reshape(-1)
                holds &= truths[clause].take(places[names], mode="clip")  # all are inside
            cells = holds.nonzero()[0]
            if len(cells):
                # One cell after the other, so that equal cells always have equal sums.
                out[row] += self._terms.take(cells, axis=1).cumsum(axis=1)[:, -1]
        return out

    def _find_places(self, names: tuple[str, ...]) -> npt.NDArray[np.int32]:
        """Return the place of each cell among the combinations of values of some attributes."""
        places = np.zeros(self._terms.shape[1], np.int32)
        for name in names:
            places = places * np.int32(self._schema[name].size) + self._codes[name]
        return places


# --- sparse laws ----------------------------------------------------------------------------------
#
# Error laws of sums over the published cells of a sparse release.
#
# Let a cell add w to the answer for each of its rows. The error is the noise of cells, the
# randomness of sampling them, and under a filter the rows of cells that were left out. The
# variances of the first two are known, or estimated without bias from what is published. Two
# arguments bound the third:
#
# 1. By cells. A cell that was left out has a noisy count of at most θ - 1 (or below tau, where
#    those above θ were sampled), and a published cell lacks nothing. With all w >= 0 this gives
#
#        Σ w · count <= Σ published w · noisy count + (θ - 1) Σ left out w - Σ H w · noise,
#
# where H are the cells of at least θ rows: if such a cell is left out, its rows are its noisy
# count, at most θ - 1, minus its noise; a published cell outside of H has noise above 0; one left
# out has at most θ - 1 rows. H does not depend on the noise, so the last sum is one of |H|
# independent noises. No level is divided among cells.
# 2. By all rows. Under a filter the mean published weight of a cell is never above its count
#    (`NoiseTails.least_theta`). So what is lost in a condition is, in the mean, at most what is
#    lost in all: the number of rows minus what was published.
#
# The first is the better one for conditions of few cells, the second for those of many. The smaller
# of both is used, and the probability of a miss is divided between them. Where the condition has so
# few cells that the second cannot help (`SparseError.few`: by the design and the condition alone,
# not by what was published), the first has all of it.

_HALVINGS = 40
_ROUNDS = 4
# Without a filter, the probability of a miss is divided: `_OWN` of it is for the answer's own
# error, and `_SIDE` for the number of rows. With a filter `_BY_ROWS` is for the error of the second
# argument, `_BY_CELLS` for that of the first, `_LOST` for the rows that were lost (twice: their
# number, and what was published of them) and `_CAP` for the number of rows.
_OWN = 0.8
_SIDE = 0.1
_BY_ROWS = 0.7
_BY_CELLS = 0.1
_LOST = 0.16
_CAP = 0.06
_ONE_ERROR = 0.68  # the level of an interval of one standard error


@dataclass(frozen=True)
class SparseSum:
    """What the error of a sum over cells with weights w depends on.

    - `value` estimates the sum of w times the rows of the cells.
    - `seen`: the sum of w times the noisy count, over published cells; `shown`: how many these are.
    - `times`: the sum of w² over published cells, each as often as the cells that it represents.
    - `sampling`: the sum of w² times the variance that sampling added, over published cells.
    - `sure`: the sum of w² over published cells that were not sampled.
    - `near`: the sum of w² times the noisy count, over published cells close to the threshold of a
      filter.
    - `cells`: the sum of w² over all cells of the condition; `number`: how many these are.
    - `low`, `high`: limits of w.
    """

    value: float
    seen: float
    shown: float
    times: float
    sampling: float
    sure: float
    near: float
    cells: float
    number: float
    low: float
    high: float

    @classmethod
    def of_counts(cls, sums: npt.NDArray[np.float64]) -> SparseSum:
        """Return the spread of cells of which every row adds 1, with the sums of `Amounts`."""
        value, seen, shown, *squares, number = sums.tolist()
        times, sampling, sure, near = (max(0.0, square) for square in squares)
        return cls(value, seen, shown, times, sampling, sure, near, number, number, 1.0, 1.0)

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class SparseError:
    """The error laws of one release; `whole` is the spread of the count of all its cells."""

    design: Sparse
    whole: SparseSum

    @cached_property
    def tails(self) -> NoiseTails:
        return NoiseTails(self.design.noise)

    @cached_property
    def empty(self) -> EmptyCell:
        return empty_cell(self.design)

    def variance(self, spread: SparseSum) -> float:
        """Return the variance of the sum of published weights."""
        noise = self.design.noise.variance
        if self.design.filtered:
            own = noise * spread.times
            own += (self.empty.variance - self.empty.sampling) * spread.cells
        else:
            own = noise * spread.cells
        return own + self._estimate_sampling(spread)

    def _estimate_sampling(self, spread: SparseSum) -> float:
        """Return the estimated variance by sampling, at least that of the empty cells alone."""
        return max(spread.sampling, self.empty.sampling * max(spread.cells - spread.sure, 0.0))

    def interval(self, spread: SparseSum, level: float) -> tuple[float, float]:
        """Return limits of Σ w · count over the cells of the condition."""
        if self.design.filtered and self.few(spread):
            return self._limit_by_cells(spread, level, spread.cells)
        miss = 1 - level
        rows = self.rows(1 - (_CAP if self.design.filtered else _SIDE) * miss)
        low, high = self._limit_by_rows(spread, miss)
        if self.design.filtered:
            heavy = min(spread.cells, spread.largest**2 * rows / self.design.theta)
            close = self._limit_by_cells(spread, 1 - _BY_CELLS * miss, heavy)
            low, high = max(low, close[0]), min(high, close[1])
        least, most = min(spread.low, 0.0) * rows, max(spread.high, 0.0) * rows
        if high < least or low > most:  # rarer than the probability of a miss
            return least, most
        return max(low, least), min(high, most)

    def noise_interval(self, spread: SparseSum, level: float) -> tuple[float, float]:
        """Return the limits that hold if nothing was left out."""
        if not self.left(spread):
            return self.interval(spread, level)
        half = self._compute_half(spread, level, 0.0)
        return spread.value - half, spread.value + half

    def limits(self, spread: SparseSum) -> tuple[Limit, Limit]:
        """Return the estimated least and largest Σ w · count, given that cells were left out."""
        missing = min(self.left(spread) * self.most_left_out, self.lost(_ONE_ERROR))
        law = SparseInterval(self, spread)
        return (
            Limit(spread.value + min(spread.low, 0.0) * missing, law),
            Limit(spread.value + max(spread.high, 0.0) * missing, law),
        )

    def estimate(self, spread: SparseSum) -> float:
        """Return the sum with the rows that are expected in left-out cells: those that were lost in
        all are taken to be spread like those that were published.

        Without them, a filter's sum is too low by as much as the condition lost. With them, its
        mean is nearer wherever the condition has more than half as large a share of the lost rows
        as of the published ones. What is added is less where the sum is within its noise, or all
        published rows are within thrice theirs, so that no noise is enlarged. It stays within
        `limits`.
        """
        if not self.left(spread) or self.whole.value <= 0:
            return spread.value
        lost = max(self.design.total - self.whole.value, 0.0) / self.whole.value
        grown = spread.value * (
            1 + lost * self._compute_signal(self.whole, 3) * self._compute_signal(spread, 1)
        )
        low, high = self.limits(spread)
        return min(max(grown, low.value), high.value)

    def _compute_signal(self, spread: SparseSum, steps: int) -> float:
        """Return the part of the squared value that `steps` standard errors do not explain."""
        square = spread.value**2
        return max(1 - steps**2 * self.variance(spread) / square, 0.0) if square else 0.0

    def left(self, spread: SparseSum) -> float:
        """Return how many cells of the condition a filter has left out."""
        return max(spread.number - spread.shown, 0.0) if self.design.filtered else 0.0

    def missing(self, spread: SparseSum, level: float) -> float:
        """Return a number that the rows of left-out cells of the condition do not exceed."""
        cells, law = self.left(spread), self.design.noise
        if cells > 1:
            half = noise_half_width(cells * law.variance, cells * law.fourth, 1.0, level)
        else:
            half = law.half_width(level)
        return min(self.lost(level), cells * self.most_left_out + half)

    @cached_property
    def most_left_out(self) -> int:
        """The largest noisy count of a cell that was left out."""
        return max(self.design.theta, math.ceil(self.design.tau)) - 1

    def few(self, spread: SparseSum) -> bool:
        """Return whether the noise of the number of rows exceeds what left-out cells can hold."""
        if spread.number <= 1:
            return True
        if self.design.tau:
            return False
        most = spread.number * (self.design.theta - 1)
        return most <= self.design.total_reach(LEVEL)

    def _limit_by_cells(self, spread: SparseSum, level: float, heavy: float) -> tuple[float, float]:
        """Return limits by the first argument. `heavy` is the largest possible Σ w² over cells of
        at least θ rows.
        """
        least, most = min(spread.low, 0.0), max(spread.high, 0.0)
        left, law = self.left(spread) * self.most_left_out, self.design.noise
        ends = (0.0 if least == 0 else -math.inf, 0.0 if most == 0 else math.inf)
        largest = spread.largest
        if spread.number <= 1:
            half = law.half_width(level) * largest
            low, high = spread.seen + least * left - half, spread.seen + most * left + half
            return max(low, ends[0]), min(high, ends[1])
        above = noise_half_width(
            law.variance * heavy, law.fourth * largest**2 * heavy, largest, level
        )
        if self.design.tau:  # cells that were sampled do not bound the sum from below
            high = spread.seen + most * left + above
            return ends[0], ends[1] if least else high
        if least:  # negative amounts have lower limits of counts on both sides
            below = above = self._compute_half(replace(spread, times=heavy), level, math.inf)
        else:
            below = self._compute_half(spread, level, math.inf)
        low = min(spread.value, spread.seen) + least * left - below
        high = max(spread.value, spread.seen) + most * left + above
        return max(low, ends[0]), min(high, ends[1])

    def _limit_by_rows(self, spread: SparseSum, miss: float) -> tuple[float, float]:
        """Return limits by the second argument, or those of a release without a filter."""
        own = _BY_ROWS if self.design.filtered else _OWN
        lost = self.lost(1 - _LOST * miss)
        half = self._compute_half(spread, 1 - own * miss, lost)
        low = spread.value - half + min(spread.low, 0.0) * lost
        return low, spread.value + half + max(spread.high, 0.0) * lost

    def rows(self, level: float) -> float:
        """Return a number that the rows do not exceed with probability `level`."""
        return max(self.design.total + self.design.total_reach(level), 0.0)

    def lost(self, level: float) -> float:
        """Return a number that the rows left out by a filter do not exceed, by `level`."""
        if not self.design.filtered:
            return 0.0
        if level not in self._lost:
            rows = lost = self.rows(level)
            for _ in range(_ROUNDS):  # a smaller bound makes its own error smaller
                published = self.whole.value - self._compute_half(self.whole, level, lost)
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

    def _compute_half(self, spread: SparseSum, level: float, lost: float) -> float:
        """Return how far the sum of published weights is from its mean.

        Cells of less than theta rows have at most `lost` rows, and at most theta - 1 each.
        The noise is bounded by the expansion of its law. A cell that is sampled makes the sum jump
        by tau, and the number of small cells is known from the sample alone, as for Poisson counts.
        The mean number of empty cells that pass a filter is known; the sum of their skewness and of
        half a jump is less than one jump.
        """
        largest, filters = spread.largest, self.design.filtered
        variance = self.variance(spread)
        if filters:
            fewer = min(lost, spread.number * (self.design.theta - 1))
            small = largest**2 * fewer + spread.near
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
    """The law of the error of a count or a sum; if cells were left out, that of its noise.

    The value is `factor` times the sum of published weights, and so is the noise.
    """

    error: SparseError
    spread: SparseSum
    factor: float = 1.0

    @property
    def stderr(self) -> float:
        return self.factor * math.sqrt(self.error.variance(self.spread))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = (self.factor * limit for limit in self.error.noise_interval(self.spread, level))
        return clipped((low, high), value, -math.inf, math.inf)


@dataclass(frozen=True)
class SparseInterval(SparseTotal):
    """The law of a limit of a count or a sum: its interval allows for cells that were left out."""

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return self.error.interval(self.spread, level)


@dataclass(frozen=True, eq=False)
class Amounts:
    """Cells with amounts g between `low` and `high`.

    The first row of `sums` is their estimated number of rows; the others are the seven sums of
    `SparseSum` in their order. The columns are these sums times g to the powers 0, 1 and 2.
    """

    sums: npt.NDArray[np.float64]
    low: float
    high: float

    @property
    def count(self) -> float:
        return float(self.sums[0, 0])

    @property
    def total(self) -> float:
        return float(self.sums[0, 1])

    @property
    def rows(self) -> SparseSum:
        """The spread of the cells if every row adds 1."""
        return SparseSum.of_counts(self.sums[:, 0])

    def spread(self, ratio: float = 0.0) -> SparseSum:
        """Return the spread of the cells with weights g - ratio."""
        squares = self.sums[3:] @ np.array([ratio * ratio, -2 * ratio, 1.0])
        times, sampling, sure, near, cells = np.maximum(squares, 0.0).tolist()
        return SparseSum(
            value=self.total - ratio * self.count,
            seen=float(self.sums[1, 1] - ratio * self.sums[1, 0]),
            shown=float(self.sums[2, 0]),
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

    The interval is that of the noise if cells were left out. It is not a `FiellerRatio`, since the
    error of a filtered release is not symmetric.
    """

    error: SparseError
    amounts: Amounts

    @property
    def parts(self) -> tuple[float, float]:
        return self.amounts.total, self.amounts.count

    @property
    def limits(self) -> tuple[float, float]:
        return self.amounts.low, self.amounts.high

    def unbounded(self, level: float) -> bool:
        low, high = self.error.noise_interval(self.amounts.rows, level)
        return low <= 0 <= high

    @property
    def count_variance(self) -> float:
        return self.error.variance(self.amounts.rows)

    def variance(self, ratio: float) -> float:
        return self.error.variance(self.amounts.spread(ratio))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.amounts.low, self.amounts.high
        middle = min(max(self.value, low), high)
        if not self._is_possible(middle, level):
            return clipped((low, high), self.value, low, high)
        ends = self._find_end(middle, low, level), self._find_end(middle, high, level)
        return clipped(ends, self.value, low, high)

    def _is_possible(self, ratio: float, level: float) -> bool:
        low, high = self.error.noise_interval(self.amounts.spread(ratio), level)
        return low <= 0 <= high

    def _find_end(self, inside: float, outside: float, level: float) -> float:
        if self._is_possible(outside, level):
            return outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            if self._is_possible(middle, level):
                inside = middle
            else:
                outside = middle
        return outside


def _make_noise(error: SparseError, spread: SparseSum) -> SparseTotal:
    """Return the law of the noise of the expected sum."""
    value = spread.value
    return SparseTotal(error, spread, error.estimate(spread) / value if value else 1.0)


def total_law(error: SparseError, spread: SparseSum) -> Law:
    """Return the law of a count or a sum, with bounds if cells were left out."""
    noise = _make_noise(error, spread)
    if not error.left(spread):
        return noise
    low, high = error.limits(spread)
    return Bounded(noise, low, high, spread=lambda: _compute_even_variance(low.value, high.value))


def rest_law(error: SparseError, spread: SparseSum) -> Law:
    """Return the law of the number of all rows, which is known, less a count."""
    noise, rows = _make_noise(error, spread), float(error.design.total)
    if not error.left(spread):
        return ComplementLaw(noise, rows)
    low, high = (
        Limit(rows - limit.value, ComplementLaw(limit.law, rows)) for limit in error.limits(spread)
    )
    return Bounded(
        ComplementLaw(noise, rows),
        high,
        low,
        spread=lambda: _compute_even_variance(low.value, high.value),
    )


def average_law(noise: SparseMean) -> Law:
    """Return the law of an average, with bounds if cells were left out."""
    error, amounts = noise.error, noise.amounts
    if not error.left(amounts.rows):
        return noise
    bounded = BoundedAverage(
        noise,
        lambda ratio, lower: error.limits(amounts.spread(ratio))[0 if lower else 1],
        amounts.low,
        amounts.high,
        noise.value,
        lambda: _compute_even_variance(*bounded.bounds),
    )
    return bounded


def _compute_even_variance(low: float, high: float) -> float:
    """Return the variance of a number that is equally likely anywhere between two limits."""
    return (high - low) ** 2 / 12
