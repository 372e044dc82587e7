"""Which questions a comparison asks: the owner's, or those of a generator by its name."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np

from scumble.attribute import Attribute
from scumble.errors import ParameterError
from scumble.evaluate import workloads
from scumble.evaluate.workloads import Workload
from scumble.evaluate.workloads_truth import TrueTable

KINDS = ("conjunctions", "selections", "marginals", "ranges", "prefixes:COLUMN", "intervals:COLUMN")
_GROUPS = 200  # values of the sensitive attributes for which every question is asked
_FLOOR = 0.02  # of the rows
_VOLUME = 0.1


def questions(given: str, table: TrueTable, count: int, seed: int) -> Workload:
    """A file of SQL, or a generator with so many questions."""
    schema = table.schema
    kind, _, column = given.partition(":")
    if kind == "conjunctions":
        return _conjunctions(table, count, seed)
    if kind == "selections":
        return workloads.selections(schema, most=count, seed=seed)
    if kind == "marginals":
        return workloads.marginals(schema, most=count, seed=seed)
    if kind == "ranges":
        names = [each.name for each in schema.published if each.size > 2]
        return workloads.ranges(schema, volume=_VOLUME, count=count, attributes=names, seed=seed)
    if kind == "prefixes" and column:
        return workloads.prefixes(schema, column)
    if kind == "intervals" and column:
        return workloads.intervals(schema, column, count=count, seed=seed)
    if not Path(given).is_file():
        allowed = f"a file of SQL, or one of {', '.join(KINDS)}"
        raise ParameterError.of("compare", "workload", allowed, given)
    return workloads.from_sql(given, schema)


def _conjunctions(table: TrueTable, count: int, seed: int) -> Workload:
    """Conjunctions of one or two other attributes that many rows satisfy, each asked for every
    sensitive value at once.
    """
    schema = table.schema
    groups = _grouped(schema.sensitive)
    others = [each.name for each in schema.published if each not in schema.sensitive]
    if not others:
        return workloads.marginals(schema, ways=1)
    every = workloads.selections(schema, others, ways=2, most=max(100 * count, 1000), seed=seed)
    large = np.flatnonzero(table.counts(every.queries) >= _FLOOR * table.rows)
    order = np.random.default_rng(seed).permutation(large)[:count]
    if not len(order):
        raise ParameterError("No conjunction selects enough rows; give questions in a file.")
    asked = tuple(
        replace(
            every.queries[place],
            groups=groups,
            text=f"SELECT {', '.join(groups)}, COUNT(*) "
            f"{every.queries[place].text.removeprefix('SELECT COUNT(*) ')} "
            f"GROUP BY {', '.join(groups)}",
        )
        for place in order
    )
    words = f"conjunctions of one or two attributes, by {' and '.join(groups)}"
    return Workload(words, asked)


def _grouped(sensitive: tuple[Attribute, ...]) -> tuple[str, ...]:
    """As many sensitive attributes as have few combinations; the first in any case."""
    chosen = list(sensitive[:1])
    for attribute in sensitive[1:]:
        if prod(each.size for each in (*chosen, attribute)) <= _GROUPS:
            chosen.append(attribute)
    return tuple(each.name for each in chosen)
