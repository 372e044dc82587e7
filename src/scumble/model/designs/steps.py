"""Steps from one level of a tree to the next: the children of each node are next to each other.

A step acts along the middle direction of tensors of three.
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
    def above(self) -> int:
        """How many parents there are."""

    def sum(self, tensor: NDArray[Number]) -> NDArray[Number]:
        """The sums over the children of each node."""

    def spread(self, tensor: NDArray[Number]) -> NDArray[Number]:
        """Every node's number for each of its children."""


@dataclass(frozen=True)
class Runs:
    """Every node has the same number of children, but the last one, which may have fewer."""

    below: int
    children: int

    @property
    def above(self) -> int:
        return -(-self.below // self.children)

    def sum(self, tensor: NDArray[Number]) -> NDArray[Number]:
        before, length, after = tensor.shape
        whole = length // self.children
        head = tensor[:, : whole * self.children].reshape(before, whole, self.children, after)
        sums: NDArray[Number] = head.sum(axis=2)
        if whole == self.above:
            return sums
        tail = tensor[:, whole * self.children :].sum(axis=1, keepdims=True)
        return np.concatenate([sums, tail], axis=1)

    def spread(self, tensor: NDArray[Number]) -> NDArray[Number]:
        return np.repeat(tensor, self.children, axis=1)[:, : self.below]


@dataclass(frozen=True)
class Families:
    """Every parent has a number of children of its own."""

    sizes: tuple[int, ...]

    @property
    def above(self) -> int:
        return len(self.sizes)

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        return np.array([0, *accumulate(self.sizes[:-1])], np.intp)

    def sum(self, tensor: NDArray[Number]) -> NDArray[Number]:
        return np.add.reduceat(tensor, self._starts, axis=1)

    def spread(self, tensor: NDArray[Number]) -> NDArray[Number]:
        return np.repeat(tensor, self.sizes, axis=1)
