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

    Reading the boxes takes most of the time, so they stand in two bytes where these hold them.
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
    nowhere: Array  # one code that lies outside the space


def empty_index(whole: Array, buckets: int) -> Index:
    """One bucket that is the whole space."""
    axes, blocks = len(whole), buckets // (WIDTH // 2) + 1
    kind = np.int16 if whole.max() < np.iinfo(np.int16).max else np.int64
    faces = np.empty((blocks, axes, 2, WIDTH), kind)
    nowhere = np.array([whole.max() + 1])
    faces[0, :, 0], faces[0, :, 1] = nowhere[0], -1
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
        nowhere,
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
        length = (index.hulls[each, 1, block] - index.hulls[each, 0, block]) / (
            index.whole[each, 1] + 1
        )
        if length > longest:
            longest, axis = length, each
    faces, counts, names = index.faces[block], index.counts[block], index.names[block]
    centres = np.empty(WIDTH, np.int64)
    for slot in range(WIDTH):
        centres[slot] = np.int64(faces[axis, 0, slot]) + faces[axis, 1, slot]
    other = index.sizes[BLOCKS]
    index.sizes[BLOCKS] += 1
    index.own[other] = index.own[block]
    kept = moved = 0
    for slot in range(WIDTH):
        before = 0  # how many buckets come first: a sort of so few
        for rival in range(WIDTH):
            before += centres[rival] < centres[slot] or (
                centres[rival] == centres[slot] and rival < slot
            )
        if before < WIDTH // 2:
            _move(faces, counts, names, slot, index, block, kept)
            kept += 1
        else:
            _move(faces, counts, names, slot, index, other, moved)
            moved += 1
    _finish(index, block, kept)
    _finish(index, other, moved)


@compiled
def _move(
    faces: Array, counts: Array, names: Array, slot: int, index: Index, block: int, place: int
) -> None:
    """A bucket to another slot: of its own block not behind the one that it had."""
    for axis in range(len(faces)):
        index.faces[block, axis, 0, place] = faces[axis, 0, slot]
        index.faces[block, axis, 1, place] = faces[axis, 1, slot]
    index.counts[block, place] = counts[slot]
    index.names[block, place] = names[slot]
    index.where[names[slot]] = block * WIDTH + place


@compiled
def _finish(index: Index, block: int, used: int) -> None:
    """Clear the slots that are not used, and find the least box and the largest counter."""
    for axis in range(len(index.whole)):
        low, high = index.whole[axis, 1], np.int64(0)
        for slot in range(used):
            low = min(low, index.faces[block, axis, 0, slot])
            high = max(high, index.faces[block, axis, 1, slot])
        index.hulls[axis, 0, block], index.hulls[axis, 1, block] = low, high
        for slot in range(used, WIDTH):
            index.faces[block, axis, 0, slot] = index.nowhere[0]
            index.faces[block, axis, 1, slot] = -1
    for slot in range(used, WIDTH):
        index.counts[block, slot], index.names[block, slot] = 0, -1
    settle(index, block)


@compiled
def settle(index: Index, block: int) -> None:
    """The largest counter of a block."""
    highest = np.int64(0)
    for slot in range(WIDTH):
        highest = max(highest, index.counts[block, slot])
    index.top[block] = index.own[block] + highest
