"""Distinguishing test, learned events, floating-point support.

The distinguishing test: outputs from two neighbouring tables, and how well an event tells them
apart.

Under (ε, δ)-DP every event has P(event | one) ≤ e^ε P(event | other) + δ. The runs are halved: on
one half an event is learned that seems to break this, on the other half it is counted, so that its
choice cannot flatter it. Limits on both probabilities turn the counts into a lower bound on ε that
is wrong with a probability of at most 1 - confidence.

Its power: with a million runs of each table a mechanism of one number that spends 1.1 ε is refuted
from ε = 1/4 on, with a probability far above 95 %; at smaller ε what it spends too much is less
than what chance hides in so many runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scumble.audit.claims import CONFIDENCE
from scumble.audit.report import Finding, Verdict, at_least, at_most


@dataclass(frozen=True)
class Distinction:
    """The event that told the tables apart best, and the ε that it implies at least."""

    epsilon: float
    event: str
    likely: float  # a lower limit of its probability where it is likelier
    unlikely: float  # an upper limit where it is not
    runs: int


@dataclass(frozen=True, eq=False)
class _Halves:
    """Outputs of the table for which events are likely, and of the other: to learn and to test."""

    learning: tuple[Outputs, Outputs]
    testing: tuple[Outputs, Outputs]

    @property
    def runs(self) -> int:
        return sum(map(len, (*self.learning, *self.testing)))

    def column(self, place: int) -> _Halves:
        only = slice(place, place + 1)
        (a, b), (c, d) = self.learning, self.testing
        return _Halves((a[:, only], b[:, only]), (c[:, only], d[:, only]))


def distinguish(
    one: Outputs,
    other: Outputs,
    *,
    delta: float = 0.0,
    confidence: float = 0.9999,
    independent: bool = False,
) -> Distinction:
    """A lower bound on the ε of a mechanism from runs on two neighbouring tables.

    With `independent` the numbers of an output are taken to be drawn independently of each other:
    then an event that is a set for each number has the product of their probabilities, so that what
    single numbers imply adds up.
    """
    added = independent and not delta and one.shape[1] > 1
    best = Distinction(0.0, "no event", 1.0, 1.0, len(one) + len(other))
    # Both directions are tried, in one way or two: each gets a part of the probability of an error.
    each = 1 - (1 - confidence) / (4 if added else 2)
    for halves in _directions(one, other):
        found = [_tested(halves, learn(*halves.learning, delta=delta), delta, each)]
        if added:
            found.append(_added(halves, each))
        best = max(best, *found, key=lambda distinction: distinction.epsilon)
    return best


def _directions(one: Outputs, other: Outputs) -> Iterator[_Halves]:
    """Every other run is learned from, so that a drift along the runs is in both halves."""
    yield _Halves((one[::2], other[::2]), (one[1::2], other[1::2]))
    yield _Halves((other[::2], one[::2]), (other[1::2], one[1::2]))


def _tested(halves: _Halves, event: Event | None, delta: float, confidence: float) -> Distinction:
    if event is None:
        return Distinction(0.0, "no event", 1.0, 1.0, halves.runs)
    likely, unlikely = halves.testing
    each = 1 - (1 - confidence) / 2  # two limits, each wrong with half of what is left
    low = at_least(int(event.holds(likely).sum()), len(likely), each)
    high = at_most(int(event.holds(unlikely).sum()), len(unlikely), each)
    epsilon = math.log((low - delta) / high) if low > delta else 0.0
    return Distinction(max(epsilon, 0.0), event.words, low, high, halves.runs)


def _added(halves: _Halves, confidence: float) -> Distinction:
    """What an event for each of the numbers implies together, for those that seem to tell something
    in the half from which events are learned.
    """
    columns = map(halves.column, range(min(halves.learning[0].shape[1], MOST_SINGLE)))
    learned = [(column, learn(*column.learning, delta=0.0)) for column in columns]
    kept = [(column, event) for column, event in learned if event is not None]
    each = 1 - (1 - confidence) / max(len(kept), 1)
    found = [_tested(column, event, 0.0, each) for column, event in kept]
    return Distinction(
        math.fsum(part.epsilon for part in found),
        f"a set for each of {len(found)} numbers",
        math.prod(part.likely for part in found),
        math.prod(part.unlikely for part in found),
        halves.runs,
    )


# Events that tell two sets of outputs apart, learned from examples.
#
# Candidates are made from one part of the examples and scored on the other: an event that only
# fits the luck of its examples scores badly.

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


# Whether the last bits of published numbers tell from which table they come (Mironov, 2012).
#
# A real number of a computer has 53 bits. Noise that is computed in them and added to a count can
# reach some numbers and not others, and which ones depends on the count: a number that only one
# of two tables can give tells them apart for sure, whatever the scale of the noise.


def grain(numbers: Outputs) -> Outputs:
    """The exponent of the last bit of each number that is not 0; of 0 itself, 64."""
    fractions, exponents = np.frexp(numbers)
    whole = np.ldexp(np.abs(fractions), 53).astype(np.int64)
    last = np.log2(np.where(whole == 0, 1, whole & -whole).astype(np.float64))
    found: Outputs = np.where(whole == 0, 64.0, exponents - 53 + last)
    return found


def support_finding(claim: str, one: Outputs, other: Outputs, epsilon: float) -> Finding:
    """What the last bits of outputs of two neighbouring tables tell, against a promised ε."""
    if all(np.array_equal(numbers, np.round(numbers)) for numbers in (one, other)):
        sentence = "All published numbers are whole: they have no bits that noise left alone."
        return Finding("last bits", claim, "stands", sentence)
    found = distinguish(grain(one), grain(other), confidence=CONFIDENCE)
    sentence = (
        f"The last bits of the numbers of {found.runs} runs imply an ε of at least "
        f"{found.epsilon:.4g} ({found.event}); promised is {epsilon:.4g}."
    )
    verdict: Verdict = "refuted" if found.epsilon > epsilon else "stands"
    numbers = {"epsilon at least": found.epsilon, "claimed": epsilon}
    return Finding("last bits", claim, verdict, sentence, numbers, CONFIDENCE)
