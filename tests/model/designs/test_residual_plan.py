"""Plans of tables: closed forms against numeric optima, and never above what may be spent."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from scumble.model.designs import residuals as residual_planner
from scumble.model.designs.residuals import (
    MarginalTable,
    Residuals,
    ResidualSolver,
    privacy_cost,
    sum_error,
)
from scumble.model.privacy.accounting import PrivacyUnit

SIZES = (2, 3, 4)
PAIRS = dict.fromkeys([(0, 1), (0, 2), (1, 2)], 1.0)
ONE = PrivacyUnit("add_remove")


def loss(tables: list[MarginalTable], workload: dict, sizes: tuple[int, ...] = SIZES) -> float:
    """The weighted sum of the variances of all cells, by the estimates themselves."""
    names = tuple("abcdefghij"[: len(sizes)])
    design = Residuals(names, sizes, tuple(tables))
    solver = ResidualSolver(design, np.zeros(design.numbers, np.int64))
    total = 0.0
    for places, weight in workload.items():
        shape = [sizes[place] for place in places]
        one = np.zeros(shape)
        one[(0,) * len(shape)] = 1.0
        total += weight * prod(shape) * sum_error(solver, places, one).variance
    return total


def test_three_attributes_all_pairs() -> None:
    """The published example: 50.85 where plain marginals of equal noise have 78."""
    rho = Fraction(1, 20000)
    tables = residual_planner.plan_residuals(PAIRS, SIZES, ONE, rho)
    assert {table.form for table in tables} == {"residual"}
    assert loss(tables, PAIRS) * 2 * float(rho) == pytest.approx(50.85, rel=2e-4)
    plain = residual_planner.plan_equal_noise(list(PAIRS), SIZES, ONE, rho, gaussian=True)
    cells = sum(
        table.law.variance * prod(SIZES[place] for place in table.places) for table in plain
    )
    assert cells * 2 * float(rho) == pytest.approx(78, rel=1e-4)


def test_the_noise_is_the_best_of_all() -> None:
    """A numeric optimiser, started at the plan and elsewhere, finds nothing better by more than the
    grid of the noise costs.
    """
    workload, rho = {(0, 1): 3.0, (0, 2): 1.0, (2,): 0.5}, Fraction(1, 10**4)
    tables = residual_planner.plan_residuals(workload, SIZES, ONE, rho)
    places = [table.places for table in tables]
    shares = np.array([prod((SIZES[p] - 1) / SIZES[p] for p in each) for each in places])
    needs = np.array([
        sum(w * prod(SIZES[p] - 1 for p in each) / prod(SIZES[p] for p in b if p not in each)
            for b, w in workload.items() if set(each) <= set(b))
        for each in places
    ])  # fmt: skip

    def scaled_loss(logs: np.ndarray) -> float:
        variances = np.exp(logs)
        return float(needs @ variances * (shares / variances).sum() / (2 * float(rho)))

    best = min(
        minimize(scaled_loss, start, tol=1e-12).fun
        for start in np.random.default_rng(1).normal(size=(5, len(places)))
    )
    assert loss(tables, workload) == pytest.approx(best, rel=3e-4)


def test_budgets_of_pure_epsilon() -> None:
    """Marginals read from their own tables: error 2 (Σ s^(1/3))³/ε², up to the grid."""
    epsilon = Fraction(1, 50)  # wide noise has the variance 2·scale²
    workload = {(0, 1): 1.0, (1, 2): 5.0, (0,): 0.1}
    tables = residual_planner.plan_marginals(workload, SIZES, ONE, epsilon, gaussian=False)
    s = {places: w * prod(SIZES[p] for p in places) for places, w in workload.items()}
    found = sum(s[table.places] * table.law.variance for table in tables)
    expected = 2 * sum(each ** (1 / 3) for each in s.values()) ** 3 / float(epsilon) ** 2
    assert found == pytest.approx(expected, rel=1e-3)
    assert loss(tables, workload) < found


def test_budgets_of_contrasts() -> None:
    """All marginals follow from the contrasts: error 2 (Σ s^(1/3))³/ε², up to the grid."""
    epsilon, sizes = Fraction(1, 50), (2, 2, 2)
    workload = {(0, 1): 1.0, (1, 2): 5.0, (0,): 0.1}
    tables = residual_planner.plan_contrasts(workload, sizes, ONE, epsilon)
    s = [
        sum(w / 2 ** len(b) for b, w in workload.items() if set(table.places) <= set(b))
        for table in tables
    ]
    expected = 2 * sum(each ** (1 / 3) for each in s) ** 3 / float(epsilon) ** 2
    assert loss(tables, workload, sizes) == pytest.approx(expected, rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    ways=st.integers(1, 3),
    person=st.builds(PrivacyUnit, st.sampled_from(["replace", "add_remove"]), st.integers(1, 3)),
    spent=st.fractions(Fraction(1, 10**6), 10),
)
def test_never_above_what_may_be_spent(
    sizes: list[int], ways: int, person: PrivacyUnit, spent: Fraction
) -> None:
    shape = tuple(sizes)
    sets = list(itertools.combinations(range(len(shape)), min(ways, len(shape))))
    workload = {places: 1.0 + number for number, places in enumerate(sets)}
    gaussian = [
        residual_planner.plan_residuals(workload, shape, person, spent),
        residual_planner.plan_marginals(workload, shape, person, spent, gaussian=True),
    ]
    pure = [residual_planner.plan_marginals(workload, shape, person, spent, gaussian=False)]
    if set(shape) == {2}:
        pure.append(residual_planner.plan_contrasts(workload, shape, person, spent))
    for tables in gaussian:
        assert spent * Fraction(9999, 10000) <= privacy_cost(tables, shape, person).rho <= spent
    for tables in pure:
        assert spent * Fraction(9999, 10000) <= privacy_cost(tables, shape, person).epsilon <= spent


def test_whole_marginals_where_the_lower_price_is_not_proven() -> None:
    tables = residual_planner.plan_residuals(PAIRS, SIZES, ONE, Fraction(1, 2))
    assert {table.form for table in tables if table.places} == {"marginal"}
    mixed = residual_planner.plan_residuals({(0, 1): 1.0}, (2, 3000), ONE, Fraction(1, 500))
    assert {(table.places, table.form) for table in mixed} == {
        ((), "residual"), ((0,), "residual"), ((1,), "marginal"), ((0, 1), "marginal"),
    }  # fmt: skip


def test_closure() -> None:
    assert residual_planner.closure([(0, 2), (1,)]) == [(), (0,), (1,), (2,), (0, 2)]
