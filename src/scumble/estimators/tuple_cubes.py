"""Plain counts of many questions at once: one pass over the published tuples counts for all."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from pathlib import Path
from typing import cast

import numpy as np

from scumble.engine.duckdb import Engine
from scumble.estimators.clauses import Clauses
from scumble.estimators.cubes import Cube, Cubes, affordable
from scumble.query import Query
from scumble.schema import Schema

Counted = tuple[int, int]  # tuples of the domain, and published ones, that satisfy a question


def counted(schema: Schema, queries: Sequence[Query], engine: Engine) -> list[Counted | None]:
    """For every question that is a plain count over few attributes, both counts."""
    names = [frozenset(query.attributes) if _plain(query) else None for query in queries]
    sets = affordable(schema, names)
    together = [some in sets for some in names]
    file = cast(Path, engine.view)  # the engine of a release has one
    with ThreadPoolExecutor(1) as pool:  # the tuples are counted while the clauses are evaluated
        counting = pool.submit(Cubes, file, schema, sets)
        clauses = Clauses(schema, compress(queries, together), engine)
        cubes = counting.result()
    return [
        _selected(cubes.of(some), clauses, query, schema) if some in sets and some else None
        for query, some in zip(queries, names, strict=True)
    ]


def _plain(query: Query) -> bool:
    return query.aggregate == "count" and not query.groups and bool(query.attributes)


def _selected(cube: Cube, clauses: Clauses, query: Query, schema: Schema) -> Counted:
    """What clauses on one attribute leave is cut out; in that block the others must hold."""
    order = [name for name in schema.names if name in query.attributes]
    places = []
    for name in order:
        alone = [clauses.along(c, [name]) for c in query.clauses if c.attributes == (name,)]
        every = np.ones(schema[name].size, bool)
        places.append(np.flatnonzero(np.logical_and.reduce([every, *alone])))
    block = np.ix_(*places)
    holds = np.ones([len(each) for each in places], bool)
    for clause in query.clauses:
        if len(clause.attributes) != 1:
            holds = holds & np.broadcast_to(clauses.along(clause, order), cube.shape)[block]
    others = schema.size([a.name for a in schema.published if a.name not in order])
    return int(holds.sum()) * others, int(cube[block][holds].sum())
