"""Hypothesis strategies for small spaces and boxes in them, and popularity by brute force."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

import scumble as sc
from scumble.private.database.space import Box, Boxes, Space


def space_of(sizes: Sequence[int]) -> Space:
    """Attributes a0, a1, ... with so many values."""
    domains = [sc.IntegerRange(0, size - 1) for size in sizes]
    schema = sc.Schema(
        [sc.Attribute(f"a{place}", "quasi", domain) for place, domain in enumerate(domains)]
    )
    return Space(schema, schema.names)


spaces = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(space_of)


@st.composite
def boxes(draw: st.DrawFn, space: Space) -> Boxes:
    """One box of a space, or two that are disjoint."""
    box = np.array([sorted(draw(st.tuples(*[st.integers(0, n - 1)] * 2))) for n in space.sizes])
    axis = draw(st.integers(-1, len(space) - 1))
    if axis < 0 or box[axis, 0] == box[axis, 1]:
        return box[None].astype(np.int64)
    cut = draw(st.integers(int(box[axis, 0]), int(box[axis, 1]) - 1))
    parts = np.stack([box, box]).astype(np.int64)
    parts[0, axis, 1], parts[1, axis, 0] = cut, cut + 1
    return parts


class Dense:
    """The popularity of every point."""

    def __init__(self, space: Space) -> None:
        self.counts = np.zeros(space.sizes, np.int64)

    def largest(self, some: Boxes) -> int:
        return max((int(self.counts[cells(box)].max()) for box in some), default=0)

    def add(self, some: Boxes, units: int) -> None:
        for box in some:
            self.counts[cells(box)] += units


def cells(box: Box) -> tuple[slice, ...]:
    """A box as an index."""
    return tuple(slice(int(low), int(high) + 1) for low, high in box)
