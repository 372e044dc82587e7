"""Trackers of popularity: how many accepted boxes cover each point; exact, histogram, disjoint."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from copy import copy, deepcopy
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError, PromiseError
from scumble.private.database import tracker_kernels
from scumble.private.database.space import Box, Boxes, Counts, Space

Means = NDArray[np.float64]
Kind = Literal["auto", "exact", "histogram", "disjoint"]

EXACT_POINTS = 2 * 10**8
MOST_BUCKETS = 10**7


class Tracker(Protocol):
    """Bounds the popularity of points: the sum of the units of the accepted boxes that cover each.

    It may over-estimate, and never under-estimates. It sees boxes and units, and no data: its
    decisions, and the time they take, depend on the questions only. One thread at a time adds
    boxes; others may ask meanwhile whether there is room, and are told so with or without them.
    """

    limit: int

    def has_room(self, boxes: Boxes, units: int = 1) -> bool:
        """Whether all popularities would stay within the limit. The boxes are disjoint."""

    def add(self, boxes: Boxes, units: int = 1) -> None:
        """Accept boxes for which `has_room` is true."""

    def largest(self) -> int:
        """Return an upper bound of the largest popularity."""

    def popularity(self, one: int, other: int) -> Counts:
        """Return, by the codes of two attributes, the largest popularity over all others."""

    def mean_popularity(self, axis: int) -> Means:
        """Return, by the codes of an attribute, the mean popularity over all others; it may be
        over-estimated, too.
        """


def make_tracker(kind: Kind, space: Space, limit: int, buckets: int = 100_000) -> Tracker:
    """Return a tracker. `auto` is `exact` where the space is small enough, else `histogram`."""
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


class ExactTracker:
    """One counter for every point. No tracker with the same limit can accept more."""

    def __init__(self, space: Space, limit: int) -> None:
        self.space, self.limit = space, limit
        kinds = (np.uint16, np.uint32, np.int64)
        kind = next(kind for kind in kinds if limit <= np.iinfo(kind).max)
        # The attribute with most values is last in memory: long lines are read fastest.
        order = np.argsort(space.sizes, kind="stable")
        counts = np.zeros([space.sizes[axis] for axis in order], kind)
        self._counts: Any = counts.transpose(np.argsort(order))
        self._largest = 0

    def has_room(self, boxes: Boxes, units: int = 1) -> bool:
        return all(self._fits(box, units) for box in boxes)

    def add(self, boxes: Boxes, units: int = 1) -> None:
        for box in boxes:
            if not self._fits(box, units):  # a counter must not overflow
                raise PromiseError("There is no room for these boxes.")
            points = self._points(box)
            points += self._counts.dtype.type(units)
            self._largest = max(self._largest, int(points.max()))

    def room(self, boxes: Boxes) -> int:
        """Return how many units may be added to each of these disjoint boxes."""
        return self.limit - max((int(self._points(box).max()) for box in boxes), default=0)

    def largest(self) -> int:
        return self._largest

    def popularity(self, one: int, other: int) -> Counts:
        found = self.space.matrix(one, other)
        rest = tuple(axis for axis in range(len(self.space)) if axis not in (one, other))
        highest = self._counts.max(axis=rest)
        found[:] = highest if one < other else highest.T
        return found

    def mean_popularity(self, axis: int) -> Means:
        rest = tuple(other for other in range(len(self.space)) if other != axis)
        found: Means = self._counts.mean(axis=rest, dtype=float)
        return found

    def _fits(self, box: Box, units: int) -> bool:
        """Whether no point of the box is more popular than the limit without the units."""
        most = self.limit - units
        return self._largest <= most or int(self._points(box).max()) <= most

    def _points(self, box: Box) -> Any:
        """Return the counters of a box, as a view."""
        return self._counts[tuple(slice(low, high + 1) for low, high in box.tolist())]


class HistogramTracker:
    """Disjoint buckets with one counter each, split as in section 3.2 of the paper.

    The counter of a bucket is the sum of the units of all accepted boxes that meet it. It is never
    less than the popularity of any of its points. A bucket without room for one more box like the
    one just added is split, and so are the parts, while there are fewer than `buckets`. A split
    does not help where every box covers all of a bucket: its counter is then exact. So as long as
    there are buckets left, the decisions are those of the exact tracker. A box with more units than
    those before it may first split the buckets that it does not fit into.

    Differs from the paper: it splits a bucket once, although a part may still be full; and it may
    end with a few buckets more than allowed, because it cuts along all faces at once.
    """

    def __init__(self, space: Space, limit: int, buckets: int) -> None:
        self.space, self.limit = space, limit
        self._accepted = Accepted(len(space.names))
        self._index = tracker_kernels.empty_index(space.whole, buckets, limit)
        self._due = np.empty(buckets + 1, np.int64)
        self._lock = threading.Lock()  # also whoever asks for room may split buckets

    def __deepcopy__(self, memo: dict[int, Any]) -> HistogramTracker:
        made = copy(self)
        with self._lock:
            made._accepted, made._index = deepcopy((self._accepted, self._index), memo)
        made._due, made._lock = np.empty_like(self._due), threading.Lock()
        return made

    def has_room(self, boxes: Boxes, units: int = 1) -> bool:
        with self._lock:
            return all(self._fits(box, units) for box in boxes)

    def add(self, boxes: Boxes, units: int = 1) -> None:
        with self._lock:
            for box in boxes:
                self._accepted.append(box, units)
                self._cover(box, units, self.limit - units, helpful=False)

    def room(self, boxes: Boxes) -> int:
        """Return how many units may be added to each of these disjoint boxes."""
        return bisect_left(
            range(self.limit), True, key=lambda most: not self.has_room(boxes, most + 1)
        )

    def largest(self) -> int:
        # Disjoint boxes of one question may meet one bucket, and take its counter over the limit,
        # which is then still a bound for every point: each lies in one of the boxes only.
        with self._lock:
            blocks, _ = self._index.sizes
            return min(int(self._index.top[:blocks].max()), self.limit)

    def popularity(self, one: int, other: int) -> Counts:
        boxes, counters = self.buckets()
        return highest(boxes, np.minimum(counters, self.limit), one, other, self.space)

    def mean_popularity(self, axis: int) -> Means:
        boxes, counters = self.buckets()
        return _means(boxes, np.minimum(counters, self.limit), axis, self.space)

    def buckets(self) -> tuple[Boxes, Counts]:
        """Return the boxes of all buckets, and their counters."""
        with self._lock:
            index = self._index
            block, slot = np.divmod(index.where[: index.sizes[1]], index.names.shape[1])
            boxes = index.faces[block, :, :, slot].astype(np.int64)
            return boxes, index.counts[block, slot] + index.own[block]

    def _fits(self, box: Box, units: int) -> bool:
        most = self.limit - units
        if self._is_below(box, most):
            return True
        if units == 1 or most < 0:
            return False  # a bucket without room for one unit was split when it was filled
        self._cover(box, 0, most, helpful=True)
        return self._is_below(box, most)

    def _is_below(self, box: Box, most: int) -> bool:
        """Whether no bucket that meets the box has a counter above `most`."""
        if self._is_whole():
            return bool(self._index.top[0] <= most)
        return bool(tracker_kernels.buckets_fit(self._index, box, most))

    def _cover(self, box: Box, units: int, most: int, *, helpful: bool) -> None:
        """Add units, then split buckets above `most`; if `helpful`, only while a split may help."""
        index, known = self._index, self._accepted
        if self._is_whole():
            index.counts[0, 0] += units
            index.top[0] += units
            self._due[0], late = 0, int(index.top[0] > most)
        else:
            late = tracker_kernels.cover_buckets(index, box, units, most, self._due)
        if late and index.sizes[1] < len(index.where):
            tracker_kernels.split(
                index, known.faces, known.units, len(known), self._due, late, most, helpful
            )

    def _is_whole(self) -> bool:
        """Whether no bucket was split yet: every box meets the one bucket, without a search."""
        return bool(self._index.sizes[1] == 1)


class DisjointTracker:
    """Accepts only boxes that are disjoint from all before. The oldest rule, for comparison."""

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

    def mean_popularity(self, axis: int) -> Means:
        known = self._accepted
        return _means(known.boxes, known.units[: len(known)], axis, self.space)

    def _meets(self, box: Box) -> bool:
        return bool(len(self._accepted.meeting(box)))


class Accepted:
    """The accepted boxes and their units, in order, in arrays that grow."""

    def __init__(self, axes: int) -> None:
        # Only the first `len(self)` columns are in use: kernels take whole arrays.
        self.faces: Counts = np.empty((axes, 2, 64), np.int64)  # [axis, side, box]
        self.units: Counts = np.empty(64, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, box: Box, units: int) -> None:
        """Add a box with its units."""
        if self._count == len(self.units):
            self.faces = np.concatenate([self.faces, np.empty_like(self.faces)], axis=2)
            self.units = np.concatenate([self.units, np.empty_like(self.units)])
        self.faces[:, :, self._count], self.units[self._count] = box, units
        self._count += 1

    @property
    def boxes(self) -> Boxes:
        """The accepted boxes, in order."""
        return np.moveaxis(self.faces, 2, 0)[: self._count]

    def forget(self, count: int) -> None:
        """Drop all boxes but the first ones."""
        self._count = count

    def meeting(self, box: Box, among: Sequence[int] | None = None) -> NDArray[np.intp]:
        """Return which boxes, of all or of some, meet a box."""
        faces = self.faces[:, :, : self._count]
        found = None if among is None else np.array(among, np.intp)
        for axis in np.argsort(box[:, 1] - box[:, 0]).tolist():  # a narrow side leaves few
            low, high = box[axis].tolist()
            starts, stops = faces[axis] if found is None else faces[axis][:, found]
            meet = np.flatnonzero((starts <= high) & (stops >= low))
            found = meet if found is None else found[meet]
        assert found is not None  # noqa: S101  (there is always an axis)
        return found


def highest(boxes: Boxes, counts: Counts, one: int, other: int, space: Space) -> Counts:
    """Return the largest count of the boxes over every pair of values of two attributes."""
    found = space.matrix(one, other)
    order = np.argsort(counts, kind="stable")  # the last one written is the largest
    for (rows, columns), count in zip(boxes[order][:, [one, other]], counts[order], strict=True):
        found[rows[0] : rows[1] + 1, columns[0] : columns[1] + 1] = count
    return found


def _means(boxes: Boxes, counts: Counts, axis: int, space: Space) -> Means:
    """Return the mean count of disjoint boxes over each value of an attribute."""
    sides = (boxes[..., 1] - boxes[..., 0] + 1).astype(float)
    points = counts * np.prod(np.delete(sides, axis, axis=1), axis=1)  # of each value of the box
    changes: Means = np.zeros(space.sizes[axis] + 1)
    np.add.at(changes, boxes[:, axis, 0], points)
    np.add.at(changes, boxes[:, axis, 1] + 1, -points)
    return np.cumsum(changes)[:-1] / (space.points / space.sizes[axis])
