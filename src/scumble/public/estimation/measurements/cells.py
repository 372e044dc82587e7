"""Reader of noisy counts of all cells (Histogram): add up the cells that satisfy the question.

The noise of the sum is a sum of independent noises of known law, weighted by what each cell adds.
So the error law of the answer is known exactly and does not depend on the data.

If the number of rows is known, the noisy counts are moved to that total, all by the same amount:
the least squares estimate. Then a cell of weight w has the weight w - m in the noise, where m is
the mean weight of all cells, those outside of the condition included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model import arrow_compute as pc
from scumble.model.designs.registry import Cells
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.model.long_work import told
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import LEVEL, Estimate, Exact, Law, Unknown
from scumble.public.estimation.interval_laws import FiellerRatio, noise_half_width
from scumble.public.estimation.measurements.readings import NoisyTotal, Reading
from scumble.public.estimation.rows.grouped_counts import (
    AMOUNT,
    Floats,
    GroupIndex,
    Indices,
    aggregated,
    distinct,
    floats,
)
from scumble.public.estimation.rows.small_files import is_plain_count, small_table
from scumble.public.estimation.tables import Clauses
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
Counts = npt.NDArray[np.int64]
SUMMED = "sum of noisy cells; interval from the law of their noise"
FIELLER = "ratio of sums of noisy cells; Fieller interval"
_ROUNDING = 1e-24  # variance of a sum with weights of at most 1 that is known but for rounding
_CLOSE = 1.01 * NormalDist().inv_cdf((1 + LEVEL) / 2)  # standard errors


@dataclass(frozen=True)
class NoisyCells:
    """The law of the noise of every cell, and the number of all `cells`.

    `excess` is the sum of all noisy counts minus the number of rows, if that is known; else None.
    """

    noise: DiscreteLaplace
    cells: int
    excess: float | None

    def share(self, weights: Floats, cells: Floats) -> float:
        """Return the mean weight of all cells: the part of `excess` that a sum holds."""
        return 0.0 if self.excess is None else float(weights @ cells) / self.cells

    def value(self, weights: Floats, cells: Floats, noisy: Floats) -> float:
        """Return Σ weight · count. Each line has a weight, the number of its cells, and the sum of
        their noisy counts.
        """
        return float(weights @ noisy) - self.share(weights, cells) * (self.excess or 0.0)

    def terms(self, weights: Floats, cells: Floats) -> tuple[Floats, Floats]:
        """Return the weights of the noise of all cells, and the number of cells of each."""
        if self.excess is None:
            return weights, cells
        share, others = self.share(weights, cells), self.cells - float(cells.sum())
        return np.append(weights - share, -share), np.append(cells, others)

    def total(self, query: Query, lines: tuple[Floats, Floats, Floats]) -> Estimate:
        """Return Σ weight · count with the law of its noise; no cell at all has no noise."""
        weights, cells, _ = lines
        law = self.law(*self.terms(weights, cells))
        return Estimate(self.value(*lines), law, SUMMED, query.notes)

    def law(self, weights: Floats, cells: Floats) -> Law:
        """Return the law of Σ weight · noise. Where its moments give the interval to 1 %, they do;
        else it is the law itself.
        """
        found = _moments(self.noise, weights, cells)
        if found.variance <= _ROUNDING * float(np.abs(weights).max(initial=0.0)) ** 2:
            return Exact()
        half = noise_half_width(found.variance, found.fourth, found.largest, LEVEL)
        if self.excess is not None and half <= _CLOSE * found.variance**0.5:
            return NoisyTotal(found)
        pairs = zip(weights.tolist(), cells.astype(int).tolist(), strict=True)
        return NoiseSum(self.noise, ((abs(weight), number) for weight, number in pairs))


def _moments(noise: DiscreteLaplace, weights: Floats, cells: Floats) -> Reading:
    """Return the moments of Σ weight · noise over `cells` cells for each weight."""
    used = (cells > 0) & (weights != 0)
    squares, number = weights[used] ** 2, cells[used]
    return Reading(
        0.0,
        noise.variance * float(number @ squares),
        noise.fourth * float(number @ squares**2),
        float(np.sqrt(squares.max(initial=0.0))),
    )


class CellsReader:
    """Answers questions from the noisy cells of one release."""

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self._design = cast(Cells, evidence.design)
        self._columns = evidence.columns
        self._schema = schema
        self._small = _small_cells(self._design, schema, self._columns, engine)
        excess = None
        if evidence.rows is not None:
            excess = self._total(engine) - evidence.rows
        self._noisy = NoisyCells(self._design.noise, schema.size(evidence.columns), excess)

    def _total(self, engine: Sandbox) -> float:
        """Return the sum of all noisy counts."""
        if self._small is not None:
            return float(self._small.sum())
        table = engine.rows(f"SELECT sum({quoted(self._design.count)}) FROM view")
        return float(table.column(0)[0].as_py() or 0)

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group of the answer with its estimate."""
        if self._small is not None and is_plain_count(query, self._schema):
            yield from self.answer_together([query], engine)[0]
            return
        cells = _matching(self._design, self._schema, query, engine)
        sums = CellSums(self._noisy, query, cells)
        for place, key in enumerate(told(cells.groups.keys)):
            yield tuple(key[name] for name in query.groups), sums.estimate(place)

    def answer_together(
        self, queries: Sequence[Query], engine: Sandbox
    ) -> dict[int, list[tuple[Key, Estimate]]]:
        """Return the answers to plain counts by place: the cells are read once for all."""
        plain = {
            place: query
            for place, query in enumerate(queries)
            if query.aggregate == "count" and not query.groups
        }
        clauses = Clauses(self._schema, plain.values(), engine)
        whole = self._small
        if whole is None:
            table = engine.rows(f"SELECT {quoted(self._design.count)} FROM view")
            shape = [self._schema[name].size for name in self._columns]
            whole = table.column(0).to_numpy().reshape(shape)
        tensor = CellTensor(whole, self._noisy, self._columns, clauses)
        return {place: [((), tensor.count(query))] for place, query in plain.items()}


