"""Reader of noisy counts of boxes (Quadtree, KdTree, PrivTree, Grid, Mosaic, Dawa).

Counts are fitted by least squares on the tree of boxes. Inside its leaves rows are taken to be
spread evenly.

A question that cuts leaves has two more readings: with the least weight of every leaf for all its
rows, and with the largest. The truth is between the two, whatever the spread.

- `BoxTreeReader`: the fitted tree; every answer is a weighted sum of its leaves.
- `FittedLeaves`: leaves with their fitted counts, and sums of them with the moments of the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scumble.model.designs.box_tree import (
    NO_LAW,
    BoxNodes,
    BoxTree,
    NodeGroups,
    TreeEstimator,
    TreeNoise,
)
from scumble.model.designs.boxes import Boxes
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws import NoiseLaw
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.box_weights import (
    BoxWeights,
    Overlaps,
    WeighedBoxes,
    overlaps,
)
from scumble.public.estimation.measurements.readings import (
    AverageReadings,
    AverageWeights,
    Grouping,
    Part,
    Reading,
    Readings,
    Weights,
)
from scumble.public.estimation.measurements.tree_questions import LeafQuestions
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]

_NO_NOISE = 1e-20  # of the least variance of a node


class BoxTreeReader:
    """The tree of a release, fitted once; every answer is a weighted sum of its leaves."""

    method = "sum over the leaves of a tree, fitted by least squares"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        if not isinstance(evidence.design, BoxTree):
            raise TypeError("the design of the measurements is not a tree of boxes")
        tree = BoxNodes.read(engine.rows("SELECT * FROM view"), evidence.columns)
        shape = [schema[name].size for name in evidence.columns]
        tree.checked(shape, len(evidence.design.laws))
        self._start(tree, evidence.columns, evidence.design, evidence.rows)

    @classmethod
    def of_tree(
        cls, tree: BoxNodes, names: Sequence[str], design: BoxTree, rows: int | None = None
    ) -> BoxTreeReader:
        """Return a reader of a tree that is in memory, of a table with a known number of `rows`."""
        reader = cls.__new__(cls)
        reader._start(tree, names, design, rows)
        return reader

    def _start(
        self, tree: BoxNodes, names: Sequence[str], design: BoxTree, rows: int | None
    ) -> None:
        fit = FittedTree.of(tree, design, rows)
        fitted = fit.forest.estimates(fit.noisy)

        def leaves(which: npt.NDArray[np.bool_]) -> FittedLeaves:
            nodes = np.flatnonzero(which)
            own = nodes - fit.offset if fit.offset else nodes
            boxes = WeighedBoxes(tree.boxes.take(own), names)
            return FittedLeaves(fit, nodes, fitted.take(nodes), boxes, rows)

        self._leaves = self._unpruned = leaves(fit.forest.leaves)
        if design.prune is not None:
            own = np.arange(len(fit.noisy)) >= fit.offset  # nodes that have a box
            self._leaves = leaves(_pruned(fit.forest, (fitted < design.prune) & own))

    @property
    def leaves(self) -> Boxes:
        """The boxes inside which rows are taken to be spread evenly, in a fixed order."""
        return self._leaves.boxes.boxes

    @property
    def counts(self) -> Floats:
        """The estimated number of rows in each leaf."""
        return self._leaves.counts

    def read(self, weights: Weights) -> Reading:
        return self.read_many([weights])[0]

    def read_many(self, several: Sequence[Weights]) -> list[Reading]:
        """Return the reading of each question."""
        products = [weights for weights in several if weights.separate]
        found = iter(self._read_products(products))
        return [next(found) if weights.separate else self._read(weights) for weights in several]

    def _read_products(self, several: Sequence[Weights]) -> list[Reading]:
        """Return the readings of questions whose parts have at most one attribute each."""
        pruned = self._unpruned is not self._leaves
        certain = self._unpruned.questions if pruned else None
        return self._leaves.questions.read(several, certain=certain)

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
        leaves = self._leaves
        one, other = leaves.boxes.weigh(first), leaves.boxes.weigh(second)
        shares = leaves.coefficients(one.means) * leaves.fit.variances
        covariance = _dot(shares, leaves.coefficients(other.means))
        return self.read(first), self.read(second), covariance

    def by_group(self, weights: Weights, grouping: Grouping) -> Readings:
        some = overlaps(self._leaves.boxes, grouping)
        found = Readings.joined([self._leaves.readings(each, weights) for each in some])
        return self._with_limits(found, weights, grouping)

    def averages(self, average: AverageWeights, grouping: Grouping) -> AverageReadings:
        some = overlaps(self._leaves.boxes, grouping)
        found = AverageReadings.joined([self._leaves.averages(each, average) for each in some])
        totals = self._with_limits(found.totals, average.weighted, grouping)
        counts = self._with_limits(found.counts, average.condition, grouping)
        return replace(found, totals=totals, counts=counts)

    def spread(self, weights: Weights) -> float:
        """Return the variance of the answer around an even spread, by a model of typical tables.

        Let n be the rows of a leaf and s the standard deviation of the weights of its cells. The
        model is ⅓ [Σ over faces (Σ over the leaves that it cuts n·s)² + Σ var(n)·s²]: leaves that
        one face of the range cuts err together, different faces apart. Rows of a leaf are not
        independent, so this is a model and no bound.
        """
        leaves = self._leaves
        means = leaves.boxes.weigh(weights).means
        squared = Weights(tuple(Part(part.names, part.values**2) for part in weights.parts))
        deviations = np.sqrt(np.maximum(leaves.boxes.weigh(squared).means - means**2, 0.0))
        terms = np.maximum(leaves.counts, 0.0) * deviations
        together = sum(float(terms[face].sum()) ** 2 for face in leaves.boxes.faces(weights))
        return (together + _dot(leaves.fit.variances[leaves.nodes], deviations**2)) / 3

    def _with_limits(self, found: Readings, weights: Weights, grouping: Grouping) -> Readings:
        """Return readings of groups with the limits of the leaves before pruning."""
        certain = self._unpruned
        if certain is self._leaves:
            return found
        some = overlaps(certain.boxes, grouping)
        limits = Readings.joined([certain.readings(each, weights) for each in some])
        return replace(found, low=limits.low or limits, high=limits.high or limits)

    def _read(self, weights: Weights) -> Reading:
        """Return the reading of any weights, with limits where leaves are cut.

        Pruning chose the leaves by the noise that they are read with, so that limits are read off
        the leaves before it. Where none is cut, both read the same: the fit is consistent.
        """
        found, certain = self._leaves.boxes.weigh(weights), self._unpruned
        reading = self._leaves.reading(found.means)
        if not found.cut.any():
            return reading
        if certain is not self._leaves:
            found = certain.boxes.weigh(weights)
        low = high = certain.reading(found.least)
        if found.most is not found.least:
            high = certain.reading(found.most)
        return replace(reading, low=low, high=high)


def _dot(one: Floats, other: Floats) -> float:
    """Return Σ one · other. The product of the library would start threads for short arrays."""
    return float((one * other).sum())


def _pruned(forest: TreeEstimator, small: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the leaves after pruning: the topmost `small` nodes replace their descendants."""
    found: npt.NDArray[np.bool_] = (small | forest.leaves) & ~forest.under(small)
    return found


