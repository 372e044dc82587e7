"""The noise of counts of keys, by which as many keys are named as (ε, δ) allows for one key."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from scumble.model.errors import ParameterError
from scumble.model.laws.base import (
    Floats,
    check_level,
    check_positive,
    check_probability,
    check_share,
)
from scumble.model.privacy.guarantee import gamma_for_epsilon

MOST_PROBABILITIES = 1 << 15


@lru_cache(maxsize=16)
def shown_probabilities(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, ...]:
    """Return the largest probabilities π of showing a key of 0, 1, 2, ... people under (ε, δ)-DP
    for one key; the last one is 1 (Desfontaines, Voss, Gipson, PoPETs 2022).

    π(0) = 0 and π(n+1) = min(γπ(n) + δ, 1 - (1 - π(n) - δ)/γ, 1), with γ at most e^ε; each is
    rounded down to a grid, which keeps all inequalities true.
    """
    rate = float(epsilon)
    about = 2 * (math.log1p(rate / float(delta)) / rate)
    if about > MOST_PROBABILITIES:
        raise ParameterError(
            "With this epsilon and so many keys of a person, hardly a key could be named; allow a "
            "larger epsilon or fewer keys."
        )
    gamma = gamma_for_epsilon(epsilon)
    grid = 1 << (128 + (delta.denominator // delta.numerator).bit_length())
    found = [Fraction(0)]
    while (last := found[-1]) < 1:
        best = min(gamma * last + delta, 1 - (1 - last - delta) / gamma, Fraction(1))
        found.append(Fraction(math.floor(best * grid), grid))
    return tuple(found)


@dataclass(frozen=True)
class KeyNoise:
    """Noise X on whole numbers up to `reach`, with P(X > reach - n) = π(n), ε = 1/scale.

    A key of n people is shown with the number n + X if that is above `reach`: so with probability
    π(n), the largest that is possible. P(X = x) grows by the factor e^ε up to 0, and falls by it
    from there, but for one step at the top; so it is nearly Laplace noise that was cut off. It is
    not quite symmetric, and has a `mean`.
    """

    scale: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        for name, check in (("scale", check_positive), ("delta", check_probability)):
            object.__setattr__(self, name, check("KeyNoise", name, getattr(self, name)))
        if not self.delta:
            raise ParameterError.of("KeyNoise", "delta", "a number above 0", self.delta)
        _ = self._shown  # refuses what would take forever

    @cached_property
    def _shown(self) -> Floats:
        """π(0), π(1), ..., 1."""
        return np.array([float(p) for p in shown_probabilities(1 / self.scale, self.delta)])

    @cached_property
    def _chances(self) -> Floats:
        """P(X = reach), P(X = reach - 1), ..."""
        exact = shown_probabilities(1 / self.scale, self.delta)
        return np.array([float(b - a) for a, b in pairwise(exact)])

    @cached_property
    def reach(self) -> int:
        """The largest error; the likeliest one is 0."""
        return int(self._chances.argmax())

    @cached_property
    def _errors(self) -> Floats:
        return self.reach - np.arange(len(self._chances), dtype=float)

    @cached_property
    def mean(self) -> float:
        return float(self._chances @ self._errors)

    @cached_property
    def variance(self) -> float:
        return float(self._chances @ (self._errors - self.mean) ** 2)

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def pmf(self, k: int) -> float:
        place = self.reach - k
        return float(self._chances[place]) if 0 <= place < len(self._chances) else 0.0

    def above(self, x: float) -> float:
        """P(error > x)."""
        place = self.reach - math.floor(x)
        return float(self._shown[min(max(place, 0), len(self._shown) - 1)])

    def cdf(self, x: float) -> float:
        return 1 - self.above(x)

    def quantile(self, q: float) -> float:
        """Return the smallest k with cdf(k) >= q."""
        check_share(q)
        places = np.flatnonzero(1 - self._shown[:-1] >= q)
        return self.reach - int(places[-1])

    def half_width(self, level: float) -> float:
        """Return the smallest integer h with P(|error| <= h) >= level."""
        check_level(level)
        half = 0
        while self.above(-half - 1) - self.above(half) < level and half < len(self._chances):
            half += 1
        return half

    def interval(self, value: float, level: float) -> tuple[float, float]:
        half = self.half_width(level)
        return value - half, value + half

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "key noise", "scale": str(self.scale), "delta": str(self.delta)}
