"""Channels: what may have happened to the sensitive values of a published row, as public facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.bag_laws import BagLaw, bag_law

Tensor = npt.NDArray[np.float64]


@dataclass(frozen=True)
class UniformChannel:
    """Keep the value with probability `keep`, else draw it uniformly from the whole domain.

    With several attributes the channel acts on their product as one value. Seen on only some of
    these attributes it is again a uniform channel with the same `keep`, so tensors need to have
    axes only for the attributes that a question names.
    """

    kind: ClassVar[str] = "uniform"

    attributes: tuple[str, ...]
    keep: Fraction

    def apply(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """The mean of `tensor` at the published value, as a function of the true value."""
        keep = float(self.keep)
        mean: Tensor = tensor.mean(axis=tuple(axes), keepdims=True)
        return keep * tensor + (1 - keep) * mean

    def invert(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """The function of the published value whose mean is `tensor` at the true value."""
        keep = float(self.keep)
        mean: Tensor = tensor.mean(axis=tuple(axes), keepdims=True)
        return (tensor - (1 - keep) * mean) / keep

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "attributes": list(self.attributes), "keep": str(self.keep)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> UniformChannel:
        return cls(tuple(data["attributes"]), Fraction(data["keep"]))


@dataclass(frozen=True)
class SplitChannel:
    """A uniform channel in each part of the table, on a domain of that part's own.

    `column` tells the part of every row, from 0 on. `domains` lists, for each part, the values that
    its rows may have and show: cells of the product of `attributes` in row-major order, ascending.
    `rows` says how many rows each part has, as the column does.
    """

    kind: ClassVar[str] = "split"

    attributes: tuple[str, ...]
    column: str
    domains: tuple[tuple[int, ...], ...]
    keeps: tuple[Fraction, ...]
    rows: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "column": self.column,
            "domains": [list(domain) for domain in self.domains],
            "keeps": [str(keep) for keep in self.keeps],
            "rows": list(self.rows),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SplitChannel:
        return cls(
            tuple(data["attributes"]),
            data["column"],
            tuple(tuple(map(int, domain)) for domain in data["domains"]),
            tuple(map(Fraction, data["keeps"])),
            tuple(map(int, data["rows"])),
        )


@dataclass(frozen=True)
class BagChannel:
    """Every row shows a bag of values in place of one; `law` says how bags come about.

    In the file, layout "counts" has one column per cell of the product of `attributes` (row-major)
    with how often it is in the bag; layout "codes" has one column per member of the bag with its
    cell, in ascending order.
    """

    kind: ClassVar[str] = "bag"

    attributes: tuple[str, ...]
    layout: Literal["counts", "codes"]
    columns: tuple[str, ...]
    law: BagLaw

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "layout": self.layout,
            "columns": list(self.columns),
            "law": self.law.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BagChannel:
        if data["layout"] not in ("counts", "codes"):
            raise ValueError("unknown layout of bags")
        columns = tuple(data["columns"])
        return cls(tuple(data["attributes"]), data["layout"], columns, bag_law(data["law"]))


Channel = UniformChannel | SplitChannel | BagChannel
_KINDS: Mapping[str, Any] = {kind.kind: kind for kind in (UniformChannel, SplitChannel, BagChannel)}


def channel(data: Mapping[str, Any]) -> Channel:
    """A channel out of a manifest."""
    found: Channel = _KINDS[data["kind"]].from_dict(data)
    return found
