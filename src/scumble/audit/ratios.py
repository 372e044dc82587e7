"""By how much one person's value can change the probability of what a release shows: computed from
the evidence alone, by other ways than the mechanisms use.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np

from scumble.channels import Channel, SplitChannel, UniformChannel
from scumble.pool_law import PoolLaw
from scumble.presence import Included
from scumble.schema import Schema
from scumble.subset_law import SubsetLaw

Matrix = list[list[Fraction]]


def channel_ratio(channel: Channel, schema: Schema) -> Fraction | None:
    """The largest P(shown | one value) / P(shown | another); None if it has no limit."""
    if isinstance(channel, UniformChannel):
        return _ratio(uniform_matrix(channel.keep, schema.size(channel.attributes)))
    if isinstance(channel, SplitChannel):
        pairs = zip(channel.keeps, channel.domains, strict=True)
        return max(
            _ratio(uniform_matrix(keep, len(domain))) or Fraction(1) for keep, domain in pairs
        )
    if isinstance(channel.law, SubsetLaw):
        return _ratio(subset_matrix(channel.law))
    return None  # of bags with the true value in them: a value that is absent is excluded


def uniform_matrix(keep: Fraction, values: int) -> Matrix:
    """P(shown | true) of two values; all others are like the second."""
    other = (1 - keep) / values
    return [[keep + other, other], [other, keep + other]]


def subset_matrix(law: SubsetLaw) -> Matrix:
    """P(set | true) for a set that holds one value and not the other."""
    inside = law.inclusion / comb(law.values - 1, law.size - 1)
    outside = (1 - law.inclusion) / comb(law.values - 1, law.size)
    return [[inside, outside], [outside, inside]]


def _ratio(matrix: Matrix) -> Fraction | None:
    pairs = [
        (one, other)
        for column in zip(*matrix, strict=True)
        for one, other in product(column, column)
    ]
    if any(other == 0 and one > 0 for one, other in pairs):
        return None
    return max((one / other for one, other in pairs if other), default=Fraction(1))


@dataclass(frozen=True)
class Pattern:
    """Which views show a tuple, with the probabilities if it is true and if it is false."""

    shown: tuple[bool, ...]
    true: Fraction
    false: Fraction


def patterns(presence: Included) -> Iterator[Pattern]:
    """Every pattern of the views made so far, one after the other."""
    for shown in product((True, False), repeat=presence.views):
        true = false = Fraction(1)
        for place, there in enumerate(shown):
            own, other = presence.kept, _false(presence, shown[:place])
            true *= own if there else 1 - own
            false *= other if there else 1 - other
        yield Pattern(shown, true, false)


def _false(presence: Included, before: Sequence[bool]) -> Fraction:
    """The probability of a false tuple in the next view."""
    if any(before):
        return presence.kept * presence.fade
    return presence.noise_of(len(before) + 1)


def posterior(presence: Included, prior: Fraction) -> tuple[Fraction, Fraction]:
    """The largest posterior that a prior of at most `prior` can reach, and the smallest factor by
    which any prior can fall, over everything that the views may show of a tuple.
    """
    highest, lowest = Fraction(0), Fraction(1)
    for pattern in patterns(presence):
        both = prior * pattern.true + (1 - prior) * pattern.false
        if both:
            highest = max(highest, prior * pattern.true / both)
            lowest = min(lowest, pattern.true / both)
    return highest, lowest


def tuple_loss(presence: Included, *, replaced: bool) -> float:
    """The largest loss of one tuple: added or removed, or taken away for another one, which is then
    shown with a pattern of its own.
    """
    up = down = 0.0
    for pattern in patterns(presence):
        if pattern.true and not pattern.false:
            up = math.inf
        elif pattern.false and not pattern.true:
            down = math.inf
        elif pattern.true:
            change = math.log(pattern.true / pattern.false)
            up, down = max(up, change), max(down, -change)
    return up + down if replaced else max(up, down)


def delta_of(law: PoolLaw, epsilon: float, bags: int) -> float:
    """δ at ε of Aroma's bags for the two values that differ most, as a mean over drawn bags:
    E[max(0, 1 - e^ε P(bag | other) / P(bag | true))] with P(bag | v) proportional to count / share.
    """
    shares = np.array([float(share) for share in law.shares])
    rarest = int(np.argmin(shares))
    others = [place for place in range(law.values) if place != rarest]
    other = max(others, key=lambda place: shares[place])
    found = []
    for true, instead in ((rarest, other), (other, rarest)):
        counts = np.random.default_rng(true).multinomial(law.size - 1, shares, bags)
        counts[:, true] += 1
        odds = counts[:, instead] * shares[true] / (counts[:, true] * shares[instead])
        found.append(float(np.maximum(0.0, 1 - math.exp(epsilon) * odds).mean()))
    return max(found)
