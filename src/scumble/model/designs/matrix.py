"""The matrix mechanism: merged cells, a strategy of integer sums of cells, its noisy measurements
as published, and the normal equations that answer a workload from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model import stored
from scumble.model.designs.design import Design, Extents
from scumble.model.errors import ReleaseError
from scumble.model.laws import NoiseLaw, noise_law_from_dict
from scumble.model.privacy.accounting import PrivacyUnit, cost_of_sums
from scumble.model.privacy.stated_loss import StatedLoss, of_loss
from scumble.model.stored import DAMAGED, indices

NOISY, CELLS, ENTRIES = "noisy", "cells", "entries"  # columns of the file
_EXACT = 2.0**53  # below it sums of products of coefficients are exact, as integers and as floats


@dataclass(frozen=True, eq=False)
class Matrix(Design):
    """The design of a workload release: the merged cells, and the noise, independent for each row.
    Each row of the file names its sum: the numbers of its merged cells and their coefficients.
    """

    kind: ClassVar[str] = "matrix"

    merged: MergedCells
    noise: NoiseLaw

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.merged.to_dict(), "noise": self.noise.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Matrix:
        return cls(MergedCells.from_dict(data), noise_law_from_dict(data["noise"]))

    @property
    def extents(self) -> Extents:
        return self.merged.extents

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        strategy, _ = from_table(pq.read_table(file), self.merged.cells)
        gram = not strategy.signed
        return of_loss(cost_of_sums([self.noise], strategy.norms(), unit, nonnegative_gram=gram))


@dataclass(frozen=True, eq=False)
class MergedSums:
    """The transform from the counts of all cells to the measurements of a strategy on merged
    cells.
    """

    merged: MergedCells
    strategy: Strategy

    def nonnegative_gram(self, laws: Sequence[object]) -> bool:
        return not self.strategy.signed

    def apply(self, counts: npt.NDArray[np.int64]) -> list[npt.NDArray[Any]]:
        return self.strategy.apply(self.merged.merge(counts))

    def norms(self) -> list[tuple[int, int]]:
        """Return the norms of the strategy: a row is in exactly one merged cell."""
        return self.strategy.norms()


def to_table(strategy: Strategy, noisy: npt.NDArray[Any]) -> pa.Table:
    """Return the table to publish: every noisy sum with its merged cells and coefficients."""
    matrix = strategy.matrix.sorted_indices()
    ends = pa.array(matrix.indptr.astype(np.int32))
    cells = pa.ListArray.from_arrays(ends, pa.array(matrix.indices.astype(np.int32)))
    entries = pa.ListArray.from_arrays(ends, pa.array(matrix.data.astype(np.int32)))
    return pa.table({NOISY: pa.array(noisy.astype(np.int64)), CELLS: cells, ENTRIES: entries})


def from_table(table: pa.Table, cells: int) -> tuple[Strategy, npt.NDArray[np.int64]]:
    """Return the strategy and the noisy sums that `to_table` wrote; `cells` is the number of merged
    cells. ReleaseError if the table is no such strategy: libraries for sparse matrices check no
    bounds, and whole numbers overflow without a word.
    """
    from scipy.sparse import csr_array

    listed = table[CELLS].combine_chunks(), table[ENTRIES].combine_chunks()
    ends, others = (each.offsets.to_numpy() - each.offsets[0].as_py() for each in listed)
    places, entries = (each.flatten().to_numpy().astype(np.int64) for each in listed)
    if any(each.null_count for each in listed) or not np.array_equal(ends, others):
        raise ReleaseError(DAMAGED)
    indices(places, cells)
    if len(places) and np.bincount(places, entries.astype(np.float64) ** 2).max() >= _EXACT:
        raise ReleaseError(DAMAGED)
    matrix = csr_array((entries, places, ends), shape=(table.num_rows, cells))
    return Strategy("published", matrix), table[NOISY].to_numpy()


# --- merged cells --------------------------------------------------------------------------------
#
# Cells of a product of domains that no question of a workload distinguishes are merged into one.
# First the values of every block of attributes are merged (attributes are in one block if a
# condition compares them), then the cells of the product of the resulting classes.

Labels = npt.NDArray[np.int64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AttributeBlock:
    """A block of attributes, and the class of every cell of the product of their domains, the last
    attribute fastest. Classes are numbered in the order of their first cells.
    """

    names: tuple[str, ...]
    labels: Labels

    @cached_property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    @cached_property
    def sizes(self) -> npt.NDArray[np.float64]:
        """The number of cells in each class."""
        return np.bincount(self.labels, minlength=self.classes).astype(np.float64)

    def first(self) -> Labels:
        """Return the first cell of every class."""
        return np.unique(self.labels, return_index=True)[1].astype(np.int64)


@dataclass(frozen=True, eq=False)
class MergedCells:
    """Blocks of attributes, and the merged cell of every cell of the product of their classes."""

    blocks: tuple[AttributeBlock, ...]
    labels: Labels

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes of all blocks, in the order of the counts to merge."""
        return tuple(name for block in self.blocks for name in block.names)

    @cached_property
    def cells(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(block.classes for block in self.blocks)

    @property
    def extents(self) -> Extents:
        """The attributes of each block, and how many combinations of values they have."""
        return tuple((block.names, len(block.labels)) for block in self.blocks)

    def merge(self, counts: Integers) -> Integers:
        """Return the counts of the merged cells from those of the product of `names`."""
        tensor = counts.reshape([len(block.labels) for block in self.blocks])
        for axis, block in enumerate(self.blocks):
            tensor = _added(tensor, axis, block.labels)
        return _added(tensor.reshape(-1), 0, self.labels)

    def total(self, by_class: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the sum over each merged cell of numbers given for the product of the classes."""
        return np.asarray(np.bincount(self.labels, by_class.reshape(-1), self.cells), np.float64)

    def to_dict(self) -> dict[str, Any]:
        blocks = [{"names": list(b.names), "labels": _runs(b.labels)} for b in self.blocks]
        return {"blocks": blocks, "labels": _runs(self.labels)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MergedCells:
        blocks = tuple(
            AttributeBlock(stored.items(stored.text, each["names"]), _labels(each["labels"]))
            for each in data["blocks"]
        )
        found = cls(blocks, _labels(data["labels"]))
        if len(found.labels) != prod(found.shape):
            raise ValueError("every combination of classes has a merged cell")
        return found


def numbered_by_appearance(labels: npt.NDArray[Any]) -> Labels:
    """Return the same classes, renumbered in the order of their first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


def _added(tensor: Integers, axis: int, labels: Labels) -> Integers:
    """Return the sums, along `axis`, of the entries that have the same label."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(int(labels.max()) + 1))
    return np.add.reduceat(np.take(tensor, order, axis), starts, axis)


def _runs(labels: Labels) -> list[list[int]]:
    """Return labels as runs [first, step, length] with steps of 0 or 1, for the manifest."""
    runs: list[list[int]] = []
    for label in labels.tolist():
        if runs:
            first, step, length = runs[-1]
            if length == 1 and label - first in (0, 1):
                runs[-1] = [first, label - first, 2]
                continue
            if label == first + step * length:
                runs[-1][2] += 1
                continue
        runs.append([label, 0, 1])
    return runs


_MOST_LABELS = 1 << 28


def _labels(runs: Sequence[Sequence[int]]) -> Labels:
    if sum(stored.whole(length) for _, _, length in runs) > _MOST_LABELS:
        raise ValueError("too many labels")
    parts = [
        stored.whole(first) + stored.whole(step) * np.arange(length) for first, step, length in runs
    ]
    found = np.concatenate(parts).astype(np.int64)
    if set(np.unique(found).tolist()) != set(range(int(found.max()) + 1)):
        raise ValueError("classes are numbered from 0 on")
    return found


# --- strategies: integer sums of cells that are measured in place of the questions ---------------
#
# The measurement is y = Ax + noise. Every question w is answered by w·x̂ with x̂ the least squares
# estimate. With independent noise of variance v its error has the variance v · w'(A'A)⁻¹w, whatever
# the data.

Floats = npt.NDArray[np.float64]

GRID = 1 << 14  # the largest entry of a strategy found by optimisation


@dataclass(frozen=True, eq=False)
class Strategy:
    """An integer matrix A of full column rank with one row for each measurement.

    Its measurements are one group. Its norms are exact: those of the columns of the integer matrix
    that is applied.
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
        """Whether two columns have a negative inner product. If no two do, the squared norm of the
        difference of two columns is at most the sum of their squared norms.
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

    def single_rows(self, share: float) -> npt.NDArray[np.intp]:
        """Return the numbers of the rows of one cell whose entries are at most `share` of the
        largest L2 norm of a column.
        """
        single = np.flatnonzero(np.diff(self.matrix.indptr) == 1)
        entries = np.abs(self.matrix.data[self.matrix.indptr[single]])
        found: npt.NDArray[np.intp] = single[entries <= share * self.norms()[0][1] ** 0.5]
        return found

    @cached_property
    def gram(self) -> Floats:
        """A'A; its entries are integers below 2^53, so that nothing is rounded."""
        return np.asarray((self.matrix.T @ self.matrix).toarray(), np.float64)

    @cached_property
    def _solver(self) -> NormalEquations:
        return normal_equations(self.matrix)

    def solve(self, right: Floats) -> Floats:
        """Return (A'A)⁻¹ times a vector, or times every column of a matrix."""
        return self._solver.solve(right)

    def estimate(self, noisy: npt.NDArray[Any]) -> Floats:
        """Return the least squares estimate x̂ of the cells from the noisy measurements."""
        return self.solve(np.asarray(self.matrix.T @ noisy, np.float64))

    def coefficients(self, weights: Floats) -> Floats:
        """Return the coefficient of each measurement in weights·x̂."""
        return np.asarray(self.matrix @ self.solve(weights), np.float64)

    def total(self, workload: Floats) -> float:
        """Return Σ over the questions of w'(A'A)⁻¹w, from `workload` = W'W."""
        return self._solver.trace(workload)

    def error(self, workload: Floats, *, gaussian: bool) -> float:
        """Return the total squared error of the workload W'W for noise of variance 1, with the
        strategy scaled to column norm 1: L2 norm for Gaussian noise, L1 norm for Laplace noise.
        """
        absolute, squares = self.norms()[0]
        return (squares if gaussian else absolute * absolute) * self.total(workload)


def integer_strategy(name: str, matrix: Any) -> Strategy:
    """Return the strategy with this integer matrix."""
    from scipy.sparse import csr_array

    found = csr_array(matrix, dtype=np.int64)
    found.eliminate_zeros()
    return Strategy(name, found)


def rounded_strategy(name: str, matrix: Floats) -> Strategy:
    """Return the strategy with the matrix scaled to a largest entry of 2^14 and rounded."""
    return integer_strategy(name, np.rint(matrix * (GRID / np.abs(matrix).max())).astype(np.int64))


# --- normal equations, solved by the cheapest method that the matrix allows ----------------------
#
# If every cell has a row of its own, A'A = D + B'B with D diagonal and B the other rows, and the
# inverse needs one of the size of B only: (D + B'B)⁻¹ = D⁻¹ − D⁻¹B'(1 + BD⁻¹B')⁻¹BD⁻¹. In other
# cases, and where D is so small that the difference would lose digits, A'A is factored directly.

_STEEPEST = 1e7  # largest diagonal entry of BD⁻¹B' with which the difference keeps eight digits


class NormalEquations(Protocol):
    """The solution of the normal equations: products with (A'A)⁻¹."""

    def solve(self, right: Floats) -> Floats:
        """Return (A'A)⁻¹ times a vector, or times every column of a matrix."""
        ...

    def trace(self, workload: Floats) -> float:
        """Return tr((A'A)⁻¹ V) for a symmetric V = `workload`."""
        ...


def normal_equations(matrix: Any) -> NormalEquations:
    """Return the normal equations of a matrix A in compressed rows."""
    single = np.diff(matrix.indptr) == 1
    others = int(np.sum(~single))
    weights = np.zeros(matrix.shape[1])
    own = matrix[single]
    np.add.at(weights, own.indices, own.data.astype(np.float64) ** 2)
    if weights.all() and 2 * others <= matrix.shape[1]:
        rest = matrix[~single].astype(np.float64).toarray()
        if (rest**2 / weights).sum(axis=1).max(initial=0.0) <= _STEEPEST:
            return DiagonalPlusLowRank(weights, rest)
    return DenseCholesky(np.asarray((matrix.T @ matrix).toarray(), np.float64))


class DiagonalPlusLowRank:
    """A'A = D + B'B: every cell has a row of its own, and there are a few other rows B."""

    def __init__(self, weights: Floats, others: Floats) -> None:
        from scipy.linalg import cho_factor

        self._weights, self._others = weights, others
        self._scaled = others / weights
        self._inner = cho_factor(np.eye(len(others)) + self._scaled @ others.T, check_finite=False)

    def solve(self, right: Floats) -> Floats:
        """The difference of two large numbers loses digits: what it leaves is solved for again."""
        found = self._difference(right)
        if not len(self._others):
            return found
        explained = (found.T * self._weights).T + self._others.T @ (self._others @ found)
        return found + self._difference(right - explained)

    def _difference(self, right: Floats) -> Floats:
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


class DenseCholesky:
    """A'A of any matrix of full column rank, by Cholesky factorisation."""

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
