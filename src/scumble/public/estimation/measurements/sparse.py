"""Answers from the published cells of a sparse release.

Published weights are added up; how many empty cells a condition has, and what they add in the mean,
follows from the domain, which is counted without going through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.model.designs.sparse import Sparse
from scumble.model.designs.sparse_law import Tails
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import LEVEL, Estimate, Exact, Unknown
from scumble.public.estimation.domain_counting import Domain, domain_of
from scumble.public.estimation.measurements.sparse_error import (
    Amounts,
    SparseError,
    SparseMean,
    SparseTotal,
    empty_cell,
)
from scumble.public.estimation.rows.tally import Floats, floats
from scumble.public.sandbox import Engine

Key = tuple[Any, ...]

ROWS = "noisy number of rows; interval from the law of its noise"
SUMMED = "sum of published cells; interval from noise and sampling"
FILTERED = "sum of published cells, less that of false ones; the interval allows for lost rows"
FIELLER = "ratio of sums of published cells; Fieller interval"
NOTHING = "no cell satisfies the condition, or their estimated number is zero"


def answer(
    evidence: Measurements, schema: Schema, query: Query, engine: Engine
) -> Iterator[tuple[Key, Estimate]]:
    """Every possible group of the answer with its estimate."""
    question = Question(evidence, schema, query, engine)
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
    evidence: Measurements, schema: Schema, queries: Sequence[Query], engine: Engine
) -> list[list[tuple[Key, Estimate]]]:
    """Each question's groups with their estimates."""
    answers = []
    for query in queries:
        engine.check(query)
        answers.append(list(answer(evidence, schema, query, engine)))
    return answers


@dataclass(frozen=True)
class Question:
    """One question to the published cells."""

    evidence: Measurements
    schema: Schema
    query: Query
    engine: Engine

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
        kept = self.engine.kept
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


def _shown(design: Sparse, schema: Schema, query: Query | None, engine: Engine) -> Floats:
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
