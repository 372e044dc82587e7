"""What noisy marginals and residuals cost: how far one person moves them, against their noise.

A person has at most c rows. All that is charged for is convex in the change of the counts, so the
worst change has all its rows in one cell u, taken away, added, or moved to another cell v. With
replacement, let D be the attributes in which u and v differ; `_swapped` tries every D, where there
are not too many, since no choice of u and v is the worst one for all tables at once.

Residuals with Gaussian noise cost less than the marginals they come from. Published are the
differences `Sz` of a table of N cells with independent discrete Gaussian noise z of parameter σ².
Let P project on the tables whose sums along every axis are 0, and K be the whole tables that S
turns into 0. Summing over all z with the same differences,

    P(Sz = v) ∝ exp(-|P z_v|²/2σ²) · Σ_{k ∈ K} exp(-|k + (1-P) z_v|²/2σ²),   with S z_v = v.

Without the second factor this is the discrete Gaussian on the lattice P·Z^N, which a move by the
lattice vector d shifts: ρ = |d|²/2σ² (the proof of Canonne, Kamath and Steinke for Z holds on any
lattice), and |P e_u|² = Π(n-1)/n. The second factor is nearly constant. Lines (ones along one axis)
span K: take as many independent ones as K has dimensions, axis by axis, and sum along one after the
other. Each is a sum of exp(-b²(t+θ)²/2σ²) over whole t, where b² is the squared length of what the
line has beyond those before it: at most n·Π(m-1)/m, n being the size of its axis and m those of the
axes before, N/n·Π(m-1)/m of them. By Poisson's formula it is σ√2π/b · (1 ± e), with e = 2q/(1-q)
and q = exp(-2π²σ²/b²), whatever θ is. So the whole factor varies by at most Π (1+e)/(1-e) = e^τ
(cosets of the lattice that the lines span make up K, and each has the same bounds). All
probabilities are then within factors of e^±τ of those of the lattice Gaussian; if those are (ε,
δ)-DP, these are (ε + 2τ, e^τ δ)-DP. A lower price is paid only where τ < 2^-100; otherwise that of
the whole table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod

import numpy as np

from scumble.model.designs.residuals import Table
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.law_gaussian import DiscreteGaussian
from scumble.model.privacy.accounting import Loss
from scumble.model.privacy.person import Person

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
def share(sizes: tuple[int, ...]) -> Fraction:
    """The squared length of one row in the residual of attributes of these sizes."""
    return prod((Fraction(size - 1, size) for size in sizes), start=Fraction(1))


@dataclass(frozen=True)
class Priced:
    """A table as its price sees it: `unit` is the cost of a change of length 1, `moved` that of one
    row in these terms. `turning` tables are moved by a swap according to the signs of a contrast,
    the others by twice what a row moves them.
    """

    places: tuple[int, ...]
    unit: float
    moved: float
    turning: bool


def priced(table: Table, sizes: Sequence[int]) -> Priced:
    """How a table is priced; whether a residual has the lower price follows from its noise."""
    contrast = table.form == "contrast"
    if isinstance(table.law, DiscreteLaplace):
        return Priced(table.places, float(1 / table.law.scale), 1.0, contrast)
    unit = float(1 / (2 * table.law.parameter))
    own = tuple(sorted(sizes[place] for place in table.places))
    if table.form == "residual" and closeness(own, float(table.law.parameter)) < NEAR:
        return Priced(table.places, unit, float(share(own)), True)
    return Priced(table.places, unit, 1.0, contrast)


def cost(tables: Sequence[Table], sizes: Sequence[int], person: Person) -> Loss:
    """The loss of publishing all tables: pure ε for Laplace noise, ρ for Gaussian noise."""
    pure = all(isinstance(table.law, DiscreteLaplace) for table in tables)
    if not pure and not all(isinstance(table.law, DiscreteGaussian) for table in tables):
        raise ValueError("tables with noise of two kinds have no common price")
    found = total([priced(table, sizes) for table in tables], sizes, person, pure=pure)
    loss = Fraction(found)
    return Loss(loss) if pure else Loss(rho=loss)


def total(tables: Sequence[Priced], sizes: Sequence[int], person: Person, *, pure: bool) -> float:
    """The largest cost over all changes of one person's rows, rounded up."""
    found = math.fsum(each.unit * each.moved for each in tables)
    if person.neighbours == "replace":
        found = max(found, _swapped(tables, sizes, pure=pure))
    return found * (person.rows if pure else person.rows**2) * (1 + _ROUNDING)


def _swapped(tables: Sequence[Priced], sizes: Sequence[int], *, pure: bool) -> float:
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
