"""A tree over buckets, its fan-out and the budgets of its levels chosen for ranges of codes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from scumble.model.designs.boxes import Boxes
from scumble.model.designs.regions import RegionTree
from scumble.private.summaries.trees.level_budgets import level_shares
from scumble.private.summaries.trees.region_levels import Level

Floats = npt.NDArray[np.float64]

_FANS = (2, 4, 8, 16, 32)
_ASKED = 16  # ranges from the first code on that the choice is made for
_ROUNDS = 2


def bucket_tree(buckets: Boxes) -> tuple[list[Level], list[Fraction]]:
    """Levels of groups of neighbouring buckets, and the shares of the budget of each: of a few
    fan-outs the one with the least mean variance. It depends on the buckets alone.
    """
    fans = [fan for fan in _FANS if fan < len(buckets)]
    plans = [_planned(_levels(buckets, fan)) for fan in [*fans, max(len(buckets), 2)]]
    _, levels, shares = min(plans, key=lambda plan: plan[0])
    return levels, shares


def _levels(buckets: Boxes, fan: int) -> list[Level]:
    """Groups of `fan` neighbours, groups of these, and so on; without a root, since no range needs
    it, but for a single bucket.
    """
    levels: list[Level] = []
    boxes = buckets
    while True:
        groups = -(-len(boxes) // fan)
        levels.insert(0, (boxes, np.arange(len(boxes)) // fan))
        if groups == 1:
            return levels
        first = np.arange(groups) * fan
        last = np.minimum(first + fan, len(boxes)) - 1
        boxes = Boxes(boxes.low[:, first], boxes.high[:, last])


def _planned(levels: list[Level]) -> tuple[float, list[Level], list[Fraction]]:
    """The mean variance of the ranges asked, and budgets that follow what they take of each level:
    its variance is Σ s/ε² over levels, so that ε grows as the cube root of s.
    """
    tree = RegionTree.of_levels(levels, [np.zeros(len(boxes), np.int64) for boxes, _ in levels])
    leaves, _ = levels[-1]
    asked = _asked(leaves)
    shares = level_shares([1.0] * len(levels), 1.0)
    for _ in range(_ROUNDS):
        taken = _taken(tree, asked, shares)
        shares = level_shares(np.maximum(taken, taken.max() * 1e-9).tolist(), 1 / 3)
    taken = _taken(tree, asked, shares)
    variance = sum(t / float(share) ** 2 for t, share in zip(taken, shares, strict=True))
    return float(variance), levels, shares


def _asked(leaves: Boxes) -> Floats:
    """One row a range from the first code on: which share of each bucket it takes."""
    codes = int(leaves.high[0, -1]) + 1
    ends = np.unique(np.arange(1, _ASKED + 1) * codes // (_ASKED + 1))
    taken: Floats = np.clip((ends[:, None] - leaves.low[0]) / leaves.sizes[0], 0.0, 1.0)
    return taken


def _taken(tree: RegionTree, asked: Floats, shares: Sequence[Fraction]) -> Floats:
    """The squared coefficients of the noise of each level, summed over the ranges asked."""
    from scumble.model.designs.box_tree import Forest

    inverse = np.array([1 / float(share) ** 2 for share in shares])
    forest = Forest(tree.parents, inverse[tree.law])
    weights = np.zeros(len(tree.parents))
    total = np.zeros(len(shares))
    for row in asked:
        weights[-len(row) :] = row
        total += np.bincount(tree.law, forest.coefficients(weights) ** 2, len(shares))
    return total
