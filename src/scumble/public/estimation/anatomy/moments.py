"""Mean, variance and law within groups.

Mean, variances and covariance of sums and counts over groups, for every key of an answer.
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
from scumble.public.estimation.anatomy.plan import AnatomyPlan, Kinds, Layout, number
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

# Combinations of rows and values for which a question is evaluated at a time, and is known at a
# time; keys that an answer may have, and those of all threads together, each with its own sums.
_BATCH, _MOST_CELLS = 1 << 20, 1 << 25
_MOST_KEYS, _SHARED_KEYS = 1 << 23, 1 << 22


class Moments:
    """The sums of a question over a layout. `rows` and `values` are the kinds that it tells apart;
    kinds with the same grouped attributes share a key.
    """

    def __init__(
        self,
        plan: AnatomyPlan,
        schema: Schema,
        engine: Sandbox,
        layout: Layout,
        sides: Sequence[Kinds],
    ) -> None:
        self._schema, self._engine, self._layout = schema, engine, layout
        self._parts = plan.together
        self._sides = sides
        named = {name for part in self._parts for name in part.attributes}
        self._keys = [side.on(n for n in side.codes if n in plan.query.groups) for side in sides]
        self._cells = [side.on(name for name in side.codes if name in named) for side in sides]

    def sums(self) -> tuple[list[Kinds], Floats]:
        """The keys of rows and of values, and for each pair of them a line: count, total, their
        variances and covariance, least and most of what is added up.
        """
        total = self._keys[0].size * self._keys[1].size
        if total > _MOST_KEYS:
            raise QueryError("The answer would have too many groups. Group by fewer attributes.")
        empty = np.array([0.0] * 5 + [np.inf, -np.inf])
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

    def _blocks(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Ranges of groups with few enough combinations; as a rule there is one."""
        needed = [len(self._used(side, first, last)) for side in (0, 1)]
        if needed[0] * needed[1] <= _MOST_CELLS or last - first < 2:
            yield first, last
            return
        middle = (first + last) // 2
        yield from self._blocks(first, middle)
        yield from self._blocks(middle, last)

    def _used(self, side: int, first: int, last: int) -> Places:
        """The cells of one side that occur in a range of groups."""
        starts = (self._layout.rows, self._layout.values)[side].starts
        there = np.zeros(self._sides[side].size + 1, bool)
        there[self._sides[side].of[starts[first] : starts[last]]] = True  # -1 is the last
        return np.unique(self._cells[side].of[np.flatnonzero(there[:-1])]).astype(np.int64)

    def _add(self, first: int, last: int, used: Sequence[Places], parts: Sequence[Floats]) -> None:
        from scumble.public.estimation.anatomy.kernels import add_moments

        table = self._table(used)
        layout = self._layout
        sides = []
        for side, line in enumerate((layout.rows, layout.values)):
            place = np.zeros(self._cells[side].size, np.int64)
            place[used[side]] = np.arange(len(used[side]))
            cells = place[self._cells[side].of]
            kinds, keys = (each[side].of.astype(np.int32) for each in (self._sides, self._keys))
            sides.append((line.starts, kinds, keys, cells))
        rows, values = sides
        borders = np.linspace(first, last, len(parts) + 1).astype(np.int64).tolist()

        def add(place: int) -> None:
            share = (borders[place], borders[place + 1])
            keys = self._keys[1].size
            add_moments(share, rows, values, layout.counts, table, keys, parts[place])

        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(add, range(len(parts))))

    def _table(self, used: Sequence[Places]) -> Floats:
        """What a row and a value of these cells add to the answer; NaN if they do not count."""
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
        """The argument, infinite if it is not a finite number, which only matters where a row and a
        value do meet.
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


# The error law of a count over groups whose values are known, but not which row has which.
#
# Of a group of `size` rows, `rows` satisfy one part of a question and `values` of its values the
# other. If every way to hand the values to the rows is equally likely, the number of rows that
# satisfy both is hypergeometric, and groups are independent of each other.

Integers = npt.NDArray[np.int64]

# Beyond this spread the normal law takes over. Its tails are then wrong by less than
# 0.56 / 200 = 0.3 % (Berry-Esseen: a hypergeometric number is a sum of independent indicators).
_EXACT_SPREAD = 200.0
# Tails are found by a Fourier transform to about ten digits.
_LEAST_TAIL = 1e-9


@dataclass(frozen=True, eq=False)
class GroupedCount:
    """So many groups, `times`, of each kind: rows, values and size."""

    rows: Integers
    values: Integers
    sizes: Integers
    times: Integers

    @classmethod
    def of_nothing(cls) -> GroupedCount:
        """The law of a count that no group can add to."""
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
        """What the count surely is at least and at most, however the values are spread."""
        least = np.maximum(self.rows + self.values - self.sizes, 0)
        most = np.minimum(self.rows, self.values)
        return int(np.sum(self.times * least)), int(np.sum(self.times * most))

    @property
    def exact(self) -> bool:
        """Whether the interval comes from the exact law."""
        return self.stderr <= _EXACT_SPREAD

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """Leaves out at most half of 1 - level at either end."""
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
        """The limits of the counts that are left when the tails are cut off."""
        start, law = self._law()
        below = np.cumsum(law)
        low = int(np.searchsorted(below, tail, side="right"))
        above = np.cumsum(law[::-1])
        high = len(law) - 1 - int(np.searchsorted(above, tail, side="right"))
        return float(start + low), float(start + high)

    def _law(self) -> tuple[int, npt.NDArray[np.float64]]:
        """The probabilities of all counts from the first on that matter: the product of the
        characteristic functions, transformed back.
        """
        least, most = self.limits
        reach = math.ceil(12 * self.stderr) + 40
        start = max(least, math.floor(self.value) - reach)
        stop = min(most, math.ceil(self.value) + reach)
        points = 1 << (stop - start + 1).bit_length()
        angles = np.exp(-2j * np.pi * np.arange(points // 2 + 1) / points)
        product = np.ones(len(angles), complex)
        shift = -start
        kinds = zip(self.rows, self.values, self.sizes, self.times, strict=True)
        for rows, values, size, times in kinds:
            first, law = _hypergeometric(int(rows), int(values), int(size))
            product *= np.polynomial.polynomial.polyval(angles, law) ** int(times)
            shift += first * int(times)
        turn = np.exp(-2j * np.pi * (np.arange(len(angles)) * (shift % points) % points) / points)
        law = np.fft.irfft(product * turn, points)[: stop - start + 1]
        return start, np.clip(law, 0.0, None)


def swap_half_width(variance: float, largest: float, level: float) -> float:
    """How far off a sum over groups may be at this level: the normal law of its variance, which is
    known and not estimated, a correction for skewness, and half a swap for sums that jump. The
    `largest` is what the sum changes by at most if two rows of a group swap their values.

    A sum of independent errors of at most `largest` has a third moment of at most largest ·
    variance, so that its Cornish-Fisher term is at most largest · (z² - 1) / 6. This is no theorem,
    but enumeration found no case that covers less than its level (0.5 to 0.999): 1 to 60 groups of
    2 to 5 rows, counts and amounts of one or both signs, single rows that outweigh all others.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    return z * math.sqrt(variance) + largest * (max(z * z - 1, 0.0) / 6 + 0.5)


def _hypergeometric(rows: int, values: int, size: int) -> tuple[int, npt.NDArray[Any]]:
    """The least number of rows that can get one of the values, and the probabilities from it on."""
    first, last = max(0, rows + values - size), min(rows, values)
    ways = [
        math.comb(rows, number) * math.comb(size - rows, values - number)
        for number in range(first, last + 1)
    ]
    return first, np.array([way / math.comb(size, values) for way in ways])
