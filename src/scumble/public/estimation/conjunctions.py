"""Conjunctions as boxes of codes: sums over many boxes at once, read off prefix sums of a table.

Conditions on one attribute each leave runs of codes of every attribute, and a box for every choice
of runs. A prefix sum of a table is the sum of all cells before a corner, so that a box takes a look
at each of its corners, however many cells it has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.public.estimation.clauses import Clauses, Truth

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
