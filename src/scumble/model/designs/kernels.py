"""Loops over boxes and intervals, compiled by numba. Import this module only where a loop runs:
compiling is slow.

Tensors are passed as one-dimensional arrays with their strides in elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel

Array = Any


@kernel
def corner_sums(
    low: Array, high: Array, summed: Array, strides: Array, begin: Array, total: Array
) -> None:
    """Write to `total` the sum of each box from a summed-area table, which begins at begin[i] for
    box i (or at begin[0] for all): 2^d corners with alternating signs.
    """
    axes, boxes = low.shape
    if axes == 2 and len(begin) == 1:
        rows, columns = strides
        for box in range(boxes):
            upper, lower = begin[0] + low[0, box] * rows, begin[0] + (high[0, box] + 1) * rows
            left, right = low[1, box] * columns, (high[1, box] + 1) * columns
            total[box] = summed[lower + right] - summed[lower + left]
            total[box] += summed[upper + left] - summed[upper + right]
        return
    for box in range(boxes):
        start = begin[box] if len(begin) > 1 else begin[0]
        found = total[box]
        for corner in range(1 << axes):
            place, lower = start, 0
            for axis in range(axes):
                if corner >> axis & 1:
                    place += (high[axis, box] + 1) * strides[axis]
                else:
                    place += low[axis, box] * strides[axis]
                    lower += 1
            if lower % 2:
                found -= summed[place]
            else:
                found += summed[place]
        total[box] = found


@kernel
def halves(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Halve every box in each attribute of which it has more than one code. Returns the bounds of
    the pieces, those of the first attribute slowest, and the box of each piece.
    """
    axes, boxes = low.shape
    count = 0
    for box in range(boxes):
        pieces = 1
        for axis in range(axes):
            if high[axis, box] > low[axis, box]:
                pieces *= 2
        count += pieces
    new_low, new_high = np.empty((axes, count), low.dtype), np.empty((axes, count), low.dtype)
    origin = np.empty(count, np.int64)
    begin = 0
    for box in range(boxes):
        origin[begin] = box
        for axis in range(axes):
            new_low[axis, begin], new_high[axis, begin] = low[axis, box], high[axis, box]
        # The last attribute first: all its pieces are copied for the halves of those before it.
        pieces = 1
        for axis in range(axes - 1, -1, -1):
            first, last = low[axis, box], high[axis, box]
            if last == first:
                continue
            middle = (first + last) // 2
            for piece in range(begin, begin + pieces):
                origin[piece + pieces] = box
                for other in range(axes):
                    new_low[other, piece + pieces] = new_low[other, piece]
                    new_high[other, piece + pieces] = new_high[other, piece]
                new_high[axis, piece] = middle
                new_low[axis, piece + pieces] = middle + 1
            pieces *= 2
        begin += pieces
    return new_low, new_high, origin


@kernel
def slice_sums(
    low: Array, high: Array, counts: Array, strides: Array, axis: int, starts: Array, sums: Array
) -> None:
    """Write to `sums` (zeros at first) the sum of the cells of each box with each of its codes of
    attribute `axis`: those of box i from starts[i] on, beginning with its lowest code.
    """
    axes, boxes = low.shape
    last = axes - 1
    code = np.empty(axes, np.int64)
    for box in range(boxes):
        for each in range(axes):
            code[each] = low[each, box]
        while True:
            place = 0
            for each in range(last):
                place += code[each] * strides[each]
            at = starts[box] + code[axis] - low[axis, box]
            for inner in range(low[last, box], high[last, box] + 1):
                if axis == last:
                    sums[at + inner - low[last, box]] += counts[place + inner * strides[last]]
                else:
                    sums[at] += counts[place + inner * strides[last]]
            each = last - 1
            while each >= 0 and code[each] == high[each, box]:
                code[each] = low[each, box]
                each -= 1
            if each < 0:
                break
            code[each] += 1


@kernel
def imbalances(sums: Array, starts: Array, scores: Array) -> None:
    """Write, for each box and each of its codes but the last, the absolute difference between the
    rows up to this code and after it. The scores of box i begin at starts[i]; `sums` has the rows
    of every code, of one box after the other.
    """
    place = 0
    for box in range(len(starts)):
        begin = starts[box]
        end = starts[box + 1] if box + 1 < len(starts) else len(scores)
        codes = end - begin + 1
        total = 0
        for code in range(codes):
            total += sums[place + code]
        below = 0
        for code in range(codes - 1):
            below += sums[place + code]
            scores[begin + code] = abs(2 * below - total)
        place += codes


# --- intervals of counts -------------------------------------------------------------------------


@kernel
def _add(counts: Array, sums: Array, rank: int, many: int, amount: int) -> None:
    """Add to two Fenwick trees, of counts and of sums, at one rank."""
    place = rank + 1
    while place < len(counts):
        counts[place] += many
        sums[place] += amount
        place += place & -place


@kernel
def deviations(ranks: Array, values: Array, length: int, out: Array) -> None:
    """Write to `out`, for every interval of the given length, the sum of absolute deviations from
    its median. Number i is values[ranks[i]]; `values` is ascending.
    """
    size = len(values)
    counts, sums = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    highest = 1
    while 2 * highest <= size:
        highest *= 2
    wanted = (length + 1) // 2
    total = 0
    for end in range(len(ranks)):
        value = values[ranks[end]]
        total += value
        _add(counts, sums, ranks[end], 1, value)
        begin = end - length + 1
        if begin > 0:
            gone = values[ranks[begin - 1]]
            total -= gone
            _add(counts, sums, ranks[begin - 1], -1, -gone)
        if begin >= 0:
            # Descend to the median: `below` numbers, with the sum `amount`, are less than it.
            place, below, amount, step = 0, 0, 0, highest
            while step:
                if place + step <= size and below + counts[place + step] < wanted:
                    place += step
                    below += counts[place]
                    amount += sums[place]
                step //= 2
            median = values[place]
            out[begin] = median * below - amount + (total - amount) - median * (length - below)


@kernel
def cheapest(costs: Array, starts: Array, lengths: Array, last: Array) -> None:
    """Write to `last` the length of the last interval of the cheapest partition of each prefix, the
    shortest of equally cheap ones. costs[starts[k] + i] is the cost of the interval that begins at
    i and has length lengths[k].
    """
    size = len(last) - 1
    best = np.zeros(size + 1, np.int64)
    for end in range(1, size + 1):
        for kind in range(len(lengths)):
            begin = end - lengths[kind]
            if begin < 0:
                break
            cost = best[begin] + costs[starts[kind] + begin]
            if kind == 0 or cost < best[end]:
                best[end] = cost
                last[end] = lengths[kind]
