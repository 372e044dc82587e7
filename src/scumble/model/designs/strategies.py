"""Matrix-mechanism strategies: fixed, convex, eigen, weighted sums.

Which strategy to measure for a workload: the best of those known and those optimised for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scumble.model.designs.matrix import (
    GRID,
    Floats,
    Integers,
    Strategy,
    integer_strategy,
    rounded_strategy,
)

_SMALL = 1024  # cells up to which no time is saved
_MOST_SUMS = 512
_CELLS_A_SUM = 12
_LARGE_FANOUTS = (8, 16)


@dataclass(frozen=True, eq=False)
class Choice:
    """The strategy with the least total error, the errors of all that were tried, and what no
    strategy goes below; all for noise of variance 1 where a row changes the numbers by 1.
    """

    strategy: Strategy
    tried: dict[str, float]
    bound: float

    @property
    def error(self) -> float:
        return self.tried[self.strategy.name]


def choose_strategy(
    workload: Floats,
    questions: Floats | None = None,
    *,
    gaussian: bool,
    signed_price: float = 1.0,
) -> Choice:
    """The best strategy for W'W; `questions` are rows of W to begin a search with, if few. The
    error of a signed strategy counts `signed_price` times.
    """
    cells = len(workload)
    choice = _Search(workload, gaussian, signed_price, identity(cells))
    if cells == 1:
        choice.bound = float(workload[0, 0])
    else:
        for strategy in _known(cells, gaussian=gaussian):
            choice.consider(strategy)
        if gaussian:
            best = optimal_gram(workload, gap=1e-3 if cells <= _SMALL else 2e-2)
            choice.consider(best.strategy(), best.bound)
            if cells <= _SMALL:
                choice.consider(eigen_design(workload))
        else:
            for start in _starts(cells, questions, choice.tried):
                steps = 150 if cells <= _SMALL else 60
                choice.consider(weighted_sums(workload, start, steps=steps))
    if cells > 1 and not gaussian:
        # Columns of L1 norm 1 have L2 norm at most 1: the bound holds for them too.
        choice.bound = singular_value_bound(workload)
    return choice.found()


class _Search:
    """What was tried until now."""

    def __init__(
        self, workload: Floats, gaussian: bool, signed_price: float, first: Strategy
    ) -> None:
        self._workload, self._gaussian, self._price = workload, gaussian, signed_price
        self._best = first
        self.tried = {first.name: self._error(first)}
        self.bound = 0.0

    def consider(self, strategy: Strategy, bound: float = 0.0) -> None:
        error = self._error(strategy)
        self.bound = max(self.bound, bound)
        if error < min(self.tried.values()):
            self._best = strategy
        self.tried[strategy.name] = min(error, self.tried.get(strategy.name, error))

    def _error(self, strategy: Strategy) -> float:
        error = strategy.error(self._workload, gaussian=self._gaussian)
        return error * (self._price if strategy.signed else 1.0)

    def found(self) -> Choice:
        return Choice(self._best, self.tried, self.bound)


def _known(cells: int, *, gaussian: bool) -> Iterator[Strategy]:
    """Fixed strategies. Beyond some size only those that have a chance: the wavelet has none with
    Laplace noise, and hierarchies of other fan-outs than these have little.
    """
    small = cells <= _SMALL
    if gaussian or small:
        yield wavelet(cells)
    for fanout in FANOUTS if small else _LARGE_FANOUTS:
        if fanout < 2 * cells:
            yield hierarchy(cells, fanout)


def _starts(cells: int, questions: Floats | None, tried: dict[str, float]) -> Iterator[Floats]:
    """Sums to begin with: the inner nodes of the best hierarchy, and the questions themselves."""
    most = max(cells // _CELLS_A_SUM, 8)  # more sums take longer, and were no better
    inner = {fanout: widths(cells, fanout)[1:-1] or [cells] for fanout in FANOUTS}
    few = [f for f in FANOUTS if sum(-(-cells // width) for width in inner[f]) <= most]
    best = min(few, key=lambda fanout: tried.get(hierarchy_name(fanout), np.inf))
    yield intervals(cells, inner[best]).astype(np.float64)
    if questions is not None and 0 < len(questions) <= min(_MOST_SUMS, max(cells // 2, 8)):
        yield questions


# The best strategy for Gaussian noise: a convex program, with a proof of how near to best it is.
#
# With X = A'A the total error is tr(V X⁻¹), V = W'W, and a row changes the measurements by at
# most max X_ii in squares: minimise tr(V X⁻¹) subject to X_ii ≤ 1 (Li et al. 2010; Yuan et al.
# 2016). For multipliers λ ≥ 0 of the constraints the minimum of the Lagrangian is at the X with X
# Λ X = V,
#
#     X = Λ^-½ (Λ^½ V Λ^½)^½ Λ^-½,    with the bound    error ≥ (tr (Λ^½ V Λ^½)^½)² / Σ λ,
#
# the best multiple of λ; λ = 1 gives the singular value bound of Li and Miklau. At the optimum is
# X_ii = 1 where λ_i > 0. If X were diagonal, λ_i X_ii² would be that λ: iterated, it gains a
# digit or more a step. Every step gives a feasible X (scaled to X_ii = 1) and a bound, so an
# early end costs accuracy of the strategy, and is seen; nothing is claimed that was not reached.

_CONVEX_STEPS = 20
_CONVEX_RIDGE = (
    1e-6  # of the mean of the diagonal: questions that the workload never asks stay answerable
)


@dataclass(frozen=True, eq=False)
class OptimalGram:
    """A feasible X with its total error, and what no strategy goes below."""

    gram: Floats
    error: float
    bound: float

    def strategy(self) -> Strategy:
        """A triangular matrix A with A'A = X, on a grid of whole numbers."""
        triangle: Floats = np.asarray(np.linalg.cholesky(self.gram).T, np.float64)
        return rounded_strategy("optimised", triangle)


