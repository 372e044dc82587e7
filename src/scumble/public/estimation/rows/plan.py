"""A question split by what it asks of published truth and of perturbed values.

The true share h(x) of a row in an answer (1 if it counts, or the amount it adds) depends on its
true sensitive values x, and is a tensor over their domains. A lens reads it from published values;
true attributes tell apart the states in which h, or the lens, may be another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scumble.model.evidence.channels import MultisetChannel, PartitionChannel, UniformChannel
from scumble.model.evidence.evidence import Records
from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.public.estimation.rows.grouped_counts import GroupedCounts, Indices
from scumble.public.estimation.rows.inverse_channels import (
    InverseChannel,
    MultisetInverse,
    PartitionInverse,
    UniformInverse,
)


@dataclass(frozen=True)
class RowsPlan:
    """What to count, what to evaluate on the domains, and through which lens to read it."""

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
    def uniform(self) -> list[UniformChannel]:
        """The uniform channels that the question meets."""
        uniform = (each for each in self.evidence.channels if isinstance(each, UniformChannel))
        return [each for each in uniform if self._met(each.attributes)]

    @cached_property
    def whole(self) -> PartitionChannel | MultisetChannel | None:
        """The channel that the question meets and that can be read only on all its attributes."""
        others = (each for each in self.evidence.channels if not isinstance(each, UniformChannel))
        return next((each for each in others if self._met(each.attributes)), None)

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """Perturbed attributes that the question names, or that can only be read with those."""
        if self.whole:
            return self.whole.attributes
        return tuple(name for name in self._needed if name in self.evidence.perturbed)

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """True attributes by which rows must be told apart."""
        part = {self.whole.column} if isinstance(self.whole, PartitionChannel) else set()
        needed = part.union(self._needed).difference(self.evidence.perturbed)
        return tuple(name for name in self.schema.names if name in needed)

    @cached_property
    def shared(self) -> bool:
        """Whether h is the same function for every combination of the kept attributes."""
        return all(set(part.attributes) <= set(self.axes) for part in self.mixed)

    @cached_property
    def grouped_axes(self) -> list[str]:
        return [name for name in self.axes if name in self.query.groups]

    def lens(self, counted: GroupedCounts | None = None) -> InverseChannel:
        """How to read h; the tally tells the states apart if h is not shared."""
        whole = self.whole
        if isinstance(whole, MultisetChannel):
            return MultisetInverse(whole.law)
        if isinstance(whole, PartitionChannel):
            parts = np.arange(len(whole.domains))
            if counted is not None and not self.shared:
                parts = self._parts(whole, counted)
            return PartitionInverse(whole, self.schema.size(whole.attributes), parts)
        return UniformInverse(self.uniform, self.axes)

    def states(self, counted: GroupedCounts) -> Indices:
        """Which row of the tensors speaks of each line."""
        if not self.shared:
            return counted.combination
        if isinstance(self.whole, PartitionChannel):
            return self._parts(self.whole, counted)[counted.combination]
        return np.zeros_like(counted.combination)

    def _parts(self, channel: PartitionChannel, counted: GroupedCounts) -> Indices:
        """The part of every combination."""
        codes, _ = self.schema[channel.column].encode(counted.combinations[channel.column])
        return codes.astype(np.intp)

    def _met(self, attributes: tuple[str, ...]) -> bool:
        return not set(self._needed).isdisjoint(attributes)

    @cached_property
    def _needed(self) -> list[str]:
        needed = set(self.query.groups).union(*(part.attributes for part in self.mixed))
        return [name for name in self.schema.names if name in needed]

    def _perturbed(self, part: Expression) -> bool:
        return not set(self.evidence.perturbed).isdisjoint(part.attributes)
