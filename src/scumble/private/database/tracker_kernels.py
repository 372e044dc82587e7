"""Inner loops of the exact and the histogram tracker, compiled where that pays."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from scumble.model.compiled import kernel
from scumble.private.database import numpy_forms
from scumble.private.database.numpy_forms import APART, BLOCKS, INSIDE

Array = Any

# --- the exact tracker ----------------------------------------------------------------------------
#
# The points are the leaves of a tree: level k has one node for every choice of the first k codes.
# `own` counts boxes that cover all of a node and were added there. `top` is the largest popularity
# below a node, without the boxes added above it. A box is followed down to the level of the last
# axis that it restricts, where it covers whole nodes, in runs.


def _covered(*arguments: Any) -> int:
    """Return the number of nodes that a box covers at the level of the last axis it restricts."""
    sizes, order, given = arguments[3:6]
    box, last = _ordered.function(given, order, sizes)
    return prod((box[:last, 1] - box[:last, 0] + 1).tolist())


def _opened(top: Array, *others: Any) -> int:
    """Return the number of nodes to compare with `most`: none where the root is not above it."""
    return 0 if top[0] <= others[-1] else _covered(top, *others)


@kernel(numpy_form=numpy_forms.exact_fits, steps=_opened, nanoseconds=1)
def exact_fits(
    top: Array, own: Array, starts: Array, sizes: Array, order: Array, given: Array, most: int
) -> bool:
    """Whether no point of the box is more popular than `most`."""
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


@kernel(numpy_form=numpy_forms.exact_cover, steps=_covered, nanoseconds=1)
def exact_cover(
    top: Array, own: Array, starts: Array, sizes: Array, order: Array, given: Array, units: Any
) -> None:
    """Add units (of the type of `top`) to every point of the box.

    Popularity never falls, so that a new maximum of a node is found among the changed children.
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
                _raise_points(own, starts[last] + begin, length + 1, units)
            highest[level] = _raise_points(top, starts[last] + begin, length + 1, units)
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


@kernel
def _ordered(given: Array, order: Array, sizes: Array) -> tuple[Array, int]:
    """Return a box in the order of the tree, and the number of axes up to the last restricted."""
    box = np.empty((len(order), 2), np.int64)
    last = 0
    for level in range(len(order)):
        box[level] = given[order[level]]
        if box[level, 0] > 0 or box[level, 1] < sizes[level] - 1:
            last = level + 1
    return box, last


@kernel
def _highest(top: Array, begin: int, length: int) -> Any:
    run = top[begin : begin + length]
    found = run[0]
    for place in range(len(run)):
        found = max(found, run[place])
    return np.int64(found)


@kernel
def _raise_points(counts: Array, begin: int, length: int, units: Any) -> Any:
    """Add to a run and return its maximum. Computed in the type of the counts, for SIMD."""
    run = counts[begin : begin + length]
    found = run[0]
    for place in range(len(run)):
        run[place] += units
        found = max(found, run[place])
    return np.int64(found)


# --- the index of the histogram's buckets ---------------------------------------------------------
#
# Buckets are in blocks of neighbours. A block has the least box around its buckets (`hulls`), the
# units that cover all of it (`own`, to be added to each of its counters) and its largest counter
# (`top`, with `own`). A search skips the blocks that it does not meet or need not open, and
# compares the others a whole block at a time.

WIDTH = 64  # buckets in a block
BUCKETS = 1  # a place in `sizes`, after BLOCKS
_SMALL = 1 << 16  # a limit that no 10,000 boxes of one question take beyond 32 bits


