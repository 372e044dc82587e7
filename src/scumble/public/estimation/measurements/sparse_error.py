"""The laws of errors of answers from sparse releases.

Let a cell add w to the answer for each of its rows. The error is the noise of cells, the chance in
sampling them, and under a filter the rows of cells that were left out. The first two have variances
that are known or estimated without bias from what is published. The third is no chance: under a
filter what a cell stands for in the mean is never above its count (`Tails.least_theta`), so what is
lost in a condition is at most what is lost in all, the number of rows less what was published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scumble.model.designs.sparse import Sparse
from scumble.model.designs.sparse_law import EmptyCell, Tails, filtered, sampled
from scumble.public.estimation import sum_law
from scumble.public.estimation.interval_laws import NEAR_ZERO, cut
from scumble.public.estimation.measurements import reading

_HALVINGS = 40
_ROUNDS = 4
_OWN = 0.8  # of the probability of a miss, that of the answer's own error; the rest is shared by
_SIDE = 0.1  # the number of rows and what was lost of them


@dataclass(frozen=True)
class Spread:
    """Cells with weights w: `value` estimates the sum of w times their rows. The others are sums of
    w² over published cells, over as many cells as these stand for (`times`), times the variances
    that their sampling added (`sampling`), over those that were not sampled (`sure`), and times the
    noisy counts of those that are close to the threshold of a filter (`near`); and over all `cells`
    of the condition. `number` is how many these are; `low` and `high` are limits of w.
    """

    value: float
    times: float
    sampling: float
    sure: float
    near: float
    cells: float
    number: float
    low: float
    high: float

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class SparseError:
    """What the design of a release says about errors; `whole` is the count of all its cells."""

    design: Sparse
    whole: Spread

    @cached_property
    def tails(self) -> Tails:
        return Tails(self.design.noise)

    @cached_property
    def empty(self) -> EmptyCell:
        return empty_cell(self.design)

    def variance(self, spread: Spread) -> float:
        """Of the sum of published weights."""
        noise = self.design.noise.variance
        if self.design.filtered:
            own = noise * spread.times
            own += (self.empty.variance - self.empty.sampling) * spread.cells
        else:
            own = noise * spread.cells
        return own + self._sampling(spread)

    def _sampling(self, spread: Spread) -> float:
        """As estimated, but not less than what the empty cells alone bring."""
        return max(spread.sampling, self.empty.sampling * max(spread.cells - spread.sure, 0.0))

    def interval(self, spread: Spread, level: float) -> tuple[float, float]:
        """Limits of Σ w · count over the cells of the condition."""
        miss = 1 - level
        rows = self.rows(1 - _SIDE * miss)
        lost = self.lost(1 - _SIDE * miss)
        half = self._half(spread, 1 - _OWN * miss, lost)
        low = spread.value - half + min(spread.low, 0.0) * lost
        high = spread.value + half + max(spread.high, 0.0) * lost
        least, most = min(spread.low, 0.0) * rows, max(spread.high, 0.0) * rows
        if high < least or low > most:  # so far off as a known law is less often than it may miss
            return least, most
        return max(low, least), min(high, most)

    def rows(self, level: float) -> float:
        """A number that the rows do not exceed."""
        return max(self.design.total + self.design.total_noise.half_width(level), 0.0)

    def lost(self, level: float) -> float:
        """A number that the rows which a filter left out do not exceed."""
        if not self.design.filtered:
            return 0.0
        if level not in self._lost:
            rows = lost = self.rows(level)
            for _ in range(_ROUNDS):  # the fewer are lost, the better it is known how many
                published = self.whole.value - self._half(self.whole, level, lost)
                lost = min(max(rows - published, 0.0), lost)
            self._lost[level] = lost
        return self._lost[level]

    @cached_property
    def _lost(self) -> dict[float, float]:
        """What was worked out, by level."""
        return {}

    @cached_property
    def _excess(self) -> float:
        return self.tails.excess(self.design.theta)

    def _half(self, spread: Spread, level: float, lost: float) -> float:
        """How far the sum of published weights is from its mean.

        Noise by the expansion of its law. A cell that is sampled makes the sum jump by tau, and how
        many small cells there are is known from the sample alone: as for Poisson counts. Empty
        cells that pass a filter are a known number in the mean; the sum of their skewness and of
        half a jump is less than one jump.
        """
        largest, filters = spread.largest, self.design.filtered
        variance = self.variance(spread)
        if filters:
            small = largest**2 * lost + spread.near
            variance += self._excess * small
        noisy = spread.times if filters else spread.cells
        fourth = self.design.noise.fourth * largest**2 * noisy
        half = reading.reach(variance, fourth, largest, level)
        if self.design.tau and spread.cells > spread.sure:
            half = max(half, sum_law.reach(variance, float(self.design.tau) * largest, level))
        if filters and self.empty.chance * spread.number > (1 - level) / 10:
            half += (self.design.theta + 2 * self.tails.mean) * largest
        return half


def empty_cell(design: Sparse) -> EmptyCell:
    """What a cell without rows adds to published sums."""
    tails, tau = Tails(design.noise), float(design.tau)
    return filtered(tails, design.theta, tau) if design.filtered else sampled(tails, tau)


@dataclass(frozen=True)
class SparseTotal:
    """The law of the error of a count or a sum."""

    error: SparseError
    spread: Spread

    @property
    def stderr(self) -> float:
        return math.sqrt(self.error.variance(self.spread))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return cut(self.error.interval(self.spread, level), value, -math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class Amounts:
    """Cells with amounts g, which lie between `low` and `high`. The rows of `sums` are their
    estimated rows, then the five sums of `Spread` in their order; the columns are these sums times
    g to the powers 0, 1 and 2.
    """

    sums: npt.NDArray[np.float64]
    low: float
    high: float

    @classmethod
    def counted(cls, sums: npt.NDArray[np.float64]) -> Amounts:
        """Cells of which every row adds 1."""
        return cls(np.repeat(sums.reshape(-1, 1), 3, axis=1), 1.0, 1.0)

    @property
    def count(self) -> float:
        return float(self.sums[0, 0])

    @property
    def total(self) -> float:
        return float(self.sums[0, 1])

    def spread(self, ratio: float = 0.0) -> Spread:
        """The cells with weights g - ratio."""
        squares = self.sums[1:] @ np.array([ratio * ratio, -2 * ratio, 1.0])
        times, sampling, sure, near, cells = np.maximum(squares, 0.0).tolist()
        return Spread(
            value=self.total - ratio * self.count,
            times=times,
            sampling=sampling,
            sure=sure,
            near=near,
            cells=cells,
            number=float(self.sums[-1, 0]),
            low=self.low - ratio,
            high=self.high - ratio,
        )


@dataclass(frozen=True)
class SparseMean:
    """The law of an average: a ratio r is possible if Σ (g - r) · count may be 0 (Fieller)."""

    error: SparseError
    amounts: Amounts

    @property
    def value(self) -> float:
        return self.amounts.total / self.amounts.count if self.amounts.count else math.nan

    @property
    def stderr(self) -> float:
        count = self.amounts.count
        if not count:
            return math.inf
        return math.sqrt(self.error.variance(self.amounts.spread(self.value))) / abs(count)

    @property
    def notes(self) -> tuple[str, ...]:
        """A warning, if the count is within three standard errors of zero."""
        ones = Amounts.counted(self.amounts.sums[:, 0])
        safe = self.amounts.count**2 >= 9 * self.error.variance(ones.spread())
        return () if safe else (NEAR_ZERO,)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.amounts.low, self.amounts.high
        middle = min(max(self.value, low), high)
        if not self._possible(middle, level):
            return cut((low, high), self.value, low, high)
        ends = self._end(middle, low, level), self._end(middle, high, level)
        return cut(ends, self.value, low, high)

    def _possible(self, ratio: float, level: float) -> bool:
        low, high = self.error.interval(self.amounts.spread(ratio), level)
        return low <= 0 <= high

    def _end(self, inside: float, outside: float, level: float) -> float:
        if self._possible(outside, level):
            return outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            if self._possible(middle, level):
                inside = middle
            else:
                outside = middle
        return outside
