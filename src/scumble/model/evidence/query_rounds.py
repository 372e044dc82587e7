"""QueryRounds: counts that were chosen and measured one after the other, and the model they make.

Each measurement is the noisy count of a set of merged cells. The model starts even over the domain
and moves towards all measurements by multiplicative weights, again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from scumble.model.designs.matrix import MergedCells
from scumble.model.laws import law_from_dict
from scumble.model.laws.distributions import DiscreteLaplace

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

NOISY, CELLS = "noisy", "cells"  # the columns of the file, one row for each measurement
_SWEEPS = 100


@dataclass(frozen=True)
class QueryRounds:
    """The merged cells, and the noise of each measurement.

    With `row_noise`, the first row of the file is the number of all rows with this noise.
    """

    kind: ClassVar[str] = "rounds"

    merged: MergedCells
    noise: DiscreteLaplace
    row_noise: DiscreteLaplace | None

    def to_dict(self) -> dict[str, Any]:
        total = {} if self.row_noise is None else {"row_noise": self.row_noise.to_dict()}
        return {
            "kind": self.kind,
            **self.merged.to_dict(),
            "noise": self.noise.to_dict(),
            **total,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QueryRounds:
        row_noise = None if data.get("row_noise") is None else _laplace(data["row_noise"])
        return cls(MergedCells.from_dict(data), _laplace(data["noise"]), row_noise)

    @property
    def sizes(self) -> Floats:
        """The number of cells of the domain in each merged cell."""
        sizes = np.ones(())
        for block in self.merged.blocks:
            sizes = np.multiply.outer(sizes, block.sizes)
        return self.merged.total(sizes)


def _laplace(data: Mapping[str, Any]) -> DiscreteLaplace:
    law = law_from_dict(data)
    if not isinstance(law, DiscreteLaplace):
        raise ValueError("measured counts have discrete Laplace noise")
    return law


def fitted(sizes: Floats, rows: float, sets: Sequence[Places], noisy: Sequence[float]) -> Floats:
    """Return the modelled number of rows of every merged cell, `rows` in all.

    A cell of a measured set is multiplied by exp((noisy - modelled) / 2 rows), set after set, and
    all cells are scaled back to `rows`; this is repeated for all measurements (Hardt, Ligett,
    McSherry, NIPS 2012).
    """
    whole = max(rows, 1.0)
    model: Floats = whole * sizes / sizes.sum()
    for _ in range(_SWEEPS if len(sets) else 0):
        for places, number in zip(sets, noisy, strict=True):
            gap = number - float(model[places].sum())
            model[places] *= np.exp(np.clip(gap / (2 * whole), -30, 30))
            model *= whole / model.sum()
    return model
