"""Contingency tables for many questions at once, and the truth of their conditions on domains.

- `ContingencyTables`: counts of published rows by sets of attributes, made in few passes.
- `Clauses`: the truth of every clause of some questions over the domains of its attributes.
- `CodeSets`, `PrefixSums`: conjunctions as boxes of codes, and sums over boxes from prefix sums.
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
from scumble.model.schema.cells import CELL_LIMIT
from scumble.model.schema.schema import Schema
from scumble.public.sandbox import Sandbox

Integers = npt.NDArray[np.int64]
Truth = npt.NDArray[np.bool_]
Names = tuple[str, ...]
CountTables = Callable[[Sequence[Names]], list[Integers]]

MOST_CELLS = 1 << 25  # of all tables that are in memory together
# With more cells than this for each of its questions, a table takes longer than asking the engine.
_CELLS_PER_QUESTION = 1 << 20
_MOST_TRUTHS = 1 << 27  # cells of all clauses that are evaluated together
_MOST_BOXES = 64  # of one question
_BLOCK = 1 << 22  # numbers that are added up at a time


# Contingency tables.


class ContingencyTables:
    """The tables of the sets of attributes `asked`, which fit in memory together.

    `count` makes the tables of a list of sets. It gets the names of each set in the order of
    `schema`.
    """

    def __init__(self, schema: Schema, asked: set[frozenset[str]], count: CountTables) -> None:
        sets = sorted(asked, key=sorted)
        ordered = [tuple(name for name in schema.names if name in names) for names in sets]
        self._tables = dict(zip(sets, count(ordered) if sets else [], strict=True))

    def table(self, names: frozenset[str]) -> Integers:
        """Return the counts by `names`, with axes in the order of the schema."""
        return self._tables[names]


def tables_in_rounds(
    schema: Schema,
    queries: Sequence[Query],
    names: Mapping[int, frozenset[str]],
    engine: Sandbox,
    count: CountTables,
) -> Iterator[tuple[set[frozenset[str]], ContingencyTables, Clauses]]:
    """Make contingency tables, as many in a round as fit in memory together.

    `names` are the attributes of questions by their places in `queries`. Each round yields its sets
    of attributes, their tables, and the clauses of the questions that need them.
    """
    for sets in table_rounds(schema, Counter(names.values())):
        together = sorted(place for place, each in names.items() if each in sets)
        with ThreadPoolExecutor(1) as pool:  # rows are counted while the clauses are evaluated
            counting = pool.submit(ContingencyTables, schema, sets, count)
            clauses = Clauses(schema, [queries[place] for place in together], engine)
            tables = counting.result()
        yield sets, tables, clauses


def table_rounds(schema: Schema, asked: Counter[frozenset[str]]) -> Iterator[set[frozenset[str]]]:
    """Yield the sets of attributes whose tables are worth their cells, the most frequent first."""
    chosen: set[frozenset[str]] = set()
    left = MOST_CELLS
    for names, times in asked.most_common():
        size = prod(schema[name].size for name in names)
        if size > min(MOST_CELLS, times * _CELLS_PER_QUESTION):
            continue
        if size > left:
            yield chosen
            chosen, left = set(), MOST_CELLS
        chosen.add(names)
        left -= size
    if chosen:
        yield chosen


def same_shape(queries: Iterable[Query]) -> dict[tuple[tuple[Names, ...], Names], list[int]]:
    """Group plain counts that name an attribute by the attributes of their clauses, and by notes.

    A plain count has no GROUP BY. The values of the result are places in `queries`. The keys are
    the attributes of each clause, and the notes.
    """
    found: dict[tuple[tuple[Names, ...], Names], list[int]] = defaultdict(list)
    for place, query in enumerate(queries):
        if query.aggregate == "count" and not query.groups:
            shape = tuple([clause.attributes for clause in query.clauses])
            found[shape, query.notes].append(place)
    return {key: places for key, places in found.items() if any(key[0])}


def grouped(queries: Iterable[Query]) -> Iterator[int]:
    """Yield the places of the counts with GROUP BY."""
    for place, query in enumerate(queries):
        if query.aggregate == "count" and query.groups:
            yield place


# The truth of clauses over the domains of their attributes.


class Clauses:
    """All clauses of `queries`. Those on the same attributes are evaluated in one pass."""

    def __init__(self, schema: Schema, queries: Iterable[Query], engine: Sandbox) -> None:
        self._schema = schema
        asked = list(queries)
        together: dict[Names, dict[Expression, None]] = {}
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

    def of_one(self, clause: Expression) -> Truth:
        """Return the truth of `clause`, on one attribute, by the codes of the attribute."""
        return self._truth[clause]

    def along(self, clause: Expression, order: Sequence[str]) -> Truth:
        """Return the truth of `clause` as a tensor that broadcasts over the axes `order`."""
        if clause.attributes == order:
            return self._truth[clause]
        places = [order.index(name) for name in clause.attributes]
        shape = [1] * len(order)
        for name, place in zip(clause.attributes, places, strict=True):
            shape[place] = self._schema[name].size
        return self._truth[clause].transpose(np.argsort(places)).reshape(shape)


def portions(schema: Schema, queries: Iterable[Query]) -> Iterator[list[Query]]:
    """Split `queries`, in their order, so that the truth of all clauses of a part fits in memory.

    A thousand ranges of an attribute with a million values have a billion truth values.
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
    """Count the truth values of `clauses`, without those that are too large to be evaluated."""
    sizes = (schema.size(clause.attributes) for clause in clauses)
    return sum(size for size in sizes if size <= CELL_LIMIT)


