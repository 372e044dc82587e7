"""Hierarchy: noisy counts of ranges of all sizes, made consistent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from scumble.model.designs.axis import IdentityAxis
from scumble.model.designs.taxonomy import Taxonomy, TaxonomyTree
from scumble.model.designs.tree import Budget, Tree, tree_plan
from scumble.model.errors import ParameterError
from scumble.model.parameters import flag, whole
from scumble.model.privacy.accounting import Neighbours
from scumble.model.schema.schema import Schema
from scumble.private.hooks import SMALL_DELTA, Claim, protection
from scumble.private.summaries.axes import AxisSummary, Planned

LARGEST_FANOUT = 10**6


@dataclass(kw_only=True, eq=False, repr=False)
class Hierarchy(AxisSummary):
    """Publishes noisy counts of blocks of cells of several sizes, so that a range is the sum of a
    few of them. Best for conditions on ranges of ordered attributes with many values.

    Every ordered attribute has a tree over its values: `fanout` is the number of children of its
    nodes, by default the one whose ranges have the least mean error. `root` also measures the count
    of all values. `budget` is "uniform" over the levels of a tree, or "optimal" for ranges.
    `taxonomy` gives the tree of an attribute without order, as nested lists of its values; else the
    hierarchy of the schema is its tree, and without both it is counted value by value. Several
    attributes are measured by the product of their trees: every block of one with every block of
    the other. `neighbours`, `contribution` and `person` are as for Histogram.

    Parameters:
        fanout: children of a node of its trees.
        root: also measure the count of everything.
        budget: by level, uniform or optimal.

    Promises: ε-DP of the whole release, or (ε, δ)-DP with `delta`. Proof: a row is in one node of
        every level, and so in one number of every combination of levels; noise with P(z) ∝
        exp(−|z|/b) on that group costs ε = Δ/b, and Gaussian noise ρ = Δ₂²/2σ², with Δ and Δ₂² as
        for counts of disjoint cells; the groups' losses add up to what is promised.
    Estimate: weighted least squares over all numbers, in two passes along every tree; unbiased, and
        the variance of any answer is exact, whatever the data are.
    Reference: Hay, Rastogi, Miklau, Suciu, VLDB 2010; fan-outs: Qardaji, Yang, Li, VLDB 2013;
        budgets: Cormode, Procopiuc, Srivastava, Yaroslavtsev, ICDE 2013.
    Differs: the root is left out unless asked for: of 4096 values that takes a third off the
        variance of ranges, a tenth off that of ranges from the first value on, and makes the count
        of everything worse. The fan-out is the best one with least squares, while HB's rule is
        about the error without: both are 16 for 4096 values, but 12 and 128 for 128. Several
        attributes have products of trees in place of HB's grids, whose boxes have a larger error.
        Integer noise. Nothing is cut off at zero: that would bias sums of many cells.
    """

    name = "hierarchy"

    fanout: int | None = None
    root: bool = False
    budget: Budget = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget not in ("uniform", "optimal"):
            raise ParameterError.of("Hierarchy", "budget", "'uniform' or 'optimal'", self.budget)
        if self.fanout is not None:
            self.fanout = whole("Hierarchy", "fanout", self.fanout, least=2, most=LARGEST_FANOUT)
        flag("Hierarchy", "root", self.root)

    def planned(self, schema: Schema, name: str) -> Planned:
        if (tree := self.tree(schema, name)) is not None:
            return self._taxonomy(tree)
        size = schema[name].size
        if not schema[name].ordered:
            return Planned(IdentityAxis(size), (Fraction(1),))
        plan = tree_plan(
            size, fanout=self.fanout, root=self.root, gaussian=self.gaussian, budget=self.budget
        )
        return Planned(Tree(size, plan.fanouts, plan.weights), plan.measured)

    def _taxonomy(self, tree: Taxonomy) -> Planned:
        """Return the levels of a taxonomy, with equal shares."""
        levels = len(tree.families) + self.root
        weights = [1.0] * levels + [0.0] * (len(tree.families) + 1 - levels)
        return Planned(TaxonomyTree(tree, tuple(weights)), (Fraction(1, levels),) * levels)

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls(["a", "b"], fanout=2, root=True, **protection(neighbours)), 1)
        gaussian = protection(neighbours, delta=SMALL_DELTA)
        yield Claim(cls(["a", "b"], **gaussian), 1, SMALL_DELTA)
