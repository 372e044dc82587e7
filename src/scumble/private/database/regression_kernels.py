"""The linear algebra of regression, compiled by numba on first use.

Systems are of a few hundred answers. For these a library would start threads, which take longer
than the work where others use the processors, and all other questions wait meanwhile.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any
# Sums may be added up in any order, so that many terms are added at a time.
_compiled = numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})


@_compiled
def intersections(sides: Array) -> Array:
    """The volume that every two boxes have in common; a side is where it begins and ends."""
    volumes = np.ones((len(sides), len(sides)))
    for axis in range(sides.shape[1]):
        starts, stops = sides[:, axis, 0].copy(), sides[:, axis, 1].copy()
        for one in range(len(sides)):
            start, stop = starts[one], stops[one]
            for other in range(len(sides)):
                overlap = min(stop, stops[other]) - max(start, starts[other])
                volumes[one, other] *= max(overlap, 0.0)
    return volumes


@_compiled
def refined(matrix: Array, wanted: Array, slight: float, rounds: int) -> tuple[Array, bool]:
    """The least solution of a system that `slight` makes definite, refined in some rounds; and
    whether it could be made definite.
    """
    size = len(matrix)
    found = np.zeros(size)
    factor, definite = _factor(matrix, slight)
    if definite:
        for _ in range(rounds):
            rest = np.empty(size)
            for row in range(size):
                rest[row] = wanted[row] - _product(matrix[row], found, size)
            found += _solved(factor, rest)
    return found, definite


@_compiled
def _factor(matrix: Array, slight: float) -> tuple[Array, bool]:
    """Cholesky's triangle of a matrix whose diagonal is raised by a part of its largest entry."""
    size = len(matrix)
    factor, more = np.zeros((size, size)), 0.0
    for row in range(size):
        more = max(more, slight * matrix[row, row])
    for row in range(size):
        for column in range(row):
            rest = matrix[row, column] - _product(factor[row], factor[column], column)
            factor[row, column] = rest / factor[column, column]
        rest = matrix[row, row] + more - _product(factor[row], factor[row], row)
        if rest <= 0:
            return factor, False
        factor[row, row] = np.sqrt(rest)
    return factor, True


@_compiled
def _solved(factor: Array, wanted: Array) -> Array:
    """The solution by a triangle and its transpose."""
    size, found = len(wanted), wanted.copy()
    for row in range(size):
        found[row] = (found[row] - _product(factor[row], found, row)) / factor[row, row]
    for row in range(size - 1, -1, -1):
        found[row] /= factor[row, row]
        for column in range(row):
            found[column] -= factor[row, column] * found[row]
    return found


@_compiled
def _product(ones: Array, others: Array, count: int) -> float:
    total = 0.0
    for place in range(count):
        total += ones[place] * others[place]
    return total
