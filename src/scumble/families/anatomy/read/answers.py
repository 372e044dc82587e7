"""Answers from groups: the laws of their errors, sums over groups, and questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, inf, isfinite
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.families.anatomy.design import Groups
from scumble.families.anatomy.read.kernels import BY_ROW, BY_VALUE, COUNT, JOINT
from scumble.families.anatomy.read.limits import AnswerLimits
from scumble.families.anatomy.read.plan import (
    AnatomyPlan,
    Combinations,
    GroupLayout,
    key,
    layout,
    number,
)
from scumble.families.anatomy.read.regression import (
    Regressed,
    Regression,
    ValueSpread,
    WeightedQuestion,
    regression,
)
from scumble.model.errors import QueryError
from scumble.model.long_work import told
from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.interval_laws import NEAR_ZERO
from scumble.public.sandbox import Sandbox

_STEPS = 40  # halvings: the ends of an average are found to a part in 10^12, and rounded outwards
_SCAN = 8  # places that are tried before the halvings


def swap_half_width(variance: float, largest: float, level: float) -> float:
    """Return how far a sum over groups is from its mean with probability `level`.

    This is the normal law of its `variance`, which is known and not estimated, a correction for
    skewness, and half a swap for sums that jump. `largest` is the largest change of the sum if two
    rows of a group swap their values.

    A sum of independent errors of at most `largest` has a third moment of at most largest ·
    variance, so that its Cornish-Fisher term is at most largest · (z² - 1) / 6. This is no theorem,
    but enumeration found no case that covers less than its level (0.5 to 0.999): 1 to 60 groups of
    2 to 5 rows, counts and amounts of one or both signs, single rows that outweigh all others.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    return z * math.sqrt(variance) + largest * (max(z * z - 1, 0.0) / 6 + 0.5)


@dataclass(frozen=True)
class Unbiased:
    """A regression estimate: its value and its variance, estimated and at most.

    `reach` is the largest change of its error if two records swap their groups.
    """

    value: float
    variance: float
    largest: float
    reach: float

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance or self.largest)

    def half_width(self, level: float) -> float:
        return swap_half_width(self.largest, self.reach, level)


