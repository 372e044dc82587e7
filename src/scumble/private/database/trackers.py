"""What a tracker of popularity can do, and the choice among the three."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

from scumble.model.errors import ParameterError
from scumble.private.database.apart import Disjoint
from scumble.private.database.buckets import Histogram
from scumble.private.database.exact import Exact
from scumble.private.database.space import Boxes, Counts, Space

Kind = Literal["auto", "exact", "histogram", "disjoint"]

EXACT_POINTS = 2 * 10**8
MOST_BUCKETS = 10**7


class Tracker(Protocol):
    """The popularity of points: the units of the accepted boxes that cover each.

    It may over-estimate, and never under-estimates. It sees boxes and units, and no data: what it
    decides, and how long that takes, depends on the questions only. One thread at a time.
    """

    limit: int

    def room(self, boxes: Boxes, units: int = 1) -> bool:
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
        return Exact(space, limit)
    return Histogram(space, limit, buckets) if kind == "histogram" else Disjoint(space, limit)
