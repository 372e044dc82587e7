"""Noisy tables of counts, and their non-negative versions that agree with each other.

A table with noise has negative cells and sums that contradict those of other tables. Here its cells
become non-negative by projection onto the simplex, and its sums are moved to given ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

Tensor = npt.NDArray[np.float64]
Places = tuple[int, ...]

_ROUNDS = 50
_AGREE = 1e-7  # tolerated disagreement with the wanted sums, as a share of the total
_FLOOR = 1e-9  # of a cell whose sums say that somebody is there, as a share of its expected count


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """The noisy counts of the attributes at `places`, in rising order, one axis for each.

    `variance` is that of the noise of a cell.
    """

    places: Places
    counts: Tensor
    variance: float

    @property
    def cells(self) -> int:
        return int(self.counts.size)

    def along(self, places: Places) -> NoisyTable:
        """Return the sums by some of its attributes."""
        others = tuple(axis for axis, place in enumerate(self.places) if place not in places)
        summed = prod(self.counts.shape[axis] for axis in others)
        left = tuple(place for place in self.places if place in places)
        return NoisyTable(left, self.counts.sum(axis=others), self.variance * summed)


def onto_simplex(values: Tensor, total: float) -> Tensor:
    """Return the nearest non-negative numbers with the sum `total`, by squared distance."""
    if total <= 0:
        return np.zeros_like(values)
    falling = np.sort(values, axis=None)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    last = int(np.flatnonzero(falling > excess)[-1]) if (falling > excess).any() else 0
    found: Tensor = np.maximum(values - excess[last], 0.0)
    return found


def estimated_total(tables: Sequence[NoisyTable]) -> float:
    """Return the number of rows: the totals of the tables, weighted by their inverse variances."""
    weights = np.array([1 / (each.variance * each.cells) for each in tables])
    totals = np.array([each.counts.sum() for each in tables])
    return max(float(weights @ totals / weights.sum()), 0.0)


def one_way(place: int, size: int, tables: Sequence[NoisyTable], total: float) -> Tensor:
    """Return the non-negative counts of one attribute: the mean, by inverse variances, of the sums
    of all tables that hold it, on the simplex. Without any table every value is as frequent.
    """
    found = [each.along((place,)) for each in tables if place in each.places]
    if not found:
        return np.full(size, total / size)
    weights = np.array([1 / each.variance for each in found])
    mean = np.tensordot(weights / weights.sum(), np.stack([each.counts for each in found]), 1)
    return onto_simplex(mean, total)


def with_margins(table: Tensor, margins: Sequence[Tensor]) -> Tensor:
    """Return the non-negative table near `table` that has the given one-way sums, one list of
    numbers for each axis. All lists have the same sum.

    The table is moved to the sums by least squares and projected onto the simplex; iterative
    proportional fitting then gives it the sums exactly, but for what its rounds leave.
    """
    total = float(margins[0].sum())
    if total <= 0:
        return np.zeros_like(table)
    moved = table + (total - table.sum()) / table.size
    for axis, margin in enumerate(margins):
        gap = (margin - _along(moved, axis)) * (table.shape[axis] / table.size)
        moved = moved + _spread(gap, axis, table.ndim)
    fitted = onto_simplex(moved, total)
    expected = np.full((1,) * table.ndim, total)
    for axis, margin in enumerate(margins):
        expected = expected * _spread(margin / total, axis, table.ndim)
    fitted = np.where(expected > 0, np.maximum(fitted, _FLOOR * expected), 0.0)
    return raked(fitted, {(axis,): margin for axis, margin in enumerate(margins)})


def raked(table: Tensor, sums: Mapping[Places, Tensor]) -> Tensor:
    """Scale `table` until it has the given sums, by iterative proportional fitting.

    The keys of `sums` are sets of axes; the values are the wanted sums over all other axes.
    """
    for _ in range(_ROUNDS):
        off = 0.0
        for axes, wanted in sums.items():
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            held = table.sum(axis=others, keepdims=True)
            aim = wanted.reshape(held.shape)
            off = max(off, float(np.abs(held - aim).sum()))
            table = table * np.divide(aim, held, out=np.zeros_like(held), where=held > 0)
        if off <= _AGREE * float(table.sum()):
            break
    return table


def _along(table: Tensor, axis: int) -> Tensor:
    others = tuple(other for other in range(table.ndim) if other != axis)
    sums: Tensor = table.sum(axis=others)
    return sums


def _spread(values: Tensor, axis: int, dimensions: int) -> Tensor:
    shape = [1] * dimensions
    shape[axis] = -1
    return values.reshape(shape)
