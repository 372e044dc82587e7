"""Conjunctions that many rows satisfy: all of them, found without a look at the others.

What few rows satisfy has no part that is worth a look: values are joined only if each of them is
frequent by itself, so that a column of thousands of rare values costs no more than any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.compare.truth import TrueTable
from scumble.model.errors import ParameterError

Codes = npt.NDArray[np.int64]

_LISTED = 1 << 22  # cells of a table that is counted as a whole
_MOST_CELLS = 1 << 62  # that have a number


@dataclass(frozen=True, eq=False)
class Frequent:
    """The cells of some attributes that enough rows are in, a row of codes for each."""

    names: tuple[str, ...]
    codes: Codes


def frequent(table: TrueTable, sets: Iterable[tuple[str, ...]], least: float) -> Iterator[Frequent]:
    """For each set of attributes its cells that at least so many rows (and one) are in; a set
    without any is left out.
    """
    known = _Known(table, max(least, 1.0))
    for names in sets:
        codes = known.cells(names)
        if len(codes):
            yield Frequent(names, codes)


class _Known:
    """The frequent values of each attribute, and where among them every row stands."""

    def __init__(self, table: TrueTable, least: float) -> None:
        self._table = table
        self._least = least
        self._values: dict[str, Codes] = {}
        self._places: dict[str, npt.NDArray[np.int32]] = {}

    def cells(self, names: Sequence[str]) -> Codes:
        values = [self._of(name) for name in names]
        if len(names) == 1:
            return values[0][:, np.newaxis]
        shape = [len(each) for each in values]
        size = prod(shape)
        if not size:
            return np.empty((0, len(names)), np.int64)
        if size > _MOST_CELLS:
            raise ParameterError("There are too many conjunctions: a larger floor, or fewer ways.")
        inside, cell = self._rows(names, shape)
        found = np.unravel_index(self._often(cell[inside], size), shape)
        columns = [own[place] for own, place in zip(values, found, strict=True)]
        return np.stack(columns, axis=1)

    def _of(self, name: str) -> Codes:
        if name not in self._values:
            counts = self._table.cube([name])
            self._values[name] = np.flatnonzero(counts >= self._least)
            places = np.full(len(counts), -1, np.int32)
            places[self._values[name]] = np.arange(len(self._values[name]))
            self._places[name] = places[self._table.codes(name)]
        return self._values[name]

    def _rows(
        self, names: Sequence[str], shape: Sequence[int]
    ) -> tuple[npt.NDArray[np.bool_], Codes]:
        """Which rows have a frequent value in all attributes, and the cell of each."""
        inside = np.ones(self._table.rows, bool)
        cell = np.zeros(self._table.rows, np.int64)
        for name, size in zip(names, shape, strict=True):
            place = self._places[name]
            inside &= place >= 0
            cell *= size
            cell += place
        return inside, cell

    def _often(self, cells: Codes, size: int) -> Codes:
        if size <= _LISTED:
            return np.flatnonzero(np.bincount(cells, minlength=size) >= self._least)
        there, counts = np.unique(cells, return_counts=True)
        return there[counts >= self._least]
