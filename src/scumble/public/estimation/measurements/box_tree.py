"""Reader of noisy counts of boxes (Quadtree, KdTree, PrivTree, Grid, Mosaic, Dawa).

Counts are fitted by least squares on the tree of boxes. Inside its leaves rows are taken to be
spread evenly.

- `BoxTreeReader`: the fitted tree; every answer is a weighted sum of its leaves.
- `BoxMeans`, `WeightMeans`: the mean weight of every leaf, and which leaves a question cuts.
- `Overlaps`, `FittedLeaves`: the same for all groups of a GROUP BY.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.box_tree import BoxNodes, BoxTree, NodeGroups, TreeEstimator
from scumble.model.designs.boxes import Boxes, summed_area
from scumble.model.evidence.evidence import Measurements
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.readings import (
    AverageReadings,
    AverageWeights,
    Grouping,
    Part,
    Reading,
    Readings,
    Tensor,
    Weights,
)
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]


class BoxTreeReader:
    """The tree of a release, fitted once; every answer is a weighted sum of its leaves."""

    method = "sum over the leaves of a tree, fitted by least squares"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        if not isinstance(evidence.design, BoxTree):
            raise TypeError("the design of the measurements is not a tree of boxes")
        tree = BoxNodes.read(engine.rows("SELECT * FROM view"), evidence.columns)
        self._start(tree, evidence.columns, evidence.design)

    @classmethod
    def of_tree(cls, tree: BoxNodes, names: Sequence[str], design: BoxTree) -> BoxTreeReader:
        """Return a reader of a tree that is in memory."""
        reader = cls.__new__(cls)
        reader._start(tree, names, design)
        return reader

    def _start(self, tree: BoxNodes, names: Sequence[str], design: BoxTree) -> None:
        forest = tree.estimator(design.laws)
        fitted = forest.estimates(tree.noisy)
        leaves = np.flatnonzero(_leaves(forest, fitted, design.prune))
        variances = np.where(np.isfinite(forest.variances), forest.variances, 0.0)
        fourths = np.array([*(law.fourth for law in design.laws), 0.0])[tree.law]
        self._leaves = FittedLeaves(forest, leaves, fitted[leaves], variances, fourths)
        self._means = BoxMeans(tree.boxes.take(leaves), names)

    @property
    def leaves(self) -> Boxes:
        """The boxes inside which rows are taken to be spread evenly, in a fixed order."""
        return self._means.boxes

    @property
    def counts(self) -> Floats:
        """The estimated number of rows in each leaf."""
        return self._leaves.counts

    def read(self, weights: Weights) -> Reading:
        return self._read(weights).reading(self._leaves)

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
        one, other = self._read(first), self._read(second)
        covariance = _dot(one.coefficients * self._leaves.variances, other.coefficients)
        return one.reading(self._leaves), other.reading(self._leaves), covariance

    def by_group(self, weights: Weights, grouping: Grouping) -> Readings:
        some = overlaps(self._means, grouping)
        return Readings.joined([self._leaves.readings(each, weights) for each in some])

    def averages(self, average: AverageWeights, grouping: Grouping) -> AverageReadings:
        some = overlaps(self._means, grouping)
        return AverageReadings.joined([self._leaves.averages(each, average) for each in some])

    def _read(self, weights: Weights) -> _Read:
        found = self._means.means(weights)
        forest = self._leaves.forest
        by_node = np.zeros(len(forest.parents))
        by_node[self._leaves.nodes] = found.means
        value = _dot(found.means, self._leaves.counts)
        return _Read(value, forest.coefficients(by_node), int(found.cut.sum()))


@dataclass(frozen=True, eq=False)
class _Read:
    """A weighted sum of leaves: its value, the coefficient of each noise, and the number of leaves
    that the question cuts.
    """

    value: float
    coefficients: Floats
    cut: int

    def reading(self, leaves: FittedLeaves) -> Reading:
        squares = self.coefficients**2
        return Reading(
            self.value,
            _dot(squares, leaves.variances),
            _dot(squares**2, leaves.fourths),
            float(np.abs(self.coefficients).max(initial=0.0)),
            (cut_note(self.cut),) if self.cut else (),
        )


def _dot(one: Floats, other: Floats) -> float:
    """Return Σ one · other. The product of the library would start threads for short arrays."""
    return float((one * other).sum())


def _leaves(forest: TreeEstimator, fitted: Floats, prune: int | None) -> npt.NDArray[np.bool_]:
    """Return which nodes are leaves.

    With `prune`, the topmost nodes with a fitted count below it replace their descendants.
    """
    if prune is None:
        return forest.leaves
    small = fitted < prune
    return (small | forest.leaves) & ~forest.under(small)


# Leaves and groups of a GROUP BY that have cells in common.

Integers = npt.NDArray[np.int64]

MOST_OVERLAPS = 1 << 21  # pairs of a leaf and a group at a time


@dataclass(frozen=True, eq=False)
class Overlaps:
    """Pairs of a leaf and a group with common cells, sorted by group.

    They are all pairs of the groups from `first` to before `last`. `codes` are those of the groups
    of the pairs, by attribute.
    """

    leaf_means: BoxMeans
    first: int
    last: int
    leaves: Integers
    groups: Integers
    codes: dict[str, Integers]

    def sums(self, numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the sums of `numbers`, one for each pair, by group."""
        groups = self.groups - self.first
        return np.bincount(groups, numbers, self.last - self.first).astype(np.float64)

    def means(self, weights: Weights) -> WeightMeans:
        """Return the mean weight over each leaf, with weight 0 for all cells of other groups."""
        found = WeightMeans.ones(len(self.leaves))
        for part in weights.parts:
            found = found.times(self._part(part))
        # A leaf with several codes of a grouped attribute has cells of other groups.
        inside = self.leaf_means.along(list(self.codes)).take(self.leaves)
        own = [place for place, name in enumerate(self.codes) if name not in weights.names]
        shares = 1 / inside.sizes[own].prod(axis=0)
        several = np.asarray((inside.sizes > 1).any(axis=0))
        return found.times(WeightMeans(shares, several, np.ones(len(shares), bool)))

    def _part(self, part: Part) -> WeightMeans:
        """Return the means of one part over the cells of each leaf that lie in the group."""
        grouped = [name for name in part.names if name in self.codes]
        if not grouped:
            return self.leaf_means.part(part).at(self.leaves)
        others = [name for name in part.names if name not in self.codes]
        order = [part.names.index(name) for name in (*grouped, *others)]
        before = tuple(self.codes[name] for name in grouped)
        inside = self.leaf_means.along(others).take(self.leaves)
        found = tensor_means(part.values.transpose(order), inside, before)
        of_all = self.leaf_means.along(grouped).take(self.leaves).cells
        return WeightMeans(found.means / of_all, found.uneven, found.used)


