"""Boxes of codes: closed intervals of each of some attributes, cut in pieces and summed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
        from scumble.model.designs import kernels

        low, high, origin = kernels.halves(self.low, self.high)
        return Boxes(low, high), origin

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
        from scumble.model.designs import kernels

        self._refuse_outside(np.array(summed.shape[len(before) :]) - 1)
        total = np.zeros(len(self), summed.dtype)
        strides = strides_of(summed.shape)
        begin = sum(
            (codes * step for codes, step in zip(before, strides, strict=False)),
            np.zeros(1, np.int64),
        )
        own = strides[len(before) :]
        kernels.corner_sums(self.low, self.high, summed.reshape(-1), own, begin, total)
        return total

    def slices(self, tensor: npt.NDArray[Any], axis: int) -> tuple[npt.NDArray[Any], Integers]:
        """The sums of the cells of each box with one code of an attribute, for every code that it
        has; and where those of each box begin.
        """
        from scumble.model.designs import kernels

        self._refuse_outside(np.array(tensor.shape))
        lengths = self.sizes[axis]
        starts = np.cumsum(lengths) - lengths
        sums = np.zeros(int(lengths.sum()), tensor.dtype)
        own = strides_of(tensor.shape)
        kernels.slice_sums(self.low, self.high, tensor.reshape(-1), own, axis, starts, sums)
        return sums, starts

    def _refuse_outside(self, shape: Integers) -> None:
        """Compiled loops do not look whether a place exists."""
        if not len(self):
            return
        if (self.low.min(axis=1) < 0).any() or (self.low.max(axis=1) > shape).any():
            raise IndexError("a box begins outside of the domain")
        if (self.high.min(axis=1) < -1).any() or (self.high.max(axis=1) >= shape).any():
            raise IndexError("a box ends outside of the domain")


def strides_of(shape: Sequence[int]) -> Integers:
    """How far apart neighbours along each direction of a tensor stand in one row."""
    found: Integers = np.cumprod([1, *shape[:0:-1]], dtype=np.int64)[: len(shape)][::-1].copy()
    return found


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

    def nonnegative_gram(self, laws: Sequence[object]) -> bool:
        return True

    def apply(self, counts: Integers) -> list[npt.NDArray[Any]]:
        summed = summed_area(counts.reshape(self.shape))
        return [boxes.sums(summed) for boxes in self.groups]

    def norms(self) -> list[tuple[int, int]]:
        return [(1, 1)] * len(self.groups)
