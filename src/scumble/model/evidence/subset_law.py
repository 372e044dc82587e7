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

    def covariances(self, one: Floats, other: Floats) -> Floats:
        """Cov[one · c, other · c | x] for every x; along the last axis of two arrays of weights.

        Given whether the set holds x, the rest of it is drawn from the others without replacement;
        whether it does moves the sum by the weight of x less the mean weight of the others.
        """
        others = self.values - 1
        # Sets have one size, so a constant beside the weights changes nothing but the rounding.
        one, other = (each - each.mean(axis=-1, keepdims=True) for each in (one, other))
        gaps = [each + each / others for each in (one, other)]  # the others add up to -each
        products = (one * other).sum(axis=-1, keepdims=True) - one * other - one * other / others
        held = float(self.inclusion)
        drawn = held * self._drawn(self.size - 1) + (1 - held) * self._drawn(self.size)
        found: Floats = drawn * products + held * (1 - held) * gaps[0] * gaps[1]
        return found

    def _drawn(self, number: int) -> float:
        """The factor of the covariance of a sample of the other values without replacement."""
        others = self.values - 1
        return number * (others - number) / (others * (others - 1)) if others > 1 else 0.0

    def to_dict(self) -> dict[str, Any]:
        inclusion = str(self.inclusion)
        return {"kind": self.kind, "values": self.values, "size": self.size, "inclusion": inclusion}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SubsetLaw:
        return cls(int(data["values"]), int(data["size"]), Fraction(data["inclusion"]))
