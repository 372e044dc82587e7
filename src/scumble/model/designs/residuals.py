"""Noisy marginals and residuals: the design, the residual basis, least squares over all tables, and
the error of weighted sums of estimated cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import inf, prod, sqrt
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.cache import Cache
from scumble.model.laws import NoiseLaw, noise_law_from_dict

Form = Literal["marginal", "residual", "contrast"]


@dataclass(frozen=True)
class MarginalTable:
    """One measured table: the marginal of the attributes with the indices `places`, or a part of
    it.

    A "marginal" is the count of every cell plus noise. A "residual" is the differences (see
    `differences`) of such noisy counts along every axis: the noise is added before. A "contrast",
    of attributes with two values each, is the one difference of the true counts plus one noise.
    """

    places: tuple[int, ...]
    form: Form
    law: NoiseLaw

    def numbers(self, sizes: tuple[int, ...]) -> int:
        """Return the number of published numbers; `sizes` are those of all attributes."""
        return prod(self.shape(sizes))

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        less = 0 if self.form == "marginal" else 1
        return tuple(sizes[place] - less for place in self.places)

    def cells(self, sizes: tuple[int, ...]) -> int:
        """Return the number of cells of the marginal."""
        return prod(sizes[place] for place in self.places)


@dataclass(frozen=True)
class Residuals:
    """Tables over some of `attributes`, which have `sizes` values. The file holds the numbers in
    the column `count`, table by table, the last attribute fastest.
    """

    kind: ClassVar[str] = "residuals"

    attributes: tuple[str, ...]
    sizes: tuple[int, ...]
    tables: tuple[MarginalTable, ...]
    count: str = "count"

    @cached_property
    def sets(self) -> frozenset[frozenset[int]]:
        """The sets of attributes that have a table."""
        return frozenset(frozenset(table.places) for table in self.tables)

    @property
    def numbers(self) -> int:
        """The number of rows of the file."""
        return sum(table.numbers(self.sizes) for table in self.tables)

    def slices(self) -> Iterator[slice]:
        """Yield the slice of the file that each table has."""
        begin = 0
        for table in self.tables:
            end = begin + table.numbers(self.sizes)
            yield slice(begin, end)
            begin = end

    def to_dict(self) -> dict[str, Any]:
        laws = list(dict.fromkeys(table.law for table in self.tables))
        numbered = {law: number for number, law in enumerate(laws)}
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "sizes": list(self.sizes),
            "laws": [law.to_dict() for law in laws],
            "tables": [
                [list(table.places), table.form, numbered[table.law]] for table in self.tables
            ],
            "count": self.count,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Residuals:
        laws = [noise_law_from_dict(each) for each in data["laws"]]
        tables = tuple(
            MarginalTable(tuple(places), form, laws[number])
            for places, form, number in data["tables"]
        )
        names, sizes = stored.items(stored.text, data["attributes"]), data["sizes"]
        return cls(names, stored.items(stored.whole, sizes), tables, stored.text(data["count"]))


# --- the residual basis --------------------------------------------------------------------------
#
# `to_contrasts` is an orthonormal change of coordinates (Helmert's). Along an axis of n values,
# coordinate 0 is their sum over √n; coordinate k is the scaled difference between the mean of the
# first k values and the next one. So `from_contrasts`, its transpose, is its inverse. Independent
# noise of one variance stays so. The coordinates from 1 on hold what a table has beyond its sums.

Tensor = npt.NDArray[np.float64]


def to_contrasts(table: npt.NDArray[Any], axes: Sequence[int] | None = None) -> Tensor:
    """Return a table in orthonormal coordinates along `axes` (all by default)."""
    found = np.asarray(table, np.float64)
    for axis in range(found.ndim) if axes is None else axes:
        found = np.moveaxis(_split_last(np.moveaxis(found, axis, -1)), -1, axis)
    return found


def from_contrasts(coordinates: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Return the table with these coordinates: the inverse and transpose of `to_contrasts`."""
    found = coordinates
    for axis in range(found.ndim) if axes is None else axes:
        found = np.moveaxis(_join_last(np.moveaxis(found, axis, -1)), -1, axis)
    return found


