"""The distinguishing test: outputs from two neighbouring tables, and how well an event tells them
apart.

Under (ε, δ)-DP every event has P(event | one) ≤ e^ε P(event | other) + δ. The runs are halved: on
one half an event is learned that seems to break this, on the other half it is counted, so that its
choice cannot flatter it. Limits on both probabilities turn the counts into a lower bound on ε that
is wrong with a probability of at most 1 - confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scumble.audit.chance import at_least, at_most
from scumble.audit.events import Event, Outputs, learn


@dataclass(frozen=True)
class Distinction:
    """The event that told the tables apart best, and the ε that it implies at least."""

    epsilon: float
    event: str
    likely: float  # a lower limit of its probability where it is likelier
    unlikely: float  # an upper limit where it is not
    runs: int


def distinguish(
    one: Outputs, other: Outputs, *, delta: float = 0.0, confidence: float = 0.9999
) -> Distinction:
    """A lower bound on the ε of a mechanism from runs on two neighbouring tables."""
    first, second = len(one) // 2, len(other) // 2
    best = Distinction(0.0, "no event", 1.0, 1.0, len(one) + len(other))
    # Both directions are tried: each gets half of the probability of an error.
    each = 1 - (1 - confidence) / 2
    for likely, unlikely in (((one, first), (other, second)), ((other, second), (one, first))):
        learning = likely[0][: likely[1]], unlikely[0][: unlikely[1]]
        event = learn(*learning, delta=delta)
        if event is None:
            continue
        found = _tested(event, likely[0][likely[1] :], unlikely[0][unlikely[1] :], delta, each)
        if found.epsilon > best.epsilon:
            best = found
    return best


def _tested(
    event: Event, likely: Outputs, unlikely: Outputs, delta: float, confidence: float
) -> Distinction:
    each = 1 - (1 - confidence) / 2  # two limits, each wrong with half of what is left
    low = at_least(int(event.holds(likely).sum()), len(likely), each)
    high = at_most(int(event.holds(unlikely).sum()), len(unlikely), each)
    epsilon = math.log((low - delta) / high) if low > delta else 0.0
    runs = len(likely) + len(unlikely)
    return Distinction(max(epsilon, 0.0), event.words, low, high, runs)
