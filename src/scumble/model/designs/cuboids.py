"""Cuboids: which marginals of a data cube to measure, so that all others follow from them well.

A cube of d attributes has 2^d cuboids, one for each set of attributes, numbered by the bits of the
set. A cuboid that is measured with noise of variance v tells a smaller one with variance v times
the number of its cells that fall together; s measured ones share the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Places = tuple[int, ...]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

MOST_ATTRIBUTES = 10
_MOST_TRIED = 64


@dataclass(frozen=True)
class Cube:
    """The lattice of cuboids: `asked` are to be answered, `possible` may be measured; `noise` is
    the variance of each of so many measured ones, up to a factor.
    """

    sizes: tuple[int, ...]
    asked: Flags
    possible: Flags
    noise: Callable[[int], float]

    @property
    def cells(self) -> Floats:
        """How many cells each cuboid has."""
        return _products(self.sizes)

    def together(self) -> Floats:
        """How many cells of a cuboid (line) make one of another (column); infinite if it does not
        follow.
        """
        number = np.arange(1 << len(self.sizes))
        inside = (number[None, :] & ~number[:, None]) == 0
        ratio: Floats = np.where(inside, self.cells[:, None] / self.cells[None, :], np.inf)
        return ratio

    def least_worst(self) -> list[Places]:
        """The cuboids to measure for a small largest variance of all that is asked (BMAX)."""
        ratios = self.together()[self.possible][:, self.asked]
        steps = np.unique(ratios[np.isfinite(ratios)])
        if len(steps) > _MOST_TRIED:
            steps = steps[np.unique(np.linspace(0, len(steps) - 1, _MOST_TRIED).astype(int))]
        plans = [_cover(ratios <= step, 1 << len(self.sizes)) for step in steps]
        return self._best(plans, lambda variances: float(variances.max()))

    def most_within(self, variance: float) -> list[Places]:
        """The cuboids to measure so that many that are asked have at most this variance (PMOST)."""
        ratios = self.together()[self.possible][:, self.asked]
        plans = []
        for count in range(1, 1 + min(len(ratios), _MOST_TRIED)):
            if self.noise(count) > variance:
                break
            plans.append(_cover(ratios <= variance / self.noise(count), count))
        missed = lambda variances: -float((variances <= variance).sum())  # noqa: E731
        return self._best(plans, missed) if plans else self.least_worst()

    def _best(self, plans: Sequence[list[int]], loss: Callable[[Floats], float]) -> list[Places]:
        numbers = np.flatnonzero(self.possible)
        choices = [numbers[plan] for plan in plans]
        losses = [loss(self.variances(choice)[self.asked]) for choice in choices]
        best = choices[int(np.argmin(losses))]
        return [places_of(int(number)) for number in best]

    def variances(self, measured: npt.NDArray[np.intp]) -> Floats:
        """The variance of a cell of every cuboid after least squares over the measured ones.

        It is Σ over A ⊆ C of Π_A (n-1) / (N_C² rate_A), where rate_A is the sum of 1/(v N_S) over
        the measured S ⊇ A.
        """
        axes = range(len(self.sizes))
        shape = (2,) * len(self.sizes)
        rates = np.zeros(1 << len(self.sizes))
        rates[measured] = 1 / (self.noise(len(measured)) * self.cells[measured])
        rates = rates.reshape(shape)
        for axis in axes:
            lead = np.moveaxis(rates, axis, 0)
            lead[0] += lead[1]
        free = _products([size - 1 for size in self.sizes]).reshape(shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(free > 0, free / rates, 0.0)
        for axis in axes:
            lead = np.moveaxis(parts, axis, 0)
            lead[1] += lead[0]
        found: Floats = parts.reshape(-1) / self.cells**2
        return found


def _products(numbers: Sequence[int]) -> Floats:
    """For every set of numbers their product, by the bits of the set."""
    found = np.ones(1)
    for number in numbers:
        found = np.concatenate([found, found * number])
    return found


def _cover(covers: Flags, most: int) -> list[int]:
    """Lines that together cover all columns that any of them covers, each the one that adds most
    (greedy: at most ln of the number of columns + 1 times as many as needed).
    """
    left = covers.any(axis=0)
    chosen: list[int] = []
    while left.any() and len(chosen) < most:
        gains = covers[:, left].sum(axis=1)
        best = int(np.argmax(gains))
        chosen.append(best)
        left &= ~covers[best]
    return chosen


def places_of(number: int) -> Places:
    """The set of attributes behind a number."""
    return tuple(bit for bit in range(number.bit_length()) if number >> bit & 1)
