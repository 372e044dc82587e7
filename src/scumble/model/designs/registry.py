"""Designs: how the numbers of a release were measured. One table maps the name of a design in a
manifest to its class and to the class that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Protocol

from scumble.model import stored
from scumble.model.laws import law_from_dict
from scumble.model.laws.distributions import DiscreteLaplace


class Design(Protocol):
    """The public facts that a reader needs about the noisy numbers of a file."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]: ...


class DesignEntry(NamedTuple):
    """Where the code of one kind of design is: `module:class` of the design and of its reader."""

    design: str
    reader: str


# Every kind of design by its name in a manifest. Readers belong to the public side; they are named
# here as text, and imported by `scumble.public.estimation` when a question is asked.
_READERS = "scumble.public.estimation.measurements"
DESIGNS = {
    "cells": DesignEntry(f"{__name__}:Cells", f"{_READERS}.cells:CellsReader"),
    "chosen": DesignEntry(
        "scumble.model.evidence.chosen_tables:ChosenTables",
        "scumble.public.synthesis.chosen_reader:ChosenReader",
    ),
    "hub tables": DesignEntry(
        "scumble.model.designs.lists.hub_tables:HubTables",
        f"{_READERS}.baskets.hub_tables:HubReader",
    ),
    "itemsets": DesignEntry(
        "scumble.model.designs.lists.itemsets:Itemsets",
        f"{_READERS}.baskets.itemsets:ItemsetReader",
    ),
    "matrix": DesignEntry("scumble.model.designs.matrix:Matrix", f"{_READERS}.matrix:MatrixReader"),
    "open": DesignEntry(
        "scumble.model.evidence.open_keys:OpenKeys", f"{_READERS}.open_keys:OpenKeysReader"
    ),
    "parts": DesignEntry("scumble.model.evidence.parts:Parts", f"{_READERS}.parts:PartsReader"),
    "product": DesignEntry(
        "scumble.model.designs.kronecker:Product", f"{_READERS}.kronecker:ProductReader"
    ),
    "regions": DesignEntry(
        "scumble.model.designs.box_tree:BoxTree", f"{_READERS}.box_tree:BoxTreeReader"
    ),
    "residuals": DesignEntry(
        "scumble.model.designs.residuals:Residuals", f"{_READERS}.marginals:ResidualReader"
    ),
    "rounds": DesignEntry(
        "scumble.model.evidence.query_rounds:QueryRounds",
        "scumble.public.estimation.synthetic.rounds:RoundsReader",
    ),
    "sparse": DesignEntry("scumble.model.designs.sparse:Sparse", f"{_READERS}.sparse:SparseReader"),
    "strings": DesignEntry(
        "scumble.model.designs.lists.strings:Strings",
        "scumble.public.estimation.strings.reader:StringsReader",
    ),
    "whole baskets": DesignEntry(
        "scumble.model.designs.lists.whole_baskets:WholeBaskets",
        f"{_READERS}.baskets.itemsets:WholeBasketReader",
    ),
}


def design_from_dict(data: Mapping[str, Any]) -> Design:
    """Return the design that a manifest holds as `data`."""
    found: Design = loaded(DESIGNS[data["kind"]].design).from_dict(data)
    return found


def loaded(place: str) -> Any:
    """Import and return the class that `place` names as `module:class`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Cells:
    """A noisy count for every cell of the product of some attributes: one row for each cell, with
    its noisy count in the column `count`. The noise of the cells is independent.
    """

    kind: ClassVar[str] = "cells"

    count: str
    noise: DiscreteLaplace

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "count": self.count, "noise": self.noise.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cells:
        noise = law_from_dict(data["noise"])
        if not isinstance(noise, DiscreteLaplace):
            raise ValueError("cells have discrete Laplace noise")
        return cls(stored.text(data["count"]), noise)
