"""Odds recomputed from evidence; stated noise.

By how much one person's value can change the probability of what a release shows: computed from
the evidence alone, by other ways than the mechanisms use.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import comb, inf, log, prod
from pathlib import Path
from typing import Any

import numpy as np

from scumble.model.evidence.channels import (
    Channel,
    PartitionChannel,
    PoolLaw,
    SubsetLaw,
    UniformChannel,
)
from scumble.model.evidence.evidence import Measurements
from scumble.model.evidence.presence import InclusionProbabilities
from scumble.model.laws import law_from_dict
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from scumble.public.release import Release

Matrix = list[list[Fraction]]


def channel_ratio(channel: Channel, schema: Schema) -> Fraction | None:
    """The largest P(shown | one value) / P(shown | another); None if it has no limit."""
    if isinstance(channel, UniformChannel):
        return _ratio(uniform_matrix(channel.keep, schema.size(channel.attributes)))
    if isinstance(channel, PartitionChannel):
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


# Tuples that are in views or not: how far what is shown of one can move the odds that it is true.
#
# All patterns of the views are gone through, with the probabilities that are published.


@dataclass(frozen=True)
class Pattern:
    """Which views show a tuple, with the probabilities if it is true and if it is false; `times` is
    how many patterns there are with these probabilities.
    """

    true: Fraction
    false: Fraction
    times: int


def patterns(
    presence: InclusionProbabilities, relative: Fraction = Fraction(1)
) -> Iterator[Pattern]:
    """Every pattern of the views made so far: first in some view and in so many of the later ones,
    in any order; the last one is never. Sources make false tuples more or less likely than in the
    mean, by the factor `relative`, in the only view that there is then.
    """
    kept, faded = presence.kept, presence.kept * presence.fade
    own = kept + (relative - 1) * presence.noise
    true = false = Fraction(1)  # no view so far
    for view in range(1, presence.views + 1):
        noise, later = presence.noise_of(view) * relative, presence.views - view
        for again in range(later + 1):
            yield Pattern(
                true * own * kept**again * (1 - kept) ** (later - again),
                false * noise * faded**again * (1 - faded) ** (later - again),
                comb(later, again),
            )
        true, false = true * (1 - own), false * (1 - noise)
    yield Pattern(true, false, 1)


@dataclass(frozen=True)
class TupleOdds:
    """What the views of a law may show of a tuple out of `domain` possible ones.

    With sources, of those that noise shows least and most often: all ratios of true to false fall
    as that grows, and posteriors from priors in proportion to it are larger at the ends too.
    """

    law: InclusionProbabilities
    domain: int

    @cached_property
    def _seen(self) -> list[tuple[Fraction, Pattern]]:
        """The share of a tuple in the sources, and a pattern that can happen."""
        sources = list((self.law.sources or {}).values())
        ends = [
            prod((len(each) * end(each) for each in sources), start=Fraction(1))
            for end in (min, max)
        ]
        return [
            (relative / self.domain, pattern)
            for relative in dict.fromkeys(ends)
            for pattern in patterns(self.law, relative)
            if pattern.true or pattern.false
        ]

    @cached_property
    def least(self) -> Fraction:
        """The smallest ratio: the factor by which a prior near 0 can fall, and no other falls by
        more.
        """
        return min(each.true / each.false for _, each in self._seen if each.false)

    @cached_property
    def most(self) -> Fraction | None:
        """The largest ratio; None if it has no limit."""
        if any(not each.false for _, each in self._seen):
            return None
        return max(each.true / each.false for _, each in self._seen)

    def end(self, prior: Fraction) -> Fraction:
        """Where a prior can end, if tuples are independent."""
        return max(_bayes(prior, each.true, each.false) for _, each in self._seen)

    def end_by_share(self, k: Fraction) -> Fraction:
        """The same for a prior of k times the number of rows times the share of the tuple."""
        rows = max(self.law.rows, 1)
        return max(
            _bayes(min(k * rows * share, Fraction(1)), each.true, each.false)
            for share, each in self._seen
        )

    def end_of_one(self, prior: Fraction) -> Fraction:
        """The same if exactly one of several tuples is true and none had more than `prior`: one
        shows what speaks most for it, all others what speaks most against them.
        """
        return Fraction(1) if self.most is None else _bayes(prior, self.most, self.least)

    def loss(self, *, replaced: bool) -> float:
        """The largest loss of one tuple: added or removed, or taken away for another one, which is
        then shown with a pattern of its own.
        """
        up = inf if self.most is None else log(self.most)
        down = -log(self.least) if self.least else inf
        return up + down if replaced else max(up, down)


def _bayes(prior: Fraction, true: Fraction, false: Fraction) -> Fraction:
    """Nothing of what cannot happen: who is sure of a tuple will not see what no true one shows."""
    seen = prior * true + (1 - prior) * false
    return prior * true / seen if seen else Fraction(0)


# The noise that a released summary states, beside that which its method takes with the same
# parameters.

NoiseLaw = DiscreteLaplace | DiscreteGaussian
_KINDS = ("discrete laplace", "discrete gaussian")


@dataclass(frozen=True)
class StatedNoise:
    """Pairs of laws: what the method takes for some sums, and what the release states for them."""

    pairs: tuple[tuple[NoiseLaw, NoiseLaw], ...]

    @classmethod
    def of(cls, release: Release, mechanism: Summary) -> StatedNoise | None:
        """None if the release states other sums. Only for methods whose plan is fixed: it is made
        again for a table of nobody.
        """
        evidence = release.evidence
        if not isinstance(evidence, Measurements):
            return None
        nobody = np.zeros(release.schema.size(evidence.columns), np.int64)
        counter = TensorCounter(release.schema, evidence.columns, nobody)
        with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
            table = PrivateTable(counter, BudgetAccount(mechanism.promise), Keystream(0))
            again = mechanism.measure(table, Path(folder))
        if not isinstance(again, Measurements):
            return None
        taken: list[NoiseLaw] = []
        stated: list[NoiseLaw] = []
        if _bare(again.to_dict(), taken) != _bare(evidence.to_dict(), stated):
            return None
        return cls(tuple(zip(taken, stated, strict=True)))

    @property
    def narrower(self) -> str | None:
        """Where the release states less noise, in words; None if nowhere."""
        for taken, stated in self.pairs:
            if type(taken) is not type(stated) or _width(stated) < _width(taken):
                return f"{_words(stated)} in place of {_words(taken)}"
        return None


def _width(law: NoiseLaw) -> Any:
    return law.scale if isinstance(law, DiscreteLaplace) else law.parameter


def _words(law: NoiseLaw) -> str:
    if isinstance(law, DiscreteLaplace):
        return f"Laplace noise of scale {float(law.scale):.4g}"
    return f"Gaussian noise of variance {float(law.parameter):.4g}"


def _bare(data: Any, laws: list[NoiseLaw]) -> Any:
    """A description without its laws of noise, which are noted in their order."""
    if isinstance(data, dict):
        if data.get("kind") in _KINDS:
            law = law_from_dict(data)
            if isinstance(law, NoiseLaw):
                laws.append(law)
            return "law"
        return {key: _bare(each, laws) for key, each in data.items()}
    if isinstance(data, list | tuple):
        return [_bare(each, laws) for each in data]
    return data
