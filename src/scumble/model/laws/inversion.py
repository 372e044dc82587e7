"""The law of a sum of independent noise terms, from its characteristic function.

Three ways, all with a bound on what they leave out: whole weights give a lattice law whose shares
come from one Fourier transform; real weights are inverted after a little smoothing, for which
intervals are widened; sums that are nearly normal use the normal law with a bound on its distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scumble.model.laws.base import Discrete, Floats, normal_cdf

NEGLIGIBLE = 1e-14  # probability that may be left out of a computation in floating point
_DISTINCT = 1024  # weights of real sums are gathered into at most this many
_SMOOTHING = 1 / 2000  # standard deviation of the smoothing, in those of the sum,
_FINEST = 1 / 50_000  # but at least this share of the reach: it bounds the size of the table
_VANISHED = -60.0
_REACH = 8.0  # a normal variable is beyond this many standard deviations less often than NEGLIGIBLE


@dataclass(frozen=True)
class Terms:
    """Independent copies of one law: weights above 0, and how many copies have each."""

    base: Discrete
    weights: Floats
    counts: Floats

    @property
    def stderr(self) -> float:
        return math.sqrt(self.base.variance * float(self.counts @ self.weights**2))

    def characteristic(self, angles: Floats) -> Floats:
        """The characteristic function of the sum, real because the law is symmetric.

        Factors never exceed 1, so an angle is dropped as soon as those so far make it vanish: of a
        sum of many terms hardly any angle needs them all.
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
        """A distance that the sum exceeds, in either direction, with probability at most `miss`
        (Chernoff).
        """
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

    def gathered(self) -> tuple[Terms, float]:
        """At most `_DISTINCT` weights, and a bound that the change of the sum nearly never
        exceeds.
        """
        if len(self.weights) <= _DISTINCT:
            return self, 0.0
        step = float(self.weights.max()) / _DISTINCT
        cell = np.minimum((self.weights / step).astype(np.int64), _DISTINCT - 1)
        counts: Floats = np.bincount(cell, self.counts, _DISTINCT).astype(np.float64)
        used = counts > 0
        centres = np.bincount(cell, self.counts * self.weights, _DISTINCT)[used] / counts[used]
        gathered = Terms(self.base, centres, counts[used])
        moved = np.abs(self.weights - centres[np.cumsum(used)[cell] - 1])
        changed = moved > 0
        if not changed.any():
            return gathered, 0.0
        # The tail of the change needs only an upper bound of each move: 32 sizes are enough.
        sizes = np.ceil(moved[changed] / moved.max() * 32).astype(np.int64)
        many: Floats = np.bincount(sizes, self.counts[changed], 33).astype(np.float64)
        kinds = np.flatnonzero(many)
        change = Terms(self.base, kinds / 32 * moved.max(), many[kinds])
        return gathered, change.tail(NEGLIGIBLE)


@dataclass(frozen=True)
class Tabled:
    """A symmetric law as a table: P(sum <= points[i]) = below[i]; intervals add `slack` to
    cover.
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
        """The smallest half-width at a point of the table whose lower tail is small enough."""
        miss = (1 - level) / 2 - 4 * NEGLIGIBLE
        # points[index] is the first whose lower tail, itself included, is too large to miss. On a
        # lattice it ends the interval; on a smooth law one step more does, as part of `slack`.
        index = int(np.searchsorted(self.below, miss, side="right"))
        return max(-float(self.points[index]), 0.0) + self.slack


def lattice_size(terms: Terms) -> int:
    """Points needed to table a sum with whole weights."""
    return 1 << math.ceil(math.log2(2 * terms.tail(NEGLIGIBLE) + 3))


def lattice_law(terms: Terms, size: int) -> Tabled:
    """Shares of a sum with whole weights: one Fourier transform; the tails beyond it fold in,
    `NEGLIGIBLE`.
    """
    angles = 2 * math.pi * np.arange(size // 2 + 1) / size
    shares = np.fft.irfft(terms.characteristic(angles), size)
    shares = np.maximum(np.roll(shares, size // 2), 0.0)
    shares[0] = 0.0  # the point -size/2 has no mirror image
    return Tabled(np.arange(-(size // 2), size // 2 + 0.0), _from_below(shares), 0.0, True)


def smoothed_law(terms: Terms) -> Tabled:
    """The law of the sum plus a small normal variable, with the widening that makes up for it.

    |sum| <= h follows from |sum + small| <= h - a and |small| <= a, so a table of the smoothed law
    covers the true one when each half-width grows by a. The smooth density comes from one Fourier
    transform: its frequencies end where the normal factor is negligible, its period is twice the
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
    return Tabled(points, np.maximum.accumulate(np.clip(below, 0.0, 1.0)), slack, False)


def _from_below(shares: Floats) -> Floats:
    """Cumulative shares, each half summed from its own tail so that small tails keep their
    digits.
    """
    middle = len(shares) // 2
    lower = np.cumsum(shares[:middle])
    upper = 1 - np.cumsum(shares[:middle:-1])[::-1]
    return np.concatenate([lower, upper, [1.0]])


def normal_distance(terms: Terms) -> float:
    """A bound on |P(sum <= k) - Phi((k + 1/2) / stderr)| over all k, for whole weights with 1 among
    them.

    Both sides are integrals of their characteristic functions against sin((k + 1/2) t), over 2
    sin(t / 2) up to pi for the lattice law and over t without end for the normal one. So the
    distance is at most the integral of the difference: up to 12 standard errors numerically, beyond
    it by the terms of weight 1, whose characteristic function only falls up to pi.
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
