"""The design that a manifest holds: one that several families write, or one of a single family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scumble.families import design_class
from scumble.model.designs.design import Design
from scumble.model.designs.kronecker import Product
from scumble.model.designs.matrix import Matrix
from scumble.model.designs.residuals import Residuals

_SHARED: Mapping[str, Any] = {each.kind: each for each in (Matrix, Product, Residuals)}


def design_from_dict(data: Mapping[str, Any]) -> Design:
    """Return the design that a manifest holds as `data`."""
    kind = data["kind"]
    found: Design = (_SHARED.get(kind) or design_class(kind)).from_dict(data)
    return found
