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
    """The arrays of the index; an unused slot holds an interval that meets nothing."""

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
    faces = np.empty((blocks, axes, 2, WIDTH), np.int64)
    faces[0, :, 0], faces[0, :, 1] = np.iinfo(np.int64).max, -1
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
    touched = np.empty(WIDTH, np.bool_)
    for block in range(len(meets)):
        if meets[block] and index.top[block] > most:
            if inside[block]:
                return False
            _touch(index, block, box, touched)
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
    touched = np.empty(WIDTH, np.bool_)
    late = 0
    for block in range(len(meets)):
        if not meets[block]:
            continue
        counts = index.counts[block]
        if inside[block]:
            index.own[block] += units
            index.top[block] += units
            touched[:] = index.names[block] >= 0
        else:
            _touch(index, block, box, touched)
            highest = np.int64(0)
            for slot in range(WIDTH):
                counts[slot] += units * touched[slot]
                highest = max(highest, counts[slot])
            index.top[block] = index.own[block] + highest
        if index.top[block] > most:
            for slot in range(WIDTH):
                if touched[slot] and index.own[block] + counts[slot] > most:
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
def _touch(index: Index, block: int, box: Array, touched: Array) -> None:
    """Which slots of a block hold a bucket that meets a box."""
    touched[:] = True
    for axis in range(len(box)):
        low, high = box[axis, 0], box[axis, 1]
        if low > index.whole[axis, 0] or high < index.whole[axis, 1]:
            starts, stops = index.faces[block, axis, 0], index.faces[block, axis, 1]
            for slot in range(WIDTH):
                touched[slot] &= (starts[slot] <= high) & (stops[slot] >= low)


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
    order = np.argsort(faces[axis, 0] + faces[axis, 1])
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
    index.faces[block, :, 0] = np.iinfo(np.int64).max
    index.faces[block, :, 1] = -1
    index.counts[block] = 0
    index.names[block] = -1
