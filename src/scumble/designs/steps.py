"""Steps from one level of a tree to the next: the children of each node are next to each other.

A step acts on tensors whose first and last directions are not its business.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.int64, np.float64)


class Step(Protocol):
    """The children of every node of a level."""

    @property
    def below(self) -> tuple[int, ...]:
        """The shape of the level of the children."""

    @property
    def above(self) -> tuple[int, ...]:
        """The shape of the level of their parents."""

    def sum(self, tensor: NDArray[Number]) -> NDArray[Number]:
        """The sums over the children of each node."""

    def spread(self, tensor: NDArray[Number]) -> NDArray[Number]:
        """Every node's number for each of its children."""


@dataclass(frozen=True)
class Blocks:
    """A grid in blocks of equal sides; the last block along a side may be cut off."""

    below: tuple[int, ...]
    sides: tuple[int, ...]

    @property
    def above(self) -> tuple[int, ...]:
        return tuple(-(-n // side) for n, side in zip(self.below, self.sides, strict=True))

    def sum(self, tensor: NDArray[Number]) -> NDArray[Number]:
        for place, side in enumerate(self.sides, start=1):
            if side > 1:
                tensor = _sum_runs(tensor, place, side)
        return tensor

    def spread(self, tensor: NDArray[Number]) -> NDArray[Number]:
        for place, (length, side) in enumerate(zip(self.below, self.sides, strict=True), start=1):
            if side > 1:
                longer = np.repeat(tensor, side, axis=place)
                tensor = _first(longer, place, length)
        return tensor


@dataclass(frozen=True)
class Families:
    """Nodes in a row, of which each parent has a number of its own."""

    sizes: tuple[int, ...]

    @property
    def below(self) -> tuple[int, ...]:
        return (sum(self.sizes),)

    @property
    def above(self) -> tuple[int, ...]:
        return (len(self.sizes),)

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        return np.array([0, *accumulate(self.sizes[:-1])], np.intp)

    def sum(self, tensor: NDArray[Number]) -> NDArray[Number]:
        return np.add.reduceat(tensor, self._starts, axis=1)

    def spread(self, tensor: NDArray[Number]) -> NDArray[Number]:
        return np.repeat(tensor, self.sizes, axis=1)


def _first(tensor: NDArray[Number], place: int, length: int) -> NDArray[Number]:
    return tensor[(slice(None),) * place + (slice(length),)]


def _sum_runs(tensor: NDArray[Number], place: int, side: int) -> NDArray[Number]:
    """Sums of `side` neighbours along one direction, the last of what is left."""
    length = tensor.shape[place]
    whole = length // side
    before, after = tensor.shape[:place], tensor.shape[place + 1 :]
    head = _first(tensor, place, whole * side).reshape(*before, whole, side, *after)
    sums: NDArray[Number] = head.sum(axis=place + 1)
    if whole * side == length:
        return sums
    tail = tensor[(slice(None),) * place + (slice(whole * side, None),)]
    return np.concatenate([sums, tail.sum(axis=place, keepdims=True)], axis=place)
