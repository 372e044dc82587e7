"""Reader of noisy counts of boxes (Quadtree, KdTree, PrivTree, Grid, Mosaic, Dawa).

Counts are fitted by least squares on the tree of boxes. Inside its leaves rows are taken to be
spread evenly.

A question that cuts leaves has two more readings: with the least weight of every leaf for all its
rows, and with the largest. The truth is between the two, whatever the spread.

- `BoxTreeReader`: the fitted tree; every answer is a weighted sum of its leaves.
- `FittedLeaves`: leaves with their fitted counts, and sums of them with the moments of the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.families.boxes.design import tree_kernels
from scumble.families.boxes.design.box_tree import (
    NO_LAW,
    BoxNodes,
    BoxTree,
    NodeGroups,
    TreeEstimator,
    TreeNoise,
)
from scumble.model.designs.boxes import Boxes, summed_area
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws import NoiseLaw
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.readings import (
    AverageReadings,
    AverageWeights,
    GroupedAxes,
    LinearReading,
    Readings,
    Tensor,
    Weights,
    WeightTensor,
)
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]

_NO_NOISE = 1e-20  # of the least variance of a node


class BoxTreeReader:
    """The tree of a release, fitted once; every answer is a weighted sum of its leaves."""

    method = "sum over the leaves of a tree, fitted by least squares"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        design = cast(BoxTree, evidence.design)
        tree = BoxNodes.read(engine.rows("SELECT * FROM view"), evidence.columns)
        shape = [schema[name].size for name in evidence.columns]
        tree.check(shape, len(design.laws))
        self._start(tree, evidence.columns, design, evidence.rows)

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
            self._leaves = leaves(_prune(fit.forest, (fitted < design.prune) & own))

    @property
    def leaves(self) -> Boxes:
        """The boxes inside which rows are taken to be spread evenly, in a fixed order."""
        return self._leaves.boxes.boxes

    @property
    def counts(self) -> Floats:
        """The estimated number of rows in each leaf."""
        return self._leaves.counts

    def read(self, weights: Weights) -> LinearReading:
        return self.read_many([weights])[0]

    def read_many(self, several: Sequence[Weights]) -> list[LinearReading]:
        """Return the reading of each question."""
        products = [weights for weights in several if weights.separate]
        readings = iter(self._read_products(products))
        return [next(readings) if weights.separate else self._read(weights) for weights in several]

    def _read_products(self, several: Sequence[Weights]) -> list[LinearReading]:
        """Return the readings of questions whose parts have at most one attribute each."""
        pruned = self._unpruned is not self._leaves
        certain = self._unpruned.questions if pruned else None
        return self._leaves.questions.read(several, certain=certain)

    def pair(self, first: Weights, second: Weights) -> tuple[LinearReading, LinearReading, float]:
        leaves = self._leaves
        one, other = leaves.boxes.weigh(first), leaves.boxes.weigh(second)
        shares = leaves.coefficients(one.means) * leaves.fit.variances
        covariance = _dot(shares, leaves.coefficients(other.means))
        return self.read(first), self.read(second), covariance

    def by_group(self, weights: Weights, grouping: GroupedAxes) -> Readings:
        some = overlaps(self._leaves.boxes, grouping)
        readings = Readings.joined(
            [self._leaves.readings(leaf_boxes, weights) for leaf_boxes in some]
        )
        return self._with_limits(readings, weights, grouping)

    def averages(self, average: AverageWeights, grouping: GroupedAxes) -> AverageReadings:
        some = overlaps(self._leaves.boxes, grouping)
        averages = AverageReadings.joined(
            [self._leaves.averages(leaf_boxes, average) for leaf_boxes in some]
        )
        totals = self._with_limits(averages.totals, average.weighted, grouping)
        counts = self._with_limits(averages.counts, average.condition, grouping)
        return replace(averages, totals=totals, counts=counts)

    def spread(self, weights: Weights) -> float:
        """Return the variance of the answer around an even spread, by a model of typical tables.

        Let n be the rows of a leaf and s the standard deviation of the weights of its cells. The
        model is ⅓ [Σ over faces (Σ over the leaves that it cuts n·s)² + Σ var(n)·s²]: leaves that
        one face of the range cuts err together, different faces apart. Rows of a leaf are not
        independent, so this is a model and no bound.
        """
        leaves = self._leaves
        means = leaves.boxes.weigh(weights).means
        squared = Weights(tuple(WeightTensor(part.names, part.values**2) for part in weights.parts))
        deviations = np.sqrt(np.maximum(leaves.boxes.weigh(squared).means - means**2, 0.0))
        terms = np.maximum(leaves.counts, 0.0) * deviations
        together = sum(float(terms[face].sum()) ** 2 for face in leaves.boxes.faces(weights))
        return (together + _dot(leaves.fit.variances[leaves.nodes], deviations**2)) / 3

    def _with_limits(self, readings: Readings, weights: Weights, grouping: GroupedAxes) -> Readings:
        """Return readings of groups with the limits of the leaves before pruning."""
        certain = self._unpruned
        if certain is self._leaves:
            return readings
        some = overlaps(certain.boxes, grouping)
        limits = Readings.joined([certain.readings(leaf_boxes, weights) for leaf_boxes in some])
        return replace(readings, low=limits.low or limits, high=limits.high or limits)

    def _read(self, weights: Weights) -> LinearReading:
        """Return the reading of any weights, with limits where leaves are cut.

        Pruning chose the leaves by the noise that they are read with, so that limits are read off
        the leaves before it. Where none is cut, both read the same: the fit is consistent.
        """
        box_weights, certain = self._leaves.boxes.weigh(weights), self._unpruned
        reading = self._leaves.reading(box_weights.means)
        if not box_weights.cut.any():
            return reading
        if certain is not self._leaves:
            box_weights = certain.boxes.weigh(weights)
        low = high = certain.reading(box_weights.least)
        if box_weights.most is not box_weights.least:
            high = certain.reading(box_weights.most)
        return replace(reading, low=low, high=high)


def _dot(one: Floats, other: Floats) -> float:
    """Return Σ one · other. The product of the library would start threads for short arrays."""
    return float((one * other).sum())


def _prune(forest: TreeEstimator, small: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the leaves after pruning: the topmost `small` nodes replace their descendants."""
    leaves: npt.NDArray[np.bool_] = (small | forest.leaves) & ~forest.under(small)
    return leaves


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

    def reading(self, weights: Floats) -> LinearReading:
        """Return the sum of the leaves with these weights."""
        if self.rows is not None and (weights == weights[0]).all():
            return LinearReading(float(weights[0]) * self.rows, 0.0)
        coefficients = self.coefficients(weights)
        coefficients[: self.fit.offset] = 0.0  # the known number of rows has no noise
        squares = coefficients**2
        return LinearReading(
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

    def _readings(self, some: Overlaps, weights: BoxWeights) -> Readings:
        readings = self._sums(some, weights.means)
        if not weights.cut.any():
            return readings
        low, high = (self._sums(some, end) for end in weights.ends)
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


# --- box weights ----------------------------------------------------------------------------------
#
# Weights of a question over boxes: their mean, least and largest value in every box.
#
# A box tells how many rows it has, but not where in the box they are. Spread evenly, each row adds
# the mean weight of the box; in truth it adds at least the least and at most the largest one.
#
# - `BoxWeights`: the three of every box.
# - `WeighedBoxes`: boxes over some attributes, ready to be weighed.
# - `Overlaps`: the same for all groups of a GROUP BY.

Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class BoxWeights:
    """The weights of the cells of each box: their mean, the least and the largest.

    `uneven` says whether the weights differ within a box, and `used` whether some are not 0.
    """

    means: Floats
    least: Floats
    most: Floats
    uneven: Truths
    used: Truths

    @classmethod
    def ones(cls, boxes: int) -> BoxWeights:
        """Return the weights if every cell has weight 1."""
        ones = np.ones(boxes)
        return cls(ones, ones, ones, np.zeros(boxes, bool), np.ones(boxes, bool))

    @property
    def cut(self) -> Truths:
        """The boxes that the question cuts: they are used in part, or unevenly."""
        return self.uneven & self.used

    def times(self, other: BoxWeights) -> BoxWeights:
        """Return the weights that are products of weights of different attributes.

        Boxes are products of intervals, so the mean of a product is the product of the means, and
        its extremes are products of extremes.
        """
        least = most = means = self.means * other.means
        if not (self.equal and other.equal):
            ends = [one * two for one in self.ends for two in other.ends]
            least, most = np.min(ends, axis=0), np.max(ends, axis=0)
        return BoxWeights(means, least, most, self.uneven | other.uneven, self.used & other.used)

    @property
    def equal(self) -> bool:
        """Whether the three are one array, as where no box is uneven."""
        return self.least is self.means and self.most is self.means

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest weight of each box."""
        return self.least, self.most

    def at(self, places: Places) -> BoxWeights:
        """Return the weights of some boxes."""
        if self.equal:
            least = most = means = self.means[places]
        else:
            means, least, most = self.means[places], self.least[places], self.most[places]
        return BoxWeights(means, least, most, self.uneven[places], self.used[places])


class WeighedBoxes:
    """Boxes over the attributes `names`, ready to be weighed.

    Many boxes have the same interval of an attribute, so that its part is summed once for all.
    """

    def __init__(self, boxes: Boxes, names: Sequence[str]) -> None:
        self.boxes = boxes
        self.names = tuple(names)
        self._known: dict[tuple[str, ...], tuple[Boxes, Places]] = {}

    def weigh(self, weights: Weights) -> BoxWeights:
        """Return the weights of a question over every box."""
        product = BoxWeights.ones(len(self.boxes))
        for part in weights.parts:
            product = product.times(self.part(part))
        return product

    def part(self, part: WeightTensor) -> BoxWeights:
        """Return the weights of one part."""
        inside, which = self._different(part.names)
        return tensor_weights(part.values, inside).at(which)

    def faces(self, weights: Weights) -> Iterator[Truths]:
        """Yield the boxes that each face of the range of a question cuts.

        A part about one attribute that is a single run of codes has a face at each end of the run;
        any other part counts as one face.
        """
        for part in weights.parts:
            cut = self.part(part).uneven
            run = np.flatnonzero(part.values) if len(part.names) == 1 else np.array([])
            if len(run) and run[-1] - run[0] + 1 == len(run):
                boxes = self.along(part.names)
                yield cut & (boxes.low[0] < run[0])
                yield cut & (boxes.high[0] > run[-1])
            elif part.names:
                yield cut

    def _different(self, names: tuple[str, ...]) -> tuple[Boxes, Places]:
        """Return the boxes over some attributes, and the index of each box among them.

        For a single attribute, each interval is listed once.
        """
        if names not in self._known:
            inside = self.along(names)
            first = which = np.arange(len(self.boxes))
            if len(names) == 1:
                packed = inside.low[0] * (int(inside.high.max()) + 1) + inside.high[0]
                _, first, which = np.unique(packed, return_index=True, return_inverse=True)
            self._known[names] = (inside.take(first), which)
        return self._known[names]

    def along(self, names: Sequence[str]) -> Boxes:
        """Return the boxes projected on some attributes."""
        axes = [self.names.index(name) for name in names]
        return Boxes(self.boxes.low[axes], self.boxes.high[axes])


def tensor_weights(
    values: Tensor, boxes: Boxes, before: tuple[npt.NDArray[np.int64], ...] = ()
) -> BoxWeights:
    """Return the weights that the entries of a tensor are in each box.

    `before` are codes of leading axes of `values`, one for each box.
    """
    used = _counts(boxes, values != 0, before) > 0
    # Prefix sums of fractions are rounded; a box without any weight must have the mean 0.
    sums = np.where(used, boxes.sums(summed_area(values, len(before)), before), 0.0)
    means, uneven = sums / boxes.cells, _changes(boxes, values, before)
    least = most = means
    if uneven.any():
        least, most = means.copy(), means.copy()
        cut = np.flatnonzero(uneven)
        within = tuple(codes[cut] for codes in before)
        least[cut], most[cut] = _extremes(boxes.take(cut), values, within)
    return BoxWeights(means, least, most, uneven, used)


def _extremes(
    boxes: Boxes, values: Tensor, before: tuple[npt.NDArray[np.int64], ...]
) -> tuple[Floats, Floats]:
    """Return the least and the largest entry of each box."""
    if len(boxes.low) == 1:
        start = np.ravel_multi_index((*before, boxes.low[0]), values.shape)
        # Pairs of a first index and the index after the last one; what is between pairs is unused.
        ends = np.stack([start, start + boxes.sizes[0]], axis=1).reshape(-1)
        padded = np.append(values.reshape(-1), values.reshape(-1)[-1:])
        return (
            np.minimum.reduceat(padded, ends)[::2],
            np.maximum.reduceat(padded, ends)[::2],
        )
    inner = []
    for box in range(len(boxes)):
        table = values[tuple(int(codes[box]) for codes in before)]
        inner.append(table[_slices(boxes, box)])
    least = np.array([entries.min() for entries in inner])
    largest = np.array([entries.max() for entries in inner])
    return least, largest


def _slices(boxes: Boxes, box: int) -> tuple[slice, ...]:
    """Return the entries of one box along each attribute."""
    ends = zip(boxes.low[:, box].tolist(), boxes.high[:, box].tolist(), strict=True)
    return tuple(slice(low, high + 1) for low, high in ends)


def _changes(boxes: Boxes, values: Tensor, before: tuple[npt.NDArray[np.int64], ...]) -> Truths:
    """Return whether the weights change from one code to the next anywhere in a box."""
    changed = np.zeros(len(boxes), bool)
    for axis in range(len(boxes.low)):
        steps = np.diff(values, axis=len(before) + axis, prepend=np.nan) != 0
        inner = boxes.low.copy()
        inner[axis] += 1  # a step onto the first code of a box is not inside it
        changed |= _counts(Boxes(inner, boxes.high), steps, before) > 0
    return changed


def _counts(
    boxes: Boxes, truths: Truths, before: tuple[npt.NDArray[np.int64], ...]
) -> npt.NDArray[np.int64]:
    summed = summed_area(truths.astype(np.int64), len(before))
    counts: npt.NDArray[np.int64] = boxes.sums(summed, before)
    return counts


# Leaves and groups of a GROUP BY that have cells in common.

MOST_OVERLAPS = 1 << 21  # pairs of a leaf and a group at a time


@dataclass(frozen=True, eq=False)
class Overlaps:
    """Pairs of a leaf and a group with common cells, sorted by group.

    They are all pairs of the groups from `first` to before `last`. `codes` are those of the groups
    of the pairs, by attribute.
    """

    weighed: WeighedBoxes
    first: int
    last: int
    leaves: Integers
    groups: Integers
    codes: dict[str, Integers]

    def sums(self, numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the sums of `numbers`, one for each pair, by group."""
        groups = self.groups - self.first
        return np.bincount(groups, numbers, self.last - self.first).astype(np.float64)

    def weigh(self, weights: Weights) -> BoxWeights:
        """Return the weights over each leaf, with weight 0 for all cells of other groups."""
        product = BoxWeights.ones(len(self.leaves))
        for part in weights.parts:
            product = product.times(self._part(part))
        # A leaf with several codes of a grouped attribute has cells of other groups.
        inside = self.weighed.along(list(self.codes)).take(self.leaves)
        own = [axis for axis, name in enumerate(self.codes) if name not in weights.names]
        several = np.asarray((inside.high > inside.low).any(axis=0))
        if not several.any():
            return product
        shares = 1 / inside.sizes[own].prod(axis=0)
        ones = np.ones(len(shares))
        return product.times(BoxWeights(shares, ones - several, ones, several, ones > 0))

    def _part(self, part: WeightTensor) -> BoxWeights:
        """Return the weights of one part over the cells of each leaf that lie in the group."""
        grouped = [name for name in part.names if name in self.codes]
        if not grouped:
            return self.weighed.part(part).at(self.leaves)
        others = [name for name in part.names if name not in self.codes]
        order = [part.names.index(name) for name in (*grouped, *others)]
        before = tuple(self.codes[name] for name in grouped)
        inside = self.weighed.along(others).take(self.leaves)
        tensor = tensor_weights(part.values.transpose(order), inside, before)
        of_all = self.weighed.along(grouped).take(self.leaves).cells
        means = tensor.means / of_all
        return BoxWeights(means, tensor.least, tensor.most, tensor.uneven, tensor.used)


def overlaps(weighed: WeighedBoxes, grouping: GroupedAxes) -> Iterator[Overlaps]:
    """Yield all overlaps, in portions that fit in memory: those of a run of codes of the first
    grouped attribute.
    """
    boxes = weighed.along(grouping.names)
    after = len(grouping) // grouping.shape[0]  # groups of one such code
    for begin, end in _runs(boxes, grouping.shape[0]):
        near = np.flatnonzero((boxes.low[0] < end) & (boxes.high[0] >= begin))
        inside = boxes.take(near)
        np.clip(inside.low[0], begin, None, out=inside.low[0])
        np.clip(inside.high[0], None, end - 1, out=inside.high[0])
        places, codes = _cells(inside)
        groups = np.ravel_multi_index(tuple(codes), grouping.shape)
        order = np.argsort(groups, kind="stable")
        by_name = dict(zip(grouping.names, codes[:, order], strict=True))
        yield Overlaps(
            weighed, begin * after, end * after, near[places[order]], groups[order], by_name
        )


def _runs(boxes: Boxes, codes: int) -> Iterator[tuple[int, int]]:
    """Split the codes of the first attribute into runs without too many overlaps.

    Yield the first code of each run, and the one after its last.
    """
    others = boxes.sizes[1:].prod(axis=0)
    changes = np.bincount(boxes.low[0], others, codes + 1)
    changes -= np.bincount(boxes.high[0] + 1, others, codes + 1)
    begin, total = 0, 0.0
    for code, many in enumerate(np.cumsum(changes)[:codes].tolist()):
        if total + many > MOST_OVERLAPS and code > begin:
            yield begin, code
            begin, total = code, 0.0
        total += many
    yield begin, codes


def _cells(boxes: Boxes) -> tuple[Integers, Integers]:
    """Return the box of every cell of every box, and the codes of the cells."""
    if np.array_equal(boxes.low, boxes.high):
        return np.arange(len(boxes)), boxes.low
    cells = boxes.cells
    which = np.repeat(np.arange(len(boxes)), cells)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(cells) - cells, cells)
    codes = np.empty((len(boxes.low), len(which)), np.int64)
    for axis in reversed(range(len(codes))):
        offset, within = np.divmod(offset, boxes.sizes[axis][which])
        codes[axis] = boxes.low[axis][which] + within
    return which, codes