def _split_last(table: Tensor) -> Tensor:
    size = table.shape[-1]
    sums = np.cumsum(table, axis=-1)
    found = np.empty_like(sums)
    found[..., 0] = sums[..., -1] / np.sqrt(size)
    places = np.arange(1.0, size)
    found[..., 1:] = (sums[..., :-1] - places * table[..., 1:]) / np.sqrt(places * (places + 1))
    return found


def _join_last(coordinates: Tensor) -> Tensor:
    size = coordinates.shape[-1]
    places = np.arange(1.0, size)
    scaled = coordinates[..., 1:] / np.sqrt(places * (places + 1))
    found = np.empty_like(coordinates)
    found[...] = coordinates[..., :1] / np.sqrt(size)
    # Value j is in the first k values of every coordinate k > j, and is the next one of k = j.
    found[..., :-1] += np.cumsum(scaled[..., ::-1], axis=-1)[..., ::-1]
    found[..., 1:] -= places * scaled
    return found


def differences(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the first value minus each of the others, along every axis: integers that determine
    the residual of a table.
    """
    found = table
    for axis in range(table.ndim):
        lead = np.moveaxis(found, axis, 0)
        found = np.moveaxis(lead[:1] - lead[1:], 0, axis)
    return found


def residual_of_differences(differences: npt.NDArray[Any]) -> Tensor:
    """Return the table whose sums along every axis are 0 and whose differences are given."""
    found = np.asarray(differences, np.float64)
    for axis in range(found.ndim):
        rest = np.moveaxis(found, axis, -1)
        first = rest.sum(axis=-1, keepdims=True) / (rest.shape[-1] + 1)
        found = np.moveaxis(np.concatenate([first, first - rest], axis=-1), -1, axis)
    return found


# --- least squares: every marginal is a sum of independent residuals -----------------------------
#
# The counts of a set S of attributes are a sum of residuals, one for each A ⊆ S: tables over A
# whose sums along every axis are 0. In the coordinates of `to_contrasts` they do not overlap, so
# noise of one variance s² on all cells of S is, for each A, noise of variance s² on a separate
# block. So generalised least squares over any set of tables is a weighted mean, residual by
# residual: a table with N_S cells measures the residual of A ⊆ S with a precision of N_A·t, where
# t = 1/(s²·N_S). Below, t is called the rate of the table.

Places = tuple[int, ...]
_MOST_KEPT = 1 << 24  # most coordinates of residuals in the cache


class ResidualSolver:
    """The weighted least squares estimate of every marginal that the tables determine.

    With `rows`, the number of rows is known: the residual of no attributes, which is the total, has
    infinite precision. All other residuals are those without it, since residuals do not overlap.
    """

    def __init__(
        self, design: Residuals, numbers: npt.NDArray[np.int64], rows: int | None = None
    ) -> None:
        self.design = design
        self.sizes = design.sizes
        self.rows = rows
        self._numbers = numbers
        self._slices = list(design.slices())
        self._rates: dict[Places, float] = {}
        self._residuals = Cache[Places, Tensor](_MOST_KEPT)

    @cached_property
    def rates(self) -> npt.NDArray[np.float64]:
        """The rate `t` of each table: its weight in least squares."""
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
        """The number of cells of the marginal of each table."""
        return np.array([float(table.cells(self.sizes)) for table in self.design.tables])

    @cached_property
    def wholes(self) -> npt.NDArray[np.intp]:
        """The indices of the tables that are marginals: they measure the residuals of all
        subsets.
        """
        tables = enumerate(self.design.tables)
        return np.array([number for number, table in tables if table.form == "marginal"], np.intp)

    @cached_property
    def members(self) -> npt.NDArray[np.bool_]:
        """Whether each marginal (row) contains each attribute (column)."""
        found = np.zeros((len(self.wholes), len(self.sizes)), bool)
        for line, number in enumerate(self.wholes):
            found[line, list(self.design.tables[number].places)] = True
        return found

    @cached_property
    def singles(self) -> dict[Places, list[int]]:
        """The indices of the tables that measure one residual only, by its attributes."""
        found: dict[Places, list[int]] = {}
        for number, table in enumerate(self.design.tables):
            if table.form != "marginal":
                found.setdefault(table.places, []).append(number)
        return found

    def cells(self, places: Iterable[int]) -> int:
        return prod(self.sizes[place] for place in places)

    def determines(self, places: Places) -> bool:
        """Return whether the measured tables determine the marginal of these attributes."""
        subsets = (
            chosen for size in range(len(places) + 1) for chosen in combinations(places, size)
        )
        whole = self.members[:, list(places)].all(axis=1).any()
        return bool(whole or all(self.rate(each) > 0 for each in subsets))

    def rate(self, places: Places) -> float:
        """Return the sum of `t` over all tables that measure the residual of these attributes."""
        if not places and self.rows is not None:
            return inf
        if places not in self._rates:
            found = float(self.rates[self._telling(places)].sum())
            empty = any(self.sizes[place] == 1 for place in places)  # the residual is 0
            self._rates[places] = 1.0 if empty else found
        return self._rates[places]

    def block_rates(self, places: Places) -> Tensor:
        """Return the `rate` of every subset, as a tensor over the coordinates of the whole
        table.
        """
        narrow = np.empty((2,) * len(places))
        for size in range(len(places) + 1):
            for chosen in combinations(range(len(places)), size):
                index = tuple(int(axis in chosen) for axis in range(len(places)))
                narrow[index] = self.rate(tuple(places[axis] for axis in chosen))
        axes = [np.minimum(np.arange(self.sizes[place]), 1) for place in places]
        wide: Tensor = narrow[np.ix_(*axes)] if places else narrow
        return wide

    def marginal(self, places: Places) -> Tensor:
        """Return the estimated counts of all cells of these attributes."""
        coordinates = np.zeros([self.sizes[place] for place in places])
        for size in range(len(places) + 1):
            for chosen in combinations(range(len(places)), size):
                part = self.residual(tuple(places[axis] for axis in chosen))
                axes = range(len(places))
                block = tuple(slice(1, None) if axis in chosen else 0 for axis in axes)
                others = self.cells(places[axis] for axis in axes if axis not in chosen)
                coordinates[block] = part / sqrt(others)
        return from_contrasts(coordinates)

    def residual(self, places: Places) -> Tensor:
        """Return the estimated residual of these attributes in orthonormal coordinates."""
        size = prod(self.sizes[place] - 1 for place in places)
        return self._residuals.get_or_make(places, size, lambda: self._weighed(places))

    def _weighed(self, places: Places) -> Tensor:
        if not places and self.rows is not None:
            return np.array(float(self.rows))
        total = np.zeros([self.sizes[place] for place in places])
        for number in self._telling(places):
            total += self.rates[number] * self._told(number, places)
        inner = (slice(1, None),) * len(places)
        return to_contrasts(total)[inner] / self.rate(places)

    def _telling(self, places: Places) -> npt.NDArray[np.intp]:
        whole = self.wholes[self.members[:, list(places)].all(axis=1)]
        return np.concatenate([whole, np.array(self.singles.get(places, []), np.intp)])

    def _told(self, number: int, places: Places) -> Tensor:
        """Return a table over these attributes whose residual is that of one measured table."""
        table = self.design.tables[number]
        numbers = self._numbers[self._slices[number]].reshape(table.shape(self.sizes))
        if table.form == "marginal":
            others = tuple(axis for axis, place in enumerate(table.places) if place not in places)
            return np.asarray(numbers.sum(axis=others), np.float64)
        return residual_of_differences(numbers)


# --- errors of weighted sums of estimated cells --------------------------------------------------


@dataclass(frozen=True)
class SumError:
    """Moments of a sum of independent noises with coefficients cᵢ and fourth cumulants κᵢ: its
    variance, its fourth cumulant Σ κᵢ cᵢ⁴, and the largest |cᵢ|.
    """

    variance: float
    fourth: float
    largest: float


def sum_error(solver: ResidualSolver, places: Places, weights: Tensor) -> SumError:
    """Return the error of Σ weights · estimated counts, over the cells of these attributes.

    Let ω be the weights in orthonormal coordinates and g = ω/rate, block by block. The variance is
    Σ ω·g/N. A marginal over S has its noise multiplied by t·g restricted to the attributes C that
    it shares with the question, transformed back into a table over C and repeated along the others.
    """
    cells = solver.cells(places)
    omega = to_contrasts(weights)
    scaled = omega / solver.block_rates(places)
    found = [_wholes(solver, places, scaled), _singles(solver, places, scaled)]
    return SumError(
        float((omega * scaled).sum()) / cells,
        sum(fourth for fourth, _ in found),
        max(largest for _, largest in found),
    )


def sum_covariance(
    solver: ResidualSolver, first: tuple[Places, Tensor], second: tuple[Places, Tensor]
) -> float:
    """Return the covariance of the errors of two weighted sums, each given by its attributes and
    weights.
    """
    common = tuple(place for place in first[0] if place in second[0])
    one, other = (
        _along(to_contrasts(weights), [places.index(place) for place in common])
        for places, weights in (first, second)
    )
    product = float((one * other / solver.block_rates(common)).sum())
    return product / sqrt(solver.cells(first[0]) * solver.cells(second[0]))


def _wholes(solver: ResidualSolver, places: Places, scaled: Tensor) -> tuple[float, float]:
    """Return the fourth cumulant and the largest coefficient of the noise of marginals. Marginals
    that share the same attributes with the question are handled together.
    """
    fourth = largest = 0.0
    shared = solver.members[:, list(places)] @ (1 << np.arange(len(places)))
    for code in np.unique(shared):
        axes = [axis for axis in range(len(places)) if code >> axis & 1]
        numbers = solver.wholes[shared == code]
        kept = tuple(places[axis] for axis in axes)
        table = from_contrasts(_along(scaled, axes)) * sqrt(
            solver.cells(kept) / solver.cells(places)
        )
        rates = solver.rates[numbers]
        repeated = solver.cell_numbers[numbers] / solver.cells(kept)
        fourths = float((solver.fourths[numbers] * rates**4 * repeated).sum())
        fourth += fourths * float((table**4).sum())
        largest = max(largest, float(rates.max() * np.abs(table).max()))
    return fourth, largest


def _singles(solver: ResidualSolver, places: Places, scaled: Tensor) -> tuple[float, float]:
    """Return the fourth cumulant and the largest coefficient of the noise of residuals and
    contrasts.
    """
    fourth = largest = 0.0
    for size in range(len(places) + 1):
        for axes in combinations(range(len(places)), size):
            kept = tuple(places[axis] for axis in axes)
            for number in solver.singles.get(kept, []):
                table = _coefficients(solver, number, _along(scaled, axes))
                table = table * (solver.rates[number] / sqrt(solver.cells(places)))
                fourth += float(solver.fourths[number] * (table**4).sum())
                largest = max(largest, float(np.abs(table).max(initial=0.0)))
    return fourth, largest


def _coefficients(solver: ResidualSolver, number: int, scaled: Tensor) -> Tensor:
    """Return the coefficients of the noise of one residual, up to the table's rate and 1/√N."""
    inner = (slice(1, None),) * scaled.ndim
    table = solver.design.tables[number]
    if table.form == "contrast":
        return scaled[inner]
    alone = np.zeros_like(scaled)
    alone[inner] = scaled[inner]
    return from_contrasts(alone) * sqrt(solver.cells(table.places))


def _along(coordinates: Tensor, axes: Any) -> Tensor:
    """Return the coordinates with index 0 along all axes except `axes`."""
    index = tuple(slice(None) if axis in axes else 0 for axis in range(coordinates.ndim))
    return np.asarray(coordinates[index])
