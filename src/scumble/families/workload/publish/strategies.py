"""Strategies of the matrix mechanism: the best for a workload of fixed ones (cells, hierarchies,
the wavelet) and optimised ones (convex program, eigen-design, weighted sums, low-rank sums).
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

_SMALL = 1024  # most cells for which all strategies are tried
_MOST_SUMS = 512
_CELLS_A_SUM = 12
_LARGE_FANOUTS = (8, 16)
# Low-rank sums are tried if the best error is above the bound by more than this share: with them
# the errors of questions that were not asked are large.
_LEAST_GAP = 2.5e-3


@dataclass(frozen=True, eq=False)
class Choice:
    """The strategy with the least total error, the errors of all that were tried, and a lower bound
    on the error of any strategy; all for noise of variance 1 and strategies of column norm 1.
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
    """Return the best strategy for `workload` = W'W. `questions` are the distinct rows of W, with
    which searches start if they are few. The error of a signed strategy is multiplied by
    `signed_price`.
    """
    cells = len(workload)
    search = _Search(workload, gaussian, signed_price, identity(cells))
    if cells == 1:
        search.bound = float(workload[0, 0])
    else:
        for strategy in _list_known(cells, gaussian=gaussian):
            search.consider(strategy)
        if gaussian:
            best = optimal_gram(workload, gap=1e-3 if cells <= _SMALL else 2e-2)
            search.consider(best.strategy(), best.bound)
            if cells <= _SMALL:
                search.consider(eigen_design(workload))
        else:
            for start in _list_starts(cells, questions, search.tried):
                search.consider(weighted_sums(workload, start, _choose_stages(start)))
        beat = min(search.tried.values())
        if questions is not None and beat > (1 + _LEAST_GAP) * search.bound:
            spanning = low_rank(workload, questions, gaussian=gaussian, beat=beat)
            if spanning is not None:
                search.consider(spanning)
    if cells > 1 and not gaussian:
        # Columns of L1 norm 1 have L2 norm at most 1: the bound holds for them too.
        search.bound = singular_value_bound(workload)
    return search.choose()


class _Search:
    """The strategies tried so far, with their errors."""

    def __init__(
        self, workload: Floats, gaussian: bool, signed_price: float, first: Strategy
    ) -> None:
        self._workload, self._gaussian, self._price = workload, gaussian, signed_price
        self._best = first
        self.tried = {first.name: self._measure_error(first)}
        self.bound = 0.0

    def consider(self, strategy: Strategy, bound: float = 0.0) -> None:
        error = self._measure_error(strategy)
        self.bound = max(self.bound, bound)
        if error < min(self.tried.values()):
            self._best = strategy
        self.tried[strategy.name] = min(error, self.tried.get(strategy.name, error))

    def _measure_error(self, strategy: Strategy) -> float:
        error = strategy.error(self._workload, gaussian=self._gaussian)
        return error * (self._price if strategy.signed else 1.0)

    def choose(self) -> Choice:
        return Choice(self._best, self.tried, self.bound)


def _list_known(cells: int, *, gaussian: bool) -> Iterator[Strategy]:
    """Yield fixed strategies. For many cells only those that may be best: the wavelet never is with
    Laplace noise, and hierarchies of other fan-outs than 8 and 16 rarely are.
    """
    small = cells <= _SMALL
    if gaussian or small:
        yield wavelet(cells)
    for fanout in FANOUTS if small else _LARGE_FANOUTS:
        if fanout < 2 * cells:
            yield hierarchy(cells, fanout)


