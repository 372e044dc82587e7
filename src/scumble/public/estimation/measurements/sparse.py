"""Reader of sparse releases: sums of the published cells, and the laws of their errors.

Published weights are added up. How many empty cells a condition has, and what they add in the mean,
follows from the domain, which is counted without enumerating it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.model.designs.sparse import NoiseTails, Sparse
from scumble.model.evidence.evidence import Measurements
from scumble.model.long_work import told
from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.public.estimate import LEVEL, Estimate, Exact, Law, Unknown
from scumble.public.estimation.domain_counting import Domain, domain_of
from scumble.public.estimation.measurements.sparse_laws import (
    Amounts,
    SparseError,
    SparseMean,
    Spread,
    average_law,
    empty_cell,
    rest_law,
    total_law,
)
from scumble.public.estimation.rows.grouped_counts import AMOUNT, Floats, aggregated, floats
from scumble.public.estimation.tables import Clauses, CodeSets, same_shape
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]

ROWS = "noisy number of rows; interval from the law of its noise"
KNOWN = "number of rows, which is published"
SUMMED = "sum of published cells; interval from noise and sampling"
FILTERED = "sum of published cells, less that of false ones; the interval allows for lost rows"
FIELLER = "ratio of sums of published cells; Fieller interval"
RESTED = "number of rows less that of the other cells: {}"
NOTHING = "no cell satisfies the condition, or their estimated number is zero"


class SparseReader:
    """Answers questions from the published cells of one release."""

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self._schema = schema
        self.design = cast(Sparse, evidence.design)
        self._published = _published_sums(self.design, schema, None, engine)[:, 0, 0]
        domain = float(domain_of(engine).size)
        sums = _with_empty_cells(empty_cell(self.design).shift, self._published, domain)
        self.error = SparseError(self.design, Spread.counted(sums))

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Yield every possible group of the answer with its estimate."""
        schema = self._schema
        domain, whole = domain_of(engine), (self.design, self.error, self._published)
        question = SparseQuestion(*whole, schema, query, engine, domain)
        if not query.groups:
            yield (), question.estimate(0)
            return
        places = np.flatnonzero(question.possible).tolist()
        for place, key in zip(told(places), schema.cell_values(query.groups, places), strict=True):
            yield key, question.estimate(place)

    def answer_together(
        self, queries: Sequence[Query], engine: Sandbox
    ) -> dict[int, list[tuple[Key, Estimate]]]:
        """Return the answers to plain counts by place: published cells are read once for all."""
        if self._published[2] > _MOST_PUBLISHED:
            return {}
        design, schema, found = self.design, self._schema, {}
        domain, whole = domain_of(engine), (design, self.error, self._published)
        for place, known in counted_together(design, schema, queries, engine).items():
            question = SparseQuestion(*whole, schema, queries[place], engine, domain, known)
            found[place] = [((), question.estimate(0))]
        return found


@dataclass(frozen=True)
class SparseQuestion:
    """One question to the published cells; `error` and `published`, the sums over all published
    cells, are those of the whole release. `counted` has the cells of the domain and the sums over
    published cells of the question, if they were counted before.
    """

    design: Sparse
    error: SparseError
    published: Floats
    schema: Schema
    query: Query
    engine: Sandbox
    domain: Domain
    counted: Counted | None = None

    @cached_property
    def possible(self) -> npt.NDArray[np.object_]:
        """The number of cells of the domain that satisfy the question, by group."""
        if self.counted is not None:
            return np.array([self.counted[0]], object)
        return self.domain.count(self.query.clauses, self.query.groups).reshape(-1)

    def estimate(self, group: int) -> Estimate:
        if self.query.aggregate == "mean":
            return self._mean(group)
        possible = self.possible[group]
        if not possible:
            return Estimate(0.0, Exact(), "no cell satisfies the condition", self.query.notes)
        if self.query.aggregate == "count" and possible == self.domain.size:
            law: Law = self.design.total_noise or Exact()
            method = ROWS if self.design.total_noise else KNOWN
            return Estimate(float(self.design.total), law, method, self.query.notes)
        if self._known and 2 * possible > self.domain.size:
            return self._rest(group)
        spread = self._spread(group)
        method = FILTERED if self.design.filtered else SUMMED
        law = total_law(self.error, spread)
        return Estimate(spread.value, law, method, self._notes(spread))

    @property
    def _known(self) -> bool:
        """Whether the question is a count, and the number of all rows is known."""
        return self.query.aggregate == "count" and self.design.total_noise is None

    def _rest(self, group: int) -> Estimate:
        """Return the count of most cells: all rows less the count of the other cells."""
        left = float(self.domain.size - self.possible[group])
        published = self.published - self._published[:, 0, group]
        others = Spread.counted(self._with_empty_cells(published, left))
        method = RESTED.format(FILTERED if self.design.filtered else SUMMED)
        notes = self.query.notes
        if self.error.left(others):
            lost = self.error.missing(others, LEVEL)
            notes = (*notes, f"cells with few rows were left out: up to {lost:,.0f} rows too many")
        law = rest_law(self.error, others)
        return Estimate(self.design.total - others.value, law, method, notes)

    def _mean(self, group: int) -> Estimate:
        amounts = self._amounts(group)
        if not self.possible[group] or not amounts.count:
            notes = (*self.query.notes, NOTHING)
            return Estimate(float("nan"), Unknown(), "average of no rows", notes)
        law = SparseMean(self.error, amounts)
        notes = (*self._notes(amounts.rows), *law.notes)
        return Estimate(law.value, average_law(law), FIELLER, notes)

    def _notes(self, counted: Spread) -> tuple[str, ...]:
        """Return the notes of the question, and how many of the rows that it asks about may be in
        cells that were left out.
        """
        if not self.error.left(counted):
            return self.query.notes
        lost = self.error.missing(counted, LEVEL)
        return (
            *self.query.notes,
            f"cells with few rows were left out: up to {lost:,.0f} rows may be missing here",
        )

    def _spread(self, group: int) -> Spread:
        if self.query.argument is not None:
            return self._amounts(group).spread()
        cells = float(self.possible[group])
        return Spread.counted(self._with_empty_cells(self._published[:, 0, group], cells))

    def _amounts(self, group: int) -> Amounts:
        published, cells = self._published[:, :, group], self._over_domain[:, group]
        return Amounts(self._with_empty_cells(published, cells), *self._limits)

    def _with_empty_cells(self, published: Floats, cells: Floats | float) -> Floats:
        return _with_empty_cells(self.error.empty.shift, published, cells)

    @cached_property
    def _published(self) -> Floats:
        if self.counted is not None:
            return self.counted[1][:, None, None]
        return _published_sums(self.design, self.schema, self.query, self.engine)

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


