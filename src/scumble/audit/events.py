"""Events that tell two sets of outputs apart, learned from examples.

Candidates are made from one part of the examples and scored on the other: an event that only fits
the luck of its examples scores badly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Outputs = Floats  # one row a run, one column for each number of the output
Truth = npt.NDArray[np.bool_]

_CUTS = 200  # thresholds that are tried along each statistic
_BINS = 64  # of each number, in the sum of log odds
MOST_SINGLE = 64  # columns that are tried one by one
_LEAST_HITS = 20  # an event must happen so often, or its odds are luck
_NO_SPREAD = 1e-9  # relative to the largest: along such a direction the noise cancels


class Statistic(Protocol):
    """A number for every output."""

    @property
    def words(self) -> str: ...

    def of(self, outputs: Outputs) -> Floats: ...


@dataclass(frozen=True, eq=False)
class Combination:
    """A weighted sum of the numbers of an output."""

    words: str
    weights: Floats

    def of(self, outputs: Outputs) -> Floats:
        return outputs @ self.weights


@dataclass(frozen=True, eq=False)
class LogOdds:
    """The sum over all numbers of the log odds of the bin that each falls into: the likelihood
    ratio, if numbers are independent.
    """

    words: str
    edges: tuple[Floats, ...]
    odds: tuple[Floats, ...]

    @classmethod
    def learned(cls, likely: Outputs, unlikely: Outputs) -> LogOdds:
        edges, odds = [], []
        for one, other in zip(likely.T, unlikely.T, strict=True):
            cuts = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, _BINS)))
            hits, misses = (
                np.bincount(np.searchsorted(cuts, each, "right"), minlength=len(cuts) + 1) + 0.5
                for each in (one, other)
            )
            edges.append(cuts)
            odds.append(np.log(hits / hits.sum()) - np.log(misses / misses.sum()))
        return cls("the sum of the log odds of all numbers", tuple(edges), tuple(odds))

    def of(self, outputs: Outputs) -> Floats:
        total = np.zeros(len(outputs))
        for column, cuts, odds in zip(outputs.T, self.edges, self.odds, strict=True):
            total += odds[np.searchsorted(cuts, column, "right")]
        return total


class Event(Protocol):
    """A set of outputs."""

    @property
    def words(self) -> str: ...

    def holds(self, outputs: Outputs) -> Truth: ...


@dataclass(frozen=True, eq=False)
class Beyond:
    """Outputs whose statistic lies beyond a cut, above or below."""

    statistic: Statistic
    cut: float
    above: bool

    @property
    def words(self) -> str:
        relation = "at least" if self.above else "at most"
        return f"{self.statistic.words} is {relation} {self.cut:.6g}"

    def holds(self, outputs: Outputs) -> Truth:
        along = self.statistic.of(outputs)
        found: Truth = along >= self.cut if self.above else along <= self.cut
        return found


@dataclass(frozen=True, eq=False)
class Among:
    """Outputs whose number in one column is among some values."""

    column: int
    values: Floats

    @property
    def words(self) -> str:
        return f"number {self.column + 1} is one of {len(self.values)} values"

    def holds(self, outputs: Outputs) -> Truth:
        found: Truth = np.isin(outputs[:, self.column], self.values)
        return found


Scored = tuple[Event, int, int]


def learn(likely: Outputs, unlikely: Outputs, *, delta: float) -> Event | None:
    """The event that breaks the smallest ε, made from one half of the examples and scored on the
    other.
    """
    made = likely[::2], unlikely[::2]
    tried = likely[1::2], unlikely[1::2]
    best, chosen = 0.0, None
    for event, hits, misses in _candidates(made, tried):
        if hits >= _LEAST_HITS:
            score = _cautious(hits, len(tried[0]), misses, len(tried[1]), delta)
            if score > best:
                best, chosen = score, event
    return chosen


def _candidates(made: tuple[Outputs, Outputs], tried: tuple[Outputs, Outputs]) -> Iterator[Scored]:
    for statistic in _statistics(*made):
        yield from _cuts(statistic, made[0], tried)
    for column in range(min(made[0].shape[1], MOST_SINGLE)):
        yield from _values(column, made, tried)


def _statistics(likely: Outputs, unlikely: Outputs) -> Iterator[Statistic]:
    """Single numbers, what separates the means best (Fisher), and the likelihood ratio."""
    width = likely.shape[1]
    for column in range(min(width, MOST_SINGLE)):
        yield Combination(f"number {column + 1}", np.eye(width)[column])
    yield LogOdds.learned(likely, unlikely)
    if width > 1:
        yield from _combinations(likely, unlikely)


def _combinations(likely: Outputs, unlikely: Outputs) -> Iterator[Statistic]:
    """Fisher's discriminant; and where noise cancels, as if it was used twice, what is left."""
    gap = likely.mean(axis=0) - unlikely.mean(axis=0)
    spread = np.cov(likely, rowvar=False) + np.cov(unlikely, rowvar=False)
    sizes, directions = np.linalg.eigh(spread)
    along = directions.T @ gap
    noisy = sizes > _NO_SPREAD * max(sizes[-1], _NO_SPREAD)
    weights: Floats = directions[:, noisy] @ (along[noisy] / sizes[noisy])
    yield Combination("the best combination of all numbers", weights)
    bare: Floats = directions[:, ~noisy] @ along[~noisy]
    if np.abs(bare).max(initial=0.0) > _NO_SPREAD:
        yield Combination("a combination of numbers without noise", bare)


