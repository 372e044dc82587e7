"""Means of weights over boxes: what a row of a box adds if the rows in it are spread evenly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scumble.model.designs.boxes import Boxes, summed_area
from scumble.public.estimation.measurements.readings import Part, Tensor, Weights

Floats = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RegionMeans:
    """The mean weight of the cells of each box, whether the weights in a box change from one cell
    to the next, and whether some are not 0.
    """

    means: Floats
    uneven: Truths
    used: Truths

    @classmethod
    def ones(cls, boxes: int) -> RegionMeans:
        """Every cell has weight 1."""
        return cls(np.ones(boxes), np.zeros(boxes, bool), np.ones(boxes, bool))

    @property
    def cut(self) -> Truths:
        """Which boxes are used in part, or unevenly."""
        return self.uneven & self.used

    def times(self, other: RegionMeans) -> RegionMeans:
        """Of products of weights that are about different attributes: so are the means."""
        return RegionMeans(
            self.means * other.means, self.uneven | other.uneven, self.used & other.used
        )

    def at(self, places: Places) -> RegionMeans:
        """Those of some boxes."""
        return RegionMeans(self.means[places], self.uneven[places], self.used[places])


class BoxMeans:
    """Boxes of some attributes, ready for questions. Many boxes have the same codes of an
    attribute, so that a part about it is looked up once for all of them.
    """

    def __init__(self, boxes: Boxes, names: Sequence[str]) -> None:
        self.boxes = boxes
        self.names = tuple(names)
        self._known: dict[tuple[str, ...], tuple[Boxes, Places]] = {}

    def means(self, weights: Weights) -> RegionMeans:
        found = RegionMeans.ones(len(self.boxes))
        for part in weights.parts:
            found = found.times(self.part(part))
        return found

    def part(self, part: Part) -> RegionMeans:
        """Of the weights of one part."""
        inside, which = self._different(part.names)
        return tensor_means(part.values, inside).at(which)

    def _different(self, names: tuple[str, ...]) -> tuple[Boxes, Places]:
        """The boxes of some attributes, each interval of a single one once; and which of them each
        box has.
        """
        if names not in self._known:
            inside = self.along(names)
            first = which = np.arange(len(self.boxes))
            if len(names) == 1:
                packed = inside.low[0] * (int(inside.high.max()) + 1) + inside.high[0]
                _, first, which = np.unique(packed, return_index=True, return_inverse=True)
            self._known[names] = (inside.take(first), which)
        return self._known[names]

    def along(self, names: Sequence[str]) -> Boxes:
        """The boxes of some attributes."""
        axes = [self.names.index(name) for name in names]
        return Boxes(self.boxes.low[axes], self.boxes.high[axes])


def tensor_means(
    values: Tensor, boxes: Boxes, before: tuple[npt.NDArray[np.int64], ...] = ()
) -> RegionMeans:
    """Of the entries of a tensor in each box, or in one of many tensors, as `before` says; each
    comes from a summed-area table.
    """
    used = _counts(boxes, values != 0, before) > 0
    # A table of fractions rounds; where a box has no weight at all it must not.
    sums = np.where(used, boxes.sums(summed_area(values, len(before)), before), 0.0)
    return RegionMeans(sums / boxes.cells, _changes(boxes, values, before), used)


def _changes(boxes: Boxes, values: Tensor, before: tuple[npt.NDArray[np.int64], ...]) -> Truths:
    """Whether the weights change from one code to the next anywhere in a box."""
    found = np.zeros(len(boxes), bool)
    for axis in range(len(boxes.low)):
        steps = np.diff(values, axis=len(before) + axis, prepend=np.nan) != 0
        inner = boxes.low.copy()
        inner[axis] += 1  # a step onto the first code of a box is not inside it
        found |= _counts(Boxes(inner, boxes.high), steps, before) > 0
    return found


def _counts(
    boxes: Boxes, truths: Truths, before: tuple[npt.NDArray[np.int64], ...]
) -> npt.NDArray[np.int64]:
    summed = summed_area(truths.astype(np.int64), len(before))
    counts: npt.NDArray[np.int64] = boxes.sums(summed, before)
    return counts
