"""Prices of tables: against all neighbours of tiny domains, and against exact sums of the noise."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from scumble.model.designs import residuals as residual_planner
from scumble.model.designs.residuals import NEAR, MarginalTable, closeness, privacy_cost, row_share
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyUnit
from tests.support.marginal_matrices import marginal, subtraction

SIZES = (2, 3, 3)
SUBSETS = [places for size in range(4) for places in itertools.combinations(range(3), size)]
WIDE = 400  # a Gaussian noise for which every residual of this domain has its lower price


def _changes(sizes: tuple[int, ...], person: PrivacyUnit) -> list[np.ndarray]:
    """Every change of the counts by one person with at most so many rows."""
    cells = np.eye(math.prod(sizes))
    sets = [
        sum(rows, np.zeros(len(cells)))
        for size in range(person.rows + 1)
        for rows in itertools.combinations_with_replacement(cells, size)
    ]
    if person.neighbours == "add_remove":
        return sets
    return [one - other for one, other in itertools.product(sets, sets)]


@cache
def _projection(sizes: tuple[int, ...], places: tuple[int, ...]) -> np.ndarray:
    less = subtraction(sizes, places)
    return np.linalg.pinv(less) @ less @ marginal(sizes, places)


def _residual_length(sizes: tuple[int, ...], places: tuple[int, ...], change: np.ndarray) -> float:
    """The squared length of a change, projected on the tables that the differences tell."""
    return float(np.sum((_projection(sizes, places) @ change) ** 2))


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_residuals_against_all_neighbours(neighbours: str, rows: int) -> None:
    """The price is the largest Σ |P change|²/2σ², over all tables together."""
    sizes = SIZES if rows == 1 else (2, 3)
    subsets = [places for places in SUBSETS if all(place < len(sizes) for place in places)]
    person = PrivacyUnit(neighbours, rows)
    tables = [
        MarginalTable(places, "residual", DiscreteGaussian(Fraction(WIDE + 37 * number)))
        for number, places in enumerate(subsets)
    ]
    worst = max(
        sum(
            _residual_length(sizes, table.places, change) / (2 * float(table.law.parameter))
            for table in tables
        )
        for change in _changes(sizes, person)
    )
    assert float(privacy_cost(tables, sizes, person).rho) == pytest.approx(worst, rel=1e-9)
    assert float(privacy_cost(tables, sizes, person).rho) >= worst * (1 - 1e-14)


def test_laplace_against_all_neighbours(subtests: pytest.Subtests) -> None:
    """The price is the largest Σ |change|/scale, over all tables together."""
    for form, neighbours, rows in itertools.product(
        ["marginal", "contrast"], ["replace", "add_remove"], [1, 2]
    ):
        with subtests.test(form=form, neighbours=neighbours, rows=rows):
            sizes = (2, 2, 2) if form == "contrast" else SIZES
            sizes = sizes if rows == 1 else sizes[:2]
            subsets = [places for places in SUBSETS if all(place < len(sizes) for place in places)]
            person = PrivacyUnit(neighbours, rows)
            tables = [
                MarginalTable(places, form, DiscreteLaplace(Fraction(3 + number)))
                for number, places in enumerate(subsets)
            ]
            matrices = [
                (subtraction(sizes, t.places) @ marginal(sizes, t.places) if form == "contrast"
                 else marginal(sizes, t.places)) / float(t.law.scale)
                for t in tables
            ]  # fmt: skip
            worst = max(
                sum(float(np.abs(matrix @ change).sum()) for matrix in matrices)
                for change in _changes(sizes, person)
            )
            found = float(privacy_cost(tables, sizes, person).epsilon)
            assert found >= worst * (1 - 1e-14)
            # The total has no second cell to move to: a swap leaves it, but is charged for as for
            # others.
            spare = 0.0 if form == "contrast" or neighbours == "add_remove" else 2 * rows / 3
            assert found == pytest.approx(worst + spare, rel=1e-9)


def test_many_attributes_have_a_bound_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many attributes the worst swap of each table is added up: never less."""
    person = PrivacyUnit("replace")
    tables = [
        MarginalTable(places, "residual", DiscreteGaussian(Fraction(WIDE))) for places in SUBSETS
    ]
    exact = privacy_cost(tables, SIZES, person).rho
    monkeypatch.setattr(residual_planner, "MOST_JOINT", 2)
    bound = privacy_cost(tables, SIZES, person).rho
    largest = sum(
        max(_residual_length(SIZES, places, change) for change in _changes(SIZES, person))
        for places in SUBSETS
        if places
    )
    assert exact < bound
    assert float(bound) == pytest.approx(largest / (2 * WIDE), rel=1e-9)