@dataclass(frozen=True, eq=False)
class FittedTree:
    """The noisy counts of a tree, its least squares estimator, and the noise of every node:
    its variance, and the index of its law in `laws`.

    If the number of rows is known, all trees have a common root that was measured without noise; it
    comes first, and has no box. `offset` is 1 with such a root, else 0.
    """

    forest: TreeEstimator
    noisy: npt.NDArray[np.int64]
    variances: Floats
    law: npt.NDArray[np.int64]
    laws: Sequence[NoiseLaw]
    offset: int

    @classmethod
    def of(cls, tree: BoxNodes, design: BoxTree, rows: int | None) -> FittedTree:
        """Return the fit of a tree, of a table with a known number of `rows` if it is given."""
        forest = tree.estimator(design.laws)
        unmeasured = np.isinf(forest.variances)
        variances = (
            np.where(unmeasured, 0.0, forest.variances) if unmeasured.any() else forest.variances
        )
        if rows is None:
            return cls(forest, tree.noisy, variances, tree.law, design.laws, 0)
        # The estimator needs a variance above 0; this one is lost in rounding.
        least = float(forest.variances.min()) * _NO_NOISE
        rooted = TreeEstimator(
            np.concatenate([[-1], forest.parents + 1]), np.concatenate([[least], forest.variances])
        )
        noisy = np.concatenate([[rows], tree.noisy])
        law = np.concatenate([[NO_LAW], tree.law])
        return cls(rooted, noisy, np.append(0.0, variances), law, design.laws, 1)

    @cached_property
    def fourths(self) -> Floats:
        """The fourth cumulants of the noise of nodes; 0 for a node without."""
        known = np.array([*(law.fourth for law in self.laws), 0.0])
        return known.take(self.law, mode="wrap")

    @cached_property
    def noise(self) -> TreeNoise:
        """The moments of errors of weighted sums."""
        return TreeNoise(self.forest, self.variances, self.fourths)


