"""The index of the histogram's buckets, compiled by numba on first use.

Buckets stand in blocks of neighbours. A block knows the least box around its buckets, the units
that cover all of it (`own`, added to each of its counters) and its largest counter (`top`, with
`own`). A question passes over the blocks that it does not meet or need not open, and compares a
whole block at a time with the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

WIDTH = 64  # buckets in a block
BLOCKS, BUCKETS = range(2)  # places in `sizes`

Array = Any
compiled = numba.njit(cache=True, nogil=True)


class Index(NamedTuple):
    """The arrays of the index; an unused slot holds an interval that meets nothing.

    Reading the boxes takes most of the time, so they stand in the smallest type that holds them.
    """

    whole: Array  # [axis, side]: the space
    hulls: Array  # [axis, side, block]
    faces: Array  # [block, axis, side, slot]: the box of each bucket
    counts: Array  # [block, slot]
    names: Array  # [block, slot]: the number of the bucket
    where: Array  # [number]: block * WIDTH + slot
    own: Array  # [block]
    top: Array  # [block]
    sizes: Array  # how many blocks and buckets there are


def empty_index(whole: Array, buckets: int) -> Index:
    """One bucket that is the whole space."""
    axes, blocks = len(whole), buckets // (WIDTH // 2) + 1
    kind = next(k for k in (np.int16, np.int32, np.int64) if whole.max() < np.iinfo(k).max)
    faces = np.empty((blocks, axes, 2, WIDTH), kind)
    faces[0, :, 0], faces[0, :, 1] = whole.max() + 1, -1
    faces[0, :, :, 0] = whole
    hulls = np.empty((axes, 2, blocks), np.int64)
    hulls[:, :, 0] = whole
    names = np.full((blocks, WIDTH), -1)
    names[0, 0] = 0
    return Index(
        whole,
        hulls,
        faces,
        np.zeros((blocks, WIDTH), np.int64),
        names,
        np.zeros(buckets, np.int64),
        np.zeros(blocks, np.int64),
        np.zeros(blocks, np.int64),
        np.array([1, 1]),
    )


@compiled
def fits(index: Index, box: Array, most: int) -> bool:
    """Whether no bucket that meets the box has a counter above `most`."""
    meets, inside = _blocks(index, box)
    touched, narrow = np.empty(WIDTH, np.bool_), box.astype(index.faces.dtype)
    hulls, faces, top = index.hulls, index.faces, index.top
    for block in range(len(meets)):
        if meets[block] and top[block] > most:
            if inside[block]:
                return False
            _touch(faces[block], hulls, block, narrow, touched)
            counts, own = index.counts[block], index.own[block]
            for slot in range(WIDTH):
                if touched[slot] and own + counts[slot] > most:
                    return False
    return True


@compiled
def cover(index: Index, box: Array, units: int, most: int, due: Array) -> int:
    """Add units to every bucket that meets the box; returns how many are then above `most`, and
    therefore `due` for a split.
    """
    meets, inside = _blocks(index, box)
    touched, narrow = np.empty(WIDTH, np.bool_), box.astype(index.faces.dtype)
    hulls, faces, own, top = index.hulls, index.faces, index.own, index.top
    late = 0
    for block in range(len(meets)):
        if not meets[block]:
            continue
        counts = index.counts[block]
        if inside[block]:
            own[block] += units
            top[block] += units
            touched[:] = index.names[block] >= 0
        else:
            _touch(faces[block], hulls, block, narrow, touched)
            top[block] = own[block] + _raise(counts, touched, units)
        if top[block] > most:
            for slot in range(WIDTH):
                if touched[slot] and own[block] + counts[slot] > most:
                    due[late] = index.names[block, slot]
                    late += 1
    return late


@compiled
def _blocks(index: Index, box: Array) -> tuple[Array, Array]:
    """Which blocks meet a box, and which lie inside it."""
    blocks = index.sizes[BLOCKS]
    meets, inside = np.ones(blocks, np.bool_), np.ones(blocks, np.bool_)
    for axis in range(len(box)):
        low, high = box[axis, 0], box[axis, 1]
        if low > index.whole[axis, 0] or high < index.whole[axis, 1]:
            starts, stops = index.hulls[axis, 0], index.hulls[axis, 1]
            for block in range(len(meets)):
                meets[block] &= (starts[block] <= high) & (stops[block] >= low)
                inside[block] &= (starts[block] >= low) & (stops[block] <= high)
    return meets, inside


@compiled
def _touch(faces: Array, hulls: Array, block: int, box: Array, touched: Array) -> None:
    """Which slots of a block hold a bucket that meets a box; axes that decide nothing are skipped.

    The block is not inside the box, so one axis decides, and an unused slot meets nothing.
    """
    touched[:] = True
    for axis in range(len(box)):
        low, high = box[axis, 0], box[axis, 1]
        if hulls[axis, 0, block] < low or hulls[axis, 1, block] > high:
            starts, stops = faces[axis, 0], faces[axis, 1]
            for slot in range(WIDTH):
                touched[slot] &= (starts[slot] <= high) & (stops[slot] >= low)


@compiled
def _raise(counts: Array, touched: Array, units: int) -> Any:
    """Add units to the slots that were touched, and tell the largest counter of all."""
    highest = np.int64(0)
    for slot in range(WIDTH):
        counts[slot] += units * touched[slot]
        highest = max(highest, counts[slot])
    return highest


@compiled
def divide(index: Index, block: int) -> None:
    """Make two blocks of one that is full: neighbours along its longest axis stay together."""
    longest, axis = -1.0, 0
    for each in range(len(index.whole)):
        length = (index.hulls[each, 1, block] - index.hulls[each, 0, block] + 1) / (
            index.whole[each, 1] + 1
        )
        if length > longest:
            longest, axis = length, each
    faces = index.faces[block]
    order = np.argsort(faces[axis, 0].astype(np.int64) + faces[axis, 1])
    other = index.sizes[BLOCKS]
    index.sizes[BLOCKS] += 1
    whole_faces, counts, names = faces.copy(), index.counts[block].copy(), index.names[block].copy()
    index.own[other] = index.own[block]
    for part, target in ((order[: WIDTH // 2], block), (order[WIDTH // 2 :], other)):
        _clear(index, target)
        for slot in range(len(part)):
            index.faces[target, :, :, slot] = whole_faces[:, :, part[slot]]
            index.counts[target, slot] = counts[part[slot]]
            index.names[target, slot] = names[part[slot]]
            index.where[names[part[slot]]] = target * WIDTH + slot
        for each in range(len(index.whole)):
            index.hulls[each, 0, target] = index.faces[target, each, 0].min()
            index.hulls[each, 1, target] = index.faces[target, each, 1].max()
        index.top[target] = index.own[target] + index.counts[target].max()


@compiled
def _clear(index: Index, block: int) -> None:
    index.faces[block, :, 0] = index.whole.max() + 1
    index.faces[block, :, 1] = -1
    index.counts[block] = 0
    index.names[block] = -1
