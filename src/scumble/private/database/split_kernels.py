"""Splitting buckets of the histogram tracker as in the paper, compiled where that pays.

Boxes are columns here, `[axis, side, box]`, so that many are compared at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel
from scumble.private.database import numpy_forms
from scumble.private.database.numpy_forms import NARROW
from scumble.private.database.tracker_kernels import BUCKETS, WIDTH, Index, divide, settle

Array = Any


@kernel(uncompiled=True)
def split(
    index: Index,
    boxes: Array,
    units: Array,
    accepted: int,
    due: Array,
    late: int,
    most: int,
    helpful: bool,
) -> None:
    """Split the first `late` buckets of `due`, and their parts while these are above `most`.

    The first `accepted` of `boxes` and `units` are in use. With `helpful`, splitting ends at the
    first bucket whose counter no cut can lower.
    """
    known, loads = _meeting(_hull(index, due, late), boxes, units, accepted)
    while late and index.sizes[BUCKETS] < len(index.where):
        late -= 1
        name = due[late]
        bucket = _box(index, name)
        near, weights = _meeting(bucket, known, loads, len(loads))
        core, partial, empty = _core(bucket, near)
        if not partial:
            if helpful:
                break
        elif empty:
            axis, line = _best(bucket, near, weights)
            other = index.sizes[BUCKETS]
            before, after = _cut(index, name, axis, line, near, weights)
            if before > most:
                due[late] = name
                late += 1
            if after > most:
                due[late] = other
                late += 1
        else:
            _carve(index, name, bucket, core, near, weights)


@kernel
def _box(index: Index, name: int) -> Array:
    """The box of a bucket."""
    block, slot = index.where[name] // WIDTH, index.where[name] % WIDTH
    found = np.empty((len(index.whole), 2), np.int64)
    for axis in range(len(found)):
        found[axis, 0] = index.faces[block, axis, 0, slot]
        found[axis, 1] = index.faces[block, axis, 1, slot]
    return found


@kernel
def _hull(index: Index, due: Array, late: int) -> Array:
    """The least box around the buckets that are due."""
    hull = _box(index, due[0])
    for place in range(1, late):
        bucket = _box(index, due[place])
        for axis in range(len(hull)):
            hull[axis, 0] = min(hull[axis, 0], bucket[axis, 0])
            hull[axis, 1] = max(hull[axis, 1], bucket[axis, 1])
    return hull


@kernel(numpy_form=numpy_forms.meeting)
def _meeting(bucket: Array, boxes: Array, units: Array, accepted: int) -> tuple[Array, Array]:
    """Return the accepted boxes that meet a bucket, and their units."""
    meets = np.ones(accepted, np.bool_)
    for axis in range(len(bucket)):
        low, high = bucket[axis, 0], bucket[axis, 1]
        starts, stops = boxes[axis, 0], boxes[axis, 1]
        for place in range(len(meets)):
            meets[place] &= (starts[place] <= high) & (stops[place] >= low)
    found, size = np.empty(accepted + 1, np.int32), 0
    for place in range(accepted):
        found[size] = place
        size += meets[place]
    near, weights = np.empty((len(bucket), 2, size), np.int64), np.empty(size, np.int64)
    for place in range(size):
        weights[place] = units[found[place]]
        for axis in range(len(bucket)):
            near[axis, 0, place] = boxes[axis, 0, found[place]]
            near[axis, 1, place] = boxes[axis, 1, found[place]]
    return near, weights


@kernel(numpy_form=numpy_forms.core)
def _core(bucket: Array, near: Array) -> tuple[Array, bool, bool]:
    """Return the intersection of a bucket with all boxes that meet it (the core).

    Also whether it is less than the bucket, because some boxes meet the bucket in part, and whether
    it is empty.
    """
    core = np.empty_like(bucket)
    less = empty = False
    for axis in range(len(bucket)):
        starts, stops = near[axis, 0], near[axis, 1]
        low, high = bucket[axis, 0], bucket[axis, 1]
        for place in range(len(starts)):
            low = max(low, starts[place])
            high = min(high, stops[place])
        core[axis, 0], core[axis, 1] = low, high
        less |= low > bucket[axis, 0] or high < bucket[axis, 1]
        empty |= low > high
    return core, less, empty


@kernel
def _carve(
    index: Index, name: int, bucket: Array, core: Array, near: Array, weights: Array
) -> None:
    """Cut along the faces of the core until one bucket is exactly the core."""
    for axis in range(len(core)):
        for side in range(2):
            if bucket[axis, side] != core[axis, side]:
                if index.sizes[BUCKETS] == len(index.where):
                    return
                other = index.sizes[BUCKETS]
                _cut(index, name, axis, core[axis, side] + side, near, weights)
                if side == 0:
                    name = other  # the core lies above the line


@kernel
def _cut(
    index: Index, name: int, axis: int, line: int, near: Array, weights: Array
) -> tuple[Any, Any]:
    """Cut a bucket in two, and return their counters: the units of the boxes that meet each.

    All boxes in `near` meet the bucket, so that only the axis of the cut decides.
    """
    before, after = _beside(near[axis], weights, line)
    if index.names[index.where[name] // WIDTH, WIDTH - 1] >= 0:
        divide(index, index.where[name] // WIDTH)
    block, slot = index.where[name] // WIDTH, index.where[name] % WIDTH
    other, free = index.sizes[BUCKETS], 0
    while index.names[block, free] >= 0:
        free += 1
    index.sizes[BUCKETS] += 1
    index.names[block, free], index.where[other] = other, block * WIDTH + free
    for each in range(len(index.whole)):
        index.faces[block, each, 0, free] = index.faces[block, each, 0, slot]
        index.faces[block, each, 1, free] = index.faces[block, each, 1, slot]
    index.faces[block, axis, 1, slot] = line - 1
    index.faces[block, axis, 0, free] = line
    index.counts[block, slot] = before - index.own[block]
    index.counts[block, free] = after - index.own[block]
    settle(index, block)
    return before, after


@kernel(numpy_form=numpy_forms.beside)
def _beside(near: Array, weights: Array, line: int) -> tuple[Any, Any]:
    """Return the units of the intervals that begin before a line, and that end at it or after."""
    starts, stops = near[0], near[1]
    before = after = np.int64(0)
    for place in range(len(weights)):
        before += weights[place] * (starts[place] < line)
        after += weights[place] * (stops[place] >= line)
    return before, after


@kernel(numpy_form=numpy_forms.best)
def _best(bucket: Array, near: Array, weights: Array) -> tuple[Any, Any]:
    """Return the cut with the least sum of the two counters; ties by the larger, then the first."""
    best, larger, best_axis, best_line = np.int64(-1), np.int64(0), 0, np.int64(0)
    for axis in range(len(bucket)):
        low, high = bucket[axis, 0], bucket[axis, 1]
        lines = _lines(near[axis], low, high)
        begun, ended = _units_by_line(lines, near[axis], weights)
        left, right = begun[0], begun.sum()
        for place in range(1, len(lines) - 1):
            right -= ended[place]
            if (begun[place] or ended[place]) and lines[place] <= high:
                total, most = left + right, max(left, right)
                if best < 0 or total < best or (total == best and most < larger):
                    best, larger, best_axis, best_line = total, most, axis, lines[place]
            left += begun[place]
    return best_axis, best_line


@kernel
def _lines(near: Array, low: int, high: int) -> Array:
    """Return where an axis of a bucket may be cut, and its two ends.

    These are all codes if there are few, else the faces of the boxes, possibly with duplicates.
    """
    if high - low < NARROW:
        return np.arange(low, high + 2)
    boxes = near.shape[1]
    lines = np.empty(2 * boxes + 2, np.int64)
    for place in range(boxes):
        lines[2 * place] = max(near[0, place], low)
        lines[2 * place + 1] = min(near[1, place], high) + 1
    lines[-2], lines[-1] = low, high + 1
    lines.sort()
    return lines


@kernel
def _units_by_line(lines: Array, near: Array, weights: Array) -> tuple[Array, Array]:
    """Return the units of the boxes that begin, and that end, at every line (first duplicate)."""
    begun, ended = np.zeros(len(lines), np.int64), np.zeros(len(lines), np.int64)
    low, after = lines[0], lines[-1]
    narrow = after - low <= NARROW
    for place in range(len(weights)):
        start, stop = max(near[0, place], low), min(near[1, place] + 1, after)
        first = start - low if narrow else np.searchsorted(lines, start)
        last = stop - low if narrow else np.searchsorted(lines, stop)
        begun[first] += weights[place]
        ended[last] += weights[place]
    return begun, ended
