"""Answers from noisy counts of cells: add up the cells that satisfy the question.

The noise of the sum is a sum of independent noises of known law, weighted by what each cell adds, so the
error law of the answer is known exactly and does not depend on the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from scumble.engine.duckdb import Engine
from scumble.errors import QueryError
from scumble.estimate import Estimate, Exact, Law, Unknown
from scumble.estimators.ratio_law import Ratio
from scumble.estimators.tally import Floats, Groups, Indices, distinct, floats, quoted
from scumble.evidence import Measurements
from scumble.noise.laws import NoiseSum
from scumble.query import Query
from scumble.schema import Schema

Key = tuple[Any, ...]
SUMMED = "sum of noisy cells; interval from the law of their noise"
FIELLER = "ratio of sums of noisy cells; Fieller interval"


def answer(
    evidence: Measurements, schema: Schema, query: Query, engine: Engine
) -> Iterator[tuple[Key, Estimate]]:
    """Every group of the answer with its estimate."""
    lines = _lines(evidence, schema, query, engine)
    sums = Sums(evidence, query, lines)
    for index, key in enumerate(lines.groups.keys):
        yield tuple(key[name] for name in query.groups), sums.estimate(index)


@dataclass(frozen=True)
class Lines:
    """Cells that satisfy the condition, by group and by what one row of them adds."""

    groups: Groups
    weight: Floats
    cells: Floats
    noisy: Floats


def _lines(evidence: Measurements, schema: Schema, query: Query, engine: Engine) -> Lines:
    names = [name for name in schema.names if name in query.groups]
    weight = f"CAST({query.argument.sql} AS DOUBLE)" if query.argument else "1.0"
    columns = [*map(quoted, names), weight]
    columns += ["count(*)", f"CAST(sum({quoted(evidence.count)}) AS DOUBLE)"]
    where = " AND ".join(f"({clause.sql})" for clause in query.clauses)
    listed = ", ".join(f"{column} AS c{place}" for place, column in enumerate(columns))
    grouping = ", ".join(columns[: len(names) + 1])
    table = engine.rows(
        f"SELECT {listed} FROM view{' WHERE ' + where if where else ''} GROUP BY {grouping}"
    )
    weights, cells, noisy = (floats(table[f"c{len(names) + place}"]) for place in range(3))
    if not np.isfinite(weights).all():
        raise QueryError(
            "The summed expression is not a finite number for every cell that satisfies the "
            "condition. Exclude such cells in WHERE, or guard the expression with CASE."
        )
    kept = table.select(range(len(names))).rename_columns(names)
    return Lines(_groups(schema, kept), weights, cells, noisy)


def _groups(schema: Schema, kept: pa.Table) -> Groups:
    if not kept.num_columns:
        return Groups(np.zeros(kept.num_rows, np.intp), [{}])
    first, inverse = distinct(schema, kept)
    return Groups(inverse, kept.take(first).to_pylist())


@dataclass(frozen=True)
class Sums:
    """Sums of noisy cells, by group."""

    evidence: Measurements
    query: Query
    lines: Lines

    def estimate(self, group: int) -> Estimate:
        members = np.flatnonzero(self.lines.groups.members == group)
        if self.query.aggregate == "mean":
            return self._mean(members)
        weights = self.lines.weight[members]
        total = float(weights @ self.lines.noisy[members])
        return Estimate(total, self._law(weights, self.lines.cells[members]), SUMMED, self.query.notes)

    def _law(self, weights: Floats, cells: Floats) -> Law:
        """The law of Σ weight · noise; no cell, or weights of 0 only, have no noise."""
        counts = {float(w): int(n) for w, n in zip(weights, cells, strict=True) if w}
        return NoiseSum(self.evidence.noise, counts) if counts else Exact()

    def _mean(self, members: Indices) -> Estimate:
        weights, cells = self.lines.weight[members], self.lines.cells[members]
        noisy = self.lines.noisy[members]
        total, count = float(weights @ noisy), float(noisy.sum())
        if not len(members) or not count:
            nothing = "no cell satisfies the condition, or their noisy counts add up to zero"
            return Estimate(
                float("nan"), Unknown(), "average of no rows", (*self.query.notes, nothing)
            )
        unit = self.evidence.noise.variance
        law = Ratio(
            total,
            count,
            total_variance=unit * float(weights**2 @ cells),
            count_variance=unit * float(cells.sum()),
            covariance=unit * float(weights @ cells),
        )
        return Estimate(law.value, law, FIELLER, (*self.query.notes, *law.notes))
