"""Mosaic: patches that are small where many rows are, and groups of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree
from scumble.families.boxes.publish.base import Level, RegionSummary, refine
from scumble.families.boxes.publish.dawa import bucket_tree
from scumble.model.designs.boxes import Boxes, BoxSums
from scumble.private.mechanism_metadata import SQUARE
from scumble.private.meter.splits import split_boxes, split_rule
from scumble.private.meter.table import PrivateCounts, PrivateTable

# Shares of ε with one attribute and with several, spent twice: on where to halve boxes, and on
# rough counts of the rows in them.
_FOR_SHAPE = Fraction(1, 30), Fraction(1, 10)
_FINE = 3  # as c₂ of Grid: the balance of noise and unevenness in a patch


@dataclass(kw_only=True, eq=False, repr=False)
class Mosaic(RegionSummary):
    """Publishes noisy counts of boxes of one to four ordered attributes: they are halved where many
    rows are, cut into patches by their noisy counts, and counted in groups if that helps.

    Of the releases of boxes the one to take if nothing is known of the data. `neighbours`,
    `contribution` and `person` say who is protected, as for a histogram.

    Promises: ε-DP of the whole release. Proof: a tenth of ε, with one attribute a thirtieth, is for
        the splits of boxes, as for PrivTree; as much for noisy counts of the boxes, which say into
        how many patches each is cut; what is left for counts of the patches, and of groups of them.
        The boxes of each of these levels are disjoint, so that discrete Laplace noise of scale Δ/εᵢ
        makes them εᵢ-DP. What is counted, and with which of the εᵢ, depends on the earlier
        steps alone.
    Estimate: the least-squares fit of groups and patches, each group the sum of its patches;
        unbiased, and of known noise, if a question takes whole patches: the noise of the counts is
        independent of that which shaped them. Of a patch that a question cuts, a part in
        proportion to its cells, and the interval reaches from the least to the most that it can
        add, however its rows are spread.
    Reference: splits: Zhang, Xiao, Xie, PrivTree, SIGMOD 2016, theorem 3.1; patches: Qardaji, Yang,
        Li, Differentially private grids for geospatial data, ICDE 2013.
    Differs: it is neither paper's method. PrivTree stops at boxes that hold many rows, and counts
        them once with half of ε; a grid refines boxes that are the same whatever the data are. Here
        a grid's refinement follows PrivTree's splits, with c₂ = 3 instead of 5. Groups are those
        of a tree over the patches, of one attribute as Dawa's, of several by repeated halving, if
        they make the mean variance of boxes of all sizes less. The constants were chosen on a
        public benchmark.
    """

    name = "mosaic"
    data_dependent = True
    example = SQUARE
    proof = (
        "splits: Zhang, Xiao, Xie, SIGMOD 2016, theorem 3.1, for whole numbers and with the exact "
        "sum; noise on sums of counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    )

    def grow(self, table: PrivateTable) -> tuple[BoxNodes, BoxTree]:
        """Return the measured patches and groups."""
        shape = self.shape(table.schema)
        counts = table.counts(self.names, self.unit)
        blocks = self.blocks(table.schema)
        leaves, (patches, origin), left = self.shape_leaves(counts, blocks)
        plan = patch_plan(blocks, leaves, patches, origin)
        laws = self.laplace([left * share for share in plan.shares])
        sums = BoxSums(shape, tuple(boxes for boxes, _ in plan.levels))
        noisy = counts.noisy(laws, sums)
        return BoxNodes.of_levels(plan.levels, noisy, sums.boxes), BoxTree(laws)

    def shape_leaves(self, counts: PrivateCounts, blocks: Boxes) -> tuple[Boxes, Level, Fraction]:
        """Return the blocks after halving, their patches, and the ε that is left for counts."""
        shape = tuple(int(high.max()) + 1 for high in blocks.high)
        pieces = 1 << max(sum(size > 1 for size in shape), 1)  # of a box that is halved
        part = self.cell_promise.epsilon * _FOR_SHAPE[len(shape) > 1]
        rule = split_rule(part, pieces, self.unit)
        leaves = split_boxes(counts, shape, rule, blocks)
        [seen] = counts.noisy(self.laplace([part]), BoxSums(shape, (leaves,)))
        left = self.cell_promise.epsilon - part - rule.loss(self.unit)
        return leaves, self.patches(leaves, seen, left), left

    def patches(self, leaves: Boxes, seen: npt.NDArray[Any], left: Fraction) -> Level:
        """Return the pieces that balance noise and unevenness: their number grows with rows · ε."""
        per_row = float(left) / self.unit.sensitivity / _FINE
        pieces = (np.maximum(seen, 0) * per_row) ** (2 / (len(leaves.low) + 2))
        return refine(leaves, np.maximum(np.ceil(pieces - 1e-9), 1).astype(np.int64))


# Levels above the patches: groups of neighbours, and the share of the budget of each level, chosen
# for boxes of all sizes.

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_FEWEST, _MOST = 4, 24  # sample boxes for the choice
_NUMBERS = 1 << 23  # weights held for them, unless the fewest boxes need more
_SHARES = tuple(Fraction(part, 8) for part in (1, 2, 3, 4))  # candidates for the share of groups
_SMALLEST = 4  # codes of a group along the longest attribute


class PatchPlan(NamedTuple):
    """Levels from the top, and their shares of the budget."""

    levels: list[Level]
    shares: list[Fraction]


def patch_plan(blocks: Boxes, leaves: Boxes, patches: Boxes, origin: Integers) -> PatchPlan:
    """Return the best plan for the patches, each a piece of a leaf: to count them alone, or also
    groups of them. It depends on these boxes alone.

    With one attribute it is a tree, as over the buckets of Dawa. With several, a group is a box of
    repeated halving of the blocks, or a larger leaf.
    """
    if len(patches.low) == 1:
        return PatchPlan(*bucket_tree(patches.take(np.argsort(patches.low[0]))))
    return choose_groups(blocks, leaves, patches, origin)[0]


def choose_groups(
    blocks: Boxes, leaves: Boxes, patches: Boxes, origin: Integers
) -> tuple[PatchPlan, float]:
    """Return the plan, patches alone or with groups, with the least mean variance of boxes; and
    that variance, in units of the variance of one count with the whole budget.
    """
    asked = _measure_cover(patches, _sample_boxes(patches))
    squares = np.einsum("ij,ij->i", asked, asked)  # matrix products would start threads
    best = PatchPlan([(patches, np.zeros(len(patches), np.int64))], [Fraction(1)]), squares.mean()
    first = np.flatnonzero(np.diff(origin, prepend=-1))
    by_leaf, patches_of = np.add.reduceat(asked, first, axis=1), np.bincount(origin)
    for groups, group in _groupings(blocks, leaves):
        if len(groups) == len(patches):
            break
        sizes = np.bincount(group, patches_of).astype(np.float64)
        whole = _weigh_totals(by_leaf, group, sizes)
        within = float(squares.mean() - (whole * sizes).sum())
        for share in _SHARES:
            upper, lower = float(share), float(1 - share)
            error = within / lower**2 + float(np.sum(whole / (upper**2 + lower**2 / sizes)))
            if error < best[1]:
                levels = [(groups, np.zeros(len(groups), np.int64)), (patches, group[origin])]
                best = PatchPlan(levels, [share, 1 - share]), error
    return best[0], float(best[1])


def _weigh_totals(by_leaf: Floats, group: Integers, sizes: Floats) -> Floats:
    """Return the mean squared weight of the sample boxes on the total of each group: the square of
    their mean weight in it. What is left of their squared weights is on the differences between the
    patches of a group; least squares estimates the two independently.

    `by_leaf` are the sums of weights over the patches of each leaf, and `group` the index of its
    group.
    """
    boxes, groups = len(by_leaf), len(sizes)
    rows = np.arange(boxes)[:, None] * groups + group
    sums = np.bincount(rows.reshape(-1), by_leaf.reshape(-1), boxes * groups)
    squares: Floats = ((sums.reshape(boxes, groups) / sizes) ** 2).mean(axis=0)
    return squares


def _groupings(blocks: Boxes, leaves: Boxes) -> Iterator[tuple[Boxes, Integers]]:
    """Yield for every depth of halving the boxes of that depth that contain smaller leaves, with
    the leaves that are not smaller; and for each leaf its index among them.
    """
    sizes = [int(high.max()) + 1 for high in leaves.high]
    edges = [np.unique(low) for low in blocks.low]
    while True:
        edges = [_halve(starts, size) for starts, size in zip(edges, sizes, strict=True)]
        if all(size < _SMALLEST * len(starts) for starts, size in zip(edges, sizes, strict=True)):
            return
        box = _enclose(leaves, edges, sizes)
        larger = (box.sizes < leaves.sizes).any(axis=0)
        low = np.where(larger, leaves.low, box.low)
        high = np.where(larger, leaves.high, box.high)
        key = np.ravel_multi_index(tuple(low), sizes)
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        yield Boxes(low[:, first], high[:, first]), group.reshape(-1)


def _halve(starts: Integers, size: int) -> Integers:
    """Return the first codes of the pieces of an attribute after each was halved."""
    last = np.append(starts[1:], size) - 1
    middle = ((starts + last) // 2)[starts < last]
    return np.sort(np.concatenate([starts, middle + 1]))


def _enclose(leaves: Boxes, edges: list[Integers], sizes: list[int]) -> Boxes:
    """Return the box between edges that contains the lowest cell of each leaf."""
    low, high = [], []
    for starts, size, codes in zip(edges, sizes, leaves.low, strict=True):
        piece = np.searchsorted(starts, codes, side="right") - 1
        low.append(starts[piece])
        high.append(np.append(starts[1:], size)[piece] - 1)
    return Boxes(np.stack(low), np.stack(high))


def _measure_cover(patches: Boxes, asked: Iterable[tuple[Integers, Integers]]) -> Floats:
    """Return the share of each patch (column) that each of some boxes (row) covers."""
    begin, end = (np.stack(corners, axis=1) for corners in zip(*asked, strict=True))
    taken = np.ones((begin.shape[1], len(patches)))
    for axis, (low, high) in enumerate(zip(patches.low, patches.high, strict=True)):
        # Many patches have the same interval of an attribute.
        packed = low * (int(high.max()) + 1) + high
        _, first, which = np.unique(packed, return_index=True, return_inverse=True)
        low, high = low[first], high[first]
        inside = np.minimum(high, end[axis][:, None]) - np.maximum(low, begin[axis][:, None]) + 1
        taken *= (np.maximum(inside, 0) / (high - low + 1))[:, which.reshape(-1)]
    return taken


def _sample_boxes(patches: Boxes) -> Iterator[tuple[Integers, Integers]]:
    """Yield sample boxes whose corners are spread evenly over the domain: fractional parts of
    multiples of irrational numbers.
    """
    sizes = patches.high.max(axis=1) + 1
    steps = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0]).reshape(4, 2)[: len(sizes)]
    asked = min(max(_NUMBERS // len(patches), _FEWEST), _MOST)
    for number in range(1, asked + 1):
        corners = ((number * steps) % 1.0 * sizes[:, None]).astype(np.int64)
        yield corners.min(axis=1), corners.max(axis=1)