def _with_empty_cells(shift: float, published: Floats, cells: Floats | float) -> Floats:
    """Return the sums over `published` cells, with the estimated rows on top and the sums over all
    `cells` of the condition below. A cell that is not published stands for -`shift` rows.
    """
    weight, seen, shown, times, *others = published
    value = weight - shift * (cells - times)
    return np.array([value, seen, shown, times, *others, cells])


def _published_sums(design: Sparse, schema: Schema, query: Query | None, engine: Sandbox) -> Floats:
    """Return sums over the published cells of a question, or over all of them.

    The axes are: the weight and the other sums of `Spread`; the power 0, 1 or 2 of the amount that
    each is multiplied by; and the groups of the question.
    """
    groups = query.groups if query else ()
    amount = query.argument.sql if query and query.argument else None
    terms = _terms(design)
    factors = ("1", AMOUNT, f"{AMOUNT} * {AMOUNT}") if amount else ("1",)
    sums = [f"sum({term} * {factor})" for term in terms for factor in factors]
    filters = [clause.sql for clause in query.clauses] if query else []
    columns = [quoted(name) for name in groups]
    table = aggregated(engine, columns, sums, filters, amount=amount)
    sizes = [schema[name].size for name in groups]
    codes = [
        known_codes(schema[name], table[f"c{i}"]).astype(np.intp) for i, name in enumerate(groups)
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
        each,
        "1e0",
        f"{weight} / {each}",
        f"CASE WHEN abs({each}) < {tau!r} THEN ({each} + {shift!r})**2 * {odds} ELSE 0 END",
        f"CASE WHEN abs({each}) < {tau!r} THEN 0 ELSE 1 END",
        f"CASE WHEN {each} < {close!r} THEN {weight} ELSE 0 END",
    )


# Plain counts of many questions, from the published cells in memory.

Counted = tuple[int, Floats]  # the cells of the domain, and the sums over published ones

_MOST_PUBLISHED = 1 << 21  # cells in memory
_MOST_COMBINATIONS = 1 << 16  # of values of the attributes of a clause


def counted_together(
    design: Sparse, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, Counted]:
    """Return what is counted for plain counts with small clauses, by place in `queries`."""
    plain = {
        place: queries[place]
        for some in same_shape(queries).values()
        for place in some
        if all(
            schema.size(each.attributes) <= _MOST_COMBINATIONS for each in queries[place].clauses
        )
    }
    if not plain:
        return {}
    if "published cells" not in engine.derived:
        engine.derived["published cells"] = PublishedCells(design, schema, engine)
    cells: PublishedCells = engine.derived["published cells"]
    asked, clauses = list(plain.values()), Clauses(schema, plain.values(), engine)
    possible = _possible(schema, asked, clauses, engine)
    return dict(zip(plain, zip(possible, cells.sums(asked, clauses), strict=True), strict=True))


def _possible(
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
        names, terms = [each.name for each in schema.published], _terms(design)
        listed = [*map(quoted, names), *terms]
        columns = ", ".join(f"{each} AS c{place}" for place, each in enumerate(listed))
        table = engine.rows(f"SELECT {columns} FROM view")
        self._schema = schema
        self._codes = {
            name: known_codes(schema[name], table[f"c{place}"]).astype(np.int32)
            for place, name in enumerate(names)
        }
        self._terms = np.stack([floats(each) for each in table.columns[len(names) :]])

    def sums(self, queries: Sequence[Query], clauses: Clauses) -> Floats:
        """Return the sums of the terms over the published cells of each question."""
        from scumble.public.estimation import kernels

        rows: dict[tuple[str, ...], int] = {}
        begins: dict[Expression, int] = {}
        places: list[npt.NDArray[np.int32]] = []
        truths, end = [], 0
        for clause in (clause for query in queries for clause in query.clauses):
            if clause.attributes not in rows:
                rows[clause.attributes] = len(places)
                places.append(self._places(clause.attributes))
            if clause not in begins:
                truths.append(clauses.along(clause, clause.attributes).reshape(-1))
                begins[clause], end = end, end + len(truths[-1])
        listed = [(rows[c.attributes], begins[c]) for query in queries for c in query.clauses]
        starts = np.cumsum([0, *(len(query.clauses) for query in queries)])
        out = np.zeros((len(queries), len(self._terms)))
        kernels.clause_sums(
            np.stack(places), self._terms, np.concatenate(truths), np.array(listed), starts, out
        )
        return out

    def _places(self, names: tuple[str, ...]) -> npt.NDArray[np.int32]:
        """Return the place of each cell among the combinations of values of some attributes."""
        found = np.zeros(self._terms.shape[1], np.int32)
        for name in names:
            found = found * np.int32(self._schema[name].size) + self._codes[name]
        return found
