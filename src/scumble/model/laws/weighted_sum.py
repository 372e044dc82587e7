"""The law of a weighted sum of independent noise terms: the error of a count or a sum over noisy
cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.laws import inversion
from scumble.model.laws.base import check_level, check_share, normal_cdf, normal_quantile
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.law_gaussian import DiscreteGaussian

Weight = int | float
_LARGEST_TABLE = 1 << 20
_NORMAL_FROM = 1e-4  # the largest distance at which the normal law stands in for the exact one
_TABLE_LEVEL = 1e-9  # smaller tails than this come from a bound, not from a table
_SHARE_OF_MISS = 50  # the normal law may use up one part in so many of the probability of a miss


@dataclass(frozen=True, init=False)
class NoiseSum:
    """The sum of `weight * noise` over independent copies of one noise law, counted by weight.

    Few terms with whole weights: exact, by Fourier transform. Many: the normal law, whose distance
    from the true one is at most `approximation_error`, and intervals pay for it. Real weights: the
    exact law smoothed by a 2000th of its standard deviation, and intervals widened by what that can
    hide (below 1 %). Intervals cover at least their level in all cases. `terms` is given as
    {weight: count}.
    """

    base: DiscreteLaplace | DiscreteGaussian
    terms: tuple[tuple[Weight, int], ...]

    def __init__(
        self,
        base: DiscreteLaplace | DiscreteGaussian,
        terms: Mapping[Weight, int] | Iterable[tuple[Weight, int]],
    ) -> None:
        given = terms.items() if isinstance(terms, Mapping) else terms
        totals: dict[Weight, int] = {}
        for weight, count in given:
            if not math.isfinite(weight) or count < 0:
                allowed = "a mapping from finite weights to counts of at least 0"
                raise ParameterError.of("NoiseSum", "terms", allowed, {weight: count})
            size = abs(int(weight) if weight == int(weight) else weight)  # the noise is symmetric
            if size and count:
                totals[size] = totals.get(size, 0) + int(count)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "terms", tuple(sorted(totals.items())))

    @classmethod
    def of(cls, base: DiscreteLaplace | DiscreteGaussian, weights: NDArray[Any]) -> NoiseSum:
        """One copy of the noise for every element of an array of weights."""
        sizes, counts = np.unique(np.abs(weights), return_counts=True)
        return cls(base, zip(sizes.tolist(), counts.tolist(), strict=True))

    @cached_property
    def _weights(self) -> tuple[Weight, ...]:
        return tuple(weight for weight, _ in self.terms)

    @cached_property
    def unit(self) -> Weight:
        """The greatest common divisor of whole weights; 0 if some are not whole."""
        if all(isinstance(weight, int) for weight in self._weights):
            return math.gcd(*(int(weight) for weight in self._weights))
        return 0

    @cached_property
    def variance(self) -> float:
        return self.base.variance * math.fsum(w * w * float(n) for w, n in self.terms)

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    @property
    def method(self) -> str:
        """How the law is computed: "none", "exact", "normal" or "smoothed"."""
        if not self.terms or self.variance == 0:
            return "none"
        if self.unit and self._distance <= _NORMAL_FROM:
            return "normal"
        return "exact" if self._table.lattice else "smoothed"

    @property
    def approximation_error(self) -> float:
        """A bound on |cdf - true cdf| of the normal law in use, and what floating point leaves out
        else.
        """
        return self._distance if self.method == "normal" else inversion.NEGLIGIBLE

    @cached_property
    def _reduced(self) -> inversion.Terms:
        """The terms, whole weights divided by their unit."""
        weights = np.array(self._weights, np.float64) / (self.unit or 1)
        return inversion.Terms(self.base, weights, np.array([n for _, n in self.terms], np.float64))

    @cached_property
    def _distance(self) -> float:
        return inversion.normal_distance(self._reduced)

    @property
    def _table(self) -> inversion.Tabled:
        return _tabled(self)

    def cdf(self, x: float) -> float:
        method = self.method
        if method == "none":
            return float(x >= 0)
        if method == "normal":
            middle = (math.floor(x / self.unit) + 0.5) * self.unit
            return normal_cdf(middle / self.stderr)
        return self._table.cdf(x / (self.unit or 1))

    def pmf(self, k: int) -> float:
        """P(sum = k); only sums with whole weights have it."""
        if self.terms and not self.unit:
            raise ParameterError.of("pmf", "terms", "whole weights", "a real weight")
        if self.unit and k % self.unit:
            return 0.0
        return self.cdf(k) - self.cdf(k - (self.unit or 1))

    def quantile(self, q: float) -> float:
        """The smallest x with cdf(x) >= q."""
        method = self.method
        check_share(q)
        if method == "none":
            return 0.0
        if method == "normal":
            return math.ceil(normal_quantile(q) * self.stderr / self.unit - 0.5) * self.unit
        return self._table.quantile(q) * (self.unit or 1)

    def half_width(self, level: float) -> float:
        """A half-width h, the smallest the method can vouch for, with P(|sum| <= h) >= level."""
        miss = 1 - check_level(level)
        if not self.terms or self.variance == 0:
            return 0.0
        if len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0] * self.base.half_width(level)
        if miss < _TABLE_LEVEL:
            reach = self._reduced.tail(miss)
            return math.floor(reach) * self.unit if self.unit else reach
        if self.unit and self._distance * 2 * _SHARE_OF_MISS <= miss:
            reach = -normal_quantile(miss / 2 - self._distance) * self.stderr
            return max(math.ceil(reach / self.unit - 0.5), 0) * self.unit
        return self._table.half_width(level) * (self.unit or 1)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        half = self.half_width(level)
        return value - half, value + half

    def to_dict(self) -> dict[str, Any]:
        terms = [[weight, count] for weight, count in self.terms]
        return {"kind": "noise sum", "base": self.base.to_dict(), "terms": terms}


@lru_cache(maxsize=16)
def _tabled(law: NoiseSum) -> inversion.Tabled:
    """The table of a law; shared, because many answers have the same law and tables are large."""
    reduced = law._reduced
    if law.unit:
        size = inversion.lattice_size(reduced)
        if size <= _LARGEST_TABLE:
            return inversion.lattice_law(reduced, size)
    return inversion.smoothed_law(reduced)
