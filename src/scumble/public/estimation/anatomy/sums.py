"""Sums, averages and mixed counts over groups: by regression where the question can be split.

If the amount depends on the row alone, the regression is that of the amounts of rows; if it depends
on the value alone, that of the counts of rows with the amounts as weights of values. Questions
whose conditions or amounts name both get the even-spread value and the bounds of all assignments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import comb, inf, isfinite
from typing import Literal

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.query import Expression
from scumble.public.estimate import Exact
from scumble.public.estimation.anatomy.laws import DealtAverage, DealtSum, Unbiased
from scumble.public.estimation.anatomy.moments import Moments, swap_half_width
from scumble.public.estimation.anatomy.plan import AnatomyPlan, GroupLayout, number
from scumble.public.estimation.anatomy.regression import Regression, Spread, Target
from scumble.public.estimation.interval_laws import Ratio, WeightedSum
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]
Place = tuple[int, int]  # of the keys of rows and of values
Reading = tuple[float, Unbiased]  # the value to show, and the regression's estimate

BY_ROW, BY_VALUE = 1, 2
NO_ROWS = "no published row satisfies the condition"
_COUNT, _TOTAL, _COUNT_VARIANCE, _TOTAL_VARIANCE, _COVARIANCE, _LEAST, _MOST = range(7)
_LIMITS = {"count": (7, 8), "total": (9, 10)}
_MOST_SHARES = 1 << 22  # keys of rows, times values, for which there is a regression


class DealtSums:
    """The laws of sums, averages and mixed counts of a plan, by keys of rows and of values."""

    def __init__(
        self,
        plan: AnatomyPlan,
        moments: Moments,
        held: GroupLayout,
        fitted: Regression,
        engine: Sandbox,
    ) -> None:
        self._plan, self._moments, self._engine = plan, moments, engine
        self._held, self._fitted = held, fitted
        self.keys, self.lines = moments.sums()

    # Sums and mixed counts.

    def total(
        self, at: Place, line: Floats, what: Literal["count", "total"]
    ) -> tuple[float, DealtSum | None]:
        """Return the value and the law of a sum; None instead of a law if it is exact."""
        first = what == "count"
        even = float(line[_COUNT if first else _TOTAL])
        variance = float(line[_COUNT_VARIANCE if first else _TOTAL_VARIANCE])
        missing = self._missing_sum(at, count=first)
        if not variance and missing == (0.0, 0.0):
            return even, None
        noise = WeightedSum(variance, self._swapped(line), swap_half_width) if variance else Exact()
        low, high = _LIMITS[what]
        certain = (float(line[low]), float(line[high])) if variance else (even, even)
        found = self._sum(at) if variance else None
        known = found is not None and isfinite(found[1].largest)
        law = DealtSum(even, noise, certain, found[1] if found and known else None, missing)
        return law.clip(found[0] if found else even), law

    def _sum(self, at: Place) -> Reading | None:
        """Return the regression estimate of a sum of the amounts."""
        if not self._regresses:
            return None
        if self._moments.kind == BY_VALUE:
            return self._read_values(at, self._value_amounts[0])
        mean, whole = self._means(at[0])
        found = self._read_amounts(at, 0.0 if whole else -mean)
        if not whole:
            return found
        known = mean * float(self._fitted.numbers @ self._asked(at[1]))
        value, law = found
        moved = Unbiased(law.value + known, law.variance, law.largest, law.reach)
        return value + known, moved

    # Averages.

    def average(self, at: Place, line: Floats) -> tuple[float, DealtAverage | None]:
        """Return the value and the law of an average; None instead of a law if it is exact."""
        count, total = float(line[_COUNT]), float(line[_TOTAL])
        even = total / count
        missing = self._missing(at[1])
        known = not line[_COUNT_VARIANCE] and not line[_TOTAL_VARIANCE]
        if known and not missing:
            return even, None
        centred, counted = (None, None) if known else (self._centred(at), self._counted(at))
        certain = (even, even) if known else self._possible_averages(line, even)
        value, rows = even, count
        if centred is not None and counted is not None:
            rows = max(counted[0], 0.0)
            value = even + centred(even)[0] / rows if rows else even
        value = min(max(value, certain[0]), certain[1])
        law = DealtAverage(
            even,
            Exact() if known else self._ratio(line),
            certain,
            None if centred is None else lambda ratio: centred(ratio)[1],
            rows,
            float(line[_LIMITS["count"][0]]),
            missing,
            self._amount_range if missing else (0.0, 0.0),
        )
        return value, law

    def _centred(self, at: Place) -> Callable[[float], Reading] | None:
        """Return the regression estimate of Σ (amount - t) as a function of t."""
        if not self._regresses:
            return None
        if self._moments.kind == BY_ROW:
            mean = self._means(at[0])[0]
            return lambda ratio: self._read_amounts(at, ratio - mean)
        amounts, _ = self._value_amounts
        return lambda ratio: self._read_values(at, amounts - ratio)

    def _counted(self, at: Place) -> Reading | None:
        """Return the regression estimate of the number of rows that are averaged."""
        if not self._regresses:
            return None
        if self._moments.kind == BY_VALUE:
            return self._read_values(at, np.ones(self._fitted.size))
        met = self._powers[0, at[0]][None]
        spread = self._fitted.spread_of_counts(met)
        return self._read(self._fitted.target(self._asked(at[1])), met, spread, 1.0)

    @staticmethod
    def _possible_averages(line: Floats, even: float) -> tuple[float, float]:
        """Return limits of the average from those of total and count, and of the amounts."""
        fewest, most = (float(line[place]) for place in _LIMITS["count"])
        low, high = (float(line[place]) for place in _LIMITS["total"])
        least, largest = float(line[_LEAST]), float(line[_MOST])
        if fewest > 0:
            least = max(least, low / (most if low > 0 else fewest))
            largest = min(largest, high / (fewest if high > 0 else most))
        return min(least, even), max(largest, even)

    # The regression of this question.

    @cached_property
    def _regresses(self) -> bool:
        few = self.keys[0].size * self._fitted.size <= _MOST_SHARES
        return bool(self._moments.kind and self._fitted.possible and few)

    @cached_property
    def _values(self) -> npt.NDArray[np.int64]:
        """The key of each value of the regression."""
        return self._fitted.of_values(self._moments.by_line(1)[0])

    def _asked(self, key: int) -> Floats:
        found: Floats = (self._values == key).astype(np.float64)
        return found

    @cached_property
    def _row_amounts(self) -> tuple[npt.NDArray[np.int64], Floats]:
        """The key and the amount of each row; -1 and 0 if it does not count."""
        keys, cells = self._moments.by_line(0)
        amounts = self._moments.amounts()[cells]
        counts = (keys >= 0) & ~np.isnan(amounts)
        return np.where(counts, keys, -1), np.where(counts, amounts, 0.0)

    @cached_property
    def _key_means(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """The mean amount and the number of the rows of each key."""
        keys, amounts = self._row_amounts
        size, there = self.keys[0].size, keys >= 0
        numbers = np.bincount(keys[there], minlength=size)
        totals = np.bincount(keys[there], amounts[there], size)
        return totals / np.maximum(numbers, 1), numbers

    def _means(self, row: int) -> tuple[float, bool]:
        """Return the mean amount of the rows of a key, and whether it has all rows."""
        means, numbers = self._key_means
        return float(means[row]), int(numbers[row]) == self._held.rows.lines

    @cached_property
    def _powers(self) -> Floats:
        """The u of the powers 0 to 4 of the amounts, less the mean of their key."""
        keys, amounts = self._row_amounts
        centred = np.where(keys >= 0, amounts - self._key_means[0][keys], 0.0)
        return self._fitted.powers(keys, self.keys[0].size, centred)

    def _read_amounts(self, at: Place, offset: float) -> Reading:
        """Return the regression estimate of Σ (amount - mean of the key - offset)."""
        row, (mean, whole) = at[0], self._means(at[0])
        met = [
            sum(
                comb(n, k) * (-offset) ** (n - k) * self._powers[k, row][None] for k in range(n + 1)
            )
            for n in range(5)
        ]
        spread = self._fitted.spread_of_amounts(met)
        width = self._width(row, mean + offset, whole=whole)
        return self._read(self._fitted.target(self._asked(at[1])), met[1], spread, width)

    def _width(self, row: int, centre: float, *, whole: bool) -> float:
        """Return the largest difference of the amounts of two rows, less `centre`."""
        low, high = (each[row] - centre for each in self._ends)
        if not whole:  # other rows add 0
            low, high = min(low, 0.0), max(high, 0.0)
        return float(high - low)

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        """The least and the largest amount of each key of rows."""
        keys, amounts = self._row_amounts
        there, size = keys >= 0, self.keys[0].size
        low, high = np.full(size, inf), np.full(size, -inf)
        np.minimum.at(low, keys[there], amounts[there])
        np.maximum.at(high, keys[there], amounts[there])
        return low, high

    @cached_property
    def _value_amounts(self) -> tuple[Floats, Floats]:
        """The amount of each value of the regression, 0 where it has none; and u of each key."""
        cells = self._fitted.of_values(self._moments.by_line(1)[1])
        amounts = np.where(cells >= 0, self._moments.amounts()[cells], 0.0)
        met = self._fitted.together(self._moments.by_line(0)[0], self.keys[0].size)
        return np.nan_to_num(amounts, nan=0.0), met.astype(np.float64)

    def _read_values(self, at: Place, amounts: Floats) -> Reading:
        """Return the regression estimate of the sum of `amounts` of the values."""
        met = self._value_amounts[1][at[0]][None]
        spread = self._fitted.spread_of_counts(met)
        return self._read(self._fitted.solve(self._asked(at[1]) * amounts), met, spread, 1.0)

    def _read(self, target: Target, met: Floats, spread: Spread, width: float) -> Reading:
        """Return the regression's reading; of unlimited variance if it cannot tell the answer."""
        read = self._fitted.read(target, met, spread)
        value, reach = float(read.unbiased[0]), target.reach * width
        if not target.estimable:
            return float(read.values[0]), Unbiased(value, inf, inf, reach)
        law = Unbiased(value, float(read.variances[0]), float(read.largest[0]), reach)
        return float(read.values[0]), law

    # Rows that were left out, and even spread.

    def _missing(self, key: int) -> float:
        """Return how many rows of a key of values may be missing."""
        may = self._fitted.most_frequent[self._values == key].any() or not len(self._values)
        return self._plan.evidence.missing if may else 0.0

    def _missing_sum(self, at: Place, *, count: bool) -> tuple[float, float]:
        """Return the least and the largest that missing rows can add."""
        missing = self._missing(at[1])
        if not missing:
            return 0.0, 0.0
        low, high = (1.0, 1.0) if count else self._amount_range
        return min(0.0, missing * low) if low else 0.0, max(0.0, missing * high) if high else 0.0

    @cached_property
    def _amount_range(self) -> tuple[float, float]:
        """The least and the largest amount over the domain, infinite if it is too large."""
        argument = self._plan.query.argument or Expression("1", ())
        try:
            [found] = self._engine.evaluate(
                [Expression(number(argument), argument.attributes)], argument.attributes
            )
        except QueryError:
            return -inf, inf
        return float(np.min(found)), float(np.max(found))

    def _swapped(self, line: Floats) -> float:
        """Return the largest change of the sum if two rows swap their values."""
        width = max(float(line[_MOST]), 0.0) - min(float(line[_LEAST]), 0.0)
        if not isfinite(width):
            return 0.0
        return width if self._plan.separable else 2 * width

    def _ratio(self, line: Floats) -> Ratio:
        """Return the law of an average under even spread."""
        least, most = float(line[_LEAST]), float(line[_MOST])
        factor = 1.0 if self._plan.separable else 2.0
        width = factor * (most - least)
        variances = max(float(line[_TOTAL_VARIANCE]), 0.0), float(line[_COUNT_VARIANCE])
        return Ratio(
            float(line[_TOTAL]),
            float(line[_COUNT]),
            variances=(*variances, float(line[_COVARIANCE])),
            amounts=(least, (least + most) / 2, most),
            largest=(width, width, width),
            slope=factor,
            bound=swap_half_width,
        )
