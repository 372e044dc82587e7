"""Published tuples counted by group, and by what else the probability of a tuple depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimation.rows.tally import Floats, floats
from scumble.public.sandbox import Engine


@dataclass(frozen=True)
class Seen:
    """Lines of published tuples that satisfy a question: their group, how many there are, and the
    sum of the amounts and of their squares (`powers`, one row each); `column` holds the codes of
    further columns by name.
    """

    groups: int
    group: npt.NDArray[np.intp]
    powers: Floats
    column: dict[str, npt.NDArray[Any]]

    def sums(self, weight: npt.NDArray[Any] | None = None) -> Floats:
        """The three sums of each group, every line multiplied by its weight."""
        weighted = self.powers if weight is None else self.powers * weight
        return np.array([np.bincount(self.group, row, self.groups) for row in weighted])


def seen(
    schema: Schema, query: Query, engine: Engine, by: Sequence[str] = (), views: str | None = None
) -> Seen:
    """One pass over the published tuples, by the groups of the question, by the attributes `by`,
    and by the column `views`, which is of plain numbers.
    """
    sizes = [schema[name].size for name in query.groups]
    names = list(dict.fromkeys([*query.groups, *by]))
    columns = [quoted(name) for name in (*names, *([views] if views else []))]
    amount = f"CAST({query.argument.sql} AS DOUBLE)" if query.argument else None
    sums = ["count(*)", *([f"sum({amount})", f"sum({amount} * {amount})"] if amount else [])]
    listed = ", ".join(f"{column} AS c{place}" for place, column in enumerate(columns + sums))
    where = " AND ".join(f"({clause.sql})" for clause in query.clauses)
    grouping = f" GROUP BY {', '.join(columns)}" if columns else ""
    table = engine.rows(f"SELECT {listed} FROM view{' WHERE ' + where if where else ''}{grouping}")
    codes = {name: schema[name].encode(table[f"c{i}"])[0] for i, name in enumerate(names)}
    if views:
        codes[views] = table[f"c{len(names)}"].to_numpy()
    count, *amounts = (floats(table[f"c{len(columns) + place}"]) for place in range(len(sums)))
    powers = np.array([count, *(amounts or [count, count])])
    group = np.zeros(table.num_rows, np.intp)
    if query.groups:
        places = [codes[name].astype(np.intp) for name in query.groups]
        group = np.ravel_multi_index(places, sizes)
    return Seen(prod(sizes), group, powers, codes)