@dataclass(frozen=True, eq=False)
class FittedLeaves:
    """The leaves of a fitted tree, inside which rows are taken to be spread evenly.

    `nodes` are the leaves among the nodes of `fit`, and `counts` their fitted counts. `rows` is the
    number of all rows, if it is known.
    """

    fit: FittedTree
    nodes: npt.NDArray[np.intp]
    counts: Floats
    boxes: WeighedBoxes
    rows: int | None = None

    @cached_property
    def questions(self) -> LeafQuestions:
        """The same leaves for questions whose parts have at most one attribute each."""
        boxes = self.boxes
        return LeafQuestions(
            self.fit.noise, self.nodes, self.counts, boxes.boxes, boxes.names, self.rows
        )

    def coefficients(self, weights: Floats) -> Floats:
        """Return what the noise of each node adds to the sum of the leaves with these weights."""
        by_node = np.zeros(len(self.fit.noisy))
        by_node[self.nodes] = weights
        return self.fit.forest.coefficients(by_node)

    def reading(self, weights: Floats) -> Reading:
        """Return the sum of the leaves with these weights."""
        if self.rows is not None and (weights == weights[0]).all():
            return Reading(float(weights[0]) * self.rows, 0.0)
        coefficients = self.coefficients(weights)
        coefficients[: self.fit.offset] = 0.0  # the known number of rows has no noise
        squares = coefficients**2
        return Reading(
            _dot(weights, self.counts),
            _dot(squares, self.fit.variances),
            _dot(squares**2, self.fit.fourths),
            float(np.abs(coefficients).max(initial=0.0)),
        )

    def readings(self, some: Overlaps, weights: Weights) -> Readings:
        """Return the readings of the groups of some overlaps."""
        return self._readings(some, some.weigh(weights))

    def averages(self, some: Overlaps, average: AverageWeights) -> AverageReadings:
        weighted, condition = some.weigh(average.weighted), some.weigh(average.condition)
        totals, counts = self._readings(some, weighted), self._readings(some, condition)
        covariances = self._moments(some, weighted.means, condition.means)[0]
        ratios = totals.ratios(counts)[some.groups - some.first]
        centred = weighted.means - ratios * condition.means
        return AverageReadings(totals, counts, covariances, self._sums(some, centred))

    def _readings(self, some: Overlaps, found: BoxWeights) -> Readings:
        readings = self._sums(some, found.means)
        if not found.cut.any():
            return readings
        low, high = (self._sums(some, weights) for weights in found.ends)
        return replace(readings, low=low, high=high)

    def _sums(self, some: Overlaps, weights: Floats) -> Readings:
        values = some.sums(weights * self.counts[some.leaves])
        moments = np.maximum(self._moments(some, weights, weights), 0.0)
        if self.rows is not None:  # the weights of all leaves are equal: only rounding is left
            largest = np.zeros(len(values))
            np.maximum.at(largest, some.groups - some.first, np.abs(weights))
            moments[:, moments[0] <= _NO_NOISE * largest**2 * self._least] = 0.0
        return Readings(np.concatenate([values[None], moments]))

    @cached_property
    def _least(self) -> float:
        """The least variance of a noisy node."""
        return float(self.fit.variances[self.fit.variances > 0].min())

    def _moments(self, some: Overlaps, first: Floats, second: Floats) -> Floats:
        used = np.flatnonzero((first != 0) | (second != 0))
        groups = some.groups[used]
        starts = np.searchsorted(groups, np.arange(some.first, some.last + 1))
        lists = NodeGroups(starts, self.nodes[some.leaves[used]])
        weights = first[used]
        same = second is first
        return self.fit.noise.group_moments(lists, weights, weights if same else second[used])
