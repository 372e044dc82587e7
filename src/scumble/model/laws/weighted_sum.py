"""The law of a weighted sum of independent noise terms: the error of a sum over noisy cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import ParameterError
from scumble.model.laws.base import (
    DiscreteLaw,
    Floats,
    check_level,
    check_share,
    normal_cdf,
    normal_quantile,
)
from scumble.model.laws.distributions import NoiseLaw

Weight = int | float
_LARGEST_TABLE = 1 << 20
_NORMAL_FROM = 1e-4  # the largest distance at which the normal law replaces the exact one
_TABLE_LEVEL = 1e-9  # smaller tails come from a bound, not from a table
_SHARE_OF_MISS = 50  # the distance to the normal law is at most 1/50 of the probability of a miss


@dataclass(frozen=True, init=False)
class NoiseSum:
    """The law of the sum of `weight * noise` over independent copies of the noise law `base`.

    `terms` maps each weight to its number of copies. The method depends on the terms:

    - few terms with integer weights: exact, by a Fourier transform;
    - many terms with integer weights: the normal law. Its distance from the true law is at most
      `approximation_error`, by which intervals are widened;
    - real weights: the exact law smoothed by 1/2000 of its standard deviation. Intervals are
      widened by the effect of the smoothing (below 1 %).

    Intervals cover at least their level in all cases.
    """

    base: NoiseLaw
    terms: tuple[tuple[Weight, int], ...]

    def __init__(
        self,
        base: NoiseLaw,
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
    def of(cls, base: NoiseLaw, weights: NDArray[Any]) -> NoiseSum:
        """Return the law with one copy of the noise for every element of the array `weights`."""
        sizes, counts = np.unique(np.abs(weights), return_counts=True)
        return cls(base, zip(sizes.tolist(), counts.tolist(), strict=True))

    @cached_property
    def _weights(self) -> tuple[Weight, ...]:
        return tuple(weight for weight, _ in self.terms)

    @cached_property
    def unit(self) -> Weight:
        """The greatest common divisor of the weights; 0 if some are not integers."""
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
        """A bound on |cdf - true cdf| if the normal law is in use, else the rounding error."""
        return self._distance if self.method == "normal" else NEGLIGIBLE

    @cached_property
    def _reduced(self) -> NoiseTerms:
        """The terms, with integer weights divided by `unit`."""
        weights = np.array(self._weights, np.float64) / (self.unit or 1)
        return NoiseTerms(self.base, weights, np.array([n for _, n in self.terms], np.float64))

    @cached_property
    def _distance(self) -> float:
        return normal_distance(self._reduced)

    @property
    def _table(self) -> TabulatedLaw:
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
        """Return P(sum = k); ParameterError if some weight is not an integer."""
        if self.terms and not self.unit:
            raise ParameterError.of("pmf", "terms", "whole weights", "a real weight")
        if self.unit and k % self.unit:
            return 0.0
        return self.cdf(k) - self.cdf(k - (self.unit or 1))

    def quantile(self, q: float) -> float:
        """Return the smallest x with cdf(x) >= q."""
        method = self.method
        check_share(q)
        if method == "none":
            return 0.0
        if method == "normal":
            return math.ceil(normal_quantile(q) * self.stderr / self.unit - 0.5) * self.unit
        return self._table.quantile(q) * (self.unit or 1)

    def half_width(self, level: float) -> float:
        """Return the smallest half-width h for which the method proves P(|sum| <= h) >= level."""
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
def _tabled(law: NoiseSum) -> TabulatedLaw:
    """Return the table of a law. It is cached: many answers have the same law, and tables are
    large.
    """
    reduced = law._reduced
    if law.unit:
        size = lattice_size(reduced)
        if size <= _LARGEST_TABLE:
            return lattice_law(reduced, size)
    return smoothed_law(reduced)


# --- tables of laws, computed from characteristic functions --------------------------------------
#
# Three methods, all with a bound on their error. Integer weights give a lattice law whose
# probabilities come from one Fourier transform. The law of real weights is inverted after a small
# smoothing, for which intervals are widened. Sums that are nearly normal use the normal law with a
# bound on its distance.

NEGLIGIBLE = 1e-14  # probability that a computation in floating point may neglect
_DISTINCT = 1024  # real weights are rounded to at most this many different ones
_SMOOTHING = 1 / 2000  # standard deviation of the smoothing, relative to that of the sum,
_FINEST = 1 / 50_000  # but at least this part of the reach: it bounds the size of the table
_VANISHED = -60.0  # logarithm of a characteristic function that counts as 0
_REACH = 8.0  # standard deviations that a normal variable exceeds less often than NEGLIGIBLE


@dataclass(frozen=True)
class NoiseTerms:
    """Independent copies of the law `base`: the different weights (above 0), and the number of
    copies of each.
    """

    base: DiscreteLaw
    weights: Floats
    counts: Floats

    @property
    def stderr(self) -> float:
        return math.sqrt(self.base.variance * float(self.counts @ self.weights**2))

    def characteristic(self, angles: Floats) -> Floats:
        """Return the characteristic function of the sum, which is real because the law is
        symmetric.

        Factors never exceed 1, so an angle is dropped as soon as the product so far vanishes: in a
        sum of many terms hardly any angle needs all factors.
        """
        logs = np.zeros_like(angles)
        active = np.arange(len(angles))
        for index in np.argsort(-self.counts * self.weights**2):
            factor = self.base.characteristic(angles[active] * self.weights[index])
            logs[active] += self.counts[index] * np.log(np.maximum(factor, 1e-300))
            active = active[logs[active] > _VANISHED]
        result: Floats = np.exp(logs)
        return result

    def tail(self, miss: float) -> float:
        """Return a distance that |sum| exceeds with probability at most `miss` (Chernoff)."""
        largest = float(self.weights.max())
        natural = math.sqrt(2 * math.log(2 / miss)) / self.stderr
        limit = min(self.base.widest_rate / largest * (1 - 1e-9), 100 * natural)
        rates = limit * np.concatenate(
            [np.geomspace(1e-6, 0.5, 120), 1 - np.geomspace(0.5, 1e-6, 60)]
        )
        moments = np.zeros_like(rates)
        for weight, count in zip(self.weights, self.counts, strict=True):
            moments += count * self.base.log_moment(rates * weight)
        return float(np.min((moments + math.log(2 / miss)) / rates))

    def gathered(self) -> tuple[NoiseTerms, float]:
        """Return terms with at most `_DISTINCT` weights, and a bound that the change of the sum
        exceeds with probability at most `NEGLIGIBLE`.
        """
        if len(self.weights) <= _DISTINCT:
            return self, 0.0
        step = float(self.weights.max()) / _DISTINCT
        cell = np.minimum((self.weights / step).astype(np.int64), _DISTINCT - 1)
        counts: Floats = np.bincount(cell, self.counts, _DISTINCT).astype(np.float64)
        used = counts > 0
        centres = np.bincount(cell, self.counts * self.weights, _DISTINCT)[used] / counts[used]
        gathered = NoiseTerms(self.base, centres, counts[used])
        moved = np.abs(self.weights - centres[np.cumsum(used)[cell] - 1])
        changed = moved > 0
        if not changed.any():
            return gathered, 0.0
        # The tail of the change needs only upper bounds of the moves: 32 sizes are enough.
        sizes = np.ceil(moved[changed] / moved.max() * 32).astype(np.int64)
        many: Floats = np.bincount(sizes, self.counts[changed], 33).astype(np.float64)
        kinds = np.flatnonzero(many)
        change = NoiseTerms(self.base, kinds / 32 * moved.max(), many[kinds])
        return gathered, change.tail(NEGLIGIBLE)


@dataclass(frozen=True)
class TabulatedLaw:
    """A symmetric law as a table: P(sum <= points[i]) = below[i]. Intervals are widened by `slack`.
    `lattice` tells a law on the integers from a smooth one.
    """

    points: Floats
    below: Floats
    slack: float
    lattice: bool

    def cdf(self, x: float) -> float:
        if self.lattice:
            index = int(np.searchsorted(self.points, x, side="right")) - 1
            return float(self.below[index]) if index >= 0 else 0.0
        return float(np.interp(x, self.points, self.below, left=0.0, right=1.0))

    def quantile(self, q: float) -> float:
        if self.lattice:
            index = int(np.searchsorted(self.below, q - NEGLIGIBLE))
            return float(self.points[min(index, len(self.points) - 1)])
        return float(np.interp(q, self.below, self.points))

    def half_width(self, level: float) -> float:
        """Return the smallest half-width at a point of the table that covers at `level`."""
        miss = (1 - level) / 2 - 4 * NEGLIGIBLE
        # points[index] is the first whose lower tail, itself included, exceeds the miss. On a
        # lattice it ends the interval; on a smooth law the next point does, as part of `slack`.
        index = int(np.searchsorted(self.below, miss, side="right"))
        return max(-float(self.points[index]), 0.0) + self.slack


def lattice_size(terms: NoiseTerms) -> int:
    """Return the number of points of a table of a sum with integer weights."""
    return 1 << math.ceil(math.log2(2 * terms.tail(NEGLIGIBLE) + 3))


def lattice_law(terms: NoiseTerms, size: int) -> TabulatedLaw:
    """Return the law of a sum with integer weights by one Fourier transform of `size` points. The
    tails beyond the table, of probability `NEGLIGIBLE`, are aliased into it.
    """
    angles = 2 * math.pi * np.arange(size // 2 + 1) / size
    shares = np.fft.irfft(terms.characteristic(angles), size)
    shares = np.maximum(np.roll(shares, size // 2), 0.0)
    shares[0] = 0.0  # the point -size/2 has no mirror image
    return TabulatedLaw(np.arange(-(size // 2), size // 2 + 0.0), _from_below(shares), 0.0, True)


def smoothed_law(terms: NoiseTerms) -> TabulatedLaw:
    """Return the law of the sum plus a small normal variable, with the slack that compensates it.

    |sum| <= h follows from |sum + small| <= h - a and |small| <= a. So a table of the smoothed law
    covers the true one if each half-width grows by a. The smooth density comes from one Fourier
    transform. Its frequencies end where the normal factor is negligible; its period is twice the
    reach of the sum.
    """
    gathered, moved = terms.gathered()
    reach = gathered.tail(NEGLIGIBLE)
    spread = max(gathered.stderr * _SMOOTHING, reach * _FINEST)
    reach += _REACH * spread
    size = 1 << math.ceil(math.log2(2 * reach * 2 * _REACH / (2 * math.pi * spread)))
    waves = np.arange(1, size // 2 + 1)
    angles: Floats = math.pi / reach * waves.astype(np.float64)
    values = gathered.characteristic(angles) * np.exp(-((spread * angles) ** 2) / 2)
    # The integral of a Fourier series, term by term: cos turns into sin over its frequency.
    series = np.concatenate([[0.0], -1j * size * values / (2 * math.pi * waves)])
    shares = np.arange(size) / size
    below = shares + np.roll(np.fft.irfft(series, size), size // 2)
    points = (2 * shares - 1) * reach
    slack = _REACH * spread + moved + 2 * reach / size
    return TabulatedLaw(points, np.maximum.accumulate(np.clip(below, 0.0, 1.0)), slack, False)


def _from_below(shares: Floats) -> Floats:
    """Return cumulative probabilities. Each half is summed from its own tail, so that small tails
    keep their digits.
    """
    middle = len(shares) // 2
    lower = np.cumsum(shares[:middle])
    upper = 1 - np.cumsum(shares[:middle:-1])[::-1]
    return np.concatenate([lower, upper, [1.0]])


def normal_distance(terms: NoiseTerms) -> float:
    """Return a bound on |P(sum <= k) - Phi((k + 1/2) / stderr)| over all k, for integer weights
    with 1 among them.

    Both probabilities are integrals of their characteristic functions against sin((k + 1/2) t),
    divided by 2 sin(t / 2) on (0, pi) for the lattice law, and by t on (0, inf) for the normal one.
    So the distance is at most the integral of the absolute difference. Up to t = 12 / stderr it is
    computed numerically. Beyond, it is bounded by the terms of weight 1, whose characteristic
    function falls up to pi.
    """
    ones = float(terms.counts[terms.weights == 1].sum())
    stderr = terms.stderr
    split = 12 / stderr
    if ones == 0 or split >= math.pi:
        return 1.0
    nodes = (np.arange(2000) + 0.5) / 2000 * split
    gap = (
        terms.characteristic(nodes) / (2 * np.sin(nodes / 2))
        - np.exp(-((stderr * nodes) ** 2) / 2) / nodes
    )
    near = float(np.abs(gap).mean()) * split
    falling: float = float(terms.base.characteristic(np.array([split]))[0]) ** ones
    far = falling * math.log(math.pi / split) * math.pi / 2 + 4 * normal_cdf(-12.0)
    return (1.01 * near + far) / math.pi
