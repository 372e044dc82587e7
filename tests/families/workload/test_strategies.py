"""Strategies of the matrix mechanism: dense formulas, bounds, and the errors that are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from scumble.families.workload.publish import strategies
from scumble.families.workload.publish.strategies import (
    choose_strategy,
    eigen_design,
    hierarchy,
    hierarchy_name,
    identity,
    intervals,
    optimal_gram,
    singular_value_bound,
    wavelet,
    weighted_sums,
    weighted_sums_objective,
    widths,
)
from scumble.model.designs.matrix import (
    DiagonalPlusLowRank,
    Floats,
    Strategy,
    integer_strategy,
    rounded_strategy,
)


def prefixes(cells: int) -> tuple[np.ndarray, int]:
    """W'W of all prefix sums, and their number."""
    place = np.arange(cells)
    return (cells - np.maximum(place[:, None], place)).astype(float), cells


def ranges(cells: int) -> tuple[np.ndarray, int]:
    """W'W of all intervals, and their number."""
    place = np.arange(cells)
    lower, upper = np.minimum(place[:, None], place), np.maximum(place[:, None], place)
    return (lower + 1.0) * (cells - upper), cells * (cells + 1) // 2


def marginals(size: int) -> np.ndarray:
    """All one-way marginals of three attributes."""
    by_axis = [
        [np.eye(size) if axis == i else np.ones((1, size)) for i in range(3)] for axis in range(3)
    ]
    return np.vstack([np.kron(np.kron(first, second), third) for first, second, third in by_axis])


def rmse(error: float, questions: int) -> float:
    return (error / questions) ** 0.5


