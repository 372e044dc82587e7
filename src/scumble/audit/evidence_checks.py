"""By how much one person's value can change the probability of what a release shows: computed from
the evidence alone, by other ways than the mechanisms use.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np

from scumble.model.evidence.channels import Channel, SplitChannel, UniformChannel
from scumble.model.evidence.pool_law import PoolLaw
from scumble.model.evidence.subset_law import SubsetLaw
from scumble.model.schema.schema import Schema

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
