"""Haar wavelets of whole numbers: sums and differences of halves, not divided by anything.

Cells are padded with empty ones up to a power of two in thought only: a difference whose right half
is empty is the sum of its left half, which is known from above, and is not measured. So there are
as many numbers as cells, whatever their number, and a cell is in at most one number a level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from scumble.model.designs.axis import Floats, Integers
from scumble.model.designs.symmetry import alike


@dataclass(frozen=True)
class Haar:
    """Groups are the differences, from pairs of cells up to halves of everything, then the sum."""

    kind: ClassVar[str] = "haar"

    size: int

    @property
    def signed(self) -> bool:
        return self.size > 1

    @property
    def _levels(self) -> tuple[int, ...]:
        """How many sums there are before each halving."""
        levels, length = [], self.size
        while length > 1:
            levels.append(length)
            length = -(-length // 2)
        return tuple(levels)

    @property
    def lengths(self) -> tuple[int, ...]:
        return (*(length // 2 for length in self._levels), 1)

    @property
    def norms(self) -> tuple[tuple[int, int], ...]:
        return ((1, 1),) * (len(self._levels) + 1)

    def acute(self, weights: Sequence[Fraction]) -> bool:
        """Two cells share the sum and, with equal signs, the differences of blocks whose one half
        holds both; with opposite signs only one, that of the halves that part them.
        """
        return all(weight <= weights[-1] for weight in weights)

    @property
    def alike(self) -> Integers:
        return alike(self.size, (2,) * len(self._levels))

    def measure(self, counts: Integers) -> list[Integers]:
        groups, sums = [], counts
        for length in self._levels:
            right = sums[:, 1::2]
            left = sums[:, 0::2].copy()
            groups.append(left[:, : length // 2] - right)
            left[:, : length // 2] += right
            sums = left
        return [*groups, sums]

    def reconstruct(self, parts: Sequence[Floats]) -> Floats:
        sums = parts[-1]
        for length, differences in zip(reversed(self._levels), parts[-2::-1], strict=True):
            pairs = length // 2
            cells = np.empty((sums.shape[0], length, sums.shape[2]))
            cells[:, 0::2] = sums
            cells[:, 1::2] = (sums[:, :pairs] - differences) / 2
            cells[:, 0 : 2 * pairs : 2] -= cells[:, 1::2]
            sums = cells
        return sums

    def adjoint(self, weights: Floats) -> list[Floats]:
        groups, sums = [], weights
        for length in self._levels:
            right = sums[:, 1::2] / 2
            left = sums[:, 0::2].copy()
            left[:, : length // 2] /= 2
            groups.append(left[:, : length // 2] - right)
            left[:, : length // 2] += right
            sums = left
        return [*groups, sums]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "size": self.size}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Haar:
        return cls(int(data["size"]))
