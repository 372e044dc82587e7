"""Answers from noisy counts of cells: add up the cells that satisfy the question.

The noise of the sum is a sum of independent noises of known law, weighted by what each cell adds,
so the error law of the answer is known exactly and does not depend on the data.
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
from scumble.public.estimation.interval_laws import NoisyRatio
from scumble.public.estimation.rows.tally import Floats, GroupIndex, Indices, distinct, floats
from scumble.public.estimation.tables import Clauses
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
SUMMED = "sum of noisy cells; interval from the law of their noise"
FIELLER = "ratio of sums of noisy cells; Fieller interval"


def answer(
    evidence: Measurements, schema: Schema, query: Query, engine: Sandbox
) -> Iterator[tuple[Key, Estimate]]:
    """Every group of the answer with its estimate."""
    design = _design(evidence)
    lines = _lines(design, schema, query, engine)
    sums = Sums(design, query, lines)
    for index, key in enumerate(lines.groups.keys):
        yield tuple(key[name] for name in query.groups), sums.estimate(index)


def answer_many(
    evidence: Measurements, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> list[list[tuple[Key, Estimate]]]:
    """Each question's groups with their estimates; plain counts read the cells only once."""
    plain = [query for query in queries if query.aggregate == "count" and not query.groups]
    cells = Tensor(evidence, schema, engine, Clauses(schema, plain, engine))
    answers = []
    for query in queries:
        if query.aggregate == "count" and not query.groups:
            answers.append([((), cells.count(query))])
        else:
            engine.check(query)
            answers.append(list(answer(evidence, schema, query, engine)))
    return answers


@dataclass(frozen=True)
class Tensor:
    """All noisy cells as one tensor, and its sums over the attributes that a question does not
    name.
    """

    evidence: Measurements
    schema: Schema
    engine: Sandbox
    clauses: Clauses

    def count(self, query: Query) -> Estimate:
        names = [name for name in self.evidence.columns if name in query.attributes]
        marginal, cells_in_one = self._marginal(tuple(names))
        holds: npt.NDArray[np.bool_] = np.ones(marginal.shape, bool)
        for clause in query.clauses:
            holds = holds & self.clauses.along(clause, names)
        cells = int(holds.sum()) * cells_in_one
        return _summed(_design(self.evidence), query, float(marginal[holds].sum()), {1.0: cells})

    @cached_property
    def _marginals(self) -> dict[tuple[str, ...], npt.NDArray[np.int64]]:
        column = quoted(_design(self.evidence).count)
        table = self.engine.rows(f"SELECT {column} FROM view")
        shape = [self.schema[name].size for name in self.evidence.columns]
        return {self.evidence.columns: table.column(0).to_numpy().reshape(shape)}

    def _marginal(self, names: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], int]:
        """The sums of the cells by these attributes, and how many cells are in one sum."""
        whole = self._marginals[self.evidence.columns]
        if names not in self._marginals:
            others = [i for i, name in enumerate(self.evidence.columns) if name not in names]
            self._marginals[names] = whole.sum(axis=tuple(others))
        marginal = self._marginals[names]
        return marginal, whole.size // max(marginal.size, 1)


@dataclass(frozen=True)
class Lines:
    """Cells that satisfy the condition, by group and by what one row of them adds."""

    groups: GroupIndex
    weight: Floats
    cells: Floats
    noisy: Floats


def _lines(design: Cells, schema: Schema, query: Query, engine: Sandbox) -> Lines:
    names = [name for name in schema.names if name in query.groups]
    weight = f"CAST({query.argument.sql} AS DOUBLE)" if query.argument else "1.0"
    columns = [*map(quoted, names), weight]
    columns += ["count(*)", f"CAST(sum({quoted(design.count)}) AS DOUBLE)"]
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


def _groups(schema: Schema, kept: pa.Table) -> GroupIndex:
    if not kept.num_columns:
        return GroupIndex(np.zeros(kept.num_rows, np.intp), [{}])
    first, inverse = distinct(schema, kept)
    return GroupIndex(inverse, kept.take(first).to_pylist())


@dataclass(frozen=True)
class Sums:
    """Sums of noisy cells, by group."""

    design: Cells
    query: Query
    lines: Lines

    @cached_property
    def _members(self) -> list[Indices]:
        """The lines of each group."""
        members = self.lines.groups.members
        ends = np.cumsum(np.bincount(members, minlength=len(self.lines.groups.keys)))
        return np.split(np.argsort(members, kind="stable"), ends[:-1])

    def estimate(self, group: int) -> Estimate:
        members = self._members[group]
        if self.query.aggregate == "mean":
            return self._mean(members)
        weights, cells = self.lines.weight[members], self.lines.cells[members]
        total = float(weights @ self.lines.noisy[members])
        terms = dict(zip(weights.tolist(), cells.astype(int).tolist(), strict=True))
        return _summed(self.design, self.query, total, terms)

    def _mean(self, members: Indices) -> Estimate:
        weights, cells = self.lines.weight[members], self.lines.cells[members]
        noisy = self.lines.noisy[members]
        total, count = float(weights @ noisy), float(noisy.sum())
        if not len(members) or not count:
            nothing = "no cell satisfies the condition, or their noisy counts add up to zero"
            return Estimate(
                float("nan"), Unknown(), "average of no rows", (*self.query.notes, nothing)
            )
        law = NoisyRatio(total, count, self.design.noise.variance, weights, cells)
        return Estimate(law.value, law, FIELLER, (*self.query.notes, *law.notes))


def _design(evidence: Measurements) -> Cells:
    return cast(Cells, evidence.design)


def _summed(design: Cells, query: Query, total: float, terms: dict[float, int]) -> Estimate:
    """Σ weight · count with the law of Σ weight · noise; no cell at all has no noise."""
    law: Law = NoiseSum(design.noise, terms)
    noisy = any(weight and count for weight, count in terms.items())
    return Estimate(total, law if noisy else Exact(), SUMMED, query.notes)
