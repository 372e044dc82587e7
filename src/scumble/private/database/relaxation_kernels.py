"""Inner loops of relaxation: searches through all answers, and linear algebra of regression.

They are compiled where that pays. A distance is the sum over the axes of how far both ends have
moved times the axis's scale. It is always added up in the order of the axes, so that equal boxes
have equal distances to the last bit. `faces` are the boxes as columns of floating-point numbers,
which may be longer than the boxes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel
from scumble.private.database import numpy_forms

Array = Any
_RUN = 1024  # boxes that are compared at a time, so that intermediate results stay in the cache


@kernel(numpy_form=numpy_forms.distances)
def distances(boxes: Array, target: Array, scales: Array) -> Array:
    """Return the distance of every box from the target."""
    found = np.zeros(len(boxes))
    for box in range(len(boxes)):
        for axis in range(len(target)):
            found[box] += _moved(boxes[box], target, axis) * scales[axis]
    return found


@kernel(numpy_form=numpy_forms.nearest)
def nearest(boxes: Array, faces: Array, target: Array, scales: Array) -> tuple[int, float]:
    """Return the first box with the least distance from the target, and that distance."""
    place, least = 0, np.inf
    totals = np.empty(_RUN)
    for begin in range(0, len(boxes), _RUN):
        end = min(begin + _RUN, len(boxes))
        totals[:] = 0
        for axis in range(len(target)):
            starts, stops = faces[axis, 0, begin:end], faces[axis, 1, begin:end]
            low, high, scale = (
                np.float64(target[axis, 0]),
                np.float64(target[axis, 1]),
                scales[axis],
            )
            for box in range(len(starts)):
                totals[box] += (abs(starts[box] - low) + abs(stops[box] - high)) * scale
        for box in range(end - begin):
            if totals[box] < least:
                place, least = begin + box, totals[box]
    return place, distances(boxes[place : place + 1], target, scales)[0]


@kernel(uncompiled=True)
def best_patches(
    boxes: Array,
    faces: Array,
    region: Array,
    target: Array,
    scales: Array,
    used: Array,
    most: float,
) -> tuple[Any, Array, Array]:
    """Return the best past answer to add to the region or subtract from it, as `_known` does.

    Also the new boxes that would be better, as `_new` returns them. All bring the region nearer to
    the target than `most`.
    """
    near = _neighbours(boxes, faces, region)
    known = _known(boxes, near, region, target, scales, used, most)
    patches, reached = _new(region, target, scales, known[-1])
    return known, patches, reached


@kernel(numpy_form=numpy_forms.neighbours)
def _neighbours(boxes: Array, faces: Array, region: Array) -> Array:
    """Return the boxes that differ from the region on one axis only."""
    found, count = np.empty(64, np.int64), 0
    differences = np.empty(_RUN, np.int64)
    for begin in range(0, len(boxes), _RUN):
        end = min(begin + _RUN, len(boxes))
        differences[:] = 0
        for axis in range(len(region)):
            starts, stops = faces[axis, 0, begin:end], faces[axis, 1, begin:end]
            low, high = np.float64(region[axis, 0]), np.float64(region[axis, 1])
            for box in range(len(starts)):
                differences[box] += (starts[box] != low) | (stops[box] != high)
        for box in range(end - begin):
            if differences[box] == 1:
                if count == len(found):
                    found = np.concatenate((found, np.empty_like(found)))
                found[count] = begin + box
                count += 1
    return found[:count]


@kernel
def _known(
    boxes: Array, near: Array, region: Array, target: Array, scales: Array, used: Array, most: float
) -> tuple[int, int, int, int, int, float]:
    """Return the box in `near` that, added or subtracted, brings the region nearest to the target.

    The result is its number (-1 if none is nearer than `most`), its sign, the axis, the new ends
    there, and the distance.
    """
    place, sign, along, first, last, least = -1, 0, 0, 0, 0, most
    for box in near:
        axis = _only_difference(boxes[box], region)
        if axis < 0:
            continue
        joined, low, high = _joined(region[axis], boxes[box, axis])
        if joined:
            distance = _with(region, target, scales, axis, low, high)
            if distance < least and not np.any(used == box):
                place, sign, along, first, last, least = box, joined, axis, low, high, distance
    return place, sign, along, first, last, least


@kernel
def _new(region: Array, target: Array, scales: Array, most: float) -> tuple[Array, Array]:
    """Return the boxes that would move one face of the region to the target's, nearest first.

    Only those nearer than `most`: (sign, axis, ends of the box there, new ends), and the distances.
    """
    found = np.empty((2 * len(region), 6), np.int64)
    reached = np.empty(len(found))
    count = 0
    for axis in range(len(region)):
        low, high = region[axis]
        first, last = target[axis]
        if first <= high:
            distance = _with(region, target, scales, axis, first, high)
            if first < low and distance < most:
                found[count] = (1, axis, first, low - 1, first, high)
                reached[count] = distance
                count += 1
            elif first > low and distance < most:
                found[count] = (-1, axis, low, first - 1, first, high)
                reached[count] = distance
                count += 1
        if last >= low:
            distance = _with(region, target, scales, axis, low, last)
            if last > high and distance < most:
                found[count] = (1, axis, high + 1, last, low, last)
                reached[count] = distance
                count += 1
            elif last < high and distance < most:
                found[count] = (-1, axis, last + 1, high, low, last)
                reached[count] = distance
                count += 1
    order = np.argsort(reached[:count], kind="mergesort")
    return found[:count][order], reached[:count][order]


@kernel
def _moved(box: Array, target: Array, axis: int) -> Any:
    return abs(box[axis, 0] - target[axis, 0]) + abs(box[axis, 1] - target[axis, 1])


@kernel
def _with(region: Array, target: Array, scales: Array, axis: int, low: int, high: int) -> float:
    """The distance from the target of the region with the ends `low` and `high` on one axis."""
    total = 0.0
    for each in range(len(target)):
        if each == axis:
            moved = abs(low - target[each, 0]) + abs(high - target[each, 1])
        else:
            moved = _moved(region, target, each)
        total += moved * scales[each]
    return total


@kernel
def _only_difference(box: Array, region: Array) -> int:
    """Return the one axis on which two boxes differ; -1 if there is none, or more than one."""
    found = -1
    for axis in range(len(region)):
        if box[axis, 0] != region[axis, 0] or box[axis, 1] != region[axis, 1]:
            if found >= 0:
                return -1
            found = axis
    return found


@kernel
def _joined(ends: Array, others: Array) -> tuple[int, int, int]:
    """Return 1 if the union of two intervals is an interval, -1 if their difference is, else 0.

    Also the ends of that interval.
    """
    low, high, first, last = ends[0], ends[1], others[0], others[1]
    if first == high + 1:
        return 1, low, last
    if last == low - 1:
        return 1, first, high
    if first == low and last < high:
        return -1, last + 1, high
    if last == high and first > low:
        return -1, low, first - 1
    return 0, low, high


# --- linear algebra of regression -----------------------------------------------------------------
#
# Systems have a few hundred answers. A library would start threads for these, which takes longer
# than the work on a busy machine, and all other questions wait meanwhile.

# No sum is added up in the order of its terms: each term is taken from all sums at once, which SIMD
# and numpy do without changing a bit.


@kernel(numpy_form=numpy_forms.intersections)
def intersections(sides: Array) -> Array:
    """Return the volumes of the intersections of all pairs of boxes, given by half-open sides."""
    volumes = np.ones((len(sides), len(sides)))
    for axis in range(sides.shape[1]):
        starts, stops = sides[:, axis, 0].copy(), sides[:, axis, 1].copy()
        for one in range(len(sides)):
            start, stop = starts[one], stops[one]
            for other in range(len(sides)):
                overlap = min(stop, stops[other]) - max(start, starts[other])
                volumes[one, other] *= max(overlap, 0.0)
    return volumes


@kernel(uncompiled=True)
def refined(matrix: Array, wanted: Array, slight: float, rounds: int) -> tuple[Array, bool]:
    """Return the minimum-norm solution of a semidefinite system, and whether it was found.

    The matrix is regularised by `slight` for its factorization; the solution is refined in `rounds`
    rounds.
    """
    found = np.zeros(len(matrix))
    factor, definite = _factor(matrix, slight)
    if definite:
        for _ in range(rounds):
            found += _solved(factor, _residual(matrix, wanted, found))
    return found, definite


@kernel(numpy_form=numpy_forms.factor)
def _factor(matrix: Array, slight: float) -> tuple[Array, bool]:
    """Cholesky factor of a matrix whose diagonal is raised by `slight` times its largest entry."""
    size = len(matrix)
    factor, more = np.zeros((size, size)), 0.0
    for row in range(size):
        more = max(more, slight * matrix[row, row])
    for row in range(size):
        factor[row, : row + 1] = matrix[row, : row + 1]
        factor[row, row] += more
    below = np.empty(size)
    for column in range(size):
        if factor[column, column] <= 0:
            return factor, False
        factor[column, column] = np.sqrt(factor[column, column])
        for row in range(column + 1, size):
            factor[row, column] /= factor[column, column]
            below[row] = factor[row, column]
        for row in range(column + 1, size):
            _subtract(factor[row, column + 1 : row + 1], below[column + 1 : row + 1], below[row])
    return factor, True


@kernel(numpy_form=numpy_forms.residual)
def _residual(matrix: Array, wanted: Array, found: Array) -> Array:
    """Return what a solution leaves of the right-hand side of a symmetric system."""
    rest = wanted.copy()
    for column in range(len(found)):
        _subtract(rest, matrix[column], found[column])
    return rest


@kernel(numpy_form=numpy_forms.solved)
def _solved(factor: Array, wanted: Array) -> Array:
    """Solve a system by its Cholesky factor and the transpose."""
    size, found = len(wanted), wanted.copy()
    for row in range(size):
        found[row] /= factor[row, row]
        for other in range(row + 1, size):
            found[other] -= factor[other, row] * found[row]
    for row in range(size - 1, -1, -1):
        found[row] /= factor[row, row]
        _subtract(found[:row], factor[row, :row], found[row])
    return found


@kernel
def _subtract(sums: Array, terms: Array, times: float) -> None:
    """Subtract a multiple of one term from each sum."""
    for place in range(len(sums)):
        sums[place] -= terms[place] * times
