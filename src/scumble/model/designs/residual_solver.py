"""Least squares over noisy marginals: every marginal falls apart into independent residuals.

The counts of a set S of attributes are a sum of residuals, one for each A ⊆ S: tables over A whose
sums along every axis are 0. In the coordinates of `residual_axis` they do not overlap, so noise of
one variance s² on all cells of S is, for each A, noise of variance s² on a block of its own. So
generalised least squares over any set of tables is a weighted mean, residual by residual: a table
with N_S cells says the residual of A ⊆ S with a precision of N_A·t, where t = 1/(s²·N_S).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import combinations
from math import prod, sqrt

import numpy as np
import numpy.typing as npt

from scumble.model.cache import Remembered
from scumble.model.designs.residual_axis import Tensor, join, residual, split
from scumble.model.designs.residuals import Residuals

Places = tuple[int, ...]
_MOST_KEPT = 1 << 24  # coordinates of residuals that are kept for the next question


class Solver:
    """The weighted least squares estimate of every marginal that the tables determine."""

    def __init__(self, design: Residuals, numbers: npt.NDArray[np.int64]) -> None:
        self.design = design
        self.sizes = design.sizes
        self._numbers = numbers
        self._slices = list(design.slices())
        self._rates: dict[Places, float] = {}
        self._residuals = Remembered[Places, Tensor](_MOST_KEPT)

    @cached_property
    def rates(self) -> npt.NDArray[np.float64]:
        """What `t` is for each table: the weight of what it says."""
        found = [
            1 / (table.law.variance * (1 if table.form == "contrast" else self.cells(table.places)))
            for table in self.design.tables
        ]
        return np.array(found)

    @cached_property
    def fourths(self) -> npt.NDArray[np.float64]:
        """The fourth cumulant of one noise of each table."""
        return np.array([table.law.fourth for table in self.design.tables])

    @cached_property
    def cell_numbers(self) -> npt.NDArray[np.float64]:
        """How many cells the marginal of each table has."""
        return np.array([float(table.cells(self.sizes)) for table in self.design.tables])

    @cached_property
    def wholes(self) -> npt.NDArray[np.intp]:
        """The numbers of the tables that are marginals: they tell of all their subsets."""
        tables = enumerate(self.design.tables)
        return np.array([number for number, table in tables if table.form == "marginal"], np.intp)

    @cached_property
    def members(self) -> npt.NDArray[np.bool_]:
        """Which attribute is in which of the marginals."""
        found = np.zeros((len(self.wholes), len(self.sizes)), bool)
        for line, number in enumerate(self.wholes):
            found[line, list(self.design.tables[number].places)] = True
        return found

    @cached_property
    def singles(self) -> dict[Places, list[int]]:
        """The numbers of the tables that tell one residual only."""
        found: dict[Places, list[int]] = {}
        for number, table in enumerate(self.design.tables):
            if table.form != "marginal":
                found.setdefault(table.places, []).append(number)
        return found

    def cells(self, places: Iterable[int]) -> int:
        return prod(self.sizes[place] for place in places)

    def determines(self, places: Places) -> bool:
        """Whether the marginal of these attributes follows from what was measured."""
        subsets = (
            chosen for size in range(len(places) + 1) for chosen in combinations(places, size)
        )
        whole = self.members[:, list(places)].all(axis=1).any()
        return bool(whole or all(self.rate(each) > 0 for each in subsets))

    def rate(self, places: Places) -> float:
        """The sum of `t` over all tables that tell the residual of these attributes."""
        if places not in self._rates:
            found = float(self.rates[self._telling(places)].sum())
            empty = any(self.sizes[place] == 1 for place in places)  # nothing is left to be told
            self._rates[places] = 1.0 if empty else found
        return self._rates[places]

    def block_rates(self, places: Places) -> Tensor:
        """`rate` of every subset, over the coordinates of the table of all."""
        narrow = np.empty((2,) * len(places))
        for size in range(len(places) + 1):
            for chosen in combinations(range(len(places)), size):
                index = tuple(int(axis in chosen) for axis in range(len(places)))
                narrow[index] = self.rate(tuple(places[axis] for axis in chosen))
        axes = [np.minimum(np.arange(self.sizes[place]), 1) for place in places]
        wide: Tensor = narrow[np.ix_(*axes)] if places else narrow
        return wide

    def marginal(self, places: Places) -> Tensor:
        """The estimated counts of all cells of these attributes."""
        coordinates = np.zeros([self.sizes[place] for place in places])
        for size in range(len(places) + 1):
            for chosen in combinations(range(len(places)), size):
                part = self.residual(tuple(places[axis] for axis in chosen))
                axes = range(len(places))
                block = tuple(slice(1, None) if axis in chosen else 0 for axis in axes)
                others = self.cells(places[axis] for axis in axes if axis not in chosen)
                coordinates[block] = part / sqrt(others)
        return join(coordinates)

    def residual(self, places: Places) -> Tensor:
        """The estimated residual of these attributes in orthonormal coordinates."""
        size = prod(self.sizes[place] - 1 for place in places)
        return self._residuals.of(places, size, lambda: self._weighed(places))

    def _weighed(self, places: Places) -> Tensor:
        total = np.zeros([self.sizes[place] for place in places])
        for number in self._telling(places):
            total += self.rates[number] * self._told(number, places)
        inner = (slice(1, None),) * len(places)
        return split(total)[inner] / self.rate(places)

    def _telling(self, places: Places) -> npt.NDArray[np.intp]:
        whole = self.wholes[self.members[:, list(places)].all(axis=1)]
        return np.concatenate([whole, np.array(self.singles.get(places, []), np.intp)])

    def _told(self, number: int, places: Places) -> Tensor:
        """A table over these attributes whose residual is what one measured table says of it."""
        table = self.design.tables[number]
        numbers = self._numbers[self._slices[number]].reshape(table.shape(self.sizes))
        if table.form == "marginal":
            others = tuple(axis for axis, place in enumerate(table.places) if place not in places)
            return np.asarray(numbers.sum(axis=others), np.float64)
        return residual(numbers)
