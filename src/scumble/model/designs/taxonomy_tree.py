"""The tree of a taxonomy: a count for every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from scumble.model.designs.axis import Floats, Integers
from scumble.model.designs.taxonomy import Taxonomy
from scumble.model.designs.tree_squares import TreeSquares


@dataclass(frozen=True)
class TaxonomyTree:
    """One group a measured level, from the leaves up; `weights` as those of a `Tree`."""

    kind: ClassVar[str] = "taxonomy"
    signed: ClassVar[bool] = False

    taxonomy: Taxonomy
    weights: tuple[float, ...]

    @property
    def size(self) -> int:
        return self.taxonomy.size

    @property
    def _measured(self) -> tuple[bool, ...]:
        return tuple(weight > 0 for weight in self.weights)

    @property
    def lengths(self) -> tuple[int, ...]:
        nodes = (self.size, *(step.above for step in self.taxonomy.steps))
        return tuple(n for n, there in zip(nodes, self._measured, strict=True) if there)

    @property
    def norms(self) -> tuple[tuple[int, int], ...]:
        return ((1, 1),) * sum(self._measured)

    @cached_property
    def _squares(self) -> TreeSquares:
        return TreeSquares(self.size, self.taxonomy.steps, self.weights)

    def acute(self, weights: Sequence[Fraction]) -> bool:
        return True

    @property
    def alike(self) -> Integers:
        return np.arange(self.size)

    def measure(self, counts: Integers) -> list[Integers]:
        levels = [counts[:, self.taxonomy.forth]]
        for step in self.taxonomy.steps:
            levels.append(step.sum(levels[-1]))
        return [level for level, there in zip(levels, self._measured, strict=True) if there]

    def reconstruct(self, parts: Sequence[Floats]) -> Floats:
        given = iter(parts)
        levels = [next(given) if there else None for there in self._measured]
        return self._squares.reconstruct(levels)[:, self.taxonomy.back]

    def adjoint(self, weights: Floats) -> list[Floats]:
        levels = self._squares.adjoint(weights[:, self.taxonomy.forth])
        return [level for level, there in zip(levels, self._measured, strict=True) if there]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.taxonomy.to_dict(), "weights": list(self.weights)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaxonomyTree:
        return cls(Taxonomy.from_dict(data), tuple(map(float, data["weights"])))
