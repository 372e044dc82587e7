"""Boxes of codes as questions: conditions are written once and understood once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.private.database.space import Space
from scumble.public.sql.normal_form import spelled
from scumble.public.sql.parse import parse

Interval = tuple[int, int]  # codes, both ends included

_COUNT = "SELECT COUNT(*) FROM t"


class Phrases:
    """Counts over the attributes of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[tuple[str, Interval], tuple[tuple[Expression, ...], str]] = {}

    def count(self, box: Mapping[str, Interval], groups: Sequence[str] = ()) -> Query:
        """How many rows have a code in every interval, attributes in the order of the schema; for
        each of some groups, if any.
        """
        parts = [self._part(name, box[name]) for name in self._schema.names if name in box]
        clauses = tuple(clause for part, _ in parts for clause in part)
        words = " AND ".join(text for _, text in parts if text)
        text = f"{_COUNT} WHERE {words}" if words else _COUNT
        if groups:
            names = ", ".join(map(spelled, groups))
            text = f"SELECT {names}, {text.removeprefix('SELECT ')} GROUP BY {names}"
        return Query("count", clauses=clauses, groups=tuple(groups), text=text)

    def _part(self, name: str, interval: Interval) -> tuple[tuple[Expression, ...], str]:
        key = name, interval
        if key not in self._known:
            text = Space(self._schema, [name]).sql(np.array([interval], np.int64))
            if text == "TRUE":  # the whole domain is no condition
                self._known[key] = (), ""
            else:
                query = parse(f"{_COUNT} WHERE {text}", self._schema)
                self._known[key] = query.clauses, text
        return self._known[key]
