"""Taxonomies: the values of an attribute in families, those in larger ones, up to one root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.designs.steps import Families


@dataclass(frozen=True)
class Taxonomy:
    """Codes in the order of the leaves, and the sizes of families from the leaves up to the root.

    All leaves are equally deep: a value that was given higher up has families of one below it.
    """

    order: tuple[int, ...]
    families: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, nested: Sequence[Any]) -> Taxonomy:
        """From codes in nested lists: `[[0, 1], [2, [3, 4]]]`."""
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
    def steps(self) -> tuple[Families, ...]:
        return tuple(Families(sizes) for sizes in self.families)

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
        families = tuple(tuple(map(int, sizes)) for sizes in data["families"])
        return cls(tuple(map(int, data["order"])), families)


def _depth(node: Any) -> int:
    if not isinstance(node, (list, tuple)):
        return 0
    return 1 + max(map(_depth, node))
