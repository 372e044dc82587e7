"""Reader of a base and of counts that were measured after it, one after the other.

All estimates are best linear unbiased ones from everything that is known: the noisy numbers of a
product of axes, the number of rows where it is public, and the appended counts. The covariance of
two weighted sums by the base alone is k(q, r) = Σ σ² Π ⟨c, d⟩: the sum is over the combinations of
groups of the axes, c and d are the coefficients of q and r in one group of an axis. Appended count
n has the row y of a lower triangular factor L of the covariances of all appended counts, noise
included: L y = k(its weights, those before), then √(v + σ²) with its variance v before. Nothing is
factored again. The inverse of L is what is kept, since it is all that is used. einsum multiplies
few rows by large matrices: matrix multiplication shares that out to threads, at several times the
CPU time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np

from scumble.model.cache import Cache
from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import Product
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.kronecker import ProductReader
from scumble.public.estimation.measurements.readings import (
    AverageReadings,
    AverageWeights,
    Codes,
    GroupedAxes,
    LinearReading,
    OneByOne,
    Readings,
    Weights,
    WeightTensor,
)

_TOGETHER = 1 << 22  # numbers of products of coefficients at a time
_CACHED = 1 << 24  # numbers of coefficients
_ROUNDING = 1e-13  # of the variance by the base: what is left of a sum that is known


@dataclass(frozen=True, eq=False)
class Terms:
    """Weighted sums of cells, each as a sum of products over the axes.

    `rows` has the coefficients of a product in each row, one axis after the other; `owners` the
    place of the sum that it belongs to, in ascending order.
    """

    rows: Floats
    owners: Codes
    sums: int

    def added(self, products: Floats) -> Floats:
        """Return the sums of rows of one owner; the first direction of `products` is rows."""
        if len(self.owners) == self.sums:
            return products
        found: Floats = np.zeros((self.sums, *products.shape[1:]))
        np.add.at(found, self.owners, products)
        return found


class AppendedReader:
    """Reads weighted sums of cells from a base and appended counts; `rows` is the public number of
    rows, or None.
    """

    method = "best linear unbiased estimate from everything that was measured"

    def __init__(
        self, design: Product, schema: Schema, numbers: Floats, rows: int | None = None
    ) -> None:
        self._base = ProductReader.of_numbers(design, schema, numbers)
        self._start(design, schema, rows)

    def _start(self, design: Any, schema: Schema, rows: int | None) -> None:
        """Begin with no appended counts, but for a public number of rows."""
        self._design, self._schema, self._rows = design, schema, rows
        sizes = [length for axis in design.axes for length in axis.lengths]
        self._starts = np.cumsum([0, *sizes])[:-1]  # of the groups of all axes, in a row
        self._width = sum(sizes)
        self._known = Cache[tuple[int, bytes], Floats](_CACHED)
        self._terms = np.empty((16, self._width))
        self._owners = np.empty(16, np.intp)
        self._inverse = np.zeros((16, 16))
        self._surprises = np.empty(16)
        self._products = 0  # rows of `_terms` in use
        self.appended = 0
        if rows is not None:  # an exact answer to one question
            self.append(Weights(()), 0.0, rows)

    def at(self, appended: int) -> AppendedReader:
        """Return the reader as it was after so many appended counts. It may learn others, as long
        as this one does not.
        """
        found = copy(self)
        found.appended = appended
        found._products = int(np.searchsorted(self._owners[: self._products], appended))
        return found

    def append(self, weights: Weights, variance: float, value: float) -> None:
        """Learn a count, or another weighted sum, with independent noise of this variance."""
        terms = self._terms_of([weights])
        [before], [known] = self._read(terms, [weights])
        total = max(before.variance, 0.0) + variance
        count = self.appended
        self._grow(len(terms.rows))
        if total > 0:
            scale = 1 / sqrt(total)
            before_it = self._inverse[:count, :count]
            self._inverse[count, :count] = -scale * np.einsum("n,nk->k", known, before_it)
            self._inverse[count, count] = scale
            self._surprises[count] = (value - before.value) * scale
        else:  # nothing new
            self._inverse[count], self._surprises[count] = 0.0, 0.0
        end = self._products + len(terms.rows)
        self._terms[self._products : end] = terms.rows
        self._owners[self._products : end] = count
        self._products, self.appended = end, count + 1

    def read(self, weights: Weights) -> LinearReading:
        return self.read_many([weights])[0]

    def estimate(self, weights: Weights) -> LinearReading:
        """Return the least squares estimate, which has a very large variance, and no bounds, where
        nothing that was measured tells the sum.
        """
        return self._read(self._terms_of([weights]), [weights])[0][0]

    def read_many(self, several: Sequence[Weights]) -> list[LinearReading]:
        """Return the readings that `read` returns for each of them."""
        return self._read(self._terms_of(several), several)[0]

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        both = self._terms_of([first, second])
        (one, other), known = self._read(both, [first, second])
        own = both.added(self._covariances(both, both).T)
        covariance = float(both.added(own.T)[0, 1]) - float(known[0] @ known[1])
        if not (one.variance and other.variance):
            covariance = 0.0
        return one, other, covariance

    def by_group(self, weights: Weights, grouping: GroupedAxes) -> Readings:
        """Return a reading of each group: its own cells have their weights, all others 0."""
        return Readings.of(self.read_many(self._groups(weights, grouping)))

    def _groups(self, weights: Weights, grouping: GroupedAxes) -> list[Weights]:
        return [
            weights.fixed(self._schema, dict(zip(grouping.names, codes, strict=True)))
            for codes in np.ndindex(*grouping.shape)
        ]

    def averages(self, average: AverageWeights, grouping: GroupedAxes) -> AverageReadings:
        return OneByOne(self._schema, self).averages(average, grouping)

    def _read(self, terms: Terms, several: Sequence[Weights]) -> tuple[list[LinearReading], Floats]:
        """Return the readings of weighted sums, and their rows of the triangular factor."""
        past = Terms(self._terms[: self._products], self._owners[: self._products], self.appended)
        covariances = terms.added(past.added(self._covariances(past, terms)).T)
        inverse = self._inverse[: self.appended, : self.appended]
        known = np.einsum("qk,nk->qn", covariances, inverse)
        gained = known @ self._surprises[: self.appended]
        explained = (known**2).sum(axis=1)
        found = []
        pairs = zip(several, self._read_base(terms, several), strict=True)
        for place, (weights, base) in enumerate(pairs):
            if self._rows is not None and self.appended and weights.constant is not None:
                found.append(LinearReading(weights.constant * self._rows, 0.0))
                continue
            left = base.variance - float(explained[place])
            left = self._rounded(left, base.variance)
            value = base.value + float(gained[place])
            rest = (base.fourth, base.largest) if left else (0.0, 0.0)  # no less than what is left
            found.append(LinearReading(value, left, *rest))
        return found, known

    def _rounded(self, left: float, base: float) -> float:
        """Return the variance that is left of one by the base; 0 where all of it is explained."""
        return left if left > _ROUNDING * base else 0.0

    def _read_base(self, terms: Terms, several: Sequence[Weights]) -> list[LinearReading]:
        """Return the readings by the base alone; `terms` are those of `several`."""
        return [self._base.read(weights) for weights in several]

    def _covariances(self, ones: Terms, others: Terms) -> Floats:
        """Return the covariances, by the base alone, of all products of `ones` and `others`."""
        step = max(_TOGETHER // (max(len(ones.rows), 1) * self._blocks), 1)
        parts = range(0, len(others.rows), step)
        found = [self._products_of(ones.rows, others.rows[at : at + step]) for at in parts]
        return np.concatenate([np.zeros((len(ones.rows), 0)), *found], axis=1)

    def _products_of(self, ones: Floats, others: Floats) -> Floats:
        """Return the covariances of products, given by their coefficients."""
        return self._contracted(self._inner(ones, others)).reshape(len(ones), len(others))

    def _inner(self, ones: Floats, others: Floats) -> list[Floats]:
        """Return the inner products of coefficients for each axis: its groups × all pairs."""
        first = 0
        tensors = []
        for axis in self._design.axes:
            edges = [*self._starts[first : first + len(axis.lengths)].tolist()]
            ends = [*edges[1:], edges[-1] + axis.lengths[-1]]
            tensors.append(
                np.array(
                    [
                        np.einsum("ik,jk->ij", ones[:, begin:end], others[:, begin:end])
                        for begin, end in zip(edges, ends, strict=True)
                    ]
                ).reshape(len(edges), len(ones) * len(others))
            )
            first += len(axis.lengths)
        return tensors

    def _contracted(self, inner: Sequence[Floats]) -> Floats:
        """Return the covariances of pairs, given the inner products of their coefficients."""
        *tensors, last = inner
        found: Floats = self._design.variances @ last  # groups of the other axes × pairs
        while tensors:
            found = np.einsum("...gp,gp->...p", found, tensors.pop())
        return found

    @property
    def _blocks(self) -> int:
        """How many numbers a pair of products needs at a time."""
        groups: Sequence[int] = self._design.groups
        return prod(groups[:-1]) + sum(groups)

    def _terms_of(self, several: Sequence[Weights]) -> Terms:
        rows, owners = [], []
        for place, weights in enumerate(several):
            for term in products(self._schema, weights):
                rows.append(self._row(term))
                owners.append(place)
        found = np.array(rows).reshape(-1, self._width)
        return Terms(found, np.array(owners, np.intp), len(several))

    def _row(self, weights: Weights) -> Floats:
        """Return the coefficients of a product over the axes, one axis after the other."""
        parts = []
        for place, names in enumerate(self._design.names):
            [name] = names
            along = weights.along(name)
            vector = np.ones(self._design.axes[place].size) if along is None else along
            parts.append(self._coefficients(place, vector))
        row: Floats = np.concatenate(parts)
        row[: len(parts[0])] *= weights.factor
        return row

    def _coefficients(self, place: int, vector: Floats) -> Floats:
        def make() -> Floats:
            return np.concatenate([*map(np.ravel, self._design.coefficients([place], vector))])

        return self._known.get_or_make((place, vector.tobytes()), vector.size, make)

    def _grow(self, more: int) -> None:
        """Make room for one more count, and for its products."""
        while self._products + more > len(self._terms):
            self._terms = np.concatenate([self._terms, np.empty_like(self._terms)])
            self._owners = np.concatenate([self._owners, np.empty_like(self._owners)])
        size = len(self._surprises)
        if self.appended == size:
            self._surprises = np.concatenate([self._surprises, np.empty(size)])
            wider = np.zeros((2 * size, 2 * size))
            wider[:size, :size] = self._inverse
            self._inverse = wider


def products(schema: Schema, weights: Weights) -> Iterator[Weights]:
    """Yield weights that add up to these, each a product over single attributes. The cells where
    two of them are not 0 are disjoint.
    """
    joint = next((part for part in weights.parts if len(part.names) > 1), None)
    if joint is None:
        yield weights
        return
    others = [part for part in weights.parts if part is not joint]
    first, *rest = joint.names
    # Codes of the first attribute with equal weights over the others are one term.
    equal: dict[bytes, list[int]] = {}
    for code, values in enumerate(joint.values):
        equal.setdefault(values.tobytes(), []).append(code)
    for codes in equal.values():
        inner = joint.values[codes[0]]
        if inner.any():
            mask = np.zeros(len(joint.values))
            mask[codes] = 1
            terms = (WeightTensor((first,), mask), WeightTensor(tuple(rest), inner))
            yield from products(schema, Weights((*others, *terms)))
