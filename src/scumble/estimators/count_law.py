"""The error law of a count that was read through randomized response.

Of `rows` published rows that satisfy the public part of a question, `f` truly satisfy the rest;
each of these shows as satisfying with probability `inside`, each other one with probability
`outside`. The number that shows is Bin(f, inside) + Bin(rows - f, outside): its law for every f is
known exactly, and the interval holds every f that this law does not reject.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Beyond this spread of the shown number the normal law is used. Its largest error (Berry-Esseen for
# sums of independent indicators, constant 0.56) is then below 0.56 / 200 = 0.3 % of probability,
# and the continuity correction takes most of that.
_EXACT_SPREAD = 200.0


@dataclass(frozen=True)
class RandomizedCount:
    """Count estimate `(shown - rows * outside) / (inside - outside)` with an exact interval."""

    rows: int
    shown: int
    inside: float
    outside: float

    @property
    def value(self) -> float:
        return (self.shown - self.rows * self.outside) / (self.inside - self.outside)

    @property
    def variance(self) -> float:
        """At the estimated count, cut to what a count can be."""
        return self._spread(min(max(self.value, 0.0), float(self.rows))) / self._slope**2

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """All counts that the shown number does not reject, and the estimate itself."""
        tail = (1 - level) / 2
        widest = max(self._spread(0.0), self._spread(float(self.rows)))
        exact = widest <= _EXACT_SPREAD**2
        low, high = self._exact_limits(tail) if exact else self._score_limits(tail)
        return min(low, value), max(high, value)

    def _exact_limits(self, tail: float) -> tuple[float, float]:
        low = self._first(lambda count: self._tail(count, upper=True) > tail)
        beyond = self._first(lambda others: self._tail(self.rows - others, upper=False) > tail)
        return float(low), float(self.rows - beyond)

    @property
    def _slope(self) -> float:
        return self.inside - self.outside

    def _spread(self, count: float) -> float:
        """Variance of the shown number if the true count were `count`."""
        others = self.rows - count
        return count * self.inside * (1 - self.inside) + others * self.outside * (1 - self.outside)

    def _first(self, holds: Callable[[int], bool]) -> int:
        """The least count for which a condition that stays true once it is true holds."""
        low, high = 0, self.rows
        while low < high:
            middle = (low + high) // 2
            if holds(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _tail(self, count: int, *, upper: bool) -> float:
        """P(shown number >= or <= the one seen), summed over the first binomial where it has
        mass.
        """
        import numpy as np
        from scipy.special import bdtr, bdtrc

        mean = count * self.inside
        reach = 12 * math.sqrt(mean * (1 - self.inside)) + 40
        first = np.arange(max(0, math.floor(mean - reach)), min(count, math.ceil(mean + reach)) + 1)
        rest = self.shown - first
        others = self.rows - count
        if upper:
            # bdtrc(k, n, p) = P(> k); it wants 0 <= k < n.
            tails = np.where(rest <= 0, 1.0, 0.0)
            usable = (rest > 0) & (rest <= others)
            tails[usable] = bdtrc(rest[usable] - 1, others, self.outside)
        else:
            tails = np.where(rest >= others, 1.0, 0.0)
            usable = (rest >= 0) & (rest < others)
            tails[usable] = bdtr(rest[usable], others, self.outside)
        return float(_binomial(first, count, self.inside) @ tails)

    def _score_limits(self, tail: float) -> tuple[float, float]:
        """Counts f with |shown - mean(f)| <= z * spread(f) + 1/2: two quadratics in f."""
        from statistics import NormalDist

        z = NormalDist().inv_cdf(1 - tail)
        change = (self._spread(1.0) - self._spread(0.0)) / self._slope**2
        base = self._spread(0.0) / self._slope**2
        half = 0.5 / abs(self._slope)
        limits = []
        for sign in (-1, 1):
            # (centre - f)^2 = z^2 (base + change f) with the continuity correction in the centre.
            centre = self.value + sign * half
            linear = centre + z * z * change / 2
            root = math.sqrt(max(linear * linear - centre * centre + z * z * base, 0.0))
            limits.append(linear + sign * root)
        return max(limits[0], 0.0), min(limits[1], float(self.rows))


def _binomial(successes: Any, trials: int, probability: float) -> Any:
    """The probabilities of so many successes (scipy.stats would take a second to import)."""
    import numpy as np
    from scipy.special import gammaln, xlog1py, xlogy

    failures = trials - successes
    ways = gammaln(trials + 1) - gammaln(successes + 1) - gammaln(failures + 1)
    return np.exp(ways + xlogy(successes, probability) + xlog1py(failures, -probability))
