"""Trees of boxes with noisy counts, and weighted least squares on trees of any shape.

The count of every inner node is the sum of the counts of its children. Nodes are measured with
independent noise of any variance; inner nodes may be unmeasured. The best linear unbiased estimate
of all nodes takes two passes (Hay, Rastogi, Miklau and Suciu, VLDB 2010, here with inverse
variances as weights):

- up: the estimate of a node from its subtree is the mean of its own number and of the sum of its
  children's estimates, weighted by their precisions;
- down: the correction of a parent is distributed among its children by their variances.
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

from scumble.families.boxes.design import tree_kernels
from scumble.model.designs.boxes import Boxes
from scumble.model.designs.design import Design
from scumble.model.errors import ReleaseError
from scumble.model.laws import NoiseLaw, noise_law_from_dict
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.privacy.stated_loss import StatedLoss, counts_loss
from scumble.model.stored import DAMAGED, indices

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NodeGroups:
    """Groups of nodes: group g holds `nodes[starts[g]:starts[g + 1]]`."""

    starts: Integers
    nodes: Integers


@dataclass(frozen=True, eq=False)
class TreeEstimator:
    """Weighted least squares on one or more trees.

    `parents` has the parent of each node (−1 for a root); parents come before their children.
    `variances` has the variance of the noise of each node, infinite for unmeasured inner nodes.
    """

    parents: Integers
    variances: Floats

    def __post_init__(self) -> None:
        if len(self.parents) != len(self.variances):
            raise ValueError("every node has a variance")
        ordered, known = tree_kernels.check_tree(self.parents, self.variances, self.leaves)
        if not ordered:
            raise ValueError("parents stand before their children")
        if not known:
            raise ValueError("variances are above 0, and finite for leaves")

    @cached_property
    def leaves(self) -> npt.NDArray[np.bool_]:
        """Which nodes have no children."""
        leaves = np.ones(len(self.parents) + 1, bool)
        leaves[self.parents] = False  # that of a root, −1, is behind the last node
        return leaves[:-1]

    def estimates(self, noisy: npt.NDArray[np.generic]) -> Floats:
        """Return the least squares estimate of every node from the noisy numbers of all nodes."""
        own, below = self.subtree_variances
        numbers: Floats = noisy.astype(np.float64)
        estimates: Floats = tree_kernels.estimate(
            self.parents, self.precisions, own, below, numbers, np.zeros(len(own))
        )
        return estimates

    def coefficients(self, weights: Floats) -> Floats:
        """Return the coefficient of each noisy number in the sum of weights · estimates of
        nodes.
        """
        own, below = self.subtree_variances
        coefficients: Floats = tree_kernels.adjoint(
            self.parents, self.precisions, own, below, weights, np.zeros(len(own))
        )
        return coefficients

    def under(self, marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return which nodes are below a marked node."""
        below: npt.NDArray[np.bool_] = tree_kernels.under(self.parents, marked)
        return below

    def variance(self, weights: Floats) -> float:
        """Return the variance of the sum of weights · estimates of nodes."""
        used = self.coefficients(weights)
        measured = np.isfinite(self.variances)
        return float((used[measured] ** 2 * self.variances[measured]).sum())

    @cached_property
    def children(self) -> tuple[Integers, Integers]:
        """The index at which the children of each node begin, and all children by parent."""
        starts = np.searchsorted(np.sort(self.parents), np.arange(len(self.parents) + 1))
        return starts, np.argsort(self.parents, kind="stable")

    @cached_property
    def precisions(self) -> Floats:
        """The inverse variances of the noise."""
        return 1 / self.variances

    @cached_property
    def subtree_variances(self) -> tuple[Floats, Floats]:
        """The variance of each node's estimate from its subtree, and that of the sum of its
        children's estimates.
        """
        own, below = np.zeros(len(self.parents)), np.zeros(len(self.parents))
        tree_kernels.gather(self.parents, self.precisions, own, below)
        return own, below


