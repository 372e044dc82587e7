"""Cells beside a few weighted sums of cells: a good strategy for Laplace noise.

The columns of A = [1; Θ]·diag(s)⁻¹, s_j = 1 + Σ_i Θ_ij, have L1 norm 1 for every Θ ≥ 0, so the
sensitivity needs no constraint (McKenna et al., VLDB 2018). The total error

    f(Θ) = tr((1 + Θ'Θ)⁻¹ · diag(s) W'W diag(s))

takes an inverse of the size of the number of sums only, and so does its gradient; Θ is found by
L-BFGS, from sums that are good by themselves: intervals of a hierarchy, or the questions asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.designs.strategy import GRID, Floats, Strategy, whole

_RIDGE = 1e-4  # of the mean of the diagonal


def weighted_sums(workload: Floats, start: Floats, *, steps: int = 150) -> Strategy:
    """Cells and as many sums as `start` has rows, for W'W; hardly worse than with `start` itself:
    cells keep some weight, so that questions that the workload never asks stay answerable.
    """
    from scipy.optimize import Bounds, minimize

    raised = workload / np.trace(workload) + _RIDGE / len(workload) * np.eye(len(workload))
    found: Any = minimize(
        lambda theta: objective(raised, theta.reshape(start.shape)),
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
    return whole("cells and weighted sums", np.vstack([cells, np.rint(unit * sums / scale)]))


def objective(workload: Floats, sums: Floats) -> tuple[float, Floats]:
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