def overlaps(leaf_means: BoxMeans, grouping: Grouping) -> Iterator[Overlaps]:
    """Yield all overlaps, in portions that fit in memory: those of a run of codes of the first
    grouped attribute.
    """
    boxes = leaf_means.along(grouping.names)
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
            leaf_means, begin * after, end * after, near[places[order]], groups[order], by_name
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
    cells = boxes.cells
    which = np.repeat(np.arange(len(boxes)), cells)
    place = np.arange(len(which)) - np.repeat(np.cumsum(cells) - cells, cells)
    codes = np.empty((len(boxes.low), len(which)), np.int64)
    for axis in reversed(range(len(codes))):
        place, within = np.divmod(place, boxes.sizes[axis][which])
        codes[axis] = boxes.low[axis][which] + within
    return which, codes


# Means of weights over boxes: what a row of a box adds, if the rows in it are spread evenly.

Truths = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class WeightMeans:
    """The mean weight of the cells of each box.

    `uneven` says whether the weights differ within a box, and `used` whether some are not 0.
    """

    means: Floats
    uneven: Truths
    used: Truths

    @classmethod
    def ones(cls, boxes: int) -> WeightMeans:
        """Return the means if every cell has weight 1."""
        return cls(np.ones(boxes), np.zeros(boxes, bool), np.ones(boxes, bool))

    @property
    def cut(self) -> Truths:
        """The boxes that the question cuts: they are used in part, or unevenly."""
        return self.uneven & self.used

    def times(self, other: WeightMeans) -> WeightMeans:
        """Return the means of products of weights of different attributes: products of means."""
        return WeightMeans(
            self.means * other.means, self.uneven | other.uneven, self.used & other.used
        )

    def at(self, places: Places) -> WeightMeans:
        """Return the means of some boxes."""
        return WeightMeans(self.means[places], self.uneven[places], self.used[places])


