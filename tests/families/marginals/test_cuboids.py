"""Which cuboids are measured: variances against least squares, choices against all choices."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from scumble.model.designs.residuals import (
    CuboidLattice,
    MarginalTable,
    Residuals,
    ResidualSolver,
    places_of,
    sum_error,
)
from scumble.model.laws.distributions import DiscreteGaussian

SIZES = (2, 3, 4)


def _cube(sizes: tuple[int, ...] = SIZES, ways: int | None = None, power: int = 2) -> CuboidLattice:
    numbers = range(1 << len(sizes))
    asked = np.array([number.bit_count() <= (ways or len(sizes)) for number in numbers])
    return CuboidLattice(sizes, asked, np.ones(len(asked), bool), lambda count: 2.0 * count**power)


def test_variances_are_those_of_least_squares() -> None:
    cube = _cube(power=1)
    measured = np.array([0b011, 0b110, 0b001])
    law = DiscreteGaussian(Fraction(cube.noise(3)))
    tables = tuple(MarginalTable(places_of(int(number)), "marginal", law) for number in measured)
    design = Residuals(("a", "b", "c"), SIZES, tables)
    solver = ResidualSolver(design, np.zeros(design.numbers, np.int64))
    found = cube.variances(measured)
    for number in range(8):
        places = places_of(number)
        if not solver.determines(places):
            assert found[number] == np.inf
            continue
        one = np.zeros([SIZES[place] for place in places])
        one[(0,) * len(places)] = 1.0
        exact = sum_error(solver, places, one).variance * cube.noise(3) / law.variance
        assert found[number] == pytest.approx(exact)


@pytest.mark.parametrize("sizes", [(2, 3, 4), (2, 2, 2), (10, 2, 5), (7, 7)])
@pytest.mark.parametrize("power", [1, 2])
def test_the_choice_is_close_to_the_best_of_all(sizes: tuple[int, ...], power: int) -> None:
    """The largest variance is within a quarter of that of the best set of cuboids, and never above
    that of the base cuboid alone.
    """
    cube = _cube(sizes, power=power)
    numbers = range(len(cube.asked))

    def worst(chosen: tuple[int, ...]) -> float:
        return float(cube.variances(np.array(chosen))[cube.asked].max())

    best = min(
        worst(chosen)
        for count in range(1, len(numbers) + 1)
        for chosen in itertools.combinations(numbers, count)
    )
    found = worst(tuple(sum(1 << p for p in places) for places in cube.least_worst()))
    assert best * (1 - 1e-9) <= found <= 1.25 * best
    assert found <= worst((len(numbers) - 1,))


def test_as_many_as_possible_within_a_bound() -> None:
    """As many cuboids within the bound as for any single cuboid, and as for the other rule."""
    cube = _cube((10, 2, 5))
    for bound in (2.0, 10.0, 50.0, 200.0, 1e9):
        chosen = [sum(1 << p for p in places) for places in cube.most_within(bound)]
        found = int((cube.variances(np.array(chosen)) <= bound).sum())
        for number in range(8):
            assert found >= int((cube.variances(np.array([number])) <= bound).sum())
    assert found == 8


def test_a_bound_below_all_noise_falls_back() -> None:
    cube = _cube()
    assert cube.most_within(0.5) == cube.least_worst()


def test_few_ways_do_not_need_the_base() -> None:
    cube = _cube((20, 20, 20), ways=1)
    assert {places for places in cube.least_worst() if places} == {(0,), (1,), (2,)}
