"""Wavelet: noisy differences between halves of the domain, at all scales."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from scumble.model.designs.axis import Axis, IdentityAxis
from scumble.model.designs.wavelets import Haar, Nominal
from scumble.model.errors import ParameterError
from scumble.model.privacy.accounting import Neighbours
from scumble.model.schema.schema import Schema
from scumble.private.hooks import Claim, protection
from scumble.private.summaries.axes import AxisSummary, Planned

Transformed = Literal["large", "all"]


@dataclass(kw_only=True, eq=False, repr=False)
class Wavelet(AxisSummary):
    """Publishes noisy differences between the two halves of every block of cells, from pairs of
    cells to the whole domain. Good for conditions on ranges of attributes with many values.

    `transform` says which attributes are: "large" ones, for which it pays (Privelet+), or "all"
    (Privelet). The others are counted value by value, as are attributes without order that have no
    `taxonomy` (nested lists of the values) and no hierarchy in the schema; the nodes of one are
    compared with their siblings' mean.
    `neighbours`, `contribution` and `person` are as for Histogram.

    Parameters:
        transform: which attributes, large ones or all.

    Promises: ε-DP of the whole release, or (ε, δ)-DP with `delta`. Proof: along an attribute of
        size m a row changes one of ⌈log2 m⌉ + 1 groups of numbers each by 1 in all (of a taxonomy,
        one group a level, by a known whole number); along several, products of these. Noise with
        P(z) ∝ exp(−|z|/b) on a group that changes by c costs ε = Δc/b, Gaussian noise on one
        that changes by q in squares ρ = Δ₂²q/2σ²; the groups' losses add up to what is promised.
        For a row that is replaced Δ₂² is 2: both change the sum of all alike, which weighs no less
        than the numbers that part them, the only ones that they change in opposite directions.
    Estimate: the inverse transform, siblings being centred first, which is least squares; unbiased,
        and the variance of any answer is exact.
    Reference: Xiao, Wang, Gehrke, ICDE 2010 and TKDE 2011 (Privelet, Privelet+; lemmas 2 to 5).
    Differs: sums and differences of whole numbers with integer noise, in place of weighted means; a
        domain that is no power of two is not padded: what would be about empty cells is not
        measured. Without δ a hierarchy has a smaller mean error over ranges at the same ε.
    """

    name = "wavelet"

    transform: Transformed = "large"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transform not in ("large", "all"):
            raise ParameterError.of("Wavelet", "transform", "'large' or 'all'", self.transform)

    def planned(self, schema: Schema, name: str) -> Planned:
        axis = self._axis(schema, name)
        groups = len(axis.lengths)
        return Planned(axis, (Fraction(1, groups),) * groups)

    def _axis(self, schema: Schema, name: str) -> Axis:
        size = schema[name].size
        if (tree := self.tree(schema, name)) is not None:
            nominal = Nominal.balanced(tree, squares=self.gaussian)
            spread = Fraction(1 if self.gaussian else 4)
            return nominal if self._pays(nominal, spread) else IdentityAxis(size)
        if schema[name].ordered:
            haar = Haar(size)
            halvings = len(haar.lengths) - 1
            spread = 1 + Fraction(halvings, 2)
            pays = self._pays(haar, spread) or (self.gaussian and _worst_range(haar) < size)
            return haar if pays else IdentityAxis(size)
        return IdentityAxis(size)

    def _pays(self, axis: Axis, spread: Fraction) -> bool:
        """Whether the worst range (of a taxonomy: node) is worse without the transform.

        In units of the variance of one cell without it, that range has the variance `axis.size`
        without the transform, and with it at most `spread` times the variance of one number, of
        which a row changes P. Each number gets 1/P of the budget: of ε, then its variance is P²
        (Privelet+'s rule), of ρ it is P.

        Along a taxonomy with Gaussian noise `spread` is 1: with V the variance of the parent, a
        node among f siblings has V/f² + P(1 - 1/f)², at most P if V is.
        """
        groups = len(axis.lengths)
        number = groups if self.gaussian else groups**2
        return self.transform == "all" or axis.size > number * spread

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls(["a", "b"], transform="all", **protection(neighbours)), 1)


def _worst_range(axis: Haar) -> float:
    """Return the largest variance of the count of a range, with Gaussian noise on every number; 1
    is that of a cell that is measured directly at the same cost.
    """
    first, last = np.triu_indices(axis.size)
    codes = np.arange(axis.size)
    ranges = (first[:, None] <= codes) & (codes <= last[:, None])
    found = axis.adjoint(ranges[:, :, None].astype(np.float64))
    squares = np.sum([(each**2).sum(axis=(1, 2)) for each in found], axis=0)
    return float(squares.max()) * len(axis.lengths)
