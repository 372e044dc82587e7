"""Noisy marginals and residuals: the design, the residual basis, least squares over all tables, and
the error of weighted sums of estimated cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import combinations, pairwise
from math import inf, prod, sqrt
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.cache import Cache
from scumble.model.designs.design import Design, Extents
from scumble.model.laws import NoiseLaw, noise_law_from_dict
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.model.privacy.stated_loss import StatedLoss, of_loss

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
class Residuals(Design):
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
    def extents(self) -> Extents:
        """Every attribute, and how many values it has."""
        return tuple(
            ((name,), size) for name, size in zip(self.attributes, self.sizes, strict=True)
        )

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
            MarginalTable(
                stored.items(stored.whole, places),
                stored.one_of(form, get_args(Form)),
                laws[stored.whole(number)],
            )
            for places, form, number in data["tables"]
        )
        names = stored.items(stored.text, data["attributes"])
        sizes = stored.items(partial(stored.whole, least=1), data["sizes"])
        if len(names) != len(sizes):
            raise ValueError("every attribute has a size")
        for table in tables:
            rising = all(one < other for one, other in pairwise(table.places))
            if not rising or not {*table.places} <= {*range(len(names))}:
                raise ValueError("a table is over some of the attributes, in rising order")
        return cls(names, sizes, tables, stored.text(data["count"]))

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        return of_loss(privacy_cost(self.tables, self.sizes, unit))


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
# residual: a table with N_S cells measures the residual of A ⊆ S with a precision of N_A·t, where t
# = 1/(s²·N_S). Below, t is called the rate of the table.

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


# --- plans ----------------------------------------------------------------------------------------
#
# Plans of marginals: which tables to measure for a workload and with how much noise, the privacy
# cost of tables with its proof, and the choice of cuboids of a data cube.
#
# A workload is sets of attributes with weights. Its total variance is the weighted sum of the
# variances of all cells of all its marginals; plans minimise it for a given privacy cost.

MarginalWeights = Mapping[Places, float]

_STEP = math.log(1.02)  # step of the noise grid: 1 % off the best noise costs 1 part in 10^4
_BITS = 20  # binary digits of a scale or variance
_MARGIN = 1 - 2.0**-19  # leaves room for rounding the noise up to `_BITS` digits


def closure(sets: Sequence[Places]) -> list[Places]:
    """Return all subsets of the sets, by size and then in order."""
    found = {
        chosen for each in sets for size in range(len(each) + 1)
        for chosen in combinations(each, size)
    }  # fmt: skip
    return sorted(found, key=lambda places: (len(places), places))


def plan_residuals(
    workload: MarginalWeights, sizes: Sequence[int], unit: PrivacyUnit, rho: Fraction
) -> list[MarginalTable]:
    """Return the residuals of all subsets with the Gaussian noise that minimises the total variance
    for a privacy cost of ρ.

    The total variance is Σ v σ² and the cost Σ p/2σ², so σ² ∝ √(p/v). Where the noise is so small
    that the lower cost of a residual is not proven, the whole marginal is measured at its own cost.
    """
    needs = _needs(workload, sizes)
    wholes: set[Places] = set()
    while True:
        shares = {each: 1.0 if each in wholes else _share(each, sizes) for each in needs}
        spread = {each: _rounded(math.sqrt(shares[each] / needs[each])) for each in needs}
        units = [TableCost(p, 0.5 / spread[p], shares[p], p not in wholes) for p in needs]
        factor = largest_cost(units, sizes, unit, pure=False) / (float(rho) * _MARGIN)
        laws = {each: DiscreteGaussian(_above(factor * each)) for each in set(spread.values())}
        tables = [
            MarginalTable(each, "marginal" if each in wholes else "residual", laws[spread[each]])
            for each in needs
        ]
        rough = {table.places for table in tables if not _near(table, sizes)}
        if not rough:
            return ordered(tables)
        wholes |= rough


def plan_marginals(
    workload: MarginalWeights,
    sizes: Sequence[int],
    unit: PrivacyUnit,
    loss: Fraction,
    *,
    gaussian: bool,
) -> list[MarginalTable]:
    """Return the marginals of the workload themselves, with the noise of least total variance if
    each is read from its own table: budgets ∝ s^(1/3) for pure ε, and ∝ √s for Gaussian noise,
    where s is the weight of all cells of a marginal.
    """
    needs = {places: weight * prod(sizes[p] for p in places) for places, weight in workload.items()}
    return _scaled(needs, "marginal", sizes, unit, loss, gaussian=gaussian)


def plan_equal_noise(
    sets: Sequence[Places],
    sizes: Sequence[int],
    unit: PrivacyUnit,
    loss: Fraction,
    *,
    gaussian: bool,
) -> list[MarginalTable]:
    """Return the marginals of `sets`, all with the same noise."""
    return _scaled(dict.fromkeys(sets, 1.0), "marginal", sizes, unit, loss, gaussian=gaussian)


def plan_contrasts(
    workload: MarginalWeights, sizes: Sequence[int], unit: PrivacyUnit, epsilon: Fraction
) -> list[MarginalTable]:
    """Return the one contrast of every subset, for attributes of two values, with budgets
    ∝ s^(1/3). A cell of a marginal of k attributes has 1/2^k of each contrast, so that
    s is Σ weight/2^k.
    """
    needs = {places: need / 2 ** len(places) for places, need in _needs(workload, sizes).items()}
    return _scaled(needs, "contrast", sizes, unit, epsilon, gaussian=False)


def ordered(tables: Sequence[MarginalTable]) -> list[MarginalTable]:
    """Return the tables sorted by noise, so that a sampler is made once for each law."""
    return sorted(tables, key=lambda table: (_size(table.law), len(table.places), table.places))


def _needs(workload: MarginalWeights, sizes: Sequence[int]) -> dict[Places, float]:
    """Return, for each residual A, the total variance per unit of its variance: Σ over the
    marginals B ⊇ A of weight · Π_A (n-1) / Π_(B∖A) n. Residuals that are always 0 are left out.
    """
    found: dict[Places, float] = {}
    for whole, weight in workload.items():
        each = weight / prod(sizes[place] for place in whole)
        for size in range(len(whole) + 1):
            for places in combinations(whole, size):
                found[places] = found.get(places, 0.0) + each
    needs = {
        places: each * prod(sizes[place] * (sizes[place] - 1) for place in places)
        for places, each in found.items()
    }
    return {places: need for places, need in needs.items() if need > 0}


def _scaled(
    needs: Mapping[Places, float],
    form: Form,
    sizes: Sequence[int],
    unit: PrivacyUnit,
    loss: Fraction,
    *,
    gaussian: bool,
) -> list[MarginalTable]:
    """Return tables of one form with the noise that is optimal for their `needs`."""
    power = -1 / 2 if gaussian else -1 / 3
    spread = {places: _rounded(need**power) for places, need in needs.items()}
    turning = form == "contrast"
    units = [TableCost(places, (0.5 if gaussian else 1) / each, 1.0, turning)
             for places, each in spread.items()]  # fmt: skip
    factor = largest_cost(units, sizes, unit, pure=not gaussian) / (float(loss) * _MARGIN)
    kind = DiscreteGaussian if gaussian else DiscreteLaplace
    laws = {each: kind(_above(factor * each)) for each in set(spread.values())}
    return ordered([MarginalTable(places, form, laws[each]) for places, each in spread.items()])


def _share(places: Places, sizes: Sequence[int]) -> float:
    return float(row_share(tuple(sorted(sizes[place] for place in places))))


def _near(table: MarginalTable, sizes: Sequence[int]) -> bool:
    if table.form != "residual" or isinstance(table.law, DiscreteLaplace):
        return True
    own = tuple(sorted(sizes[place] for place in table.places))
    return closeness(own, float(table.law.parameter)) < NEAR


def _rounded(number: float) -> float:
    """Return the nearest number of a grid whose steps are 2 %."""
    return math.exp(round(math.log(number) / _STEP) * _STEP)


def _above(number: float) -> Fraction:
    """Return a fraction of `_BITS` binary digits just above a number."""
    exponent = _BITS - math.frexp(number)[1]
    scaled = Fraction(number) * Fraction(2) ** exponent
    return Fraction(math.ceil(scaled)) / Fraction(2) ** exponent


def _size(law: NoiseLaw) -> Fraction:
    return law.scale if isinstance(law, DiscreteLaplace) else law.parameter


# --- the privacy cost of noisy marginals and residuals -------------------------------------------
#
# A person has at most c rows. The cost is convex in the change of the counts, so the worst change
# has all its rows in one cell u, removed, added, or moved to another cell v. With replacement, let
# D be the attributes in which u and v differ. `_swapped` tries every D, where there are not too
# many, since no choice of u and v is the worst one for all tables at once.
#
# Residuals with Gaussian noise cost less than the marginals they come from. The release has the
# differences `Sz` of a table of N cells with independent discrete Gaussian noise z of parameter σ².
# Let P project on the tables whose sums along every axis are 0, and let K be the integer tables
# that S maps to 0. Summing over all z with the same differences,
#
#     P(Sz = v) ∝ exp(-|P z_v|²/2σ²) · Σ_{k ∈ K} exp(-|k + (1-P) z_v|²/2σ²),   with S z_v = v.
#
# Without the second factor this is the discrete Gaussian on the lattice P·Z^N, which a move by the
# lattice vector d shifts: ρ = |d|²/2σ² (the proof of Canonne, Kamath and Steinke for Z holds on any
# lattice), and |P e_u|² = Π(n-1)/n. The second factor is nearly constant. Lines (ones along one
# axis) span K: take as many independent ones as K has dimensions, axis by axis, and sum along one
# after the other. Each is a sum of exp(-b²(t+θ)²/2σ²) over integers t, where b² is the squared norm
# of the part of the line orthogonal to those before it: at most n·Π(m-1)/m, n being the size of its
# axis and m those of the axes before, N/n·Π(m-1)/m of them. By Poisson's formula it is σ√2π/b · (1
# ± e), with e = 2q/(1-q) and q = exp(-2π²σ²/b²), whatever θ is. So the whole factor varies by at
# most Π (1+e)/(1-e) = e^τ (cosets of the lattice that the lines span make up K, and each has the
# same bounds). All probabilities are then within factors of e^±τ of those of the lattice Gaussian;
# if those are (ε, δ)-DP, these are (ε + 2τ, e^τ δ)-DP. The lower cost is charged only where τ <
# 2^-100; otherwise the cost of the whole table is charged.

NEAR = 2.0**-100
MOST_JOINT = 20  # most attributes for which every set D is tried
_POISSON = 19.7392  # just below 2π²
_ROUNDING = 2.0**-40  # far more than the relative rounding error of the sums below


@lru_cache(maxsize=1 << 12)
def closeness(sizes: tuple[int, ...], variance: float) -> float:
    """Return a bound on τ: the probabilities of the differences of noise with this parameter are
    within a factor e^τ of those of the lattice Gaussian.
    """
    found, length, lines = 0.0, 1.0, prod(sizes)
    for size in sorted(sizes):  # long lines come last, when their orthogonal part is shortest
        lines //= size
        q = math.exp(-_POISSON * variance / (length * size))
        if 3 * q >= 1:
            return math.inf
        e = 2 * q / (1 - q)
        found += lines * (math.log1p(e) - math.log1p(-e))
        lines, length = lines * (size - 1), length * (size - 1) / size
        if size == 1:
            break  # the residual is 0
    return found * (1 + 1e-9)


@lru_cache(maxsize=1 << 12)
def row_share(sizes: tuple[int, ...]) -> Fraction:
    """Return the squared norm of one row in the residual of attributes of these sizes."""
    return prod((Fraction(size - 1, size) for size in sizes), start=Fraction(1))


@dataclass(frozen=True)
class TableCost:
    """The cost of one table: `unit` is the cost of a change of norm 1, `moved` the squared norm of
    the change by one row (1 for pure costs). Replacing a row changes `turning` tables according to
    the inner product of the two rows, and the others by twice the change of one row.
    """

    places: tuple[int, ...]
    unit: float
    moved: float
    turning: bool


def table_cost(table: MarginalTable, sizes: Sequence[int]) -> TableCost:
    """Return the cost of a table; its noise decides whether a residual has the lower cost."""
    contrast = table.form == "contrast"
    if isinstance(table.law, DiscreteLaplace):
        return TableCost(table.places, float(1 / table.law.scale), 1.0, contrast)
    unit = float(1 / (2 * table.law.parameter))
    own = tuple(sorted(sizes[place] for place in table.places))
    if table.form == "residual" and closeness(own, float(table.law.parameter)) < NEAR:
        return TableCost(table.places, unit, float(row_share(own)), True)
    return TableCost(table.places, unit, 1.0, contrast)


def privacy_cost(
    tables: Sequence[MarginalTable], sizes: Sequence[int], unit: PrivacyUnit
) -> PrivacyLoss:
    """Return the privacy loss of publishing all tables: a pure ε for Laplace noise, a ρ for
    Gaussian noise.
    """
    pure = all(isinstance(table.law, DiscreteLaplace) for table in tables)
    if not pure and not all(isinstance(table.law, DiscreteGaussian) for table in tables):
        raise ValueError("tables with noise of two kinds have no common cost")
    found = largest_cost([table_cost(table, sizes) for table in tables], sizes, unit, pure=pure)
    loss = Fraction(found)
    return PrivacyLoss(loss) if pure else PrivacyLoss(rho=loss)


def largest_cost(
    tables: Sequence[TableCost], sizes: Sequence[int], unit: PrivacyUnit, *, pure: bool
) -> float:
    """Return the largest cost over all changes of one person's rows, rounded up.

    Of amounts with signs (see `PrivacyUnit`) the worst change is in one cell, from the least to the
    largest. Of sided amounts it is that of counts, or from one side to another.
    """
    found = math.fsum(each.unit * each.moved for each in tables)
    if unit.amount and not unit.sided:
        norm = unit.sensitivity if pure else unit.squared_sensitivity(nonnegative_gram=False)
        return found * norm * (1 + _ROUNDING)
    if unit.neighbours == "replace":
        found = max(2 * found if unit.sided else found, _swapped(tables, sizes, pure=pure))
    rows = unit.rows * max(unit.amount, 1)
    return found * (rows if pure else rows**2) * (1 + _ROUNDING)


def _swapped(tables: Sequence[TableCost], sizes: Sequence[int], *, pure: bool) -> float:
    """Return the largest cost of moving one row to another cell.

    In a residual of A the two rows have the inner product |P e_u|² · Π over A∩D of -1/(n-1), so
    their difference has the squared norm 2·moved·(1 - Π). A contrast is the case of n = 2; with
    pure costs its absolute change counts.
    """
    steady = math.fsum(2 * each.unit * each.moved for each in tables if not each.turning)
    turning = [each for each in tables if each.turning]
    weights = [each.unit * each.moved * (1 if pure else 2) for each in turning]
    attributes = sorted({place for each in turning for place in each.places})
    if len(attributes) > MOST_JOINT:
        return steady + math.fsum(
            weight * (1 - _least([sizes[place] for place in each.places]))
            for each, weight in zip(turning, weights, strict=True)
        )
    products = np.zeros((2,) * len(attributes))
    for each, weight in zip(turning, weights, strict=True):
        products[tuple(int(place in each.places) for place in attributes)] += weight
    for axis, place in enumerate(attributes):
        lead = np.moveaxis(products, axis, 0)
        lead[0], lead[1] = lead[0] + lead[1], lead[0] - lead[1] / max(sizes[place] - 1, 1)
    everything = math.fsum(weights)
    return steady + everything * (1 + _ROUNDING) - float(products.min())


def _least(sizes: Sequence[int]) -> float:
    """Return the least value of Π over A∩D of -1/(n-1): only one attribute, with the fewest values,
    differs.
    """
    return -1 / (min(sizes) - 1) if sizes else 1.0


# --- data cubes: which cuboids (marginals) to measure, so that the others are derived well -------
#
# A cube of d attributes has 2^d cuboids, one for each set of attributes, numbered by the bits of
# the set. A cuboid that is measured with noise of variance v gives a smaller one with variance v
# times the number of its cells that are added up; all measured cuboids share the budget.

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

MOST_CUBE_ATTRIBUTES = 10
_MOST_TRIED = 64


@dataclass(frozen=True)
class CuboidLattice:
    """The lattice of cuboids. `asked` marks those to be answered, `possible` those that may be
    measured. `noise(count)` is the variance of each of `count` measured cuboids, up to a factor.
    """

    sizes: tuple[int, ...]
    asked: Flags
    possible: Flags
    noise: Callable[[int], float]

    @property
    def cells(self) -> Floats:
        """The number of cells of each cuboid."""
        return _products(self.sizes)

    def together(self) -> Floats:
        """Return how many cells of one cuboid (row) add up to a cell of another (column); infinite
        if the first does not determine the second.
        """
        number = np.arange(1 << len(self.sizes))
        inside = (number[None, :] & ~number[:, None]) == 0
        ratio: Floats = np.where(inside, self.cells[:, None] / self.cells[None, :], np.inf)
        return ratio

    def least_worst(self) -> list[Places]:
        """Return cuboids to measure that make the largest variance of the asked ones small
        (BMAX).
        """
        ratios = self.together()[self.possible][:, self.asked]
        steps = np.unique(ratios[np.isfinite(ratios)])
        if len(steps) > _MOST_TRIED:
            steps = steps[np.unique(np.linspace(0, len(steps) - 1, _MOST_TRIED).astype(int))]
        plans = [_cover(ratios <= step, 1 << len(self.sizes)) for step in steps]
        return self._best(plans, lambda variances: float(variances.max()))

    def most_within(self, variance: float) -> list[Places]:
        """Return cuboids to measure with which many asked ones have at most this variance
        (PMOST).
        """
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
        """Return the variance of a cell of every cuboid after least squares over the measured ones.

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
    """Return the product of every subset of the numbers, indexed by the bits of the subset."""
    found = np.ones(1)
    for number in numbers:
        found = np.concatenate([found, found * number])
    return found


def _cover(covers: Flags, most: int) -> list[int]:
    """Return rows that together cover all columns that any row covers, at most `most`, chosen
    greedily: at most ln(number of columns) + 1 times as many as needed.
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
    """Return the set of attributes that the bits of `number` denote."""
    return tuple(bit for bit in range(number.bit_length()) if number >> bit & 1)
