"""Error laws of sums over the published cells of a sparse release.

Let a cell add w to the answer for each of its rows. The error is the noise of cells, the randomness
of sampling them, and under a filter the rows of cells that were left out. The variances of the
first two are known, or estimated without bias from what is published. Two arguments bound the
third:

1. By cells. A cell that was left out has a noisy count of at most θ - 1 (or below tau, where those
   above θ were sampled), and a published cell lacks nothing. With all w >= 0 this gives

       Σ w · count <= Σ published w · noisy count + (θ - 1) Σ left out w - Σ H w · noise,

   where H are the cells of at least θ rows: if such a cell is left out, its rows are its noisy
   count, at most θ - 1, minus its noise; a published cell outside of H has noise above 0; one left
   out has at most θ - 1 rows. H does not depend on the noise, so the last sum is one of |H|
   independent noises. No level is divided among cells.
2. By all rows. Under a filter the mean published weight of a cell is never above its count
   (`NoiseTails.least_theta`). So what is lost in a condition is, in the mean, at most what is lost
   in all: the number of rows minus what was published.

The first is the better one for conditions of few cells, the second for those of many. The smaller
of both is used, and the probability of a miss is divided between them. Where the condition has so
few cells that the second cannot help (`SparseError.few`: by the design and the condition alone, not
by what was published), the first has all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scumble.model.designs.sparse import (
    EmptyCell,
    NoiseTails,
    Sparse,
    filtered_empty_cell,
    sampled_empty_cell,
)
from scumble.public.estimate import LEVEL, Law
from scumble.public.estimation.bounds import Bounded, BoundedAverage, Limit
from scumble.public.estimation.interval_laws import (
    AverageLaw,
    Rest,
    clipped,
    noise_half_width,
    score_half_width,
)

_HALVINGS = 40
_ROUNDS = 4
# Without a filter, the probability of a miss is divided: `_OWN` of it is for the answer's own
# error, and `_SIDE` for the number of rows. With a filter `_BY_ROWS` is for the error of the second
# argument, `_BY_CELLS` for that of the first, `_LOST` for the rows that were lost (twice: their
# number, and what was published of them) and `_CAP` for the number of rows.
_OWN = 0.8
_SIDE = 0.1
_BY_ROWS = 0.7
_BY_CELLS = 0.1
_LOST = 0.16
_CAP = 0.06
_ONE_ERROR = 0.68  # the level of an interval of one standard error


@dataclass(frozen=True)
class Spread:
    """What the error of a sum over cells with weights w depends on.

    - `value` estimates the sum of w times the rows of the cells.
    - `seen`: the sum of w times the noisy count, over published cells; `shown`: how many these are.
    - `times`: the sum of w² over published cells, each as often as the cells that it represents.
    - `sampling`: the sum of w² times the variance that sampling added, over published cells.
    - `sure`: the sum of w² over published cells that were not sampled.
    - `near`: the sum of w² times the noisy count, over published cells close to the threshold of a
      filter.
    - `cells`: the sum of w² over all cells of the condition; `number`: how many these are.
    - `low`, `high`: limits of w.
    """

    value: float
    seen: float
    shown: float
    times: float
    sampling: float
    sure: float
    near: float
    cells: float
    number: float
    low: float
    high: float

    @classmethod
    def counted(cls, sums: npt.NDArray[np.float64]) -> Spread:
        """Return the spread of cells of which every row adds 1, with the sums of `Amounts`."""
        value, seen, shown, *squares, number = sums.tolist()
        times, sampling, sure, near = (max(0.0, each) for each in squares)
        return cls(value, seen, shown, times, sampling, sure, near, number, number, 1.0, 1.0)

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class SparseError:
    """The error laws of one release; `whole` is the spread of the count of all its cells."""

    design: Sparse
    whole: Spread

    @cached_property
    def tails(self) -> NoiseTails:
        return NoiseTails(self.design.noise)

    @cached_property
    def empty(self) -> EmptyCell:
        return empty_cell(self.design)

    def variance(self, spread: Spread) -> float:
        """Return the variance of the sum of published weights."""
        noise = self.design.noise.variance
        if self.design.filtered:
            own = noise * spread.times
            own += (self.empty.variance - self.empty.sampling) * spread.cells
        else:
            own = noise * spread.cells
        return own + self._sampling(spread)

    def _sampling(self, spread: Spread) -> float:
        """Return the estimated variance by sampling, at least that of the empty cells alone."""
        return max(spread.sampling, self.empty.sampling * max(spread.cells - spread.sure, 0.0))

    def interval(self, spread: Spread, level: float) -> tuple[float, float]:
        """Return limits of Σ w · count over the cells of the condition."""
        if self.design.filtered and self.few(spread):
            return self._by_cells(spread, level, spread.cells)
        miss = 1 - level
        rows = self.rows(1 - (_CAP if self.design.filtered else _SIDE) * miss)
        low, high = self._by_rows(spread, miss)
        if self.design.filtered:
            heavy = min(spread.cells, spread.largest**2 * rows / self.design.theta)
            close = self._by_cells(spread, 1 - _BY_CELLS * miss, heavy)
            low, high = max(low, close[0]), min(high, close[1])
        least, most = min(spread.low, 0.0) * rows, max(spread.high, 0.0) * rows
        if high < least or low > most:  # rarer than the probability of a miss
            return least, most
        return max(low, least), min(high, most)

    def noise_interval(self, spread: Spread, level: float) -> tuple[float, float]:
        """Return the limits that hold if nothing was left out."""
        if not self.left(spread):
            return self.interval(spread, level)
        half = self._half(spread, level, 0.0)
        return spread.value - half, spread.value + half

    def limits(self, spread: Spread) -> tuple[Limit, Limit]:
        """Return the estimated least and largest Σ w · count, given that cells were left out."""
        missing = min(self.left(spread) * self.most_left_out, self.lost(_ONE_ERROR))
        law = SparseInterval(self, spread)
        return (
            Limit(spread.value + min(spread.low, 0.0) * missing, law),
            Limit(spread.value + max(spread.high, 0.0) * missing, law),
        )

    def left(self, spread: Spread) -> float:
        """Return how many cells of the condition a filter has left out."""
        return max(spread.number - spread.shown, 0.0) if self.design.filtered else 0.0

    def missing(self, spread: Spread, level: float) -> float:
        """Return a number that the rows of left-out cells of the condition do not exceed."""
        cells, law = self.left(spread), self.design.noise
        if cells > 1:
            half = noise_half_width(cells * law.variance, cells * law.fourth, 1.0, level)
        else:
            half = law.half_width(level)
        return min(self.lost(level), cells * self.most_left_out + half)

    @cached_property
    def most_left_out(self) -> int:
        """The largest noisy count of a cell that was left out."""
        return max(self.design.theta, math.ceil(self.design.tau)) - 1

    def few(self, spread: Spread) -> bool:
        """Return whether the noise of the number of rows exceeds what left-out cells can hold."""
        if spread.number <= 1:
            return True
        if self.design.tau:
            return False
        most = spread.number * (self.design.theta - 1)
        return most <= self.design.total_reach(LEVEL)

    def _by_cells(self, spread: Spread, level: float, heavy: float) -> tuple[float, float]:
        """Return limits by the first argument. `heavy` is the largest possible Σ w² over cells of
        at least θ rows.
        """
        least, most = min(spread.low, 0.0), max(spread.high, 0.0)
        left, law = self.left(spread) * self.most_left_out, self.design.noise
        ends = (0.0 if least == 0 else -math.inf, 0.0 if most == 0 else math.inf)
        largest = spread.largest
        if spread.number <= 1:
            half = law.half_width(level) * largest
            low, high = spread.seen + least * left - half, spread.seen + most * left + half
            return max(low, ends[0]), min(high, ends[1])
        above = noise_half_width(
            law.variance * heavy, law.fourth * largest**2 * heavy, largest, level
        )
        if self.design.tau:  # cells that were sampled do not bound the sum from below
            high = spread.seen + most * left + above
            return ends[0], ends[1] if least else high
        if least:  # negative amounts have lower limits of counts on both sides
            below = above = self._half(replace(spread, times=heavy), level, math.inf)
        else:
            below = self._half(spread, level, math.inf)
        low = min(spread.value, spread.seen) + least * left - below
        high = max(spread.value, spread.seen) + most * left + above
        return max(low, ends[0]), min(high, ends[1])

    def _by_rows(self, spread: Spread, miss: float) -> tuple[float, float]:
        """Return limits by the second argument, or those of a release without a filter."""
        own = _BY_ROWS if self.design.filtered else _OWN
        lost = self.lost(1 - _LOST * miss)
        half = self._half(spread, 1 - own * miss, lost)
        low = spread.value - half + min(spread.low, 0.0) * lost
        return low, spread.value + half + max(spread.high, 0.0) * lost

    def rows(self, level: float) -> float:
        """Return a number that the rows do not exceed with probability `level`."""
        return max(self.design.total + self.design.total_reach(level), 0.0)

    def lost(self, level: float) -> float:
        """Return a number that the rows left out by a filter do not exceed, by `level`."""
        if not self.design.filtered:
            return 0.0
        if level not in self._lost:
            rows = lost = self.rows(level)
            for _ in range(_ROUNDS):  # a smaller bound makes its own error smaller
                published = self.whole.value - self._half(self.whole, level, lost)
                lost = min(max(rows - published, 0.0), lost)
            self._lost[level] = lost
        return self._lost[level]

    @cached_property
    def _lost(self) -> dict[float, float]:
        """The results of `lost`, by level."""
        return {}

    @cached_property
    def _excess(self) -> float:
        return self.tails.excess(self.design.theta)

    def _half(self, spread: Spread, level: float, lost: float) -> float:
        """Return how far the sum of published weights is from its mean.

        Cells of less than theta rows have at most `lost` rows, and at most theta - 1 each.
        The noise is bounded by the expansion of its law. A cell that is sampled makes the sum jump
        by tau, and the number of small cells is known from the sample alone, as for Poisson counts.
        The mean number of empty cells that pass a filter is known; the sum of their skewness and of
        half a jump is less than one jump.
        """
        largest, filters = spread.largest, self.design.filtered
        variance = self.variance(spread)
        if filters:
            fewer = min(lost, spread.number * (self.design.theta - 1))
            small = largest**2 * fewer + spread.near
            variance += self._excess * small
        noisy = spread.times if filters else spread.cells
        fourth = self.design.noise.fourth * largest**2 * noisy
        half = noise_half_width(variance, fourth, largest, level)
        if self.design.tau and spread.cells > spread.sure:
            jump = float(self.design.tau) * largest
            half = max(half, score_half_width(variance, jump, level))
        if filters and self.empty.chance * spread.number > (1 - level) / 10:
            half += (self.design.theta + 2 * self.tails.mean) * largest
        return half


def empty_cell(design: Sparse) -> EmptyCell:
    """Return the moments of what a cell without rows adds to published sums."""
    tails, tau = NoiseTails(design.noise), float(design.tau)
    return (
        filtered_empty_cell(tails, design.theta, tau)
        if design.filtered
        else sampled_empty_cell(tails, tau)
    )


@dataclass(frozen=True)
class SparseTotal:
    """The law of the error of a count or a sum; if cells were left out, that of its noise."""

    error: SparseError
    spread: Spread

    @property
    def stderr(self) -> float:
        return math.sqrt(self.error.variance(self.spread))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        limits = self.error.noise_interval(self.spread, level)
        return clipped(limits, value, -math.inf, math.inf)


@dataclass(frozen=True)
class SparseInterval(SparseTotal):
    """The law of a limit of a count or a sum: its interval allows for cells that were left out."""

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return self.error.interval(self.spread, level)


@dataclass(frozen=True, eq=False)
class Amounts:
    """Cells with amounts g between `low` and `high`.

    The first row of `sums` is their estimated number of rows; the others are the seven sums of
    `Spread` in their order. The columns are these sums times g to the powers 0, 1 and 2.
    """

    sums: npt.NDArray[np.float64]
    low: float
    high: float

    @property
    def count(self) -> float:
        return float(self.sums[0, 0])

    @property
    def total(self) -> float:
        return float(self.sums[0, 1])

    @property
    def rows(self) -> Spread:
        """The spread of the cells if every row adds 1."""
        return Spread.counted(self.sums[:, 0])

    def spread(self, ratio: float = 0.0) -> Spread:
        """Return the spread of the cells with weights g - ratio."""
        squares = self.sums[3:] @ np.array([ratio * ratio, -2 * ratio, 1.0])
        times, sampling, sure, near, cells = np.maximum(squares, 0.0).tolist()
        return Spread(
            value=self.total - ratio * self.count,
            seen=float(self.sums[1, 1] - ratio * self.sums[1, 0]),
            shown=float(self.sums[2, 0]),
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
class SparseMean(AverageLaw):
    """The law of an average: a ratio r is possible if Σ (g - r) · count may be 0 (Fieller).

    The interval is that of the noise if cells were left out. It is not a `FiellerRatio`, since the
    error of a filtered release is not symmetric.
    """

    error: SparseError
    amounts: Amounts

    @property
    def parts(self) -> tuple[float, float]:
        return self.amounts.total, self.amounts.count

    @property
    def count_variance(self) -> float:
        return self.error.variance(self.amounts.rows)

    def variance(self, ratio: float) -> float:
        return self.error.variance(self.amounts.spread(ratio))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.amounts.low, self.amounts.high
        middle = min(max(self.value, low), high)
        if not self._possible(middle, level):
            return clipped((low, high), self.value, low, high)
        ends = self._end(middle, low, level), self._end(middle, high, level)
        return clipped(ends, self.value, low, high)

    def _possible(self, ratio: float, level: float) -> bool:
        low, high = self.error.noise_interval(self.amounts.spread(ratio), level)
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


def total_law(error: SparseError, spread: Spread) -> Law:
    """Return the law of a count or a sum, with bounds if cells were left out."""
    noise = SparseTotal(error, spread)
    if not error.left(spread):
        return noise
    low, high = error.limits(spread)
    return Bounded(noise, low, high, spread=lambda: _even_variance(low.value, high.value))


def rest_law(error: SparseError, spread: Spread) -> Law:
    """Return the law of the number of all rows, which is known, less a count."""
    noise, rows = SparseTotal(error, spread), float(error.design.total)
    if not error.left(spread):
        return Rest(noise, rows)
    low, high = (Limit(rows - each.value, Rest(each.law, rows)) for each in error.limits(spread))
    return Bounded(
        Rest(noise, rows), high, low, spread=lambda: _even_variance(low.value, high.value)
    )


def average_law(noise: SparseMean) -> Law:
    """Return the law of an average, with bounds if cells were left out."""
    error, amounts = noise.error, noise.amounts
    if not error.left(amounts.rows):
        return noise
    bounded = BoundedAverage(
        noise,
        lambda ratio, lower: error.limits(amounts.spread(ratio))[0 if lower else 1],
        amounts.low,
        amounts.high,
        noise.value,
        lambda: _even_variance(*bounded.bounds),
    )
    return bounded


def _even_variance(low: float, high: float) -> float:
    """Return the variance of a number that is equally likely anywhere between two limits."""
    return (high - low) ** 2 / 12