@dataclass(frozen=True, eq=False)
class DealtSum:
    """The law of a count or sum over groups.

    `certain` are the least and the largest answer of the published rows, and `missing` what rows
    that were left out of the release may add to them. `unbiased` is None where the regression
    cannot tell the answer.
    """

    certain: tuple[float, float]
    unbiased: Unbiased | None = None
    missing: tuple[float, float] = (0.0, 0.0)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest answer, whatever row has whatever value of its group."""
        return self.certain[0] + self.missing[0], self.certain[1] + self.missing[1]

    @property
    def stderr(self) -> float:
        """The regression's standard error; (U - L) / √12 if that is less, or without one."""
        known, unknown = (
            (high - low) / math.sqrt(12) for low, high in (self.certain, self.missing)
        )
        if self.unbiased is not None:
            known = min(known, self.unbiased.stderr)
        return math.hypot(known, unknown)

    def clip(self, value: float) -> float:
        """Return `value` cut to the bounds."""
        return min(max(value, self.bounds[0]), self.bounds[1])

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.certain
        if self.unbiased is not None:
            half = self.unbiased.half_width(level)
            low, high = max(low, self.unbiased.value - half), min(high, self.unbiased.value + half)
        low, high = min(low, self.certain[1]), max(high, self.certain[0])
        inside = self.clip(value)
        return min(low + self.missing[0], inside), max(high + self.missing[1], inside)

    def noise_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval: nothing but the groups is between the estimate and the truth."""
        return self.interval(value, level)

    typical_interval = noise_interval


@dataclass(frozen=True, eq=False)
class DealtAverage:
    """The law of an average over groups.

    `even` is the average if values are spread evenly within groups. `centred(t)` is the regression
    estimate of Σ (x - t); None without a regression. The average is t exactly if this sum is 0,
    and `rows` is the estimated number of its rows. `certain` are limits of the average of the
    published rows, and `count` the least number of rows that it is made of. Rows that were left
    out, at most `missing` of them, have amounts between `amounts`.
    """

    even: float
    certain: tuple[float, float]
    centred: Callable[[float], Unbiased] | None
    rows: float
    count: float
    missing: float = 0.0
    amounts: tuple[float, float] = (0.0, 0.0)

    @property
    def bounds(self) -> tuple[float, float]:
        return self._widen(*self.certain)

    @property
    def stderr(self) -> float:
        """The delta method's standard error; without a regression, (U - L) / √12 at most."""
        low, high = self.bounds
        convention = (high - low) / math.sqrt(12)
        if self.centred is None or not self.rows or self.missing:
            return convention
        return min(convention, self.centred(self.even).stderr / self.rows)

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.count or self.rows >= 1 else (NEAR_ZERO,)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.certain
        inside = min(max(value, low), high)
        if (centred := self.centred) is not None:

            def excludes(ratio: float) -> bool:
                law = centred(ratio)
                return abs(law.value) > law.half_width(level)

            low, high = (_edge(excludes, end, inside) for end in (low, high))
        return self._widen(min(low, inside), max(high, inside))

    def noise_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval: nothing but the groups is between the estimate and the truth."""
        return self.interval(value, level)

    typical_interval = noise_interval

    def _widen(self, low: float, high: float) -> tuple[float, float]:
        """Return limits of the average with the rows that were left out."""
        if not self.missing:
            return low, high
        least, most = self.amounts
        if not math.isfinite(self.missing) or not self.count:
            return min(low, least), max(high, most)
        share = self.missing / (self.missing + self.count)
        return (
            min(low, low + share * (least - low)) if math.isfinite(least) else least,
            max(high, high + share * (most - high)) if math.isfinite(most) else most,
        )


def _edge(excludes: Callable[[float], bool], outside: float, inside: float) -> float:
    """Return the end of what is not excluded, searched from `outside` to `inside`."""
    if not excludes(outside):
        return outside
    start = outside
    for step in range(1, _SCAN + 1):
        ratio = start + (inside - start) * step / _SCAN
        if not excludes(ratio):
            inside = ratio
            break
        outside = ratio
    for _ in range(_STEPS):
        middle = (outside + inside) / 2
        if excludes(middle):
            outside = middle
        else:
            inside = middle
    return outside


# --- sums -----------------------------------------------------------------------------------------
#
# Counts, sums and averages over groups: by regression where the question can be split.
#
# If the amount depends on the row alone, the regression is that of the amounts of rows; if it
# depends on the value alone, that of the counts of rows with the amounts as weights of values.
# Questions whose conditions or amounts name both get the mean over all assignments and their
# bounds.

Floats = npt.NDArray[np.float64]
Place = tuple[int, int]  # of the keys of rows and of values
ShownValue = tuple[float, Unbiased]  # the value to show, and the regression's estimate

NO_ROWS = "no published row satisfies the condition"
_MOST_SHARES = 1 << 24  # keys of rows, times values, for which there is a regression
_MOST_POWERS = 1 << 22  # such shares of amounts of rows, whose powers are added up


class DealtSums:
    """The laws of counts, sums and averages of a plan, by keys of rows and of values."""

    def __init__(
        self,
        plan: AnatomyPlan,
        limits: AnswerLimits,
        held: GroupLayout,
        fitted: Regression,
        engine: Sandbox,
    ) -> None:
        self._plan, self._limits, self._engine = plan, limits, engine
        self._held, self._fitted = held, fitted
        self.keys, self.lines = limits.sums()
        self._known: dict[int, tuple[WeightedQuestion, Regressed]] = {}  # counts by key of values

    # Counts and sums.

    def total(self, at: Place, line: Floats) -> tuple[float, DealtSum | None]:
        """Return the value and the law of a count or sum; None instead of a law if it is exact."""
        count = self._plan.query.aggregate == "count"
        even, low, high = line[:3].tolist() if count else line[3:6].tolist()
        missing = self._missing_sum(at, count=count)
        known = low == high
        if known and missing[0] == missing[1]:
            return low + missing[0], None
        reading = self._sum(at) if count or not known else None
        tells = reading is not None and not known and isfinite(reading[1].largest)
        law = DealtSum((low, high), reading[1] if reading and tells else None, missing)
        return law.clip(reading[0] if reading else even), law

    def _sum(self, at: Place) -> ShownValue | None:
        """Return the regression estimate of a count, or of a sum of the amounts."""
        if not self._regresses:
            return None
        if self._limits.kind == COUNT:
            return self._count(at)
        if self._limits.kind == BY_VALUE:
            return self._read_values(at, self._value_amounts)
        mean, whole = self._means(at[0])
        reading = self._read_amounts(at, 0.0 if whole else -mean)
        if not whole:
            return reading
        known = mean * float(self._fitted.numbers @ self._weigh_key(at[1]))
        value, law = reading
        moved = Unbiased(law.value + known, law.variance, law.largest, law.reach)
        return value + known, moved

    def _count(self, at: Place) -> ShownValue:
        """Return the regression estimate of a count; all keys of rows are read together."""
        if at[1] not in self._known:
            target = self._fitted.target(self._weigh_key(at[1]))
            self._known[at[1]] = target, self._fitted.read(target, *self._counts)
        return _reading(*self._known[at[1]], at[0])

    # Averages.

    def average(self, at: Place, line: Floats) -> tuple[float, DealtAverage | None]:
        """Return the value and the law of an average; None instead of a law if it is exact."""
        even = float(line[3] / line[0])
        missing = self._missing(at[1])
        known = line[1] == line[2] and line[4] == line[5]
        if known and not missing:
            return even, None
        centred, counted = (None, None) if known else (self._read_centred(at), self._read_count(at))
        certain = (even, even) if known else self._possible_averages(line, even)
        value, rows = even, float(line[0])
        if centred is not None and counted is not None:
            rows = max(counted[0], 0.0)
            value = even + centred(even)[0] / rows if rows else even
        value = min(max(value, certain[0]), certain[1])
        law = DealtAverage(
            even,
            certain,
            None if centred is None else lambda ratio: centred(ratio)[1],
            rows,
            float(line[1]),
            missing,
            self._amount_range if missing else (0.0, 0.0),
        )
        return value, law

    def _read_centred(self, at: Place) -> Callable[[float], ShownValue] | None:
        """Return the regression estimate of Σ (amount - t) as a function of t."""
        if not self._regresses:
            return None
        if self._limits.kind == BY_ROW:
            mean = self._means(at[0])[0]
            return lambda ratio: self._read_amounts(at, ratio - mean)
        return lambda ratio: self._read_values(at, self._value_amounts - ratio)

    def _read_count(self, at: Place) -> ShownValue | None:
        """Return the regression estimate of the number of rows that are averaged."""
        if not self._regresses:
            return None
        if self._limits.kind == BY_VALUE:
            return self._read_values(at, np.ones(self._fitted.size))
        met = self._powers[0, at[0]][None]
        spread = self._fitted.spread_of_counts(met)
        return self._read(self._fitted.target(self._weigh_key(at[1])), met, spread, 1.0)

    @staticmethod
    def _possible_averages(line: Floats, even: float) -> tuple[float, float]:
        """Return limits of the average from those of total and count, and of the amounts."""
        _, fewest, most, _, low, high, least, largest = line.tolist()
        if fewest > 0:
            least = max(least, low / (most if low > 0 else fewest))
            largest = min(largest, high / (fewest if high > 0 else most))
        return min(least, even), max(largest, even)

    # The regression of this question.

    @cached_property
    def _regresses(self) -> bool:
        most = _MOST_POWERS if self._limits.kind == BY_ROW else _MOST_SHARES
        few = self.keys[0].size * self._fitted.size <= most
        return self._limits.kind != JOINT and self._fitted.possible and few

    @cached_property
    def _values(self) -> npt.NDArray[np.int64]:
        """The key of each value of the regression."""
        return self._fitted.of_values(self._limits.keys_by_line(1))

    def _weigh_key(self, key: int) -> Floats:
        weights: Floats = (self._values == key).astype(np.float64)
        return weights

    @cached_property
    def _row_amounts(self) -> tuple[npt.NDArray[np.int64], Floats]:
        """The key and the amount of each row; -1 and 0 if it does not count."""
        keys = self._limits.keys_by_line(0)
        amounts = self._limits.amounts()[self._limits.cells_by_line(0)]
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

    def _read_amounts(self, at: Place, offset: float) -> ShownValue:
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
        return self._read(self._fitted.target(self._weigh_key(at[1])), met[1], spread, width)

    def _width(self, row: int, centre: float, *, whole: bool) -> float:
        """Return the largest difference of the amounts of two rows, less `centre`."""
        low, high = (ends[row] - centre for ends in self._ends)
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
    def _value_amounts(self) -> Floats:
        """The amount of each value of the regression, 0 where it has none."""
        cells = self._fitted.of_values(self._limits.cells_by_line(1))
        amounts = np.where(cells >= 0, self._limits.amounts()[cells], 0.0)
        return np.nan_to_num(amounts, nan=0.0)

    @cached_property
    def _counts(self) -> tuple[Floats, ValueSpread]:
        """The u of the rows of each key, and how they vary."""
        met = self._fitted.together(self._limits.keys_by_line(0), self.keys[0].size)
        counts = met.astype(np.float64)
        return counts, self._fitted.spread_of_counts(counts)

    def _read_values(self, at: Place, amounts: Floats) -> ShownValue:
        """Return the regression estimate of the sum of `amounts` of the values."""
        met = self._counts[0][at[0]][None]
        spread = self._fitted.spread_of_counts(met)
        return self._read(self._fitted.solve(self._weigh_key(at[1]) * amounts), met, spread, 1.0)

    def _read(
        self, target: WeightedQuestion, met: Floats, spread: ValueSpread, width: float
    ) -> ShownValue:
        """Return the regression's reading of one key of rows."""
        return _reading(target, self._fitted.read(target, met, spread), 0, width)

    # Rows that were left out. All of them have one of the most frequent values.

    def _missing(self, key: int) -> float:
        """Return how many rows of a key of values may be missing."""
        missing = self._plan.evidence.missing
        if not missing:
            return 0.0
        may = self._fitted.most_frequent[self._values == key].any() or not len(self._values)
        return missing if may else 0.0

    def _missing_sum(self, at: Place, *, count: bool) -> tuple[float, float]:
        """Return the least and the largest that missing rows can add.

        All of them count if the most frequent values do, whatever else the rows are like.
        """
        missing = self._missing(at[1])
        if not missing:
            return 0.0, 0.0
        if count:
            free = not self._plan.about_rows and not self._plan.needed(sensitive=False)
            sure = free and (self._values == at[1])[self._fitted.most_frequent].all()
            return (missing if sure and isfinite(missing) else 0.0), missing
        low, high = self._amount_range
        return min(0.0, missing * low) if low else 0.0, max(0.0, missing * high) if high else 0.0

    @cached_property
    def _amount_range(self) -> tuple[float, float]:
        """The least and the largest amount over the domain, infinite if it is too large."""
        argument = self._plan.query.argument or Expression("1", ())
        try:
            [amounts] = self._engine.evaluate(
                [Expression(number(argument), argument.attributes)], argument.attributes
            )
        except QueryError:
            return -inf, inf
        return float(np.min(amounts)), float(np.max(amounts))


