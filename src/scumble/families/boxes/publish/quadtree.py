"""Quadtree: noisy counts of ever smaller boxes, fitted to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree
from scumble.families.boxes.publish.base import (
    Level,
    RegionSummary,
    count_touched,
    level_shares,
    regular,
)
from scumble.model.designs.boxes import BoxSums
from scumble.model.laws.distributions import NoiseLaw
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import WithDelta


@dataclass(kw_only=True, eq=False, repr=False)
class Quadtree(WithDelta, RegionSummary):
    """Publishes noisy counts of boxes: of the whole domain, of its halves in every attribute, of
    their halves, and so on. Ranges of one to four ordered attributes are answered from few nodes.

    `height` is the number of halvings (by default down to single cells). With `prune`, nodes whose
    fitted count is below it count as leaves, inside which rows are taken to be spread evenly: less
    noise where few rows are. `delta` gives Gaussian noise. `neighbours`, `contribution` and
    `person` say who is protected, as for a histogram.

    Parameters:
        height: levels below the domain.
        prune: nodes with fewer count as leaves.

    Promises: ε-DP of the whole release, or (ε, δ)-DP. Proof: the boxes of a level are disjoint, so
        that one person changes its counts by at most Δ = contribution (add or remove) or
        2·contribution (replace) in all; discrete Laplace noise of scale Δ/εᵢ makes level i εᵢ-DP,
        and the levels' εᵢ add up to ε. The cuts do not depend on the data.
    Estimate: the least-squares fit of all nodes, each the sum of its children, summed over the
        leaves that a question takes; unbiased, and of known noise, if it takes whole leaves. Of a
        leaf that it cuts, a part in proportion to its cells, and the interval reaches from the
        least to the most that it can add, however its rows are spread.
    Reference: Cormode, Procopiuc, Srivastava, Shen, Yu, Differentially private spatial
        decompositions, ICDE 2012; Hay, Rastogi, Miklau, Suciu, VLDB 2010.
    Differs: integer noise. Budgets follow the paper's rule, the cube root of the number of nodes of
        a level that a range touches: geometric in two attributes, and uniform in one, where the
        geometric ones of the paper are worse. Nothing is pruned unless asked for.
    """

    name = "quadtree"

    height: int | None = None
    prune: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.height = self._optional("height", self.height, least=1, most=64)
        self.prune = self._optional("prune", self.prune, least=1)

    def grow(self, table: PrivateTable) -> tuple[BoxNodes, BoxTree]:
        """Return the measured tree."""
        shape = self.shape(table.schema)
        levels = regular(self.blocks(table.schema), self.height)
        laws = self._laws(shape, levels)
        sums = BoxSums(shape, tuple(boxes for boxes, _ in levels))
        noisy = table.counts(self.names, self.unit).noisy(laws, sums)
        return BoxNodes.of_levels(levels, noisy, sums.boxes), BoxTree(laws, self.prune)

    def _laws(self, shape: tuple[int, ...], levels: Sequence[Level]) -> tuple[NoiseLaw, ...]:
        taken = [count_touched(shape, level) for level in range(len(levels))]
        return self._noise_of(level_shares(taken, 1 / 2 if self.gaussian else 1 / 3))
