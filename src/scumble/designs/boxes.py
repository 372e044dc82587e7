"""Boxes of codes: closed intervals of each of some attributes, cut in pieces and summed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Boxes:
    """Box i holds the codes low[k, i] to high[k, i] of attribute k, both included."""

    low: Integers
    high: Integers

    @classmethod
    def whole(cls, shape: Sequence[int]) -> Boxes:
        """The one box that is all of a domain."""
        sizes = np.array(shape, np.int64).reshape(-1, 1)
        return cls(np.zeros_like(sizes), sizes - 1)

    @classmethod
    def joined(cls, several: Sequence[Boxes]) -> Boxes:
        """All boxes one after the other."""
        low = np.concatenate([boxes.low for boxes in several], axis=1)
        return cls(low, np.concatenate([boxes.high for boxes in several], axis=1))

    def __len__(self) -> int:
        return int(self.low.shape[1])

    @property
    def sizes(self) -> Integers:
        """How many codes a box has of each attribute."""
        return self.high - self.low + 1

    @property
    def cells(self) -> Integers:
        """How many cells are in each box."""
        cells: Integers = self.sizes.prod(axis=0)
        return cells

    def take(self, which: npt.NDArray[Any]) -> Boxes:
        """Some of the boxes."""
        return Boxes(self.low.take(which, axis=1), self.high.take(which, axis=1))

    def cut(self, axis: int, last: Integers) -> tuple[Boxes, Integers]:
        """Every box in two after the code `last` of one attribute, or whole if that is its highest;
        and the box that each piece comes from. Pieces of a box stand together, the lower first.
        """
        cut = last < self.high[axis]
        origin = np.repeat(np.arange(len(self)), 1 + cut)
        pieces = self.take(origin)
        first = (np.cumsum(1 + cut) - 2)[cut]
        pieces.high[axis, first] = last[cut]
        pieces.low[axis, first + 1] = last[cut] + 1
        return pieces, origin

    def halves(self) -> tuple[Boxes, Integers]:
        """Every box halved in each attribute of which it has more than one code; and the box that
        each piece comes from.
        """
        pieces, origin = self, np.arange(len(self))
        for axis in range(len(self.low)):
            middle = (pieces.low[axis] + pieces.high[axis]) // 2
            pieces, of = pieces.cut(axis, middle)
            origin = origin[of]
        return pieces, origin

    def even(self, axis: int, pieces: Integers) -> tuple[Boxes, Integers]:
        """Every box in so many pieces of one attribute, of nearly equal sizes; and the box that
        each piece comes from. No box is cut into more pieces than it has codes.
        """
        sizes = self.sizes[axis]
        count = np.minimum(pieces, sizes)
        origin = np.repeat(np.arange(len(self)), count)
        place = np.arange(len(origin)) - np.repeat(np.cumsum(count) - count, count)
        found = self.take(origin)
        start = self.low[axis][origin]
        found.low[axis] = start + place * sizes[origin] // count[origin]
        found.high[axis] = start + (place + 1) * sizes[origin] // count[origin] - 1
        return found, origin

    def sums(
        self, summed: npt.NDArray[Any], before: tuple[npt.NDArray[Any], ...] = ()
    ) -> npt.NDArray[Any]:
        """The sum of each box out of a summed-area table: 2^d corners with alternating signs.

        `before` has for each box the table that it is summed in, if there are many: their places
        along the directions before those of the boxes.
        """
        total = np.zeros(len(self), summed.dtype)
        for corner in product((False, True), repeat=len(self.low)):
            place = tuple(
                high + 1 if upper else low
                for upper, low, high in zip(corner, self.low, self.high, strict=True)
            )
            if (len(corner) - sum(corner)) % 2:
                total -= summed[before + place]
            else:
                total += summed[before + place]
        return total


def summed_area(tensor: npt.NDArray[Any], before: int = 0) -> npt.NDArray[Any]:
    """Entry (i, j, …) is the sum of all entries of the tensor before i, before j, …; a table for
    each place along so many directions `before` those.
    """
    shape = [size + (axis >= before) for axis, size in enumerate(tensor.shape)]
    summed = np.zeros(shape, tensor.dtype)
    inside: tuple[Any, ...] = (..., *[slice(1, None)] * (tensor.ndim - before))
    inner = summed[inside]  # by the dots a view, also of a single number
    inner[...] = tensor
    for axis in range(before, tensor.ndim):
        np.cumsum(inner, axis=axis, out=inner)
    return summed


@dataclass(frozen=True, eq=False)
class BoxSums:
    """The sums of groups of boxes; the boxes of a group are disjoint, so that a row is in at most
    one of them.
    """

    shape: tuple[int, ...]
    groups: tuple[Boxes, ...]
    signed = False

    def apply(self, counts: Integers) -> list[npt.NDArray[Any]]:
        summed = summed_area(counts.reshape(self.shape))
        return [boxes.sums(summed) for boxes in self.groups]

    def norms(self) -> list[tuple[int, int]]:
        return [(1, 1)] * len(self.groups)
