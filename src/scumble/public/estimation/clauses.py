"""The truth of many clauses over the domains of their attributes, each evaluated once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.public import cells
from scumble.public.sandbox import Engine

Truth = npt.NDArray[np.bool_]

_MOST_TRUTHS = 1 << 27  # of all clauses that are evaluated together


class Clauses:
    """All clauses of a workload; those on the same attributes are evaluated in one go."""

    def __init__(self, schema: Schema, queries: Iterable[Query], engine: Engine) -> None:
        self._schema = schema
        asked = list(queries)
        together: dict[tuple[str, ...], dict[Expression, None]] = {}
        for query in asked:
            for clause in query.clauses:
                together.setdefault(clause.attributes, {})[clause] = None
        self._truth: dict[Expression, Truth] = {}
        try:
            for names, clauses in together.items():
                found = engine.holds(list(clauses), names)
                shape = [schema[name].size for name in names]
                self._truth.update(
                    (clause, truth.reshape(shape))
                    for clause, truth in zip(clauses, found, strict=True)
                )
        except QueryError:
            for query in asked:  # find the question that is wrong, and show where
                engine.check(query)
            raise

    def along(self, clause: Expression, order: Sequence[str]) -> Truth:
        """The truth of a clause as a tensor that broadcasts over axes in this order."""
        places = [order.index(name) for name in clause.attributes]
        shape = [1] * len(order)
        for name, place in zip(clause.attributes, places, strict=True):
            shape[place] = self._schema[name].size
        return self._truth[clause].transpose(np.argsort(places)).reshape(shape)


def portions(schema: Schema, queries: Iterable[Query]) -> Iterator[list[Query]]:
    """The questions in their order, so many at a time that the truth of all their clauses fits in
    memory: a thousand ranges of an attribute with a million values have a billion of them.
    """
    some: list[Query] = []
    known: set[Expression] = set()
    truths = 0
    for query in queries:
        new = [clause for clause in query.clauses if clause not in known]
        more = _truths(schema, new)
        if some and truths + more > _MOST_TRUTHS:
            yield some
            some, known, truths = [], set(), 0
            new, more = list(query.clauses), _truths(schema, query.clauses)
        some.append(query)
        known.update(new)
        truths += more
    if some:
        yield some


def _truths(schema: Schema, clauses: Iterable[Expression]) -> int:
    """How many there are; of clauses that are too large none, since these are never evaluated."""
    sizes = (schema.size(clause.attributes) for clause in clauses)
    return sum(size for size in sizes if size <= cells.LIMIT)
