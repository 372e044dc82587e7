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


@dataclass(frozen=True, eq=False)
class RegionMeans:
    """The mean weight of the cells of each box, and whether the weights in a box differ."""

    means: Floats
    uneven: Truths


def region_means(boxes: Boxes, names: Sequence[str], weights: Weights) -> RegionMeans:
    """Parts are about different attributes, so that the mean of their product over a box is the
    product of their means; each comes from a summed-area table.
    """
    means = np.ones(len(boxes))
    uneven, used = np.zeros(len(boxes), bool), np.ones(len(boxes), bool)
    for part in weights.parts:
        axes = [names.index(name) for name in part.names]
        inside = Boxes(boxes.low[axes], boxes.high[axes])
        means *= inside.sums(summed_area(part.values)) / inside.cells
        uneven |= _changes(inside, part)
        used &= _counts(inside, part.values != 0) > 0
    # A table of fractions rounds; where a box has no weight at all it must not.
    return RegionMeans(np.where(used, means, 0.0), uneven & used)


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
