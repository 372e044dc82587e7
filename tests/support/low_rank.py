"""The low-rank mechanism (Yuan, Zhang, Winslett, Xiao, Yang, Hao, VLDB 2012), as a rival.

A workload W is factored into B L, where every column of L has an L1 norm of at most 1; L x is
published with Laplace noise, and B times that answers the workload. The squared error of all
answers is tr(B'B) times the variance of the noise. L must span the rows of W, so that it is T R
with an orthonormal basis R of them; T is improved by quasi-Newton steps on the logarithm of
tr(B'B) times the squared largest column norm, which is smoothed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]

_SHARPNESS = 60.0  # of the smoothed maximum of column norms


def low_rank_error(workload: Floats, *, starts: int = 3, steps: int = 200) -> float:
    """Return the least tr(B'B) that was found for W = B L with columns of L in the L1 ball.

    L has 1.2 times as many rows as W has rank, as the paper advises, or as many as W.
    """
    _, values, right = np.linalg.svd(workload, full_matrices=False)
    rank = int((values > 1e-9 * values[0]).sum())
    basis = right[:rank]
    inside = workload @ basis.T
    rng = np.random.default_rng(0)
    more = -(-6 * rank // 5)
    first = [np.diag(np.sqrt(values[:rank])), np.vstack([np.eye(rank), np.eye(more - rank, rank)])]
    if len(workload) <= 4 * rank:
        first.append(inside)
    first += [rng.standard_normal((more, rank)) for _ in range(starts)]
    return min(_improved(each, inside, basis, steps) for each in first)


def _improved(start: Floats, inside: Floats, basis: Floats, steps: int) -> float:
    shape, gram = start.shape, inside.T @ inside

    def smooth(flat: Floats) -> tuple[float, Floats]:
        factor = flat.reshape(shape)
        inverse = np.linalg.inv(factor.T @ factor + 1e-12 * np.eye(shape[1]))
        error = float(np.sum(gram * inverse))
        strategy = factor @ basis
        norms = np.abs(strategy).sum(axis=0)
        largest = norms.max()
        weights = np.exp(_SHARPNESS * (norms / largest - 1))
        smoothed = largest * (1 + np.log(weights.sum()) / _SHARPNESS)
        slope = (np.sign(strategy) * (weights / weights.sum())) @ basis.T
        falling = -2 * factor @ inverse @ gram @ inverse
        found = np.log(error) + 2 * np.log(smoothed)
        return found, (falling / error + 2 * slope / smoothed).reshape(-1)

    found = minimize(
        smooth, start.reshape(-1), jac=True, method="L-BFGS-B", options={"maxiter": steps}
    )
    factor = found.x.reshape(shape)
    error = float(np.sum(gram * np.linalg.inv(factor.T @ factor)))
    return float(error * np.abs(factor @ basis).sum(axis=0).max() ** 2)
