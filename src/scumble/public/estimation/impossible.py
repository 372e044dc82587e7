"""Questions about combinations of values that no row can have: their answers are exactly 0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from scumble.model.errors import QueryError
from scumble.model.query import Expression, Query
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.domain_counting import domain_of
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import parse

Key = tuple[Any, ...]
Rows = Iterable[tuple[Key, Estimate]]

IMPOSSIBLE = "no row can have these values, by the schema"
_NO_ROWS = "average of no rows"
_KEPT = "possible clauses"  # in `Sandbox.derived`


def possible_clauses(engine: Sandbox) -> tuple[Expression, ...]:
    """Return a clause for each impossible condition of the schema: that it does not hold."""
    if not engine.schema.impossible:
        return ()
    if _KEPT not in engine.derived:
        texts = [f"({text}) IS NOT TRUE" for text in engine.schema.impossible]
        query = parse(f"SELECT COUNT(*) FROM t WHERE {' AND '.join(texts)}", engine.schema)
        engine.derived[_KEPT] = query.clauses
    clauses: tuple[Expression, ...] = engine.derived[_KEPT]
    return clauses


def only_possible(query: Query, engine: Sandbox) -> Query:
    """Return a question about the cells that rows can be in, which has the same true answer."""
    clauses = possible_clauses(engine)
    return replace(query, clauses=(*query.clauses, *clauses)) if clauses else query


def without_amounts(query: Query, engine: Sandbox) -> Query:
    """Return a sum or an average whose amount is 0 in all rows that there can be as that of 0."""
    argument = query.argument
    if argument is None:
        return query
    near = _near(argument.attributes, possible_clauses(engine))
    if not near:
        return query
    try:
        limits = domain_of(engine).limits(argument, (*query.clauses, *near))
    except QueryError:  # too much to count: answered as if some row could have the values
        return query
    return replace(query, argument=Expression("0", ())) if limits == (0, 0) else query


def with_zeros(
    query: Query, rows: Rows, never: Mapping[Key, None]
) -> Iterator[tuple[Key, Estimate]]:
    """Yield the answer to a question, exactly 0 for the groups `never`, which no row can be in."""
    for key, estimate in rows:
        if key not in never:
            yield key, estimate
    for key in never:
        yield key, _nothing(query)


def impossible_groups(query: Query, engine: Sandbox) -> dict[Key, None]:
    """Return the keys of the groups of a question that no row can be in, though its own clauses
    allow them.
    """
    near = _near(query.attributes, possible_clauses(engine))
    if not near:
        return {}
    domain = domain_of(engine)
    try:
        asked = domain.count(query.clauses, query.groups)
        possible = domain.count((*query.clauses, *near), query.groups)
    except QueryError:  # too much to count: answered as if some row could have the values
        return {}
    never = np.flatnonzero((asked.reshape(-1) > 0) & (possible.reshape(-1) == 0)).tolist()
    if not query.groups:
        return dict.fromkeys([()] * len(never))
    return dict.fromkeys(engine.schema.cell_values(query.groups, never))


def _near(names: Iterable[str], clauses: tuple[Expression, ...]) -> list[Expression]:
    """Return the clauses that name one of the attributes, or one of such a clause, and so on."""
    known, found, left = {*names}, list[Expression](), list(clauses)
    while near := [clause for clause in left if not known.isdisjoint(clause.attributes)]:
        found += near
        left = [clause for clause in left if clause not in near]
        known.update(name for clause in near for name in clause.attributes)
    return found


def _nothing(query: Query) -> Estimate:
    if query.aggregate == "mean":
        return Estimate(math.nan, Unknown(), _NO_ROWS, (*query.notes, IMPOSSIBLE))
    return Estimate(0.0, Exact(), IMPOSSIBLE, query.notes)