@dataclass(frozen=True, eq=False)
class CellTensor:
    """All noisy cells as one tensor, and its marginals that questions need."""

    whole: Counts
    noisy: NoisyCells
    columns: tuple[str, ...]
    clauses: Clauses

    def count(self, query: Query) -> Estimate:
        """Return the count of the cells that satisfy all clauses of `query`."""
        names = [name for name in self.columns if name in query.attributes]
        marginal, cells_in_one = self._marginal(tuple(names))
        holds: npt.NDArray[np.bool_] = np.ones(marginal.shape, bool)
        for clause in query.clauses:
            holds = holds & self.clauses.along(clause, names)
        cells = float(holds.sum()) * cells_in_one
        found = np.array([[1.0], [cells], [float(marginal[holds].sum())]])
        return self.noisy.total(query, (found[0], found[1], found[2]))

    @cached_property
    def _marginals(self) -> dict[tuple[str, ...], Counts]:
        return {self.columns: self.whole}

    def _marginal(self, names: tuple[str, ...]) -> tuple[Counts, int]:
        """Return the sums of the cells by `names`, and how many cells are in one sum."""
        if names not in self._marginals:
            others = [i for i, name in enumerate(self.columns) if name not in names]
            self._marginals[names] = self.whole.sum(axis=tuple(others))
        marginal = self._marginals[names]
        return marginal, self.whole.size // max(marginal.size, 1)


def _small_cells(
    design: Cells, schema: Schema, columns: tuple[str, ...], engine: Sandbox
) -> Counts | None:
    """Return all noisy counts, by attribute, if they are in a small file and DuckDB is not used."""
    table = small_table(engine, [design.count])
    if table is None or table.num_rows != schema.size(columns):
        return None
    if table[0].type != pa.int64() or table[0].null_count:
        return None
    found: Counts = table[0].to_numpy().reshape([schema[name].size for name in columns])
    return found


@dataclass(frozen=True)
class MatchingCells:
    """Cells that satisfy the condition, by group and by the amount `weight` of one of their rows:
    how many `cells` there are, and the sum `noisy` of their noisy counts.
    """

    groups: GroupIndex
    weight: Floats
    cells: Floats
    noisy: Floats


