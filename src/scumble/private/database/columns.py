"""The faces of boxes as columns, so that many boxes are compared at a time."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from scumble.private.database.space import Boxes

Floats = npt.NDArray[np.float64]


class Columns:
    """A copy of boxes whose number only grows, brought up to date when it is asked for.

    The faces are floating-point numbers, which are compared fastest; a code above 2^53 is rounded,
    so that whoever finds a box here has to look at the box itself before relying on it.
    """

    def __init__(self, axes: int) -> None:
        self._faces = np.empty((axes, 2, 64))
        self._count = 0

    def of(self, boxes: Boxes) -> Floats:
        """The faces of boxes, and room for more: [axis, side, box].

        The boxes begin with those of the last time.
        """
        count = len(boxes)
        if count > self._faces.shape[2]:
            longer = np.empty((*self._faces.shape[:2], 2 * count))
            longer[:, :, : self._count] = self._faces[:, :, : self._count]
            self._faces = longer
        if count > self._count:
            self._faces[:, :, self._count : count] = np.moveaxis(boxes[self._count :], 0, 2)
            self._count = count
        return self._faces


class Shelf:
    """The columns of arrays of answers, each kept as long as its array is.

    An array of answers is filled from its beginning and not changed there, and relaxation asks
    about it again and again: only what has been added since is copied.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Boxes], Columns]] = {}
        self._lock = threading.Lock()

    def columns(self, boxes: Boxes) -> Floats:
        """The faces of boxes, which are an array of answers, or the first of one, as columns that
        may be longer.
        """
        owner = _owner(boxes)
        with self._lock:
            known = self._kept.get(id(owner))
            if known is None or known[0]() is not owner:
                known = weakref.ref(owner, self._dropper(id(owner))), Columns(boxes.shape[1])
                self._kept[id(owner)] = known
            return known[1].of(boxes)

    def _dropper(self, place: int) -> Callable[[weakref.ref[Boxes]], None]:
        def drop(reference: weakref.ref[Boxes]) -> None:
            # Another array may stand at the same address by now.
            if place in self._kept and self._kept[place][0] is reference:
                del self._kept[place]

        return drop


def _owner(boxes: Boxes) -> Boxes:
    """The array that a view shows the beginning of; any other view stands for itself."""
    base = boxes.base
    if (
        isinstance(base, np.ndarray)
        and base.shape[1:] == boxes.shape[1:]
        and base.strides == boxes.strides
        and base.__array_interface__["data"] == boxes.__array_interface__["data"]
    ):
        return base
    return boxes
