"""Boxes: products of intervals of codes, how they are cut, and sums of counts over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs import kernels

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Boxes:
    """Several boxes: box i holds the codes low[k, i] to high[k, i] of attribute k, both
    included.
    """

    low: Integers
    high: Integers

    @classmethod
    def whole(cls, shape: Sequence[int]) -> Boxes:
        """Return the one box that is the whole domain of this shape."""
        sizes = np.array(shape, np.int64).reshape(-1, 1)
        return cls(np.zeros_like(sizes), sizes - 1)

    @classmethod
    def joined(cls, several: Sequence[Boxes]) -> Boxes:
        """Return all boxes of `several` in order."""
        low = np.concatenate([boxes.low for boxes in several], axis=1)
        return cls(low, np.concatenate([boxes.high for boxes in several], axis=1))

    def __len__(self) -> int:
        return int(self.low.shape[1])

    @property
    def sizes(self) -> Integers:
        """The number of codes of each attribute (row) in each box (column)."""
        return self.high - self.low + 1

    @property
    def cells(self) -> Integers:
        """The number of cells of each box."""
        cells: Integers = self.sizes.prod(axis=0)
        return cells

    def take(self, which: npt.NDArray[Any]) -> Boxes:
        """Return the boxes with the indices `which`."""
        return Boxes(self.low.take(which, axis=1), self.high.take(which, axis=1))

    def cut(self, axis: int, last: Integers) -> tuple[Boxes, Integers]:
        """Cut each box i after the code `last[i]` of attribute `axis`; it stays whole if that is
        its highest code. Returns the pieces and the box of each piece. The pieces of a box are
        adjacent, the lower first.
        """
        cut = last < self.high[axis]
        origin = np.repeat(np.arange(len(self)), 1 + cut)
        pieces = self.take(origin)
        first = (np.cumsum(1 + cut) - 2)[cut]
        pieces.high[axis, first] = last[cut]
        pieces.low[axis, first + 1] = last[cut] + 1
        return pieces, origin

    def halves(self) -> tuple[Boxes, Integers]:
        """Halve each box in every attribute of which it has more than one code. Returns the pieces
        and the box of each piece.
        """
        low, high, origin = kernels.halves(self.low, self.high)
        return Boxes(low, high), origin

    def even(self, axis: int, pieces: Integers) -> tuple[Boxes, Integers]:
        """Cut each box i along attribute `axis` into `pieces[i]` pieces of nearly equal sizes, at
        most one for each code. Returns the pieces and the box of each piece.
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
        """Return the sum of each box from the summed-area table `summed`: 2^d corners with
        alternating signs.

        If `summed` holds many tables, `before` has the indices of the table of each box, along the
        directions before those of the boxes.
        """
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
        """Return, for each box and each of its codes of attribute `axis`, the sum of the cells with
        this code; and the index at which the sums of each box begin.
        """
        self._refuse_outside(np.array(tensor.shape))
        lengths = self.high[axis] - self.low[axis] + 1
        starts = np.cumsum(lengths) - lengths
        sums = np.zeros(int(lengths.sum()), tensor.dtype)
        own = strides_of(tensor.shape)
        kernels.slice_sums(self.low, self.high, tensor.reshape(-1), own, axis, starts, sums)
        return sums, starts

    def _refuse_outside(self, shape: Integers) -> None:
        """Raise IndexError for a box outside of the domain: compiled loops check no indices."""
        if not len(self):
            return
        if self.low.min(initial=0) < 0 or (self.low.max(axis=1) > shape).any():
            raise IndexError("a box begins outside of the domain")
        if self.high.min(initial=0) < -1 or (self.high.max(axis=1) >= shape).any():
            raise IndexError("a box ends outside of the domain")


def strides_of(shape: Sequence[int]) -> Integers:
    """Return the strides, in elements, of a contiguous tensor of this shape."""
    found = [1]
    for size in shape[:0:-1]:
        found.insert(0, size * found[0])
    return np.array(found[: len(shape)], np.int64)


def summed_area(tensor: npt.NDArray[Any], before: int = 0) -> npt.NDArray[Any]:
    """Return the summed-area table: entry (i, j, …) is the sum of all entries of the tensor with
    indices below i, j, … There is one table for each index along the first `before` directions.
    """
    shape = [size + (axis >= before) for axis, size in enumerate(tensor.shape)]
    summed = np.zeros(shape, tensor.dtype)
    inside: tuple[Any, ...] = (..., *[slice(1, None)] * (tensor.ndim - before))
    inner = summed[inside]  # the ellipsis makes it a view, also of a single number
    inner[...] = tensor
    for axis in range(before, tensor.ndim):
        np.cumsum(inner, axis=axis, out=inner)
    return summed


@dataclass(frozen=True, eq=False)
class BoxSums:
    """The transform to the sums of groups of boxes. The boxes of a group are disjoint, so that a
    row is in at most one of them.
    """

    shape: tuple[int, ...]
    groups: tuple[Boxes, ...]

    def nonnegative_gram(self, laws: Sequence[object]) -> bool:
        return True

    def apply(self, counts: Integers) -> list[npt.NDArray[Any]]:
        sums = self.boxes.sums(summed_area(counts.reshape(self.shape)))
        return np.split(sums, np.cumsum([len(boxes) for boxes in self.groups])[:-1])

    @cached_property
    def boxes(self) -> Boxes:
        """The boxes of all groups in order."""
        return Boxes.joined(self.groups)

    def norms(self) -> list[tuple[int, int]]:
        return [(1, 1)] * len(self.groups)
