"""Sums over true tuples from a set that holds true and false ones with known probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from scumble.model.evidence.presence import Included
from scumble.public.estimation.rows.count_law import RandomizedCount
from scumble.public.estimation.rows.tally import Floats


@dataclass(frozen=True)
class Stratum:
    """Tuples of which a true one is there with probability `high`, a false one with `low`.

    `shown` are the sums over those that are there, `false` their means if none were true. A sum is
    estimated by (shown - false) / (high - low); its variance is low (1 - low) for every tuple of
    the stratum, and high (1 - high) - low (1 - low) = (high - low)(1 - high - low) more for every
    true one, in terms of g² and divided by (high - low)².
    """

    shown: Floats
    false: Floats
    high: Fraction
    low: Fraction

    @cached_property
    def sums(self) -> Floats:
        return (self.shown - self.false) / self._gap

    def spread(self, power: int) -> Floats:
        """An unbiased estimate of the covariance of two sums whose powers add up to this."""
        excess = self._gap * float(1 - self.high - self.low)
        noise = float(1 - self.low) * self.false[power]
        found: Floats = (noise + excess * self.sums[power]) / self._gap**2
        return found

    def least(self, power: int) -> Floats:
        """What the variance is at least, whatever is true."""
        if not self.low:
            return np.zeros_like(self.false[power])
        each = min(self.high * (1 - self.high) / self.low, 1 - self.low)
        least: Floats = float(each) * self.false[power] / self._gap**2
        return least

    @property
    def largest(self) -> float:
        """What one tuple can change the error of a count by."""
        return float(max(1 - self.low, self.high)) / self._gap

    @property
    def _gap(self) -> float:
        return float(self.high - self.low)


@dataclass(frozen=True)
class SourcedStratum:
    """Tuples of which a false one is there with a probability β(t) of its own, a true one with
    `gap` more.

    `shown` are the sums over those that are there and `faded` the same with every tuple times
    β(t); `false` and `squared` are sums over all possible tuples times β(t) and β(t)². The variance
    is the sum of β(t)(1 - β(t)) over all tuples, and of gap (1 - gap - 2β(t)) over true ones.
    """

    shown: Floats
    faded: Floats
    false: Floats
    squared: Floats
    gap: float
    steady: bool  # whether gap + 2β(t) is at most 1 for every tuple

    @cached_property
    def sums(self) -> Floats:
        return (self.shown - self.false) / self.gap

    def spread(self, power: int) -> Floats:
        faded = (self.faded[power] - self.squared[power]) / self.gap
        excess = self.gap * ((1 - self.gap) * self.sums[power] - 2 * faded)
        found: Floats = (self.false[power] - self.squared[power] + excess) / self.gap**2
        return found

    def least(self, power: int) -> Floats:
        noise = (self.false[power] - self.squared[power]) / self.gap**2
        return noise if self.steady else np.zeros_like(noise)

    @property
    def largest(self) -> float:
        return 1 / self.gap


@dataclass(frozen=True)
class IncludedMoments:
    """Views of the same tuples, each a list of strata, with weights that add up to 1.

    Given the earlier views, the estimate from a view (the sum over its strata) is unbiased. The
    weights are constants, so that the pooled estimate is unbiased as well; and the errors of two
    views are uncorrelated, since the later one has mean zero given all that the earlier ones show.
    So the variance is the sum of the squared weights times the variances.
    """

    presence: Included
    views: tuple[tuple[Stratum | SourcedStratum, ...], ...]
    weights: tuple[float, ...]

    @cached_property
    def sums(self) -> Floats:
        pairs = zip(self.weights, self.views, strict=True)
        return _added(weight * stratum.sums for weight, view in pairs for stratum in view)

    def variance(self, power: int) -> Floats:
        return np.maximum(self._squared(2 * power), self._squared(2 * power, least=True))

    @property
    def covariance(self) -> Floats:
        return self._squared(1)

    def deviation(self, low: float, high: float, shift: float = 0.0) -> Floats:
        amount = max(abs(low - shift), abs(high - shift))
        pairs = zip(self.weights, self.views, strict=True)
        reach = max(weight * max(stratum.largest for stratum in view) for weight, view in pairs)
        return np.full(self.sums.shape[1], amount * reach)

    def count_law(self, group: int, possible: int) -> RandomizedCount | None:
        [stratum, *others] = self.views[0]
        if len(self.views) > 1 or others or not isinstance(stratum, Stratum):
            return None
        return RandomizedCount(
            rows=possible,
            shown=int(stratum.shown[0, group]),
            keep=float(stratum.high - stratum.low),
            outside=float(stratum.low),
            most=self.presence.rows,
            expected=float(stratum.false[0, group]),
        )

    def _squared(self, power: int, *, least: bool = False) -> Floats:
        return _added(
            weight**2 * (stratum.least(power) if least else stratum.spread(power))
            for weight, view in zip(self.weights, self.views, strict=True)
            for stratum in view
        )


def _added(terms: Iterable[Floats]) -> Floats:
    found: Floats = np.add.reduce(list(terms))
    return found
