"""The truncated discrete Laplace law, whose error has a largest size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scumble.model.laws.base import check_level, check_positive, check_share, check_whole


@dataclass(frozen=True)
class TruncatedLaplace:
    """The discrete Laplace law of `scale` given that |error| is at most `reach`."""

    scale: Fraction
    reach: int

    def __post_init__(self) -> None:
        scale = check_positive("TruncatedLaplace", "scale", self.scale)
        object.__setattr__(self, "scale", scale)
        check_whole("TruncatedLaplace", "reach", self.reach)

    @property
    def _inverse(self) -> float:
        return float(1 / self.scale)

    @property
    def _mode(self) -> float:
        """P(error = 0)."""
        rest = 2 * math.exp(-(self.reach + 1) * self._inverse)
        return -math.expm1(-self._inverse) / (1 + math.exp(-self._inverse) - rest)

    @property
    def variance(self) -> float:
        sizes = range(1, self.reach + 1)
        return 2 * math.fsum(size * size * self.pmf(size) for size in sizes)

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def pmf(self, k: int) -> float:
        if abs(k) > self.reach:
            return 0.0
        return self._mode * math.exp(-abs(k) * self._inverse)

    def cdf(self, x: float) -> float:
        k = max(math.floor(x), -self.reach - 1)
        if k >= 0:
            return 1 - self.cdf(-k - 1)
        terms = -math.expm1(-(self.reach + 1 + k) * self._inverse) / -math.expm1(-self._inverse)
        return self._mode * math.exp(k * self._inverse) * terms

    def quantile(self, q: float) -> float:
        """Return the smallest k with cdf(k) >= q."""
        low, high = -self.reach - 1, self.reach
        check_share(q)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.cdf(middle) >= q else (middle, high)
        return high

    def half_width(self, level: float) -> float:
        """Return the smallest integer h with P(|error| <= h) >= level."""
        miss = (1 - check_level(level)) / 2
        low, high = -1, self.reach
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.cdf(-middle - 1) <= miss else (middle, high)
        return high

    def interval(self, value: float, level: float) -> tuple[float, float]:
        half = self.half_width(level)
        return value - half, value + half

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "truncated laplace", "scale": str(self.scale), "reach": self.reach}
