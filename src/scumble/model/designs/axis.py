"""Axes and transforms: what is measured along one direction of a tensor of counts, and how counts
are reconstructed from the noisy measurements.

Every axis is an integer matrix A whose rows come in groups, and a real matrix R with R A = 1. Both
act along the middle direction of tensors with three directions: before, along, after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from scumble.model import stored
from scumble.model.laws.distributions import NoiseLaw

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Axis(Protocol):
    """One axis of a measurement. The rows of A come in groups; every group has its own noise."""

    kind: ClassVar[str]

    @property
    def size(self) -> int:
        """The number of cells along the axis."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of measurements of each group."""

    @property
    def norms(self) -> tuple[tuple[int, int], ...]:
        """For each group, the largest L1 norm and the largest squared L2 norm of a column of A."""

    @property
    def signed(self) -> bool:
        """Whether some entry of A is negative."""

    @property
    def pair_products(self) -> Integers:
        """The inner products, by group, of every two columns of A and of each with itself; a row
        for each kind of pair.
        """

    @property
    def cell_classes(self) -> Integers:
        """A class for each cell. If two cells have the same class, the columns of R' (see
        `adjoint`) of both have the same entries in every group, up to order and sign.
        """

    def measure(self, counts: Integers) -> list[Integers]:
        """Return A times the counts, by group."""

    def reconstruct(self, parts: Sequence[Floats]) -> Floats:
        """Return R times the numbers of all groups."""

    def adjoint(self, weights: Floats) -> list[Floats]:
        """Return R' times the weights of cells, by group: the coefficient of each number in the
        estimate of the weighted sum.
        """

    def to_dict(self) -> dict[str, Any]:
        """A description for manifests."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Axis:
        """Return the axis that `to_dict` described."""


@dataclass(frozen=True)
class IdentityAxis:
    """The axis whose one group are the cells themselves."""

    kind: ClassVar[str] = "identity"
    signed: ClassVar[bool] = False
    norms: ClassVar[tuple[tuple[int, int], ...]] = ((1, 1),)

    size: int

    @property
    def lengths(self) -> tuple[int, ...]:
        return (self.size,)

    @property
    def pair_products(self) -> Integers:
        return nested_products(1)

    @property
    def cell_classes(self) -> Integers:
        return np.zeros(self.size, np.int64)

    def measure(self, counts: Integers) -> list[Integers]:
        return [counts]

    def reconstruct(self, parts: Sequence[Floats]) -> Floats:
        return parts[0]

    def adjoint(self, weights: Floats) -> list[Floats]:
        return [weights]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "size": self.size}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> IdentityAxis:
        return cls(stored.whole(data["size"], 1))


def nested_products(groups: int) -> Integers:
    """Return the inner products of columns of a matrix that counts nested blocks: 1 in the groups
    from that on whose block holds both cells.
    """
    return np.triu(np.ones((groups + 1, groups), np.int64))


def cell_classes(size: int, fanouts: Sequence[int]) -> Integers:
    """Return a class for each leaf of a tree. Two leaves have the same class if an automorphism of
    the tree maps one to the other.

    `fanouts` are the numbers of children of a node, from the parents of leaves up; the last node of
    a level may have fewer. From below every node gets the shape of its subtree, and from above a
    class: that of its parent together with its own shape.
    """
    shapes = [np.zeros(size, np.int64)]
    for fanout in fanouts:
        nodes = -(-len(shapes[-1]) // fanout)
        children = np.full(nodes * fanout, -1)
        children[: len(shapes[-1])] = shapes[-1]
        rows = np.sort(children.reshape(nodes, fanout), axis=1)
        shapes.append(np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1))
    classes: Integers = shapes[-1]
    for fanout, below in zip(reversed(fanouts), shapes[-2::-1], strict=True):
        parents = classes[np.arange(len(below)) // fanout]
        pairs = parents * (int(below.max()) + 1) + below
        classes = np.unique(pairs, return_inverse=True)[1]
    return classes


class Transform(Protocol):
    """A linear map with integer entries from the counts of cells to groups of measurements.

    Privacy rests on `norms`, which bound the change of a group by one row. Tests check them by
    brute force.
    """

    def nonnegative_gram(self, laws: Sequence[NoiseLaw]) -> bool:
        """Return True only if no two columns have a negative inner product, each number in units of
        the Gaussian noise of its group. Then the squared norm of the difference of two columns is
        at most the sum of their squared norms.
        """
        ...

    def apply(self, counts: Integers) -> list[npt.NDArray[Any]]:
        """Return the numbers of each group, as new arrays."""
        ...

    def norms(self) -> list[tuple[int, int]]:
        """Return, for each group, the largest L1 norm and squared L2 norm of a column."""
        ...


class IdentityTransform:
    """The identity: every cell is measured by itself, in one group."""

    def nonnegative_gram(self, laws: Sequence[NoiseLaw]) -> bool:
        return True

    def apply(self, counts: Integers) -> list[npt.NDArray[Any]]:
        return [counts.copy()]

    def norms(self) -> list[tuple[int, int]]:
        return [(1, 1)]
