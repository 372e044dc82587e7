"""Error laws of answers from groups: the regression's interval, cut to what is certain.

| law            | of what                                                                     |
|----------------|-----------------------------------------------------------------------------|
| `DealtSum`     | a count or a sum                                                            |
| `DealtAverage` | an average: all t for which Σ (x - t) may be 0, by the law of a sum          |

Two things are known of an answer, whatever the table is. It lies between the least and the largest
answer over all assignments of the values of a group to its rows (`bounds`). And the regression over
groups is wrong by a sum whose law follows from how records are dealt to groups. The interval is
what both leave. Where there is no regression, because the groups do not tell the values apart, it
is the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scumble.public.estimate import Law
from scumble.public.estimation.anatomy.moments import swap_half_width
from scumble.public.estimation.interval_laws import NEAR_ZERO

_STEPS = 40  # halvings: the ends of an average are found to a part in 10^12, and rounded outwards
_SCAN = 8  # places that are tried before the halvings


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

    `even` is its value if values are spread evenly within groups and `noise` the law of the truth
    around it. `certain` are the least and the largest answer of the published rows, and `missing`
    what rows that were left out of the release may add to them. `unbiased` is None where the
    regression cannot tell the answer.
    """

    even: float
    noise: Law
    certain: tuple[float, float]
    unbiased: Unbiased | None = None
    missing: tuple[float, float] = (0.0, 0.0)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest answer, whatever row has whatever value of its group."""
        return self.certain[0] + self.missing[0], self.certain[1] + self.missing[1]

    @property
    def stderr(self) -> float:
        """The regression's standard error; without one, that of even spread and (U - L)² / 12."""
        width = self.certain[1] - self.certain[0]
        convention = math.hypot(self.noise.stderr, width / math.sqrt(12))
        known = convention if self.unbiased is None else min(convention, self.unbiased.stderr)
        return math.hypot(known, (self.missing[1] - self.missing[0]) / math.sqrt(12))

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
        """Return the interval if values were spread evenly within groups."""
        return self.noise.interval(self.even, level)

    def typical_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval: it needs no model."""
        return self.interval(value, level)


@dataclass(frozen=True, eq=False)
class DealtAverage:
    """The law of an average over groups.

    `centred(t)` is the regression estimate of Σ (x - t); None without a regression. The average is
    t exactly if this sum is 0. `certain` are limits of the average of the published rows, and
    `count` the least number of rows that it is made of. Rows that were left out, at most `missing`
    of them, have amounts between `amounts`.
    """

    even: float
    noise: Law
    certain: tuple[float, float]
    centred: Callable[[float], Unbiased] | None
    rows: float
    count: float
    missing: float = 0.0
    amounts: tuple[float, float] = (0.0, 0.0)

    @property
    def bounds(self) -> tuple[float, float]:
        return self._widened(*self.certain)

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

            def excluded(ratio: float) -> bool:
                found = centred(ratio)
                return abs(found.value) > found.half_width(level)

            low, high = (_edge(excluded, end, inside) for end in (low, high))
        return self._widened(min(low, inside), max(high, inside))

    def noise_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval if values were spread evenly within groups."""
        return self.noise.interval(self.even, level)

    def typical_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval: it needs no model."""
        return self.interval(value, level)

    def _widened(self, low: float, high: float) -> tuple[float, float]:
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


def _edge(excluded: Callable[[float], bool], outside: float, inside: float) -> float:
    """Return the end of what is not excluded, searched from `outside` to `inside`."""
    if not excluded(outside):
        return outside
    start = outside
    for step in range(1, _SCAN + 1):
        place = start + (inside - start) * step / _SCAN
        if not excluded(place):
            inside = place
            break
        outside = place
    for _ in range(_STEPS):
        middle = (outside + inside) / 2
        if excluded(middle):
            outside = middle
        else:
            inside = middle
    return outside
