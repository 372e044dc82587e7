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