def _cuts(statistic: Statistic, made: Outputs, tried: tuple[Outputs, Outputs]) -> Iterator[Scored]:
    """Tails of a statistic, from both of its ends."""
    shares = np.linspace(0, 1, _CUTS)
    places = np.unique(np.quantile(statistic.of(made), shares, method="nearest"))
    likely, unlikely = (np.sort(statistic.of(each)) for each in tried)
    for above in (True, False):
        hits, misses = (_beyond(each, places, above) for each in (likely, unlikely))
        for cut, hit, miss in zip(places, hits, misses, strict=True):
            yield Beyond(statistic, float(cut), above), int(hit), int(miss)


def _beyond(along: Floats, places: Floats, above: bool) -> npt.NDArray[np.intp]:
    """How many of some sorted numbers lie at or beyond each place."""
    if above:
        return len(along) - np.searchsorted(along, places, "left")
    return np.searchsorted(along, places, "right")


def _values(
    column: int, made: tuple[Outputs, Outputs], tried: tuple[Outputs, Outputs]
) -> Iterator[Scored]:
    """Values that only, or mostly, the likely side takes: what leaks by its support."""
    values, counts = np.unique(made[0][:, column], return_counts=True)
    against = _times(values, made[1][:, column])
    order = np.argsort(-(counts + 1.0) / (against + 1.0), kind="stable")
    hits, misses = (np.cumsum(_times(values, each[:, column])[order]) for each in tried)
    for size in np.unique(np.geomspace(1, len(order), min(len(order), 60)).astype(np.int64)):
        event = Among(column, values[order[:size]])
        yield event, int(hits[size - 1]), int(misses[size - 1])


def _times(values: Floats, column: Floats) -> npt.NDArray[np.intp]:
    """How often each of some sorted values is in a column."""
    ordered = np.sort(column)
    return np.searchsorted(ordered, values, "right") - np.searchsorted(ordered, values, "left")


def _cautious(hits: int, tries: int, misses: int, others: int, delta: float) -> float:
    """ln of the ratio with three standard errors taken off: quick, to choose among events."""
    p, q = hits / tries, (misses + 1) / (others + 1)
    low = p - 3 * math.sqrt(p * (1 - p) / tries) - delta
    high = q + 3 * math.sqrt(q * (1 - q) / others)
    return math.log(low / high) if low > 0 else -math.inf
