"""PrivTree: a tree that grows where rows are, and noisy counts of its leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree
from scumble.families.boxes.publish.base import RegionSummary
from scumble.model.designs.boxes import BoxSums
from scumble.private.meter.splits import split_boxes, split_rule
from scumble.private.meter.table import PrivateTable


@dataclass(kw_only=True, eq=False, repr=False)
class PrivTree(RegionSummary):
    """Publishes noisy counts of boxes that are small where many rows are: a box is halved in every
    attribute as long as its noisy count is large. Its depth needs no limit and costs nothing.

    `neighbours`, `contribution` and `person` say who is protected, as for a histogram.

    Promises: ε-DP of the whole release. Proof: half of ε is for the splits, half for the counts of
        the leaves, which are disjoint. A box at depth d with c rows is split if
        max(c − dδ, −δ) + z > 0, z discrete Laplace noise of scale λ. The boxes that hold a row have
        counts that fall by δ or more from one to the next after the bias, and what a row changes
        falls geometrically with them: the splits change in probability by at most
        exp(2/λ + Σ_j ρ(1 + jδ)), as shown where they are drawn; λ is the least scale, to a part in
        a million, for which that is at most exp(ε/2). Replacing a row costs 1/λ more.
    Estimate: sums of the noisy leaves, unbiased and of known noise, if a question takes whole
        leaves. Of a leaf that it cuts, a part in proportion to its cells, and the interval reaches
        from the least to the most that it can add, however its rows are spread.
    Reference: Zhang, Xiao, Xie, PrivTree, SIGMOD 2016, theorem 3.1.
    Differs: integer noise and a whole δ = ⌈λ ln b⌉, b the number of pieces of a box; the paper's
        bound (2b−1)/((b−1)λ) holds for these too, and is replaced by the exact sum, a few percent
        smaller.
    """

    name = "privtree"
    data_dependent = True
    proof = (
        "splits: Zhang, Xiao, Xie, SIGMOD 2016, theorem 3.1, for whole numbers and with the exact "
        "sum; noise on sums of counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    )

    def grow(self, table: PrivateTable) -> tuple[BoxNodes, BoxTree]:
        """Return the measured leaves."""
        shape = self.shape(table.schema)
        half = self.cell_promise.epsilon / 2
        rule = split_rule(half, self._pieces(shape), self.unit)
        counts = table.counts(self.names, self.unit)
        leaves = split_boxes(counts, shape, rule, self.blocks(table.schema))
        laws = self.laplace([self.cell_promise.epsilon - rule.loss(self.unit)])
        [noisy] = counts.noisy(laws, BoxSums(shape, (leaves,)))
        return BoxNodes.of_leaves(leaves, noisy), BoxTree(laws)

    def _pieces(self, shape: Sequence[int]) -> int:
        """How many pieces a box is halved into at most."""
        return 1 << max(sum(size > 1 for size in shape), 1)
