"""Few disjoint boxes that make up a set of cells of a grid."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from scumble.private.database.space import Boxes

Truth = NDArray[np.bool_]

_ORDERS = 6  # of the axes; more are not worth the time


def decompose(cells: Truth) -> Boxes:
    """Disjoint boxes whose union is the set of true cells; one if the set is a box.

    Slices that are alike and next to each other stay together, axis after axis; what can be joined
    afterwards is joined. The order of axes that gives the fewest boxes is taken. Along one axis
    there are no fewer boxes than these; in several, finding the fewest is hard.
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
    """The maximal intervals of true values of a vector: (n, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], truth, [False]]).astype(np.int8)))
    found: Boxes = edges.reshape(-1, 2) - np.array([0, 1])
    return found


def _step(axes: int) -> int:
    """All orders of up to three axes, and as many, evenly chosen, of more."""
    count = 1
    for axis in range(2, axes + 1):
        count *= axis
    return max(1, count // _ORDERS)


def _slabs(cells: Truth) -> Boxes:
    """Boxes by runs of equal slices along the first axis, each slice cut in the same way."""
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
    """Join boxes that differ along one axis and touch there, until none do."""
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
