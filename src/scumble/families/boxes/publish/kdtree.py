"""KdTree: boxes cut near the medians of their rows, then halved; with noisy counts of all."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2
from typing import Literal

import numpy as np

from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree
from scumble.families.boxes.publish.base import (
    MOST_NODES,
    Level,
    RegionSummary,
    count_touched,
    halve,
    level_shares,
    top,
)
from scumble.model.designs.boxes import Boxes, BoxSums
from scumble.model.errors import ParameterError
from scumble.private.meter.splits import mean_cuts, median_cuts
from scumble.private.meter.table import PrivateCounts, PrivateTable

SPLITS = ("median", "noisy_mean")
_FOR_CUTS = Fraction(3, 10)


@dataclass(kw_only=True, eq=False, repr=False)
class KdTree(RegionSummary):
    """Publishes noisy counts of boxes that hold about equally many rows: cut near the median of
    every attribute in turn, further down halved. It follows the data where they lie densely.

    `height` is the number of levels below the whole domain (by default down to single cells),
    `cuts` how many of them are cut near medians (by default half of those that halving would take;
    all is a kd-tree, 0 a quadtree). `split` is "median", or
    "noisy_mean" for cuts at means. With `prune`, nodes whose fitted count is below it count as
    leaves. `neighbours`, `contribution` and `person` say who is protected, as for a histogram.

    Parameters:
        height: levels below the domain.
        cuts: levels that are cut near medians.
        split: cuts at a median or a noisy_mean.
        prune: nodes with fewer count as leaves.

    Promises: ε-DP of the whole release. Proof: 30 % of ε are for cuts, in equal parts for each
        level and attribute; the boxes cut at one time are disjoint, and their cuts together are
        ε-DP, as shown where they are drawn. The rest is for counts, by level as in a quadtree: the
        boxes of a level are disjoint, whatever cuts were chosen.
    Estimate: the least-squares fit of all nodes, each the sum of its children, summed over the
        leaves that a question takes; unbiased, and of known noise, if it takes whole leaves: the
        noise of the counts is independent of that of the cuts. Of a leaf that a question cuts, a
        part in proportion to its cells, and the interval reaches from the least to the most that
        it can add, however its rows are spread.
    Reference: Cormode, Procopiuc, Srivastava, Shen, Yu, Differentially private spatial
        decompositions, ICDE 2012 (kd-hybrid); means: Inan, Kantarcioglu, Ghinita, Bertino, EDBT
        2010.
    Differs: medians are chosen among codes by the least score after geometric noise, at least as
        good as the exponential mechanism, with |rows below − rows above| for a score: one row
        changes it by 1, so that the same ε allows half the noise of the paper's. Integer noise.
    """

    name = "kdtree"
    data_dependent = True
    proof = (
        "cuts by noisy scores, as report noisy max: Dwork, Roth, 2014, claim 3.9; "
        "noise on sums of counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    )

    height: int | None = None
    cuts: int | None = None
    split: Literal["median", "noisy_mean"] = "median"
    prune: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.height = self._optional("height", self.height, least=1, most=64)
        self.cuts = self._optional("cuts", self.cuts, least=0, most=self.height or 64)
        self.prune = self._optional("prune", self.prune, least=1)
        if self.split not in SPLITS:
            raise ParameterError.of("KdTree", "split", "'median' or 'noisy_mean'", self.split)

    def grow(self, table: PrivateTable) -> tuple[BoxNodes, BoxTree]:
        """Return the measured tree."""
        shape = self.shape(table.schema)
        cuts = self._cuts(shape)
        counts = table.counts(self.names, self.unit)
        levels = halve(self._cut(counts, self.blocks(table.schema), cuts), self.height)
        left = self.cell_promise.epsilon * (1 - _FOR_CUTS if cuts else 1)
        shares = level_shares([count_touched(shape, level) for level in range(len(levels))], 1 / 3)
        laws = self.laplace([left * share for share in shares])
        sums = BoxSums(shape, tuple(boxes for boxes, _ in levels))
        noisy = counts.noisy(laws, sums)
        return BoxNodes.of_levels(levels, noisy, sums.boxes), BoxTree(laws, self.prune)

    def _cuts(self, shape: tuple[int, ...]) -> int:
        """Return the number of levels that are cut near medians."""
        if max(shape) == 1:
            return 0
        height = self.height or ceil(log2(max(shape)))
        cuts = height // 2 if self.cuts is None else self.cuts
        return min(cuts, int(log2(MOST_NODES)) // len(shape))

    def _cut(self, counts: PrivateCounts, blocks: Boxes, cuts: int) -> list[Level]:
        shape = tuple(int(high.max()) + 1 for high in blocks.high)
        levels = [top(blocks)]
        axes = [axis for axis, size in enumerate(shape) if size > 1]
        choose = median_cuts if self.split == "median" else mean_cuts
        share = self.cell_promise.epsilon * _FOR_CUTS / max(cuts * len(axes), 1)
        for _ in range(cuts):
            pieces, _ = levels[-1]
            origin = np.arange(len(pieces))
            for axis in axes:
                last = choose(counts, shape, pieces, axis, epsilon=share)
                pieces, of = pieces.cut(axis, last)
                origin = origin[of]
            levels.append((pieces, origin))
        return levels
