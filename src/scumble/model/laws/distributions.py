"""The law of discrete Laplace noise, in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from scumble.model.laws.base import Floats, check_level, check_share
from scumble.model.laws.rational import positive


@dataclass(frozen=True)
class DiscreteLaplace:
    """P(k) = tanh(1 / (2 scale)) exp(-|k| / scale) on the whole numbers."""

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("DiscreteLaplace", "scale", self.scale))

    @property
    def _inverse(self) -> float:
        return float(1 / self.scale)

    @property
    def _ratio(self) -> float:
        return math.exp(-self._inverse)

    @property
    def _sinh(self) -> float:
        half = self._inverse / 2
        return math.sinh(half) if half < 700 else math.inf

    @property
    def variance(self) -> float:
        return 0.5 / self._sinh / self._sinh  # the square alone may be too large for a float

    @property
    def fourth(self) -> float:
        """The fourth cumulant."""
        return self.variance * (3 * self.variance + 1)

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def pmf(self, k: int) -> float:
        return math.tanh(self._inverse / 2) * math.exp(-abs(k) * self._inverse)

    def cdf(self, x: float) -> float:
        k = math.floor(x)
        if k < 0:
            return math.exp(k * self._inverse) / (1 + self._ratio)
        return 1 - math.exp(-(k + 1) * self._inverse) / (1 + self._ratio)

    def _missed(self, half: int) -> float:
        """P(|error| > half)."""
        return 2 * math.exp(-(half + 1) * self._inverse) / (1 + self._ratio)

    def quantile(self, q: float) -> float:
        """The smallest k with cdf(k) >= q."""
        if check_share(q) <= 0.5:
            guess = math.floor(math.log(q * (1 + self._ratio)) / self._inverse)
            k = min(guess, 0)
        else:
            k = max(math.ceil(-math.log((1 - q) * (1 + self._ratio)) / self._inverse) - 1, 0)
        while self.cdf(k) < q:
            k += 1
        while self.cdf(k - 1) >= q:
            k -= 1
        return k

    def half_width(self, level: float) -> float:
        """The smallest whole number h with P(|error| <= h) >= level."""
        miss = 1 - check_level(level)
        reach = -math.log(miss * (1 + self._ratio) / 2) / self._inverse
        if reach > 1e9:  # one step is below the precision of the logarithm: round up and stop
            return math.ceil(reach * (1 + 1e-12))
        half = max(math.ceil(reach) - 1, 0)
        while self._missed(half) > miss:
            half += 1
        while half > 0 and self._missed(half - 1) <= miss:
            half -= 1
        return half

    def interval(self, value: float, level: float) -> tuple[float, float]:
        half = self.half_width(level)
        return value - half, value + half

    def characteristic(self, angle: Floats) -> Floats:
        result: Floats = 1 / (1 + (np.sin(angle / 2) / self._sinh) ** 2)
        return result

    def log_moment(self, rate: Floats) -> Floats:
        """log E exp(rate * error), for rates below `widest_rate`."""
        result: Floats = -np.log1p(-((np.sinh(rate / 2) / self._sinh) ** 2))
        return result

    @property
    def widest_rate(self) -> float:
        return self._inverse

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "discrete laplace", "scale": str(self.scale)}