@dataclass(frozen=True, eq=False)
class TreeNoise:
    """The noise of the nodes of a tree, with the given variances and fourth cumulants, and the
    moments of the errors that it makes in weighted sums of estimates.
    """

    estimator: TreeEstimator
    variances: Floats
    fourths: Floats

    def group_moments(self, groups: NodeGroups, first: Floats, second: Floats) -> Floats:
        """Return moments of the errors of weighted sums of estimates, for many groups of nodes.

        Each node of `groups` has two weights, `first` and `second`. The result has three rows and a
        column for each group: the covariance of the errors of the two sums, the fourth cumulant of
        the error of the first, and the largest absolute coefficient of the first.
        """
        weights = np.stack([first] if second is first else [first, second])
        order = np.argsort(np.append(groups.nodes, 0)[groups.starts[:-1]], kind="stable")
        moments: Floats = tree_kernels.group_moments(
            self.tree, self.noise, order, groups.starts, groups.nodes, weights
        )
        return moments

    @cached_property
    def tree(self) -> tuple[npt.NDArray[Any], ...]:
        """The arrays `tree` of the compiled loops."""
        forest = self.estimator
        return (forest.parents, *forest.children, *forest.subtree_variances)

    @cached_property
    def noise(self) -> tuple[npt.NDArray[Any], ...]:
        """The arrays `noise` of the compiled loops."""
        forest, moments = self.estimator, (self.variances, self.fourths)
        own, below = forest.subtree_variances
        shares = own * forest.precisions
        even = tree_kernels.below_even(forest.parents, own, below, shares, *moments)
        sums = tree_kernels.children_even(forest.parents, forest.children[0], even)
        return (shares, *moments, even, *sums)


# --- trees of boxes as published -----------------------------------------------------------------

FILE = "regions.parquet"
COUNT, LAW, PARENT = "count", "law", "parent"
NO_LAW = -1  # of a node that was not measured


@dataclass(frozen=True)
class BoxTree(Design):
    """The design of a tree of boxes. The file has one row for each node: its parent, its box, its
    noisy count, and the index of its noise in `laws`. With `prune`, nodes whose estimate is below
    it are read as leaves.
    """

    kind: ClassVar[str] = "regions"

    laws: tuple[NoiseLaw, ...]
    prune: int | None = None

    def to_dict(self) -> dict[str, Any]:
        laws = [law.to_dict() for law in self.laws]
        return {"kind": self.kind, "laws": laws, "prune": self.prune}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BoxTree:
        return cls(tuple(map(noise_law_from_dict, data["laws"])), data["prune"])

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        """Add up the boxes from a root to a leaf: a row is in one box of each generation."""
        import pyarrow.parquet as pq

        table = pq.read_table(file, columns=[PARENT, LAW])
        parents, laws = (table[name].to_numpy() for name in (PARENT, LAW))
        if not (laws >= -1).all() or not (laws < len(self.laws)).all() or not len(laws):
            raise ReleaseError(DAMAGED)
        if not ((parents >= -1) & (parents < np.arange(len(parents)))).all():
            raise ReleaseError(DAMAGED)
        losses = [counts_loss(law, unit) for law in self.laws]
        own = [
            np.array([*(getattr(one, kind) for one in losses), 0.0]) for kind in ("epsilon", "rho")
        ]
        epsilon, rho = (numbers[laws] for numbers in own)  # the last is that of no law, -1
        above = parents
        while (inside := above >= 0).any():
            for total, numbers in ((epsilon, own[0]), (rho, own[1])):
                total[inside] += numbers[laws[above[inside]]]
            above = np.where(inside, parents[above], -1)
        return StatedLoss(float(epsilon.max()), float(rho.max()))


