"""The distinguishing test: outputs from two neighbouring tables, and how well an event tells them
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

from scumble.audit.chance import at_least, at_most
from scumble.audit.events import MOST_SINGLE, Event, Outputs, learn


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
