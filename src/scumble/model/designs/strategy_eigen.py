"""Eigen-design: the eigenvectors of a workload as measurements, with the best weights for them.

Li and Miklau, VLDB 2012: with W'W = Q'DQ minimise Σ d_i / u_i subject to Σ_i u_i Q_ij² ≤ 1, a small
convex program; then fill up every column to norm 1 with rows of single cells, which is free.
"""

from __future__ import annotations

import numpy as np

from scumble.model.designs.strategy import Floats, Strategy, rounded

_STEPS = 100
_RIDGE = 1e-6


def eigen_design(workload: Floats) -> Strategy:
    """The eigen-design of W'W for Gaussian noise."""
    values, vectors = np.linalg.eigh(workload)
    values = np.maximum(values, _RIDGE * values.mean())
    squares = vectors * vectors  # a row a cell
    multipliers = np.ones(len(values))
    for _ in range(_STEPS):
        weights = np.sqrt(values / (multipliers @ squares))
        norms = squares @ weights
        multipliers *= norms**2
    weights = np.sqrt(values / (multipliers @ squares))
    norms = squares @ weights
    weights /= norms.max()
    left = np.sqrt(np.maximum(1 - norms / norms.max(), 0.0))
    designed = np.sqrt(weights)[:, None] * vectors.T
    filled = np.diag(left)[left > 1e-3]
    return rounded("eigen-design", np.vstack([designed, filled]))
