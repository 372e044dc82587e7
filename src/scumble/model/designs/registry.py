"""Design by its name in a manifest.

Design: how the numbers of a release were measured, in a form that its manifest can hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from scumble.model.laws import from_dict
from scumble.model.laws.distributions import DiscreteLaplace


class Design(Protocol):
    """What a reader has to know about the noisy numbers of a file."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]: ...


def design(data: Mapping[str, Any]) -> Design:
    """A design out of a manifest."""
    found: Design = _kind(data["kind"]).from_dict(data)
    return found


def _kind(name: str) -> Any:
    """The class of a kind of design, imported when a release needs it."""
    from scumble.model.designs.box_tree import Regions
    from scumble.model.designs.kronecker import Product
    from scumble.model.designs.matrix import Matrix
    from scumble.model.designs.residuals import Residuals
    from scumble.model.designs.sparse import Sparse

    kinds = (Cells, Matrix, Product, Regions, Residuals, Sparse)
    return {each.kind: each for each in kinds}[name]


# Cells: a noisy count for every cell of the product of some attributes.


@dataclass(frozen=True)
class Cells:
    """One row a cell, its noisy count in the column `count`; the noise is independent by cell."""

    kind: ClassVar[str] = "cells"

    count: str
    noise: DiscreteLaplace

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "count": self.count, "noise": self.noise.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cells:
        noise = from_dict(data["noise"])
        if not isinstance(noise, DiscreteLaplace):
            raise ValueError("cells have discrete Laplace noise")
        return cls(data["count"], noise)
