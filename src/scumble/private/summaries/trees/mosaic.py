"""Mosaic: patches that are small where many rows are, and groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.boxes import Boxes, BoxSums
from scumble.model.designs.regions import Regions, RegionTree
from scumble.model.privacy.person import Neighbours
from scumble.private.meter.private_counts import PrivateCounts
from scumble.private.meter.private_splits import split_boxes
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.trees.base import RegionSummary
from scumble.private.summaries.trees.patch_tree import patch_plan
from scumble.private.summaries.trees.privtree import split_rule
from scumble.private.summaries.trees.region_levels import Level, refined

# Of ε, once for where to halve boxes, once for how many rows are in them, roughly: with one
# attribute, and with several.
_FOR_SHAPE = Fraction(1, 30), Fraction(1, 10)
_FINE = 3  # as c₂ of Grid: what a row more or less in a patch is worth


class Mosaic(RegionSummary):
    """Publishes noisy counts of boxes of one to four ordered attributes: they are halved where many
    rows are, cut into patches by what a look at them shows, and counted in groups if that helps.

    Of the releases of boxes the one to take if nothing is known of the data. `neighbours`,
    `contribution` and `person` say who is protected, as for a histogram.

    Promises: ε-DP of the whole release. Proof: a tenth of ε, with one attribute a thirtieth, is for
        the splits of boxes, as for PrivTree; as much for noisy counts of the boxes, which say into
        how many patches each is cut; what is left for counts of the patches, and of groups of them.
        The boxes of each of these levels are disjoint, so that discrete Laplace noise of scale Δ/εᵢ
        makes them εᵢ-DP. What is counted, and with which of the εᵢ, depends on the earlier looks
        alone.
    Estimate: the least-squares fit of groups and patches, each group the sum of its patches;
        unbiased, and of known noise, if a question takes whole patches: the noise of the counts is
        independent of that which shaped them. Of a patch that a question cuts, a part in proportion
        to its cells, and a note says so.
    Reference: splits: Zhang, Xiao, Xie, PrivTree, SIGMOD 2016, theorem 3.1; patches: Qardaji, Yang,
        Li, Differentially private grids for geospatial data, ICDE 2013.
    Differs: it is neither paper's method. PrivTree stops at boxes that hold many rows, and counts
        them once with half of ε; a grid refines boxes that are the same whatever the data are. Here
        a grid's refinement follows PrivTree's splits, with c₂ = 3 in place of 5. Groups are those
        of a tree over the patches, of one attribute as Dawa's, of several by repeated halving, if
        they make the mean variance of boxes of all sizes less. The constants were chosen on a
        public benchmark.
    """

    name = "mosaic"
    proof = (
        "splits: Zhang, Xiao, Xie, SIGMOD 2016, theorem 3.1, for whole numbers and with the exact "
        "sum; noise on sums of counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    )

    def __init__(
        self,
        attributes: Sequence[str],
        *,
        epsilon: float,
        neighbours: Neighbours,
        contribution: int = 1,
        person: str | None = None,
    ) -> None:
        super().__init__(
            attributes,
            epsilon=epsilon,
            neighbours=neighbours,
            contribution=contribution,
            person=person,
        )

    def grow(self, table: PrivateTable) -> tuple[RegionTree, Regions]:
        """The measured patches and groups."""
        shape = self.shape(table.schema)
        counts = table.counts(self.attributes, self.person)
        leaves, (patches, origin), left = self.shaped(counts, shape)
        plan = patch_plan(leaves, patches, origin)
        laws = self.laplace([left * share for share in plan.shares])
        noisy = counts.noisy(laws, BoxSums(shape, tuple(boxes for boxes, _ in plan.levels)))
        return RegionTree.of_levels(plan.levels, noisy), Regions(laws)

    def shaped(
        self, counts: PrivateCounts, shape: tuple[int, ...]
    ) -> tuple[Boxes, Level, Fraction]:
        """Boxes that were halved, their patches, and the ε that is left for counts."""
        pieces = 1 << max(sum(size > 1 for size in shape), 1)  # of a box that is halved
        part = self.promise.epsilon * _FOR_SHAPE[len(shape) > 1]
        rule = split_rule(part, pieces, self.person)
        leaves = split_boxes(counts, shape, rule)
        [seen] = counts.noisy(self.laplace([part]), BoxSums(shape, (leaves,)))
        left = self.promise.epsilon - part - rule.loss(self.person)
        return leaves, self.patches(leaves, seen, left), left

    def patches(self, leaves: Boxes, seen: npt.NDArray[Any], left: Fraction) -> Level:
        """The pieces that balance noise and unevenness: their number grows with rows · ε."""
        per_row = float(left) / self.person.sensitivity / _FINE
        pieces = (np.maximum(seen, 0) * per_row) ** (2 / (len(leaves.low) + 2))
        return refined(leaves, np.maximum(np.ceil(pieces - 1e-9), 1).astype(np.int64))
