"""Disjoint boxes of a set of cells."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from math import prod

import numpy as np
from numpy.typing import NDArray

from scumble.private.database.space import Boxes

Truth = NDArray[np.bool_]
Integers = NDArray[np.int64]

_ORDERS = 6  # of the axes that are tried
_GRID = 200_000  # most cells of a grid on which boxes are joined anew


def decompose(cells: Truth) -> Boxes:
    """Return disjoint boxes whose union is the set of true cells; one box if the set is a box.

    Equal neighbouring slices stay together, axis after axis; boxes that touch are then joined. The
    order of axes with the fewest boxes is taken. For one axis the number of boxes is minimal; for
    several axes, finding the minimum is hard.
    """
    cells = np.asarray(cells, bool)
    best: Boxes | None = None
    for order in list(permutations(range(cells.ndim)))[:: _step(cells.ndim)]:
        found = _join(_slabs(cells.transpose(order)))
        boxes = np.empty_like(found)
        boxes[:, list(order)] = found
        if best is None or len(boxes) < len(best):
            best = boxes
        if len(best) <= 1:
            break
    assert best is not None  # noqa: S101  (there is always one order)
    return best[np.lexsort(best[:, ::-1, 0].T)] if len(best) else best


def rejoin(boxes: Boxes) -> Boxes:
    """Return disjoint boxes as `decompose` returns their union, however they were cut before.

    Boxes that take too large a grid stay as they are.
    """
    if len(boxes) < 2:
        return boxes
    cuts = [np.unique([axis[:, 0], axis[:, 1] + 1]) for axis in boxes.transpose(1, 0, 2)]
    shape = [len(cut) - 1 for cut in cuts]
    if prod(shape) > _GRID:
        return boxes
    cells = np.zeros(shape, bool)
    places = np.stack(
        [np.searchsorted(cut, boxes[:, axis] + [0, 1]) for axis, cut in enumerate(cuts)], axis=1
    )
    for box in places.tolist():
        cells[tuple(slice(low, after) for low, after in box)] = True
    for axis, cut in enumerate(cuts):  # only the cuts that the union has
        slices = np.moveaxis(cells, axis, 0)
        changes = (slices[1:] != slices[:-1]).any(axis=tuple(range(1, cells.ndim)))
        cuts[axis] = cut[np.concatenate([[True], changes, [True]])]
        cells = np.compress(np.concatenate([[True], changes]), cells, axis=axis)
    ends: Boxes = np.array([[(cut[0], cut[-1] - 1) for cut in cuts]], np.int64)
    if cells.size == 1:
        return ends
    cut_axes = [axis for axis, size in enumerate(cells.shape) if size > 1]
    some = decompose(cells.squeeze())
    found = np.repeat(ends, len(some), axis=0)
    for place, axis in enumerate(cut_axes):
        found[:, axis, 0] = cuts[axis][some[:, place, 0]]
        found[:, axis, 1] = cuts[axis][some[:, place, 1] + 1] - 1
    return found


def rejoin_over(boxes: Boxes, codes: Mapping[int, Integers]) -> Boxes:
    """Return disjoint boxes that have the same of some codes of axes, which alone matter.

    The boxes begin and end with such codes, and have the others in between: whether the boxes that
    are given have codes that do not matter changes nothing.
    """
    if not codes:
        return boxes
    places = boxes.copy()
    for axis, known in codes.items():
        places[:, axis, 0] = np.searchsorted(known, boxes[:, axis, 0])
        places[:, axis, 1] = np.searchsorted(known, boxes[:, axis, 1], side="right") - 1
    found = rejoin(places[(places[:, :, 0] <= places[:, :, 1]).all(axis=1)])
    for axis, known in codes.items():
        found[:, axis] = known[found[:, axis]]
    return found


def restrict(boxes: Boxes, axis: int, inside: Truth) -> Boxes:
    """Return the parts of boxes where the codes of an axis are `inside`."""
    parts = [boxes[:0]]
    for low, high in runs(inside).tolist():
        some = boxes[(boxes[:, axis, 0] <= high) & (low <= boxes[:, axis, 1])].copy()
        some[:, axis, 0] = np.maximum(some[:, axis, 0], low)
        some[:, axis, 1] = np.minimum(some[:, axis, 1], high)
        parts.append(some)
    return np.concatenate(parts)


def runs(truth: Truth) -> Boxes:
    """Return the maximal intervals of true values of a vector, as an array (n, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], truth, [False]]).astype(np.int8)))
    found: Boxes = edges.reshape(-1, 2) - np.array([0, 1])
    return found


def _step(axes: int) -> int:
    """The step through all orders of axes, so that about `_ORDERS` of them are tried."""
    count = 1
    for axis in range(2, axes + 1):
        count *= axis
    return max(1, count // _ORDERS)


def _slabs(cells: Truth) -> Boxes:
    """Boxes of the runs of equal slices along the first axis; each slice is cut recursively."""
    if cells.ndim == 1:
        return runs(cells)[:, None, :]
    changes = np.flatnonzero((cells[1:] != cells[:-1]).any(axis=tuple(range(1, cells.ndim)))) + 1
    parts = [np.empty((0, cells.ndim, 2), np.int64)]
    for first, after in zip([0, *changes], [*changes, len(cells)], strict=True):
        inner = _slabs(cells[first])
        slab = np.empty((len(inner), cells.ndim, 2), np.int64)
        slab[:, 0] = first, after - 1
        slab[:, 1:] = inner
        parts.append(slab)
    return np.concatenate(parts)


def _join(boxes: Boxes) -> Boxes:
    """Join boxes that differ along one axis only and touch there, until there are none."""
    before = len(boxes) + 1
    while 1 < len(boxes) < before:
        before = len(boxes)
        for axis in range(boxes.shape[1]):
            boxes = _join_along(boxes, axis)
    return boxes


def _join_along(boxes: Boxes, axis: int) -> Boxes:
    others = np.delete(boxes, axis, axis=1).reshape(len(boxes), 2 * (boxes.shape[1] - 1))
    order = np.lexsort((boxes[:, axis, 0], *others.T))
    boxes, others = boxes[order], others[order]
    alike = (others[1:] == others[:-1]).all(axis=1)
    follows = alike & (boxes[1:, axis, 0] == boxes[:-1, axis, 1] + 1)
    firsts = np.flatnonzero(np.concatenate([[True], ~follows]))
    joined = boxes[firsts]
    joined[:, axis, 1] = boxes[np.append(firsts[1:], len(boxes)) - 1, axis, 1]
    return joined
