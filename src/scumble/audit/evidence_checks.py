"""What the evidence of a release says about its privacy: likelihood ratios of channels and of
tuples, and the noise that a summary states.

All is computed from the evidence alone, by other formulas than the mechanisms use.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import comb, inf, log, prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.evidence.channels import (
    Channel,
    MultisetChannel,
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


def amplification(channel: Channel, schema: Schema) -> Fraction | None:
    """Return the largest P(shown | one value) / P(shown | another); None if it is unbounded."""
    if isinstance(channel, UniformChannel):
        return _ratio(uniform_matrix(channel.keep, schema.size(channel.attributes)))
    if isinstance(channel, PartitionChannel):
        pairs = zip(channel.keeps, channel.domains, strict=True)
        return max(
            _ratio(uniform_matrix(keep, len(domain))) or Fraction(1) for keep, domain in pairs
        )
    if isinstance(channel.law, SubsetLaw):
        return _ratio(subset_matrix(channel.law))
    return None  # a multiset holds the true value, so that an absent value is excluded


def multiset_counts(
    channel: MultisetChannel, table: pa.Table, values: int
) -> npt.NDArray[np.float64]:
    """Return how often every value is in the multiset of each row."""
    columns = [table[name].to_numpy() for name in channel.columns]
    if channel.layout == "counts":
        return np.stack(columns, axis=1).astype(np.float64)
    counts = np.zeros((table.num_rows, values))
    for members in columns:
        np.add.at(counts, (np.arange(table.num_rows), members.astype(np.int64)), 1.0)
    return counts


def uniform_matrix(keep: Fraction, values: int) -> Matrix:
    """Return P(shown | true) of two values; all others are like the second."""
    other = (1 - keep) / values
    return [[keep + other, other], [other, keep + other]]


def subset_matrix(law: SubsetLaw) -> Matrix:
    """Return P(set | true) of two values, for a set that holds the one and for one that holds the
    other.
    """
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


def estimated_delta(law: PoolLaw, epsilon: float, draws: int) -> float:
    """Estimate δ at ε of Aroma's multisets, for the two values that differ most, from `draws`
    draws.

    δ = E[max(0, 1 - e^ε P(multiset | other) / P(multiset | true))], where P(multiset | v) is
    proportional to count / share of v.
    """
    shares = np.array([float(share) for share in law.shares])
    rarest = int(np.argmin(shares))
    others = [place for place in range(law.values) if place != rarest]
    other = max(others, key=lambda place: shares[place])
    found = []
    for true, instead in ((rarest, other), (other, rarest)):
        counts = np.random.default_rng(true).multinomial(law.size - 1, shares, draws)
        counts[:, true] += 1
        odds = counts[:, instead] * shares[true] / (counts[:, true] * shares[instead])
        found.append(float(np.maximum(0.0, 1 - math.exp(epsilon) * odds).mean()))
    return max(found)


# Tuples that views show or not: how far the pattern of a tuple can move the odds that it is true.
# All patterns are enumerated, with the published probabilities.


@dataclass(frozen=True)
class Pattern:
    """A set of views that show a tuple: its probability if the tuple is true and if it is false.

    `times` is the number of patterns with these probabilities.
    """

    true: Fraction
    false: Fraction
    times: int


def patterns(
    presence: InclusionProbabilities, relative: Fraction = Fraction(1)
) -> Iterator[Pattern]:
    """Yield every pattern of the views: the first view that shows the tuple, and how many of the
    later ones do. The last pattern is that no view shows it.

    Sources make false tuples more or less likely than in the mean, by the factor `relative`; then
    there is only one view.
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
    """Likelihood ratios and posteriors of a tuple, out of `domain` possible ones.

    With sources it is enough to consider the tuples that noise shows least and most often: all
    ratios of true to false fall as the share in the sources grows, and posteriors of priors that
    are proportional to that share are largest at one of its ends too.
    """

    law: InclusionProbabilities
    domain: int

    @cached_property
    def _seen(self) -> list[tuple[Fraction, Pattern]]:
        """The share of a tuple in the sources, and each pattern of positive probability."""
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
        """The smallest ratio: the factor by which a prior near 0 can fall; others fall by less."""
        return min(each.true / each.false for _, each in self._seen if each.false)

    @cached_property
    def most(self) -> Fraction | None:
        """The largest ratio; None if it is unbounded."""
        if any(not each.false for _, each in self._seen):
            return None
        return max(each.true / each.false for _, each in self._seen)

    def end(self, prior: Fraction) -> Fraction:
        """Return the highest posterior of a tuple with this prior, if tuples are independent."""
        return max(_bayes(prior, each.true, each.false) for _, each in self._seen)

    def end_by_share(self, k: Fraction) -> Fraction:
        """Return the highest posterior for a prior of k · rows · (share in the sources)."""
        rows = max(self.law.rows, 1)
        return max(
            _bayes(min(k * rows * share, Fraction(1)), each.true, each.false)
            for share, each in self._seen
        )

    def end_of_one(self, prior: Fraction) -> Fraction:
        """Return the highest posterior if exactly one of several tuples is true and no prior is
        above `prior`: one tuple shows its likeliest pattern, all others their unlikeliest.
        """
        return Fraction(1) if self.most is None else _bayes(prior, self.most, self.least)

    def loss(self, *, replaced: bool) -> float:
        """Return the largest loss of a tuple that is added or removed or, if `replaced`, exchanged
        for another one, which then has a pattern of its own.
        """
        up = inf if self.most is None else log(self.most)
        down = -log(self.least) if self.least else inf
        return up + down if replaced else max(up, down)


def _bayes(prior: Fraction, true: Fraction, false: Fraction) -> Fraction:
    """Return the posterior; 0 for a pattern of probability 0."""
    seen = prior * true + (1 - prior) * false
    return prior * true / seen if seen else Fraction(0)


# The noise that a released summary states, compared with that of its method.

NoiseLaw = DiscreteLaplace | DiscreteGaussian
_KINDS = ("discrete laplace", "discrete gaussian")


@dataclass(frozen=True)
class StatedNoise:
    """Pairs of noise laws: that of the method with the same parameters, and the stated one."""

    pairs: tuple[tuple[NoiseLaw, NoiseLaw], ...]

    @classmethod
    def of(cls, release: Release, mechanism: Summary) -> StatedNoise | None:
        """Return the pairs; None if the release states other sums than the method measures.

        The method measures an empty table for this, so its plan must not depend on the data.
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
        again = replace(again, rows=evidence.rows)  # that of the release, not of an empty table
        taken: list[NoiseLaw] = []
        stated: list[NoiseLaw] = []
        if _bare(again.to_dict(), taken) != _bare(evidence.to_dict(), stated):
            return None
        return cls(tuple(zip(taken, stated, strict=True)))

    @property
    def narrower(self) -> str | None:
        """The first law with less noise than the method needs, in words; None if there is none."""
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
    """Return a description without its noise laws, which are appended to `laws` in their order."""
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
