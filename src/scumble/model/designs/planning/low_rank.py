"""Strategies of low rank: sums of cells that span no more than the questions of a workload.

The low-rank mechanism (Yuan, Zhang, Winslett, Xiao, Yang, Hao, VLDB 2012) factors the questions W
into B L and publishes L x with noise. With L fixed, least squares is the best B, so that L is a
strategy of the matrix mechanism. With T a matrix and R an orthonormal basis of the rows of W, in
which R W'W R' = diag(v), the strategy L = T R has, scaled to column norm 1, the total error

    tr(diag(v) (T'T)⁻¹) · max_j ‖column j of T R‖².

The maximum and, for Laplace noise, the absolute values of L1 norms are smoothed, less and less. For
Laplace noise there are many local minima, so that several starts are tried. For Gaussian noise the
error depends on T'T alone, as a convex program: one start is enough.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scumble.model.designs.matrix import Floats, Strategy, integer_strategy

NAME = "low-rank sums"
MOST_QUESTIONS = 1024
_MOST_WORK = 2 * 10**9  # multiplications of all searches together, roughly; one is always made,
_MOST_ONE = 10**10  # unless it takes more than this
_FIRST, _FAR = 2, 1.3  # where the first starts end varies by less than this
_RANDOM_STARTS = 6
_SHARES = (6, 8)  # measurements of a random start, in fifths of the rank
_STAGES = ((0.03, 50.0), (0.01, 150.0), (3e-3, 500.0), (1e-3, 1500.0), (3e-4, 5000.0))
_LAST_STAGES = (*_STAGES[1:], (1e-4, 15_000.0), (3e-5, 50_000.0))
_FEW_STEPS, _MORE_STEPS = 60, 200
_NORM = {False: 1 << 20, True: 1 << 17}  # of columns, by whether the noise is Gaussian


def low_rank(
    workload: Floats, questions: Floats, *, gaussian: bool, beat: float
) -> Strategy | None:
    """Return a strategy within the span of `questions`, the distinct rows of W, for `workload` =
    W'W: the questions themselves, or the best that was found, if its error may be below `beat`.
    None if the questions tell every cell, or are so many that a search would take long.

    Every cell has a row of its own, with the least weight possible, or what its column leaves free.
    So questions outside of the span have an answer, with a large error.
    """
    cells = questions.shape[1]
    if len(questions) > MOST_QUESTIONS:
        return None
    basis = questions[_independent(questions)]
    if len(basis) == cells:
        return None
    asked = _in_integers(questions, questions, gaussian=gaussian)
    found = _Search(workload, basis, gaussian=gaussian).best(questions, beat)
    if found is None:
        return asked
    better = _in_integers(found, basis, gaussian=gaussian)
    return min(asked, better, key=lambda each: each.error(workload, gaussian=gaussian))


def _independent(questions: Floats) -> list[int]:
    """Return the numbers of rows that are a basis of all rows."""
    from scipy.linalg.lapack import dpstrf

    gram = questions @ questions.T
    _, order, rank, _ = dpstrf(gram, tol=1e-9 * float(gram.max(initial=1.0)))
    return sorted((order[:rank] - 1).tolist())


def _in_integers(strategy: Floats, basis: Floats, *, gaussian: bool) -> Strategy:
    """Return the strategy with integer coefficients of the rows of `basis`, which are integers:
    so it stays in their span. Columns are filled up to the largest norm with rows of single cells.
    """
    power = 2 if gaussian else 1
    norm = float((np.abs(strategy) ** power).sum(axis=0).max()) ** (1 / power)
    if strategy is basis:
        rows = basis * (_NORM[gaussian] // int(np.ceil(norm)))
    else:
        factors = np.linalg.lstsq(basis.T, strategy.T * (_NORM[gaussian] / norm), rcond=None)[0]
        rows = np.rint(factors.T) @ basis
    used = (np.abs(rows) ** power).sum(axis=0)
    left = np.floor((used.max() - used) ** (1 / power))
    return integer_strategy(NAME, np.vstack([rows[rows.any(axis=1)], np.diag(np.maximum(left, 1))]))


class _Search:
    """Quasi-Newton steps on T from several starts, for the questions that `basis` spans."""

    def __init__(self, workload: Floats, basis: Floats, *, gaussian: bool) -> None:
        orthonormal = np.linalg.qr(basis.T)[0].T
        values, vectors = np.linalg.eigh(orthonormal @ workload @ orthonormal.T)
        self._values = np.maximum(values, 1e-12 * values[-1])
        self._basis = np.ascontiguousarray(vectors.T @ orthonormal)
        self._gaussian = gaussian

    def best(self, questions: Floats, beat: float) -> Floats | None:
        """Return the strategy with the least error that was found. None if a search takes too long,
        or if the first ones end far above the error `beat`.
        """
        rank, cells = self._basis.shape
        one = len(_STAGES) * _FEW_STEPS * 4 * 2 * rank * rank * cells
        if one > _MOST_ONE:
            return None
        tried = []
        for number, start in enumerate(self._starts(questions)):
            if number and number * one > _MOST_WORK:
                break
            tried.append(self._improved(start, _STAGES, _FEW_STEPS))
            if number == _FIRST and min(map(self.error, tried)) > _FAR * beat:
                return None
        best = min(tried, key=self.error)
        if len(tried) * one <= _MOST_WORK:
            best = min(best, self._improved(best, _LAST_STAGES, _MORE_STEPS), key=self.error)
        found: Floats = best @ self._basis
        return found

    def error(self, factor: Floats) -> float:
        """Return the total error of T = `factor` for column norms of 1."""
        columns = np.abs(factor @ self._basis)
        norms = (columns**2).sum(axis=0) if self._gaussian else columns.sum(axis=0) ** 2
        inverse = np.linalg.pinv(factor.T @ factor, hermitian=True)
        return float(norms.max() * (np.diag(inverse) @ self._values))

    def _starts(self, questions: Floats) -> Iterator[Floats]:
        roots, rank = self._values**0.25, len(self._values)
        if self._gaussian:
            yield np.diag(roots)
            return
        random = np.random.default_rng(0)  # the search depends on no data
        for number in range(_RANDOM_STARTS):
            rows = -(-_SHARES[number % 2] * rank // 5)
            yield np.linalg.qr(random.standard_normal((rows, rank)))[0] * roots
            if number == 0:
                yield np.diag(roots)
            if number == 1 and len(questions) <= 4 * rank:
                yield questions @ self._basis.T

    def _improved(
        self, start: Floats, stages: tuple[tuple[float, float], ...], steps: int
    ) -> Floats:
        """Return T after `steps` steps with each smoothing: the width of the corner of absolute
        values, and the sharpness of the maximum.
        """
        from scipy.optimize import minimize

        factor = start
        for corner, sharpness in stages:
            factor = factor / np.abs(factor @ self._basis).sum(axis=0).max()
            found = minimize(
                lambda flat, *smoothing: self._smooth(flat.reshape(start.shape), *smoothing),
                factor.reshape(-1),
                args=(corner, sharpness),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20},
            )
            factor = np.asarray(found.x, np.float64).reshape(start.shape)
        return factor

    def _smooth(self, factor: Floats, corner: float, sharpness: float) -> tuple[float, Floats]:
        """Return the logarithm of the smoothed error, and its gradient."""
        gram = factor.T @ factor
        gram[np.diag_indices(len(gram))] += 1e-12 * np.trace(gram) / len(gram)
        inverse = np.linalg.inv(gram)
        error = float(np.diag(inverse) @ self._values)
        falling = factor @ (inverse * self._values @ inverse) * (-2 / error)
        sums = factor @ self._basis
        lengths = np.sqrt(sums * sums + corner * corner)
        norms = lengths.sum(axis=0)
        # Gaussian noise: the squares of columns, whose largest is smoothed as that of the norms.
        if self._gaussian:
            norms, slopes, power = (sums * sums).sum(axis=0), 2 * sums, 1.0
        else:
            slopes, power = sums / lengths, 2.0
        weights = np.exp(sharpness * (norms - norms.max()))
        largest = float(norms.max() + np.log(weights.sum()) / sharpness)
        slope = (slopes * (weights / weights.sum())) @ self._basis.T
        value = float(np.log(error) + power * np.log(largest))
        return value, (falling + power / largest * slope).reshape(-1)
