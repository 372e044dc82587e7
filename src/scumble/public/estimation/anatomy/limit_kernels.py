"""Numba loops of the least and the largest sum over all assignments of values to rows.

If the amount depends on the row alone, or on the value alone, both are exact: amounts are sorted.
Otherwise they are bounds from the dual of the assignment problem: for any numbers u of the rows,
every assignment of the values j to the rows i has Σ h_ij ≥ Σ_i u_i + Σ_j min_i (h_ij - u_i), and
likewise from above. The u that are tried are the least and the largest amounts of the rows, and
the same with rows and values exchanged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel
from scumble.public.estimation.anatomy.kernels import list_chosen, longest

Array = Any

JOINT, BY_ROW, BY_VALUE = 0, 1, 2  # what the amount depends on


@kernel
def add_limits(
    share: Array,
    rows: Array,
    values: Array,
    counts: Array,
    table: Array,
    keys: int,
    kind: int,
    sums: Array,
) -> None:
    """Add the least and largest count, and the least and largest total, of a range of groups.

    Arguments are those of `add_moments`. `sums` has four columns, a line for each pair of keys.
    """
    first, last = share
    many, more = longest(rows[0], first, last), longest(values[0], first, last)
    row_list = (np.empty((many, 2), np.int64), np.empty((many, 2), np.int64))
    value_list = (np.empty((more, 2), np.int64), np.empty((more, 2), np.int64))
    weights, ones = np.empty(more, np.int64), np.ones(many, np.int64)
    amounts = np.empty(many)
    block = np.empty((2, many + 1, more + 1))
    times = (np.empty(many + 1), np.empty(more + 1))
    for group in range(first, last):
        begin = values[0][group]
        lines = values[0][group + 1] - begin
        weights[:lines] = counts[begin : begin + lines]
        q, b = list_chosen(values, group, weights, value_list)
        if not q:
            continue
        p, a = list_chosen(rows, group, ones, row_list)
        size = rows[0][group + 1] - rows[0][group]
        for x in range(a):
            for y in range(b):
                place = row_list[1][x, 0] * keys + value_list[1][y, 0]
                chosen = row_list[0][:p], value_list[0][:q]
                if kind == BY_ROW:
                    met = _amounts(chosen[0], x, ones, table[:, 0], amounts)
                    _add_sorted(amounts[:size], met, value_list[1][y, 1], sums[place])
                elif kind == BY_VALUE:
                    met = _amounts(chosen[1], y, weights, table[0], amounts)
                    _add_sorted(amounts[:size], met, row_list[1][x, 1], sums[place])
                else:
                    shape = _fill(chosen, x, y, weights, table, size, block, times)
                    for layer in range(2):
                        found = _dual(block[layer], shape, times)
                        sums[place, 2 * layer] += found[0]
                        sums[place, 2 * layer + 1] += found[1]


@kernel
def _amounts(lines: Array, key: int, weights: Array, table: Array, amounts: Array) -> int:
    """Write the amounts of the lines of a key, as often as they occur; return their number."""
    met = 0
    for line in range(len(lines)):
        amount = table[lines[line, 0]]
        if lines[line, 1] == key and not np.isnan(amount):
            for _ in range(weights[line]):
                if met < len(amounts):
                    amounts[met] = amount
                    met += 1
    return met


@kernel
def _add_sorted(amounts: Array, met: int, taken: int, sums: Array) -> None:
    """Add the limits of a sum of `taken` of the amounts; the first `met` are given, others 0."""
    size = len(amounts)
    met, taken = min(met, size), min(taken, size)
    amounts[met:] = 0.0
    amounts.sort()
    sums[0] += max(met + taken - size, 0)
    sums[1] += min(met, taken)
    sums[2] += amounts[:taken].sum()
    sums[3] += amounts[size - taken :].sum()


@kernel
def _fill(
    chosen: Array,
    x: int,
    y: int,
    weights: Array,
    table: Array,
    size: int,
    block: Array,
    times: Array,
) -> tuple[int, int]:
    """Write what rows of key x and values of key y add to count (first layer) and total.

    All other rows are the last line, all other values the last column, with zeros. `times` is how
    many rows and values a line and a column stand for. Return the numbers of lines and columns.
    """
    high = wide = 0
    shown = hidden = 0
    for j in range(len(chosen[1])):
        if chosen[1][j, 1] == y:
            times[1][wide] = weights[j]
            hidden += weights[j]
            wide += 1
    for i in range(len(chosen[0])):
        if chosen[0][i, 1] != x:
            continue
        column = 0
        for j in range(len(chosen[1])):
            if chosen[1][j, 1] == y:
                amount = table[chosen[0][i, 0], chosen[1][j, 0]]
                counts = not np.isnan(amount)
                block[0, high, column] = 1.0 if counts else 0.0
                block[1, high, column] = amount if counts else 0.0
                column += 1
        times[0][high] = 1
        shown += 1
        high += 1
    if shown < size:
        block[:, high, : wide + 1] = 0.0
        times[0][high] = size - shown
        high += 1
    if hidden < size:
        block[:, :high, wide] = 0.0
        times[1][wide] = size - hidden
        wide += 1
    return high, wide


@kernel
def _dual(block: Array, shape: tuple[int, int], times: Array) -> tuple[float, float]:
    """Return a lower and an upper bound of the sum of an assignment."""
    high, wide = shape
    matrix = block[:high, :wide]
    low, most = -np.inf, np.inf
    for turned in range(2):
        lines = matrix if not turned else matrix.T
        own, other = (times[0], times[1]) if not turned else (times[1], times[0])
        for largest in range(2):
            start = 0.0
            under, over = np.full(lines.shape[1], np.inf), np.full(lines.shape[1], -np.inf)
            for i in range(lines.shape[0]):
                u = lines[i].max() if largest else lines[i].min()
                start += own[i] * u
                for j in range(lines.shape[1]):
                    under[j] = min(under[j], lines[i, j] - u)
                    over[j] = max(over[j], lines[i, j] - u)
            below = above = start
            for j in range(lines.shape[1]):
                below += other[j] * under[j]
                above += other[j] * over[j]
            low, most = max(low, below), min(most, above)
    return low, most
