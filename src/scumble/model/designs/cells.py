"""Cells: a noisy count for every cell of the product of some attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scumble.model.laws import from_dict
from scumble.model.laws.distributions import DiscreteLaplace


@dataclass(frozen=True)
class Cells:
    """One row a cell, its noisy count in the column `count`; the noise is independent by cell."""

    kind: ClassVar[str] = "cells"

    count: str
    noise: DiscreteLaplace

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "count": self.count, "noise": self.noise.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cells:
        noise = from_dict(data["noise"])
        if not isinstance(noise, DiscreteLaplace):
            raise ValueError("cells have discrete Laplace noise")
        return cls(data["count"], noise)