# --- tree questions -------------------------------------------------------------------------------
#
# Many questions to the leaves of a fitted tree, read from its top.
#
# The weights of a question are a product of one factor for each attribute. Where they are equal in
# all of a node's box, the node is read instead of its leaves, so that a question visits the nodes
# along its border only. Where a node has many children, nodes that were not measured are put
# between: they change no estimate.

Arrays = tuple[npt.NDArray[Any], ...]

_MOST_NUMBERS = 1 << 22  # weights of questions that are read together
_MOST_CHILDREN = 8


@dataclass(frozen=True, eq=False)
class LeafQuestions:
    """The nodes `leaves` of a tree, with their `counts` and `boxes` over the attributes `names`.

    `rows` is the number of all rows, if it is known.
    """

    noise: TreeNoise
    leaves: npt.NDArray[np.intp]
    counts: Floats
    boxes: Boxes
    names: tuple[str, ...]
    rows: int | None

    def read(
        self,
        several: Sequence[Weights],
        *,
        limits: bool = True,
        certain: LeafQuestions | None = None,
    ) -> list[LinearReading]:
        """Return the reading of each question, with limits where leaves are cut.

        Every part of the weights has at most one attribute. Limits are read off the leaves
        `certain` if they are given, else off these.
        """
        readings: list[LinearReading] = []
        for some in self._portions(several):
            readings += self._read(_Packed(self.names, some), limits, certain)
        return readings

    def _portions(self, several: Sequence[Weights]) -> Iterator[Sequence[Weights]]:
        size = max((part.values.size for weights in several for part in weights.parts), default=1)
        step = max(_MOST_NUMBERS // (size * len(self.names)), 1)
        return (several[begin : begin + step] for begin in range(0, len(several), step))

    def _read(
        self, asked: _Packed, limits: bool, certain: LeafQuestions | None
    ) -> list[LinearReading]:
        numbers, cut = self._numbers(asked, (0, 3) if limits and certain is None else (0, 1))
        places = np.flatnonzero(cut)
        if limits and certain is not None and len(places):
            ends, uneven = certain._numbers(asked.of(places), (1, 3))
            ends[~uneven, 1:] = ends[~uneven, :1]
            numbers[places, 1:] = ends[:, 1:]
        lines = zip(numbers.tolist(), cut.tolist(), strict=True)
        return [_reading(line, limits and uneven) for line, uneven in lines]

    def _numbers(
        self, asked: _Packed, wanted: tuple[int, int]
    ) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return the four numbers of the readings `wanted` of each question (by the mean, the least
        and the largest weight of every leaf), and which questions cut leaves.

        Questions that cut none have the first reading, whatever is wanted.
        """
        if (self._last >= asked.sizes).any():
            raise IndexError("a box ends outside of the domain")
        count = len(asked.parts)
        numbers, spans = np.zeros((count, 3, 4)), np.zeros((count, 3, 2))
        cut = np.zeros(count, bool)
        tree_kernels.read_questions(
            *self._search,
            asked.values,
            asked.sizes,
            asked.parts,
            asked.factors,
            wanted,
            numbers,
            spans,
            cut,
        )
        if self.rows is not None:  # equal weights of all leaves add up to the known number
            same = spans[..., 0] == spans[..., 1]
            numbers[same] = 0.0
            numbers[same, 0] = spans[same, 0] * self.rows
        return numbers, cut

    @cached_property
    def _last(self) -> npt.NDArray[np.int64]:
        """The highest code of each attribute in a box."""
        highest: npt.NDArray[np.int64] = self.boxes.high.max(axis=1)
        return highest

    @cached_property
    def _search(self) -> tuple[Floats, Arrays]:
        """The arrays `facts` and `boxes` of the loop, of the tree with few children of every node.

        What is known of a node lies together, as the loop reads it.
        """
        if (self.boxes.low < 0).any() or (self.boxes.high < self.boxes.low).any():
            raise IndexError("a box begins outside of the domain")
        low, high, ends, counts = self._nodes(self.noise, self.leaves)
        noise, places = limit_children(
            self.noise, _interleave_bits(np.minimum(low, self._last[:, None]))
        )
        if noise is not self.noise:
            low, high, ends, counts = self._nodes(noise, places[self.leaves])
        parents, starts, children, own, below = noise.tree
        shares, variances, fourths, even, _, _ = noise.noise
        inner, above = parents >= 0, parents[parents >= 0]
        passed, sums = np.zeros(len(parents)), np.zeros_like(even)
        passed[inner] = own[inner] / below[above]
        for row in range(2):
            sums[row] = np.bincount(above, even[row, inner], len(parents))
        np.maximum.at(sums[2], above, even[2, inner])
        facts = np.stack([passed, own, below, shares, variances, fourths], axis=1)
        low, high, even, sums = (np.ascontiguousarray(array.T) for array in (low, high, even, sums))
        roots = children[: starts[0]]
        return facts, (roots, starts, children, low, high, ends, counts, even, sums)

    def _nodes(self, noise: TreeNoise, leaves: npt.NDArray[np.intp]) -> Arrays:
        """Return the bounds of the nodes of a tree, which are its leaves, and their counts."""
        parents = noise.tree[0]
        shape = (len(self.names), len(parents))
        low, high = np.full(shape, np.iinfo(np.int64).max), np.full(shape, -1)
        ends, counts = np.zeros(len(parents), bool), np.zeros(len(parents))
        low[:, leaves], high[:, leaves] = self.boxes.low, self.boxes.high
        ends[leaves], counts[leaves] = True, self.counts
        tree_kernels.hulls(parents, ends, low, high, counts)
        return low, high, ends, counts


def limit_children(noise: TreeNoise, order: Integers) -> tuple[TreeNoise, Integers]:
    """Return a tree in which no node has many children, and the index of each node in it.

    Children that follow each other in `order` are put below new nodes, which are not measured.
    """
    above, order = noise.estimator.parents, order.copy()
    base, level = np.arange(len(above)), np.zeros(len(above), np.int64)
    some = base
    while True:
        some = some[np.lexsort((order[some], above[some]))]
        first = np.append(True, np.diff(above[some]) != 0)
        start = np.maximum.accumulate(np.where(first, np.arange(len(some)), 0))
        children = np.bincount(np.cumsum(first) - 1)[np.cumsum(first) - 1]
        rank_below = (np.arange(len(some)) - start)[children > _MOST_CHILDREN]
        if not len(rank_below):
            break
        some = some[children > _MOST_CHILDREN]
        begins = rank_below % _MOST_CHILDREN == 0
        heads, new = some[begins], len(above) + np.arange(int(begins.sum()))
        above = np.concatenate([above, above[heads]])
        above[some] = len(level) + np.cumsum(begins) - 1
        order = np.concatenate([order, order[heads]])
        base = np.concatenate([base, above[new]])
        level = np.concatenate([level, np.full(len(new), level.max() + 1)])
        some = new
    if not level.any():
        return noise, base
    # New nodes come directly after the node that they are below, the highest first.
    rank = np.lexsort((-level, level > 0, base))
    places = np.empty(len(rank), np.int64)
    places[rank] = np.arange(len(rank))
    parents = np.where(above < 0, -1, places[above])[rank]

    def fill(numbers: Floats, value: float) -> Floats:
        return np.append(numbers, np.full(len(rank) - len(numbers), value))[rank]

    forest = TreeEstimator(parents, fill(noise.estimator.variances, np.inf))
    grouped_noise = TreeNoise(forest, fill(noise.variances, 0.0), fill(noise.fourths, 0.0))
    return grouped_noise, places[: len(noise.variances)]


def _interleave_bits(codes: Integers) -> Integers:
    """Return numbers whose order keeps neighbours together: the bits of all codes in turn."""
    bits = [int(code.max()).bit_length() for code in codes]
    numbers = np.zeros(codes.shape[1], np.int64)
    for step in range(max(bits)):
        for own, many in zip(codes, bits, strict=True):
            if step < many:
                numbers = numbers << 1 | own >> (many - 1 - step) & 1
    return numbers


def _reading(numbers: list[list[float]], limits: bool) -> LinearReading:
    (value, variance, fourth, largest), *ends = numbers
    low, high = (LinearReading(a, b, c, d) for a, b, c, d in ends) if limits else (None, None)
    return LinearReading(value, variance, fourth, largest, (), low, high)


class _Packed:
    """The weights of some questions in arrays, as the compiled loop takes them."""

    def __init__(self, names: tuple[str, ...], several: Sequence[Weights]) -> None:
        values: list[Floats] = []
        self.sizes = np.full(len(names), np.iinfo(np.int64).max)
        self.parts = np.full((len(several), len(names)), -1)
        self.factors = np.array([weights.factor for weights in several], np.float64)
        for row, weights in enumerate(several):
            for part in weights.parts:
                if part.names:
                    axis = names.index(part.names[0])
                    self.parts[row, axis] = len(values)
                    self.sizes[axis] = len(part.values)
                    values.append(part.values)
        self.values = np.zeros((len(values), max(map(len, values), default=1)))
        for row, numbers in enumerate(values):
            self.values[row, : len(numbers)] = numbers

    def of(self, places: npt.NDArray[np.intp]) -> _Packed:
        """Return the questions at `places`."""
        if len(places) == len(self.parts):
            return self
        chosen = copy(self)
        chosen.parts, chosen.factors = self.parts[places], self.factors[places]
        return chosen
