"""Strategy: whole-number sums of cells that are measured in place of the questions of a workload.

Measured is y = Ax + noise; every question w is answered by w·x̂ with x̂ the least squares estimate.
With independent noise of variance v its error has the variance v · w'(A'A)⁻¹w, whatever the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.strategy_solver import Solver, solver

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

GRID = 1 << 14  # the largest entry of a strategy that was found by optimisation


@dataclass(frozen=True, eq=False)
class Strategy:
    """A matrix of whole numbers with one row a measurement, of full column rank.

    Its numbers are one group, and its norms are exact: they are those of the columns of the matrix
    of whole numbers that is applied.
    """

    name: str
    matrix: Any  # scipy's compressed rows, int64

    @property
    def rows(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def cells(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def signed(self) -> bool:
        """Whether the columns of two cells may point away from each other. If no two do, the
        difference of two columns has at most the sum of their squared lengths, as if no entry was
        negative.
        """
        return bool(self.matrix.nnz) and (
            int(self.matrix.data.min()) < 0 and float(self.gram.min()) < 0
        )

    def apply(self, counts: Integers) -> list[npt.NDArray[Any]]:
        return [np.asarray(self.matrix @ counts)]

    def norms(self) -> list[tuple[int, int]]:
        absolute = np.asarray(abs(self.matrix).sum(axis=0))
        squares = np.asarray(self.matrix.multiply(self.matrix).sum(axis=0))
        return [(int(absolute.max()), int(squares.max()))]

    @cached_property
    def gram(self) -> Floats:
        """A'A; whole numbers below 2^53, so that nothing is rounded."""
        return np.asarray((self.matrix.T @ self.matrix).toarray(), np.float64)

    @cached_property
    def _solver(self) -> Solver:
        return solver(self.matrix)

    def solve(self, right: Floats) -> Floats:
        """(A'A)⁻¹ times a vector, or times every column of a matrix."""
        return self._solver.solve(right)

    def estimate(self, noisy: npt.NDArray[Any]) -> Floats:
        """The least squares estimate x̂ of the cells."""
        return self.solve(np.asarray(self.matrix.T @ noisy, np.float64))

    def coefficients(self, weights: Floats) -> Floats:
        """What each measurement adds to weights·x̂."""
        return np.asarray(self.matrix @ self.solve(weights), np.float64)

    def total(self, workload: Floats) -> float:
        """Σ over the questions of w'(A'A)⁻¹w, from W'W."""
        return self._solver.trace(workload)

    def error(self, workload: Floats, *, gaussian: bool) -> float:
        """The total squared error where a row of a person moves the measurements by 1 in all: in
        the sum of squares (Gaussian noise), or in the sum of absolute values (Laplace noise).
        """
        absolute, squares = self.norms()[0]
        return (squares if gaussian else absolute * absolute) * self.total(workload)


def whole(name: str, matrix: Any) -> Strategy:
    """A matrix of whole numbers as it is."""
    from scipy.sparse import csr_array

    found = csr_array(matrix, dtype=np.int64)
    found.eliminate_zeros()
    return Strategy(name, found)


def rounded(name: str, matrix: Floats) -> Strategy:
    """The nearest matrix on a grid with 2^14 steps up to the largest entry."""
    return whole(name, np.rint(matrix * (GRID / np.abs(matrix).max())).astype(np.int64))
