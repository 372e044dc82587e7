"""Taxonomies of the values of an attribute, and the axis that counts every node of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scumble.model import stored
from scumble.model.designs.axis import Floats, Integers, nested_products
from scumble.model.designs.tree import FamilyGroups, LevelLeastSquares


@dataclass(frozen=True)
class Taxonomy:
    """A tree of values: their codes in the order of the leaves, and, from the leaves up to the
    root, the number of children of each node of a level (`families`).

    All leaves have the same depth: a value that was given higher up has families of one below it.
    """

    order: tuple[int, ...]
    families: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, nested: Sequence[Any]) -> Taxonomy:
        """Return the taxonomy of codes in nested lists, as `[[0, 1], [2, [3, 4]]]`."""
        depth = _depth(nested)
        level: list[Any] = [nested]
        families = []
        for _ in range(depth):
            level = [node if isinstance(node, (list, tuple)) else [node] for node in level]
            families.append(tuple(len(node) for node in level))
            level = [child for node in level for child in node]
        return cls(tuple(level), tuple(reversed(families)))

    @property
    def size(self) -> int:
        return len(self.order)

    @cached_property
    def steps(self) -> tuple[FamilyGroups, ...]:
        return tuple(FamilyGroups(sizes) for sizes in self.families)

    @cached_property
    def forth(self) -> NDArray[np.intp]:
        """The code of each leaf."""
        return np.array(self.order, np.intp)

    @cached_property
    def back(self) -> NDArray[np.intp]:
        """The leaf of each code."""
        return np.argsort(self.forth)

    def to_dict(self) -> dict[str, Any]:
        return {"order": list(self.order), "families": [list(sizes) for sizes in self.families]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Taxonomy:
        order = stored.items(stored.whole, data["order"])
        families = stored.items(
            partial(stored.items, partial(stored.whole, least=1)), data["families"]
        )
        if sorted(order) != list(range(len(order))) or not order:
            raise ValueError("the leaves of a taxonomy are all codes")
        below = len(order)
        for sizes in families:
            if sum(sizes) != below:
                raise ValueError("every node of a taxonomy has a parent")
            below = len(sizes)
        return cls(order, families)


def _depth(node: Any) -> int:
    if not isinstance(node, (list, tuple)):
        return 0
    return 1 + max(map(_depth, node))


@dataclass(frozen=True)
class TaxonomyTree:
    """The axis that counts every node of a taxonomy: one group for each measured level, from the
    leaves up; `weights` as those of a `Tree`.
    """

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
    def _squares(self) -> LevelLeastSquares:
        return LevelLeastSquares(self.size, self.taxonomy.steps, self.weights)

    @property
    def pair_products(self) -> Integers:
        return nested_products(len(self.lengths))

    @property
    def cell_classes(self) -> Integers:
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
        taxonomy = Taxonomy.from_dict(data)
        weights = stored.items(stored.weight, data["weights"])
        if len(weights) != 1 + len(taxonomy.families) or not weights[0]:
            raise ValueError("every level has a weight, and cells are measured")
        return cls(taxonomy, weights)
