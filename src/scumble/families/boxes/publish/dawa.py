"""Dawa: codes are gathered into buckets of nearly equal counts, with a tree over the buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log

import numpy as np
import numpy.typing as npt

from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree, TreeEstimator
from scumble.families.boxes.publish.base import Level, RegionSummary, level_shares
from scumble.model.designs.boxes import Boxes, BoxSums
from scumble.model.errors import ParameterError
from scumble.model.schema.schema import Schema
from scumble.private.meter.splits import noisy_partition
from scumble.private.meter.table import PrivateTable

MOST_CODES = 1 << 18
_FOR_BUCKETS = Fraction(1, 8)  # of ε


@dataclass(kw_only=True, eq=False, repr=False)
class Dawa(RegionSummary):
    """Publishes noisy counts of intervals of one ordered attribute that follow the data: codes with
    nearly equal counts share a bucket, and a tree over the buckets answers ranges.

    It gains most where ε times the number of rows is small against the number of codes.
    `neighbours`, `contribution` and `person` say who is protected, as for a histogram.

    Promises: ε-DP of the whole release. Proof: an eighth of ε is for the partition, chosen by the
        least cost after noise; one row changes the cost of one bucket of every partition by at most
        1, which makes the choice ε/8-DP, as shown where it is drawn. The rest is for the counts of
        the tree, level by level: the boxes of a level are disjoint, so that discrete Laplace noise
        of scale Δ/εᵢ makes level i εᵢ-DP, and its budgets depend on the partition alone.
    Estimate: the least-squares fit of all nodes, each the sum of its children, summed over the
        buckets that a question takes; unbiased, and of known noise, if it takes whole buckets: the
        noise of the counts is independent of that of the partition. Of a bucket that a question
        cuts, a part in proportion to its codes, and the interval reaches from the least to the
        most that it can add, however its rows are spread.
    Reference: Li, Hay, Miklau, Wang, A data- and workload-aware algorithm for range queries under
        differential privacy, VLDB 2014.
    Differs: distances from the median in place of the mean, whose sum one row changes by 1 in place
        of 2 and which are whole numbers; geometric noise on one side, half the variance of
        Laplace's; a price of a bucket that makes up for the luck among many buckets, and an eighth
        of ε in place of a quarter, both chosen on a public benchmark. The tree has the fan-out and
        the budgets with the least mean variance of ranges that begin at the first code. One
        attribute only.
    """

    name = "dawa"
    data_dependent = True
    proof = (
        "partition: Li, Hay, Miklau, Wang, VLDB 2014, for distances from medians; "
        "noise on sums of counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    )
    most_attributes = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.names) != 1:
            raise ParameterError.of("Dawa", "attributes", "one attribute name", list(self.names))

    def check(self, schema: Schema) -> None:
        super().check(schema)
        if schema.size(self.names) > MOST_CODES:
            raise ParameterError(
                f"{self.names[0]} has {schema.size(self.names)} values; Dawa takes at "
                f"most {MOST_CODES}. Choose coarser bins, or the method privtree."
            )

    def grow(self, table: PrivateTable) -> tuple[BoxNodes, BoxTree]:
        """Return the measured tree over buckets."""
        counts = table.counts(self.names, self.unit)
        chosen = self.cell_promise.epsilon * _FOR_BUCKETS
        left = self.cell_promise.epsilon - chosen
        codes = counts.size - table.schema[self.names[0]].missing  # a missing value stands alone
        last = noisy_partition(counts, epsilon=chosen, price=self._price(codes), codes=codes)
        last = np.concatenate([last, np.arange(codes, counts.size)])
        buckets = Boxes(np.concatenate([[0], last[:-1] + 1])[None], last[None])
        levels, shares = bucket_tree(buckets)
        laws = self.laplace([left * share for share in shares])
        sums = BoxSums((counts.size,), tuple(boxes for boxes, _ in levels))
        noisy = counts.noisy(laws, sums)
        return BoxNodes.of_levels(levels, noisy, sums.boxes), BoxTree(laws)

    def _price(self, codes: int) -> int:
        """Return the cost of a bucket beside its distances: the noise of a count, and about the
        mean advantage of the least noisy among all lengths that compete with it.
        """
        scale = 2 * self.unit.sensitivity / float(self.cell_promise.epsilon * _FOR_BUCKETS)
        noise = self.unit.sensitivity / float(self.cell_promise.epsilon * (1 - _FOR_BUCKETS))
        return ceil(scale * (log(codes.bit_length()) + 0.7) + noise)


# A tree over buckets, its fan-out and the budgets of its levels chosen for ranges of codes.

Floats = npt.NDArray[np.float64]

_FANS = (2, 4, 8, 16, 32)
_ASKED = 16  # sample ranges from the first code on, for the choice
_ROUNDS = 2


def bucket_tree(buckets: Boxes) -> tuple[list[Level], list[Fraction]]:
    """Return levels of groups of neighbouring buckets, and the share of the budget of each. Of a
    few fan-outs the one with the least mean variance is taken. It depends on the buckets alone.
    """
    fans = [fan for fan in _FANS if fan < len(buckets)]
    plans = [_plan(_levels(buckets, fan)) for fan in [*fans, max(len(buckets), 2)]]
    _, levels, shares = min(plans, key=lambda plan: plan[0])
    return levels, shares


def _levels(buckets: Boxes, fan: int) -> list[Level]:
    """Return groups of `fan` neighbours, groups of these, and so on. There is no root, unless there
    is a single bucket: no range needs one.
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


def _plan(levels: list[Level]) -> tuple[float, list[Level], list[Fraction]]:
    """Return the mean variance of the sample ranges, the levels, and their shares. With s the
    squared coefficients on a level, the variance is Σ s/ε², so that ε grows as the cube root of s.
    """
    tree = BoxNodes.of_levels(levels, [np.zeros(len(boxes), np.int64) for boxes, _ in levels])
    leaves, _ = levels[-1]
    asked = _sample_ranges(leaves)
    shares = level_shares([1.0] * len(levels), 1.0)
    for _ in range(_ROUNDS):
        taken = _sum_squares(tree, asked, shares)
        shares = level_shares(np.maximum(taken, taken.max() * 1e-9).tolist(), 1 / 3)
    taken = _sum_squares(tree, asked, shares)
    variance = sum(t / float(share) ** 2 for t, share in zip(taken, shares, strict=True))
    return float(variance), levels, shares


def _sample_ranges(leaves: Boxes) -> Floats:
    """Return one row for each sample range: the share of each bucket that it covers."""
    codes = int(leaves.high[0, -1]) + 1
    ends = np.unique(np.arange(1, _ASKED + 1) * codes // (_ASKED + 1))
    taken: Floats = np.clip((ends[:, None] - leaves.low[0]) / leaves.sizes[0], 0.0, 1.0)
    return taken


def _sum_squares(tree: BoxNodes, asked: Floats, shares: Sequence[Fraction]) -> Floats:
    """Return the squared coefficients of the noise of each level, summed over the ranges."""
    inverse = np.array([1 / float(share) ** 2 for share in shares])
    forest = TreeEstimator(tree.parents, inverse[tree.law])
    weights = np.zeros(len(tree.parents))
    total = np.zeros(len(shares))
    for row in asked:
        weights[-len(row) :] = row
        total += np.bincount(tree.law, forest.coefficients(weights) ** 2, len(shares))
    return total
