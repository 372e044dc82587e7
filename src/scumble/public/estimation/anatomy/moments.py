"""Mean, variance and error laws of sums and counts over groups, under random assignment.

- `Moments`: mean, variances and covariance of count and total, for every key of an answer.
- `GroupedCount`: the exact law of a count, a sum of hypergeometric numbers.
- `swap_half_width`: the half-width of the interval of any other sum.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import QueryError
from scumble.model.query import Expression
from scumble.model.schema.schema import Schema
from scumble.public.estimation.anatomy.plan import AnatomyPlan, Combinations, GroupLayout, number
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

_BATCH = 1 << 20  # pairs of cells of rows and of values for which a question is evaluated at a time
_MOST_CELLS = 1 << 25  # such pairs whose amounts are in memory at a time
_MOST_KEYS = 1 << 23  # of an answer
_SHARED_KEYS = 1 << 22  # of all threads together, each of which has its own sums


class Moments:
    """The moments of a question over a layout.

    `sides` are the combinations of rows and of values on which the question depends. Combinations
    with the same values of the grouped attributes share a key.
    """

    def __init__(
        self,
        plan: AnatomyPlan,
        schema: Schema,
        engine: Sandbox,
        layout: GroupLayout,
        sides: Sequence[Combinations],
    ) -> None:
        self._schema, self._engine, self._layout = schema, engine, layout
        self._parts = plan.joint_parts
        self.kind = plan.amount_kind
        self._sides = sides
        named = {name for part in self._parts for name in part.attributes}
        self._keys = [side.on(n for n in side.codes if n in plan.query.groups) for side in sides]
        self._cells = [side.on(name for name in side.codes if name in named) for side in sides]

    def sums(self) -> tuple[list[Combinations], Floats]:
        """Return the keys of rows and of values, and for each pair of keys a line.

        A line has count, total, the variances of both, their covariance, the least and the largest
        amount that is added up, and the least and the largest count and total over all assignments.
        """
        total = self._keys[0].size * self._keys[1].size
        if total > _MOST_KEYS:
            raise QueryError("The answer would have too many groups. Group by fewer attributes.")
        empty = np.array([0.0] * 5 + [np.inf, -np.inf] + [0.0] * 4)
        if not total:  # no row, or no value, satisfies what is asked of it alone
            return self._keys, np.empty((0, len(empty)))
        threads = max(min(os.cpu_count() or 1, _SHARED_KEYS // total), 1)
        parts = [np.tile(empty, (total, 1)) for _ in range(threads)]
        for first, last in self._blocks(0, self._layout.groups):
            used = [self._used(side, first, last) for side in (0, 1)]
            self._add(first, last, used, parts)
        found = np.sum(parts, axis=0)
        found[:, 5] = np.min([part[:, 5] for part in parts], axis=0)
        found[:, 6] = np.max([part[:, 6] for part in parts], axis=0)
        return self._keys, found

    def amounts(self) -> Floats:
        """Return the amount of every cell of rows or of values, if it depends on one of them."""
        return self._table([np.arange(cells.size) for cells in self._cells]).reshape(-1)

    def by_line(self, side: int) -> tuple[Places, Places]:
        """Return the key and the cell of each line of rows (0) or values (1); -1 for no line."""
        of = self._sides[side].of.astype(np.int64)
        found = [np.where(of >= 0, each[side].of[of], -1) for each in (self._keys, self._cells)]
        return found[0], found[1]

    def _blocks(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of groups with few enough combinations; usually there is one range."""
        needed = [len(self._used(side, first, last)) for side in (0, 1)]
        if needed[0] * needed[1] <= _MOST_CELLS or last - first < 2:
            yield first, last
            return
        middle = (first + last) // 2
        yield from self._blocks(first, middle)
        yield from self._blocks(middle, last)

    def _used(self, side: int, first: int, last: int) -> Places:
        """Return the cells of one side that occur in a range of groups."""
        starts = (self._layout.rows, self._layout.values)[side].starts
        there = np.zeros(self._sides[side].size + 1, bool)
        there[self._sides[side].of[starts[first] : starts[last]]] = True  # -1 is the last
        return np.unique(self._cells[side].of[np.flatnonzero(there[:-1])]).astype(np.int64)

    def _add(self, first: int, last: int, used: Sequence[Places], parts: Sequence[Floats]) -> None:
        from scumble.public.estimation.anatomy.kernels import add_moments
        from scumble.public.estimation.anatomy.limit_kernels import add_limits

        table = self._table(used)
        layout = self._layout
        sides = []
        for side, line in enumerate((layout.rows, layout.values)):
            place = np.zeros(self._cells[side].size, np.int64)
            place[used[side]] = np.arange(len(used[side]))
            cells = place[self._cells[side].of]
            combinations, keys = (
                each[side].of.astype(np.int32) for each in (self._sides, self._keys)
            )
            sides.append((line.starts, combinations, keys, cells))
        rows, values = sides
        borders = np.linspace(first, last, len(parts) + 1).astype(np.int64).tolist()

        def add(place: int) -> None:
            share = (borders[place], borders[place + 1])
            keys, sums = self._keys[1].size, parts[place]
            add_moments(share, rows, values, layout.counts, table, keys, sums)
            add_limits(share, rows, values, layout.counts, table, keys, self.kind, sums[:, 7:])

        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(add, range(len(parts))))

    def _table(self, used: Sequence[Places]) -> Floats:
        """Return what a row and a value of these cells add to the answer; NaN if nothing."""
        width = len(used[1])
        found = np.empty(len(used[0]) * width)
        for start in range(0, len(found), _BATCH):
            pair = np.arange(start, min(start + _BATCH, len(found)))
            at = (used[0][pair // width], used[1][pair % width])
            columns: dict[str, pa.Array] = {}
            for cells, places in zip(self._cells, at, strict=True):
                columns |= cells.values(self._schema, places)
            found[pair] = self._evaluated(pa.table(columns) if columns else None)
        return found.reshape(len(used[0]), width)

    def _evaluated(self, frame: pa.Table | None) -> Floats:
        """Return the amount; NaN where a clause is false, infinity where it is not finite.

        An infinite amount matters only where a row and a value are in the same group.
        """
        *clauses, argument = self._parts
        amount = number(argument)
        finite = f"isfinite(coalesce({amount}, 0))"
        guarded = Expression(f"CASE WHEN {finite} THEN {amount} END", argument.attributes)
        checked = Expression(finite, argument.attributes)
        *holds, amounts = self._engine.evaluate([*clauses, checked, guarded], (), frame)
        found: Floats = np.where(holds.pop(), amounts, np.inf)
        for each in holds:
            found = np.where(each, found, np.nan)
        return found


Integers = npt.NDArray[np.int64]

# If the standard error is larger, the normal law is used. Its tails are then wrong by less than
# 0.56 / 200 = 0.3 % (Berry-Esseen: a hypergeometric number is a sum of independent indicators).
_EXACT_STDERR = 200.0
# Tails come from a Fourier transform, exact to about ten digits.
_LEAST_TAIL = 1e-9


@dataclass(frozen=True, eq=False)
class GroupedCount:
    """The law of a count over groups whose values are known, but not which row has which value.

    There are `times` groups with each combination of `rows`, `values` and `sizes`: of a group of
    `sizes` rows, `rows` satisfy one part of a question and `values` of its values the other. If
    every assignment of the values to the rows is equally likely, the number of rows that satisfy
    both is hypergeometric, and groups are independent of each other.
    """

    rows: Integers
    values: Integers
    sizes: Integers
    times: Integers

    @classmethod
    def of_nothing(cls) -> GroupedCount:
        """Return the law of a count over no groups."""
        return cls(*(np.empty(0, np.int64) for _ in range(4)))

    @property
    def value(self) -> float:
        return float(np.sum(self.times * self.rows * self.values / self.sizes))

    @property
    def variance(self) -> float:
        chosen = self.rows * (self.sizes - self.rows) / self.sizes
        wanted = self.values * (self.sizes - self.values) / self.sizes
        return float(np.sum(self.times * chosen * wanted / np.maximum(self.sizes - 1, 1)))

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest possible count, whatever the assignment of values."""
        least = np.maximum(self.rows + self.values - self.sizes, 0)
        most = np.minimum(self.rows, self.values)
        return int(np.sum(self.times * least)), int(np.sum(self.times * most))

    @property
    def exact(self) -> bool:
        """Whether the interval comes from the exact law."""
        return self.stderr <= _EXACT_STDERR

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """Return limits that leave out a probability of at most (1 - level) / 2 on either side."""
        least, most = self.limits
        tail = (1 - level) / 2
        if tail < _LEAST_TAIL:
            return float(least), float(most)
        if self.exact:
            low, high = self._quantiles(tail)
        else:
            half = NormalDist().inv_cdf(1 - tail) * self.stderr + 0.5
            low, high = self.value - half, self.value + half
        return min(max(low, least), value), max(min(high, most), value)

    def _quantiles(self, tail: float) -> tuple[float, float]:
        """Return the least and the largest count that is not in a tail."""
        start, law = self._law()
        below = np.cumsum(law)
        low = int(np.searchsorted(below, tail, side="right"))
        above = np.cumsum(law[::-1])
        high = len(law) - 1 - int(np.searchsorted(above, tail, side="right"))
        return float(start + low), float(start + high)

    def _law(self) -> tuple[int, npt.NDArray[np.float64]]:
        """Return a first count, and the probabilities of the counts from it on.

        They are the inverse Fourier transform of the product of the characteristic functions.
        """
        least, most = self.limits
        reach = math.ceil(12 * self.stderr) + 40
        start = max(least, math.floor(self.value) - reach)
        stop = min(most, math.ceil(self.value) + reach)
        points = 1 << (stop - start + 1).bit_length()
        angles = np.exp(-2j * np.pi * np.arange(points // 2 + 1) / points)
        product = np.ones(len(angles), complex)
        shift = -start
        groups = zip(self.rows, self.values, self.sizes, self.times, strict=True)
        for rows, values, size, times in groups:
            first, law = _hypergeometric(int(rows), int(values), int(size))
            product *= np.polynomial.polynomial.polyval(angles, law) ** int(times)
            shift += first * int(times)
        turn = np.exp(-2j * np.pi * (np.arange(len(angles)) * (shift % points) % points) / points)
        law = np.fft.irfft(product * turn, points)[: stop - start + 1]
        return start, np.clip(law, 0.0, None)


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


def _hypergeometric(rows: int, values: int, size: int) -> tuple[int, npt.NDArray[Any]]:
    """Return the least number of the rows that can get one of the values, and the probabilities
    from it on.
    """
    first, last = max(0, rows + values - size), min(rows, values)
    ways = [
        math.comb(rows, number) * math.comb(size - rows, values - number)
        for number in range(first, last + 1)
    ]
    return first, np.array([way / math.comb(size, values) for way in ways])
