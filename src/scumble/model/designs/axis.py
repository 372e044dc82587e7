"""One axis of a measurement; identity; sensitivity norms.

An axis: what is measured along one direction of a tensor of counts, and how counts are
reconstructed from noisy measurements of it.

Every axis is a matrix A of whole numbers whose rows come in groups, and a matrix R of real numbers
with R A = 1. Both act along the middle direction of tensors of three: before, along, after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Axis(Protocol):
    """The rows of A come in groups: every group has its own noise."""

    kind: ClassVar[str]

    @property
    def size(self) -> int:
        """How many cells there are along it."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many numbers each group has."""

    @property
    def norms(self) -> tuple[tuple[int, int], ...]:
        """By group, the largest sum of absolute values in a column, and of squares."""

    @property
    def signed(self) -> bool:
        """Whether some number counts rows negatively."""

    def nonnegative_gram(self, weights: Sequence[Fraction]) -> bool:
        """Whether it is sure that no two columns of A have a negative inner product, in which the
        products of numbers of a group count with its weight.
        """

    @property
    def cell_classes(self) -> Integers:
        """A number for each cell: of cells with the same one, the weighted sums that are theirs
        alone have equal coefficients, up to their order and signs, in every group.
        """

    def measure(self, counts: Integers) -> list[Integers]:
        """A times the counts, by group."""

    def reconstruct(self, parts: Sequence[Floats]) -> Floats:
        """R times the numbers of all groups."""

    def adjoint(self, weights: Floats) -> list[Floats]:
        """R transposed times weights of cells, by group: what each number adds to their sum."""

    def to_dict(self) -> dict[str, Any]:
        """A description for manifests."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Axis:
        """The axis that `to_dict` described."""


# The axis that is counted cell by cell.


@dataclass(frozen=True)
class IdentityAxis:
    """One group: the cells themselves."""

    kind: ClassVar[str] = "identity"
    signed: ClassVar[bool] = False
    norms: ClassVar[tuple[tuple[int, int], ...]] = ((1, 1),)

    size: int

    @property
    def lengths(self) -> tuple[int, ...]:
        return (self.size,)

    def nonnegative_gram(self, weights: Sequence[Fraction]) -> bool:
        return True

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
        return cls(int(data["size"]))


# Which cells of an axis play the same part in it.


def cell_classes(size: int, fanouts: Sequence[int]) -> Integers:
    """A number for each cell below a tree; if two have the same, siblings can be exchanged for each
    other so that one takes the place of the other and the tree is as before.

    `fanouts` are the children of a node from those of cells up, the last node of a level having
    fewer. From below every node gets the shape of what is under it, and from above a class: that of
    its parent with its own shape.
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


# Transform: a linear map with whole entries from the counts of cells to what is measured.

NoiseLaw = DiscreteLaplace | DiscreteGaussian


class Transform(Protocol):
    """Groups of numbers, each a sum of counts with whole coefficients.

    `norms` is what privacy rests on: by how much one row changes the numbers of a group at most, as
    the sum of absolute changes and as the sum of squared ones. Tests check it by brute force.
    """

    def nonnegative_gram(self, laws: Sequence[NoiseLaw]) -> bool:
        """Whether it is sure that no two columns have a negative inner product, every number in
        units of the Gaussian noise of its group. Then the square of the length of their difference
        is at most the sum of their squares.
        """
        ...

    def apply(self, counts: Integers) -> list[npt.NDArray[Any]]:
        """The numbers of each group, as new arrays."""
        ...

    def norms(self) -> list[tuple[int, int]]:
        """For each group the largest sum of absolute values, and of squares, of a column."""
        ...


class IdentityTransform:
    """Every cell as it is."""

    def nonnegative_gram(self, laws: Sequence[NoiseLaw]) -> bool:
        return True

    def apply(self, counts: Integers) -> list[npt.NDArray[Any]]:
        return [counts.copy()]

    def norms(self) -> list[tuple[int, int]]:
        return [(1, 1)]
