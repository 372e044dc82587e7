"""The plan of a question to published rows: what to count, and through which channel to read it.

The contribution h(x) of a row to an answer (1 if it counts, or the amount that it adds) depends on
its true sensitive values x, and is a tensor over their domains. An `InverseChannel` estimates it
from the published values. The unperturbed attributes distinguish the states in which h, or the
inverse channel, may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scumble.model.evidence.channels import MultisetChannel, PartitionChannel, UniformChannel
from scumble.model.evidence.evidence import Records
from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.public.estimation.rows.grouped_counts import GroupedCounts, Indices
from scumble.public.estimation.rows.inverse_channels import (
    InverseChannel,
    MultisetInverse,
    MultisetProduct,
    PartitionInverse,
    ProductInverse,
    UniformInverse,
)
from scumble.public.estimation.rows.posterior_law import StagedChannel, StagedInverse


@dataclass(frozen=True)
class RowsPlan:
    """What to count, what to evaluate on the domains, and the inverse channel to read it by."""

    evidence: Records
    schema: Schema
    query: Query

    @cached_property
    def perturbed_parts(self) -> list[Expression]:
        """The clauses and the argument that name a perturbed attribute."""
        argument = [self.query.argument] if self.query.argument else []
        return [part for part in (*self.query.clauses, *argument) if self._perturbed(part)]

    @cached_property
    def perturbed_clauses(self) -> list[Expression]:
        return [clause for clause in self.query.clauses if self._perturbed(clause)]

    @cached_property
    def filters(self) -> list[str]:
        """The SQL of clauses on unperturbed attributes only, which the engine applies."""
        return [clause.sql for clause in self.unperturbed_clauses]

    @cached_property
    def unperturbed_clauses(self) -> list[Expression]:
        return [clause for clause in self.query.clauses if not self._perturbed(clause)]

    @cached_property
    def summed(self) -> Expression | None:
        """The argument, if it names no perturbed attribute: the engine sums it."""
        argument = self.query.argument
        return argument if argument and not self._perturbed(argument) else None

    @cached_property
    def uniform(self) -> list[UniformChannel]:
        """The uniform channels of attributes that the question names."""
        uniform = (each for each in self.evidence.channels if isinstance(each, UniformChannel))
        return [each for each in uniform if self._met(each.attributes)]

    @cached_property
    def joint_channel(
        self,
    ) -> PartitionChannel | MultisetChannel | StagedChannel | MultisetProduct | None:
        """The channel of named attributes that can be inverted only on all its attributes."""
        others = (each for each in self.evidence.channels if not isinstance(each, UniformChannel))
        met = [each for each in others if self._met(each.attributes)]
        multisets = tuple(each for each in met if isinstance(each, MultisetChannel))
        if len(multisets) > 1:
            return MultisetProduct(multisets)
        return met[0] if met else None

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The perturbed attributes that the question names, or that must be read with those."""
        if self.joint_channel:
            return self.joint_channel.attributes
        return tuple(name for name in self._needed if name in self.evidence.perturbed)

    @cached_property
    def unperturbed(self) -> tuple[str, ...]:
        """The unperturbed attributes by which rows must be grouped."""
        whole, part = self.joint_channel, set()
        if isinstance(whole, PartitionChannel | StagedChannel):
            part = {whole.column}
        needed = part.union(self._needed).difference(self.evidence.perturbed)
        return tuple(name for name in self.schema.names if name in needed)

    @cached_property
    def shared(self) -> bool:
        """Whether h is the same function for every combination of the unperturbed attributes."""
        return all(set(part.attributes) <= set(self.axes) for part in self.perturbed_parts)

    @cached_property
    def grouped_axes(self) -> list[str]:
        return [name for name in self.axes if name in self.query.groups]

    def inverse(self, counted: GroupedCounts | None = None) -> InverseChannel:
        """Return the inverse channel. `counted` gives the states if h is not `shared`."""
        whole = self.joint_channel
        if isinstance(whole, MultisetChannel):
            return MultisetInverse(whole.law)
        if isinstance(whole, MultisetProduct):
            return ProductInverse(whole.laws)
        if whole is None:
            return UniformInverse(self.uniform, self.axes)
        number = len(whole.domains if isinstance(whole, PartitionChannel) else whole.laws)
        parts = np.arange(number)
        if counted is not None and not self.shared:
            parts = self._parts(whole, counted)
        if isinstance(whole, StagedChannel):
            return StagedInverse(whole.laws, parts, whole.moments)
        return PartitionInverse(whole, self.schema.size(whole.attributes), parts)

    def states(self, counted: GroupedCounts) -> Indices:
        """Return the row of the tensors that belongs to each line of `counted`."""
        if not self.shared:
            return counted.combination
        if isinstance(self.joint_channel, PartitionChannel | StagedChannel):
            return self._parts(self.joint_channel, counted)[counted.combination]
        return np.zeros_like(counted.combination)

    def _parts(self, channel: PartitionChannel | StagedChannel, counted: GroupedCounts) -> Indices:
        """Return the part or stage that each combination of unperturbed values lies in."""
        codes = known_codes(self.schema[channel.column], counted.combinations[channel.column])
        return codes.astype(np.intp)

    def _met(self, attributes: tuple[str, ...]) -> bool:
        return not set(self._needed).isdisjoint(attributes)

    @cached_property
    def _needed(self) -> list[str]:
        needed = set(self.query.groups).union(*(part.attributes for part in self.perturbed_parts))
        return [name for name in self.schema.names if name in needed]

    def _perturbed(self, part: Expression) -> bool:
        return not set(self.evidence.perturbed).isdisjoint(part.attributes)
