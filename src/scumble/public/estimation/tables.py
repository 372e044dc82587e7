"""Predicates over domains, boxes of conjunctions, contingency tables.

Contingency tables of what was published, many at once: few passes over the data count all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.public import sandbox
from scumble.public.sandbox import Sandbox

Cube = npt.NDArray[np.int64]
Names = tuple[str, ...]
Count = Callable[[Sequence[Names]], list[Cube]]

MOST_CELLS = 1 << 25  # of all tables that are made together
# More cells than that for each of its questions, and a table takes longer than asking the engine.
_CELLS_OF_ONE = 1 << 20


def cells(schema: Schema, names: Iterable[str]) -> int:
    """How many cells the table of these attributes has."""
    return prod(schema[name].size for name in names)


def rounds(schema: Schema, asked: Counter[frozenset[str]]) -> Iterator[set[frozenset[str]]]:
    """The sets of attributes whose tables are worth their cells, oftenest asked first, as many at a
    time as fit in memory together.
    """
    chosen: set[frozenset[str]] = set()
    left = MOST_CELLS
    for names, times in asked.most_common():
        size = cells(schema, names)
        if size > min(MOST_CELLS, times * _CELLS_OF_ONE):
            continue
        if size > left:
            yield chosen
            chosen, left = set(), MOST_CELLS
        chosen.add(names)
        left -= size
    if chosen:
        yield chosen


class ContingencyTables:
    """Counts by the asked sets of attributes, which fit in memory together. `count` makes the
    tables of some sets, whose names it gets in the order of the schema.
    """

    def __init__(
        self,
        schema: Schema,
        asked: set[frozenset[str]],
        count: Count,
    ) -> None:
        sets = sorted(asked, key=sorted)
        ordered = [tuple(name for name in schema.names if name in names) for names in sets]
        self._tables = dict(zip(sets, count(ordered) if sets else [], strict=True))

    def of(self, names: frozenset[str]) -> Cube:
        """The counts by these attributes, with axes in the order of the schema."""
        return self._tables[names]


def in_rounds(
    schema: Schema,
    queries: Sequence[Query],
    names: Mapping[int, frozenset[str]],
    engine: Sandbox,
    count: Count,
) -> Iterator[tuple[set[frozenset[str]], ContingencyTables, Clauses]]:
    """Round by round: the sets of attributes, their tables, and the clauses of the questions that
    need them. `names` are the attributes of questions by their places.
    """
    for sets in rounds(schema, Counter(names.values())):
        together = sorted(place for place, each in names.items() if each in sets)
        with ThreadPoolExecutor(1) as pool:  # rows are counted while the clauses are evaluated
            counting = pool.submit(ContingencyTables, schema, sets, count)
            clauses = Clauses(schema, [queries[place] for place in together], engine)
            cubes = counting.result()
        yield sets, cubes, clauses


# The truth of many clauses over the domains of their attributes, each evaluated once.

Truth = npt.NDArray[np.bool_]

_MOST_TRUTHS = 1 << 27  # of all clauses that are evaluated together


class Clauses:
    """All clauses of a workload; those on the same attributes are evaluated in one go."""

    def __init__(self, schema: Schema, queries: Iterable[Query], engine: Sandbox) -> None:
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
    return sum(size for size in sizes if size <= sandbox.CELL_LIMIT)


# Conjunctions as boxes of codes: sums over many boxes at once, read off prefix sums of a table.
#
# Conditions on one attribute each leave runs of codes of every attribute, and a box for every
# choice of runs. A prefix sum of a table is the sum of all cells before a corner, so that a box
# takes a look at each of its corners, however many cells it has.

Integers = npt.NDArray[np.int64]
Shape = tuple[tuple[str, ...], ...]  # the attributes of each clause

_MOST_BOXES = 64  # of one question
_BLOCK = 1 << 22  # numbers at a time


@dataclass(frozen=True, eq=False)
class Side:
    """The codes of one attribute that a question leaves."""

    holds: Truth

    @cached_property
    def size(self) -> int:
        return int(self.holds.sum())

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """From one code up to before another; a run of nothing if nothing is left."""
        steps = np.diff(self.holds.astype(np.int8), prepend=0, append=0)
        starts, ends = np.flatnonzero(steps > 0), np.flatnonzero(steps < 0)
        return tuple(zip(starts.tolist(), ends.tolist(), strict=True)) or ((0, 0),)


class Sides:
    """The sides of questions, each found once, so that equal ones are the same object."""

    def __init__(self, schema: Schema, clauses: Clauses) -> None:
        self._schema, self._clauses = schema, clauses
        self._known: dict[tuple[str, tuple[Expression, ...]], Side] = {}

    def of(self, query: Query, names: Sequence[str]) -> list[Side] | None:
        """One for each of these attributes; None if the question has no boxes, or very many."""
        found = []
        for name in names:
            alone = tuple(clause for clause in query.clauses if clause.attributes == (name,))
            key = (name, alone)
            if key not in self._known:
                truths = [self._clauses.along(clause, [name]) for clause in alone]
                every = np.ones(self._schema[name].size, bool)
                self._known[key] = Side(np.logical_and.reduce([every, *truths]))
            found.append(self._known[key])
        apart = all(len(clause.attributes) == 1 for clause in query.clauses)
        return found if apart and prod(len(side.runs) for side in found) <= _MOST_BOXES else None


class BoxSums:
    """The prefix sums of a table along its first axes."""

    def __init__(self, table: Integers, axes: int) -> None:
        self._axes = axes
        lengths = [size + (axis < axes) for axis, size in enumerate(table.shape)]
        self._sums = np.zeros(lengths, np.int64)
        self._sums[(slice(1, None),) * axes] = table
        for axis in range(axes):
            np.cumsum(self._sums, axis=axis, out=self._sums)

    @property
    def size(self) -> int:
        return self._sums.size

    def of(self, questions: Sequence[Sequence[Side]]) -> Integers:
        """For each question, given by its sides of the first axes, what its cells add up to: a
        number, or a table with the other axes.
        """
        rest = self._sums.shape[self._axes :]
        step = max(_BLOCK // (_MOST_BOXES * prod(rest)), 1)
        parts = [np.zeros((0, *rest), np.int64)]
        for start in range(0, len(questions), step):
            ends, first = boxes(questions[start : start + step], self._axes)
            parts.append(np.add.reduceat(self._boxes(ends), first[:-1]))
        return np.concatenate(parts)

    def _boxes(self, ends: Integers) -> Integers:
        """By inclusion and exclusion of corners."""
        found = np.zeros((len(ends), *self._sums.shape[self._axes :]), np.int64)
        for corner in product((0, 1), repeat=self._axes):
            at = tuple(ends[:, axis, end] for axis, end in enumerate(corner))
            if (self._axes - sum(corner)) % 2:
                found -= self._sums[at]
            else:
                found += self._sums[at]
        return found


def boxes(questions: Iterable[Sequence[Side]], axes: int) -> tuple[Integers, Integers]:
    """The boxes of all questions, each with a run for every axis; and where those of each question
    begin, and the last ones end.
    """
    found = [list(product(*(side.runs for side in sides))) for sides in questions]
    first = np.cumsum([0, *map(len, found)])
    ends = np.array([box for some in found for box in some], np.int64)
    return ends.reshape(first[-1], axes, 2), first


def alike(queries: Iterable[Query]) -> dict[tuple[Shape, tuple[str, ...]], list[int]]:
    """The places of counts without groups that name something, together where their clauses are
    about the same attributes and their notes are the same.
    """
    found: dict[tuple[Shape, tuple[str, ...]], list[int]] = defaultdict(list)
    for place, query in enumerate(queries):
        if query.aggregate == "count" and not query.groups:
            shape = tuple([clause.attributes for clause in query.clauses])
            found[shape, query.notes].append(place)
    return {key: places for key, places in found.items() if any(key[0])}
