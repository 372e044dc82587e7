"""Transform: a linear map with whole entries from the counts of cells to what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy.typing as npt

from scumble.model.designs.axis import Integers
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.law_gaussian import DiscreteGaussian

NoiseLaw = DiscreteLaplace | DiscreteGaussian


class Transform(Protocol):
    """Groups of numbers, each a sum of counts with whole coefficients.

    `norms` is what privacy rests on: by how much one row changes the numbers of a group at most, as
    the sum of absolute changes and as the sum of squared ones. Tests check it by brute force.
    """

    def acute(self, laws: Sequence[NoiseLaw]) -> bool:
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


class Identity:
    """Every cell as it is."""

    def acute(self, laws: Sequence[NoiseLaw]) -> bool:
        return True

    def apply(self, counts: Integers) -> list[npt.NDArray[Any]]:
        return [counts.copy()]

    def norms(self) -> list[tuple[int, int]]:
        return [(1, 1)]
