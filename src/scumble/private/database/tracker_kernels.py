"""Inner loops of the histogram tracker, compiled by numba at the first call.

Buckets are in blocks of neighbours. A block has the least box around its buckets (`hulls`), the
units that cover all of it (`own`, to be added to each of its counters) and its largest counter
(`top`, with `own`). A search skips the blocks that it does not meet or need not open, and compares
the others a whole block at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scumble.model.compiled import kernel

Array = Any

APART, INSIDE = 0, 2  # how a block lies to a box; 1 if it meets it
BLOCKS, BUCKETS = range(2)  # places in `sizes`
NARROW = 4096  # codes of an axis that are counted one by one, not by faces of boxes
WIDTH = 64  # buckets in a block
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


@kernel
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


@kernel
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


@kernel
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


@kernel
def _lower_half(faces: Array, axis: int) -> Array:
    """Mark the half of the buckets of a full block with the lower centres along an axis."""
    centres = np.empty(WIDTH, np.int64)
    for slot in range(WIDTH):
        centres[slot] = (np.int64(faces[axis, 0, slot]) + faces[axis, 1, slot]) * WIDTH + slot
    return centres < np.sort(centres)[WIDTH // 2]


@kernel
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


@kernel
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


@kernel
def settle(index: Index, block: int) -> None:
    """Find the largest counter of a block."""
    highest = np.int64(0)
    for slot in range(WIDTH):
        highest = max(highest, np.int64(index.counts[block, slot]))
    index.top[block] = index.own[block] + highest


# --- splitting buckets as in the paper ------------------------------------------------------------
#
# Boxes are columns here, `[axis, side, box]`, so that many are compared at a time.


@kernel
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


@kernel
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


@kernel
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


@kernel
def _beside(near: Array, weights: Array, line: int) -> tuple[Any, Any]:
    """Return the units of the intervals that begin before a line, and that end at it or after."""
    starts, stops = near[0], near[1]
    before = after = np.int64(0)
    for place in range(len(weights)):
        before += weights[place] * (starts[place] < line)
        after += weights[place] * (stops[place] >= line)
    return before, after


@kernel
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