def _list_starts(cells: int, questions: Floats | None, tried: dict[str, float]) -> Iterator[Floats]:
    """Yield starting sums: the inner nodes of the best hierarchy, and the questions themselves."""
    most = max(cells // _CELLS_A_SUM, 8)  # more sums take longer and were not better in trials
    inner = {fanout: widths(cells, fanout)[1:-1] or [cells] for fanout in FANOUTS}
    few = [f for f in FANOUTS if sum(-(-cells // width) for width in inner[f]) <= most]
    best = min(few, key=lambda fanout: tried.get(hierarchy_name(fanout), np.inf))
    yield intervals(cells, inner[best]).astype(np.float64)
    most = min(_MOST_SUMS, max(cells // 2, 8), cells)
    if questions is not None and 0 < len(questions) <= most:
        yield questions


# --- Gaussian noise: a convex program with a lower bound -----------------------------------------
#
# With X = A'A the total error is tr(V X⁻¹), V = W'W, and a row changes the measurements by at most
# max X_ii in squares: minimise tr(V X⁻¹) subject to X_ii ≤ 1 (Li et al. 2010; Yuan et al. 2016).
# For multipliers λ ≥ 0 of the constraints the minimum of the Lagrangian is at the X with X Λ X = V,
#
#     X = Λ^-½ (Λ^½ V Λ^½)^½ Λ^-½,    with the bound    error ≥ (tr (Λ^½ V Λ^½)^½)² / Σ λ,
#
# for the best multiple of λ; λ = 1 gives the singular value bound of Li and Miklau. At the optimum
# X_ii = 1 where λ_i > 0. If X were diagonal, λ_i X_ii² would be the optimal λ; iterating this gains
# a digit or more per step. Every step gives a feasible X (scaled to X_ii = 1) and a bound, so that
# stopping early costs accuracy of the strategy, and the gap to the bound shows it.

_CONVEX_STEPS = 20
# Relative to the mean of the diagonal. Questions that the workload never asks stay answerable.
_CONVEX_RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class OptimalGram:
    """A feasible X = A'A with its total error, and a lower bound on the error of any strategy."""

    gram: Floats
    error: float
    bound: float

    def strategy(self) -> Strategy:
        """Return a triangular A with A'A = X, rounded to integers."""
        triangle: Floats = np.asarray(np.linalg.cholesky(self.gram).T, np.float64)
        return rounded_strategy("optimised", triangle)


def optimal_gram(workload: Floats, *, gap: float = 1e-3, steps: int = _CONVEX_STEPS) -> OptimalGram:
    """Return the best X for `workload` = W'W; the iteration stops when the error is within `gap` of
    the lower bound, or after `steps` steps.
    """
    multipliers = np.ones(len(workload))
    best, diagonal = _solve(workload, multipliers)
    bound = best.bound
    for _ in range(steps):
        if best.error <= (1 + gap) * bound:
            break
        multipliers = multipliers * diagonal**2
        multipliers /= multipliers.mean()
        candidate, diagonal = _solve(workload, multipliers)
        bound = max(bound, candidate.bound)
        best = min(best, candidate, key=lambda gram: gram.error)
    return OptimalGram(best.gram, best.error, bound)


def _solve(workload: Floats, multipliers: Floats) -> tuple[OptimalGram, Floats]:
    """Return the X of the given multipliers, scaled to be feasible, with its error and the bound of
    the multipliers; and the diagonal of X before scaling.
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
    """Return (Σ singular values of W)² / n, a lower bound on the error with Gaussian noise.

    Many cells are summed in pairs first, P'W'WP with orthonormal P, for an eighth of the time: its
    eigenvalues are at most the largest of W'W (Cauchy), so that the bound holds and is smaller.
    """
    cells = len(workload)
    if cells > _SMALL:
        firsts = np.arange(0, cells, 2)
        length = np.sqrt(np.diff(np.append(firsts, cells)))
        workload = np.add.reduceat(np.add.reduceat(workload, firsts, axis=0), firsts, axis=1)
        workload = workload / length / length[:, None]
    values = np.maximum(np.linalg.eigvalsh(workload), 0.0)
    return float(np.sqrt(values).sum()) ** 2 / cells


# --- fixed strategies: cells, hierarchies of intervals, the Haar wavelet -------------------------

FANOUTS = (2, 4, 8, 16, 32, 64)


def identity(cells: int) -> Strategy:
    """Return the strategy that measures every cell by itself."""
    from scipy.sparse import eye_array

    return integer_strategy("cells", eye_array(cells, dtype=np.int64))


def hierarchy(cells: int, fanout: int) -> Strategy:
    """Return the hierarchy: every cell, every interval of `fanout`, `fanout`², ... cells, and all
    cells.
    """
    return integer_strategy(hierarchy_name(fanout), _stack_intervals(cells, widths(cells, fanout)))


def hierarchy_name(fanout: int) -> str:
    """Return the name of the hierarchy of this fan-out in a `Choice`."""
    return f"hierarchy of fan-out {fanout}"


def widths(cells: int, fanout: int) -> list[int]:
    """Return the widths of the intervals of a hierarchy, from 1 to one that holds all cells."""
    lengths = [1]
    while lengths[-1] < cells:
        lengths.append(lengths[-1] * fanout)
    return lengths


def intervals(cells: int, widths: Sequence[int]) -> Integers:
    """Return one row of ones and zeros for every interval of the given widths."""
    return np.asarray(_stack_intervals(cells, widths).toarray(), np.int64)


def wavelet(cells: int) -> Strategy:
    """Return the Haar wavelet: the sum of all cells, and, for every interval of repeated halving,
    the left half minus the right half.
    """
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


def _stack_intervals(cells: int, widths: Sequence[int]) -> Any:
    from scipy.sparse import csr_array

    every = np.arange(cells)
    firsts = np.cumsum([0, *(-(-cells // width) for width in widths)])
    rows = np.concatenate(
        [first + every // width for first, width in zip(firsts, widths, strict=False)]
    )
    ones = np.ones(len(rows), np.int64)
    return csr_array((ones, (rows, np.tile(every, len(widths)))), shape=(firsts[-1], cells))


# --- Laplace noise: all cells, and a few weighted sums of cells ----------------------------------
#
# The columns of A = [1; Θ]·diag(s)⁻¹, s_j = 1 + Σ_i Θ_ij, have L1 norm 1 for every Θ ≥ 0, so the
# sensitivity needs no constraint (McKenna et al., VLDB 2018). The total error
#
#     f(Θ) = tr((1 + Θ'Θ)⁻¹ · diag(s) W'W diag(s))
#
# and its gradient need an inverse of the size of the number of sums only. Θ is found by L-BFGS,
# starting from intervals of a hierarchy or from the questions asked. Where there are many cells,
# the weights are at first equal in groups of neighbouring cells, and then in smaller ones. With
# groups of w_g cells, Θ = Φ·(the indicator of the groups) and V summed over groups,
#
#     f(Φ) = diag(V)·s² − tr((1 + Φ diag(w) Φ')⁻¹ · Φ diag(s) V diag(s) Φ').

_SUMS_RIDGE = 1e-4  # relative to the mean of the diagonal
# Cells in a group, and steps. For 1,024 and 2,048 prefixes, ranges and random ranges the last stage
# ends below 60 steps with free weights, in half of the time.
_COARSE_TO_FINE = ((8, 100), (4, 40), (2, 20))


def _choose_stages(start: Floats) -> Sequence[tuple[int, int]]:
    """Return for the search from `start` how many cells are in a group, and the number of steps."""
    if start.shape[1] <= _SMALL:
        return ((1, 150),)
    widest = _COARSE_TO_FINE[0][0]
    groups = np.arange(start.shape[1]) // widest * widest
    return _COARSE_TO_FINE if np.array_equal(start, start[:, groups]) else ((1, 60),)


def weighted_sums(workload: Floats, start: Floats, stages: Sequence[tuple[int, int]]) -> Strategy:
    """Return the strategy of all cells and as many sums as `start` has rows, optimised for
    `workload` = W'W from `start`. Cells keep some weight, so that questions that the workload never
    asks stay answerable; the error may therefore be slightly above that of `start` itself.

    `stages` are pairs of the number of neighbouring cells with equal weights, and of steps.
    """
    from scipy.sparse import csr_array, dia_array, vstack

    raised = workload / np.trace(workload)
    raised.flat[:: len(raised) + 1] += _SUMS_RIDGE / len(raised)
    sums = start
    for width, steps in stages:
        sums = _descend(raised, sums, width, steps)
    scale = 1 + sums.sum(axis=0)
    unit = GRID / max(float((1 / scale).max()), float((sums / scale).max()))
    cells = dia_array((np.maximum(np.rint(unit / scale), 1)[None], [0]), shape=workload.shape)
    # The least is 1, so that every cell is measured.
    whole = csr_array(np.rint(unit * sums / scale), dtype=np.int64)
    return integer_strategy("cells and weighted sums", vstack([cells, whole], format="csr"))


def _descend(workload: Floats, start: Floats, width: int, steps: int) -> Floats:
    """Return better sums than `start`, with equal weights for `width` neighbouring cells."""
    from scipy.optimize import Bounds, minimize

    cells = len(workload)
    firsts = np.arange(0, cells, width)
    widths = np.diff(np.append(firsts, cells))
    summed = np.add.reduceat(np.add.reduceat(workload, firsts, axis=0), firsts, axis=1)
    diagonal = np.add.reduceat(np.diag(workload), firsts)
    shape = len(start), len(firsts)
    minimum: Any = minimize(
        lambda theta: weighted_sums_objective(summed, diagonal, theta.reshape(shape), widths),
        start[:, firsts].reshape(-1),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(0.0, np.inf),
        options={"maxiter": steps, "maxfun": 2 * steps},
    )
    return np.repeat(np.asarray(minimum.x, np.float64).reshape(shape), widths, axis=1)


def weighted_sums_objective(
    workload: Floats, diagonal: Floats, sums: Floats, widths: Integers
) -> tuple[float, Floats]:
    """Return f and its gradient at Φ = `sums`, for V summed over groups of `widths` cells, and the
    sum of its diagonal in each group.
    """
    scale = 1 + sums.sum(axis=0)
    inner = np.linalg.inv(np.eye(len(sums)) + (widths * sums) @ sums.T)
    product = scale[:, None] * (workload @ (scale * sums).T)  # diag(s) V diag(s) Φ'
    reduced = inner @ sums
    moved = inner @ product.T
    value = float(diagonal @ scale**2 - np.sum(sums * moved))
    through_sums = -2 * (moved - widths * ((moved @ sums.T) @ reduced))
    through_scale = 2 * (diagonal * scale - np.einsum("ij,ji->j", reduced, product) / scale)
    return value, (through_sums + through_scale).reshape(-1)


# --- eigen-design: the eigenvectors of a workload as measurements, optimally weighted ------------
#
# Li and Miklau, VLDB 2012: with W'W = Q'DQ minimise Σ d_i / u_i subject to Σ_i u_i Q_ij² ≤ 1, a
# small convex program. Then every column is filled up to norm 1 with rows of single cells, which
# does not increase the sensitivity.

_EIGEN_STEPS = 100
_EIGEN_RIDGE = 1e-6


def eigen_design(workload: Floats) -> Strategy:
    """Return the eigen-design of `workload` = W'W for Gaussian noise."""
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


# --- low rank -------------------------------------------------------------------------------------
#
# Strategies of low rank: sums of cells that span no more than the questions of a workload.
#
# The low-rank mechanism (Yuan, Zhang, Winslett, Xiao, Yang, Hao, VLDB 2012) factors the questions W
# into B L and publishes L x with noise. With L fixed, least squares is the best B, so that L is a
# strategy of the matrix mechanism. With T a matrix and R an orthonormal basis of the rows of W, in
# which R W'W R' = diag(v), the strategy L = T R has, scaled to column norm 1, the total error
#
#     tr(diag(v) (T'T)⁻¹) · max_j ‖column j of T R‖².
#
# The maximum and, for Laplace noise, the absolute values of L1 norms are smoothed, less and less.
# For Laplace noise there are many local minima, so that several starts are tried. For Gaussian
# noise the error depends on T'T alone, as a convex program: one start is enough.

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
    basis = questions[_find_independent(questions)]
    if len(basis) == cells:
        return None
    asked = _round_to_integers(questions, questions, gaussian=gaussian)
    best = _BasisSearch(workload, basis, gaussian=gaussian).best(questions, beat)
    if best is None:
        return asked
    better = _round_to_integers(best, basis, gaussian=gaussian)
    return min(asked, better, key=lambda strategy: strategy.error(workload, gaussian=gaussian))


def _find_independent(questions: Floats) -> list[int]:
    """Return the numbers of rows that are a basis of all rows."""
    from scipy.linalg.lapack import dpstrf

    gram = questions @ questions.T
    _, order, rank, _ = dpstrf(gram, tol=1e-9 * float(gram.max(initial=1.0)))
    return sorted((order[:rank] - 1).tolist())


def _round_to_integers(strategy: Floats, basis: Floats, *, gaussian: bool) -> Strategy:
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


class _BasisSearch:
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
        for number, start in enumerate(self._list_starts(questions)):
            if number and number * one > _MOST_WORK:
                break
            tried.append(self._improve(start, _STAGES, _FEW_STEPS))
            if number == _FIRST and min(map(self.error, tried)) > _FAR * beat:
                return None
        best = min(tried, key=self.error)
        if len(tried) * one <= _MOST_WORK:
            best = min(best, self._improve(best, _LAST_STAGES, _MORE_STEPS), key=self.error)
        strategy: Floats = best @ self._basis
        return strategy

    def error(self, factor: Floats) -> float:
        """Return the total error of T = `factor` for column norms of 1."""
        columns = np.abs(factor @ self._basis)
        norms = (columns**2).sum(axis=0) if self._gaussian else columns.sum(axis=0) ** 2
        inverse = np.linalg.pinv(factor.T @ factor, hermitian=True)
        return float(norms.max() * (np.diag(inverse) @ self._values))

    def _list_starts(self, questions: Floats) -> Iterator[Floats]:
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

    def _improve(
        self, start: Floats, stages: tuple[tuple[float, float], ...], steps: int
    ) -> Floats:
        """Return T after `steps` steps with each smoothing: the width of the corner of absolute
        values, and the sharpness of the maximum.
        """
        from scipy.optimize import minimize

        factor = start
        for corner, sharpness in stages:
            factor = factor / np.abs(factor @ self._basis).sum(axis=0).max()
            minimum = minimize(
                lambda flat, *smoothing: self._smooth(flat.reshape(start.shape), *smoothing),
                factor.reshape(-1),
                args=(corner, sharpness),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20},
            )
            factor = np.asarray(minimum.x, np.float64).reshape(start.shape)
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
