"""Least squares by residuals against dense generalised least squares: values, errors, laws."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import block_diag

from scumble.model.designs.residuals import (
    MarginalTable,
    Residuals,
    ResidualSolver,
    sum_covariance,
    sum_error,
)
from scumble.model.evidence.evidence import design_from_dict as from_manifest
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from tests.support.marginal_matrices import marginal, measured

SIZES = (2, 3, 4)
SUBSETS = [places for size in range(4) for places in itertools.combinations(range(3), size)]


def _laplace(scale: int) -> DiscreteLaplace:
    return DiscreteLaplace(Fraction(scale))


def _gaussian(parameter: Fraction | int) -> DiscreteGaussian:
    return DiscreteGaussian(Fraction(parameter))


_table = MarginalTable

DESIGNS = {
    "two marginals": [
        _table((0, 1), "marginal", _laplace(3)), _table((1, 2), "marginal", _laplace(5)),
    ],
    "every form": [
        _table((0, 1), "marginal", _laplace(3)), _table((1, 2), "marginal", _gaussian(7)),
        _table((1,), "residual", _gaussian(Fraction(1, 2))), _table((), "residual", _laplace(1)),
        _table((0,), "contrast", _laplace(2)), _table((1, 2), "residual", _laplace(2)),
    ],
    "all residuals": [
        _table(places, "residual", _gaussian(3 + number)) for number, places in enumerate(SUBSETS)
    ],
    "everything and a part": [
        _table((0, 1, 2), "marginal", _laplace(3)), _table((1,), "marginal", _gaussian(1)),
        _table((1,), "marginal", _laplace(2)),
    ],
}  # fmt: skip


class Dense:
    """The same estimate by matrices over all cells."""

    def __init__(self, tables: list[MarginalTable], seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        counts, noises = zip(*(measured(SIZES, table) for table in tables), strict=True)
        spots = [(table, part.shape[1]) for table, part in zip(tables, noises, strict=True)]
        self.variances = np.repeat([t.law.variance for t, _ in spots], [n for _, n in spots])
        self.fourths = np.repeat([t.law.fourth for t, _ in spots], [n for _, n in spots])
        self.noise = block_diag(*noises)
        system = np.vstack(counts)
        cells = rng.integers(0, 50, system.shape[1])
        self.numbers = (system @ cells).astype(np.int64) + rng.integers(-5, 6, len(system))
        inverse = np.linalg.inv(self.noise @ np.diag(self.variances) @ self.noise.T)
        normal = np.linalg.pinv(system.T @ inverse @ system, rcond=1e-10)
        self.reconstruction = normal @ system.T @ inverse
        self.spanned = system


@pytest.mark.parametrize("name", DESIGNS)
def test_it_is_generalised_least_squares(name: str) -> None:
    tables = DESIGNS[name]
    dense, design = Dense(tables), Residuals(("a", "b", "c"), SIZES, tuple(tables))
    solver = ResidualSolver(design, dense.numbers)
    rng = np.random.default_rng(2)
    asked = []
    for places in SUBSETS:
        rows = marginal(SIZES, places)
        rank = np.linalg.matrix_rank
        assert solver.determines(places) == (
            rank(np.vstack([dense.spanned, rows])) == rank(dense.spanned)
        )
        if not solver.determines(places):
            continue
        assert solver.marginal(places).reshape(-1) == pytest.approx(
            rows @ dense.reconstruction @ dense.numbers, abs=1e-8
        )
        weights = rng.normal(size=[SIZES[place] for place in places])
        noises = weights.reshape(-1) @ rows @ dense.reconstruction @ dense.noise
        found = sum_error(solver, places, weights)
        assert found.variance == pytest.approx(noises**2 @ dense.variances)
        assert found.fourth == pytest.approx(noises**4 @ dense.fourths)
        assert found.largest == pytest.approx(np.abs(noises).max())
        asked.append((places, weights, noises))
    for one, other in itertools.product(asked, asked):
        expected = (one[2] * other[2]) @ dense.variances
        assert sum_covariance(solver, one[:2], other[:2]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_survives_its_manifest(name: str) -> None:
    design = Residuals(("a", "b", "c"), SIZES, tuple(DESIGNS[name]), "count_")
    assert from_manifest(design.to_dict()) == design


def test_an_attribute_of_one_value_is_no_obstacle() -> None:
    """Its residuals are empty, so that nobody has to measure them."""
    sizes = (1, 3)
    tables = tuple(_table(places, "residual", _gaussian(4)) for places in [(), (1,)])
    solver = ResidualSolver(Residuals(("a", "b"), sizes, tables), np.array([30, 3, 6]))
    assert solver.determines((0, 1))
    assert solver.marginal((0, 1)) == pytest.approx(np.array([[13.0, 10.0, 7.0]]))
    assert sum_error(solver, (0, 1), np.ones((1, 3))).variance == pytest.approx(
        sum_error(solver, (), np.ones(())).variance
    )


def test_marginals_agree_with_each_other() -> None:
    tables = DESIGNS["two marginals"]
    solver = ResidualSolver(Residuals(("a", "b", "c"), SIZES, tuple(tables)), Dense(tables).numbers)
    assert solver.marginal((0, 1)).sum(axis=0) == pytest.approx(solver.marginal((1,)))
    assert solver.marginal((1, 2)).sum(axis=1) == pytest.approx(solver.marginal((1,)))
    assert solver.marginal((1,)).sum() == pytest.approx(float(solver.marginal(())))
