"""Non-negative tables that agree with each other, fitted to noisy marginals.

This trades the lack of bias away: sums of many small cells come out wrong by more than their noise.
The table of a set of attributes is fitted after those of its subsets. It starts from the table of
largest entropy that has their sums, moves towards the noisy one, and is scaled back to the sums.
How far it moves is chosen by Stein's estimate of the risk, from the noisy table alone.
"""

from __future__ import annotations

from functools import reduce
from itertools import combinations

import numpy as np

from scumble.model.cache import Remembered
from scumble.model.designs.residual_axis import Tensor
from scumble.model.designs.residual_solver import Places, Solver

_COARSE = range(-14, 8, 3)  # powers of 2 that are tried first, then those beside the best one
_SMALLEST = 1e-9  # of a starting cell, so that a noisy one can lift it
_ROUNDS = 30
_AGREE = 1e-7  # of the total: closer agreement with smaller tables is not sought
_MOST_KEPT = 1 << 24


class Fit:
    """Non-negative tables of any set of attributes; also of one that was not measured, by the
    entropy alone.
    """

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._kept = Remembered[Places, Tensor](_MOST_KEPT)

    def table(self, places: Places) -> Tensor:
        return self._kept.of(places, self._solver.cells(places), lambda: self._fitted(places))

    @property
    def _total(self) -> float:
        return max(float(self._solver.marginal(())), 0.0)

    def _fitted(self, places: Places) -> Tensor:
        if not places:
            return np.array(self._total)
        if not self._total:
            return np.zeros([self._solver.sizes[place] for place in places])
        if len(places) == 1:
            return projected(self._solver.marginal(places), self._total)
        smaller = {
            axes: self.table(tuple(places[axis] for axis in axes))
            for axes in combinations(range(len(places)), len(places) - 1)
        }
        ones = [self.table((place,)) / self._total for place in places]
        start = raked(self._total * reduce(np.multiply.outer, ones), smaller)
        if not self._solver.determines(places):
            return start
        variance = 1 / (self._solver.rate(places) * self._solver.cells(places))
        return raked(moved(start, self._solver.marginal(places), variance), smaller)


def projected(noisy: Tensor, total: float) -> Tensor:
    """The nearest table without negative cells that has this total."""
    falling = np.sort(noisy, axis=None)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    last = int(np.flatnonzero(falling > excess)[-1]) if (falling > excess).any() else 0
    found: Tensor = np.maximum(noisy - excess[last], 0.0)
    return found


def moved(start: Tensor, noisy: Tensor, variance: float) -> Tensor:
    """The table p that makes Σ(p - noisy)²/2 + s·(relative entropy of p to the start) least: p +
    s·ln(p/start) = noisy, cell by cell. Of several s, and no move at all, the one of least risk by
    Stein's estimate: Σ(p - noisy)² + 2·variance·Σ dp/dnoisy.
    """
    start = np.maximum(start, _SMALLEST)
    still = float(((start - noisy) ** 2).sum())
    found = {power: _risk(start, noisy, variance, power) for power in _COARSE}
    near = min(found, key=lambda power: found[power])
    found |= {
        power: _risk(start, noisy, variance, power) for power in (near - 2, near - 1, near + 1)
    }
    best = min(found, key=lambda power: found[power])
    return start if still <= found[best] else _moved(start, noisy, 2.0**best * variance)


def _moved(start: Tensor, noisy: Tensor, s: float) -> Tensor:
    from scipy.special import wrightomega

    found: Tensor = s * wrightomega(np.log(start / s) + noisy / s)
    return found


def _risk(start: Tensor, noisy: Tensor, variance: float, power: int) -> float:
    s = 2.0**power * variance
    found = _moved(start, noisy, s)
    return float(((found - noisy) ** 2).sum() + 2 * variance * (found / (found + s)).sum())


def raked(table: Tensor, sums: dict[tuple[int, ...], Tensor]) -> Tensor:
    """A table scaled along its axes, in turn, until its sums over the other axes are those given
    for some sets of axes (iterative proportional fitting).
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


def whole(table: Tensor) -> Tensor:
    """Whole numbers in the place of cells, such that every run of cells has its sum within 1: the
    running sums are rounded, so that the total and those of the first attribute stay.
    """
    running = np.rint(np.cumsum(table.reshape(-1)))
    return np.diff(running, prepend=0.0).reshape(table.shape)
