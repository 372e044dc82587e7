"""The laws of discrete Laplace, geometric, discrete Gaussian and rounded normal noise: moments,
tails, quantiles.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from scumble.model.laws.base import (
    Floats,
    check_level,
    check_positive,
    check_share,
    normal_cdf,
    normal_quantile,
)


@dataclass(frozen=True)
class DiscreteLaplace:
    """The discrete Laplace law: P(k) = tanh(1 / (2 scale)) exp(-|k| / scale) on the integers."""

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_positive("DiscreteLaplace", "scale", self.scale))

    @cached_property
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
        sinh = self._sinh
        return 0.5 / sinh / sinh  # the square alone may be too large for a float

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
        """Return the smallest k with cdf(k) >= q."""
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
        """Return the smallest integer h with P(|error| <= h) >= level."""
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
        """Return log E exp(rate * error), for rates below `widest_rate`."""
        result: Floats = -np.log1p(-((np.sinh(rate / 2) / self._sinh) ** 2))
        return result

    @property
    def widest_rate(self) -> float:
        return self._inverse

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "discrete laplace", "scale": str(self.scale)}


@dataclass(frozen=True)
class Geometric:
    """The geometric law: P(k) = (1 - a) a^k for k = 0, 1, 2, ..., with a = exp(-1 / scale).

    The error is never below 0, so that the truth is never above the published number.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_positive("Geometric", "scale", self.scale))

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
        """Return the smallest k with cdf(k) >= q."""
        k = max(math.ceil(-math.log1p(-check_share(q)) / self._inverse) - 1, 0)
        while self.cdf(k) < q:
            k += 1
        while k > 0 and self.cdf(k - 1) >= q:
            k -= 1
        return k

    def half_width(self, level: float) -> float:
        """Return the distance below the published number within which the truth is at `level`."""
        return self.quantile(check_level(level))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return value - self.half_width(level), value

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "geometric", "scale": str(self.scale)}


# The discrete Gaussian law is computed by summation where it is narrow, by asymptotics where it is
# wide.
_NORMAL = 4.0  # above this parameter the cumulants are those of the normal law up to 1e-28
_SMOOTH = 4096.0  # above it the expansion around the normal law is exact to all digits


@dataclass(frozen=True)
class _NormalShape(ABC):
    """What the laws of discrete Gaussian and of rounded normal noise share: they are symmetric, and
    near the normal law of variance `parameter`.
    """

    parameter: Fraction

    def __post_init__(self) -> None:
        checked = check_positive(type(self).__name__, "parameter", self.parameter)
        object.__setattr__(self, "parameter", checked)

    @property
    @abstractmethod
    def variance(self) -> float: ...

    @abstractmethod
    def cdf(self, x: float) -> float: ...

    @cached_property
    def _sigma(self) -> float:
        return math.sqrt(self.parameter)

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def quantile(self, q: float) -> float:
        """Return the smallest k with cdf(k) >= q."""
        guess = normal_quantile(check_share(q)) * self._sigma
        spread = 2 + abs(guess) * 1e-6
        return _first(lambda k: self.cdf(k) >= q, guess - spread, guess + spread)

    def half_width(self, level: float) -> float:
        """Return the smallest integer h with P(|error| <= h) >= level."""
        miss = (1 - check_level(level)) / 2
        guess = -normal_quantile(miss) * self._sigma
        covers = lambda h: h >= 0 and self.cdf(-h - 1) <= miss  # noqa: E731
        return max(_first(covers, -1, guess * (1 + 1e-6) + 2), 0)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        half = self.half_width(level)
        return value - half, value + half

    @property
    def widest_rate(self) -> float:
        return math.inf


@dataclass(frozen=True)
class DiscreteGaussian(_NormalShape):
    """The discrete Gaussian law: P(k) proportional to exp(-k**2 / (2 parameter)) on the integers.

    The parameter is the variance of the normal law of the same shape. The variance of the discrete
    law is slightly smaller (noticeably so only for parameters below 1).
    """

    @property
    def _square(self) -> float:
        return float(self.parameter)

    @property
    def variance(self) -> float:
        if self._square > _SMOOTH:
            return self._square
        k, shares = _gaussian_shares(self.parameter)
        return float(shares @ k**2)

    @property
    def fourth(self) -> float:
        """The fourth cumulant: 0 for the normal law, which wide laws equal to all digits."""
        if self._square > _NORMAL:
            return 0.0
        k, shares = _gaussian_shares(self.parameter)
        # It is below 0 only by rounding, and roots are taken of it.
        return max(float(shares @ k**4) - 3 * self.variance**2, 0.0)

    def pmf(self, k: int) -> float:
        return math.exp(-(k**2) / (2 * self._square)) / self._total

    @property
    def _total(self) -> float:
        """The sum of exp(-k**2 / (2 parameter)) over all k; above `_SMOOTH` it equals the integral
        to all digits.
        """
        if self._square > _SMOOTH:
            return math.sqrt(2 * math.pi * self._square)
        reach = _reach(self._square)
        return float(np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * self._square)).sum())

    def cdf(self, x: float) -> float:
        k = math.floor(x)
        return self._lower(k) if k < 0 else 1 - self._lower(-k - 1)

    def _lower(self, k: int) -> float:
        """P(error <= k) for k < 0."""
        if self._square <= _SMOOTH:
            values, shares = _gaussian_shares(self.parameter)
            return float(shares[values <= k].sum())
        # Euler and Maclaurin at the midpoint after k; the next term is below 1e-15 of the total.
        sigma = math.sqrt(self._square)
        z = (k + 0.5) / sigma
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        first = -z * density / sigma**2 / 24
        third = 7 * (3 * z - z**3) * density / sigma**4 / 5760
        return max(normal_cdf(z) - first + third, 0.0)

    def characteristic(self, angle: Floats) -> Floats:
        """Return the characteristic function at each angle, by the sum over integers or by the sum
        over frequencies (Poisson's formula), whichever is shorter.
        """
        if self._square < 0.25:
            k, shares = _gaussian_shares(self.parameter)
            result: Floats = np.cos(np.multiply.outer(angle, k)) @ shares
            return result
        turns = angle / (2 * math.pi)
        turns = turns - np.round(turns)
        rate = 2 * math.pi**2 * self._square
        shifts = range(-3, 4)
        above = sum(
            (np.exp(-rate * (turns + shift) ** 2) for shift in shifts), np.zeros_like(turns)
        )
        below = sum(math.exp(-rate * shift**2) for shift in shifts)
        return above / below

    def log_moment(self, rate: Floats) -> Floats:
        """Return an upper bound on log E exp(rate * error): that of the normal law."""
        return self._square * rate**2 / 2

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "discrete gaussian", "parameter": str(self.parameter)}