@dataclass(frozen=True, eq=False)
class BoxNodes:
    """The nodes of a tree of boxes, each parent before its children; the leaves tile the domain."""

    boxes: Boxes
    parents: Integers
    law: Integers
    noisy: Integers

    @classmethod
    def of_levels(
        cls,
        levels: Sequence[tuple[Boxes, Integers]],
        noisy: Sequence[npt.NDArray[Any] | None],
        joined: Boxes | None = None,
    ) -> BoxNodes:
        """Return the tree with these levels, from the top. A level has boxes and the indices of
        their parents in the level above; `noisy` has its noisy counts, or None if it was not
        measured. Every measured level has its own law. `joined` are the boxes of all levels, if
        they are known.
        """
        sizes = [len(boxes) for boxes, _ in levels]
        starts = np.cumsum([0, *sizes]).tolist()
        parents = np.empty(starts[-1], np.int64)
        parents[: sizes[0]] = -1
        for level, (_, above) in enumerate(levels[1:]):
            np.add(above, starts[level], out=parents[starts[level + 1] : starts[level + 2]])
        measured = np.cumsum([numbers is not None for numbers in noisy]) - 1
        laws = [NO_LAW if numbers is None else int(measured[k]) for k, numbers in enumerate(noisy)]
        counts = [
            np.zeros(size, np.int64) if numbers is None else numbers
            for size, numbers in zip(sizes, noisy, strict=True)
        ]
        return cls(
            joined or Boxes.joined([boxes for boxes, _ in levels]),
            parents,
            np.repeat(np.array(laws, np.int64), sizes),
            np.concatenate(counts).astype(np.int64, copy=False),
        )

    @classmethod
    def of_leaves(cls, boxes: Boxes, noisy: npt.NDArray[Any]) -> BoxNodes:
        """Return the tree that consists of leaves only, all measured with one law."""
        nothing = np.zeros(len(boxes), np.int64)
        return cls(boxes, nothing - 1, nothing, noisy.astype(np.int64))

    def write(self, folder: Path, names: Sequence[str]) -> None:
        """Write the tree as the one file of a release; `names` are the attributes of the boxes."""
        import pyarrow.parquet as pq

        columns = {PARENT: self.parents.astype(np.int32), LAW: self.law.astype(np.int16)}
        for name, low, high in zip(names, self.boxes.low, self.boxes.high, strict=True):
            columns |= {_low(name): low.astype(np.int32), _high(name): high.astype(np.int32)}
        table = pa.table({**columns, COUNT: self.noisy})
        pq.write_table(table, folder / FILE, store_schema=False)

    @classmethod
    def read(cls, table: pa.Table, names: Sequence[str]) -> BoxNodes:
        """Return the tree that `table`, the rows of its file, describes."""

        def column(name: str) -> Integers:
            numbers: Integers = table[name].to_numpy().astype(np.int64)
            return numbers

        low = np.stack([column(_low(name)) for name in names])
        high = np.stack([column(_high(name)) for name in names])
        return cls(Boxes(low, high), column(PARENT), column(LAW), column(COUNT))

    def check(self, shape: Sequence[int], laws: int) -> BoxNodes:
        """Return this tree if it is one over a domain of this shape, with `laws` laws of noise;
        raise `ReleaseError` if it is not.
        """
        indices(self.law, laws, least=NO_LAW)
        indices(self.parents, len(self.parents), least=-1)
        for axis, size in enumerate(shape):
            indices(self.boxes.low[axis], size)
            indices(self.boxes.high[axis], size)
        inner = np.zeros(len(self.parents), bool)
        inner[self.parents[self.parents >= 0]] = True
        forward = self.parents >= np.arange(len(self.parents))
        if forward.any() or (self.boxes.sizes < 1).any() or (self.law[~inner] == NO_LAW).any():
            raise ReleaseError(DAMAGED)
        return self

    def estimator(self, laws: Sequence[NoiseLaw]) -> TreeEstimator:
        """Return the least squares estimator of the tree with the variances of its noise."""
        known = np.array([*(law.variance for law in laws), np.inf])
        return TreeEstimator(self.parents, known.take(self.law, mode="wrap"))  # −1: the last one


def column_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the file of a tree; `names` are the attributes of its boxes."""
    ends = [end for name in names for end in (_low(name), _high(name))]
    return (PARENT, LAW, *ends, COUNT)


def _low(name: str) -> str:
    return f"{name} low"


def _high(name: str) -> str:
    return f"{name} high"
