"""The axis that is counted cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from scumble.model.designs.axis import Floats, Integers


@dataclass(frozen=True)
class Identity:
    """One group: the cells themselves."""

    kind: ClassVar[str] = "identity"
    signed: ClassVar[bool] = False
    norms: ClassVar[tuple[tuple[int, int], ...]] = ((1, 1),)

    size: int

    @property
    def lengths(self) -> tuple[int, ...]:
        return (self.size,)

    def acute(self, weights: Sequence[Fraction]) -> bool:
        return True

    @property
    def alike(self) -> Integers:
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
    def from_dict(cls, data: Mapping[str, Any]) -> Identity:
        return cls(int(data["size"]))
