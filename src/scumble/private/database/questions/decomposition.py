"""Disjoint boxes of a set of cells."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from scumble.private.database.space import Boxes

Truth = NDArray[np.bool_]

_ORDERS = 6  # of the axes that are tried


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
