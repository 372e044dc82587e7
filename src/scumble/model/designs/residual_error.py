"""The error of a weighted sum of estimated cells: its variance, and what its tails depend on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np

from scumble.model.designs.residual_axis import Tensor, join, split
from scumble.model.designs.residual_solver import Places, Solver


@dataclass(frozen=True)
class Error:
    """A sum of independent noises with coefficients cᵢ and fourth cumulants κᵢ: its variance,
    Σ κᵢ cᵢ⁴, and the largest |cᵢ|.
    """

    variance: float
    fourth: float
    largest: float


def error(solver: Solver, places: Places, weights: Tensor) -> Error:
    """Of Σ weights · estimated counts, over the cells of these attributes.

    Let ω be the weights in orthonormal coordinates and g = ω/rate, block by block. The variance is
    Σ ω·g/N. A marginal over S has its noise multiplied by t·g restricted to the attributes C that
    it shares with the question, turned back into a table over C and repeated along the others.
    """
    cells = solver.cells(places)
    omega = split(weights)
    scaled = omega / solver.block_rates(places)
    found = [_wholes(solver, places, scaled), _singles(solver, places, scaled)]
    return Error(
        float((omega * scaled).sum()) / cells,
        sum(fourth for fourth, _ in found),
        max(largest for _, largest in found),
    )


def covariance(
    solver: Solver, first: tuple[Places, Tensor], second: tuple[Places, Tensor]
) -> float:
    """Of the errors of two such sums."""
    common = tuple(place for place in first[0] if place in second[0])
    one, other = (
        _along(split(weights), [places.index(place) for place in common])
        for places, weights in (first, second)
    )
    product = float((one * other / solver.block_rates(common)).sum())
    return product / sqrt(solver.cells(first[0]) * solver.cells(second[0]))


def _wholes(solver: Solver, places: Places, scaled: Tensor) -> tuple[float, float]:
    """What the noises of whole marginals add; those that share the same attributes at once."""
    fourth = largest = 0.0
    shared = solver.members[:, list(places)] @ (1 << np.arange(len(places)))
    for code in np.unique(shared):
        axes = [axis for axis in range(len(places)) if code >> axis & 1]
        numbers = solver.wholes[shared == code]
        kept = tuple(places[axis] for axis in axes)
        table = join(_along(scaled, axes)) * sqrt(solver.cells(kept) / solver.cells(places))
        rates = solver.rates[numbers]
        repeated = solver.cell_numbers[numbers] / solver.cells(kept)
        fourths = float((solver.fourths[numbers] * rates**4 * repeated).sum())
        fourth += fourths * float((table**4).sum())
        largest = max(largest, float(rates.max() * np.abs(table).max()))
    return fourth, largest


def _singles(solver: Solver, places: Places, scaled: Tensor) -> tuple[float, float]:
    """What the noises of tables that tell one residual only add."""
    fourth = largest = 0.0
    for size in range(len(places) + 1):
        for axes in combinations(range(len(places)), size):
            kept = tuple(places[axis] for axis in axes)
            for number in solver.singles.get(kept, []):
                table = _coefficients(solver, number, _along(scaled, axes))
                table = table * (solver.rates[number] / sqrt(solver.cells(places)))
                fourth += float(solver.fourths[number] * (table**4).sum())
                largest = max(largest, float(np.abs(table).max(initial=0.0)))
    return fourth, largest


def _coefficients(solver: Solver, number: int, scaled: Tensor) -> Tensor:
    """Up to the table's rate and 1/√N, the coefficients of the noises of one residual."""
    inner = (slice(1, None),) * scaled.ndim
    table = solver.design.tables[number]
    if table.form == "contrast":
        return scaled[inner]
    alone = np.zeros_like(scaled)
    alone[inner] = scaled[inner]
    return join(alone) * sqrt(solver.cells(table.places))


def _along(coordinates: Tensor, axes: Any) -> Tensor:
    """The coordinates that are 0 along all axes but these."""
    index = tuple(slice(None) if axis in axes else 0 for axis in range(coordinates.ndim))
    return np.asarray(coordinates[index])