# Conjunctions as boxes of codes.
#
# Conditions on one attribute each leave runs of codes of every attribute, and a box for every
# choice of runs. A prefix sum of a table is the sum of all cells before a corner, so that the sum
# over a box takes one lookup for each of its corners, however many cells it has.


@dataclass(frozen=True, eq=False)
class CodeSet:
    """The codes of one attribute for which the conditions of a question are true."""

    holds: Truth

    @cached_property
    def size(self) -> int:
        return int(self.holds.sum())

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The runs of codes as (first, last + 1); one empty run if there are no codes."""
        written = self.holds.tobytes()
        first, end = written.find(1), written.rfind(1) + 1
        if written.find(0, max(first, 0), end) < 0:  # one run, as most conditions leave
            return ((max(first, 0), end),)
        bordered = np.zeros(len(self.holds) + 2, bool)
        bordered[1:-1] = self.holds
        ends = np.flatnonzero(bordered[1:] != bordered[:-1]).tolist()
        return tuple(zip(ends[::2], ends[1::2], strict=True))


class CodeSets:
    """The code sets of questions. Each is made once, so that equal ones are the same object."""

    def __init__(self, schema: Schema, clauses: Clauses) -> None:
        self._schema, self.clauses = schema, clauses
        self._known: dict[tuple[str, tuple[Expression, ...]], CodeSet] = {}

    def of(self, query: Query, names: Sequence[str]) -> list[CodeSet] | None:
        """Return the code set of each of `names`.

        Return None if a clause of `query` names several attributes, or if there are too many boxes.
        """
        found = self.by_name(query, names)
        separate = all(len(clause.attributes) == 1 for clause in query.clauses)
        few = prod(len(codes.runs) for codes in found) <= _MOST_BOXES
        return found if separate and few else None

    def by_name(self, query: Query, names: Sequence[str]) -> list[CodeSet]:
        """Return for each of `names` the codes that satisfy the clauses of this attribute alone."""
        by_name: dict[str, tuple[Expression, ...]] = {}
        for clause in query.clauses:
            if len(clause.attributes) == 1:
                [name] = clause.attributes
                by_name[name] = (*by_name.get(name, ()), clause)
        return [self._of_name(name, by_name.get(name, ())) for name in names]

    def _of_name(self, name: str, clauses: tuple[Expression, ...]) -> CodeSet:
        known = self._known.get((name, clauses))
        if known is None:
            truths = [self.clauses.of_one(clause) for clause in clauses]
            holds = truths[0] if truths else np.ones(self._schema[name].size, bool)
            for truth in truths[1:]:
                holds = holds & truth
            known = self._known[name, clauses] = CodeSet(holds)
        return known


class PrefixSums:
    """The prefix sums of `table` along its first `axes` axes."""

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

    def of(self, questions: Sequence[Sequence[CodeSet]]) -> Integers:
        """Return the sum of the cells of each question, given by its code sets of the first axes.

        The sum is a number, or a table with the other axes.
        """
        rest = self._sums.shape[self._axes :]
        step = max(_BLOCK // (_MOST_BOXES * prod(rest)), 1)
        parts = [np.zeros((0, *rest), np.int64)]
        for start in range(0, len(questions), step):
            ends, first = boxes(questions[start : start + step], self._axes)
            parts.append(np.add.reduceat(self._boxes(ends), first[:-1]))
        return np.concatenate(parts)

    def _boxes(self, ends: Integers) -> Integers:
        """Return the sum of each box, by inclusion and exclusion of its corners."""
        found = np.zeros((len(ends), *self._sums.shape[self._axes :]), np.int64)
        for corner in product((0, 1), repeat=self._axes):
            at = tuple(ends[:, axis, end] for axis, end in enumerate(corner))
            if (self._axes - sum(corner)) % 2:
                found -= self._sums[at]
            else:
                found += self._sums[at]
        return found


def boxes(questions: Iterable[Sequence[CodeSet]], axes: int) -> tuple[Integers, Integers]:
    """Return the boxes of all questions, one after the other, each with a run for every axis.

    The second result says where the boxes of each question begin, and where the last ones end.
    """
    found = [list(product(*(codes.runs for codes in sets))) for sets in questions]
    first = np.cumsum([0, *map(len, found)])
    ends = np.array([box for some in found for box in some], np.int64)
    return ends.reshape(first[-1], axes, 2), first
