"""True answers to workloads, from the private table as codes in memory; and a synthetic table made
from a schema alone.

Counts whose conditions are about one attribute each are differences of prefix sums of a contingency
table, for all questions about the same attributes at once. All other answers need a pass over the
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.cache import Cache
from scumble.model.errors import QueryError
from scumble.model.long_work import told
from scumble.model.query import Expression, Query
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Boolean, Category
from scumble.model.schema.schema import Schema
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Outside, Rows
from scumble.public.estimation.tables import Clauses, CodeSets, PrefixSums, portions, same_shape
from scumble.public.sandbox import Sandbox

Codes = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

MOST_CELLS = 1 << 25  # of one contingency table
MOST_GROUPS = 100_000  # of one question


class TrueTable:
    """The rows of a private table. Its answers are exact, and no guarantee covers them."""

    def __init__(self, schema: Schema, codes: Mapping[str, Codes], rows: int) -> None:
        self.schema = schema
        self.rows = rows
        self._codes = dict(codes)
        self._engine = Sandbox(schema)
        self._sums = Cache[tuple[str, ...], PrefixSums](MOST_CELLS)

    @classmethod
    def read(
        cls,
        source: Any,
        schema: Schema,
        *,
        table: str | None = None,
        outside: Outside = "error",
        progress: Callable[[int], None] | None = None,
    ) -> TrueTable:
        """Read a source that `publish` would take, in one pass.

        `progress` is called with the number of rows read.
        """
        names = [attribute.name for attribute in schema.published]
        opened = open_source(source, table=table)
        rows = Rows(opened, schema, outside=outside, progress=progress)
        parts: dict[str, list[Codes]] = {name: [] for name in names}
        for columns in rows.batches(names):
            for name, column in zip(names, columns, strict=True):
                parts[name].append(column)
        empty = {name: np.empty(0, schema[name].code_type) for name in names}
        codes = {name: np.concatenate([empty[name], *parts[name]]) for name in names}
        return cls(schema, codes, len(codes[names[0]]) if names else 0)

    def codes(self, name: str) -> Codes:
        """Return the codes of one attribute, row by row."""
        return self._codes[name]

    def distinct(self) -> TrueTable:
        """Return the table without duplicate rows."""
        names = list(self._codes)
        table = np.stack([self._codes[name].astype(np.int64) for name in names])
        kept = np.unique(table, axis=1)
        codes = {name: kept[place] for place, name in enumerate(names)}
        return TrueTable(self.schema, codes, kept.shape[1])

    def cube(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the contingency table of some attributes: how many rows each combination has."""
        shape = [self.schema[name].size for name in names]
        if not names:
            return np.array(self.rows)
        return np.bincount(self._cells(names), minlength=prod(shape)).reshape(shape)

    def counts(self, queries: Sequence[Query]) -> Floats:
        """Return the true counts of questions without groups, in their order."""
        found = [
            self._counts(some, Clauses(self.schema, some, self._engine))
            for some in portions(self.schema, queries)
        ]
        return np.concatenate([np.empty(0), *found])

    def answers(self, queries: Sequence[Query]) -> list[Floats]:
        """Return the true answer of every question: one number, or one for each combination of its
        groups' values in the order of their domains. The average of no rows is NaN.
        """
        portioned = portions(self.schema, queries)
        return [found for some in portioned for found in self._answers(some)]

    def _answers(self, queries: Sequence[Query]) -> list[Floats]:
        clauses = Clauses(self.schema, queries, self._engine)
        plain = [p for p, q in enumerate(queries) if q.aggregate == "count" and not q.groups]
        found: dict[int, Floats] = {}
        counted = self._counts([queries[place] for place in plain], clauses)
        found |= {place: counted[[at]] for at, place in enumerate(plain)}
        return [
            found[place] if place in found else self._by_rows(query, clauses)
            for place, query in enumerate(told(queries))
        ]

    def _counts(self, queries: Sequence[Query], clauses: Clauses) -> Floats:
        """Count by prefix sums where that is possible, and by rows where it is not."""
        found = np.full(len(queries), np.nan)
        sides = CodeSets(self.schema, clauses)
        for places in same_shape(queries).values():
            names = queries[places[0]].attributes
            if self._small(names):
                asked = {place: sides.of(queries[place], names) for place in places}
                boxes = {place: each for place, each in asked.items() if each is not None}
                found[list(boxes)] = self._prefix_sums(names).of(list(boxes.values()))
        for place in np.flatnonzero(np.isnan(found)).tolist():
            found[place] = self._by_rows(queries[place], clauses)[0]
        return found

    def _small(self, names: Sequence[str]) -> bool:
        return prod(self.schema[name].size for name in names) <= MOST_CELLS

    def _prefix_sums(self, names: tuple[str, ...]) -> PrefixSums:
        """Return the prefix sums of a contingency table, which are kept for the next workload."""
        return self._sums.get_or_make(
            names, self.schema.size(names), lambda: PrefixSums(self.cube(names), len(names))
        )

    def _by_rows(self, query: Query, clauses: Clauses) -> Floats:
        """Answer a question by a pass over all rows."""
        cells = prod(self.schema[name].size for name in query.groups)
        if cells > MOST_GROUPS:
            raise QueryError(f"GROUP BY has {cells} groups; {MOST_GROUPS} can be compared.")
        holds = np.ones(self.rows, bool)
        for clause in query.clauses:
            holds &= self._along_rows(clause, clauses.along(clause, clause.attributes))
        group = self._cells(query.groups)[holds] if query.groups else np.zeros(holds.sum(), int)
        if query.argument is None:
            return np.bincount(group, minlength=cells).astype(np.float64)
        amount, known = self._amounts(query)
        sums: Floats = np.bincount(group, amount[holds], cells).astype(np.float64)
        if query.aggregate == "sum":
            return sums
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums / np.bincount(group, known[holds], cells))

    def _amounts(self, query: Query) -> tuple[Floats, Floats]:
        """Return the number that every row adds, and whether it has one (1 or 0)."""
        argument = query.argument
        if argument is None:
            raise TypeError("a count adds ones")
        names = argument.attributes
        own = [each for each in query.clauses if set(each.attributes) <= set(names)]
        there = Expression(f"({argument.sql}) IS NOT NULL", names)
        *_, known, amount = self._engine.evaluate([*own, there, argument], names)
        both = [each.astype(np.float64) for each in (amount, known)]
        amounts, knowns = (self._along_rows(argument, each) for each in both)
        return amounts, knowns

    def _along_rows(self, expression: Expression, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        flat = values.reshape(-1)
        if not expression.attributes:
            return np.repeat(flat, self.rows)
        return np.asarray(flat[self._cells(expression.attributes)])

    def _cells(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the cell of every row in the product of some domains, in row-major order."""
        cells = np.zeros(self.rows, np.int64)
        for name in names:
            cells *= self.schema[name].size
            cells += self._codes[name]
        return cells


# A synthetic table, drawn from the public schema alone.


def stand_in(schema: Schema, rows: int, seed: int = 0) -> TrueTable:
    """Return a table of `rows` rows with independent columns.

    The n-th value of a category has a share proportional to 1/n; ordered attributes have a
    triangular distribution. One value in fifty is missing where values may be missing.
    """
    generator = np.random.default_rng(seed)
    codes = {each.name: _column(each, rows, generator) for each in schema.published}
    return TrueTable(schema, codes, rows)


def _column(attribute: Attribute, rows: int, generator: np.random.Generator) -> Codes:
    known = attribute.size - attribute.missing
    if isinstance(attribute.domain, (Boolean, Category)):
        shares = 1 / np.arange(1, known + 1)
        drawn = generator.choice(known, rows, p=shares / shares.sum())
    else:
        middle = generator.random(rows) + generator.random(rows)
        drawn = np.minimum((middle * known / 2).astype(np.int64), known - 1)
    if attribute.missing:
        drawn = np.where(generator.random(rows) < 0.02, known, drawn)
    return drawn.astype(attribute.code_type)
