"""The inner loops over the lines of groups, compiled by numba on first use."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def place_lines(groups: Array, starts: Array, order: Array) -> None:
    """Sort lines by group, and find where each group begins; `starts` are zeros."""
    for line in range(len(groups)):
        starts[groups[line] + 1] += 1
    for group in range(1, len(starts)):
        starts[group] += starts[group - 1]
    free = starts.copy()
    for line in range(len(groups)):
        group = groups[line]
        order[free[group]] = line
        free[group] += 1


@_compiled
def longest(starts: Array, first: int, last: int) -> int:
    """The most lines that one of the groups has."""
    most = 0
    for group in range(first, last):
        most = max(most, starts[group + 1] - starts[group])
    return most


@_compiled
def place_among(known: Array, size: int, sought: int) -> int:
    """Where a number is among the known ones, or their size."""
    for place in range(size):
        if known[place] == sought:
            return place
    return size


@_compiled
def list_keys(side: Array, group: int, weights: Array, known: Array) -> int:
    """List the different keys of a group with their weights; how many. No weights are ones."""
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


@_compiled
def count_keys(
    share: Array,
    rows: Array,
    values: Array,
    counts: Array,
    sorts: Array,
    radix: Array,
    codes: Array,
) -> int:
    """For each key of rows and each of values that a group has, write down how many of both, and
    the sort of the group, as one number: digits in the given radix. How many were written.
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
                codes[written] = code * radix[3] + sorts[group]
                written += 1
    return written


@_compiled
def sum_values(starts: Array, cells: Array, counts: Array, holds: Array, sums: Array) -> None:
    """How many values of every group lie in cells that hold."""
    for group in range(len(sums)):
        total = 0
        for line in range(starts[group], starts[group + 1]):
            if holds[cells[line]]:
                total += counts[line]
        sums[group] = total


@_compiled
def count_boxes(
    boxes: Array,
    firsts: Array,
    strides: Array,
    lines: Array,
    groups: Array,
    radix: Array,
    found: Array,
) -> None:
    """For each question, given by boxes of cells of rows, write down how many groups have so many
    of its rows and of its values, and such a sort: as one number, digits in the given radix, and
    how many groups have it. `lines` are where the rows of each cell begin and the groups of rows in
    the order of their cells, `groups` how many values of a group count, and its sort.
    """
    values, sorts = groups
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
            code = (hits[group] * radix[1] + values[group]) * radix[2] + sorts[group]
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


@_compiled
def _meet(
    box: Array, strides: Array, lines: Array, values: Array, hits: Array, met: Array, many: int
) -> int:
    """Count the rows of a box by group, and list the groups that are met for the first time."""
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
