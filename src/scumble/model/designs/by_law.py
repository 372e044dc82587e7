"""The numbers of a product with all groups of one law taken together: noise is drawn at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.designs.axis import Integers
from scumble.model.designs.kronecker import NoiseLaw, Product


@dataclass(frozen=True)
class ByLaw:
    """A transform with one group for each different law of a product."""

    design: Product

    def acute(self, laws: Sequence[NoiseLaw]) -> bool:
        own = {
            group: law for groups, law in zip(self._members, laws, strict=True) for group in groups
        }
        return self.design.acute([own[group] for group in range(len(own))])

    @cached_property
    def laws(self) -> tuple[NoiseLaw, ...]:
        return tuple(dict.fromkeys(self.design.laws))

    @cached_property
    def _members(self) -> tuple[tuple[int, ...], ...]:
        """By law, the groups of the product that have it."""
        members: dict[NoiseLaw, list[int]] = {law: [] for law in self.laws}
        for group, law in enumerate(self.design.laws):
            members[law].append(group)
        return tuple(map(tuple, members.values()))

    def norms(self) -> list[tuple[int, int]]:
        """Those of the groups taken together, added up."""
        own = self.design.norms()
        return [
            (sum(own[group][0] for group in groups), sum(own[group][1] for group in groups))
            for groups in self._members
        ]

    def apply(self, counts: Integers) -> list[NDArray[Any]]:
        own = self.design.apply(counts)
        return [np.concatenate([own[group] for group in groups]) for groups in self._members]

    def ordered(self, numbers: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The numbers in the order of the product."""
        lengths = self.design.lengths
        parts: dict[int, NDArray[Any]] = {}
        for groups, own in zip(self._members, numbers, strict=True):
            ends = np.cumsum([lengths[group] for group in groups])
            parts.update(zip(groups, np.split(own, ends[:-1]), strict=True))
        return np.concatenate([parts[group] for group in range(len(lengths))])
