"""Means of weights over boxes: what a row of a box adds if the rows in it are spread evenly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scumble.designs.boxes import Boxes, summed_area
from scumble.estimators.weights import Part, Weights

Floats = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RegionMeans:
    """The mean weight of the cells of each box, and whether the weights in a box differ."""

    means: Floats
    uneven: Truths


class BoxMeans:
    """Boxes of some attributes, ready for questions. Many boxes have the same codes of an
    attribute, so that a part about it is looked up once for all of them.
    """

    def __init__(self, boxes: Boxes, names: Sequence[str]) -> None:
        self._boxes = boxes
        self._names = tuple(names)
        self._known: dict[tuple[str, ...], tuple[Boxes, Places]] = {}

    def means(self, weights: Weights) -> RegionMeans:
        """Parts are about different attributes, so that the mean of their product over a box is the
        product of their means; each comes from a summed-area table.
        """
        means = np.ones(len(self._boxes))
        uneven, used = np.zeros(len(self._boxes), bool), np.ones(len(self._boxes), bool)
        for part in weights.parts:
            inside, which = self._different(part.names)
            some = _counts(inside, part.values != 0) > 0
            # A table of fractions rounds; where a box has no weight at all it must not.
            sums = np.where(some, inside.sums(summed_area(part.values)), 0.0)
            means *= (sums / inside.cells)[which]
            uneven |= _changes(inside, part)[which]
            used &= some[which]
        return RegionMeans(means, uneven & used)

    def _different(self, names: tuple[str, ...]) -> tuple[Boxes, Places]:
        """The boxes of some attributes, each interval of a single one once; and which of them each
        box has.
        """
        if names not in self._known:
            axes = [self._names.index(name) for name in names]
            low, high = self._boxes.low[axes], self._boxes.high[axes]
            first = which = np.arange(len(self._boxes))
            if len(axes) == 1:
                packed = low[0] * (int(high.max()) + 1) + high[0]
                _, first, which = np.unique(packed, return_index=True, return_inverse=True)
            self._known[names] = (Boxes(low[:, first], high[:, first]), which)
        return self._known[names]


def _changes(boxes: Boxes, part: Part) -> Truths:
    """Whether the weights change from one code to the next anywhere in a box."""
    found = np.zeros(len(boxes), bool)
    for axis in range(part.values.ndim):
        steps = np.diff(part.values, axis=axis, prepend=np.nan) != 0
        inner = boxes.low.copy()
        inner[axis] += 1  # a step onto the first code of a box is not inside it
        found |= _counts(Boxes(inner, boxes.high), steps) > 0
    return found


def _counts(boxes: Boxes, truths: Truths) -> npt.NDArray[np.int64]:
    counts: npt.NDArray[np.int64] = boxes.sums(summed_area(truths.astype(np.int64)))
    return counts
