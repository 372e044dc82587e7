"""Mean and variance of a sum over groups; loops compiled by numba on first use.

Under even spread a row meets each of the s values of its group with probability 1/s. With h what a
row and a value add to the answer, the sum over a group has the mean Σh / s and the variance
Σ(h - row mean - value mean + mean)² / (s - 1), both over all s · s pairs (Hoeffding, 1951).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from scumble.public.estimation.anatomy.kernels import longest, place_among

Array = Any
_compiled = numba.njit(cache=True, nogil=True)
# What rounding may leave of zero in the mean of a group, as a share of its largest number.
_ROUNDING = 1e-13


@_compiled
def add_moments(
    share: Array, rows: Array, values: Array, counts: Array, table: Array, keys: int, sums: Array
) -> None:
    """Add to the sums of each key of rows and of values what a range of groups tells.

    `table` holds what a cell of rows and one of values add up to, NaN if they do not count. For one
    key h is 0 where they do not count, or have other keys. `keys` is the number of keys of values.
    """
    first, last = share
    many, more = longest(rows[0], first, last), longest(values[0], first, last)
    row_list = (np.empty((many, 2), np.int64), np.empty((many, 2), np.int64))
    value_list = (np.empty((more, 2), np.int64), np.empty((more, 2), np.int64))
    weights, ones = np.empty(more, np.int64), np.ones(many, np.int64)
    high, wide = min(many, len(sums) // keys), min(more, keys)
    means = (np.empty((many, wide, 2)), np.empty((more, high, 2)), np.empty((high, wide, 4)))
    spread = np.empty((high, wide, 3))
    for group in range(first, last):
        begin = values[0][group]
        lines = values[0][group + 1] - begin
        weights[:lines] = counts[begin : begin + lines]
        q, b = _list(values, group, weights, value_list)
        if not q:
            continue
        p, a = _list(rows, group, ones, row_list)
        if not p:
            continue
        size = float(rows[0][group + 1] - rows[0][group])
        chosen = row_list[0][:p], value_list[0][:q]
        often = row_list[1][:a], value_list[1][:b]
        _average(chosen, often, weights, table, size, means)
        _scatter(chosen, often, weights, table, size, means, spread)
        for x in range(a):
            for y in range(b):
                place = often[0][x, 0] * keys + often[1][y, 0]
                _add_group(sums[place], means[2][x, y], spread[x, y], size)


@_compiled
def _list(side: Array, group: int, weights: Array, listed: Array) -> tuple[int, int]:
    """List the cells of the chosen lines of a group, with the places of their keys; and these keys,
    with how often they occur. How many of both. The weights of chosen lines move to the front.
    """
    starts, kinds, keys, cells = side
    lines, known = listed
    chosen = different = 0
    for line in range(starts[group], starts[group + 1]):
        kind = kinds[line]
        if kind < 0:
            continue
        weight = weights[line - starts[group]]
        place = place_among(known[:, 0], different, keys[kind])
        if place == different:
            known[place, 0], known[place, 1] = keys[kind], 0
            different += 1
        lines[chosen, 0], lines[chosen, 1] = cells[kind], place
        known[place, 1] += weight
        weights[chosen] = weight
        chosen += 1
    return chosen, different


@_compiled
def _average(
    chosen: Array, often: Array, weights: Array, table: Array, size: float, means: Array
) -> None:
    """The means of count and total over each row, each value and all pairs; least and most."""
    of_rows, of_values, whole = means
    for x in range(len(often[0])):
        for y in range(len(often[1])):
            whole[x, y, 0] = whole[x, y, 1] = 0.0
            whole[x, y, 2], whole[x, y, 3] = np.inf, -np.inf
        for j in range(len(chosen[1])):
            of_values[j, x, 0] = of_values[j, x, 1] = 0.0
    for i in range(len(chosen[0])):
        row, x = chosen[0][i]
        for y in range(len(often[1])):
            of_rows[i, y, 0] = of_rows[i, y, 1] = 0.0
        for j in range(len(chosen[1])):
            column, y = chosen[1][j]
            amount = table[row, column]
            if not np.isnan(amount):
                of_rows[i, y, 0] += weights[j] / size
                of_rows[i, y, 1] += weights[j] * amount / size
                of_values[j, x, 0] += 1.0 / size
                of_values[j, x, 1] += amount / size
                whole[x, y, 2] = min(whole[x, y, 2], amount)
                whole[x, y, 3] = max(whole[x, y, 3], amount)
        for y in range(len(often[1])):
            whole[x, y, 0] += of_rows[i, y, 0] / size
            whole[x, y, 1] += of_rows[i, y, 1] / size


@_compiled
def _scatter(
    chosen: Array,
    often: Array,
    weights: Array,
    table: Array,
    size: float,
    means: Array,
    spread: Array,
) -> None:
    """The sums of squares and products of what the means leave, over all pairs of a group."""
    of_rows, of_values, whole = means
    for x in range(len(often[0])):
        for y in range(len(often[1])):  # pairs of which neither the row nor the value has the key
            rest = (size - often[0][x, 1]) * (size - often[1][y, 1])
            spread[x, y, 0] = spread[x, y, 1] = spread[x, y, 2] = 0.0
            _square(spread[x, y], rest, whole[x, y, 0], whole[x, y, 1])
        for j in range(len(chosen[1])):  # only the value has it
            y = chosen[1][j, 1]
            one = whole[x, y, 0] - of_values[j, x, 0]
            two = whole[x, y, 1] - of_values[j, x, 1]
            _square(spread[x, y], weights[j] * (size - often[0][x, 1]), one, two)
    for i in range(len(chosen[0])):
        row, x = chosen[0][i]
        for y in range(len(often[1])):  # only the row has it
            one = whole[x, y, 0] - of_rows[i, y, 0]
            two = whole[x, y, 1] - of_rows[i, y, 1]
            _square(spread[x, y], size - often[1][y, 1], one, two)
        for j in range(len(chosen[1])):
            column, y = chosen[1][j]
            amount = table[row, column]
            counts = not np.isnan(amount)
            one = whole[x, y, 0] - of_rows[i, y, 0] - of_values[j, x, 0] + (1.0 if counts else 0.0)
            two = whole[x, y, 1] - of_rows[i, y, 1] - of_values[j, x, 1]
            _square(spread[x, y], weights[j], one, two + (amount if counts else 0.0))


@_compiled
def _square(spread: Array, weight: float, one: float, two: float) -> None:
    spread[0] += weight * one * one
    spread[1] += weight * two * two
    spread[2] += weight * one * two


@_compiled
def _add_group(sums: Array, whole: Array, spread: Array, size: float) -> None:
    """Count, total, their variances and covariance, and the limits of what is added up."""
    if not whole[0]:
        return
    largest = max(abs(whole[2]), abs(whole[3]))
    if spread[0] <= (_ROUNDING * size) ** 2:
        spread[0] = spread[2] = 0.0
    if spread[1] <= (_ROUNDING * size * largest) ** 2:
        spread[1] = spread[2] = 0.0
    sums[0] += whole[0] * size
    sums[1] += whole[1] * size
    for place in range(3):
        sums[2 + place] += spread[place] / max(size - 1.0, 1.0)
    sums[5], sums[6] = min(sums[5], whole[2]), max(sums[6], whole[3])
