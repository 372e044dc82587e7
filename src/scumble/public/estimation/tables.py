"""Contingency tables of what was published, many at once: few passes over the data count all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimation.clauses import Clauses
from scumble.public.sandbox import Engine

Cube = npt.NDArray[np.int64]
Names = tuple[str, ...]
Count = Callable[[Sequence[Names]], list[Cube]]

MOST_CELLS = 1 << 25  # of all tables that are made together
# More cells than that for each of its questions, and a table takes longer than asking the engine.
_CELLS_OF_ONE = 1 << 20
# Two tables are counted as one if that one still fits a usual second-level cache.
_MERGED_CELLS = 1 << 18


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


class Cubes:
    """Counts by the asked sets of attributes, which fit in memory together. `count` makes the
    tables of some sets, whose names it gets in the order of the schema.
    """

    def __init__(
        self,
        schema: Schema,
        asked: set[frozenset[str]],
        count: Count,
    ) -> None:
        self._schema = schema
        self._sets = [self._ordered(names) for names in self._merged(asked)]
        self._counts = count(self._sets) if self._sets else []
        self._found: dict[frozenset[str], Cube] = {}

    def of(self, names: frozenset[str]) -> Cube:
        """The counts by these attributes, with axes in the order of the schema."""
        if names not in self._found:
            fitting = [place for place, larger in enumerate(self._sets) if names <= set(larger)]
            place = min(fitting, key=lambda place: self._counts[place].size)
            others = [axis for axis, name in enumerate(self._sets[place]) if name not in names]
            self._found[names] = self._counts[place].sum(axis=tuple(others))
        return self._found[names]

    def _merged(self, wanted: set[frozenset[str]]) -> list[frozenset[str]]:
        """Few sets in which all wanted ones lie: each joins where the union is smallest."""
        merged: list[frozenset[str]] = []
        for names in sorted(wanted, key=lambda names: (-self._cells(names), sorted(names))):
            unions = [(self._cells(names | other), place) for place, other in enumerate(merged)]
            size, place = min(unions, default=(_MERGED_CELLS + 1, 0))
            if merged and size <= max(_MERGED_CELLS, self._cells(merged[place])):
                merged[place] |= names
            else:
                merged.append(names)
        return merged

    def _ordered(self, names: frozenset[str]) -> tuple[str, ...]:
        return tuple(name for name in self._schema.names if name in names)

    def _cells(self, names: Iterable[str]) -> int:
        return cells(self._schema, names)


def in_rounds(
    schema: Schema,
    queries: Sequence[Query],
    names: Mapping[int, frozenset[str]],
    engine: Engine,
    count: Count,
) -> Iterator[tuple[set[frozenset[str]], Cubes, Clauses]]:
    """Round by round: the sets of attributes, their tables, and the clauses of the questions that
    need them. `names` are the attributes of questions by their places.
    """
    for sets in rounds(schema, Counter(names.values())):
        together = sorted(place for place, each in names.items() if each in sets)
        with ThreadPoolExecutor(1) as pool:  # rows are counted while the clauses are evaluated
            counting = pool.submit(Cubes, schema, sets, count)
            clauses = Clauses(schema, [queries[place] for place in together], engine)
            cubes = counting.result()
        yield sets, cubes, clauses
