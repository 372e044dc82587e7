"""What questions mean to a database: the boxes and amounts of each, which are remembered."""

from __future__ import annotations

import threading
from functools import lru_cache

from scumble.model.errors import LedgerError
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.private.database.comparing import compared
from scumble.private.database.conditions import boxes_of
from scumble.private.database.given import COUNT
from scumble.private.database.question import MOST_BOXES, Amounts, Asked, amounts_of, groups_of
from scumble.private.database.shapes import Shapes
from scumble.private.database.space import Boxes, Space
from scumble.public.sandbox import Engine

_REMEMBERED = 256  # questions, and sums


class Meaning:
    """Reads questions, from any thread. An engine is opened for the first one that takes it: plain
    comparisons do not.
    """

    def __init__(self, schema: Schema, space: Space) -> None:
        self.schema, self.space = schema, space
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._closed = False
        self._shapes = Shapes(schema)
        self._sums: dict[str, Amounts] = {}
        # The same question, asked or tried again, means the same.
        self._known = lru_cache(maxsize=_REMEMBERED)(self._read)

    def of(self, sql: str) -> Asked:
        """The boxes and amounts of a question; a sentence where it cannot be put so."""
        if self._closed:
            raise _closed()
        return self._known(sql)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def _read(self, sql: str) -> Asked:
        query = self._shapes.read(sql)
        groups = tuple(groups_of(query, self._boxes(query), self.space))
        if query.aggregate == "count" or query.argument is None:
            return Asked(query, groups, (COUNT,), None)
        summed = f"sum {query.argument.sql}"
        kinds = (summed,) if query.aggregate == "sum" else (summed, COUNT)
        return Asked(query, groups, kinds, self._amounts(query, query.argument.sql))

    def _boxes(self, query: Query) -> Boxes:
        boxes = compared(query.clauses, self.space, MOST_BOXES)
        if boxes is None:
            engine = self._opened()
            engine.check(query)
            boxes = boxes_of(query.clauses, self.space, engine, MOST_BOXES)
        return boxes

    def _amounts(self, query: Query, argument: str) -> Amounts:
        """What is added up, found out once for each expression."""
        found = self._sums.get(argument)
        if found is None:
            engine = self._opened()
            engine.check(query)
            found = amounts_of(query, self.space, engine)
            if len(self._sums) >= _REMEMBERED:
                self._sums.clear()
            self._sums[argument] = found
        return found

    def _opened(self) -> Engine:
        with self._lock:
            if self._closed:
                raise _closed()
            if self._engine is None:
                self._engine = Engine(self.schema)
            return self._engine


def _closed() -> LedgerError:
    return LedgerError("This database was closed. Open it again.")
