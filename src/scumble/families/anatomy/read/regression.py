"""Counts and sums over groups by regression: no assumption about how values go with rows.

The publisher deals the records of each value to the places of that value in the groups, and every
way to deal them is equally likely (`families/anatomy/publish.py`). Let x be a number of each
row (1 if it satisfies a condition, else 0; or an amount), y_g its sum over group g, m_gv how often
value v is in group g, and β_v the mean of x over the N_v records with value v. Then

    E[y_g] = Σ_v m_gv β_v,

and least squares over groups estimates every β without bias. Groups have the weight 1 / size, which
is best if x varies equally for all values, and for which the estimated Σ_v N_v β_v is exactly Σ y.
A question is Σ_v ω_v N_v β_v. Its estimate is Σ_g c_g y_g with Σ_{g with v} c_g = ω_v N_v for all
v, so that its error is Σ over records (c_g - ω_v) x. Records of a value are dealt without
replacement and those of different values independently, so the variance is exactly

    Σ_v q_v τ_v,   q_v = Σ over the places of v of (c_g - ω_v)²,

with τ_v the variance of x over the records of v (divisor N_v - 1; Hoeffding, 1951).

All that depends on the question about rows is u_v = Σ_g w_g m_gv y_g. With w = 1 / size, u_v is the
estimate of N_v β_v under an even spread of values in groups, which is biased.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import lcm
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from scumble.families.anatomy.design import Groups
from scumble.families.anatomy.read.kernels import (
    add_products,
    count_rows_together,
    count_together,
    spread_coefficients,
)
from scumble.families.anatomy.read.plan import Combinations, GroupLayout
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]

_MOST_VALUES = 512  # different combinations of sensitive values for which there is a regression
_MOST_WORK = 1 << 31  # values · lines of the value table
_MOST_WEIGHT = 1 << 20  # least common multiple of the sizes of groups
_MOST_TARGETS = 1 << 12  # that are kept
_SHARED_SUMS = 1 << 22  # of all threads together, each of which has its own
_RANK = (
    2e-3  # directions with smaller eigenvalues, of the largest, are left open: too few groups tell
)
_BIAS = 1e-7  # of an estimate that is unbiased up to rounding
_MARGIN = 2.0  # standard errors by which the shares of values may be off in the limit of a variance


@dataclass(frozen=True, eq=False)
class WeightedQuestion:
    """A question about values: the weight ω of each value, and what its estimate depends on.

    The estimate is `solved` · u. Where the groups leave a part of it open, `completed` · u takes
    that part from even spread, and `even` · u is even spread; both count left-out rows too.
    `squares` are the q_v, and `reach` is the largest change of the error if two records of a value
    swap their groups. `estimable` says whether it is unbiased.
    """

    asked: Floats
    solved: Floats
    completed: Floats
    even: Floats
    squares: Floats
    reach: float
    estimable: bool


@dataclass(frozen=True, eq=False)
class ValueSpread:
    """How x varies within values, for some questions about rows (first axis) by value (second).

    `variances` are the estimated τ, `largest` upper limits of them. `shrinkage` is for each
    question about rows the weight of the regression against even spread in the value.
    """

    variances: Floats
    largest: Floats
    shrinkage: Floats


@dataclass(frozen=True, eq=False)
class Regressed:
    """Estimates of some questions about rows and one about values.

    `unbiased` are those of the regression, `variances` their estimated variances and `largest`
    upper limits of these. `values` are the estimates to show:
    the regression, shrunk towards even spread as far as chance explains that they differ.
    """

    unbiased: Floats
    variances: Floats
    largest: Floats
    values: Floats


# Regressions over the groups of layouts; each is in memory as long as its layout.
_known: WeakKeyDictionary[GroupLayout, Regression] = WeakKeyDictionary()


def regression(evidence: Groups, layout: GroupLayout, engine: Sandbox) -> Regression:
    """Return the regression over the groups of a layout; it is made when first needed."""
    if layout not in _known:
        values = layout.values.combinations(engine, evidence.sensitive, [])
        _known[layout] = Regression(layout, values, evidence.left_out or 0)
    return _known[layout]


class Regression:
    """The regression over the groups of a layout. `values` are all combinations of sensitive
    attributes, by line of the value table. `left_out` rows with the most frequent values are not in
    the groups: they are a random choice, so that shown values count them as the others.
    """

    def __init__(self, layout: GroupLayout, values: Combinations, left_out: int = 0) -> None:
        self._layout = layout
        self.size = values.size
        self._of = values.of.astype(np.int32)
        self.numbers = np.bincount(self._of, layout.counts, self.size)
        common = lcm(*layout.distinct_sizes.tolist()) if layout.groups else 1
        if common > _MOST_WEIGHT:
            common = 0
        self.unit = float(common or 1)
        sizes = np.maximum(layout.sizes, 1)
        self.weights: Numbers = common // sizes if common else 1 / sizes
        frequent = self.most_frequent
        self._all = self.numbers + frequent * left_out / max(int(frequent.sum()), 1)
        self._known: OrderedDict[bytes, WeightedQuestion] = OrderedDict()

    @property
    def possible(self) -> bool:
        """Whether there are few enough values for a regression."""
        lines = self._layout.values.lines
        return 0 < self.size <= _MOST_VALUES and self.size * lines <= _MOST_WORK

    @property
    def _inverse(self) -> Floats:
        """The pseudo-inverse of the normal equations of the weights `weights`."""
        return self._solution[0]

    @cached_property
    def _solution(self) -> tuple[Floats, Floats]:
        """The pseudo-inverse, and the projection of β on what the normal equations leave open."""
        equations = np.zeros((self.size, self.size))
        add_products(*self.lines, equations)
        scale = 1 / np.sqrt(np.maximum(np.diag(equations), 1e-300))
        roots, vectors = np.linalg.eigh(equations * scale[:, None] * scale)
        known = roots > _RANK * max(float(roots[-1]), 0.0)
        half, rest = vectors[:, known] * scale[:, None], vectors[:, ~known]
        return (half / roots[known]) @ half.T, scale[:, None] * (rest @ rest.T) / scale

    def target(self, asked: Floats) -> WeightedQuestion:
        """Return what a question with the weights `asked` of all values depends on."""
        key = asked.tobytes()
        target = self._known.get(key)
        if target is None:
            target = self._known[key] = self.solve(asked)
            if len(self._known) > _MOST_TARGETS:
                self._known.popitem(last=False)
        return target

    def solve(self, asked: Floats) -> WeightedQuestion:
        """Return `target(asked)`, without keeping it."""
        wanted = asked * self.numbers
        inverse, left_open = self._solution
        solved = inverse @ wanted
        every = asked * self._all
        even = every / (self.unit * self.numbers)
        completed = inverse @ every + every @ left_open / (self.unit * self.numbers)
        sums, squares, reach = spread_coefficients(*self.lines, solved, asked)
        tolerance = _BIAS * float(np.abs(wanted).max(initial=0.0))
        estimable = bool(np.abs(sums - wanted).max(initial=0.0) <= tolerance)
        return WeightedQuestion(asked, solved, completed, even, squares, float(reach), estimable)

    @cached_property
    def _singles(self) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """The q of each value of the estimate of each β (first axis), and which are unbiased."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            targets = list(pool.map(self.target, np.eye(self.size)))
        squares = np.array([target.squares for target in targets]) / self.numbers[:, None] ** 2
        return squares, np.array([target.estimable for target in targets])

    @cached_property
    def most_frequent(self) -> npt.NDArray[np.bool_]:
        """Which values have the largest number of records. Only of these may rows be left out."""
        frequent: npt.NDArray[np.bool_] = self.numbers == self.numbers.max(initial=0)
        return frequent

    @property
    def lines(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Where groups begin in the value table, the values and times of its lines, and weights."""
        return self._layout.values.starts, self._of, self._layout.counts, self.weights

    @cached_property
    def whole(self) -> Floats:
        """The u of all rows."""
        weight = self.weights * np.diff(self._layout.rows.starts)
        groups = np.repeat(np.arange(self._layout.groups), np.diff(self._layout.values.starts))
        amounts = (weight[groups] * self._layout.counts).astype(np.float64)
        sums: Floats = np.bincount(self._of, amounts, self.size).astype(np.float64)
        return sums

    def together(self, keys: Integers, size: int) -> Integers | Floats:
        """Return u of the rows of each of `size` keys; -1 is the key of rows that do not count."""
        layout = self._layout
        if keys.dtype != np.int8:  # two types, for each of which the kernel is compiled
            keys = keys.astype(np.int32, copy=False)
        sides = (layout.rows.starts, keys), (layout.values.starts, self._of)
        threads = max(min(os.cpu_count() or 1, _SHARED_SUMS // max(size * self.size, 1)), 1)
        borders = np.linspace(0, layout.groups, threads + 1).astype(np.int64).tolist()

        def count(share: tuple[int, int]) -> Numbers:
            sums = np.zeros((size, self.size), self.weights.dtype)
            count_rows_together(share, *sides, layout.counts, self.weights, sums)
            return sums

        with ThreadPoolExecutor(threads) as pool:
            totals: Integers | Floats = np.sum(list(pool.map(count, pairwise(borders))), axis=0)
        return totals

    def powers(self, keys: Integers, size: int, amounts: Floats) -> Floats:
        """Return u of the powers 0 to 4 of the amounts of rows, as [power, key, value]."""
        layout = self._layout
        sums = np.zeros((5, size, self.size))
        powers = np.power(amounts[:, None], np.arange(5))
        sides = (layout.rows.starts, keys.astype(np.int32)), (layout.values.starts, self._of)
        count_together(*sides, layout.counts, self.weights, powers, sums)
        return sums

    def of_values(self, lines: Integers) -> Integers:
        """Return by value a number that every line of the value table with it has."""
        return lines[self._line_of_value].astype(np.int64)

    @cached_property
    def _line_of_value(self) -> Integers:
        """A line of the value table with each value."""
        line = np.empty(self.size, np.int64)
        line[self._of] = np.arange(len(self._of))
        return line

    def shares(self, met: Floats) -> Floats:
        """Return the estimated β of every value, for each u (rows of `met`)."""
        shares: Floats = met @ self._inverse
        return shares

    def spread_of_counts(self, met: Floats) -> ValueSpread:
        """Return how the indicator of a condition varies within values.

        The count of rows with value v that satisfy it is at most the number of such rows in groups
        with v, which confines β without any chance; the regression confines it further. τ is
        β(1 - β)N / (N - 1), and the limit is its largest value there.
        """
        numbers = self.numbers
        high = np.minimum(met * self._upward / numbers, 1)
        low = 1 - np.minimum((self.whole - met) * self._upward / numbers, 1)
        low = np.minimum(np.maximum(low, 0), high)
        share = np.clip(self.shares(met), low, high)
        once = numbers / np.maximum(numbers - 1, 1)
        variances = once * share * (1 - share)
        squares, estimable = self._singles
        error = _MARGIN * np.sqrt(_most_varied(low, high) * once @ squares.T)
        error[:, ~estimable] = np.inf
        ends = np.maximum(share - error, low), np.minimum(share + error, high)
        return ValueSpread(variances, once * _most_varied(*ends), self._shrinkage(met, variances))

    def spread_of_amounts(self, powers: Sequence[Floats]) -> ValueSpread:
        """Return how amounts vary within values, from u of their powers 0 to 4.

        Amounts are taken around their mean. τ is at most (mean of squares - square of the mean) ·
        N / (N - 1). Both means come from the regression with a margin; the largest mean of squares,
        and of fourth powers, is that of all rows in groups with the value.
        """
        numbers = self.numbers
        once = numbers / np.maximum(numbers - 1, 1)
        squares, estimable = self._singles
        most = [powers[n] * self._upward / numbers for n in (2, 4)]
        mean, square = self.shares(powers[1]), np.clip(self.shares(powers[2]), 0, most[0])
        errors = [
            _MARGIN * np.sqrt(np.maximum(largest_sums, 0) * once @ squares.T)
            for largest_sums in most
        ]
        for error in errors:
            error[:, ~estimable] = np.inf
        inner = np.maximum(np.abs(mean) - errors[0], 0)
        largest = np.maximum(np.minimum(square + errors[1], most[0]) - inner**2, 0)
        variances = np.maximum(square - mean**2, 0)
        shrinkage = self._shrinkage(powers[1], once * variances)
        return ValueSpread(once * np.minimum(variances, largest), once * largest, shrinkage)

    @cached_property
    def _upward(self) -> float:
        """An upper limit of 1 / weight of a group."""
        return 1 / float(self.weights.min()) if len(self.weights) else 1.0

    def _shrinkage(self, met: Floats, variances: Floats) -> Floats:
        """Return the weight of the regression against even spread: 1 - variance / difference².

        Both are sums over values. This is the positive-part James-Stein rule: what chance explains
        of the difference is no reason to leave even spread, whose variance is smaller.
        """
        squares, estimable = self._singles
        numbers = self.numbers * estimable
        variance = variances @ (squares * numbers[:, None] ** 2).sum(axis=0)
        apart = numbers * self.shares(met) - estimable * met / self.unit
        difference = (apart**2).sum(axis=1)
        weight: Floats = np.maximum(1 - variance / np.maximum(difference, 1e-300), 0)
        return np.where(variance > 0, weight, 1.0)

    def read(self, target: WeightedQuestion, met: Floats, spread: ValueSpread) -> Regressed:
        """Return the estimates of questions with the given u about rows and `target` about values.

        `met` is u of the number that is added up.
        """
        unbiased = met @ target.solved
        even = met @ target.even
        values = even + spread.shrinkage * (met @ target.completed - even)
        variances, largest = (
            numbers @ target.squares for numbers in (spread.variances, spread.largest)
        )
        return Regressed(unbiased, variances, largest, values)


def _most_varied(low: Floats, high: Floats) -> Floats:
    """Return the largest β(1 - β) for β from `low` to `high`."""
    middle = np.clip(0.5, low, high)
    variances: Floats = middle * (1 - middle)
    return variances
