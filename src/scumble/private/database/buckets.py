"""The histogram tracker: a limited number of disjoint buckets, each with one counter."""

from __future__ import annotations

import numpy as np

from scumble.private.database.accepted import Accepted, highest
from scumble.private.database.space import Box, Boxes, Counts, Space


class Histogram:
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
        from scumble.private.database.bucket_kernels import empty_index

        self.space, self.limit = space, limit
        self._accepted = Accepted(len(space.names))
        self._index = empty_index(space.whole, buckets, limit)
        self._due = np.empty(buckets + 1, np.int64)

    def room(self, boxes: Boxes, units: int = 1) -> bool:
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
        from scumble.private.database.bucket_kernels import fits

        most = self.limit - units
        if fits(self._index, box, most):
            return True
        if units == 1 or most < 0:
            return False  # a bucket that has no room for one unit was split when it was filled
        self._cover(box, 0, most, helpful=True)
        return bool(fits(self._index, box, most))

    def _cover(self, box: Box, units: int, most: int, *, helpful: bool) -> None:
        """Add units, then split what is above `most`; if `helpful`, as long as that may help."""
        from scumble.private.database.bucket_kernels import cover
        from scumble.private.database.split_kernels import split

        late = cover(self._index, box, units, most, self._due)
        if late and self._index.sizes[1] < len(self._index.where):
            known = self._accepted
            split(self._index, known.faces, known.units, len(known), self._due, late, most, helpful)
