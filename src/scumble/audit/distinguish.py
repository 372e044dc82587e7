"""The distinguishing test: a lower bound on ε from many outputs for two neighbouring tables, also
applied to the last bits of floating-point outputs.

Under (ε, δ)-DP every event has P(event | one) ≤ e^ε P(event | other) + δ. The runs are halved: an
event that seems to break this is learned on one half and counted on the other, so that choosing it
causes no bias. Confidence limits of both probabilities turn the counts into a lower bound on ε that
is wrong with a probability of at most 1 - confidence.

Power: with a million runs of each table, a mechanism of one number that spends 1.1 ε is refuted for
ε ≥ 1/4 with a probability far above 95 %. At smaller ε the excess is within the sampling error of
a million runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding, Verdict
from scumble.model.laws.probabilities import clopper_pearson_lower, clopper_pearson_upper


@dataclass(frozen=True)
class Distinction:
    """The event that distinguishes the tables best, and the lower bound on ε that it implies."""

    epsilon: float
    event: str
    likely: float  # a lower limit of its probability where it is likelier
    unlikely: float  # an upper limit where it is not
    runs: int


@dataclass(frozen=True, eq=False)
class _Split:
    """Outputs to learn an event from and to test it on; each of the table for which the event is
    likely, and of the other.
    """

    learning: tuple[Outputs, Outputs]
    testing: tuple[Outputs, Outputs]

    @property
    def runs(self) -> int:
        return sum(map(len, (*self.learning, *self.testing)))

    def column(self, place: int) -> _Split:
        only = slice(place, place + 1)
        (a, b), (c, d) = self.learning, self.testing
        return _Split((a[:, only], b[:, only]), (c[:, only], d[:, only]))


def distinguish(
    one: Outputs,
    other: Outputs,
    *,
    delta: float = 0.0,
    confidence: float = 0.9999,
    independent: bool = False,
) -> Distinction:
    """Return a lower bound on the ε of a mechanism from its outputs for two neighbouring tables.

    With `independent` the numbers of an output are taken to be independent of each other. An event
    that is a set for each number then has the product of their probabilities, so that the bounds
    of single numbers add up.
    """
    added = independent and not delta and one.shape[1] > 1
    best = Distinction(0.0, "no event", 1.0, 1.0, len(one) + len(other))
    # Two or four tests share the probability of an error.
    each = 1 - (1 - confidence) / (4 if added else 2)
    for halves in _directions(one, other):
        found = [_tested(halves, learn(*halves.learning, delta=delta), delta, each)]
        if added:
            found.append(_added(halves, each))
        best = max(best, *found, key=lambda distinction: distinction.epsilon)
    return best


def _directions(one: Outputs, other: Outputs) -> Iterator[_Split]:
    """Split runs alternately, so that a drift along the runs is in both halves, and yield both
    directions.
    """
    yield _Split((one[::2], other[::2]), (one[1::2], other[1::2]))
    yield _Split((other[::2], one[::2]), (other[1::2], one[1::2]))


def _tested(halves: _Split, event: Event | None, delta: float, confidence: float) -> Distinction:
    if event is None:
        return Distinction(0.0, "no event", 1.0, 1.0, halves.runs)
    likely, unlikely = halves.testing
    each = 1 - (1 - confidence) / 2  # two limits share the probability of an error
    low = clopper_pearson_lower(int(event.holds(likely).sum()), len(likely), each)
    high = clopper_pearson_upper(int(event.holds(unlikely).sum()), len(unlikely), each)
    epsilon = math.log((low - delta) / high) if low > delta else 0.0
    return Distinction(max(epsilon, 0.0), event.words, low, high, halves.runs)


def _added(halves: _Split, confidence: float) -> Distinction:
    """Add up the bounds of one event for each number for which an event was learned."""
    columns = map(halves.column, range(min(halves.learning[0].shape[1], MOST_COLUMNS)))
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


# Events that distinguish two sets of outputs, learned from examples. Candidates are made from one
# part of the examples and scored on the other, so that an overfitted event scores badly.

Floats = npt.NDArray[np.float64]
Outputs = Floats  # one row a run, one column for each number of the output
Truth = npt.NDArray[np.bool_]

_CUTS = 200  # thresholds that are tried along each statistic
_BINS = 64  # of each number, in the sum of log odds
MOST_COLUMNS = 64  # columns that are tried one by one
_LEAST_HITS = 20  # an event that happens less often is ignored: its odds are too uncertain
_NO_SPREAD = 1e-9  # relative to the largest spread: along such a direction the noise cancels


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
    """The sum over all numbers of the log odds of the bin of each: the log likelihood ratio, if the
    numbers are independent.
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
class TailEvent:
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
class ValueEvent:
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
    """Return the event that implies the largest ε, made from one half of the examples and scored on
    the other; None if no event implies a positive ε.
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
    for column in range(min(made[0].shape[1], MOST_COLUMNS)):
        yield from _values(column, made, tried)


def _statistics(likely: Outputs, unlikely: Outputs) -> Iterator[Statistic]:
    """Yield single numbers, the likelihood ratio, and Fisher's discriminant."""
    width = likely.shape[1]
    for column in range(min(width, MOST_COLUMNS)):
        yield Combination(f"number {column + 1}", np.eye(width)[column])
    yield LogOdds.learned(likely, unlikely)
    if width > 1:
        yield from _combinations(likely, unlikely)


