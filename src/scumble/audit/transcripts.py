"""Summaries whose plan depends on the data, step by step: what both of two neighbouring tables lose
where they take the same decisions.

Runs on two tables with the same random bits mostly decide alike. Where they do, all that is decided
and told is one transcript that both tables can give, and its probabilities are known: so is the
logarithm of their ratio, which a promised ε bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.audit.neighbours import Pair, backgrounds, changes
from scumble.audit.recorder import measured
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.sampling.hidden import Hidden

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_REACH = 45  # scales of noise: what is beyond has a probability of e^-45
_LONGEST = 128  # of longer lists the probabilities are not computed


@dataclass(frozen=True, eq=False)
class Transcript:
    """What one run told of two tables: the loss of numbers with noise, which is the same whatever
    they are, and of decisions, with a sign; and costs of which the cheapest decided.
    """

    pair: Pair
    numbers: Fraction
    decisions: float
    costs: tuple[tuple[Hidden, Hidden], ...]

    @property
    def loss(self) -> float:
        """The largest loss of all that can be told after these decisions, without that of costs."""
        return float(self.numbers) + abs(self.decisions)


def transcripts(
    mechanism: Summary, schema: Schema, relation: str, rows: int, seeds: Iterable[int]
) -> Iterator[Transcript]:
    """Those of all neighbours of several tables that decided alike."""
    names = mechanism.parameters["attributes"]
    cells = schema.size(names)
    for seed, (words, counts) in product(seeds, backgrounds(cells).items()):
        steps: dict[bytes, list[Hidden]] = {}
        for one, other in changes(counts, range(cells), relation, rows):
            for table in (one, other):
                if table.tobytes() not in steps:
                    steps[table.tobytes()] = measured(mechanism, schema, names, table, seed)
            told = transcript(Pair(words, one, other), steps[one.tobytes()], steps[other.tobytes()])
            if told is not None:
                yield told


def transcript(pair: Pair, one: Sequence[Hidden], other: Sequence[Hidden]) -> Transcript | None:
    """What the steps of two runs tell together; None if they decided otherwise."""
    if len(one) != len(other):
        return None
    numbers, decisions, costs = Fraction(0), 0.0, []
    for mine, yours in zip(one, other, strict=True):
        if not _alike(mine, yours) or not isinstance(mine.law, DiscreteLaplace):
            return None
        if mine.how in ("sums", "cells"):
            numbers += _moved(mine, yours) / mine.law.scale
        elif mine.how == "splits":
            decisions += splits(mine, mine.law) - splits(yours, mine.law)
        elif mine.how == "least":
            decisions += least(mine, mine.law) - least(yours, mine.law)
        elif mine.how == "costs":
            costs.append((mine, yours))
    return Transcript(pair, numbers, decisions, tuple(costs))


def _alike(one: Hidden, other: Hidden) -> bool:
    """Whether two steps do the same and came to the same decisions."""
    if (one.how, one.law) != (other.how, other.law):
        return False
    if one.how == "cells":
        return True
    if one.how == "chosen":
        return np.array_equal(one.numbers, other.numbers)
    if one.how == "least" and any(len(scores) > _LONGEST for _, scores in _lists(one)):
        return False
    same_shape = one.numbers.shape == other.numbers.shape
    return same_shape and (one.chosen is None or np.array_equal(_chosen(one), _chosen(other)))


def _moved(one: Hidden, other: Hidden) -> int:
    """By how much all numbers differ, cells without rows being 0."""
    if one.places is None or other.places is None:
        return sum(abs(int(gap)) for gap in (one.numbers - other.numbers).ravel().tolist())
    mine, yours = (
        dict(zip(map(str, each.places), each.numbers.tolist(), strict=True))
        for each in (one, other)
        if each.places is not None
    )
    return sum(abs(mine.get(key, 0) - yours.get(key, 0)) for key in mine.keys() | yours.keys())


def splits(step: Hidden, law: DiscreteLaplace) -> float:
    """The logarithm of the probability that just these numbers are above 0 after noise."""
    rate = float(1 / law.scale)
    whole = math.log1p(math.exp(-rate))
    total = 0.0
    for number, split in zip(step.numbers.tolist(), _chosen(step).tolist(), strict=True):
        # P(number + noise > 0) of a number of at most 0; the others are the mirror image.
        far = -rate * (1 - number if number <= 0 else number) - whole
        total += far if split == (number <= 0) else math.log1p(-math.exp(far))
    return total


def least(step: Hidden, law: DiscreteLaplace) -> float:
    """The logarithm of the probability that just these are the least of their lists, after
    geometric noise was taken off; equal ones are told apart by chance.
    """
    chosen = _chosen(step).tolist()
    return math.fsum(
        _least(tuple((scores - scores.min()).tolist()), place - begin, law.scale)
        for (begin, scores), place in zip(_lists(step), chosen, strict=True)
    )


def _lists(step: Hidden) -> list[tuple[int, Integers]]:
    """Where each list begins, and its numbers."""
    begins = [] if step.places is None else step.places.tolist()
    return list(zip(begins, np.split(step.numbers, begins[1:]), strict=True))


def _chosen(step: Hidden) -> npt.NDArray[Any]:
    if step.chosen is None:
        raise TypeError(f"a step of the kind '{step.how}' decides something")
    return step.chosen


@lru_cache(maxsize=1 << 14)
def _least(gaps: tuple[int, ...], place: int, scale: Fraction) -> float:
    """With noise k ≥ 0 of probability (1-a) a^k, a = e^(-1/scale): the score s wins at s - k = r if
    no other one ends below r; m others at r leave it a chance of 1/(m+1), the integral of u^m.
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
    """For integrals from 0 to 1."""
    points, weights = np.polynomial.legendre.leggauss(_LONGEST // 2)
    return (points + 1) / 2, weights / 2
