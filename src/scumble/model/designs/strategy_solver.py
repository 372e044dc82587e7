"""Normal equations of a strategy, solved by the cheapest way that its matrix allows.

If every cell has a row of its own, A'A = D + B'B with D diagonal and B the other rows, and the
inverse takes one of the size of B only: (D + B'B)⁻¹ = D⁻¹ − D⁻¹B'(1 + BD⁻¹B')⁻¹BD⁻¹. Where cells
weigh so little that the difference would lose digits, and otherwise, A'A is factored as it is.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_STEEPEST = 1e7  # of BD⁻¹B': the difference keeps eight digits


class Solver(Protocol):
    """(A'A)⁻¹ without the matrix itself."""

    def solve(self, right: Floats) -> Floats:
        """Times a vector, or times every column of a matrix."""
        ...

    def trace(self, workload: Floats) -> float:
        """tr((A'A)⁻¹ V) for a symmetric V."""
        ...


def solver(matrix: Any) -> Solver:
    """For a matrix in compressed rows."""
    single = np.diff(matrix.indptr) == 1
    others = int(np.sum(~single))
    weights = np.zeros(matrix.shape[1])
    own = matrix[single]
    np.add.at(weights, own.indices, own.data.astype(np.float64) ** 2)
    if weights.all() and 2 * others <= matrix.shape[1]:
        rest = matrix[~single].astype(np.float64).toarray()
        if (rest**2 / weights).sum(axis=1).max(initial=0.0) <= _STEEPEST:
            return Bordered(weights, rest)
    return Dense(np.asarray((matrix.T @ matrix).toarray(), np.float64))


class Bordered:
    """Cells with rows of their own, and a few rows more."""

    def __init__(self, weights: Floats, others: Floats) -> None:
        from scipy.linalg import cho_factor

        self._weights = weights
        self._scaled = others / weights
        self._inner = cho_factor(np.eye(len(others)) + self._scaled @ others.T, check_finite=False)

    def solve(self, right: Floats) -> Floats:
        from scipy.linalg import cho_solve

        plain = (right.T / self._weights).T
        if not len(self._scaled):
            return np.asarray(plain)
        return np.asarray(
            plain
            - self._scaled.T @ cho_solve(self._inner, self._scaled @ right, check_finite=False)
        )

    def trace(self, workload: Floats) -> float:
        from scipy.linalg import cho_solve

        plain = float(np.sum(np.diag(workload) / self._weights))
        if not len(self._scaled):
            return plain
        through = self._scaled @ workload @ self._scaled.T
        return plain - float(np.trace(cho_solve(self._inner, through, check_finite=False)))


class Dense:
    """Any matrix of full column rank."""

    def __init__(self, gram: Floats) -> None:
        from scipy.linalg import cho_factor

        self._factor = cho_factor(gram, check_finite=False)

    def solve(self, right: Floats) -> Floats:
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self._factor, right, check_finite=False), np.float64)

    def trace(self, workload: Floats) -> float:
        from scipy.linalg.lapack import dpotri

        factor, lower = self._factor
        inverse, _ = dpotri(factor, lower=lower)  # one triangle of it
        inside = np.tril(inverse, -1) if lower else np.triu(inverse, 1)
        return float(2 * np.vdot(inside, workload) + np.diag(inverse) @ np.diag(workload))
