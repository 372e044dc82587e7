"""A question split by what it asks of published truth and of perturbed values.

The true share h(x) of a row in an answer (1 if it counts, or the amount it adds) depends on its
true sensitive values x. Inverting the channel gives a weight w(y) of the *published* values y with
E[w(y) | x] = h(x), so the sum of the weights is unbiased. Its variance Var[w(y) | x] is again a
function of x: inverting the channel on that function gives an unbiased estimate of the variance as
well. Both are tensors over the sensitive domains, whose first axis is the combination of true
attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from scumble.channels import Tensor, UniformChannel
from scumble.estimate import Estimate, Exact
from scumble.estimators.count_law import RandomizedCount
from scumble.evidence import Records
from scumble.query import Expression, Query
from scumble.schema import Schema

EXACT = "exact: the answer depends on no perturbed value"
BINOMIAL = "inverted channel; exact binomial interval"
MANY = "inverted channel; binomial interval, by the normal law where thousands of rows decide"


@dataclass(frozen=True)
class Plan:
    """What to count, what to evaluate on the domains, and how to invert the channels."""

    evidence: Records
    schema: Schema
    query: Query

    @cached_property
    def mixed(self) -> list[Expression]:
        """The clauses and the argument that name a perturbed attribute."""
        argument = [self.query.argument] if self.query.argument else []
        return [part for part in (*self.query.clauses, *argument) if self._perturbed(part)]

    @cached_property
    def conditions(self) -> list[Expression]:
        return [clause for clause in self.query.clauses if self._perturbed(clause)]

    @cached_property
    def filters(self) -> list[str]:
        """Clauses on true attributes only, which the engine applies as they are."""
        return [clause.sql for clause in self.query.clauses if not self._perturbed(clause)]

    @cached_property
    def summed(self) -> Expression | None:
        """The argument, if true attributes alone decide it: the engine sums it."""
        argument = self.query.argument
        return argument if argument and not self._perturbed(argument) else None

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """Perturbed attributes that the question names."""
        return tuple(name for name in self._needed if name in self.evidence.perturbed)

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """True attributes by which rows must be told apart."""
        return tuple(name for name in self._needed if name not in self.evidence.perturbed)

    @cached_property
    def shared(self) -> bool:
        """Whether h is the same function for every combination of the kept attributes."""
        return all(set(part.attributes) <= set(self.axes) for part in self.mixed)

    @cached_property
    def grouped_axes(self) -> list[str]:
        return [name for name in self.axes if name in self.query.groups]

    def invert(self, tensor: Tensor) -> Tensor:
        for channel in self.evidence.channels:
            if axes := self._places(channel.attributes):
                tensor = channel.invert(tensor, axes)
        return tensor

    def apply(self, tensor: Tensor) -> Tensor:
        for channel in self.evidence.channels:
            if axes := self._places(channel.attributes):
                tensor = channel.apply(tensor, axes)
        return tensor

    def covariance(self, one: Tensor, other: Tensor) -> Tensor:
        """Cov[w1(y), w2(y) | x] of the weights of two functions, as a function of x."""
        return self.apply(self.invert(one) * self.invert(other)) - one * other

    def deviation(self, tensor: Tensor) -> Tensor:
        """The largest |w(y) - h(x)| that a row can have, for every combination: a channel may turn
        any x into any y.
        """
        true, weight = flat(tensor), flat(self.invert(tensor))
        above = weight.max(axis=1) - true.min(axis=1)
        below = true.max(axis=1) - weight.min(axis=1)
        largest: Tensor = np.maximum(above, below)
        return largest

    @cached_property
    def one_channel(self) -> UniformChannel | None:
        """The channel, if all perturbed attributes of the question went through the same one."""
        met = [c for c in self.evidence.channels if self._places(c.attributes)]
        return met[0] if len(met) == 1 else None

    def one_count(self, share: float, rows: int, shown: int) -> Estimate:
        """A count through one channel, of whose domain a share counts, and of whose rows some show
        a value that counts: its law is known exactly.
        """
        if share in (0, 1) or self.one_channel is None:
            return Estimate(float(rows * share), Exact(), EXACT, self.query.notes)
        keep = float(self.one_channel.keep)
        outside = (1 - keep) * share
        law = RandomizedCount(rows, shown, keep, outside)
        return Estimate(law.value, law, BINOMIAL if law.exact else MANY, self.query.notes)

    def _places(self, attributes: tuple[str, ...]) -> list[int]:
        return [1 + place for place, name in enumerate(self.axes) if name in attributes]

    @cached_property
    def _needed(self) -> list[str]:
        needed = set(self.query.groups).union(*(part.attributes for part in self.mixed))
        return [name for name in self.schema.names if name in needed]

    def _perturbed(self, part: Expression) -> bool:
        return not set(self.evidence.perturbed).isdisjoint(part.attributes)


def flat(tensor: Tensor) -> Tensor:
    """One row per combination, one column per cell of the perturbed domains."""
    return tensor.reshape(len(tensor), prod(tensor.shape[1:]))