class Index(NamedTuple):
    """The arrays of the index. An unused slot has an interval that meets nothing.

    Reading them takes most of the time, so codes have two bytes and counters four, where these
    suffice.
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


def empty_index(whole: Array, buckets: int, limit: int) -> Index:
    """Return an index with one bucket, the whole space. `limit` decides the width of counters."""
    axes, blocks = len(whole), buckets // (WIDTH // 2) + 1
    kind = np.int16 if whole.max() < np.iinfo(np.int16).max else np.int64
    faces = np.empty((blocks, axes, 2, WIDTH), kind)
    nowhere = np.array([whole.max() + 1])
    faces[0, :, 0], faces[0, :, 1] = nowhere[0], -1
    faces[0, :, :, 0] = whole
    hulls = np.empty((axes, 2, blocks), kind)
    hulls[:, :, 0] = whole
    names = np.full((blocks, WIDTH), -1)
    names[0, 0] = 0
    return Index(
        whole,
        hulls,
        faces,
        np.zeros((blocks, WIDTH), np.int32 if limit < _SMALL else np.int64),
        names,
        np.zeros(buckets, np.int64),
        np.zeros(blocks, np.int64),
        np.zeros(blocks, np.int64),
        np.array([1, 1]),
        nowhere,
    )


@kernel(numpy_form=numpy_forms.buckets_fit)
def buckets_fit(index: Index, box: Array, most: int) -> bool:
    """Whether no bucket that meets the box has a counter above `most`."""
    narrow = box.astype(index.faces.dtype)
    lies, touched = _blocks(index, narrow), np.empty(WIDTH, np.bool_)
    for block in range(len(lies)):
        if lies[block] != APART and index.top[block] > most:
            if lies[block] == INSIDE:
                return False
            _touch(index, block, narrow, touched)
            for slot in range(WIDTH):
                if touched[slot] and index.own[block] + index.counts[block, slot] > most:
                    return False
    return True


@kernel(numpy_form=numpy_forms.cover_buckets)
def cover_buckets(index: Index, box: Array, units: int, most: int, due: Array) -> int:
    """Add units to every bucket that meets the box.

    Buckets that are then above `most` are written to `due`, for a split; returns their number.
    """
    narrow = box.astype(index.faces.dtype)
    lies, touched = _blocks(index, narrow), np.empty(WIDTH, np.bool_)
    own, top, counts = index.own, index.top, index.counts
    late = 0
    for block in range(len(lies)):
        if lies[block] == APART:
            continue
        if lies[block] == INSIDE:
            own[block] += units
            top[block] += units
            touched[:] = index.names[block] >= 0
        else:
            _touch(index, block, narrow, touched)
            top[block] = own[block] + _raise_buckets(counts, block, touched, units)
        if top[block] > most:
            for slot in range(WIDTH):
                if touched[slot] and own[block] + counts[block, slot] > most:
                    due[late] = index.names[block, slot]
                    late += 1
    return late


@kernel
def _blocks(index: Index, box: Array) -> Array:
    """Return for every block whether it is apart from the box, meets it, or is inside."""
    found = np.full(index.sizes[BLOCKS], INSIDE, np.int8)
    for axis in range(len(box)):
        low, high = box[axis, 0], box[axis, 1]
        if low > index.whole[axis, 0] or high < index.whole[axis, 1]:
            for block in range(len(found)):
                start, stop = index.hulls[axis, 0, block], index.hulls[axis, 1, block]
                meets = (start <= high) & (stop >= low)
                inside = (start >= low) & (stop <= high)
                found[block] = min(found[block], np.int8(meets) + np.int8(meets & inside))
    return found


@kernel
def _touch(index: Index, block: int, box: Array, touched: Array) -> None:
    """Mark the slots of a block whose bucket meets a box. Axes that decide nothing are skipped.

    The block is not inside the box, so at least one axis decides, and an unused slot is not marked.
    """
    first = True
    for axis in range(len(box)):
        low, high = box[axis, 0], box[axis, 1]
        if index.hulls[axis, 0, block] < low or index.hulls[axis, 1, block] > high:
            if first:
                _compare(index.faces, block, axis, low, high, touched)
            else:
                _compare_too(index.faces, block, axis, low, high, touched)
            first = False


# Loops of their own over whole arrays by their places: views of them would cost as much as the
# comparisons.
@kernel
def _compare(faces: Array, block: int, axis: int, low: int, high: int, touched: Array) -> None:
    for slot in range(WIDTH):
        touched[slot] = (faces[block, axis, 0, slot] <= high) & (faces[block, axis, 1, slot] >= low)


@kernel
def _compare_too(faces: Array, block: int, axis: int, low: int, high: int, touched: Array) -> None:
    for slot in range(WIDTH):
        touched[slot] &= (faces[block, axis, 0, slot] <= high) & (
            faces[block, axis, 1, slot] >= low
        )


@kernel
def _raise_buckets(counts: Array, block: int, touched: Array, units: int) -> Any:
    """Add units to the marked slots, and return the largest counter of the block."""
    amount, highest = counts.dtype.type(units), counts[block, 0]
    for slot in range(WIDTH):
        counts[block, slot] += amount * touched[slot]
        highest = max(highest, counts[block, slot])
    return np.int64(highest)


@kernel(uncompiled=True)
def divide(index: Index, block: int) -> None:
    """Divide a full block in two along one axis."""
    faces, counts, names = index.faces[block], index.counts[block], index.names[block]
    least, first = np.inf, np.zeros(WIDTH, np.bool_)
    for axis in range(len(faces)):
        half = _lower_half(faces, axis)
        extent = _extent(faces, half, True, index.whole) + _extent(faces, half, False, index.whole)
        if extent < least:
            least, first = extent, half
    other = index.sizes[BLOCKS]
    index.sizes[BLOCKS] += 1
    index.own[other] = index.own[block]
    kept = moved = 0
    for slot in range(WIDTH):
        if first[slot]:
            _move(faces, counts, names, slot, index, block, kept)
            kept += 1
        else:
            _move(faces, counts, names, slot, index, other, moved)
            moved += 1
    _finish(index, block, kept)
    _finish(index, other, moved)


@kernel(numpy_form=numpy_forms.lower_half)
def _lower_half(faces: Array, axis: int) -> Array:
    """Mark the half of the buckets of a full block with the lower centres along an axis."""
    centres = np.empty(WIDTH, np.int64)
    for slot in range(WIDTH):
        centres[slot] = (np.int64(faces[axis, 0, slot]) + faces[axis, 1, slot]) * WIDTH + slot
    return centres < np.sort(centres)[WIDTH // 2]


@kernel(numpy_form=numpy_forms.extent)
def _extent(faces: Array, half: Array, side: bool, whole: Array) -> float:
    """Return a measure of how likely a box that restricts two axes meets the block of one half.

    It is the sum, over all pairs of axes, of the product of the block's lengths along them.
    """
    total = squares = 0.0
    for axis in range(len(faces)):
        low, high = whole[axis, 1], np.int64(0)
        for slot in range(WIDTH):
            if half[slot] == side:
                low = min(low, np.int64(faces[axis, 0, slot]))
                high = max(high, np.int64(faces[axis, 1, slot]))
        length = (high - low + 1) / (whole[axis, 1] + 1)
        total += length
        squares += length * length
    return total * total - squares


@kernel
def _move(
    faces: Array, counts: Array, names: Array, slot: int, index: Index, block: int, place: int
) -> None:
    """Move a bucket to another slot. In its own block the new slot is not after the old one."""
    for axis in range(len(faces)):
        index.faces[block, axis, 0, place] = faces[axis, 0, slot]
        index.faces[block, axis, 1, place] = faces[axis, 1, slot]
    index.counts[block, place] = counts[slot]
    index.names[block, place] = names[slot]
    index.where[names[slot]] = block * WIDTH + place


@kernel(numpy_form=numpy_forms.finish)
def _finish(index: Index, block: int, used: int) -> None:
    """Clear unused slots, and find the least box and the largest counter of a block."""
    for axis in range(len(index.whole)):
        low, high = index.whole[axis, 1], np.int64(0)
        for slot in range(used):
            low = min(low, np.int64(index.faces[block, axis, 0, slot]))
            high = max(high, np.int64(index.faces[block, axis, 1, slot]))
        index.hulls[axis, 0, block], index.hulls[axis, 1, block] = low, high
        for slot in range(used, WIDTH):
            index.faces[block, axis, 0, slot] = index.nowhere[0]
            index.faces[block, axis, 1, slot] = -1
    for slot in range(used, WIDTH):
        index.counts[block, slot], index.names[block, slot] = 0, -1
    settle(index, block)


@kernel(numpy_form=numpy_forms.settle)
def settle(index: Index, block: int) -> None:
    """Find the largest counter of a block."""
    highest = np.int64(0)
    for slot in range(WIDTH):
        highest = max(highest, np.int64(index.counts[block, slot]))
    index.top[block] = index.own[block] + highest
