"""Plain counts of many questions at once: one pass over the published tuples counts for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import cast

import numpy as np

from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimation.clauses import Clauses
from scumble.public.estimation.conjunctions import BoxSums, Sides, alike
from scumble.public.estimation.rows.row_cubes import RowCubes
from scumble.public.estimation.tables import Cube, in_rounds
from scumble.public.sandbox import Engine

Counted = tuple[int, int]  # tuples of the domain, and published ones, that satisfy a question


def counted(schema: Schema, queries: Sequence[Query], engine: Engine) -> dict[int, Counted]:
    """Both counts of every plain count over few attributes, by its place."""
    names: dict[int, frozenset[str]] = {}
    for places in alike(queries).values():
        names |= dict.fromkeys(places, frozenset(queries[places[0]].attributes))
    rows = RowCubes(cast(Path, engine.view), schema)  # the engine of a release has a view
    found: dict[int, Counted] = {}
    for sets, cubes, clauses in in_rounds(schema, queries, names, engine, rows.count):
        for each in sets:
            places = [place for place, named in names.items() if named == each]
            both = Counts(schema, each, cubes.of(each), clauses).of([queries[p] for p in places])
            found |= dict(zip(places, both, strict=True))
    return found


class Counts:
    """Counts of questions about the same attributes."""

    def __init__(
        self, schema: Schema, names: frozenset[str], table: Cube, clauses: Clauses
    ) -> None:
        self._schema, self._table, self._clauses = schema, table, clauses
        self._order = [name for name in schema.names if name in names]
        rest = [each.name for each in schema.published if each.name not in names]
        self._others = schema.size(rest)

    def of(self, queries: Sequence[Query]) -> Iterator[Counted]:
        sides = Sides(self._schema, self._clauses)
        found = [sides.of(query, self._order) for query in queries]
        sums = BoxSums(self._table, self._table.ndim).of([each for each in found if each])
        shown = iter(sums.tolist())
        for query, each in zip(queries, found, strict=True):
            if each:
                yield prod(side.size for side in each) * self._others, next(shown)
            else:
                yield self._alone(query)

    def _alone(self, query: Query) -> Counted:
        """Of a question with conditions on several attributes: every cell is looked at."""
        holds = np.ones(self._table.shape, bool)
        for clause in query.clauses:
            holds &= self._clauses.along(clause, self._order)
        return int(holds.sum()) * self._others, int(self._table[holds].sum())
