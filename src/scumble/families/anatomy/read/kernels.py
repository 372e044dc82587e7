"""Numba loops over the lines of groups, compiled on first use.

A group is a range of lines of the table of rows and one of the table of values; a line of values
has a value and how often it occurs.

The loops of limits add up the least and the largest sum over all assignments of values to rows. If
the amount depends on the row alone, or on the value alone, both are exact: amounts are sorted.
Otherwise they are bounds from the dual of the assignment problem: for any numbers u of the rows,
every assignment of the values j to the rows i has Σ h_ij ≥ Σ_i u_i + Σ_j min_i (h_ij - u_i), and
likewise from above. The u that are tried are the least and the largest amounts of the rows, and
the same with rows and values exchanged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel

Array = Any

# What the amount depends on: row and value together, the row, the value, or nothing (a count).
JOINT, BY_ROW, BY_VALUE, COUNT = range(4)

_ROUNDING = 1e-13  # what it may leave between the limits of a group, as a share of its amounts


@kernel
def place_lines(groups: Array, starts: Array, order: Array) -> None:
    """Write the lines sorted by group into `order`, and where each group begins into `starts`,
    which must be zeros.
    """
    for line in range(len(groups)):
        starts[groups[line] + 1] += 1
    for group in range(1, len(starts)):
        starts[group] += starts[group - 1]
    free = starts.copy()
    for line in range(len(groups)):
        group = groups[line]
        order[free[group]] = line
        free[group] += 1


@kernel
def longest(starts: Array, first: int, last: int) -> int:
    """Return the largest number of lines of one of the groups."""
    most = 0
    for group in range(first, last):
        most = max(most, starts[group + 1] - starts[group])
    return most


# Limits.


@kernel
def find_index(known: Array, size: int, sought: int) -> int:
    """Return the index of `sought` among the first `size` known numbers; if absent, `size`."""
    for index in range(size):
        if known[index] == sought:
            return index
    return size


@kernel
def list_keys(side: Array, group: int, weights: Array, known: Array) -> int:
    """Write the distinct keys of a group and their summed weights into `known`.

    Return the number of keys. Without weights, every line has weight 1.
    """
    starts, keys = side
    different = 0
    for line in range(starts[group], starts[group + 1]):
        if keys[line] >= 0:
            index = find_index(known[:, 0], different, keys[line])
            if index == different:
                known[index, 0], known[index, 1] = keys[line], 0
                different += 1
            known[index, 1] += weights[line] if len(weights) else 1
    return different


@kernel
def add_counts(
    share: Array, rows: Array, values: Array, counts: Array, keys: int, sums: Array
) -> None:
    """Add the groups of a range to the counts of each key of rows and of values.

    A line of `sums` has the mean over all assignments, the least and the largest count. `keys` is
    the number of keys of values.
    """
    first, last = share
    shown = np.empty((longest(rows[0], first, last), 2), np.int64)
    hidden = np.empty((longest(values[0], first, last), 2), np.int64)
    ones = np.empty(0, counts.dtype)
    for group in range(first, last):
        different = list_keys(values, group, counts, hidden)
        listed = list_keys(rows, group, ones, shown) if different else 0
        size = rows[0][group + 1] - rows[0][group]
        for x in range(listed):
            for y in range(different):
                line = sums[shown[x, 0] * keys + hidden[y, 0]]
                _add_count(shown[x, 1], hidden[y, 1], size, line)


@kernel
def list_chosen(side: Array, group: int, weights: Array, listed: Array) -> tuple[int, int]:
    """List the cells of the chosen lines of a group with the indices of their keys, and these keys
    with how often they occur.

    Return the numbers of both. The weights of chosen lines are moved to the front.
    """
    starts, combinations, keys, cells = side
    lines, known = listed
    chosen = different = 0
    for line in range(starts[group], starts[group + 1]):
        combination = combinations[line]
        if combination < 0:
            continue
        weight = weights[line - starts[group]]
        index = find_index(known[:, 0], different, keys[combination])
        if index == different:
            known[index, 0], known[index, 1] = keys[combination], 0
            different += 1
        lines[chosen, 0], lines[chosen, 1] = cells[combination], index
        known[index, 1] += weight
        weights[chosen] = weight
        chosen += 1
    return chosen, different


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
    """Add the groups of a range to the sums of each key of rows and of values.

    A line of `sums` has the count (its mean over all assignments, the least and the largest), the
    total in the same way, and the least and the largest amount.
    `table` has the amount of a cell of rows and a cell of values, NaN if they do not count. `keys`
    is the number of keys of values.
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
                line = sums[row_list[1][x, 0] * keys + value_list[1][y, 0]]
                chosen = row_list[0][:p], value_list[0][:q]
                shown, hidden = row_list[1][x, 1], value_list[1][y, 1]
                if kind == BY_ROW:
                    met = _amounts(chosen[0], x, ones, table[:, 0], amounts)
                    _add_sorted(amounts[:size], met, hidden, line)
                elif kind == BY_VALUE:
                    met = _amounts(chosen[1], y, weights, table[0], amounts)
                    _add_sorted(amounts[:size], met, shown, line)
                else:
                    shape = _fill(chosen, x, y, weights, table, size, block, times, line)
                    for layer in range(2):
                        limits = _dual(block[layer], shape, times)
                        line[3 * layer + 1] += limits[0]
                        line[3 * layer + 2] += limits[1]


