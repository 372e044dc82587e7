"""NULL, as SQL has it: the sum of no rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from scumble.model.query import Query
from scumble.public.estimate import Estimate, Exact, Unknown

Rows = Iterable[tuple[tuple[Any, ...], Estimate]]
NO_ROWS = "sum of no rows"


def null_sums(query: Query, rows: Rows, ask: Callable[[Query], Rows]) -> Iterator[Any]:
    """Yield the answers to a question; a sum over rows of which there are certainly none is NULL.

    `ask` answers the count of the rows, and is called for a sum that is exactly 0.
    """
    for key, estimate in rows:
        zero = isinstance(estimate.law, Exact) and estimate.value == 0
        if query.aggregate == "sum" and not query.groups and zero:
            [(_, count)] = ask(replace(query, aggregate="count", argument=None))
            if isinstance(count.law, Exact) and not count.value:
                estimate = replace(estimate, value=math.nan, law=Unknown(), method=NO_ROWS)
        yield key, estimate
