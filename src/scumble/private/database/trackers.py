"""Exact, histogram and disjoint trackers of popularity.

What a tracker of popularity can do, and the choice among the three.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal, Protocol, get_args

import numpy as np

from scumble.model.errors import ParameterError, PromiseError
from scumble.private.database.space import Box, Boxes, Counts, Space

Kind = Literal["auto", "exact", "histogram", "disjoint"]

EXACT_POINTS = 2 * 10**8
MOST_BUCKETS = 10**7


class Tracker(Protocol):
    """The popularity of points: the units of the accepted boxes that cover each.

    It may over-estimate, and never under-estimates. It sees boxes and units, and no data: what it
    decides, and how long that takes, depends on the questions only. One thread at a time.
    """

    limit: int

    def has_room(self, boxes: Boxes, units: int = 1) -> bool:
        """Whether every popularity would stay at or under the limit; the boxes are disjoint."""

    def add(self, boxes: Boxes, units: int = 1) -> None:
        """Accept boxes, for which there is room."""

    def largest(self) -> int:
        """The largest popularity, or more."""

    def popularity(self, one: int, other: int) -> Counts:
        """The largest popularity over all other attributes, by the codes of two of them."""


def make_tracker(kind: Kind, space: Space, limit: int, buckets: int = 100_000) -> Tracker:
    """The tracker of this kind; `auto` is `exact` where the space is small enough for it."""
    owner = "Database"
    if kind not in get_args(Kind):
        raise ParameterError.of(owner, "tracker", f"one of {', '.join(get_args(Kind))}", kind)
    if (
        isinstance(buckets, bool)
        or not isinstance(buckets, int)
        or not 1 <= buckets <= MOST_BUCKETS
    ):
        allowed = f"a whole number from 1 to {MOST_BUCKETS}"
        raise ParameterError.of(owner, "buckets", allowed, buckets)
    if not 0 <= limit < 1 << 62:
        raise ParameterError.of(owner, "limit", "a whole number from 0 to 2^62", limit)
    if kind == "auto":
        kind = "exact" if space.points <= EXACT_POINTS else "histogram"
    if kind == "exact":
        if space.points > EXACT_POINTS:
            raise ParameterError(
                f"The 'exact' tracker counts each of {space.points} points, of at most "
                f"{EXACT_POINTS}. Use 'histogram', fewer attributes or coarser bins."
            )
        return ExactTracker(space, limit)
    return (
        HistogramTracker(space, limit, buckets)
        if kind == "histogram"
        else DisjointTracker(space, limit)
    )


# The exact tracker: one counter for every point of the space.


class ExactTracker:
    """The popularity of every point: no decision can be better that allows each point the limit.

    Counters stand in a tree, one level for each attribute, the one with most values last: a box
    that does not restrict the last attributes is noted above them, and a maximum known for a node
    spares the question what lies below it.
    """

    def __init__(self, space: Space, limit: int) -> None:
        self.space, self.limit = space, limit
        self._order = np.argsort(space.sizes, kind="stable")
        self._sizes = np.array(space.sizes, np.int64)[self._order]
        levels = [
            prod(space.sizes[axis] for axis in self._order[:k]) for k in range(len(space) + 1)
        ]
        self._starts = np.concatenate([[0], np.cumsum(levels[:-1])]).astype(np.int64)
        kinds = (np.uint16, np.uint32, np.int64)
        kind = next(kind for kind in kinds if limit <= np.iinfo(kind).max)
        self._top = np.zeros(sum(levels), kind)
        self._own = np.zeros(sum(levels[:-1]), kind)

    def has_room(self, boxes: Boxes, units: int = 1) -> bool:
        return all(self._fits(box, units) for box in boxes)

    def add(self, boxes: Boxes, units: int = 1) -> None:
        from scumble.private.database.tracker_kernels import exact_cover

        for box in boxes:
            if not self._fits(box, units):  # a counter must not overflow, whoever calls
                raise PromiseError("There is no room for these boxes.")
            amount = self._top.dtype.type(units)
            exact_cover(self._top, self._own, self._starts, self._sizes, self._order, box, amount)

    def largest(self) -> int:
        return int(self._top[0])

    def popularity(self, one: int, other: int) -> Counts:
        found = self.space.matrix(one, other)
        kept = [level for level, axis in enumerate(self._order) if axis in (one, other)]
        turned = self._order[kept[0]] != one
        # One slice of the first attribute at a time, so that no second copy of the space is made.
        for code in range(self._sizes[0]):
            part = self._below(code, kept)
            target = found.T if turned else found
            if kept[0] == 0:
                target[code] = part
            else:
                np.maximum(target, part, out=target)
        return found

    def _below(self, code: int, kept: list[int]) -> Any:
        """The largest popularity where the first attribute has this code, over those kept."""
        part: Any = None
        for level in range(len(self._sizes), 0, -1):
            shape = (*self._sizes[1:level],)
            values = self._top if level == len(self._sizes) else self._own
            size = prod(map(int, shape))
            begin = int(self._starts[level]) + code * size
            noted = values[begin : begin + size].astype(np.int64).reshape(shape)
            if part is None:
                part = noted
            else:
                part = part + noted.reshape(shape + (1,) * (part.ndim - noted.ndim))
            if level > 1 and level - 1 not in kept:
                part = part.max(axis=level - 2)
        return part + int(self._own[0])

    def _fits(self, box: Box, units: int) -> bool:
        from scumble.private.database.tracker_kernels import exact_fits

        most = self.limit - units
        return bool(
            exact_fits(self._top, self._own, self._starts, self._sizes, self._order, box, most)
        )


# The histogram tracker: a limited number of disjoint buckets, each with one counter.


class HistogramTracker:
    """Buckets that are split where it matters, as in section 3.2 of the paper.

    The counter of a bucket is the units of all accepted boxes that meet it: never less than the
    popularity of any of its points. A bucket that has no room for one more box like the one just
    added is split, and so is what comes of it, while there are fewer than `buckets`; only where
    every box covers all of a bucket, and its counter is exact, does a split not help. So as long
    as there are buckets left, the decisions are those of the exact tracker. A box that asks for
    more units than those before it may first split the buckets that stand in its way.

    Differs from the paper: it splits a bucket once, although a part may still be full; and it may
    end with a few buckets more than allowed, because it cuts along all faces at once.
    """

    def __init__(self, space: Space, limit: int, buckets: int) -> None:
        from scumble.private.database.tracker_kernels import empty_index

        self.space, self.limit = space, limit
        self._accepted = Accepted(len(space.names))
        self._index = empty_index(space.whole, buckets, limit)
        self._due = np.empty(buckets + 1, np.int64)

    def has_room(self, boxes: Boxes, units: int = 1) -> bool:
        return all(self._fits(box, units) for box in boxes)

    def add(self, boxes: Boxes, units: int = 1) -> None:
        for box in boxes:
            self._accepted.append(box, units)
            self._cover(box, units, self.limit - units, helpful=False)

    def largest(self) -> int:
        # Disjoint boxes of one question may meet one bucket, and take its counter over the limit,
        # which is then still a bound for every point: each lies in one of the boxes only.
        blocks, _ = self._index.sizes
        return min(int(self._index.top[:blocks].max()), self.limit)

    def popularity(self, one: int, other: int) -> Counts:
        boxes, counters = self.buckets()
        return highest(boxes, np.minimum(counters, self.limit), one, other, self.space)

    def buckets(self) -> tuple[Boxes, Counts]:
        """The boxes of all buckets and their counters."""
        index = self._index
        block, slot = np.divmod(index.where[: index.sizes[1]], index.names.shape[1])
        boxes = index.faces[block, :, :, slot].astype(np.int64)
        return boxes, index.counts[block, slot] + index.own[block]

    def _fits(self, box: Box, units: int) -> bool:
        from scumble.private.database.tracker_kernels import buckets_fit

        most = self.limit - units
        if buckets_fit(self._index, box, most):
            return True
        if units == 1 or most < 0:
            return False  # a bucket that has no room for one unit was split when it was filled
        self._cover(box, 0, most, helpful=True)
        return bool(buckets_fit(self._index, box, most))

    def _cover(self, box: Box, units: int, most: int, *, helpful: bool) -> None:
        """Add units, then split what is above `most`; if `helpful`, as long as that may help."""
        from scumble.private.database.split_kernels import split
        from scumble.private.database.tracker_kernels import cover_buckets

        late = cover_buckets(self._index, box, units, most, self._due)
        if late and self._index.sizes[1] < len(self._index.where):
            known = self._accepted
            split(self._index, known.faces, known.units, len(known), self._due, late, most, helpful)


# The disjoint tracker: boxes that meet no box before them.


class DisjointTracker:
    """The oldest rule, kept to compare with: no point is ever counted twice."""

    def __init__(self, space: Space, limit: int) -> None:
        self.space, self.limit = space, limit
        self._accepted = Accepted(len(space))
        self._largest = 0

    def has_room(self, boxes: Boxes, units: int = 1) -> bool:
        return not len(boxes) or (units <= self.limit and not any(map(self._meets, boxes)))

    def add(self, boxes: Boxes, units: int = 1) -> None:
        for box in boxes:
            self._accepted.append(box, units)
            self._largest = max(self._largest, units)

    def largest(self) -> int:
        return self._largest

    def popularity(self, one: int, other: int) -> Counts:
        known = self._accepted
        return highest(known.boxes, known.units[: len(known)], one, other, self.space)

    def _meets(self, box: Box) -> bool:
        starts, stops = self._accepted.boxes[..., 0], self._accepted.boxes[..., 1]
        return bool(((starts <= box[:, 1]) & (stops >= box[:, 0])).all(axis=1).any())


# The accepted boxes and the units each was charged, in arrays that grow.


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
