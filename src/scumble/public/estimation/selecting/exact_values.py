"""MIN, MAX and COUNT(DISTINCT x): exact where counts are exact, refused elsewhere.

One row decides these numbers, so that no estimate from perturbed or noisy values is of use. Where
the columns of a question are published unperturbed, the counts by value are exact, and so are they.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyarrow import types

from scumble.model.errors import QueryError
from scumble.model.query import Query
from scumble.model.schema.domains import Bins, Dates
from scumble.public.estimate import Estimate, Exact
from scumble.public.estimation.selecting.groups import KeyValues, nothing
from scumble.public.sql.aggregates import Term
from scumble.public.sql.select_plan import value_clause

if TYPE_CHECKING:
    from scumble.public.estimation.selecting.selection import Selection

_WORDS = {"min": "MIN", "max": "MAX", "distinct": "COUNT(DISTINCT ...)"}
_MOST = 10_000
METHOD = "exact: these columns are published unperturbed"


def exact_values(selection: Selection, term: Term) -> dict[KeyValues, Estimate]:
    """Return the number for each group; raises `QueryError` where counts are not exact."""
    values, counts = _counts(selection, term)
    found: dict[KeyValues, Estimate] = {}
    notes = tuple(dict.fromkeys((*selection.plan.notes, *term.notes)))
    for key in selection.keys:
        present = []
        for value, answer in zip(values, counts, strict=True):
            estimate = answer.get(key)
            if estimate is not None and not isinstance(estimate.law, Exact):
                raise refused(term)
            if estimate is not None and estimate.value > 0:
                present.append(value)
        found[key] = _estimate(term, present, notes)
    return found


def _counts(
    selection: Selection, term: Term
) -> tuple[list[object], list[dict[KeyValues, Estimate]]]:
    """Return the values of the argument on the domain, and the counts of each."""
    argument, schema = term.argument, selection.groups.schema
    assert argument is not None  # noqa: S101  (the parser saw to it)
    for name in argument.attributes:
        domain = schema[name].domain
        if isinstance(domain, Bins) or (isinstance(domain, Dates) and domain.by != "day"):
            raise QueryError(f"'{name}' is published in bins: {_WORDS[term.kind]} is not known.")
    clauses = tuple(dict.fromkeys((*selection.plan.clauses, *term.clauses)))
    names = [name for name in schema.names if name in argument.attributes]
    within = [each for each in clauses if set(each.attributes) <= set(names)]
    table = selection.sandbox.distinct([argument], names, within, _MOST)
    kind = table.column(0).type
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if term.kind != "distinct" and not number:
        raise QueryError(f"{_WORDS[term.kind]} is supported for numbers. This is of type {kind}.")
    if not table.num_rows:
        return [], []
    [sql_type] = selection.sandbox.sql_types(table)
    values = [value for value in table.column(0).to_pylist() if value is not None]
    text = selection.plan.text
    queries = [
        Query("count", None, (*clauses, value_clause(argument, value, sql_type)), text=text)
        for value in values
    ]
    first = selection.ask(queries[0]) if queries else {}
    if any(not isinstance(each.law, Exact) for each in first.values()):
        raise refused(term)
    selection.ask_all(queries)
    return values, [selection.ask(query) for query in queries]


def _estimate(term: Term, present: list[object], notes: tuple[str, ...]) -> Estimate:
    if term.kind == "distinct":
        return Estimate(float(len(present)), Exact(), METHOD, notes)
    if not present:
        return nothing(Query("count", notes=notes))
    numbers = [float(value) for value in present]  # type: ignore[arg-type]
    value = min(numbers) if term.kind == "min" else max(numbers)
    return Estimate(value if math.isfinite(value) else math.nan, Exact(), METHOD, notes)


def refused(term: Term) -> QueryError:
    """Return the error for an aggregate that one row decides."""
    if term.kind == "distinct":
        return QueryError(
            "COUNT(DISTINCT ...) is not supported here: whether a value occurs at all is hidden. "
            "Ask for the count of each value by GROUP BY."
        )
    share = "0.01" if term.kind == "min" else "0.99"
    return QueryError(
        f"{_WORDS[term.kind]} is not supported here: one row decides it, and what single rows say "
        f"is hidden. Ask for a quantile, such as QUANTILE_DISC(x, {share})."
    )