def optimal_gram(workload: Floats, *, gap: float = 1e-3, steps: int = _CONVEX_STEPS) -> OptimalGram:
    """The best X for W'W; it stops when the error is within `gap` of the lower bound."""
    multipliers = np.ones(len(workload))
    best, diagonal = _at(workload, multipliers)
    bound = best.bound
    for _ in range(steps):
        if best.error <= (1 + gap) * bound:
            break
        multipliers = multipliers * diagonal**2
        multipliers /= multipliers.mean()
        found, diagonal = _at(workload, multipliers)
        bound = max(bound, found.bound)
        best = min(best, found, key=lambda each: each.error)
    return OptimalGram(best.gram, best.error, bound)


def _at(workload: Floats, multipliers: Floats) -> tuple[OptimalGram, Floats]:
    """The X of some multipliers, made feasible, with its error and their bound; and the diagonal
    that it had before.
    """
    ridge = _CONVEX_RIDGE * float(np.trace(workload)) / len(workload)
    root = np.sqrt(multipliers)
    raised = root[:, None] * workload * root + ridge * np.diag(multipliers)
    values, vectors = np.linalg.eigh(raised)
    values = np.maximum(values, np.finfo(float).tiny)
    # Eigenvalues without the ridge are at least these (Weyl), so this bounds the real program.
    real = np.sqrt(np.maximum(values - ridge * multipliers.max(), 0.0)).sum()
    bound = float(real) ** 2 / float(multipliers.sum())
    diagonal = (vectors * vectors) @ np.sqrt(values) / multipliers
    scale = root * np.sqrt(diagonal)
    spread = scale[:, None] * vectors
    error = float(np.sum(np.einsum("ij,ij->j", spread, workload @ spread) / np.sqrt(values)))
    half = vectors / scale[:, None] * values**0.25
    return OptimalGram(half @ half.T, error, bound), diagonal


def singular_value_bound(workload: Floats) -> float:
    """(Σ singular values of W)² / n, what no strategy goes below with Gaussian noise."""
    values = np.maximum(np.linalg.eigvalsh(workload), 0.0)
    return float(np.sqrt(values).sum()) ** 2 / len(workload)


# Strategies that are known beforehand: cells, hierarchies of intervals, and Haar's wavelet.

FANOUTS = (2, 4, 8, 16, 32, 64)


def identity(cells: int) -> Strategy:
    """Every cell by itself."""
    from scipy.sparse import eye_array

    return integer_strategy("cells", eye_array(cells, dtype=np.int64))


def hierarchy(cells: int, fanout: int) -> Strategy:
    """Every cell, every interval of `fanout` cells, of `fanout`² cells, ..., and all cells."""
    return integer_strategy(hierarchy_name(fanout), _stacked(cells, widths(cells, fanout)))


def hierarchy_name(fanout: int) -> str:
    """How it is called among others."""
    return f"hierarchy of fan-out {fanout}"


def widths(cells: int, fanout: int) -> list[int]:
    """The widths of the intervals of a hierarchy, from 1 to one that holds all cells."""
    found = [1]
    while found[-1] < cells:
        found.append(found[-1] * fanout)
    return found


def intervals(cells: int, widths: Sequence[int]) -> Integers:
    """One row of ones and zeros for every interval of some widths."""
    return np.asarray(_stacked(cells, widths).toarray(), np.int64)


def wavelet(cells: int) -> Strategy:
    """The sum of all cells; and of every interval, halved again and again, left half less right."""
    from scipy.sparse import csr_array

    rows, columns, entries = [np.zeros(cells, np.int64)], [np.arange(cells)], [np.ones(cells, int)]
    level, row = [(0, cells)], 1
    while level:
        below = []
        for begin, end in level:
            if end - begin < 2:
                continue
            middle = (begin + end + 1) // 2
            rows.append(np.full(end - begin, row))
            columns.append(np.arange(begin, end))
            entries.append(np.where(np.arange(begin, end) < middle, 1, -1))
            below += [(begin, middle), (middle, end)]
            row += 1
        level = below
    places = np.concatenate(rows), np.concatenate(columns)
    return integer_strategy(
        "wavelet", csr_array((np.concatenate(entries), places), shape=(row, cells))
    )


