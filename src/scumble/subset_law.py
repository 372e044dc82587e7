"""The law of the subset mechanism: a set of fixed size that likely holds the true value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SubsetLaw:
    """Of `values`, a set of `size` holds the true one with probability `inclusion`; its other
    members are a uniform choice among the other values.
    """

    kind: ClassVar[str] = "subset"

    values: int
    size: int
    inclusion: Fraction

    @property
    def chance(self) -> Fraction:
        """The probability of each value that is not the true one."""
        return (self.size - self.inclusion) / (self.values - 1)

    def means(self) -> Floats:
        away, home = float(self.chance), float(self.inclusion)
        return away + (home - away) * np.eye(self.values)

    def to_dict(self) -> dict[str, Any]:
        inclusion = str(self.inclusion)
        return {"kind": self.kind, "values": self.values, "size": self.size, "inclusion": inclusion}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SubsetLaw:
        return cls(int(data["values"]), int(data["size"]), Fraction(data["inclusion"]))
