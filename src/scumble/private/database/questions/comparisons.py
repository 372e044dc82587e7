"""Plain comparisons to disjoint boxes, without the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

import numpy as np

from scumble.model.query import Comparison
from scumble.model.schema.comparisons import Interval, satisfying_codes
from scumble.private.database.space import Boxes, Space


def plain_boxes(comparisons: Iterable[Comparison | None], space: Space, most: int) -> Boxes | None:
    """Return the disjoint boxes of a conjunction of comparisons; none if no point satisfies it.

    The result is None if a clause is no comparison (None), if only the engine knows what a literal
    means, or if there are more boxes than `most`.
    """
    axes: dict[int, list[Interval]] = {}
    for comparison in comparisons:
        if comparison is None or comparison.column not in space.names:
            return None
        axis = space.names.index(comparison.column)
        intervals = satisfying_codes(comparison, space.attributes[axis])
        if intervals is None:
            return None
        axes[axis] = _common(axes[axis], intervals) if axis in axes else intervals
    if prod(map(len, axes.values())) > most:
        return None
    boxes = []
    for chosen in product(*axes.values()):
        box: list[Sequence[int]] = space.whole.tolist()
        for axis, interval in zip(axes, chosen, strict=True):
            box[axis] = interval
        boxes.append(box)
    return np.array(boxes, np.int64).reshape(-1, len(space), 2)


def _common(ones: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """The intersection of two lists of intervals, all in order."""
    found: list[Interval] = []
    one = other = 0
    while one < len(ones) and other < len(others):
        (low, high), (start, stop) = ones[one], others[other]
        if max(low, start) <= min(high, stop):
            found.append((max(low, start), min(high, stop)))
        one, other = (one + 1, other) if high < stop else (one, other + 1)
    return found