def _stacked(cells: int, widths: Sequence[int]) -> Any:
    from scipy.sparse import csr_array

    every = np.arange(cells)
    firsts = np.cumsum([0, *(-(-cells // width) for width in widths)])
    rows = np.concatenate(
        [first + every // width for first, width in zip(firsts, widths, strict=False)]
    )
    ones = np.ones(len(rows), np.int64)
    return csr_array((ones, (rows, np.tile(every, len(widths)))), shape=(firsts[-1], cells))


# Cells beside a few weighted sums of cells: a good strategy for Laplace noise.
#
# The columns of A = [1; Θ]·diag(s)⁻¹, s_j = 1 + Σ_i Θ_ij, have L1 norm 1 for every Θ ≥ 0, so the
# sensitivity needs no constraint (McKenna et al., VLDB 2018). The total error
#
#     f(Θ) = tr((1 + Θ'Θ)⁻¹ · diag(s) W'W diag(s))
#
# takes an inverse of the size of the number of sums only, and so does its gradient; Θ is found by
# L-BFGS, from sums that are good by themselves: intervals of a hierarchy, or the questions asked.

_SUMS_RIDGE = 1e-4  # of the mean of the diagonal


def weighted_sums(workload: Floats, start: Floats, *, steps: int = 150) -> Strategy:
    """Cells and as many sums as `start` has rows, for W'W; hardly worse than with `start` itself:
    cells keep some weight, so that questions that the workload never asks stay answerable.
    """
    from scipy.optimize import Bounds, minimize

    raised = workload / np.trace(workload) + _SUMS_RIDGE / len(workload) * np.eye(len(workload))
    found: Any = minimize(
        lambda theta: weighted_sums_objective(raised, theta.reshape(start.shape)),
        start.reshape(-1),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(0.0, np.inf),
        options={"maxiter": steps, "maxfun": 2 * steps},
    )
    sums = np.asarray(found.x, np.float64).reshape(start.shape)
    scale = 1 + sums.sum(axis=0)
    unit = GRID / max(float((1 / scale).max()), float((sums / scale).max()))
    cells = np.diag(np.maximum(np.rint(unit / scale), 1))  # at least 1: every cell is measured
    return integer_strategy(
        "cells and weighted sums", np.vstack([cells, np.rint(unit * sums / scale)])
    )


def weighted_sums_objective(workload: Floats, sums: Floats) -> tuple[float, Floats]:
    """f and its gradient."""
    scale = 1 + sums.sum(axis=0)
    inner = np.linalg.inv(np.eye(len(sums)) + sums @ sums.T)
    product = scale[:, None] * (workload @ (scale * sums).T)  # diag(s) V diag(s) Θ'
    reduced = inner @ sums  # Θ (1 + Θ'Θ)⁻¹
    moved = inner @ product.T
    diagonal = np.diag(workload)
    value = float(diagonal @ scale**2 - np.sum(sums * moved))
    through_sums = -2 * (moved - (moved @ sums.T) @ reduced)
    through_scale = 2 * (diagonal * scale - np.einsum("ij,ji->j", reduced, product) / scale)
    return value, (through_sums + through_scale).reshape(-1)


# Eigen-design: the eigenvectors of a workload as measurements, with the best weights for them.
#
# Li and Miklau, VLDB 2012: with W'W = Q'DQ minimise Σ d_i / u_i subject to Σ_i u_i Q_ij² ≤ 1, a
# small convex program; then fill up every column to norm 1 with rows of single cells, which is
# free.

_EIGEN_STEPS = 100
_EIGEN_RIDGE = 1e-6


def eigen_design(workload: Floats) -> Strategy:
    """The eigen-design of W'W for Gaussian noise."""
    values, vectors = np.linalg.eigh(workload)
    values = np.maximum(values, _EIGEN_RIDGE * values.mean())
    squares = vectors * vectors  # a row a cell
    multipliers = np.ones(len(values))
    for _ in range(_EIGEN_STEPS):
        weights = np.sqrt(values / (multipliers @ squares))
        norms = squares @ weights
        multipliers *= norms**2
    weights = np.sqrt(values / (multipliers @ squares))
    norms = squares @ weights
    weights /= norms.max()
    left = np.sqrt(np.maximum(1 - norms / norms.max(), 0.0))
    designed = np.sqrt(weights)[:, None] * vectors.T
    filled = np.diag(left)[left > 1e-3]
    return rounded_strategy("eigen-design", np.vstack([designed, filled]))