class BoxMeans:
    """Boxes over the attributes `names`, and means of weights over them.

    Many boxes have the same interval of an attribute, so that its part is summed once for all.
    """

    def __init__(self, boxes: Boxes, names: Sequence[str]) -> None:
        self.boxes = boxes
        self.names = tuple(names)
        self._known: dict[tuple[str, ...], tuple[Boxes, Places]] = {}

    def means(self, weights: Weights) -> WeightMeans:
        found = WeightMeans.ones(len(self.boxes))
        for part in weights.parts:
            found = found.times(self.part(part))
        return found

    def part(self, part: Part) -> WeightMeans:
        """Return the means of one part."""
        inside, which = self._different(part.names)
        return tensor_means(part.values, inside).at(which)

    def _different(self, names: tuple[str, ...]) -> tuple[Boxes, Places]:
        """Return the boxes over some attributes, and the place of each box among them.

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


def tensor_means(
    values: Tensor, boxes: Boxes, before: tuple[npt.NDArray[np.int64], ...] = ()
) -> WeightMeans:
    """Return the means of the entries of a tensor in each box, from a summed-area table.

    `before` are codes of leading axes of `values`, one for each box.
    """
    used = _counts(boxes, values != 0, before) > 0
    # Prefix sums of fractions are rounded; a box without any weight must have the mean 0.
    sums = np.where(used, boxes.sums(summed_area(values, len(before)), before), 0.0)
    return WeightMeans(sums / boxes.cells, _changes(boxes, values, before), used)


def _changes(boxes: Boxes, values: Tensor, before: tuple[npt.NDArray[np.int64], ...]) -> Truths:
    """Return whether the weights change from one code to the next anywhere in a box."""
    found = np.zeros(len(boxes), bool)
    for axis in range(len(boxes.low)):
        steps = np.diff(values, axis=len(before) + axis, prepend=np.nan) != 0
        inner = boxes.low.copy()
        inner[axis] += 1  # a step onto the first code of a box is not inside it
        found |= _counts(Boxes(inner, boxes.high), steps, before) > 0
    return found


def _counts(
    boxes: Boxes, truths: Truths, before: tuple[npt.NDArray[np.int64], ...]
) -> npt.NDArray[np.int64]:
    summed = summed_area(truths.astype(np.int64), len(before))
    counts: npt.NDArray[np.int64] = boxes.sums(summed, before)
    return counts


@dataclass(frozen=True, eq=False)
class FittedLeaves:
    """The leaves of a fitted tree, inside which rows are taken to be spread evenly.

    `nodes` are the leaves among the nodes of `forest`, and `counts` their fitted counts.
    `variances` and `fourths` are the variance and the fourth cumulant of the noise of every node.
    """

    forest: TreeEstimator
    nodes: npt.NDArray[np.intp]
    counts: Floats
    variances: Floats
    fourths: Floats

    def readings(self, some: Overlaps, weights: Weights) -> Readings:
        """Return the readings of the groups of some overlaps."""
        return self._readings(some, some.means(weights))

    def averages(self, some: Overlaps, average: AverageWeights) -> AverageReadings:
        weighted, condition = some.means(average.weighted), some.means(average.condition)
        totals, counts = self._readings(some, weighted), self._readings(some, condition)
        covariances = self._moments(some, weighted.means, condition.means)[0]
        ratios = totals.ratios(counts)[some.groups - some.first]
        centred = weighted.means - ratios * condition.means
        return AverageReadings(totals, counts, covariances, self._sums(some, centred))

    def _readings(self, some: Overlaps, found: WeightMeans) -> Readings:
        cut = some.sums(found.cut).astype(np.int64).tolist()
        notes: list[tuple[str, ...]] = [(cut_note(leaves),) if leaves else () for leaves in cut]
        return self._sums(some, found.means, notes)

    def _sums(
        self, some: Overlaps, weights: Floats, notes: list[tuple[str, ...]] | None = None
    ) -> Readings:
        values = some.sums(weights * self.counts[some.leaves])
        moments = self._moments(some, weights, weights)
        return Readings(np.concatenate([values[None], moments]), notes or ())

    def _moments(self, some: Overlaps, first: Floats, second: Floats) -> Floats:
        used = np.flatnonzero((first != 0) | (second != 0))
        groups = some.groups[used]
        starts = np.searchsorted(groups, np.arange(some.first, some.last + 1))
        lists = NodeGroups(starts, self.nodes[some.leaves[used]])
        return self.forest.group_moments(
            lists, first[used], second[used], self.variances, self.fourths
        )


def cut_note(leaves: int) -> str:
    """Return the note of an answer that cuts `leaves` leaves."""
    which = "a leaf" if leaves == 1 else f"{leaves} leaves"
    return (
        f"the question takes part of {which} of the tree, inside which rows were taken to be "
        "spread evenly: an error by that is not in the interval"
    )
