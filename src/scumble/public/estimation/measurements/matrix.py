"""Reader of noisy sums of merged cells (Workload): the least squares estimate of every cell.

A question that tells cells apart that were merged is not in the span of what was measured: nothing
published tells its answer. It is refused, with the planned questions that are nearest to it. So is
one that only the rows of single cells tell which low-rank sums have with next to no weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import cast

import numpy as np
import numpy.typing as npt

from scumble.model.designs.matrix import (
    CELLS,
    ENTRIES,
    NOISY,
    Matrix,
    MergedCells,
    from_table,
)
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Measurements
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.readings import (
    LinearReading,
    Weights,
    WeightTensor,
    joined,
)
from scumble.public.sandbox import PLANNED, Sandbox
from scumble.public.sql.parse import parse

Floats = npt.NDArray[np.float64]

_MOST_SHOWN = 3
_EQUAL = 1e-11  # relative difference of weights that rounding explains
_FAINT = 2.0**-16  # of the norm of a column: a weight with which a cell is hardly measured


class MatrixReader:
    """The published sums of one release, and the estimates of merged cells."""

    method = "least squares estimate from sums of cells"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        design = cast(Matrix, evidence.design)
        self._schema, self._noise = schema, design.noise
        self._planned: tuple[str, ...] = engine.derived.get(PLANNED, ())
        table = engine.rows(f"SELECT {NOISY}, {CELLS}, {ENTRIES} FROM view")
        self._strategy, noisy = from_table(table, design.merged.cells)
        self._estimates = self._strategy.estimate(noisy)
        self._faint = self._strategy.single_rows(_FAINT)
        self._rows = evidence.rows
        self._by_cell = MergedWeights(schema, design.merged)

    def read(self, weights: Weights) -> LinearReading:
        return self._reading(weights)[0]

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        one, ones = self._reading(first)
        other, others = self._reading(second)
        return one, other, self._noise.variance * float(ones @ others)

    @cached_property
    def _whole(self) -> Floats:
        """The coefficients of the sum of all cells."""
        return self._strategy.coefficients(np.ones(len(self._estimates)))

    def _reading(self, asked: Weights) -> tuple[LinearReading, Floats]:
        """Return a reading, and the coefficients of its noise.

        If the number of rows is known, the reading is that of the weights minus the share of their
        error that the error of the total explains: the least squares estimate with that total.
        """
        weights, names = self._merged_weights(asked), set(asked.names)
        coefficients = self._strategy.coefficients(weights)
        value = float(weights @ self._estimates)
        if self._rows is not None:
            if (weights == weights[0]).all():
                return LinearReading(float(weights[0]) * self._rows, 0.0), np.zeros(
                    len(coefficients)
                )
            share = float(coefficients @ self._whole) / float(self._whole @ self._whole)
            coefficients = coefficients - share * self._whole
            value -= share * (float(self._estimates.sum()) - self._rows)
        squares = coefficients**2
        if 2 * float(squares[self._faint].sum()) > float(squares.sum()):
            raise QueryError(self._refusal(names))
        reading = LinearReading(
            value,
            self._noise.variance * float(squares.sum()),
            self._noise.fourth * float(squares @ squares),
            float(np.sqrt(squares.max())),
        )
        return reading, coefficients

    def _merged_weights(self, weights: Weights) -> Floats:
        """Return the weight of every merged cell; refuse weights that differ within one."""
        means, equal = self._by_cell.means(weights)
        if not equal:
            raise QueryError(self._refusal(set(weights.names)))
        return means

    def _refusal(self, names: set[str]) -> str:
        """Return the sentence about a question with these attributes that was not planned for."""
        nearest = nearest_planned(self._planned, names, self._schema)
        sentence = (
            "The question tells rows apart that the published sums do not: this release answers "
            "the questions that it was planned for, and what they add up to."
        )
        if not nearest:
            return f"{sentence} Publish a workload with this question."
        return f"{sentence} The nearest of them: {'; '.join(nearest)}. Or publish this one too."


class MergedWeights:
    """Weights of cells as weights of merged cells. A merged cell extends along all values of
    attributes that no question of the workload named.
    """

    def __init__(self, schema: Schema, merged: MergedCells) -> None:
        self._schema, self._merged = schema, merged
        self.sizes = merged.total(reduce(np.multiply.outer, [b.sizes for b in merged.blocks]))

    def means(self, weights: Weights) -> tuple[Floats, bool]:
        """Return the mean weight in every merged cell, and whether weights differ within none."""
        sums, squares = self._class_sums(weights)
        means = self._merged.total(sums) / self.sizes
        mean_squares = self._merged.total(squares) / self.sizes
        return means, not (mean_squares - means**2 > _EQUAL * mean_squares).any()

    def _class_sums(self, weights: Weights) -> tuple[Floats, Floats]:
        """Return sums of weights, and of their squares, over the product of the classes."""
        ones = [
            WeightTensor(block.names, np.ones([self._schema[name].size for name in block.names]))
            for block in self._merged.blocks
        ]
        known = set(self._merged.names)
        sums: Floats = np.ones(self._merged.shape)
        squares: Floats = np.ones(self._merged.shape)
        for part in joined(self._schema, [*weights.parts, *ones]).parts:
            others = tuple(i for i, name in enumerate(part.names) if name not in known)
            names = [name for name in part.names if name in known]
            sums = sums * self._by_class(part.values.mean(axis=others), names)
            squares = squares * self._by_class((part.values**2).mean(axis=others), names)
        return sums, squares

    def _by_class(self, values: Floats, names: list[str]) -> Floats:
        """Sum a tensor over attributes of some blocks by the classes of each block.

        The result broadcasts over the classes of the other blocks.
        """
        chosen = [bool(set(block.names) & set(names)) for block in self._merged.blocks]
        blocks = [b for b, own in zip(self._merged.blocks, chosen, strict=True) if own]
        order = [names.index(name) for block in blocks for name in block.names]
        tensor = values.transpose(order).reshape([len(block.labels) for block in blocks])
        for axis, block in enumerate(blocks):
            moved = np.moveaxis(tensor, axis, 0)
            total = np.zeros((block.classes, *moved.shape[1:]))
            np.add.at(total, block.labels, moved)
            tensor = np.moveaxis(total, 0, axis)
        shape = self._merged.shape
        return tensor.reshape([n if own else 1 for n, own in zip(shape, chosen, strict=True)])


def nearest_planned(planned: Sequence[str], names: set[str], schema: Schema) -> list[str]:
    """Return up to three of the `planned` questions, those with the most similar attributes first.

    Two sets of attributes are the more similar, the fewer attributes are in only one of them.
    """

    def differing(text: str) -> int:
        return len(names.symmetric_difference(parse(text, schema).attributes))

    return sorted(planned, key=differing)[:_MOST_SHOWN]