@dataclass(frozen=True)
class RoundedNormal(_NormalShape):
    """The law of normal noise with variance `parameter` that is rounded to the nearest integer.

    To round the sum of an integer and normal noise is to round the noise. So integers with this
    noise have the privacy of the Gaussian mechanism, which that of discrete Gaussian noise is not.
    """

    @property
    def variance(self) -> float:
        if self.parameter > _NORMAL:  # rounding adds the variance of an even spread up to e^-78
            return float(self.parameter) + 1 / 12
        k, shares = _rounded_shares(self.parameter)
        return float(shares @ k**2)

    @property
    def fourth(self) -> float:
        """The fourth cumulant, or 0 where it is negative: that of wide noise is -1 / 120."""
        if self.parameter > _NORMAL:
            return 0.0
        k, shares = _rounded_shares(self.parameter)
        return max(float(shares @ k**4) - 3 * self.variance**2, 0.0)

    def pmf(self, k: int) -> float:
        size = abs(k)  # the tail keeps its digits
        return normal_cdf((0.5 - size) / self._sigma) - normal_cdf((-0.5 - size) / self._sigma)

    def cdf(self, x: float) -> float:
        return normal_cdf((math.floor(x) + 0.5) / self._sigma)

    def characteristic(self, angle: Floats) -> Floats:
        """Return the characteristic function at each angle, by the sum over integers or by the sum
        over frequencies (Poisson's formula), whichever is shorter.
        """
        if self.parameter < Fraction(1, 4):
            k, shares = _rounded_shares(self.parameter)
            result: Floats = np.cos(np.multiply.outer(angle, k)) @ shares
            return result
        turns = angle / (2 * math.pi)
        turns = turns - np.round(turns)
        total: Floats = np.zeros_like(turns)
        for shift in range(-3, 4):
            # The noise and an even spread over one step, at the frequencies of that spread.
            near = turns + shift
            total += np.exp(-2 * math.pi**2 * float(self.parameter) * near**2) * np.sinc(near)
        return total

    def log_moment(self, rate: Floats) -> Floats:
        """Return an upper bound on log E exp(rate * error).

        Poisson's formula gives exp(rate² parameter / 2) sinh(rate / 2) / (rate / 2), and terms of
        which the j-th pair is at most 2 exp(-2 π² parameter j²) |rate| / 2πj of it. Rounding also
        adds at most one half.
        """
        size = np.abs(rate)
        spread = 2 * math.pi**2 * float(self.parameter)
        pairs = math.exp(-spread) / -math.expm1(-spread)
        terms = np.log1p(2 * pairs * np.minimum(size / (2 * math.pi), 1.0))
        rounding = np.minimum(rate**2 / 24 + terms, size / 2)
        result: Floats = float(self.parameter) * rate**2 / 2 + rounding
        return result

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "rounded normal", "parameter": str(self.parameter)}


NoiseLaw = DiscreteLaplace | DiscreteGaussian | RoundedNormal


def _reach(square: float) -> int:
    """Return a distance beyond which the law has probability less than exp(-800)."""
    return math.ceil(40 * math.sqrt(square)) + 1


@lru_cache(maxsize=128)
def _gaussian_shares(parameter: Fraction) -> tuple[Floats, Floats]:
    reach = _reach(float(parameter))
    k = np.arange(-reach, reach + 1.0)
    weights = np.exp(-(k**2) / (2 * float(parameter)))
    return k, weights / weights.sum()


@lru_cache(maxsize=128)
def _rounded_shares(parameter: Fraction) -> tuple[Floats, Floats]:
    law, reach = RoundedNormal(parameter), _reach(float(parameter))
    k = np.arange(-reach, reach + 1.0)
    return k, np.array([law.pmf(int(each)) for each in k])


def _first(holds: Callable[[int], bool], low: float, high: float) -> int:
    """Return the smallest integer at which `holds` is true; it is false at first and true from some
    integer on, probably between `low` and `high`.
    """
    below, above = math.floor(low), math.ceil(high)
    while not holds(above):
        below, above = above, above + 2 * (above - below)
    while holds(below):
        below, above = below - 2 * (above - below), below
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above