def _reading(target: WeightedQuestion, read: Regressed, row: int, width: float = 1.0) -> ShownValue:
    """Return what the regression tells of a key of rows: of unlimited variance if it cannot tell.

    `width` is the largest difference of the amounts of two rows.
    """
    variances = (inf, inf)
    if target.estimable:
        variances = float(read.variances[row]), float(read.largest[row])
    law = Unbiased(float(read.unbiased[row]), *variances, target.reach * width)
    return float(read.values[row]), law


# --- answers --------------------------------------------------------------------------------------
#
# Answers from Anatomy's two tables: rows whose sensitive values are known by group only.
#
# A question that names only columns of rows, or only sensitive values, is counted exactly. All
# others are answered by a regression over groups (`DealtSums`, `regression.py`). Their intervals
# assume nothing about how values go with rows. They are cut to what is certain (`limits.py`);
# within that, their coverage is tested by enumeration and simulation, and is no theorem.

Key = tuple[Any, ...]

EXACT = "exact: no sensitive value has to be told from the others of its group"
PUBLISHED = "exact for the published rows; the interval adds the rows that were left out"
REGRESSION = "regression over groups; interval cut to what every assignment of values allows"
BOUNDS = "even spread where groups tell no more; interval of all that they allow"
FIELLER = "ratio of regressions over groups; Fieller interval cut to what is possible"
LEFT_OUT = "rows with too frequent values were left out of the release"


