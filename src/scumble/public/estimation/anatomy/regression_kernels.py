"""Numba loops of the regression over groups, compiled on first use.

A group is a range of lines of the value table; a line has a value and how often it occurs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel

Array = Any


@kernel
def add_products(starts: Array, values: Array, times: Array, weights: Array, found: Array) -> None:
    """Add w · m_u · m_v of every group to `found[u, v]`, the normal equations of the regression."""
    for group in range(len(weights)):
        first, last = starts[group], starts[group + 1]
        for one in range(first, last):
            for other in range(first, last):
                product = weights[group] * times[one] * times[other]
                found[values[one], values[other]] += product


@kernel
def count_together(
    rows: Array, values: Array, times: Array, weights: Array, powers: Array, found: Array
) -> None:
    """Add w · m_v · amount to `found[key, v]` for every row of a key and every value of its group.

    `rows` and `values` are where groups begin and the keys (or values) of lines, -1 for none.
    `powers` has the amounts of every line of rows, one column for each layer of `found`.
    """
    for group in range(len(weights)):
        for row in range(rows[0][group], rows[0][group + 1]):
            key = rows[1][row]
            if key < 0:
                continue
            for line in range(values[0][group], values[0][group + 1]):
                weight = weights[group] * times[line]
                for layer in range(found.shape[0]):
                    found[layer, key, values[1][line]] += weight * powers[row, layer]


@kernel
def count_rows_together(
    share: Array, rows: Array, values: Array, times: Array, weights: Array, found: Array
) -> None:
    """Add w · m_v to `found[key, v]` for every row of a key and every value of its group, over a
    range of groups.
    """
    for group in range(share[0], share[1]):
        for row in range(rows[0][group], rows[0][group + 1]):
            key = rows[1][row]
            if key < 0:
                continue
            for line in range(values[0][group], values[0][group + 1]):
                found[key, values[1][line]] += weights[group] * times[line]


@kernel
def spread_coefficients(
    starts: Array, values: Array, times: Array, weights: Array, solved: Array, asked: Array
) -> tuple[Array, Array, float]:
    """Return what the error of a regression estimate depends on.

    The coefficient of group g is c = w Σ m_v solved_v. For every value v, over its records: the sum
    of c, and the sum of (c - asked_v)². The third result is the largest difference of two
    coefficients of groups that have a value in common.
    """
    size = len(solved)
    sums, squares = np.zeros(size), np.zeros(size)
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    for group in range(len(weights)):
        first, last = starts[group], starts[group + 1]
        coefficient = 0.0
        for line in range(first, last):
            coefficient += times[line] * solved[values[line]]
        coefficient *= weights[group]
        for line in range(first, last):
            value = values[line]
            sums[value] += times[line] * coefficient
            squares[value] += times[line] * (coefficient - asked[value]) ** 2
            least[value] = min(least[value], coefficient)
            most[value] = max(most[value], coefficient)
    reach = 0.0
    for value in range(size):
        if most[value] > least[value]:
            reach = max(reach, most[value] - least[value])
    return sums, squares, reach


@kernel
def count_boxes_together(
    boxes: Array, firsts: Array, strides: Array, lines: Array, values: Array, found: Array
) -> None:
    """Add w · m_v to `found[question, v]` for every row in a box of a question and value of its
    group.

    `lines` are where the rows of each cell begin, and the groups of rows in the order of their
    cells. `values` are where groups begin in the value table, and the values, times and weights.
    """
    starts, groups = lines
    begins, of, times, weights = values
    last = len(strides) - 1
    for question in range(len(firsts) - 1):
        for box in range(firsts[question], firsts[question + 1]):
            ends = boxes[box]
            at = ends[:, 0].copy()
            empty = False
            for axis in range(last + 1):
                empty = empty or ends[axis, 0] >= ends[axis, 1]
            while not empty:
                cell = 0
                for axis in range(last + 1):
                    cell += at[axis] * strides[axis]
                for row in range(starts[cell], starts[cell + ends[last, 1] - ends[last, 0]]):
                    group = groups[row]
                    for line in range(begins[group], begins[group + 1]):
                        found[question, of[line]] += weights[group] * times[line]
                axis = last - 1
                while axis >= 0:
                    at[axis] += 1
                    if at[axis] < ends[axis, 1]:
                        break
                    at[axis] = ends[axis, 0]
                    axis -= 1
                empty = axis < 0
