"""Numba loops over the lines of groups, compiled on first use.

The last part has the mean and the variance of a sum over groups. If every assignment of the values
to the rows of a group is equally likely, a row gets each of the s values of its group with
probability 1/s. With h the amount that a row and a value add to the answer, the sum over a group
has the mean Σh / s and the variance Σ(h - row mean - value mean + mean)² / (s - 1), both over all
s · s pairs (Hoeffding, 1951).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel

Array = Any


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


@kernel
def place_among(known: Array, size: int, sought: int) -> int:
    """Return the place of `sought` among the first `size` known numbers; if absent, `size`."""
    for place in range(size):
        if known[place] == sought:
            return place
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
            place = place_among(known[:, 0], different, keys[line])
            if place == different:
                known[place, 0], known[place, 1] = keys[line], 0
                different += 1
            known[place, 1] += weights[line] if len(weights) else 1
    return different


@kernel
def count_keys(
    share: Array,
    rows: Array,
    values: Array,
    counts: Array,
    sizes: Array,
    radix: Array,
    codes: Array,
) -> int:
    """Write a code for each key of rows and each key of values in a group of the range `share`.

    A code packs both keys, the numbers of rows and of values that have them, and the index of the
    group's size (`sizes`): digits in the given radix. Return the number of codes.
    """
    first, last = share
    shown = np.empty((longest(rows[0], first, last), 2), np.int64)
    hidden = np.empty((longest(values[0], first, last), 2), np.int64)
    ones = np.empty(0, counts.dtype)
    written = 0
    for group in range(first, last):
        different = list_keys(values, group, counts, hidden)
        kept = list_keys(rows, group, ones, shown) if different else 0
        for x in range(kept):
            for y in range(different):
                code = shown[x, 0] * radix[0] + hidden[y, 0]
                code = (code * radix[1] + shown[x, 1]) * radix[2] + hidden[y, 1]
                codes[written] = code * radix[3] + sizes[group]
                written += 1
    return written


@kernel
def sum_values(starts: Array, cells: Array, counts: Array, holds: Array, sums: Array) -> None:
    """Write into `sums` the number of values of every group that lie in cells which hold."""
    for group in range(len(sums)):
        total = 0
        for line in range(starts[group], starts[group + 1]):
            if holds[cells[line]]:
                total += counts[line]
        sums[group] = total


@kernel
def count_boxes(
    boxes: Array,
    firsts: Array,
    strides: Array,
    lines: Array,
    groups: Array,
    radix: Array,
    found: Array,
) -> None:
    """For each question, given by boxes of cells of rows, write the codes of its groups.

    A code packs the numbers of rows and of values of a group that count, and the index of its size:
    digits in the given radix. `found` has the distinct codes, how many groups have each, and where
    the codes of each question end. `lines` are where the rows of each cell begin, and the groups of
    rows in the order of their cells. `groups` are the number of values of a group that count, and
    the index of its size.
    """
    values, sizes = groups
    codes, times, ends = found
    hits = np.zeros(len(values), np.int64)
    met = np.empty(len(values), np.int64)
    numbers = np.zeros(radix[0] * radix[1] * radix[2], np.int64)
    written = 0
    for question in range(len(firsts) - 1):
        many = 0
        for box in range(firsts[question], firsts[question + 1]):
            many = _meet(boxes[box], strides, lines, values, hits, met, many)
        first = written
        for place in range(many):
            group = met[place]
            code = (hits[group] * radix[1] + values[group]) * radix[2] + sizes[group]
            hits[group] = 0
            if not numbers[code]:
                codes[written] = code
                written += 1
            numbers[code] += 1
        codes[first:written].sort()
        for place in range(first, written):
            times[place] = numbers[codes[place]]
            numbers[codes[place]] = 0
        ends[question] = written


@kernel
def _meet(
    box: Array, strides: Array, lines: Array, values: Array, hits: Array, met: Array, many: int
) -> int:
    """Count the rows of a box by group; list new groups in `met`; return the number of groups."""
    starts, groups = lines
    last = len(strides) - 1
    at = box[:, 0].copy()
    empty = False
    for axis in range(last + 1):
        empty = empty or box[axis, 0] >= box[axis, 1]
    while not empty:
        cell = 0  # of the first code of the last axis; the others of its run are behind it
        for axis in range(last + 1):
            cell += at[axis] * strides[axis]
        for line in range(starts[cell], starts[cell + box[last, 1] - box[last, 0]]):
            group = groups[line]
            if values[group]:
                if not hits[group]:
                    met[many] = group
                    many += 1
                hits[group] += 1
        axis = last - 1
        while axis >= 0:
            at[axis] += 1
            if at[axis] < box[axis, 1]:
                break
            at[axis] = box[axis, 0]
            axis -= 1
        empty = axis < 0
    return many


# What rounding may leave of zero in the mean of a group, as a share of its largest number.
_ROUNDING = 1e-13


@kernel
def add_moments(
    share: Array, rows: Array, values: Array, counts: Array, table: Array, keys: int, sums: Array
) -> None:
    """Add the moments of a range of groups to the sums of each key of rows and of values.

    `table` has the amount of a cell of rows and a cell of values, NaN if they do not count. For one
    key, h is 0 where they do not count, or have other keys. `keys` is the number of keys of values.
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
        q, b = list_chosen(values, group, weights, value_list)
        if not q:
            continue
        p, a = list_chosen(rows, group, ones, row_list)
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


@kernel
def list_chosen(side: Array, group: int, weights: Array, listed: Array) -> tuple[int, int]:
    """List the cells of the chosen lines of a group with the places of their keys, and these keys
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
        place = place_among(known[:, 0], different, keys[combination])
        if place == different:
            known[place, 0], known[place, 1] = keys[combination], 0
            different += 1
        lines[chosen, 0], lines[chosen, 1] = cells[combination], place
        known[place, 1] += weight
        weights[chosen] = weight
        chosen += 1
    return chosen, different


@kernel
def _average(
    chosen: Array, often: Array, weights: Array, table: Array, size: float, means: Array
) -> None:
    """Compute the means of count and total over each row, each value and all pairs, and the least
    and the largest amount.
    """
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


@kernel
def _scatter(
    chosen: Array,
    often: Array,
    weights: Array,
    table: Array,
    size: float,
    means: Array,
    spread: Array,
) -> None:
    """Compute the sums of squares and products of the residuals, over all pairs of a group."""
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


@kernel
def _square(spread: Array, weight: float, one: float, two: float) -> None:
    spread[0] += weight * one * one
    spread[1] += weight * two * two
    spread[2] += weight * one * two


@kernel
def _add_group(sums: Array, whole: Array, spread: Array, size: float) -> None:
    """Add a group to count, total, their variances and covariance, and the limits of amounts."""
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
