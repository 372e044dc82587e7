"""Design: how the numbers of a release were measured, in a form that its manifest can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol


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
    from scumble.model.designs.cells import Cells
    from scumble.model.designs.kronecker import Product
    from scumble.model.designs.matrix import Matrix
    from scumble.model.designs.regions import Regions
    from scumble.model.designs.residuals import Residuals
    from scumble.model.designs.sparse import Sparse

    kinds = (Cells, Matrix, Product, Regions, Residuals, Sparse)
    return {each.kind: each for each in kinds}[name]