def _law_of_differences(
    sizes: tuple[int, ...], variance: float, reach: int
) -> dict[tuple[int, ...], float]:
    """P(Sz = v) by summing over all noises up to `reach`."""
    less = subtraction(sizes, range(len(sizes))).astype(np.int64)
    found: dict[tuple[int, ...], float] = {}
    values = range(-reach, reach + 1)
    for noise in itertools.product(values, repeat=math.prod(sizes)):
        key = tuple(less @ np.array(noise))
        weight = math.exp(-sum(z * z for z in noise) / (2 * variance))
        found[key] = found.get(key, 0.0) + weight
    total = sum(found.values())
    return {key: weight / total for key, weight in found.items()}


def test_differences_of_noise_are_as_close_to_the_lattice_as_said(
    subtests: pytest.Subtests,
) -> None:
    """Where the bound is not tiny it can be seen: all ratios are within e^±τ, and the law is not
    the lattice Gaussian, so that a bound is needed.
    """
    for sizes, variance, reach in [
        ((2,), 0.25, 12),
        ((2,), 0.5, 12),
        ((2,), 1.0, 20),
        ((3,), 0.4, 8),
        ((3,), 0.6, 9),
        ((3,), 1.0, 12),
        ((2, 2), 0.5, 6),
        ((2, 2), 0.3, 6),
        ((2, 3), 0.35, 3),
    ]:
        with subtests.test(sizes=sizes, variance=variance, reach=reach):
            less = subtraction(sizes, range(len(sizes)))
            inverse = np.linalg.pinv(less)
            law = _law_of_differences(sizes, variance, reach)
            # Truncated sums are exact to 1e-12 only near the middle, where the odds are not tiny.
            likely = {key: odds for key, odds in law.items() if odds > 1e-6}
            lattice = {
                key: math.exp(-float(np.sum((inverse @ np.array(key)) ** 2)) / (2 * variance))
                for key in law
            }
            total = sum(lattice.values())
            ratios = [math.log(odds * total / lattice[key]) for key, odds in likely.items()]
            tau = closeness(sizes, variance)
            assert max(map(abs, ratios)) <= tau
            assert tau == math.inf or max(map(abs, ratios)) >= tau / 300


@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
def test_the_lower_price_bounds_the_divergence(alpha: float) -> None:
    """Two values, one row: the exact Rényi divergence of the published difference is α·ρ, which is
    half of what the whole marginal costs.
    """
    variance = 20.0
    reach = 200
    z = np.arange(-reach, reach + 1)
    one = np.exp(-(z**2) / (2 * variance))
    law = np.convolve(one / one.sum(), one / one.sum())
    moved = np.roll(law, 1)
    middle = slice(2 * reach - 150, 2 * reach + 151)
    logs = alpha * np.log(law[middle]) + (1 - alpha) * np.log(moved[middle])
    table = MarginalTable((0,), "residual", DiscreteGaussian(Fraction(20)))
    assert closeness((2,), variance) < NEAR
    rho = float(privacy_cost([table], (2,), PrivacyUnit("add_remove")).rho)
    assert rho == pytest.approx(0.5 / (2 * variance))
    assert math.log(np.exp(logs).sum()) / (alpha - 1) == pytest.approx(alpha * rho, rel=1e-6)


def test_little_noise_has_the_whole_price() -> None:
    narrow, wide = (
        MarginalTable((0, 1), "residual", DiscreteGaussian(Fraction(parameter)))
        for parameter in (5, 50)
    )
    person = PrivacyUnit("add_remove")
    assert closeness((2, 3), 5.0) > NEAR > closeness((2, 3), 50.0)
    assert float(privacy_cost([narrow], (2, 3), person).rho) == pytest.approx(1 / 10)
    assert float(privacy_cost([wide], (2, 3), person).rho) == pytest.approx(1 / 100 / 3)
    assert row_share((2, 3)) == Fraction(1, 3)


def test_two_kinds_of_noise_have_no_common_cost() -> None:
    tables = [
        MarginalTable((0,), "marginal", DiscreteLaplace(Fraction(1))),
        MarginalTable((0,), "marginal", DiscreteGaussian(Fraction(1))),
    ]
    with pytest.raises(ValueError, match="no common cost"):
        privacy_cost(tables, (2,), PrivacyUnit("replace"))
