"""Conditions inside of aggregates, lifted out: `SUM(CASE WHEN c THEN x ELSE 0 END)` is the sum of x
WHERE c, `COUNT(CASE WHEN c THEN x END)` counts the rows WHERE c AND x IS NOT NULL. So they are read
as a condition after WHERE is, and make the same boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scumble.model.query import Expression, Query
from scumble.public.sql.conditions import conditional, inner_conditional, known, known_by


def counted(query: Query) -> Query:
    """Return the count of the rows of a question, without its argument."""
    clauses = (part for clause in query.clauses for part in _counted(clause))
    return replace(query, aggregate="count", argument=None, clauses=tuple(dict.fromkeys(clauses)))


def _counted(clause: Expression) -> Iterator[Expression]:
    """Yield the clauses that a clause is made of, if it says that a CASE is not NULL."""
    value = known_by(clause)
    found = None if value is None else conditional(value)
    if found is None or found.zero:
        yield clause
        return
    yield from found.clauses
    yield from _counted(known(found.value))


def summed(query: Query) -> tuple[Query, bool]:
    """Return the sum of a question with an argument, and whether other rows count as 0 in it.

    Rows where the argument is NULL add nothing, whether they are counted or not.
    """
    zeros = False
    argument, clauses = query.argument, list(query.clauses)
    assert argument is not None  # noqa: S101  (a sum has one)
    while (found := inner_conditional(argument)) is not None:
        case, inner = found
        needless = (known(argument), known(case))  # NULL adds nothing
        clauses = [clause for clause in clauses if clause not in needless]
        argument, zeros = inner.value, zeros or inner.zero
        clauses += [*inner.clauses, known(argument)]
    unique = dict.fromkeys(part for clause in clauses for part in _counted(clause))
    return replace(query, aggregate="sum", argument=argument, clauses=tuple(unique)), zeros
