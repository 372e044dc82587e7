"""The numbers of a product with all groups of one law taken together: noise is drawn at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.designs.axis import Integers
from scumble.designs.product import NoiseLaw, Product


@dataclass(frozen=True)
class ByLaw:
    """A transform with one group for each different law of a product."""

    design: Product

    @property
    def signed(self) -> bool:
        return self.design.signed

    @property
    def laws(self) -> tuple[NoiseLaw, ...]:
        return tuple(dict.fromkeys(self.design.laws))

    def norms(self) -> list[tuple[int, int]]:
        """Those of the groups taken together, added up."""
        found = dict.fromkeys(self.design.laws, (0, 0))
        for law, (total, squares) in zip(self.design.laws, self.design.norms(), strict=True):
            found[law] = found[law][0] + total, found[law][1] + squares
        return list(found.values())

    def apply(self, counts: Integers) -> list[NDArray[Any]]:
        groups: dict[NoiseLaw, list[NDArray[Any]]] = {law: [] for law in self.laws}
        for law, numbers in zip(self.design.laws, self.design.apply(counts), strict=True):
            groups[law].append(numbers)
        return [np.concatenate(each) for each in groups.values()]

    def ordered(self, groups: list[NDArray[Any]]) -> NDArray[Any]:
        """The numbers in the order of the product."""
        taken = dict.fromkeys(self.laws, 0)
        whole = dict(zip(self.laws, groups, strict=True))
        parts = []
        for law, length in zip(self.design.laws, self.design.lengths, strict=True):
            parts.append(whole[law][taken[law] : taken[law] + length])
            taken[law] += length
        return np.concatenate(parts)
