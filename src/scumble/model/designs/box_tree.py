"""Least squares on trees of boxes.

Forest: weighted least squares on counts that add up along trees of any shape.

Every node of a forest is the sum of its children, and nodes are measured with independent noise of
any variance, inner ones also not at all. The best linear estimate of all nodes together takes two
passes (Hay, Rastogi, Miklau and Suciu, VLDB 2010, with inverse variances for weights):

- up: what a subtree says of its root is the mean of its own number and of the sum of what its
  children say, weighted by their precisions;
- down: what the others say of a node beyond that is shared among siblings by their variances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.designs.boxes import Boxes
from scumble.model.laws import law_from_dict
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NodeGroups:
    """Lists of nodes one after the other: that of group g begins at starts[g] and ends before
    starts[g + 1].
    """

    starts: Integers
    nodes: Integers


@dataclass(frozen=True, eq=False)
class TreeEstimator:
    """Nodes by their parents (−1 for a root), each parent before its children, and the variance of
    the noise of each node: infinite for inner nodes that were not measured.
    """

    parents: Integers
    variances: Floats

    def __post_init__(self) -> None:
        nodes = np.arange(len(self.parents))
        if not (self.parents < nodes).all() or (self.parents < -1).any():
            raise ValueError("parents stand before their children")
        if not (self.variances > 0).all() or not np.isfinite(self.variances[self.leaves]).all():
            raise ValueError("variances are above 0, and finite for leaves")

    @cached_property
    def leaves(self) -> npt.NDArray[np.bool_]:
        """Which nodes have no children."""
        leaves = np.ones(len(self.parents), bool)
        leaves[self.parents[self.parents >= 0]] = False
        return leaves

    def estimates(self, noisy: npt.NDArray[np.generic]) -> Floats:
        """The least-squares estimate of every node: each is the sum of its children."""
        from scumble.model.designs import kernels

        own, below = self._spread
        numbers: Floats = noisy.astype(np.float64)
        found: Floats = kernels.estimate(
            self.parents, self._precisions, own, below, numbers, np.zeros(len(own))
        )
        return found

    def coefficients(self, weights: Floats) -> Floats:
        """What each noisy number adds to the sum of weights · estimates of nodes."""
        from scumble.model.designs import kernels

        own, below = self._spread
        found: Floats = kernels.adjoint(
            self.parents, self._precisions, own, below, weights, np.zeros(len(own))
        )
        return found

    def group_moments(
        self, groups: NodeGroups, first: Floats, second: Floats, variances: Floats, fourths: Floats
    ) -> Floats:
        """The moments of errors of sums of weights · estimates of nodes, for many groups of nodes:
        in three rows, the covariance of the two sums with the given weights, the fourth cumulant of
        the first, and the largest of its coefficients. The noise of a node has these variances and
        fourth cumulants.
        """
        from scumble.model.designs import kernels

        own, below = self._spread
        shares = own * self._precisions
        even = kernels.below_even(self.parents, own, below, shares, variances, fourths)
        found: Floats = kernels.group_moments(
            self.parents,
            *self._children,
            own,
            below,
            shares,
            variances,
            fourths,
            even,
            groups.starts,
            groups.nodes,
            np.stack([first, second]),
        )
        return found

    def under(self, marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which nodes are below a marked one."""
        from scumble.model.designs import kernels

        found: npt.NDArray[np.bool_] = kernels.under(self.parents, marked)
        return found

    def variance(self, weights: Floats) -> float:
        """The variance of the sum of weights · estimates of nodes."""
        used = self.coefficients(weights)
        measured = np.isfinite(self.variances)
        return float((used[measured] ** 2 * self.variances[measured]).sum())

    @cached_property
    def _children(self) -> tuple[Integers, Integers]:
        """Where the children of each node begin, and all children by their parents."""
        starts = np.searchsorted(np.sort(self.parents), np.arange(len(self.parents) + 1))
        return starts, np.argsort(self.parents, kind="stable")

    @cached_property
    def _precisions(self) -> Floats:
        return 1 / self.variances

    @cached_property
    def _spread(self) -> tuple[Floats, Floats]:
        """The variance of what each subtree says of its root, and of the sum of its children."""
        from scumble.model.designs import kernels

        own, below = np.zeros(len(self.parents)), np.zeros(len(self.parents))
        kernels.gather(self.parents, self._precisions, own, below)
        return own, below


# Regions: noisy counts of boxes that refine each other as the nodes of a tree.

NoiseLaw = DiscreteLaplace | DiscreteGaussian

FILE = "regions.parquet"
COUNT, LAW, PARENT = "count", "law", "parent"
NO_LAW = -1  # of a node that was not measured


@dataclass(frozen=True)
class BoxTree:
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
    def from_dict(cls, data: Mapping[str, Any]) -> BoxTree:
        laws: list[NoiseLaw] = []
        for law in map(law_from_dict, data["laws"]):
            if not isinstance(law, NoiseLaw):
                raise ValueError("regions have discrete Laplace or Gaussian noise")
            laws.append(law)
        return cls(tuple(laws), data["prune"])


@dataclass(frozen=True, eq=False)
class BoxNodes:
    """The nodes of a tree of boxes, each parent before its children; the leaves tile the domain."""

    boxes: Boxes
    parents: Integers
    law: Integers
    noisy: Integers

    @classmethod
    def of_levels(
        cls, levels: Sequence[tuple[Boxes, Integers]], noisy: Sequence[npt.NDArray[Any] | None]
    ) -> BoxNodes:
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
    def of_leaves(cls, boxes: Boxes, noisy: npt.NDArray[Any]) -> BoxNodes:
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
    def read(cls, table: pa.Table, names: Sequence[str]) -> BoxNodes:
        """The tree out of the rows of its file."""

        def column(name: str) -> Integers:
            found: Integers = table[name].to_numpy().astype(np.int64)
            return found

        low = np.stack([column(_low(name)) for name in names])
        high = np.stack([column(_high(name)) for name in names])
        return cls(Boxes(low, high), column(PARENT), column(LAW), column(COUNT))

    def estimator(self, laws: Sequence[NoiseLaw]) -> TreeEstimator:
        """The tree with the variances of its noise."""
        known = np.array([*(law.variance for law in laws), np.inf])
        return TreeEstimator(self.parents, known[self.law])


def _low(name: str) -> str:
    return f"{name} low"


def _high(name: str) -> str:
    return f"{name} high"
