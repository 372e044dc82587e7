"""Compiled passes over a forest. Import this module only where one runs: compiling is slow.

A parent stands before its children, so that a loop from the front meets parents first and a loop
from the back meets children first.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def gather(parents: Array, precisions: Array, own: Array, below: Array) -> None:
    """The variance of each node's sum of children in `below` (0 for leaves), and that of the best
    estimate from its subtree in `own`; both come in as zeros.
    """
    for node in range(len(parents) - 1, -1, -1):
        precision = precisions[node]
        if below[node] > 0.0:
            own[node] = below[node] / (1.0 + precision * below[node])
        else:
            own[node] = 1.0 / precision
        if parents[node] >= 0:
            below[parents[node]] += own[node]


@_compiled
def estimate(
    parents: Array, precisions: Array, own: Array, below: Array, noisy: Array, sums: Array
) -> Array:
    """Least squares: up with what the subtree says, down with what all others say. `sums` comes in
    as zeros.
    """
    count = len(parents)
    found = noisy.copy()
    for node in range(count - 1, -1, -1):
        if below[node] > 0.0:
            share = own[node] * precisions[node]
            found[node] = sums[node] + (share * (noisy[node] - sums[node]) if share > 0 else 0.0)
        if parents[node] >= 0:
            sums[parents[node]] += found[node]
    for node in range(count):
        parent = parents[node]
        if parent >= 0:
            found[node] += own[node] / below[parent] * (found[parent] - sums[parent])
    return found


@_compiled
def adjoint(
    parents: Array, precisions: Array, own: Array, below: Array, weights: Array, shared: Array
) -> Array:
    """The same two passes turned round: what each noisy number adds to a weighted sum of
    estimates. `shared` comes in as zeros.
    """
    count = len(parents)
    found = weights.copy()
    for node in range(count - 1, -1, -1):
        found[node] += shared[node]
        if parents[node] >= 0:
            shared[parents[node]] += own[node] / below[parents[node]] * found[node]
    for node in range(count):
        parent = parents[node]
        if parent >= 0:
            # Here found[parent] is not yet multiplied by its own share: see the last loop.
            found[node] += found[parent] * own[parent] / below[parent] - shared[parent]
    for node in range(count):
        found[node] *= own[node] * precisions[node]
    return found


@_compiled
def under(parents: Array, marked: Array) -> Array:
    """Which nodes have a marked one above them."""
    found = np.zeros(len(parents), np.bool_)
    for node in range(len(parents)):
        parent = parents[node]
        if parent >= 0:
            found[node] = found[parent] or marked[parent]
    return found
