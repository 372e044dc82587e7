"""The protocol of error laws, the normal law, and checks of the exact numbers that laws take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError

Floats = NDArray[np.float64]


class ErrorLaw(Protocol):
    """The law of an error: its variance, its distribution function, and intervals that cover."""

    @property
    def variance(self) -> float: ...
    @property
    def stderr(self) -> float: ...
    def cdf(self, x: float) -> float: ...
    def quantile(self, q: float) -> float: ...
    def half_width(self, level: float) -> float: ...
    def interval(self, value: float, level: float) -> tuple[float, float]: ...
    def to_dict(self) -> dict[str, Any]: ...


class DiscreteLaw(ErrorLaw, Protocol):
    """A law on the integers with a characteristic function, so that sums have computable laws."""

    def pmf(self, k: int) -> float: ...
    def characteristic(self, angle: Floats) -> Floats: ...
    def log_moment(self, rate: Floats) -> Floats: ...
    @property
    def widest_rate(self) -> float: ...


def check_level(level: float) -> float:
    """Return the confidence level `level` as a float; ParameterError unless 0 < level < 1."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        allowed = "a number between 0 and 1 (both excluded), such as 0.95"
        raise ParameterError.of("interval", "level", allowed, level)
    return float(level)


def check_share(q: float) -> float:
    """Return the probability `q` as a float; ParameterError unless 0 < q < 1."""
    if not 0 < q < 1:
        raise ParameterError.of("quantile", "q", "a number between 0 and 1", q)
    return float(q)


def normal_cdf(z: float) -> float:
    """Return the standard normal distribution function at z, precise in both tails."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def normal_quantile(q: float) -> float:
    """Return the standard normal quantile: the inverse of `normal_cdf`."""
    return NormalDist().inv_cdf(q)


@dataclass(frozen=True)
class Normal:
    """The normal law with mean 0. Variance 0 means that there is no error."""

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
        # The lower tail keeps its digits when the level is close to 1.
        return -normal_quantile((1 - check_level(level)) / 2) * self.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        half = self.half_width(level)
        return value - half, value + half

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "normal", "variance": self.variance}


# --- checks of exact numbers: return the number, or raise ParameterError -------------------------


def check_probability(owner: str, parameter: str, value: Fraction | int) -> Fraction:
    """Return `value` as a Fraction if it is an exact number from 0 to 1."""
    if not _exact(value) or not 0 <= value <= 1:
        raise ParameterError.of(owner, parameter, "a Fraction from 0 to 1", value)
    return Fraction(value)


def check_positive(owner: str, parameter: str, value: Fraction | int) -> Fraction:
    """Return `value` as a Fraction if it is an exact number above 0."""
    if not _exact(value) or value.numerator <= 0:
        raise ParameterError.of(owner, parameter, "a Fraction above 0", value)
    return value if type(value) is Fraction else Fraction(value)


def check_whole(owner: str, parameter: str, value: int, least: int = 0) -> int:
    """Return `value` if it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParameterError.of(owner, parameter, f"a whole number of at least {least}", value)
    return value


def _exact(value: object) -> bool:
    return isinstance(value, Fraction | int) and not isinstance(value, bool)
