"""Levels above the patches of a domain: groups of neighbours, and what each level gets of the
budget, chosen for boxes of all sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scumble.model.designs.boxes import Boxes
from scumble.private.summaries.trees.bucket_tree import bucket_tree
from scumble.private.summaries.trees.region_levels import Level

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_FEWEST, _MOST = 4, 24  # boxes that the choice is made for
_NUMBERS = 1 << 23  # that are kept for them, if the fewest allow it
_SHARES = tuple(Fraction(part, 8) for part in (1, 2, 3, 4))  # of the groups, that are tried
_SMALLEST = 4  # codes of a group along the longest attribute


class PatchPlan(NamedTuple):
    """Levels from the top, and their shares of the budget."""

    levels: list[Level]
    shares: list[Fraction]


def patch_plan(leaves: Boxes, patches: Boxes, origin: Integers) -> PatchPlan:
    """The best plan for the patches, each a piece of a leaf: to count them alone, or also groups of
    them. It depends on these boxes alone.

    Of one attribute it is a tree, as over the buckets of Dawa. Of several a group is what repeated
    halving of the domain leaves, or a leaf that is larger.
    """
    if len(patches.low) == 1:
        return PatchPlan(*bucket_tree(patches.take(np.argsort(patches.low[0]))))
    return grouped(leaves, patches, origin)[0]


def grouped(leaves: Boxes, patches: Boxes, origin: Integers) -> tuple[PatchPlan, float]:
    """Patches alone or with groups, whichever has the least mean variance of boxes; and that
    variance, in units of what one count has if it gets all of the budget.
    """
    asked = [_taken(patches, *corners) for corners in _asked(patches)]
    alone = float(np.mean([weights @ weights for weights in asked]))
    best = PatchPlan([(patches, np.zeros(len(patches), np.int64))], [Fraction(1)]), alone
    for groups, place in _groupings(leaves):
        if len(groups) == len(patches):
            break
        of = place[origin]
        within, whole = _parts(asked, of, np.bincount(of))
        for share in _SHARES:
            upper, lower = float(share), float(1 - share)
            error = within / lower**2 + float(
                np.sum(whole / (upper**2 + lower**2 / np.bincount(of)))
            )
            if error < best[1]:
                levels = [(groups, np.zeros(len(groups), np.int64)), (patches, of)]
                best = PatchPlan(levels, [share, 1 - share]), error
    return best


def _parts(asked: list[Floats], of: Integers, sizes: Integers) -> tuple[float, Floats]:
    """What a mean box takes of the differences between the patches of a group, and of the total of
    each group: the two are estimated independently of each other by least squares.
    """
    within, whole = 0.0, np.zeros(len(sizes))
    for weights in asked:
        mean = np.bincount(of, weights, len(sizes)) / sizes
        whole += mean**2
        within += float(weights @ weights - (mean**2) @ sizes)
    return within / len(asked), whole / len(asked)


def _groupings(leaves: Boxes) -> Iterator[tuple[Boxes, Integers]]:
    """For every depth of halving the boxes of that depth that have smaller leaves, and the leaves
    that are not smaller; and for each leaf its place among them.
    """
    sizes = [int(high.max()) + 1 for high in leaves.high]
    edges = [np.zeros(1, np.int64) for _ in sizes]
    while True:
        edges = [_halved(starts, size) for starts, size in zip(edges, sizes, strict=True)]
        if all(size < _SMALLEST * len(starts) for starts, size in zip(edges, sizes, strict=True)):
            return
        box = _around(leaves, edges, sizes)
        larger = (box.sizes < leaves.sizes).any(axis=0)
        low = np.where(larger, leaves.low, box.low)
        high = np.where(larger, leaves.high, box.high)
        key = np.ravel_multi_index(tuple(low), sizes)
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        yield Boxes(low[:, first], high[:, first]), place.reshape(-1)


def _halved(starts: Integers, size: int) -> Integers:
    """Where the pieces of an attribute begin, after each was halved as boxes are."""
    last = np.append(starts[1:], size) - 1
    middle = ((starts + last) // 2)[starts < last]
    return np.sort(np.concatenate([starts, middle + 1]))


def _around(leaves: Boxes, edges: list[Integers], sizes: list[int]) -> Boxes:
    """The box between edges that holds the lowest cell of each leaf."""
    low, high = [], []
    for starts, size, codes in zip(edges, sizes, leaves.low, strict=True):
        piece = np.searchsorted(starts, codes, side="right") - 1
        low.append(starts[piece])
        high.append(np.append(starts[1:], size)[piece] - 1)
    return Boxes(np.stack(low), np.stack(high))


def _taken(patches: Boxes, low: Integers, high: Integers) -> Floats:
    """Which share of each patch a box takes."""
    first, last = np.maximum(patches.low, low[:, None]), np.minimum(patches.high, high[:, None])
    taken: Floats = (np.maximum(last - first + 1, 0) / patches.sizes).prod(axis=0)
    return taken


def _asked(patches: Boxes) -> Iterator[tuple[Integers, Integers]]:
    """Boxes with corners that are spread evenly over the domain: multiples of irrational numbers,
    less their whole parts.
    """
    sizes = patches.high.max(axis=1) + 1
    steps = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0]).reshape(4, 2)[: len(sizes)]
    asked = min(max(_NUMBERS // len(patches), _FEWEST), _MOST)
    for number in range(1, asked + 1):
        corners = ((number * steps) % 1.0 * sizes[:, None]).astype(np.int64)
        yield corners.min(axis=1), corners.max(axis=1)
