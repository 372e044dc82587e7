"""Which marginals to measure, at which price; data-cube selection.

Plans: which tables to measure for a workload of marginals, and with how much noise each.

A workload is sets of attributes with weights; its loss is the weighted sum of the variances of all
cells of all its marginals.
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

_STEP = math.log(1.02)  # noise on a grid: 1 % off the best noise costs 1 part in 10^4
_BITS = 20  # binary digits of a scale or variance
_MARGIN = 1 - 2.0**-19  # what rounding noise up to so many digits gives back is not used


def closure(sets: Sequence[Places]) -> list[Places]:
    """All subsets of the sets, the empty one first."""
    found = {
        chosen for each in sets for size in range(len(each) + 1)
        for chosen in combinations(each, size)
    }  # fmt: skip
    return sorted(found, key=lambda places: (len(places), places))


def plan_residuals(
    workload: MarginalWeights, sizes: Sequence[int], unit: PrivacyUnit, rho: Fraction
) -> list[MarginalTable]:
    """The residuals of all subsets with the Gaussian noise that makes the loss least for ρ.

    The loss is Σ v σ² and the price Σ p/2σ², so σ² ∝ √(p/v). Where so little noise is due that the
    lower price of a residual is not proven, the whole marginal is measured at its own price.
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
    """The marginals of the workload themselves, with the noise of least loss if each is read from
    its own table: budgets ∝ s^(1/3) for pure ε, where s is the weight of all its cells, and ∝ √s
    for Gaussian noise.
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
    """Marginals that all have the same noise."""
    return _scaled(dict.fromkeys(sets, 1.0), "marginal", sizes, unit, loss, gaussian=gaussian)


def plan_contrasts(
    workload: MarginalWeights, sizes: Sequence[int], unit: PrivacyUnit, epsilon: Fraction
) -> list[MarginalTable]:
    """The one contrast of every subset, for attributes of two values, with budgets ∝ s^(1/3). A
    cell of a marginal of k attributes has 1/2^k of each, so that s is Σ weight/2^k.
    """
    needs = {places: need / 2 ** len(places) for places, need in _needs(workload, sizes).items()}
    return _scaled(needs, "contrast", sizes, unit, epsilon, gaussian=False)


def ordered(tables: Sequence[MarginalTable]) -> list[MarginalTable]:
    """Tables with the same noise one after the other: samplers are made once for each."""
    return sorted(tables, key=lambda table: (_size(table.law), len(table.places), table.places))


def _needs(workload: MarginalWeights, sizes: Sequence[int]) -> dict[Places, float]:
    """What the loss has for one unit of variance of each residual, Σ over the marginals B ⊇ A of
    weight · Π_A (n-1) / Π_(B∖A) n; residuals that say nothing are left out.
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
    """Tables of one form whose noise follows from what each is needed for."""
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
    """The nearest number of a grid whose steps are 2 %."""
    return math.exp(round(math.log(number) / _STEP) * _STEP)


def _above(number: float) -> Fraction:
    """A fraction of few digits just above a number."""
    exponent = _BITS - math.frexp(number)[1]
    scaled = Fraction(number) * Fraction(2) ** exponent
    return Fraction(math.ceil(scaled)) / Fraction(2) ** exponent


def _size(law: NoiseLaw) -> Fraction:
    return law.scale if isinstance(law, DiscreteLaplace) else law.parameter


# What noisy marginals and residuals cost: how far one person moves them, against their noise.
#
# A person has at most c rows. All that is charged for is convex in the change of the counts, so
# the worst change has all its rows in one cell u, taken away, added, or moved to another cell v.
# With replacement, let D be the attributes in which u and v differ; `_swapped` tries every D,
# where there are not too many, since no choice of u and v is the worst one for all tables at
# once.
#
# Residuals with Gaussian noise cost less than the marginals they come from. Published are the
# differences `Sz` of a table of N cells with independent discrete Gaussian noise z of parameter
# σ². Let P project on the tables whose sums along every axis are 0, and K be the whole tables
# that S turns into 0. Summing over all z with the same differences,
#
#     P(Sz = v) ∝ exp(-|P z_v|²/2σ²) · Σ_{k ∈ K} exp(-|k + (1-P) z_v|²/2σ²),   with S z_v = v.
#
# Without the second factor this is the discrete Gaussian on the lattice P·Z^N, which a move by
# the lattice vector d shifts: ρ = |d|²/2σ² (the proof of Canonne, Kamath and Steinke for Z holds
# on any lattice), and |P e_u|² = Π(n-1)/n. The second factor is nearly constant. Lines (ones
# along one axis) span K: take as many independent ones as K has dimensions, axis by axis, and sum
# along one after the other. Each is a sum of exp(-b²(t+θ)²/2σ²) over whole t, where b² is the
# squared length of what the line has beyond those before it: at most n·Π(m-1)/m, n being the size
# of its axis and m those of the axes before, N/n·Π(m-1)/m of them. By Poisson's formula it is
# σ√2π/b · (1 ± e), with e = 2q/(1-q) and q = exp(-2π²σ²/b²), whatever θ is. So the whole factor
# varies by at most Π (1+e)/(1-e) = e^τ (cosets of the lattice that the lines span make up K, and
# each has the same bounds). All probabilities are then within factors of e^±τ of those of the
# lattice Gaussian; if those are (ε, δ)-DP, these are (ε + 2τ, e^τ δ)-DP. A lower price is paid
# only where τ < 2^-100; otherwise that of the whole table.

