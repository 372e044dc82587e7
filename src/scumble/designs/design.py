"""Design: how the numbers of a release were measured, in a form that its manifest can hold."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Protocol

# One line each: the kind in the manifest, and where the class is.
_KINDS = {
    "cells": "scumble.designs.cells:Cells",
    "product": "scumble.designs.product:Product",
    "residuals": "scumble.designs.residuals:Residuals",
    "regions": "scumble.designs.regions:Regions",
    "sparse": "scumble.designs.sparse:Sparse",
    "matrix": "scumble.designs.matrix:Matrix",
}


class Design(Protocol):
    """What a reader has to know about the noisy numbers of a file."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]: ...


def design(data: Mapping[str, Any]) -> Design:
    """A design out of a manifest."""
    module, _, name = _KINDS[data["kind"]].partition(":")
    found: Design = getattr(import_module(module), name).from_dict(data)
    return found
