"""Plans: which tables to measure for a workload of marginals, and with how much noise each.

A workload is sets of attributes with weights; its loss is the weighted sum of the variances of all
cells of all its marginals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import prod

from scumble.model.designs.residual_price import NEAR, Priced, closeness, share, total
from scumble.model.designs.residuals import Form, NoiseLaw, Table
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.law_gaussian import DiscreteGaussian
from scumble.model.privacy.person import Person

Places = tuple[int, ...]
Workload = Mapping[Places, float]

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


def residuals(
    workload: Workload, sizes: Sequence[int], person: Person, rho: Fraction
) -> list[Table]:
    """The residuals of all subsets with the Gaussian noise that makes the loss least for ρ.

    The loss is Σ v σ² and the price Σ p/2σ², so σ² ∝ √(p/v). Where so little noise is due that the
    lower price of a residual is not proven, the whole marginal is measured at its own price.
    """
    needs = _needs(workload, sizes)
    wholes: set[Places] = set()
    while True:
        shares = {each: 1.0 if each in wholes else _share(each, sizes) for each in needs}
        spread = {each: _rounded(math.sqrt(shares[each] / needs[each])) for each in needs}
        units = [Priced(p, 0.5 / spread[p], shares[p], p not in wholes) for p in needs]
        factor = total(units, sizes, person, pure=False) / (float(rho) * _MARGIN)
        laws = {each: DiscreteGaussian(_above(factor * each)) for each in set(spread.values())}
        tables = [
            Table(each, "marginal" if each in wholes else "residual", laws[spread[each]])
            for each in needs
        ]
        rough = {table.places for table in tables if not _near(table, sizes)}
        if not rough:
            return ordered(tables)
        wholes |= rough


def marginals(
    workload: Workload, sizes: Sequence[int], person: Person, loss: Fraction, *, gaussian: bool
) -> list[Table]:
    """The marginals of the workload themselves, with the noise of least loss if each is read from
    its own table: budgets ∝ s^(1/3) for pure ε, where s is the weight of all its cells, and ∝ √s
    for Gaussian noise.
    """
    needs = {places: weight * prod(sizes[p] for p in places) for places, weight in workload.items()}
    return _scaled(needs, "marginal", sizes, person, loss, gaussian=gaussian)


def even(
    sets: Sequence[Places], sizes: Sequence[int], person: Person, loss: Fraction, *, gaussian: bool
) -> list[Table]:
    """Marginals that all have the same noise."""
    return _scaled(dict.fromkeys(sets, 1.0), "marginal", sizes, person, loss, gaussian=gaussian)


def contrasts(
    workload: Workload, sizes: Sequence[int], person: Person, epsilon: Fraction
) -> list[Table]:
    """The one contrast of every subset, for attributes of two values, with budgets ∝ s^(1/3). A
    cell of a marginal of k attributes has 1/2^k of each, so that s is Σ weight/2^k.
    """
    needs = {places: need / 2 ** len(places) for places, need in _needs(workload, sizes).items()}
    return _scaled(needs, "contrast", sizes, person, epsilon, gaussian=False)


def ordered(tables: Sequence[Table]) -> list[Table]:
    """Tables with the same noise one after the other: samplers are made once for each."""
    return sorted(tables, key=lambda table: (_size(table.law), len(table.places), table.places))


def _needs(workload: Workload, sizes: Sequence[int]) -> dict[Places, float]:
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
    person: Person,
    loss: Fraction,
    *,
    gaussian: bool,
) -> list[Table]:
    """Tables of one form whose noise follows from what each is needed for."""
    power = -1 / 2 if gaussian else -1 / 3
    spread = {places: _rounded(need**power) for places, need in needs.items()}
    turning = form == "contrast"
    units = [Priced(places, (0.5 if gaussian else 1) / each, 1.0, turning)
             for places, each in spread.items()]  # fmt: skip
    factor = total(units, sizes, person, pure=not gaussian) / (float(loss) * _MARGIN)
    kind = DiscreteGaussian if gaussian else DiscreteLaplace
    laws = {each: kind(_above(factor * each)) for each in set(spread.values())}
    return ordered([Table(places, form, laws[each]) for places, each in spread.items()])


def _share(places: Places, sizes: Sequence[int]) -> float:
    return float(share(tuple(sorted(sizes[place] for place in places))))


def _near(table: Table, sizes: Sequence[int]) -> bool:
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
