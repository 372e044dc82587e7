"""The law of one-sided geometric noise, in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scumble.model.laws.base import check_level, check_share
from scumble.model.laws.rational import positive


@dataclass(frozen=True)
class Geometric:
    """P(k) = (1 - a) a^k for k = 0, 1, 2, ..., with a = exp(-1 / scale): an error that is never
    below 0, so that the truth is never above what was published.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("Geometric", "scale", self.scale))

    @property
    def _inverse(self) -> float:
        return float(1 / self.scale)

    @property
    def mean(self) -> float:
        return 1 / math.expm1(self._inverse) if self._inverse < 700 else 0.0

    @property
    def variance(self) -> float:
        return self.mean * (1 + self.mean)

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def pmf(self, k: int) -> float:
        return -math.expm1(-self._inverse) * math.exp(-k * self._inverse) if k >= 0 else 0.0

    def cdf(self, x: float) -> float:
        return -math.expm1(-(math.floor(x) + 1) * self._inverse) if x >= 0 else 0.0

    def quantile(self, q: float) -> float:
        """The smallest k with cdf(k) >= q."""
        k = max(math.ceil(-math.log1p(-check_share(q)) / self._inverse) - 1, 0)
        while self.cdf(k) < q:
            k += 1
        while k > 0 and self.cdf(k - 1) >= q:
            k -= 1
        return k

    def half_width(self, level: float) -> float:
        """How far below the published number the truth may be."""
        return self.quantile(check_level(level))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return value - self.half_width(level), value

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "geometric", "scale": str(self.scale)}
