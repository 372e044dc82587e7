"""Numpy forms of the loops of trackers and relaxation: the same results without a compiler.

Each function has the parameters and the results of the kernel of its name, of which it is the numpy
form (`tracker_kernels`, `split_kernels`, `relaxation_kernels`). `tests/test_kernels.py` compares
the two bit by bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any

APART, MEETS, INSIDE = range(3)  # how a block lies to a box
BLOCKS = 0  # a place in `sizes`

# --- the exact tracker ----------------------------------------------------------------------------


def exact_fits(
    top: Array, own: Array, starts: Array, sizes: Array, order: Array, given: Array, most: int
) -> bool:
    """Whether no point of the box is more popular than `most`."""
    part, last = _ordered(given, order, sizes)
    if top[0] <= most or last == 0:
        return bool(top[0] <= most)
    highest = _level(top, starts, sizes, last)[part].max(axis=-1).astype(np.int64)
    for level in range(last - 1, 0, -1):
        highest = (_level(own, starts, sizes, level)[part[:level]] + highest).max(axis=-1)
    return bool(int(own[0]) + int(highest) <= most)


def exact_cover(
    top: Array, own: Array, starts: Array, sizes: Array, order: Array, given: Array, units: Any
) -> None:
    """Add units (of the type of `top`) to every point of the box."""
    part, last = _ordered(given, order, sizes)
    if last == 0:
        top[0] += units
        own[0] += units
        return
    if last < len(sizes):
        _level(own, starts, sizes, last)[part] += units
    below = _level(top, starts, sizes, last)[part]
    below += units
    for level in range(last - 1, -1, -1):
        covered = part[:level]
        nodes = _level(top, starts, sizes, level)
        reached = _level(own, starts, sizes, level)[covered] + below.max(axis=-1)
        nodes[covered] = np.maximum(nodes[covered], reached)
        below = nodes[covered]


def _ordered(given: Array, order: Array, sizes: Array) -> tuple[tuple[slice, ...], int]:
    """Return a box as slices in the order of the tree, up to the last axis that it restricts."""
    box = given[order]
    restricted = np.flatnonzero((box[:, 0] > 0) | (box[:, 1] < sizes - 1))
    last = int(restricted[-1]) + 1 if len(restricted) else 0
    return tuple(slice(low, high + 1) for low, high in box[:last].tolist()), last


def _level(nodes: Array, starts: Array, sizes: Array, level: int) -> Array:
    """Return the nodes of a level of the tree by the codes of its axes."""
    shape = tuple(sizes[:level].tolist())
    begin = int(starts[level])
    return nodes[begin : begin + int(np.prod(shape, dtype=np.int64))].reshape(shape)


# --- the index of the histogram's buckets ---------------------------------------------------------


def buckets_fit(index: Any, box: Array, most: int) -> bool:
    """Whether no bucket that meets the box has a counter above `most`."""
    lies = _blocks(index, box)
    full = index.top[: len(lies)] > most
    if (full & (lies == INSIDE)).any():
        return False
    opened = np.flatnonzero(full & (lies == MEETS))
    if not len(opened):
        return True
    counters = index.own[opened, np.newaxis] + index.counts[opened]
    return not (_touched(index, opened, box) & (counters > most)).any()


def cover_buckets(index: Any, box: Array, units: int, most: int, due: Array) -> int:
    """Add units to every bucket that meets the box; list those above `most` in `due`."""
    lies = _blocks(index, box)
    inside, opened = np.flatnonzero(lies == INSIDE), np.flatnonzero(lies == MEETS)
    index.own[inside] += units
    index.top[inside] += units
    touched = _touched(index, opened, box)
    counts = index.counts[opened] + touched * index.counts.dtype.type(units)
    index.counts[opened] = counts
    index.top[opened] = index.own[opened] + counts.max(axis=1)
    full = np.flatnonzero((lies != APART) & (index.top[: len(lies)] > most))
    if not len(full):
        return 0
    marked = index.names[full] >= 0
    partly = lies[full] == MEETS
    marked[partly] = touched[np.searchsorted(opened, full[partly])]
    marked &= index.own[full, np.newaxis] + index.counts[full] > most
    late = index.names[full][marked]
    due[: len(late)] = late
    return len(late)


def _blocks(index: Any, box: Array) -> Array:
    """Return for every block whether it is apart from the box, meets it, or is inside."""
    hulls = index.hulls[:, :, : index.sizes[BLOCKS]]
    low, high = box[:, :1], box[:, 1:]
    starts, stops = hulls[:, 0], hulls[:, 1]
    meets = ((starts <= high) & (stops >= low)).all(axis=0)
    inside = ((starts >= low) & (stops <= high)).all(axis=0)
    return meets.astype(np.int8) + (meets & inside)


def _touched(index: Any, blocks: Array, box: Array) -> Array:
    """Mark, by block and slot, the buckets that meet a box. No unused slot does."""
    faces = index.faces[blocks]
    low, high = box[:, :1], box[:, 1:]
    meets: Array = ((faces[:, :, 0] <= high) & (faces[:, :, 1] >= low)).all(axis=1)
    return meets


def lower_half(faces: Array, axis: int) -> Array:
    """Mark the half of the buckets of a full block with the lower centres along an axis."""
    width = faces.shape[2]
    centres = faces[axis].sum(axis=0, dtype=np.int64) * width + np.arange(width)
    return centres < np.sort(centres)[width // 2]


def extent(faces: Array, half: Array, side: bool, whole: Array) -> float:
    """Return a measure of how likely a box that restricts two axes meets the block of one half."""
    chosen = half == side
    lows, highs = faces[:, 0, chosen].min(axis=1), faces[:, 1, chosen].max(axis=1)
    total = squares = 0.0
    for low, high, last in zip(lows.tolist(), highs.tolist(), whole[:, 1].tolist(), strict=True):
        length = (high - low + 1) / (last + 1)
        total += length
        squares += length * length
    return total * total - squares


def finish(index: Any, block: int, used: int) -> None:
    """Clear unused slots, and find the least box and the largest counter of a block."""
    faces = index.faces[block]
    index.hulls[:, 0, block] = faces[:, 0, :used].min(axis=1)
    index.hulls[:, 1, block] = faces[:, 1, :used].max(axis=1)
    faces[:, 0, used:], faces[:, 1, used:] = index.nowhere[0], -1
    index.counts[block, used:], index.names[block, used:] = 0, -1
    settle(index, block)


def settle(index: Any, block: int) -> None:
    """Find the largest counter of a block."""
    index.top[block] = index.own[block] + max(int(index.counts[block].max()), 0)


# --- splitting buckets ----------------------------------------------------------------------------

NARROW = 4096  # codes of an axis that are counted one by one, not by faces of boxes


def meeting(bucket: Array, boxes: Array, units: Array, accepted: int) -> tuple[Array, Array]:
    """Return the accepted boxes that meet a bucket, and their units."""
    known = boxes[:, :, :accepted]
    meets = ((known[:, 0] <= bucket[:, 1:]) & (known[:, 1] >= bucket[:, :1])).all(axis=0)
    return known[:, :, meets], units[:accepted][meets]


def core(bucket: Array, near: Array) -> tuple[Array, bool, bool]:
    """Return the intersection of a bucket with all boxes that meet it (the core).

    Also whether it is less than the bucket, and whether it is empty.
    """
    found = np.empty_like(bucket)
    found[:, 0] = near[:, 0].max(axis=1, initial=np.iinfo(np.int64).min)
    found[:, 1] = near[:, 1].min(axis=1, initial=np.iinfo(np.int64).max)
    np.maximum(found[:, 0], bucket[:, 0], out=found[:, 0])
    np.minimum(found[:, 1], bucket[:, 1], out=found[:, 1])
    less, empty = (found != bucket).any(), (found[:, 0] > found[:, 1]).any()
    return found, bool(less), bool(empty)


def beside(near: Array, weights: Array, line: int) -> tuple[int, int]:
    """Return the units of the intervals that begin before a line, and that end at it or after."""
    return int(weights[near[0] < line].sum()), int(weights[near[1] >= line].sum())


def best(bucket: Array, near: Array, weights: Array) -> tuple[int, int]:
    """Return the cut with the least sum of the two counters; ties by the larger, then the first."""
    found: tuple[int, ...] | None = None
    for axis, (low, high) in enumerate(bucket.tolist()):
        lines = _lines(near[axis], low, high)
        begun, ended = _units_by_line(lines, near[axis], weights)
        may = ((begun != 0) | (ended != 0)) & (lines <= high)
        may[0] = may[-1] = False
        places = np.flatnonzero(may)
        if not len(places):
            continue
        left = begun.cumsum()[places - 1]
        right = begun.sum() - ended[1:].cumsum()[places - 1]
        totals, larger = left + right, np.maximum(left, right)
        place = np.lexsort([larger, totals])[0]  # a stable sort: the first of equal ones
        cut = (int(totals[place]), int(larger[place]), axis, int(lines[places[place]]))
        if found is None or cut[:2] < found[:2]:
            found = cut
    return (0, 0) if found is None else found[2:]  # type: ignore[return-value]


def _lines(near: Array, low: int, high: int) -> Array:
    """Return where an axis of a bucket may be cut, and its two ends."""
    if high - low < NARROW:
        return np.arange(low, high + 2)
    ends = [np.maximum(near[0], low), np.minimum(near[1], high) + 1, [low, high + 1]]
    return np.sort(np.concatenate(ends))


def _units_by_line(lines: Array, near: Array, weights: Array) -> tuple[Array, Array]:
    """Return the units of the boxes that begin, and that end, at every line (first duplicate)."""
    begun, ended = np.zeros(len(lines), np.int64), np.zeros(len(lines), np.int64)
    starts, stops = np.maximum(near[0], lines[0]), np.minimum(near[1] + 1, lines[-1])
    np.add.at(begun, np.searchsorted(lines, starts), weights)
    np.add.at(ended, np.searchsorted(lines, stops), weights)
    return begun, ended


# --- relaxation -----------------------------------------------------------------------------------


def distances(boxes: Array, target: Array, scales: Array) -> Array:
    """Return the distance of every box from the target."""
    found = np.zeros(len(boxes))
    for axis in range(len(target)):
        found += np.abs(boxes[:, axis] - target[axis]).sum(axis=1) * scales[axis]
    return found


def nearest(boxes: Array, faces: Array, target: Array, scales: Array) -> tuple[int, float]:
    """Return the first box with the least distance from the target, and that distance."""
    known = faces[:, :, : len(boxes)]
    totals = np.zeros(len(boxes))
    for axis, (low, high) in enumerate(target.astype(np.float64).tolist()):
        totals += (np.abs(known[axis, 0] - low) + np.abs(known[axis, 1] - high)) * scales[axis]
    place = int(totals.argmin())
    return place, float(distances(boxes[place : place + 1], target, scales)[0])


def neighbours(boxes: Array, faces: Array, region: Array) -> Array:
    """Return the boxes that differ from the region on one axis only."""
    known = faces[:, :, : len(boxes)]
    differ = known != region.astype(np.float64)[:, :, np.newaxis]
    return np.flatnonzero(differ.any(axis=1).sum(axis=0) == 1)


def intersections(sides: Array) -> Array:
    """Return the volumes of the intersections of all pairs of boxes, given by half-open sides."""
    volumes = np.ones((len(sides), len(sides)))
    for axis in range(sides.shape[1]):
        starts, stops = sides[:, axis, 0], sides[:, axis, 1]
        overlap = np.minimum.outer(stops, stops) - np.maximum.outer(starts, starts)
        volumes *= np.maximum(overlap, 0.0)
    return volumes


def factor(matrix: Array, slight: float) -> tuple[Array, bool]:
    """Cholesky factor of a matrix whose diagonal is raised by `slight` times its largest entry."""
    size = len(matrix)
    found = matrix.copy()
    found[np.diag_indices(size)] += (slight * matrix.diagonal()).max(initial=0.0)
    for column in range(size):
        if found[column, column] <= 0:
            return np.tril(found), False
        found[column, column] = np.sqrt(found[column, column])
        below = found[column + 1 :, column]
        below /= found[column, column]
        found[column + 1 :, column + 1 :] -= np.multiply.outer(below, below)
    return np.tril(found), True


def residual(matrix: Array, wanted: Array, found: Array) -> Array:
    """Return what a solution leaves of the right-hand side of a symmetric system."""
    rest = wanted.copy()
    for column in range(len(found)):
        rest -= matrix[column] * found[column]
    return rest


def solved(factors: Array, wanted: Array) -> Array:
    """Solve a system by its Cholesky factor and the transpose."""
    found = wanted.copy()
    for row in range(len(found)):
        found[row] /= factors[row, row]
        found[row + 1 :] -= factors[row + 1 :, row] * found[row]
    for row in range(len(found) - 1, -1, -1):
        found[row] /= factors[row, row]
        found[:row] -= factors[row, :row] * found[row]
    return found
