"""The sensitivity of sums of amounts, against all neighbours of 2 x 2 cells."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from scumble.model.designs.residuals import MarginalTable, privacy_cost
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.privacy.accounting import Neighbours, PrivacyUnit, cost_of_sums
from tests.support.marginal_matrices import marginal, subtraction

SIZES = (2, 2)
SETS = [(), (0,), (1,), (0, 1)]
LARGEST = 3
# Groups of rows of the design: cells, a tree over them, and differences with signs.
GROUPS = {
    "cells": [np.eye(4)],
    "tree": [np.ones((1, 4)), np.kron(np.eye(2), np.ones((1, 2))), np.eye(4)],
    "signs": [np.array([[1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]])],
}


Adds = Callable[[np.ndarray], list[np.ndarray]]


def _signed(cell: np.ndarray) -> list[np.ndarray]:
    """What a row may add to sums from the middle of the limits."""
    return [amount * cell for amount in range(-LARGEST, LARGEST + 1)]


def _sided(cell: np.ndarray) -> list[np.ndarray]:
    """What a row may add to three sides: above, below, and without an amount."""
    none = np.zeros_like(cell)
    some = range(LARGEST + 1)
    known = [np.concatenate([a * cell, (LARGEST - a) * cell, none]) for a in some]
    return [*known, np.concatenate([none, none, LARGEST * cell])]


def _changes(neighbours: Neighbours, rows: int, adds: Adds) -> list[np.ndarray]:
    """All changes of the sums of four cells by the rows of one person."""
    cells = [adds(cell) for cell in np.eye(4, dtype=np.int64)]
    one = [np.zeros_like(cells[0][0]), *itertools.chain(*cells)]
    held = {tuple(sum(some)) for some in itertools.combinations_with_replacement(one, rows)}
    tables = [np.array(each) for each in held]
    if neighbours == "add_remove":
        return tables
    return [first - second for first, second in itertools.product(tables, tables)]


def _worst(
    matrices: list[np.ndarray],
    neighbours: Neighbours,
    rows: int,
    power: int,
    adds: Adds = _signed,
) -> float:
    """The largest sum of absolute values, or of squares, over all matrices and sides."""
    changes = np.array(_changes(neighbours, rows, adds))
    matrix = np.kron(np.eye(changes.shape[1] // 4), np.vstack(matrices))
    moved = matrix @ changes.T
    return float((np.abs(moved) ** power).sum(axis=0).max())


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("design", GROUPS)
def test_sums_of_groups(design: str, neighbours: Neighbours, rows: int) -> None:
    """What is charged for the noise is the largest change, exactly: amounts of both signs in one
    cell attain it.
    """
    unit = PrivacyUnit(neighbours, rows, amount=LARGEST)
    groups = GROUPS[design]
    norms = [
        (int(np.abs(each).sum(axis=0).max()), int((each**2).sum(axis=0).max())) for each in groups
    ]
    scale = Fraction(7)
    pure = cost_of_sums([DiscreteLaplace(scale)] * len(groups), norms, unit, nonnegative_gram=True)
    rho = cost_of_sums([DiscreteGaussian(scale)] * len(groups), norms, unit, nonnegative_gram=True)
    assert float(pure.epsilon) == pytest.approx(_worst(groups, neighbours, rows, 1) / 7)
    assert float(rho.rho) == pytest.approx(_worst(groups, neighbours, rows, 2) / 14)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_tables_of_marginals(neighbours: Neighbours, rows: int) -> None:
    unit = PrivacyUnit(neighbours, rows, amount=LARGEST)
    laplace = [MarginalTable(s, "marginal", DiscreteLaplace(Fraction(5 + len(s)))) for s in SETS]
    weighed = [marginal(SIZES, t.places) / float(t.law.scale) for t in laplace]
    worst = _worst(weighed, neighbours, rows, 1)
    assert float(privacy_cost(laplace, SIZES, unit).epsilon) == pytest.approx(worst)
    contrasts = [MarginalTable(s, "contrast", DiscreteLaplace(Fraction(5))) for s in SETS]
    weighed = [subtraction(SIZES, s) @ marginal(SIZES, s) / 5 for s in SETS]
    worst = _worst(weighed, neighbours, rows, 1)
    assert float(privacy_cost(contrasts, SIZES, unit).epsilon) == pytest.approx(worst)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_residuals(neighbours: Neighbours, rows: int) -> None:
    """Residuals with Gaussian noise cost what their projections change by."""
    unit = PrivacyUnit(neighbours, rows, amount=LARGEST)
    tables = [MarginalTable(s, "residual", DiscreteGaussian(Fraction(900))) for s in SETS]
    projections = []
    for places in SETS:
        less = subtraction(SIZES, places)
        projections.append(np.linalg.pinv(less) @ less @ marginal(SIZES, places))
    worst = _worst(projections, neighbours, rows, 2) / 1800
    assert float(privacy_cost(tables, SIZES, unit).rho) == pytest.approx(worst)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("design", GROUPS)
def test_sides_of_groups(design: str, neighbours: Neighbours, rows: int) -> None:
    """All sides together cost what one of them is charged, exactly: a row that moves from one end
    of the limits to the other attains it, or one that moves between cells.
    """
    unit = PrivacyUnit(neighbours, rows, amount=LARGEST, sided=True)
    groups = GROUPS[design]
    norms = [
        (int(np.abs(each).sum(axis=0).max()), int((each**2).sum(axis=0).max())) for each in groups
    ]
    weighed = np.vstack(groups)
    gram = bool((weighed.T @ weighed >= 0).all())
    pure, rho = (
        cost_of_sums([law(Fraction(7))] * len(groups), norms, unit, nonnegative_gram=gram)
        for law in (DiscreteLaplace, DiscreteGaussian)
    )
    worst = _worst(groups, neighbours, rows, 1, _sided)
    assert float(pure.epsilon) == pytest.approx(worst / 7)
    worst = _worst(groups, neighbours, rows, 2, _sided) / 14
    if gram:
        assert float(rho.rho) == pytest.approx(worst)
    else:
        assert worst <= float(rho.rho) <= 4 / 3 * worst + 1e-9


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_sides_of_tables(neighbours: Neighbours, rows: int) -> None:
    """Of marginals, contrasts and residuals; some differences of two cells are longer, or shorter,
    than those of two sides.
    """
    unit = PrivacyUnit(neighbours, rows, amount=LARGEST, sided=True)
    given = neighbours, rows
    laplace = [MarginalTable(s, "marginal", DiscreteLaplace(Fraction(5 + len(s)))) for s in SETS]
    weighed = [marginal(SIZES, t.places) / float(t.law.scale) for t in laplace]
    worst = _worst(weighed, *given, 1, _sided)
    assert float(privacy_cost(laplace, SIZES, unit).epsilon) == pytest.approx(worst)
    for some in (SETS, SETS[:3], SETS[:1], SETS[1:], SETS[3:]):
        contrasts = [MarginalTable(s, "contrast", DiscreteLaplace(Fraction(5))) for s in some]
        weighed = [subtraction(SIZES, s) @ marginal(SIZES, s) / 5 for s in some]
        worst = _worst(weighed, *given, 1, _sided)
        assert float(privacy_cost(contrasts, SIZES, unit).epsilon) == pytest.approx(worst)
        tables = [MarginalTable(s, "residual", DiscreteGaussian(Fraction(900))) for s in some]
        projections = []
        for places in some:
            less = subtraction(SIZES, places)
            projections.append(np.linalg.pinv(less) @ less @ marginal(SIZES, places))
        worst = _worst(projections, *given, 2, _sided) / 1800
        assert float(privacy_cost(tables, SIZES, unit).rho) == pytest.approx(worst)


def test_the_norm_of_counts_without_sides_is_too_small() -> None:
    """The sum of all counts is the same if a row is replaced; that of one side is not."""
    tables = [MarginalTable((), "residual", DiscreteGaussian(Fraction(900)))]
    counts, sided = PrivacyUnit("replace"), PrivacyUnit("replace", amount=LARGEST, sided=True)
    worst = _worst([np.ones((1, 4))], "replace", 1, 2, _sided) / 1800
    assert LARGEST**2 * privacy_cost(tables, SIZES, counts).rho < worst
    assert float(privacy_cost(tables, SIZES, sided).rho) == pytest.approx(worst)
    assert not sided.keeps_rows


def test_the_replace_norm_of_counts_is_too_small() -> None:
    """Counts change by at most √2 where rows move between cells. Amounts change by 2r in one cell:
    r times the norm of counts would promise half of the loss.
    """
    counts, amounts = PrivacyUnit("replace"), PrivacyUnit("replace", amount=LARGEST)
    broken = LARGEST**2 * counts.squared_sensitivity(nonnegative_gram=True)
    worst = _worst([np.eye(4)], "replace", 1, 2)
    assert worst == 2 * broken == amounts.squared_sensitivity(nonnegative_gram=True)
    tables = [MarginalTable(s, "residual", DiscreteGaussian(Fraction(900))) for s in SETS]
    of_counts = LARGEST**2 * privacy_cost(tables, SIZES, counts).rho
    assert of_counts < privacy_cost(tables, SIZES, amounts).rho


def test_sums_tell_of_every_replacement() -> None:
    """The sum of all amounts is not the same in neighbouring tables, as the number of rows is."""
    assert PrivacyUnit("replace").keeps_rows
    assert not PrivacyUnit("replace", amount=1).keeps_rows
