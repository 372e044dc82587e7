"""The loss of summaries between neighbouring tables: exactly where the plan does not depend on the
data, and step by step where it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.audit import hooks
from scumble.audit.choices import MOST_SCORES, log_p_flipped, log_p_top
from scumble.audit.runs import (
    Counts,
    ExactLoss,
    Pair,
    RecordedStep,
    backgrounds,
    changes,
    draw_outputs,
    exact_loss,
    measured_names,
    record_steps,
    tables_of,
)
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.sampling.source import Keystream

Floats = npt.NDArray[np.float64]
Record = list[RecordedStep]


@dataclass(frozen=True, eq=False)
class WorstPair:
    """The neighbours between which a summary loses most, and its steps on both tables.

    `published` is the linear map from the noisy numbers to the published ones; None if all noisy
    numbers are published.
    """

    pair: Pair
    loss: ExactLoss
    records: tuple[Record, Record]
    published: Floats | None

    @property
    def independent(self) -> bool:
        """Whether each published number has noise of its own."""
        return self.published is None

    def runs(self, number: int, noise: Keystream) -> tuple[Floats, Floats]:
        """Draw `number` outputs for each of the two tables."""
        one, other = (draw_outputs(record, number, noise) for record in self.records)
        if self.published is None:
            return one, other
        return one @ self.published.T, other @ self.published.T


def worst_pair(mechanism: Summary, schema: Schema, relation: str, rows: int) -> WorstPair | None:
    """Return the neighbours of several tables between which most is lost.

    It is None if the plan depends on the data, or if no step can be recorded.
    """
    cells = schema.size(measured_names(mechanism))
    own = hooks.of_mechanism(mechanism.name, "find_published")
    published = None if own is None else own(mechanism, schema)
    found: WorstPair | None = None
    for words, counts in backgrounds(cells).items():
        records: dict[bytes, Record] = {}
        for one, other in changes(counts, range(cells), relation, rows):
            for table in (one, other):
                if table.tobytes() not in records:
                    records[table.tobytes()] = record_steps(mechanism, schema, table)
            pair = records[one.tobytes()], records[other.tobytes()]
            loss = pair_loss(mechanism, schema, one - other, pair)
            if loss is None:
                return None
            if found is None or _size(loss) > _size(found.loss):
                found = WorstPair(Pair(words, one, other), loss, pair, published)
    return found


def pair_loss(
    mechanism: Summary, schema: Schema, change: Counts, records: tuple[Record, Record]
) -> ExactLoss | None:
    """Return the loss between two tables with these records, whose counts differ by `change`.

    It is None in the cases in which `worst_pair` returns None, and for residuals of sums.
    """
    loss = exact_loss(*records) if records[0] else None
    own = hooks.of_mechanism(mechanism.name, "find_loss")
    given = mechanism.parameters
    if loss is not None and loss.rho and given.get("sums") and (own or given.get("sum_ways")):
        return None  # of sums by tables only residuals are published
    if loss is None or own is None:
        return loss
    smaller: ExactLoss | None = own(mechanism, schema, change)
    return smaller or loss


def _size(loss: ExactLoss) -> Fraction:
    return loss.epsilon + loss.rho


# Summaries whose plan depends on the data: the steps of their runs, and decisions by the cheapest
# of several sums of costs, whose probabilities are known exactly for three codes.

RUNS_A_SEED, FEWEST_SEEDS, MOST_SEEDS = 20_000, 10, 50
WAYS = ([0, 1, 2], [1, 2], [0, 2])  # ways to join three codes: the last code of each bucket
_STEPS = range(7)  # counts of the tables, in scales of the noise
_RARE = 0.02  # rarer decisions are ignored
_TRIES = 500  # runs to find one that takes a given decision
_REACH = 45  # in scales of the noise: larger noise has a probability of e^-45


@dataclass(frozen=True, eq=False)
class Decision:
    """Two tables, the way to join their codes (of three) that distinguishes them best, its loss."""

    pair: Pair
    way: int
    loss: float


@dataclass(frozen=True, eq=False)
class Stepwise:
    """Transcripts of runs of a summary on neighbouring tables that took the same decisions."""

    mechanism: Summary
    transcripts: tuple[Transcript, ...]

    @classmethod
    def of(cls, mechanism: Summary, schema: Schema, runs: int, noise: Keystream) -> Stepwise:
        """Run the summary with some seeds, whose number grows with `runs`."""
        given = mechanism.parameters
        number = min(max(runs // RUNS_A_SEED, FEWEST_SEEDS), MOST_SEEDS)
        seeds = [noise.bits(60) for _ in range(number)]
        found = transcripts(mechanism, schema, given["neighbours"], given["contribution"], seeds)
        return cls(mechanism, tuple(found))

    @property
    def worst(self) -> Transcript | None:
        """The transcript with the largest loss."""
        return max(self.transcripts, key=lambda told: told.loss, default=None)

    @cached_property
    def decided(self) -> Decision | None:
        """The decision by costs with the largest loss; None if there are no such decisions."""
        laws = [costs.law for told in self.transcripts for costs, _ in told.costs]
        if not laws or not isinstance(laws[0], DiscreteLaplace):
            return None
        return max(self._decisions(math.ceil(laws[0].scale)), key=lambda each: each.loss)

    @property
    def _schema(self) -> Schema:
        """The schema of the only attribute, with three codes."""
        [name] = self.mechanism.parameters["attributes"]
        return Schema((Attribute(name, "quasi", IntegerRange(0, len(WAYS) - 1)),))

    def _steps(self, counts: Counts, seed: int = 0) -> list[RecordedStep]:
        return record_steps(self.mechanism, self._schema, counts, seed)

    def _decisions(self, step: int) -> Iterator[Decision]:
        """Yield the decision with the largest loss for each pair of tables of three codes."""
        given = self.mechanism.parameters
        for first, more in product(_STEPS, _STEPS):
            counts = np.array([0, first * step, (first + more) * step])
            words = f"counts of 0, {counts[1]} and {counts[2]}"
            for one, other in changes(
                counts, range(len(WAYS)), given["neighbours"], given["contribution"]
            ):
                mine, yours = (join_probabilities(self._steps(table)) for table in (one, other))
                losses = np.abs(np.log(np.maximum(mine, _RARE) / np.maximum(yours, _RARE)))
                way = int(losses.argmax())
                yield Decision(Pair(words, one, other), way, float(losses[way]))

    def after(self, decision: Decision) -> Fraction:
        """Return the loss of the steps after a decision; 0 if no run took it."""
        pair = decision.pair
        for seed in range(_TRIES):
            one, other = (self._steps(table, seed) for table in (pair.one, pair.other))
            told = transcript(pair, one, other)
            ends = next(step.numbers for step in one if step.kind == "chosen").tolist()
            if told is not None and ends == WAYS[decision.way]:
                return told.numbers
        return Fraction(0)


def join_probabilities(steps: list[RecordedStep]) -> Floats:
    """Return the probabilities of the three ways to join codes 0, 1 and 2: none, 01, and 12.

    The cheapest way is chosen by the costs of the buckets 0, 1, 2, 01 and 12, less geometric noise.
    01 is chosen if 01 and 2 cost at most as much as 0 and 12, and 01 less than 0 and 1. Given the
    difference d of the noise of 01 and 0, these two events are independent: the one depends on the
    noise of 2 and 12, the other on that of 1. The same holds for 12, which must cost strictly less
    in both comparisons.
    """
    [costs] = [step for step in steps if step.kind == "costs"]
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
    """Return P(difference of two geometric numbers ≥ limit)."""
    whole = 1 + math.exp(-rate)
    above = np.exp(-rate * np.maximum(limit, 0)) / whole
    below = 1 - np.exp(-rate * np.maximum(1 - limit, 0)) / whole
    return np.where(limit >= 0, above, below)


def _below(limit: Floats, rate: float) -> Floats:
    """Return P(geometric number < limit)."""
    found: Floats = -np.expm1(-rate * np.maximum(limit, 0))
    return found


# Transcripts. Runs on two neighbouring tables with the same random bits mostly take the same
# decisions. Then their decisions and numbers are one transcript that both tables can give. Its
# probability under each table is known, and so is the logarithm of their ratio, which a promised ε
# bounds.

Integers = npt.NDArray[np.int64]

_LONGEST = 128  # the probabilities of longer lists are not computed


@dataclass(frozen=True, eq=False)
class Transcript:
    """A transcript that two tables can give.

    `numbers` is the largest loss of numbers with noise, over all their values, `decisions` the
    signed loss of the decisions, and `costs` the steps in which the cheapest sum of costs decided.
    """

    pair: Pair
    numbers: Fraction
    decisions: float
    costs: tuple[tuple[RecordedStep, RecordedStep], ...]

    @property
    def loss(self) -> float:
        """The largest loss of any numbers after these decisions, without that of costs."""
        return float(self.numbers) + abs(self.decisions)


def transcripts(
    mechanism: Summary, schema: Schema, relation: str, rows: int, seeds: Iterable[int]
) -> Iterator[Transcript]:
    """Yield the transcripts of all neighbours of several tables that took the same decisions."""
    for seed, (words, counts) in product(seeds, tables_of(mechanism, schema).items()):
        steps: dict[bytes, list[RecordedStep]] = {}
        for one, other in changes(counts, range(len(counts)), relation, rows):
            for table in (one, other):
                if table.tobytes() not in steps:
                    steps[table.tobytes()] = record_steps(mechanism, schema, table, seed)
            told = transcript(Pair(words, one, other), steps[one.tobytes()], steps[other.tobytes()])
            if told is not None:
                yield told


def transcript(
    pair: Pair, one: Sequence[RecordedStep], other: Sequence[RecordedStep]
) -> Transcript | None:
    """Return the transcript of two runs; None if they took different decisions."""
    if len(one) != len(other):
        return None
    numbers, decisions, costs = Fraction(0), 0.0, []
    for mine, yours in zip(one, other, strict=True):
        if not _alike(mine, yours) or not isinstance(mine.law, DiscreteLaplace):
            return None
        if mine.kind in ("sums", "cells"):
            numbers += _moved(mine, yours) / mine.law.scale
        elif mine.kind == "splits":
            decisions += log_p_splits(mine, mine.law) - log_p_splits(yours, mine.law)
        elif mine.kind == "children":
            decisions += log_ratio_of_children(mine, yours, mine.law)
        elif mine.kind == "least":
            decisions += log_p_minima(mine, mine.law) - log_p_minima(yours, mine.law)
        elif mine.kind in ("one of", "top"):
            decisions += log_p_choice(mine) - log_p_choice(yours)
        elif mine.kind == "costs":
            costs.append((mine, yours))
    return Transcript(pair, numbers, decisions, tuple(costs))


def _alike(one: RecordedStep, other: RecordedStep) -> bool:
    """Return whether two steps are of the same kind and law and took the same decisions."""
    if (one.kind, one.law) != (other.kind, other.law):
        return False
    if one.kind == "cells":
        return True
    if one.kind == "chosen":
        return np.array_equal(one.numbers, other.numbers)
    if one.kind == "least" and any(len(scores) > _LONGEST for _, scores in _lists(one)):
        return False
    if one.kind in ("one of", "top") and max(len(one.numbers), len(other.numbers)) > MOST_SCORES:
        return False
    if one.kind == "children":
        return one.floor == other.floor and np.array_equal(_chosen(one), _chosen(other))
    same_shape = one.numbers.shape == other.numbers.shape
    return same_shape and (one.chosen is None or np.array_equal(_chosen(one), _chosen(other)))


def _moved(one: RecordedStep, other: RecordedStep) -> int:
    """Return the L1 distance of the numbers of two steps; cells without rows are 0."""
    if one.places is None or other.places is None:
        return sum(abs(int(gap)) for gap in (one.numbers - other.numbers).ravel().tolist())
    mine, yours = (
        dict(zip(map(str, each.places), each.numbers.tolist(), strict=True))
        for each in (one, other)
        if each.places is not None
    )
    return sum(abs(mine.get(key, 0) - yours.get(key, 0)) for key in mine.keys() | yours.keys())


def log_p_splits(step: RecordedStep, law: DiscreteLaplace) -> float:
    """Return the log probability that exactly the chosen numbers are above 0 after noise."""
    pairs = zip(step.numbers.tolist(), _chosen(step).tolist(), strict=True)
    return sum(_log_p_split(number, split, law) for number, split in pairs)


def _log_p_split(number: int, split: bool, law: DiscreteLaplace) -> float:
    """Return the log probability that a number is above 0 after noise, or that it is not."""
    rate = float(1 / law.scale)
    # P(number + noise > 0) of a number of at most 0; the others are the mirror image.
    far = -rate * (1 - number if number <= 0 else number) - math.log1p(math.exp(-rate))
    return far if split == (number <= 0) else math.log1p(-math.exp(far))


def log_ratio_of_children(one: RecordedStep, other: RecordedStep, law: DiscreteLaplace) -> float:
    """Return the log ratio of the probabilities that exactly the chosen keys are above 0 after
    noise. Keys that neither step has a number of have the same probability in both.
    """
    mine, yours = (
        dict(zip(each.places.tolist(), each.numbers.tolist(), strict=True))
        for each in (one, other)
        if each.places is not None
    )
    chosen = set(_chosen(one).tolist())
    return math.fsum(
        _log_p_split(mine.get(key, one.floor), key in chosen, law)
        - _log_p_split(yours.get(key, one.floor), key in chosen, law)
        for key in mine.keys() | yours.keys()
    )


def log_p_minima(step: RecordedStep, law: DiscreteLaplace) -> float:
    """Return the log probability that the chosen numbers are the least of their lists, after
    geometric noise is subtracted; ties are broken at random.
    """
    chosen = _chosen(step).tolist()
    return math.fsum(
        _least(tuple((scores - scores.min()).tolist()), place - begin, law.scale)
        for (begin, scores), place in zip(_lists(step), chosen, strict=True)
    )


def log_p_choice(step: RecordedStep) -> float:
    """Return the log probability of a choice of one of several numbers, or of the largest."""
    numbers, chosen = tuple(step.numbers.tolist()), tuple(_chosen(step).tolist())
    if not isinstance(step.law, DiscreteLaplace):
        raise TypeError("choices have a scale")
    scale = float(step.law.scale)
    if step.kind == "top":
        return log_p_top(numbers, chosen, scale)
    return log_p_flipped(numbers, chosen[0], scale)


def _lists(step: RecordedStep) -> list[tuple[int, Integers]]:
    """Return where each list begins, and its numbers."""
    begins = [] if step.places is None else step.places.tolist()
    return list(zip(begins, np.split(step.numbers, begins[1:]), strict=True))


def _chosen(step: RecordedStep) -> npt.NDArray[Any]:
    if step.chosen is None:
        raise TypeError(f"a step of the kind '{step.kind}' decides something")
    return step.chosen


@lru_cache(maxsize=1 << 14)
def _least(gaps: tuple[int, ...], place: int, scale: Fraction) -> float:
    """Return the log probability that the score at `place` is the least after noise.

    The noise k ≥ 0 has probability (1-a) a^k, a = e^(-1/scale). The score s wins at s - k = r if no
    other ends below r; with m others at r it wins with probability 1/(m+1), the integral of u^m.
    """
    rate = float(1 / scale)
    below = np.arange(math.ceil(_REACH / rate) + 1.0)  # of the least score
    points, weights = _points()
    chance = np.ones((len(below), len(points)))
    for gap in (*gaps[:place], *gaps[place + 1 :]):
        reached = np.exp(-rate * (gap + below))[:, None]
        chance *= 1 - reached * (1 + points * math.expm1(-rate))
    own = -math.expm1(-rate) * np.exp(-rate * below)
    return -rate * gaps[place] + math.log(float(own @ chance @ weights))


@lru_cache
def _points() -> tuple[Floats, Floats]:
    """Return points and weights of Gauss-Legendre integration from 0 to 1."""
    points, weights = np.polynomial.legendre.leggauss(_LONGEST // 2)
    return (points + 1) / 2, weights / 2