def _combinations(likely: Outputs, unlikely: Outputs) -> Iterator[Statistic]:
    """Yield Fisher's discriminant and, where noise cancels (as if it was used twice), the
    combination that is left without noise.
    """
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
    """Yield the tails of a statistic on both sides."""
    shares = np.linspace(0, 1, _CUTS)
    places = np.unique(np.quantile(statistic.of(made), shares, method="nearest"))
    likely, unlikely = (np.sort(statistic.of(each)) for each in tried)
    for above in (True, False):
        hits, misses = (_beyond(each, places, above) for each in (likely, unlikely))
        for cut, hit, miss in zip(places, hits, misses, strict=True):
            yield TailEvent(statistic, float(cut), above), int(hit), int(miss)


def _beyond(along: Floats, places: Floats, above: bool) -> npt.NDArray[np.intp]:
    """Return how many of the sorted numbers `along` lie at or beyond each place."""
    if above:
        return len(along) - np.searchsorted(along, places, "left")
    return np.searchsorted(along, places, "right")


def _values(
    column: int, made: tuple[Outputs, Outputs], tried: tuple[Outputs, Outputs]
) -> Iterator[Scored]:
    """Yield sets of values that only, or mostly, the likely side takes."""
    values, counts = np.unique(made[0][:, column], return_counts=True)
    against = _times(values, made[1][:, column])
    order = np.argsort(-(counts + 1.0) / (against + 1.0), kind="stable")
    hits, misses = (np.cumsum(_times(values, each[:, column])[order]) for each in tried)
    for size in np.unique(np.geomspace(1, len(order), min(len(order), 60)).astype(np.int64)):
        event = ValueEvent(column, values[order[:size]])
        yield event, int(hits[size - 1]), int(misses[size - 1])


def _times(values: Floats, column: Floats) -> npt.NDArray[np.intp]:
    """Return how often each of the sorted `values` is in a column."""
    ordered = np.sort(column)
    return np.searchsorted(ordered, values, "right") - np.searchsorted(ordered, values, "left")


def _cautious(hits: int, tries: int, misses: int, others: int, delta: float) -> float:
    """Return ln of the ratio less three standard errors: a quick score to choose among events."""
    p, q = hits / tries, (misses + 1) / (others + 1)
    low = p - 3 * math.sqrt(p * (1 - p) / tries) - delta
    high = q + 3 * math.sqrt(q * (1 - q) / others)
    return math.log(low / high) if low > 0 else -math.inf


# Last bits of floating-point outputs (Mironov, 2012). A floating-point number has 53 bits. The sum
# of a count and computed noise can take some values and not others, depending on the count; a value
# that only one of two tables can give identifies the table, whatever the scale of the noise.


def last_bits(numbers: Outputs) -> Outputs:
    """Return the exponent of the last bit of each number; 64 for the number 0."""
    fractions, exponents = np.frexp(numbers)
    whole = np.ldexp(np.abs(fractions), 53).astype(np.int64)
    last = np.log2(np.where(whole == 0, 1, whole & -whole).astype(np.float64))
    found: Outputs = np.where(whole == 0, 64.0, exponents - 53 + last)
    return found


def floating_point_finding(claim: str, one: Outputs, other: Outputs, epsilon: float) -> Finding:
    """Test the last bits of outputs for two neighbouring tables against a promised ε."""
    if all(np.array_equal(numbers, np.round(numbers)) for numbers in (one, other)):
        sentence = "All published numbers are whole: they have no bits that noise left alone."
        return Finding("last bits", claim, "stands", sentence)
    found = distinguish(last_bits(one), last_bits(other), confidence=CONFIDENCE)
    sentence = (
        f"The last bits of the numbers of {found.runs} runs imply an ε of at least "
        f"{found.epsilon:.4g} ({found.event}); promised is {epsilon:.4g}."
    )
    verdict: Verdict = "refuted" if found.epsilon > epsilon else "stands"
    numbers = {"epsilon at least": found.epsilon, "claimed": epsilon}
    return Finding("last bits", claim, verdict, sentence, numbers, CONFIDENCE)