@kernel
def _add_count(met: int, taken: int, size: int, line: Array) -> None:
    """Add how many of the `met` among `size` lines are among `taken` others."""
    line[0] += met * taken / size
    line[1] += max(met + taken - size, 0)
    line[2] += min(met, taken)


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
def _add_sorted(amounts: Array, met: int, taken: int, line: Array) -> None:
    """Add the limits of a sum of `taken` of the amounts; the first `met` are given, others 0."""
    size = len(amounts)
    met, taken = min(met, size), min(taken, size)
    _add_count(met, taken, size, line)
    for amount in amounts[:met]:
        line[3] += amount * taken / size
        line[6], line[7] = min(line[6], amount), max(line[7], amount)
    amounts[met:] = 0.0
    amounts.sort()
    line[4] += amounts[:taken].sum()
    line[5] += amounts[size - taken :].sum()


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
    line: Array,
) -> tuple[int, int]:
    """Write what rows of key x and values of key y add to count (first layer) and total.

    All other rows are the last line, all other values the last column, with zeros. `times` is how
    many rows and values a line and a column stand for. Return the numbers of lines and columns.
    The means over all assignments, and the limits of the amounts, are added to `line`.
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
                if counts:
                    line[0] += weights[j] / size
                    line[3] += weights[j] * amount / size
                    line[6], line[7] = min(line[6], amount), max(line[7], amount)
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
    if most - low <= _ROUNDING * times[0][:high].sum() * np.abs(matrix).max():
        most = low
    return low, most


# The regression.


@kernel
def add_products(
    starts: Array, values: Array, times: Array, weights: Array, equations: Array
) -> None:
    """Add w · m_u · m_v of every group to `found[u, v]`, the normal equations of the regression."""
    for group in range(len(weights)):
        first, last = starts[group], starts[group + 1]
        for one in range(first, last):
            for other in range(first, last):
                product = weights[group] * times[one] * times[other]
                equations[values[one], values[other]] += product


@kernel
def count_together(
    rows: Array, values: Array, times: Array, weights: Array, powers: Array, sums: Array
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
                for layer in range(sums.shape[0]):
                    sums[layer, key, values[1][line]] += weight * powers[row, layer]


@kernel
def count_rows_together(
    share: Array, rows: Array, values: Array, times: Array, weights: Array, sums: Array
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
                sums[key, values[1][line]] += weights[group] * times[line]


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
