"""Sums over true tuples from a bag in which each was kept, or replaced by a uniform one.

A row with true tuple x shows y = x with probability p, else a uniform tuple of the m in the domain.
For f = g^j on Q and 0 elsewhere, with mean μ over the domain, the weight (f(y) - (1-p) μ) / p has
mean f(x). The covariance of two such weights is

    (1-p)/p · (f(x) - μ)(h(x) - ν) + (1-p)/p² · (mean of f·h over the domain - μν),

where the second term does not depend on x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scumble.model.evidence.presence import Replaced
from scumble.public.estimation.rows.count_law import RandomizedCount
from scumble.public.estimation.rows.tally import Floats


@dataclass(frozen=True)
class ReplacedMoments:
    """`shown`: the sums over published tuples in Q; `mean`: the sums over the domain, divided by
    its size.
    """

    presence: Replaced
    shown: Floats
    mean: Floats

    @cached_property
    def sums(self) -> Floats:
        rows, keep = self.presence.rows, float(self.presence.keep)
        return (self.shown - rows * self._lost * self.mean) / keep

    def variance(self, power: int) -> Floats:
        return np.maximum(self._covariance(power, power), self._sure(power, power))

    @property
    def covariance(self) -> Floats:
        return self._covariance(0, 1)

    def deviation(self, low: float, high: float, shift: float = 0.0) -> Floats:
        keep = float(self.presence.keep)
        mean = self.mean[1] - shift * self.mean[0]
        # Tuples outside Q add 0.
        least, most = min(low - shift, 0.0), max(high - shift, 0.0)
        above = (most - self._lost * mean) / keep - least
        below = most - (least - self._lost * mean) / keep
        largest: Floats = np.maximum(above, below)
        return largest

    def count_law(self, group: int, possible: int) -> RandomizedCount:
        shown, outside = int(self.shown[0, group]), self._lost * float(self.mean[0, group])
        return RandomizedCount(self.presence.rows, shown, float(self.presence.keep), outside)

    @property
    def _lost(self) -> float:
        return float(1 - self.presence.keep)

    def _covariance(self, one: int, other: int) -> Floats:
        f, h, rows = self.mean[one], self.mean[other], self.presence.rows
        apart = self.sums[one + other] - h * self.sums[one] - f * self.sums[other] + rows * f * h
        found: Floats = self._lost / float(self.presence.keep) * apart + self._sure(one, other)
        return found

    def _sure(self, one: int, other: int) -> Floats:
        spread = self.mean[one + other] - self.mean[one] * self.mean[other]
        sure: Floats = self.presence.rows * self._lost / float(self.presence.keep) ** 2 * spread
        return sure