def _matching(design: Cells, schema: Schema, query: Query, engine: Sandbox) -> MatchingCells:
    names = [name for name in schema.names if name in query.groups]
    amount = query.argument.sql if query.argument else "1.0"
    columns = [*map(quoted, names), AMOUNT]
    sums = ["count(*)", f"CAST(sum({quoted(design.count)}) AS DOUBLE)"]
    filters = [clause.sql for clause in query.clauses]
    table = aggregated(engine, columns, sums, filters, amount=amount)
    weights, cells, noisy = (floats(table[f"c{len(names) + place}"]) for place in range(3))
    if not np.isfinite(weights).all():
        raise QueryError(
            "The summed expression is not a finite number for every cell that satisfies the "
            "condition. Exclude such cells in WHERE, or guard the expression with CASE."
        )
    grouped = table.select(range(len(names))).rename_columns(names)
    return MatchingCells(_groups(schema, grouped), weights, cells, noisy)


def _groups(schema: Schema, grouped: pa.Table) -> GroupIndex:
    if not grouped.num_columns:
        return GroupIndex(np.zeros(grouped.num_rows, np.intp), [{}])
    first, inverse = distinct(schema, grouped)
    return GroupIndex(inverse, pc.take(grouped, first).to_pylist())


@dataclass(frozen=True)
class CellSums:
    """Sums of noisy cells, by group."""

    noisy: NoisyCells
    query: Query
    cells: MatchingCells

    @cached_property
    def _members(self) -> list[Indices]:
        """The lines of each group."""
        members = self.cells.groups.members
        ends = np.cumsum(np.bincount(members, minlength=len(self.cells.groups.keys)))
        return np.split(np.argsort(members, kind="stable"), ends[:-1])

    def estimate(self, group: int) -> Estimate:
        members = self._members[group]
        if self.query.aggregate == "mean":
            return self._mean(members)
        return self.noisy.total(self.query, self._lines(members))

    def _lines(self, members: Indices) -> tuple[Floats, Floats, Floats]:
        cells = self.cells
        return cells.weight[members], cells.cells[members], cells.noisy[members]

    def _mean(self, members: Indices) -> Estimate:
        weights, cells, noisy = self._lines(members)
        total = self.noisy.value(weights, cells, noisy)
        count = self.noisy.value(np.ones_like(weights), cells, noisy)
        if not len(members) or not count:
            nothing = "no cell satisfies the condition, or their noisy counts add up to zero"
            notes = (*self.query.notes, nothing)
            return Estimate(float("nan"), Unknown(), "average of no rows", notes)
        law = CellsRatio(total, count, self.noisy, weights, cells)
        return Estimate(law.value, law, FIELLER, (*self.query.notes, *law.notes))


@dataclass(frozen=True, eq=False)
class CellsRatio(FiellerRatio):
    """The average of the amounts `weights`, each that of the rows of `cells` cells.

    The noise of `total - r * count` has the weights `weights - r`, or what is left of them if the
    number of rows is known. Its law is close to normal with heavier tails. Against the exact law,
    the half-width covers at least its level for every number of cells, 1 included, and any scale of
    the noise (tried from 1/7 to 20).
    """

    total: float
    count: float
    noisy: NoisyCells
    weights: Floats
    cells: Floats

    @property
    def parts(self) -> tuple[float, float]:
        return self.total, self.count

    @property
    def limits(self) -> tuple[float, float]:
        return float(self.weights.min()), float(self.weights.max())

    @property
    def count_variance(self) -> float:
        return self._error(np.ones_like(self.weights)).variance

    def variance(self, ratio: float) -> float:
        return self._error(self.weights - ratio).variance

    def half_width(self, ratio: float, level: float) -> float:
        found = self._error(self.weights - ratio)
        return noise_half_width(found.variance, found.fourth, found.largest, level)

    def _error(self, weights: Floats) -> Reading:
        return _moments(self.noisy.noise, *self.noisy.terms(weights, self.cells))
