"""The inner loops of the exact tracker, compiled by numba on first use.

The points are the leaves of a tree: level k holds one node for every choice of the first k codes.
`own` counts what covers all of a node and was noted there; `top` is the largest popularity below a
node, without what was noted above it. A box is followed down to the level of the last axis that it
restricts: there it covers nodes as wholes, in runs.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def fits(
    top: Array, own: Array, starts: Array, sizes: Array, order: Array, given: Array, most: int
) -> bool:
    """Whether no point of the box is more popular than `most`; nodes below it are not opened."""
    box, last = _ordered(given, order, sizes)
    if top[0] <= most or last == 0:
        return bool(top[0] <= most)
    at, above = np.zeros(last, np.int64), np.zeros(last, np.int64)
    row = np.zeros(last, np.int64)
    level = 0
    at[0], above[0] = box[0, 0], np.int64(own[0])
    while level >= 0:
        if level == last - 1:
            begin = starts[last] + row[level] * sizes[level] + box[level, 0]
            if above[level] + _highest(top, begin, box[level, 1] - box[level, 0] + 1) > most:
                return False
        elif at[level] <= box[level, 1]:
            child = row[level] * sizes[level] + at[level]
            node = starts[level + 1] + child
            at[level] += 1
            if above[level] + np.int64(top[node]) > most:
                above[level + 1] = above[level] + np.int64(own[node])
                level += 1
                row[level], at[level] = child, box[level, 0]
            continue
        level -= 1
    return True


@_compiled
def cover(
    top: Array, own: Array, starts: Array, sizes: Array, order: Array, given: Array, units: Any
) -> None:
    """Add units (of the type of `top`) to every point of the box.

    Popularity never falls, so the maximum of a node needs only the children that were touched.
    """
    box, last = _ordered(given, order, sizes)
    if last == 0:
        top[0] += units
        own[0] += units
        return
    at, highest = np.zeros(last, np.int64), np.zeros(last, np.int64)
    row = np.zeros(last, np.int64)
    level = 0
    at[0] = box[0, 0]
    while level >= 0:
        if level == last - 1:
            begin, length = row[level] * sizes[level] + box[level, 0], box[level, 1] - box[level, 0]
            if last < len(sizes):
                _raise(own, starts[last] + begin, length + 1, units)
            highest[level] = _raise(top, starts[last] + begin, length + 1, units)
        elif at[level] <= box[level, 1]:
            row[level + 1] = row[level] * sizes[level] + at[level]
            at[level] += 1
            level += 1
            at[level], highest[level] = box[level, 0], 0
            continue
        node = starts[level] + row[level]
        reached = np.int64(own[node]) + highest[level]
        if reached > top[node]:
            top[node] = reached
        level -= 1
        if level >= 0:
            highest[level] = max(highest[level], np.int64(top[node]))


@_compiled
def _ordered(given: Array, order: Array, sizes: Array) -> tuple[Array, int]:
    """A box in the order of the tree, and how many axes there are up to its last restricted one."""
    box = np.empty((len(order), 2), np.int64)
    last = 0
    for level in range(len(order)):
        box[level] = given[order[level]]
        if box[level, 0] > 0 or box[level, 1] < sizes[level] - 1:
            last = level + 1
    return box, last


@_compiled
def _highest(top: Array, begin: int, length: int) -> Any:
    run = top[begin : begin + length]
    found = run[0]
    for place in range(len(run)):
        found = max(found, run[place])
    return np.int64(found)


@_compiled
def _raise(counts: Array, begin: int, length: int, units: Any) -> Any:
    """Add to a run, and tell its maximum; all stays in the type of the counts, for wide lanes."""
    run = counts[begin : begin + length]
    found = run[0]
    for place in range(len(run)):
        run[place] += units
        found = max(found, run[place])
    return np.int64(found)
