"""Reader of noisy counts of all cells (Histogram): add up the cells that satisfy the question.

The noise of the sum is a sum of independent noises of known law, weighted by what each cell adds.
So the error law of the answer is known exactly and does not depend on the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.designs.registry import Cells
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Law, Unknown
from scumble.public.estimation.interval_laws import FiellerRatio, noise_half_width
from scumble.public.estimation.rows.grouped_counts import (
    Floats,
    GroupIndex,
    Indices,
    aggregated,
    distinct,
    floats,
)
from scumble.public.estimation.tables import Clauses
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
SUMMED = "sum of noisy cells; interval from the law of their noise"
FIELLER = "ratio of sums of noisy cells; Fieller interval"


class CellsReader:
    """Answers questions from the noisy cells of one release."""

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self._design = cast(Cells, evidence.design)
        self._columns = evidence.columns
        self._schema = schema

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group of the answer with its estimate."""
        cells = _matching(self._design, self._schema, query, engine)
        sums = CellSums(self._design, query, cells)
        for place, key in enumerate(cells.groups.keys):
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
        tensor = CellTensor(self._design, self._columns, self._schema, engine, clauses)
        return {place: [((), tensor.count(query))] for place, query in plain.items()}


@dataclass(frozen=True)
class CellTensor:
    """All noisy cells as one tensor, and its marginals that questions need."""

    design: Cells
    columns: tuple[str, ...]
    schema: Schema
    engine: Sandbox
    clauses: Clauses

    def count(self, query: Query) -> Estimate:
        """Return the count of the cells that satisfy all clauses of `query`."""
        names = [name for name in self.columns if name in query.attributes]
        marginal, cells_in_one = self._marginal(tuple(names))
        holds: npt.NDArray[np.bool_] = np.ones(marginal.shape, bool)
        for clause in query.clauses:
            holds = holds & self.clauses.along(clause, names)
        cells = int(holds.sum()) * cells_in_one
        return _summed(self.design, query, float(marginal[holds].sum()), {1.0: cells})

    @cached_property
    def _marginals(self) -> dict[tuple[str, ...], npt.NDArray[np.int64]]:
        table = self.engine.rows(f"SELECT {quoted(self.design.count)} FROM view")
        shape = [self.schema[name].size for name in self.columns]
        return {self.columns: table.column(0).to_numpy().reshape(shape)}

    def _marginal(self, names: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], int]:
        """Return the sums of the cells by `names`, and how many cells are in one sum."""
        whole = self._marginals[self.columns]
        if names not in self._marginals:
            others = [i for i, name in enumerate(self.columns) if name not in names]
            self._marginals[names] = whole.sum(axis=tuple(others))
        marginal = self._marginals[names]
        return marginal, whole.size // max(marginal.size, 1)


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
    weight = f"CAST({query.argument.sql} AS DOUBLE)" if query.argument else "1.0"
    columns = [*map(quoted, names), weight]
    sums = ["count(*)", f"CAST(sum({quoted(design.count)}) AS DOUBLE)"]
    table = aggregated(engine, columns, sums, [clause.sql for clause in query.clauses])
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
    return GroupIndex(inverse, grouped.take(first).to_pylist())


@dataclass(frozen=True)
class CellSums:
    """Sums of noisy cells, by group."""

    design: Cells
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
        weights, cells = self.cells.weight[members], self.cells.cells[members]
        total = float(weights @ self.cells.noisy[members])
        terms = dict(zip(weights.tolist(), cells.astype(int).tolist(), strict=True))
        return _summed(self.design, self.query, total, terms)

    def _mean(self, members: Indices) -> Estimate:
        weights, cells = self.cells.weight[members], self.cells.cells[members]
        noisy = self.cells.noisy[members]
        total, count = float(weights @ noisy), float(noisy.sum())
        if not len(members) or not count:
            nothing = "no cell satisfies the condition, or their noisy counts add up to zero"
            notes = (*self.query.notes, nothing)
            return Estimate(float("nan"), Unknown(), "average of no rows", notes)
        law = CellsRatio(total, count, self.design.noise.variance, weights, cells)
        return Estimate(law.value, law, FIELLER, (*self.query.notes, *law.notes))


def _summed(design: Cells, query: Query, total: float, terms: dict[float, int]) -> Estimate:
    """Return Σ weight · count with the law of Σ weight · noise; no cell at all has no noise."""
    law: Law = NoiseSum(design.noise, terms)
    noisy = any(weight and count for weight, count in terms.items())
    return Estimate(total, law if noisy else Exact(), SUMMED, query.notes)


@dataclass(frozen=True, eq=False)
class CellsRatio(FiellerRatio):
    """`weights @ noisy / sum(noisy)`, where `noisy` has `cells` independent noises for each weight.

    `noise_variance` is that of the noise of one cell, which is two-sided geometric. The noise of
    `total - r * count` has the weights `weights - r`. Its law is close to normal with heavier
    tails. Against the exact law, the half-width covers at least its level for every number of
    cells, 1 included, and any scale of the noise (tried from 1/7 to 20).
    """

    total: float
    count: float
    noise_variance: float
    weights: npt.NDArray[np.float64]
    cells: npt.NDArray[np.float64]

    @property
    def parts(self) -> tuple[float, float]:
        return self.total, self.count

    @property
    def limits(self) -> tuple[float, float]:
        return float(self.weights.min()), float(self.weights.max())

    @property
    def count_variance(self) -> float:
        return self.noise_variance * float(self.cells.sum())

    def variance(self, ratio: float) -> float:
        return self.noise_variance * float(self.cells @ (self.weights - ratio) ** 2)

    def half_width(self, ratio: float, level: float) -> float:
        squares = (self.weights - ratio) ** 2
        # The fourth cumulant of one noise is (3 + 1 / variance) · variance².
        fourth = (3 * self.noise_variance + 1) * self.noise_variance
        fourths = fourth * float(self.cells @ squares**2)
        largest = float(np.sqrt(squares.max()))
        return noise_half_width(self.variance(ratio), fourths, largest, level)
