"""Forest: weighted least squares on counts that add up along trees of any shape.

Every node of a forest is the sum of its children, and nodes are measured with independent noise of
any variance, inner ones also not at all. The best linear estimate of all nodes together takes two
passes (Hay, Rastogi, Miklau and Suciu, VLDB 2010, with inverse variances for weights):

- up: what a subtree says of its root is the mean of its own number and of the sum of what its
  children say, weighted by their precisions;
- down: what the others say of a node beyond that is shared among siblings by their variances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Lists of nodes one after the other: that of group g begins at starts[g] and ends before
    starts[g + 1].
    """

    starts: Integers
    nodes: Integers


@dataclass(frozen=True, eq=False)
class Forest:
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
        from scumble.model.designs import forest_kernels

        own, below = self._spread
        numbers: Floats = noisy.astype(np.float64)
        found: Floats = forest_kernels.estimate(
            self.parents, self._precisions, own, below, numbers, np.zeros(len(own))
        )
        return found

    def coefficients(self, weights: Floats) -> Floats:
        """What each noisy number adds to the sum of weights · estimates of nodes."""
        from scumble.model.designs import forest_kernels

        own, below = self._spread
        found: Floats = forest_kernels.adjoint(
            self.parents, self._precisions, own, below, weights, np.zeros(len(own))
        )
        return found

    def group_moments(
        self, groups: Groups, first: Floats, second: Floats, variances: Floats, fourths: Floats
    ) -> Floats:
        """The moments of errors of sums of weights · estimates of nodes, for many groups of nodes:
        in three rows, the covariance of the two sums with the given weights, the fourth cumulant of
        the first, and the largest of its coefficients. The noise of a node has these variances and
        fourth cumulants.
        """
        from scumble.model.designs import forest_kernels

        own, below = self._spread
        shares = own * self._precisions
        even = forest_kernels.below_even(self.parents, own, below, shares, variances, fourths)
        found: Floats = forest_kernels.group_moments(
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
        from scumble.model.designs import forest_kernels

        found: npt.NDArray[np.bool_] = forest_kernels.under(self.parents, marked)
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
        from scumble.model.designs import forest_kernels

        own, below = np.zeros(len(self.parents)), np.zeros(len(self.parents))
        forest_kernels.gather(self.parents, self._precisions, own, below)
        return own, below
