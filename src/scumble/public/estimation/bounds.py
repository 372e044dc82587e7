"""Identified bounds: what is known of an answer when the evidence does not tell all of it.

Evidence often tells the number of rows in a *piece* (a leaf of a tree, a bin, a group), but not
where in the piece they are. A question that cuts pieces has an answer between two sums,

    L = Σ least weight in the piece · rows of the piece,
    U = Σ largest weight in the piece · rows of the piece,

whatever the table is. Both are linear in the evidence, so their error laws are known exactly. The
interval goes from the lower limit of L to the upper limit of U, each missed with probability at
most (1 - level) / 2. So it holds for every table, as far as the laws of L and U hold at their level
(see `noise_half_width` for what is proved of those). The value stays the estimate under an even
spread of the rows within pieces.

| law              | of what                                                                  |
|------------------|--------------------------------------------------------------------------|
| `Bounded`        | a count or a sum                                                         |
| `BoundedAverage` | an average: all t for which Σ (x - t) may be 0, by its own bounds        |

`combined` makes a `Bounded` answer of three estimates: the value, L and U. `note_impossible` says
of an estimate that no table can have it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TypeVar

from scumble.public.estimate import (
    Anywhere,
    BoundedLaw,
    Estimate,
    Exact,
    Law,
    Unknown,
    format_number,
)

Given = TypeVar("Given", bound=Estimate)

IMPOSSIBLE = "the estimate lies outside of what is possible"
NO_NOISE = "no noise: the interval holds all that the bins allow"

_SCAN = 4  # places that are tried before an end is searched
_STEPS = 60  # of a search, at most; usually 5 suffice
_PART = 2.0**-22  # of the range: so precisely ends are found, and then rounded outwards


@dataclass(frozen=True)
class Limit:
    """An estimated limit of an answer: its value, and the law of the error of that value."""

    value: float
    law: Law

    def lower(self, level: float) -> float:
        """Return the lower end of the interval of the limit at `level`."""
        return self.law.interval(self.value, level)[0]

    def upper(self, level: float) -> float:
        """Return the upper end of the interval of the limit at `level`."""
        return self.law.interval(self.value, level)[1]


@dataclass(frozen=True)
class Bounded:
    """The law of a count or sum between two estimated limits.

    `noise` is the law of the value under an even spread; `low` and `high` are the estimated L and
    U. The truth is known to be at least `least` and at most `most`. `spread` returns the
    variance of the value around an even spread, by a model of typical tables.
    """

    noise: Law
    low: Limit
    high: Limit
    least: float = -math.inf
    most: float = math.inf
    spread: Callable[[], float] = lambda: math.nan

    @property
    def possible(self) -> tuple[float, float]:
        """The least and the largest truth that there can be."""
        return self.least, self.most

    @property
    def bounds(self) -> tuple[float, float]:
        """L and U in rising order: noise can make the estimated L the larger one."""
        low, high = sorted((self.low.value, self.high.value))
        return low, high

    @property
    def stderr(self) -> float:
        return _stderr(self.noise.stderr, self.bounds)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low = max(self.low.lower(level), self.least)
        high = min(self.high.upper(level), self.most)
        return (low, high) if math.isnan(value) else (min(low, value), max(high, value))

    def noise_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval of the noise alone, under an even spread within pieces."""
        return self.noise.interval(value, level)

    def typical_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval by a model of typical tables; it is not guaranteed."""
        return _typical(self, value, level)


@dataclass(frozen=True)
class BoundedAverage:
    """The law of an average whose rows are known by pieces.

    `noise` is the law under an even spread. `centred(t, lower)` returns the estimated lower or
    upper limit of Σ (x - t) over the rows that are averaged. The average is t exactly if this sum
    is 0, so the interval holds every t for which 0 is between the lower limit of the one and the
    upper limit of the other. Amounts are from `least` to `most`, and so is the average. `spread`
    returns the variance of the average around an even spread, by a model of typical tables; without
    it, that of a number between the bounds whose mean is the value.
    """

    noise: Law
    centred: Callable[[float, bool], Limit]
    least: float
    most: float
    value: float
    spread: Callable[[], float] | None = None

    @property
    def possible(self) -> tuple[float, float]:
        """The least and the largest average that there can be."""
        return self.least, self.most

    @property
    def bounds(self) -> tuple[float, float]:
        """All t for which 0 is between the estimated limits of Σ (x - t)."""
        return self._ends(lambda low: low.value, lambda high: high.value)

    @property
    def stderr(self) -> float:
        return _stderr(self.noise.stderr, self.bounds)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self._ends(lambda each: each.lower(level), lambda each: each.upper(level))
        return min(low, value), max(high, value)

    def noise_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval of the noise alone, under an even spread within pieces."""
        return self.noise.interval(value, level)

    def typical_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval by a model of typical tables; it is not guaranteed."""
        return _typical(self, value, level)

    def _ends(
        self, lower: Callable[[Limit], float], upper: Callable[[Limit], float]
    ) -> tuple[float, float]:
        """Return the smallest and the largest average that is not excluded.

        Σ (x - t) falls in t, since no count is negative, and its limits fall with it but for
        noise. An end is searched from the outside, so that a stretch that only noise excludes
        stays inside.
        """
        start = min(max(self.value, self.least), self.most)

        def too_low(t: float) -> float:
            return lower(self.centred(t, True))

        def too_high(t: float) -> float:
            return -upper(self.centred(t, False))

        return _edge(too_low, self.least, start), _edge(too_high, self.most, start)


@dataclass(frozen=True)
class InvertedAverage:
    """The law of an average `value` = total / count, by inversion of Σ (x - t).

    `centred(t)` returns the estimate of this sum over the rows that are averaged.
    """

    value: float
    count: float
    centred: Callable[[float], Limit]
    least: float
    most: float

    @property
    def possible(self) -> tuple[float, float]:
        """The least and the largest average that there can be."""
        return self.least, self.most

    @property
    def stderr(self) -> float:
        return self.centred(self.value).law.stderr / abs(self.count)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        start = min(max(self.value, self.least), self.most)
        low = _edge(lambda t: self.centred(t).lower(level), self.least, start)
        high = _edge(lambda t: -self.centred(t).upper(level), self.most, start)
        return min(low, value), max(high, value)


def _edge(excess: Callable[[float], float], outside: float, inside: float) -> float:
    """Return the end of the places without excess (at most 0), from `outside` to `inside`."""
    above = excess(outside)
    if above <= 0:
        return outside
    precision = abs(inside - outside) * _PART
    below = -math.inf
    for place in [outside + (inside - outside) * step / _SCAN for step in range(1, _SCAN + 1)]:
        found = excess(place)
        if found <= 0:
            inside, below = place, found
            break
        outside, above = place, found
    for step in range(_STEPS):
        if abs(inside - outside) <= precision:
            break
        place = _next_place(outside, inside, above, below, precision, step)
        if place in (outside, inside):
            break
        if (found := excess(place)) > 0:
            outside, above = place, found
        else:
            inside, below = place, found
    return outside


def _next_place(
    outside: float, inside: float, above: float, below: float, precision: float, step: int
) -> float:
    """Return where to look next: beside the zero of the chord, or at times in the middle."""
    middle = (outside + inside) / 2
    share = above / (above - below) if math.isfinite(above - below) else math.nan
    if step % 4 == 3 or not 0 <= share <= 1:
        return middle
    aside = precision / 3 / abs(inside - outside) * (1 if step % 2 else -1)
    return outside + (inside - outside) * min(max(share + aside, 0.0), 1.0)


def combined(
    value: Estimate,
    lower: Estimate,
    upper: Estimate,
    least: float = -math.inf,
    most: float = math.inf,
) -> Estimate:
    """Return an answer between two others: `lower` estimates L, `upper` estimates U.

    All three may have bounds themselves, where the question cuts leaves or groups as well. The
    truth is from `least` to `most`.
    """
    laws = (value.law, lower.law, upper.law)
    if isinstance(value.law, Anywhere):  # too few people: only what is possible is known
        start = lower.law.low if isinstance(lower.law, Anywhere) else least
        end = upper.law.high if isinstance(upper.law, Anywhere) else most
        return replace(value, law=Anywhere(max(start, least), min(end, most)))
    if math.isnan(value.value) or any(isinstance(law, Unknown) for law in laws):
        return value
    if lower.value == upper.value == value.value and all(isinstance(law, Exact) for law in laws):
        return value
    low, high = limit_of(lower, lower=True), limit_of(upper, lower=False)
    below, above = value.value - low.value, high.value - value.value
    law = Bounded(noise_of(value.law), low, high, least, most, lambda: spread_between(below, above))
    notes = dict.fromkeys((*value.notes, *lower.notes, *upper.notes))
    noiseless = all(isinstance(law, Exact) for law in laws)
    return Estimate(value.value, law, NO_NOISE if noiseless else value.method, tuple(notes))


def note_impossible(estimate: Given, least: float = -math.inf, most: float = math.inf) -> Given:
    """Return the estimate, with a note if it lies outside of what is possible.

    That is from `least` to `most`, and within the limits that its law knows as `possible`.
    """
    low, high = getattr(estimate.law, "possible", (least, most))
    low, high = max(low, least), min(high, most)
    slack = 1e-9 * max(abs(estimate.value), 1.0)  # of rounding
    if math.isnan(estimate.value) or low - slack <= estimate.value <= high + slack:
        return estimate
    limits = f"{format_number(low, 0.0)} to {format_number(high, 0.0)}"
    if math.isinf(high):
        limits = f"{format_number(low, 0.0)} or more"
    note = f"{IMPOSSIBLE}, {limits}, and so does a part of its interval"
    return replace(estimate, notes=(*estimate.notes, note))


def limit_of(estimate: Estimate, *, lower: bool) -> Limit:
    """Return an estimate as a limit of another answer: its lower or upper bound, if it has some."""
    if estimate.bounds is None:
        return Limit(estimate.value, estimate.law)
    return Limit(estimate.bounds[0 if lower else 1], _LawAt(estimate.law, estimate.value))


@dataclass(frozen=True)
class _LawAt:
    """The law of an estimate, read at its own value whatever value is given."""

    law: Law
    value: float

    @property
    def stderr(self) -> float:
        return self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return self.law.interval(self.value, level)


def noise_of(law: Law) -> Law:
    """Return the law of the noise alone, under an even spread within pieces."""
    if isinstance(law, Bounded | BoundedAverage):
        return law.noise
    return _NoiseAlone(law) if isinstance(law, BoundedLaw) else law


@dataclass(frozen=True)
class _NoiseAlone:
    """The law of an answer with bounds as if rows were spread evenly within pieces."""

    law: BoundedLaw

    @property
    def stderr(self) -> float:
        return self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return self.law.noise_interval(value, level)


def _stderr(noise: float, bounds: tuple[float, float]) -> float:
    """Add the variance of an even law over the bounds to that of the noise: a convention."""
    width = bounds[1] - bounds[0]
    return math.sqrt(noise * noise + width * width / 12) if math.isfinite(width) else math.inf


def spread_between(below: float, above: float) -> float:
    """Return the variance of a number that is at most `below` less than its mean and at most
    `above` more: a third of the largest that is possible, as if it were even between the ends.
    """
    return max(below, 0.0) * max(above, 0.0) / 3


def _typical(law: Bounded | BoundedAverage, value: float, level: float) -> tuple[float, float]:
    """Add z² times the model's variance to the squared half-width of the noise."""
    low, high = law.noise_interval(value, level)
    z = NormalDist().inv_cdf((1 + level) / 2)
    if law.spread is None:
        least, most = law.bounds
        variance = spread_between(value - least, most - value)
    else:
        variance = law.spread()
    half = math.hypot((high - low) / 2, z * math.sqrt(variance))
    return value - half, value + half
