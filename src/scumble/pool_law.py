"""The law of Aroma's bags: the true value, and draws from a public pool beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PoolLaw:
    """The true value and `size - 1` draws from a pool, in which value v has weight `weights[v]`;
    all draws are made again while some value v is in the bag more often than `caps[v]`.
    """

    kind: ClassVar[str] = "pool"

    weights: tuple[int, ...]
    size: int
    caps: tuple[int, ...] | None = None  # None: nothing is ever drawn again

    @property
    def values(self) -> int:
        return len(self.weights)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The probability of each value in one draw."""
        total = sum(self.weights)
        return tuple(Fraction(weight, total) for weight in self.weights)

    def to_dict(self) -> dict[str, Any]:
        caps = None if self.caps is None else list(self.caps)
        return {"kind": self.kind, "weights": list(self.weights), "size": self.size, "caps": caps}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PoolLaw:
        caps = None if data["caps"] is None else tuple(map(int, data["caps"]))
        return cls(tuple(map(int, data["weights"])), int(data["size"]), caps)
