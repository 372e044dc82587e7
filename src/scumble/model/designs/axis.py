"""An axis: what is measured along one direction of a tensor of counts, and how counts are
reconstructed from noisy measurements of it.

Every axis is a matrix A of whole numbers whose rows come in groups, and a matrix R of real numbers
with R A = 1. Both act along the middle direction of tensors of three: before, along, after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

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

    def acute(self, weights: Sequence[Fraction]) -> bool:
        """Whether it is sure that no two columns of A have a negative inner product, in which the
        products of numbers of a group count with its weight.
        """

    @property
    def alike(self) -> Integers:
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
