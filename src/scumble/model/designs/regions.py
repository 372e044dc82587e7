"""Regions: noisy counts of boxes that refine each other as the nodes of a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.designs.box_tree import Forest
from scumble.model.designs.boxes import Boxes
from scumble.model.laws import from_dict
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.law_gaussian import DiscreteGaussian

Integers = npt.NDArray[np.int64]
NoiseLaw = DiscreteLaplace | DiscreteGaussian

FILE = "regions.parquet"
COUNT, LAW, PARENT = "count", "law", "parent"
NO_LAW = -1  # of a node that was not measured


@dataclass(frozen=True)
class Regions:
    """One row a node of the tree: its parent, its box, its noisy count and which of `laws` the
    noise has. With `prune`, nodes whose estimate is below it count as leaves.
    """

    kind: ClassVar[str] = "regions"

    laws: tuple[NoiseLaw, ...]
    prune: int | None = None

    def to_dict(self) -> dict[str, Any]:
        laws = [law.to_dict() for law in self.laws]
        return {"kind": self.kind, "laws": laws, "prune": self.prune}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Regions:
        laws: list[NoiseLaw] = []
        for law in map(from_dict, data["laws"]):
            if not isinstance(law, NoiseLaw):
                raise ValueError("regions have discrete Laplace or Gaussian noise")
            laws.append(law)
        return cls(tuple(laws), data["prune"])


@dataclass(frozen=True, eq=False)
class RegionTree:
    """The nodes of a tree of boxes, each parent before its children; the leaves tile the domain."""

    boxes: Boxes
    parents: Integers
    law: Integers
    noisy: Integers

    @classmethod
    def of_levels(
        cls, levels: Sequence[tuple[Boxes, Integers]], noisy: Sequence[npt.NDArray[Any] | None]
    ) -> RegionTree:
        """Levels from the top, each with the places of its parents in the level above and its noisy
        counts, or None; every measured level has a law of its own.
        """
        sizes = [len(boxes) for boxes, _ in levels]
        starts = np.cumsum([0, 0, *sizes])  # of the level above each level
        parents = [above + start for (_, above), start in zip(levels, starts, strict=False)]
        parents[0] = np.full(sizes[0], -1)
        measured = np.cumsum([numbers is not None for numbers in noisy]) - 1
        laws = [NO_LAW if numbers is None else int(measured[k]) for k, numbers in enumerate(noisy)]
        counts = [
            np.zeros(size, np.int64) if numbers is None else numbers
            for size, numbers in zip(sizes, noisy, strict=True)
        ]
        return cls(
            Boxes.joined([boxes for boxes, _ in levels]),
            np.concatenate(parents),
            np.repeat(np.array(laws, np.int64), sizes),
            np.concatenate(counts).astype(np.int64),
        )

    @classmethod
    def of_leaves(cls, boxes: Boxes, noisy: npt.NDArray[Any]) -> RegionTree:
        """Leaves alone, all measured with one law: nothing above them was."""
        nothing = np.zeros(len(boxes), np.int64)
        return cls(boxes, nothing - 1, nothing, noisy.astype(np.int64))

    def write(self, folder: Path, names: Sequence[str]) -> None:
        """The tree as the one file of a release."""
        import pyarrow.parquet as pq

        columns = {PARENT: self.parents.astype(np.int32), LAW: self.law.astype(np.int16)}
        for name, low, high in zip(names, self.boxes.low, self.boxes.high, strict=True):
            columns |= {_low(name): low.astype(np.int32), _high(name): high.astype(np.int32)}
        table = pa.table({**columns, COUNT: self.noisy})
        pq.write_table(table, folder / FILE, store_schema=False)

    @classmethod
    def read(cls, table: pa.Table, names: Sequence[str]) -> RegionTree:
        """The tree out of the rows of its file."""

        def column(name: str) -> Integers:
            found: Integers = table[name].to_numpy().astype(np.int64)
            return found

        low = np.stack([column(_low(name)) for name in names])
        high = np.stack([column(_high(name)) for name in names])
        return cls(Boxes(low, high), column(PARENT), column(LAW), column(COUNT))

    def forest(self, laws: Sequence[NoiseLaw]) -> Forest:
        """The tree with the variances of its noise."""
        known = np.array([*(law.variance for law in laws), np.inf])
        return Forest(self.parents, known[self.law])


def _low(name: str) -> str:
    return f"{name} low"


def _high(name: str) -> str:
    return f"{name} high"
