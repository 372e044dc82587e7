"""Criteria that a group of rows with equal labels must satisfy: k, l, t and α.

Each is a function of the counts of the sensitive values in the groups, one line a group. `t` and
`recursive` compare floats with a slack far below what one row changes, so that a group that
satisfies a criterion exactly is not refused by rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from scumble.model.schema.hierarchies import Levels

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

Diversity = Literal["distinct", "entropy", "recursive"]
Distance = Literal["equal", "ordered", "hierarchical"]
DIVERSITIES: tuple[Diversity, ...] = ("distinct", "entropy", "recursive")
DISTANCES: tuple[Distance, ...] = ("equal", "ordered", "hierarchical")
_SLACK = 1e-12


@dataclass(frozen=True)
class Criteria:
    """What every published group must satisfy; None where nothing is asked.

    `l` is read by `diversity`; recursive (c, l)-diversity takes `c`. `t` bounds the distance
    `distance` to all published rows. `alpha` bounds the share of one value in a group. `missing`
    says that the last sensitive value is the missing one: it is as far as possible from all others.
    """

    k: int
    l: int | None = None  # noqa: E741  (its name)
    diversity: Diversity = "distinct"
    c: Fraction | None = None
    t: Fraction | None = None
    distance: Distance = "equal"
    alpha: Fraction | None = None
    levels: Levels | None = None  # of the sensitive attribute, for hierarchical distance
    missing: bool = False

    @property
    def about_values(self) -> bool:
        """Whether sensitive values matter at all."""
        return not (self.l is None and self.t is None and self.alpha is None)

    @property
    def monotone(self) -> bool:
        """Whether a group that satisfies it still does after it is joined with any other rows.

        This holds for k and for distinct values. Then fewer rows are left out at higher levels.
        """
        plain = self.l is None or self.diversity == "distinct"
        return plain and self.t is None and self.alpha is None

    def check_groups(self, sizes: Counts, values: Counts | None, reference: Counts | None) -> Flags:
        """Return for each group whether it satisfies everything.

        `values[g, v]` is how often group g has value v, and `reference[v]` all published rows.
        """
        passes: Flags = sizes >= self.k
        if values is None or not self.about_values:
            return passes
        if self.l is not None:
            passes &= self._check_diversity(values)
        if self.alpha is not None:
            passes &= values.max(axis=1) <= float(self.alpha) * sizes * (1 + _SLACK)
        if self.t is not None and reference is not None:
            passes &= self.distances(values, reference) <= float(self.t) + _SLACK
        return passes

    def _check_diversity(self, values: Counts) -> Flags:
        least = self.l or 1
        if self.diversity == "distinct":
            diverse = (values > 0).sum(axis=1) >= least
        elif self.diversity == "entropy":
            diverse = entropies(values) >= math.log(least) * (1 - _SLACK)
        else:
            ordered = -np.sort(-values, axis=1)
            tail = ordered[:, least - 1 :].sum(axis=1)
            diverse = ordered[:, 0] < float(self.c or 1) * tail * (1 - _SLACK)
        return np.asarray(diverse, bool)

    def distances(self, values: Counts, reference: Counts) -> Floats:
        """Return the distance of the values of each group from those of the reference."""
        shares = values / np.maximum(values.sum(axis=1, keepdims=True), 1)
        gap = shares - reference / max(int(reference.sum()), 1)
        if self.distance == "ordered":
            return ordered_distance(gap, missing=self.missing)
        if self.distance == "hierarchical" and self.levels is not None:
            return hierarchical_distance(gap, self.levels)
        return np.asarray(np.maximum(gap, 0).sum(axis=1))


def entropies(values: Counts) -> Floats:
    """Return the entropy of the values of each group, in nats."""
    shares = values / np.maximum(values.sum(axis=1, keepdims=True), 1)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    entropy: Floats = -(shares * logs).sum(axis=1)
    return entropy


def ordered_distance(gap: Floats, *, missing: bool = False) -> Floats:
    """Return the earth mover's distance where |i - j| / (m - 1) is that of the values i and j.

    A missing value, the last one, has distance 1 from every other: what it has too much or too
    little is moved at cost 1, and the best place for that is found exactly. Moving a share s from
    the missing value to a place costs s, wherever that is, so the rest may be levelled at will:
    the cumulative gaps are shifted by a step of s at the place that makes their sum least.
    """
    if not missing:
        size = gap.shape[1]
        return np.asarray(np.abs(np.cumsum(gap, axis=1)).sum(axis=1) / max(size - 1, 1))
    known, extra = gap[:, :-1], gap[:, -1]
    return _move_outside(known, extra)


def _move_outside(known: Floats, extra: Floats) -> Floats:
    """Return the distance where a mass `extra` comes from (or goes) outside at cost |extra|.

    The mass may arrive at several places. With F the cumulative gaps of the ordered values and H
    the cumulative arrivals, which grow from 0 to `extra`, the cost is |extra| + Σ |F + H| / (m - 1)
    over the first m - 1 places. The best H is the monotone curve nearest to -F: by symmetry take
    extra >= 0; the least sum of distances to a monotone curve within [0, extra] is an isotonic
    median regression, which is solved per group.
    """
    places = max(known.shape[1] - 1, 1)
    cost = np.abs(extra)
    for at in range(len(known)):
        sign = 1.0 if extra[at] >= 0 else -1.0
        target = -sign * np.cumsum(known[at])[:-1]
        cost[at] += _compute_isotonic_cost(target, sign * float(extra[at])) / places
    return cost


def _compute_isotonic_cost(target: Floats, most: float) -> float:
    """Return the least Σ |H - target| over growing H from 0 to `most`.

    The slope trick: a heap of the points where the cost of the last value bends.
    """
    import heapq

    heap: list[float] = []
    cost = 0.0
    for value in target.tolist():
        inside = min(max(value, 0.0), most)
        cost += abs(value - inside)
        heapq.heappush(heap, -inside)
        top = -heap[0]
        if top > inside:
            cost += top - inside
            heapq.heapreplace(heap, -inside)
    return cost


def hierarchical_distance(gap: Floats, levels: Levels) -> Floats:
    """Return the earth mover's distance where two values are as far apart as the level of their
    lowest common group, over the height.

    At every level what the groups have too much and too little within a common group of the next
    level is moved there: Σ over levels of (height of the level) × min(excess, lack), which is the
    sum over levels of half the absolute gaps of its groups, over the height.
    """
    height = max(levels.height, 1)
    total = np.zeros(len(gap))
    for level in range(levels.height):
        sums = np.zeros((len(gap), len(levels.labels[level])))
        np.add.at(sums.T, levels.groups[level], gap.T)
        total += np.abs(sums).sum(axis=1) / 2
    return total / height