def answer(
    evidence: Groups,
    schema: Schema,
    query: Query,
    engine: Sandbox,
) -> Iterator[tuple[Key, Estimate]]:
    """Return every group of the answer to `query` with its estimate."""
    plan = AnatomyPlan(evidence, query)
    if evidence.complete and (plan.only_rows or plan.only_values):
        return ((name, _known(plan, line)) for name, line in _read(engine, plan))
    held = layout(evidence, schema, engine)
    sides = (
        held.rows.combinations(engine, plan.needed(sensitive=False), plan.about_rows),
        held.values.combinations(engine, plan.needed(sensitive=True), plan.about_values),
    )
    fitted = regression(evidence, held, engine)
    sums = DealtSums(plan, AnswerLimits(plan, schema, engine, held, sides), held, fitted, engine)
    return _sums(plan, schema, sums)


def answer_together(
    evidence: Groups, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, Any]:
    """Return nothing: every question is answered by itself, from rows that are held in memory."""
    del evidence, schema, queries, engine
    return {}


def _read(engine: Sandbox, plan: AnatomyPlan) -> Iterator[tuple[Key, Mapping[str, float]]]:
    """Yield the sums of a question to one table by key; a sum over no rows is 0."""
    table = engine.rows(plan.one_table())
    names = [name for name in table.column_names if not name.startswith("scumble key ")]
    columns = {
        name: pc.fill_null(pc.cast(table[name], pa.float64()), 0.0).to_numpy() for name in names
    }
    _check(list(columns.values()))
    keys = [table[key(name)[1:-1]].to_pylist() for name in plan.query.groups]
    groups = zip(*keys, strict=True) if keys else iter([()])
    for row, group in enumerate(groups):
        yield group, {name: float(column[row]) for name, column in columns.items()}


