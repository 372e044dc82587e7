"""The normal law as the law of an error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scumble.model.errors import ParameterError
from scumble.model.laws.base import check_level, check_share, normal_cdf, normal_quantile


@dataclass(frozen=True)
class Normal:
    """The normal law around 0; of variance 0, no error at all."""

    variance: float

    def __post_init__(self) -> None:
        if not (0 <= self.variance < math.inf):
            raise ParameterError.of("Normal", "variance", "a number of at least 0", self.variance)

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def cdf(self, x: float) -> float:
        if self.variance == 0:
            return float(x >= 0)
        return normal_cdf(x / self.stderr)

    def quantile(self, q: float) -> float:
        return normal_quantile(check_share(q)) * self.stderr

    def half_width(self, level: float) -> float:
        # By the lower tail, which keeps its digits when the level is close to 1.
        return -normal_quantile((1 - check_level(level)) / 2) * self.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        half = self.half_width(level)
        return value - half, value + half

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "normal", "variance": self.variance}
