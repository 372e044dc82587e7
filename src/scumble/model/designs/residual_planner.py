"""Plans of marginals: which tables to measure for a workload and with how much noise, the privacy
cost of tables with its proof, and the choice of cuboids of a data cube.

A workload is sets of attributes with weights. Its total variance is the weighted sum of the
variances of all cells of all its marginals; plans minimise it for a given privacy cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.model.designs.residuals import Form, MarginalTable
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit

Places = tuple[int, ...]
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
# Without the second factor this is the discrete Gaussian on the lattice P·Z^N, which a move by
# the lattice vector d shifts: ρ = |d|²/2σ² (the proof of Canonne, Kamath and Steinke for Z holds
# on any lattice), and |P e_u|² = Π(n-1)/n. The second factor is nearly constant. Lines (ones
# along one axis) span K: take as many independent ones as K has dimensions, axis by axis, and sum
# along one after the other. Each is a sum of exp(-b²(t+θ)²/2σ²) over integers t, where b² is the
# squared norm of the part of the line orthogonal to those before it: at most n·Π(m-1)/m, n being
# the size of its axis and m those of the axes before, N/n·Π(m-1)/m of them. By Poisson's formula it
# is σ√2π/b · (1 ± e), with e = 2q/(1-q) and q = exp(-2π²σ²/b²), whatever θ is. So the whole factor
# varies by at most Π (1+e)/(1-e) = e^τ (cosets of the lattice that the lines span make up K, and
# each has the same bounds). All probabilities are then within factors of e^±τ of those of the
# lattice Gaussian; if those are (ε, δ)-DP, these are (ε + 2τ, e^τ δ)-DP. The lower cost is charged
# only where τ < 2^-100; otherwise the cost of the whole table is charged.

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
    """Return the largest cost over all changes of one person's rows, rounded up."""
    found = math.fsum(each.unit * each.moved for each in tables)
    if unit.neighbours == "replace":
        found = max(found, _swapped(tables, sizes, pure=pure))
    return found * (unit.rows if pure else unit.rows**2) * (1 + _ROUNDING)


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

MOST_ATTRIBUTES = 10
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