NEAR = 2.0**-100
MOST_JOINT = 20  # attributes of which every set D is tried
_POISSON = 19.7392  # just below 2π²
_ROUNDING = 2.0**-40  # far more than floating point can lose in the sums below


@lru_cache(maxsize=1 << 12)
def closeness(sizes: tuple[int, ...], variance: float) -> float:
    """A bound on τ: how far, as a factor e^τ, the differences of noise with this parameter are from
    the lattice Gaussian.
    """
    found, length, lines = 0.0, 1.0, prod(sizes)
    for size in sorted(sizes):  # long lines come last, when most of them is known already
        lines //= size
        q = math.exp(-_POISSON * variance / (length * size))
        if 3 * q >= 1:
            return math.inf
        e = 2 * q / (1 - q)
        found += lines * (math.log1p(e) - math.log1p(-e))
        lines, length = lines * (size - 1), length * (size - 1) / size
        if size == 1:
            break  # all of the table is its sums
    return found * (1 + 1e-9)


@lru_cache(maxsize=1 << 12)
def row_share(sizes: tuple[int, ...]) -> Fraction:
    """The squared length of one row in the residual of attributes of these sizes."""
    return prod((Fraction(size - 1, size) for size in sizes), start=Fraction(1))


@dataclass(frozen=True)
class TableCost:
    """A table as its price sees it: `unit` is the cost of a change of length 1, `moved` that of one
    row in these terms. `turning` tables are moved by a swap according to the signs of a contrast,
    the others by twice what a row moves them.
    """

    places: tuple[int, ...]
    unit: float
    moved: float
    turning: bool


def table_cost(table: MarginalTable, sizes: Sequence[int]) -> TableCost:
    """How a table is priced; whether a residual has the lower price follows from its noise."""
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
    """The loss of publishing all tables: pure ε for Laplace noise, ρ for Gaussian noise."""
    pure = all(isinstance(table.law, DiscreteLaplace) for table in tables)
    if not pure and not all(isinstance(table.law, DiscreteGaussian) for table in tables):
        raise ValueError("tables with noise of two kinds have no common price")
    found = largest_cost([table_cost(table, sizes) for table in tables], sizes, unit, pure=pure)
    loss = Fraction(found)
    return PrivacyLoss(loss) if pure else PrivacyLoss(rho=loss)


def largest_cost(
    tables: Sequence[TableCost], sizes: Sequence[int], unit: PrivacyUnit, *, pure: bool
) -> float:
    """The largest cost over all changes of one person's rows, rounded up."""
    found = math.fsum(each.unit * each.moved for each in tables)
    if unit.neighbours == "replace":
        found = max(found, _swapped(tables, sizes, pure=pure))
    return found * (unit.rows if pure else unit.rows**2) * (1 + _ROUNDING)


def _swapped(tables: Sequence[TableCost], sizes: Sequence[int], *, pure: bool) -> float:
    """The largest cost of moving one row to another cell.

    In a residual of A the two rows have the inner product |P e_u|² · Π over A∩D of -1/(n-1), so
    their difference has the squared length 2·moved·(1 - Π). A contrast is the case of n = 2; with
    pure costs it counts by its absolute change.
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
    """The least that Π over A∩D of -1/(n-1) can be: one attribute of the fewest values differs."""
    return -1 / (min(sizes) - 1) if sizes else 1.0


# Cuboids: which marginals of a data cube to measure, so that all others follow from them well.
#
# A cube of d attributes has 2^d cuboids, one for each set of attributes, numbered by the bits of
# the set. A cuboid that is measured with noise of variance v tells a smaller one with variance v
# times the number of its cells that fall together; s measured ones share the budget.

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

MOST_ATTRIBUTES = 10
_MOST_TRIED = 64


@dataclass(frozen=True)
class CuboidLattice:
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
