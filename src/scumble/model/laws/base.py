"""What every error law can say, and the standard normal law that several of them lean on."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError

Floats = NDArray[np.float64]


class Law(Protocol):
    """What every error law can say."""

    @property
    def variance(self) -> float: ...
    @property
    def stderr(self) -> float: ...
    def cdf(self, x: float) -> float: ...
    def quantile(self, q: float) -> float: ...
    def half_width(self, level: float) -> float: ...
    def interval(self, value: float, level: float) -> tuple[float, float]: ...
    def to_dict(self) -> dict[str, Any]: ...


class Discrete(Law, Protocol):
    """A law on the whole numbers, of which sums can be made."""

    def pmf(self, k: int) -> float: ...
    def characteristic(self, angle: Floats) -> Floats: ...
    def log_moment(self, rate: Floats) -> Floats: ...
    @property
    def widest_rate(self) -> float: ...


def check_level(level: float) -> float:
    """A confidence level strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        allowed = "a number between 0 and 1 (both excluded), such as 0.95"
        raise ParameterError.of("interval", "level", allowed, level)
    return float(level)


def check_share(q: float) -> float:
    """A share strictly between 0 and 1."""
    if not 0 < q < 1:
        raise ParameterError.of("quantile", "q", "a number between 0 and 1", q)
    return float(q)


def normal_cdf(z: float) -> float:
    """The standard normal law up to z, precise in both tails."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def normal_quantile(q: float) -> float:
    """The inverse of `normal_cdf`."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(q)
