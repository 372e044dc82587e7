"""The best strategy for Gaussian noise: a convex program, with a proof of how near to best it is.

With X = A'A the total error is tr(V X⁻¹), V = W'W, and a row changes the measurements by at most
max X_ii in squares: minimise tr(V X⁻¹) subject to X_ii ≤ 1 (Li et al. 2010; Yuan et al. 2016). For
multipliers λ ≥ 0 of the constraints the minimum of the Lagrangian is at the X with X Λ X = V,

    X = Λ^-½ (Λ^½ V Λ^½)^½ Λ^-½,    with the bound    error ≥ (tr (Λ^½ V Λ^½)^½)² / Σ λ,

the best multiple of λ; λ = 1 gives the singular value bound of Li and Miklau. At the optimum is
X_ii = 1 where λ_i > 0. If X were diagonal, λ_i X_ii² would be that λ: iterated, it gains a digit
or more a step. Every step gives a feasible X (scaled to X_ii = 1) and a bound, so an early end
costs accuracy of the strategy, and is seen; nothing is claimed that was not reached.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scumble.model.designs.strategy import Floats, Strategy, rounded

_STEPS = 20
_RIDGE = 1e-6  # of the mean of the diagonal: questions that the workload never asks stay answerable


@dataclass(frozen=True, eq=False)
class Optimum:
    """A feasible X with its total error, and what no strategy goes below."""

    gram: Floats
    error: float
    bound: float

    def strategy(self) -> Strategy:
        """A triangular matrix A with A'A = X, on a grid of whole numbers."""
        triangle: Floats = np.asarray(np.linalg.cholesky(self.gram).T, np.float64)
        return rounded("optimised", triangle)


def optimum(workload: Floats, *, gap: float = 1e-3, steps: int = _STEPS) -> Optimum:
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
    return Optimum(best.gram, best.error, bound)


def _at(workload: Floats, multipliers: Floats) -> tuple[Optimum, Floats]:
    """The X of some multipliers, made feasible, with its error and their bound; and the diagonal
    that it had before.
    """
    ridge = _RIDGE * float(np.trace(workload)) / len(workload)
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
    return Optimum(half @ half.T, error, bound), diagonal


def singular_value_bound(workload: Floats) -> float:
    """(Σ singular values of W)² / n, what no strategy goes below with Gaussian noise."""
    values = np.maximum(np.linalg.eigvalsh(workload), 0.0)
    return float(np.sqrt(values).sum()) ** 2 / len(workload)
