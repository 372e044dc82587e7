"""Dawa: codes gathered into buckets of nearly equal counts, then a tree over the buckets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, log

import numpy as np

from scumble.model.designs.boxes import Boxes, BoxSums
from scumble.model.designs.regions import Regions, RegionTree
from scumble.model.errors import ParameterError
from scumble.model.privacy.person import Neighbours
from scumble.model.schema.schema import Schema
from scumble.private.meter.private_partition import noisy_partition
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.trees.base import RegionSummary
from scumble.private.summaries.trees.bucket_tree import bucket_tree

MOST_CODES = 1 << 18
_FOR_BUCKETS = Fraction(1, 8)  # of ε


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
        cuts, a part in proportion to its codes, and a note says so.
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
    proof = (
        "partition: Li, Hay, Miklau, Wang, VLDB 2014, for distances from medians; "
        "noise on sums of counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    )
    most_attributes = 1

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
        if len(self.attributes) != 1:
            given = list(self.attributes)
            raise ParameterError.of("Dawa", "attributes", "one attribute name", given)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        if schema.size(self.attributes) > MOST_CODES:
            raise ParameterError(
                f"{self.attributes[0]} has {schema.size(self.attributes)} values; Dawa takes at "
                f"most {MOST_CODES}. Choose coarser bins, or the method privtree."
            )

    def grow(self, table: PrivateTable) -> tuple[RegionTree, Regions]:
        """The measured tree over buckets."""
        counts = table.counts(self.attributes, self.person)
        chosen = self.promise.epsilon * _FOR_BUCKETS
        left = self.promise.epsilon - chosen
        last = noisy_partition(counts, epsilon=chosen, price=self._price(counts.size))
        buckets = Boxes(np.concatenate([[0], last[:-1] + 1])[None], last[None])
        levels, shares = bucket_tree(buckets)
        laws = self.laplace([left * share for share in shares])
        noisy = counts.noisy(laws, BoxSums((counts.size,), tuple(boxes for boxes, _ in levels)))
        return RegionTree.of_levels(levels, noisy), Regions(laws)

    def _price(self, codes: int) -> int:
        """What a bucket costs beside its distances: the noise of a count, and what the luckiest of
        all lengths that might stand in its place has on average, with a little more.
        """
        scale = 2 * self.person.sensitivity / float(self.promise.epsilon * _FOR_BUCKETS)
        noise = self.person.sensitivity / float(self.promise.epsilon * (1 - _FOR_BUCKETS))
        return ceil(scale * (log(codes.bit_length()) + 0.7) + noise)
