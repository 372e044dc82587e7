"""Compiled loops over boxes. Import this module only where one runs: compiling is slow.

Tensors come in as one row of numbers and the distance between neighbours along each direction.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def corner_sums(
    low: Array, high: Array, summed: Array, strides: Array, begin: Array, total: Array
) -> None:
    """The sum of each box out of a summed-area table, which begins at begin[i] for box i (or at
    begin[0] for all): 2^d corners with alternating signs.
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


@_compiled
def halves(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Every box halved in each attribute of which it has more than one code, pieces of the first
    attribute slowest; and the box of each piece.
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
        # The last attribute first: what it makes is copied whole for the halves of those before.
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


@_compiled
def slice_sums(
    low: Array, high: Array, counts: Array, strides: Array, axis: int, starts: Array, sums: Array
) -> None:
    """The sums of all cells of a box with one code of an attribute: those of box i from starts[i]
    on, a number for each code from its lowest. `sums` comes in as zeros.
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
