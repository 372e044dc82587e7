"""Summaries whose plan depends on the data, against their promise: the steps of their runs, and
decisions by the cheapest of several sums of costs, whose probabilities are known for few codes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

from scumble.audit.neighbours import Counts, Pair, changes
from scumble.audit.recorder import measured
from scumble.audit.transcripts import Transcript, transcript, transcripts
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.sampling.hidden import Hidden
from scumble.private.sampling.source import Source

Floats = npt.NDArray[np.float64]

RUNS_A_SEED, FEWEST_SEEDS, MOST_SEEDS = 20_000, 10, 50
WAYS = ([0, 1, 2], [1, 2], [0, 2])  # to join three codes: the last code of each bucket
_STEPS = range(7)  # counts that are tried, in scales of the noise
_RARE = 0.02  # decisions that are rarer are not looked at
_TRIES = 500  # runs until a decision is taken that is not rare
_REACH = 45  # scales of noise: what is beyond has a probability of e^-45


@dataclass(frozen=True, eq=False)
class Decision:
    """Two tables, which of three ways to join their codes tells them apart best, and its loss."""

    pair: Pair
    way: int
    loss: float


@dataclass(frozen=True, eq=False)
class Stepwise:
    """What the runs of a summary on neighbouring tables told, where they decided alike."""

    mechanism: Summary
    told: tuple[Transcript, ...]

    @classmethod
    def of(cls, mechanism: Summary, schema: Schema, runs: int, noise: Source) -> Stepwise:
        """With as many seeds as so many runs are worth."""
        given = mechanism.parameters
        number = min(max(runs // RUNS_A_SEED, FEWEST_SEEDS), MOST_SEEDS)
        seeds = [noise.bits(60) for _ in range(number)]
        found = transcripts(mechanism, schema, given["neighbours"], given["contribution"], seeds)
        return cls(mechanism, tuple(found))

    @property
    def worst(self) -> Transcript | None:
        """The one that loses most."""
        return max(self.told, key=lambda told: told.loss, default=None)

    @cached_property
    def decided(self) -> Decision | None:
        """The decision by costs that loses most; None if there are no such decisions."""
        laws = [costs.law for told in self.told for costs, _ in told.costs]
        if not laws or not isinstance(laws[0], DiscreteLaplace):
            return None
        return max(self._decisions(math.ceil(laws[0].scale)), key=lambda each: each.loss)

    @property
    def _schema(self) -> Schema:
        """Of the one attribute, with three codes."""
        [name] = self.mechanism.parameters["attributes"]
        return Schema((Attribute(name, "quasi", IntegerRange(0, len(WAYS) - 1)),))

    def _steps(self, counts: Counts, seed: int = 0) -> list[Hidden]:
        names = self.mechanism.parameters["attributes"]
        return measured(self.mechanism, self._schema, names, counts, seed)

    def _decisions(self, step: int) -> Iterator[Decision]:
        """Of tables whose middle code may be joined to the one or to the other."""
        given = self.mechanism.parameters
        for first, more in product(_STEPS, _STEPS):
            counts = np.array([0, first * step, (first + more) * step])
            words = f"counts of 0, {counts[1]} and {counts[2]}"
            for one, other in changes(
                counts, range(len(WAYS)), given["neighbours"], given["contribution"]
            ):
                mine, yours = (cheapest_of_three(self._steps(table)) for table in (one, other))
                losses = np.abs(np.log(np.maximum(mine, _RARE) / np.maximum(yours, _RARE)))
                way = int(losses.argmax())
                yield Decision(Pair(words, one, other), way, float(losses[way]))

    def after(self, decision: Decision) -> Fraction:
        """What the steps after a decision lose; nothing if no run took it."""
        pair = decision.pair
        for seed in range(_TRIES):
            one, other = (self._steps(table, seed) for table in (pair.one, pair.other))
            told = transcript(pair, one, other)
            ends = next(step.numbers for step in one if step.how == "chosen").tolist()
            if told is not None and ends == WAYS[decision.way]:
                return told.numbers
        return Fraction(0)


def cheapest_of_three(steps: list[Hidden]) -> Floats:
    """The probabilities of the three ways: all codes alone, the first two or the last two together,
    by the costs of codes 0, 1 and 2 and of 01 and 12, less geometric noise.

    01 is chosen if it costs at most as much as 12 with the others, and less than 0 and 1 together:
    given the difference d of the noise of 01 and 0 these are independent, one for the noise of 2
    and 12 and one for that of 1. And 12 likewise, but that it has to cost less than both.
    """
    [costs] = [step for step in steps if step.how == "costs"]
    if not isinstance(costs.law, DiscreteLaplace) or len(costs.numbers) != 5:
        raise TypeError("three codes have five buckets, whose costs have geometric noise")
    c0, c1, c2, c01, c12 = map(float, costs.numbers.tolist())
    rate = float(1 / costs.law.scale)
    reach = math.ceil(_REACH * costs.law.scale) + float(np.ptp(costs.numbers))
    d = np.arange(-reach, reach + 1)
    each = np.exp(-rate * np.abs(d)) * math.tanh(rate / 2)  # of the difference of two
    gap = c01 + c2 - c0 - c12
    first = each @ (_at_least(gap - d, rate) * _below(c0 + c1 - c01 + d, rate))
    last = each @ (_at_least(1 - gap - d, rate) * _below(c1 + c2 - c12 + d, rate))
    return np.array([1 - first - last, first, last])


def _at_least(limit: Floats, rate: float) -> Floats:
    """P(difference of two geometric numbers ≥ limit)."""
    whole = 1 + math.exp(-rate)
    above = np.exp(-rate * np.maximum(limit, 0)) / whole
    below = 1 - np.exp(-rate * np.maximum(1 - limit, 0)) / whole
    return np.where(limit >= 0, above, below)


def _below(limit: Floats, rate: float) -> Floats:
    """P(geometric number < limit)."""
    found: Floats = -np.expm1(-rate * np.maximum(limit, 0))
    return found
