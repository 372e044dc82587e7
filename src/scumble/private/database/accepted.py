"""The accepted boxes and the units each was charged, in arrays that grow."""

from __future__ import annotations

import numpy as np

from scumble.private.database.space import Box, Boxes, Counts, Space


class Accepted:
    """Boxes in the order in which they were accepted, one array for every face of them."""

    def __init__(self, axes: int) -> None:
        # Longer than what is in use, which is the first `len`: kernels want whole arrays.
        self.faces: Counts = np.empty((axes, 2, 64), np.int64)  # [axis, side, box]
        self.units: Counts = np.empty(64, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, box: Box, units: int) -> None:
        """One more box."""
        if self._count == len(self.units):
            self.faces = np.concatenate([self.faces, np.empty_like(self.faces)], axis=2)
            self.units = np.concatenate([self.units, np.empty_like(self.units)])
        self.faces[:, :, self._count], self.units[self._count] = box, units
        self._count += 1

    @property
    def boxes(self) -> Boxes:
        """All of them."""
        return np.moveaxis(self.faces, 2, 0)[: self._count]


def highest(boxes: Boxes, counts: Counts, one: int, other: int, space: Space) -> Counts:
    """The largest count of the boxes over every pair of values of two attributes."""
    found = space.matrix(one, other)
    order = np.argsort(counts, kind="stable")  # the last one written is the largest
    for (rows, columns), count in zip(boxes[order][:, [one, other]], counts[order], strict=True):
        found[rows[0] : rows[1] + 1, columns[0] : columns[1] + 1] = count
    return found