def _sums(plan: AnatomyPlan, schema: Schema, sums: DealtSums) -> Iterator[tuple[Key, Estimate]]:
    """Yield counts, sums and averages by key, without the keys that are impossible."""
    keys, lines = sums.keys, sums.lines
    met = np.flatnonzero(lines[:, 0]) if plan.query.groups else np.arange(1)
    _check([lines[lines[:, 0] > 0]])
    if not len(lines):
        lines = np.zeros((1, lines.shape[1]))
    pairs = np.divmod(met, max(keys[1].size, 1))
    names = _names(plan, schema, keys, pairs) if plan.query.groups else [()]
    for _, name, row, value, line in zip(
        told(met.tolist()), names, *pairs, lines[met], strict=True
    ):
        yield name, _estimate(plan, sums, (int(row), int(value)), line)


def _estimate(
    plan: AnatomyPlan, sums: DealtSums, at: tuple[int, int], line: npt.NDArray[np.float64]
) -> Estimate:
    notes = _notes(plan)
    if plan.query.aggregate == "mean":
        if not line[0]:
            return Estimate(float("nan"), Unknown(), "average of no rows", (*notes, NO_ROWS))
        value, average = sums.average(at, line)
        if average is None:
            return _exact(plan, value)
        return Estimate(value, average, FIELLER, (*notes, *average.notes))
    value, law = sums.total(at, line)
    if law is None:
        return _exact(plan, value)
    known = law.certain[0] == law.certain[1]
    method = PUBLISHED if known else BOUNDS if law.unbiased is None else REGRESSION
    return Estimate(value, law, method, notes)


def _names(
    plan: AnatomyPlan,
    schema: Schema,
    keys: Sequence[Combinations],
    at: Sequence[npt.NDArray[np.int64]],
) -> Iterable[Key]:
    """Return the values of the grouped attributes, of combinations of rows and of values."""
    columns: dict[str, pa.Array] = {}
    for combinations, places in zip(keys, at, strict=True):
        columns |= combinations.values(schema, places)
    if not plan.query.groups:
        return [()] * len(at[0])
    return zip(*(columns[name].to_pylist() for name in plan.query.groups), strict=True)


def _check(columns: Sequence[npt.NDArray[np.float64]]) -> None:
    if not all(np.isfinite(column).all() for column in columns):
        raise QueryError(
            "The summed expression is not a finite number for every row that satisfies the "
            "condition. Exclude such rows in WHERE, or guard the expression with CASE."
        )


def _known(plan: AnatomyPlan, line: Mapping[str, float]) -> Estimate:
    """Return the answer to a question to one table of a complete release."""
    if plan.query.aggregate != "mean":
        return _exact(plan, line["count" if plan.query.aggregate == "count" else "total"])
    if not line["count"]:
        return Estimate(float("nan"), Unknown(), "average of no rows", (*_notes(plan), NO_ROWS))
    return _exact(plan, line["total"] / line["count"])


def _exact(plan: AnatomyPlan, value: float) -> Estimate:
    """Return an answer without error."""
    return Estimate(value, Exact(), EXACT, _notes(plan))


def _notes(plan: AnatomyPlan) -> tuple[str, ...]:
    return plan.query.notes if plan.evidence.complete else (*plan.query.notes, LEFT_OUT)
