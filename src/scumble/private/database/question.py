"""SQL to boxes: for each group of a question, its disjoint boxes and what is added up over them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.cache import Cache
from scumble.model.errors import LedgerError, QueryError
from scumble.model.query import Query
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.private.database.conditions import boxes_of, plain_boxes
from scumble.private.database.space import Boxes, Space
from scumble.private.database.state import COUNT
from scumble.public.estimation.cut_bins import cut_query
from scumble.public.sandbox import Sandbox
from scumble.public.sql.templates import ParsedQuestion, TemplateParser

MOST_GROUPS = MOST_BOXES = 10_000
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Amounts:
    """What one row adds to a sum, by its code of the attribute `axis`.

    The noise of every sum has λ times the largest amount of any value of the attribute, whatever
    the box. A row at a point that the box covers can change the sum by that much, any other row not
    at all. So a sum costs each of its points as much as a count, and sums over several boxes have
    noise of one scale.
    """

    axis: int
    values: Integers

    @property
    def largest(self) -> int:
        """The largest change of the sum by one row."""
        return int(np.abs(self.values).max(initial=0))


@dataclass(frozen=True)
class Group:
    """The values of the grouping attributes, and the boxes of the group."""

    key: tuple[Any, ...]
    boxes: Boxes


@dataclass(frozen=True)
class Question:
    """A question in terms of boxes.

    `kinds` are the numbers that are needed for each box: a count, a sum, or both for an average.
    """

    query: Query
    groups: tuple[Group, ...]
    kinds: tuple[str, ...]
    amounts: Amounts | None


def groups_of(query: Query, boxes: Boxes, space: Space) -> Iterator[Group]:
    """Yield each combination of grouping values in the boxes, with its part of the boxes."""
    axes = [space.names.index(name) for name in query.groups]
    codes = [_codes(boxes[:, axis]) for axis in axes]
    if prod(map(len, codes)) > MOST_GROUPS:
        raise QueryError(
            f"GROUP BY {', '.join(query.groups)} would make more than {MOST_GROUPS} groups. Ask "
            "for fewer by WHERE, or group by fewer columns."
        )
    labels = [_labels(space.attributes[axis], of) for axis, of in zip(axes, codes, strict=True)]
    count = 0
    for values, key in zip(product(*codes), product(*labels), strict=True):
        part = boxes
        for axis, code in zip(axes, values, strict=True):
            part = part[(part[:, axis, 0] <= code) & (code <= part[:, axis, 1])].copy()
            part[:, axis] = code
        count += len(part)
        if count > MOST_BOXES:
            raise QueryError(
                f"The groups take more than {MOST_BOXES} separate boxes. Ask for ranges that are "
                "not interrupted, or for fewer groups."
            )
        if len(part) or not axes:
            yield Group(key, part)


def _codes(intervals: Integers) -> list[int]:
    """The codes in some intervals, in order; at most `MOST_GROUPS` + 1 of each interval."""
    few = [range(low, min(high, low + MOST_GROUPS) + 1) for low, high in intervals.tolist()]
    return sorted({code for codes in few for code in codes})


def _labels(attribute: Attribute, codes: list[int]) -> list[Any]:
    found: list[Any] = attribute.decode(np.array(codes, attribute.code_type)).to_pylist()
    return found


def amounts_of(query: Query, space: Space, engine: Sandbox) -> Amounts:
    """Return the amounts of a sum or average over one attribute; they must be whole numbers."""
    argument = query.argument
    if argument is None or len(argument.attributes) != 1:
        raise QueryError("A sum or average is over an expression of exactly one column.")
    [name] = argument.attributes
    [values] = engine.evaluate([argument], [name])
    numbers = np.asarray(values, np.float64)
    if not (np.isfinite(numbers) & (np.abs(numbers) < 2**52) & (numbers == np.rint(numbers))).all():
        raise QueryError(
            f"{argument.sql} is not a whole number for every value of {name}. Write "
            "CAST(ROUND(...) AS INTEGER), in units small enough."
        )
    amounts = Amounts(space.names.index(name), numbers.astype(np.int64))
    if not amounts.largest:
        raise QueryError(f"{argument.sql} is 0 for every value of {name}.")
    return amounts


_MOST_CACHED = 256  # questions, and expressions that are added up


class QuestionReader:
    """Reads SQL as boxes and amounts, from any thread; results are cached.

    The engine is opened for the first question that needs it. Plain comparisons do not.
    """

    def __init__(self, schema: Schema, space: Space) -> None:
        self.schema, self.space = schema, space
        self._lock = threading.Lock()
        self._engine: Sandbox | None = None
        self._closed = False
        self._parser = TemplateParser(schema)
        self._sums = Cache[str, Amounts](_MOST_CACHED)
        self._cached = lru_cache(maxsize=_MOST_CACHED)(self._read)

    def read(self, sql: str) -> Question:
        """Return the boxes and amounts of a question; raises `QueryError` if it has none."""
        if self._closed:
            raise _closed()
        return self._cached(sql)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def _read(self, sql: str) -> Question:
        parsed = self._parser.parse(sql)
        query = parsed.query
        self._refuse_cut_bins(query)
        groups = tuple(groups_of(query, self._boxes(parsed), self.space))
        if query.aggregate == "count" or query.argument is None:
            return Question(query, groups, (COUNT,), None)
        summed = f"sum {query.argument.sql}"
        kinds = (summed,) if query.aggregate == "sum" else (summed, COUNT)
        return Question(query, groups, kinds, self._amounts(query, query.argument.sql))

    def _refuse_cut_bins(self, query: Query) -> None:
        """Raise `QueryError` if the answer depends on where in a bin or period rows are.

        A database counts whole bins, and no interval of the noise would hold the rest.
        """
        used = {name for part in query.expressions for name in part.attributes}
        coarse = [name for name in self.schema.names if name in used and self.schema[name].coarse]
        if not coarse:
            return
        engine = self._opened()
        engine.check(query)
        if cut_query(query, engine) is not None:
            names = " and ".join(f"'{name}'" for name in coarse)
            raise QueryError(
                f"The question needs to know where in a bin or period of {names} people are, and "
                "the database has whole bins only. Compare with the edges of bins (first days of "
                "periods), by >= and <, or group by the column."
            )

    def _boxes(self, parsed: ParsedQuestion) -> Boxes:
        boxes = plain_boxes(parsed.comparisons, self.space, MOST_BOXES)
        if boxes is None:
            engine = self._opened()
            engine.check(parsed.query)
            boxes = boxes_of(parsed.query.clauses, self.space, engine, MOST_BOXES)
        return boxes

    def _amounts(self, query: Query, argument: str) -> Amounts:
        """Return the amounts of an expression, evaluated once."""

        def make() -> Amounts:
            engine = self._opened()
            engine.check(query)
            return amounts_of(query, self.space, engine)

        return self._sums.get_or_make(argument, 1, make)

    def _opened(self) -> Sandbox:
        with self._lock:
            if self._closed:
                raise _closed()
            if self._engine is None:
                self._engine = Sandbox(self.schema)
            return self._engine


def _closed() -> LedgerError:
    return LedgerError("This database was closed. Open it again.")