WORKLOADS = {"prefix": prefixes, "ranges": ranges}
KNOWN = {  # per-question error for n = 1024, L2, noise of variance 1
    "prefix": {
        "cells": 22.64,
        "hierarchy": 3.69,
        "wavelet": 3.67,
        "bound": 2.91,
        "optimised": 3.07,
    },
    "ranges": {
        "cells": 18.49,
        "hierarchy": 4.65,
        "wavelet": 4.32,
        "bound": 3.49,
        "optimised": 3.57,
    },
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_errors(name: str) -> None:
    workload, questions = WORKLOADS[name](1024)
    known = KNOWN[name]
    fixed = {"cells": identity(1024), "hierarchy": hierarchy(1024, 2), "wavelet": wavelet(1024)}
    for each, strategy in fixed.items():
        error = rmse(strategy.error(workload, gaussian=True), questions)
        assert error == pytest.approx(known[each], abs=0.006)
    assert rmse(singular_value_bound(workload), questions) == pytest.approx(
        known["bound"], abs=0.006
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_known_errors_of_the_optimum(name: str) -> None:
    """The optimum is to be at least as good as the reference, and no better than its own bound."""
    workload, questions = WORKLOADS[name](1024)
    best = optimal_gram(workload)
    assert rmse(best.error, questions) <= KNOWN[name]["optimised"]
    assert best.bound <= best.error <= 1.001 * best.bound
    assert best.bound >= singular_value_bound(workload) * (1 - 1e-3)


def test_errors_are_those_of_dense_least_squares(subtests: pytest.Subtests) -> None:
    for cells, name in itertools.product([1, 2, 5, 16, 37], WORKLOADS):
        with subtests.test(cells=cells, name=name):
            workload, _ = WORKLOADS[name](cells)
            for strategy in (identity(cells), hierarchy(cells, 3), wavelet(cells)):
                dense = strategy.matrix.toarray().astype(float)
                inverse = np.linalg.pinv(dense)
                assert np.linalg.matrix_rank(dense) == cells
                total = np.trace(workload @ inverse @ inverse.T)
                largest = (dense**2).sum(axis=0).max(), np.abs(dense).sum(axis=0).max() ** 2
                assert strategy.error(workload, gaussian=True) == pytest.approx(largest[0] * total)
                assert strategy.error(workload, gaussian=False) == pytest.approx(largest[1] * total)
                noisy = np.arange(strategy.rows) ** 2 % 7
                assert strategy.estimate(noisy) == pytest.approx(inverse @ noisy)
                weights = np.cos(np.arange(cells))
                assert strategy.coefficients(weights) == pytest.approx(inverse.T @ weights)


def test_the_optimum_against_a_slow_one() -> None:
    """A general minimiser over all triangular matrices with columns of length 1."""
    workload, _ = prefixes(5)
    best = optimal_gram(workload, gap=1e-9, steps=200)
    assert np.diag(best.gram) == pytest.approx(np.ones(5))
    assert best.error == pytest.approx(np.trace(workload @ np.linalg.inv(best.gram)))

    def error(entries: np.ndarray) -> float:
        triangle = np.zeros((5, 5))
        triangle[np.triu_indices(5)] = entries
        triangle /= np.linalg.norm(triangle, axis=0)
        return float(np.trace(workload @ np.linalg.inv(triangle.T @ triangle)))

    for start in (np.eye(5), np.eye(5) + 0.5):
        slow = minimize(error, start[np.triu_indices(5)], method="BFGS", options={"gtol": 1e-6}).fun
        assert slow == pytest.approx(best.error, rel=1e-4)


def test_a_workload_without_full_rank() -> None:
    """One-way marginals: within 1 % of the bound, and every other question stays answerable."""
    workload = marginals(4).T @ marginals(4)
    best = optimal_gram(workload)
    strategy = best.strategy()
    assert strategy.error(workload, gaussian=True) <= 1.01 * best.bound
    assert np.isfinite(strategy.solve(np.eye(64)[0])).all()


def test_eigen_design_is_feasible_and_between() -> None:
    workload, _ = ranges(64)
    design = eigen_design(workload)
    error = design.error(workload, gaussian=True)
    assert singular_value_bound(workload) < error < hierarchy(64, 2).error(workload, gaussian=True)
    assert error >= optimal_gram(workload).bound


@pytest.mark.parametrize("sizes", [[1] * 9, [2, 2, 2, 2, 1], [4, 4, 1]])
def test_the_gradient_of_weighted_sums(sizes: list[int]) -> None:
    """Free weights, and equal ones in groups of cells of which the last is smaller."""
    workload, _ = prefixes(9)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    sums = np.abs(np.sin(np.arange(3.0 * len(sizes)))).reshape(3, len(sizes))
    firsts = np.cumsum([0, *sizes[:-1]])
    summed = np.add.reduceat(np.add.reduceat(workload, firsts, axis=0), firsts, axis=1)
    diagonal = np.add.reduceat(np.diag(workload), firsts)

    def objective(given: Floats) -> tuple[float, Floats]:
        return weighted_sums_objective(summed, diagonal, given, np.array(sizes))

    value, gradient = objective(sums)
    every = sums[:, groups]
    matrix = np.vstack([np.eye(9), every]) / (1 + every.sum(axis=0))
    assert np.abs(matrix).sum(axis=0) == pytest.approx(np.ones(9))
    assert value == pytest.approx(np.trace(workload @ np.linalg.inv(matrix.T @ matrix)))
    for place in range(sums.size):
        step = np.zeros(sums.size)
        step[place] = 1e-6
        ends = [objective(sums + sign * step.reshape(sums.shape))[0] for sign in (1, -1)]
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-5)


def test_from_coarse_to_fine_is_as_good_as_free_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 250 cells, whose last groups are smaller: judged on another size than it was tuned on."""
    monkeypatch.setattr(strategies, "_SMALL", 100)
    for workload in (prefixes(250)[0], ranges(250)[0]):
        start = next(strategies._list_starts(250, None, {hierarchy_name(16): 0.0}))
        stages = strategies._choose_stages(start)
        assert len(stages) > 1
        found = weighted_sums(workload, start, stages).error(workload, gaussian=False)
        free = weighted_sums(workload, start, [(1, 60)]).error(workload, gaussian=False)
        assert found < 1.02 * free
    assert strategies._choose_stages(np.eye(3, 250)) == ((1, 60),)


def test_weighted_sums_are_no_worse_than_their_start() -> None:
    workload, _ = prefixes(64)
    start = intervals(64, widths(64, 8)[1:-1]).astype(float)
    stacked = integer_strategy("start", np.vstack([np.eye(64, dtype=int), start.astype(int)]))
    found = weighted_sums(workload, start, [(1, 150)])
    error = found.error(workload, gaussian=False)
    assert error < 0.85 * stacked.error(workload, gaussian=False)
    assert error < 0.85 * identity(64).error(workload, gaussian=False)
    assert not found.signed


@pytest.mark.parametrize("gaussian", [True, False])
def test_the_choice_is_the_best_that_was_tried(gaussian: bool) -> None:
    for workload, questions in (
        (prefixes(48)[0], None),
        (marginals(3).T @ marginals(3), marginals(3)),
    ):
        choice = choose_strategy(workload, questions, gaussian=gaussian)
        again = choice.strategy.error(workload, gaussian=gaussian)
        assert again == choice.error == min(choice.tried.values())
        fixed = [identity(len(workload)), hierarchy(len(workload), 4), wavelet(len(workload))]
        assert again <= min(each.error(workload, gaussian=gaussian) for each in fixed)
        assert 0 < choice.bound <= again * (1 + 1e-9)


@pytest.mark.parametrize("weight", [1, 1 << 14])
def test_both_ways_to_solve_agree(weight: int) -> None:
    """Cells with rows of their own, light or heavy, twice measured or signed, and few sums more."""
    sums = np.rint(np.cos(np.arange(3 * 12)) * 9000).astype(np.int64).reshape(3, 12)
    cells = weight * np.vstack([np.eye(12, dtype=np.int64), -np.eye(12, dtype=np.int64)[:4]])
    strategy = integer_strategy("any", np.vstack([cells, sums]))
    gram = strategy.gram
    assert isinstance(strategy._solver, DiagonalPlusLowRank) == (weight > 1)
    right = np.sin(np.arange(24.0)).reshape(12, 2)
    assert strategy.solve(right) == pytest.approx(np.linalg.solve(gram, right), rel=1e-6, abs=1e-6)
    assert strategy.solve(right[:, 0]) == pytest.approx(
        np.linalg.solve(gram, right[:, 0]), rel=1e-6, abs=1e-6
    )
    workload = prefixes(12)[0]
    assert strategy.total(workload) == pytest.approx(
        np.trace(np.linalg.solve(gram, workload)), rel=1e-6
    )


@pytest.mark.parametrize("weight", [4, 40, 1000])
def test_no_digits_are_lost_where_cells_hardly_have_rows_of_their_own(weight: int) -> None:
    """The error is what the condition of the normal equations explains."""
    sums = np.rint(np.cos(np.arange(3 * 12)) * 3000).astype(np.int64).reshape(3, 12)
    strategy = integer_strategy("any", np.vstack([weight * np.eye(12, dtype=np.int64), sums]))
    solver = strategy._solver
    assert isinstance(solver, DiagonalPlusLowRank)
    exact = 1.0 + np.arange(12)
    right = strategy.gram @ exact  # whole numbers below 2^53
    rounding = np.linalg.cond(strategy.gram) * np.finfo(float).eps * exact.max()
    assert np.abs(strategy.solve(right) - exact).max() < rounding
    plain = np.abs(solver._difference(right) - exact).max()
    assert weight > 4 or plain > rounding  # without refinement


@pytest.mark.parametrize("cells", [60, 61])
def test_the_bound_of_many_cells_holds(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for workload in (prefixes(cells)[0], ranges(cells)[0], np.eye(cells)):
        exact = singular_value_bound(workload)
        monkeypatch.setattr(strategies, "_SMALL", 50)
        found = singular_value_bound(workload)
        monkeypatch.undo()
        assert 0.24 * exact < found < exact * (1 + 1e-9)


def test_one_cell() -> None:
    assert choose_strategy(np.ones((1, 1)), gaussian=True).strategy.name == "cells"
    assert choose_strategy(np.ones((1, 1)), gaussian=False).strategy.name == "cells"


def _all_strategies() -> list[Strategy]:
    workload, _ = ranges(6)
    start = intervals(6, [3]).astype(float)
    optimised = [
        optimal_gram(workload).strategy(),
        eigen_design(workload),
        weighted_sums(workload, start, [(1, 150)]),
    ]
    return [identity(6), hierarchy(6, 2), hierarchy(6, 4), wavelet(6), *optimised]


def test_sensitivity_by_brute_force() -> None:
    """One row more, anywhere: the whole-number measurements change by the norms, and no more; one
    row elsewhere, by twice the squares at most where `signed` says so.
    """
    for strategy in _all_strategies():
        [(absolute, squares)] = strategy.norms()
        base = np.array([3, 0, 1, 4, 1, 5])
        [before] = strategy.apply(base)
        assert before.dtype == np.int64
        moved = [strategy.apply(base + row)[0] for row in np.eye(6, dtype=np.int64)]
        assert max(int(np.abs(after - before).sum()) for after in moved) == absolute
        assert max(int(((after - before) ** 2).sum()) for after in moved) == squares
        apart = max(int(((a - b) ** 2).sum()) for a, b in itertools.combinations(moved, 2))
        assert apart <= (4 if strategy.signed else 2) * squares


def test_rounding_is_near_and_whole() -> None:
    matrix = np.cos(np.arange(40.0)).reshape(8, 5)
    found = rounded_strategy("any", matrix)
    assert found.matrix.dtype == np.int64
    assert np.abs(found.matrix).max() == 1 << 14
    assert found.matrix.toarray() / (1 << 14) * np.abs(matrix).max() == pytest.approx(
        matrix, abs=0.51 / (1 << 14)
    )
