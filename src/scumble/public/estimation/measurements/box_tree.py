"""Quadtree, kd-tree, grid, ... single and grouped.

Answers from noisy counts of boxes: least squares on their tree, evenness inside its leaves.
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


class RegionsReader:
    """The tree of a release, fitted once; every answer is a weighted sum of its leaves."""

    method = "sum over the leaves of a tree, fitted by least squares"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        if not isinstance(evidence.design, BoxTree):
            raise TypeError("the measurements are of no regions")
        tree = BoxNodes.read(engine.rows("SELECT * FROM view"), evidence.columns)
        self._start(tree, evidence.columns, evidence.design)

    @classmethod
    def of_tree(cls, tree: BoxNodes, names: Sequence[str], design: BoxTree) -> RegionsReader:
        """A reader of a tree that is in memory."""
        reader = cls.__new__(cls)
        reader._start(tree, names, design)
        return reader

    def _start(self, tree: BoxNodes, names: Sequence[str], design: BoxTree) -> None:
        forest = tree.estimator(design.laws)
        fitted = forest.estimates(tree.noisy)
        ends = np.flatnonzero(_leaves(forest, fitted, design.prune))
        variances = np.where(np.isfinite(forest.variances), forest.variances, 0.0)
        fourths = np.array([*(law.fourth for law in design.laws), 0.0])[tree.law]
        self._leaves = FittedLeaves(forest, ends, fitted[ends], variances, fourths)
        self._means = BoxMeans(tree.boxes.take(ends), names)

    @property
    def leaves(self) -> Boxes:
        """The boxes inside which rows are taken to be spread evenly."""
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
    """A weighted sum of leaves: its value, what each noise adds to it, how many leaves were cut."""

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
    """Σ one · other; the library's own product would start threads for arrays as short as these."""
    return float((one * other).sum())


def _leaves(forest: TreeEstimator, fitted: Floats, prune: int | None) -> npt.NDArray[np.bool_]:
    """The leaves; with `prune`, the topmost nodes below it in place of what is under them."""
    if prune is None:
        return forest.leaves
    small = fitted < prune
    return (small | forest.leaves) & ~forest.under(small)


# The groups that each leaf of a tree of boxes meets, and the means of weights over both.

Integers = npt.NDArray[np.int64]

MOST_OVERLAPS = 1 << 21  # of leaves and groups at a time


@dataclass(frozen=True, eq=False)
class Overlaps:
    """Leaves and groups that have cells together, sorted by group: of all groups from `first` to
    before `last`. `codes` are those of the groups, by attribute.
    """

    leaf_means: BoxMeans
    first: int
    last: int
    leaves: Integers
    groups: Integers
    codes: dict[str, Integers]

    def sums(self, numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Numbers of all overlaps, added up by group."""
        groups = self.groups - self.first
        return np.bincount(groups, numbers, self.last - self.first).astype(np.float64)

    def means(self, weights: Weights) -> RegionMeans:
        """Of the weights over each leaf, 0 for all cells of other groups."""
        found = RegionMeans.ones(len(self.leaves))
        for part in weights.parts:
            found = found.times(self._part(part))
        # A leaf with several codes of a grouped attribute has a part that is not of this group.
        inside = self.leaf_means.along(list(self.codes)).take(self.leaves)
        own = [place for place, name in enumerate(self.codes) if name not in weights.names]
        shares = 1 / inside.sizes[own].prod(axis=0)
        several = np.asarray((inside.sizes > 1).any(axis=0))
        return found.times(RegionMeans(shares, several, np.ones(len(shares), bool)))

    def _part(self, part: Part) -> RegionMeans:
        """Of one part, over what each leaf has of the codes of the group."""
        grouped = [name for name in part.names if name in self.codes]
        if not grouped:
            return self.leaf_means.part(part).at(self.leaves)
        others = [name for name in part.names if name not in self.codes]
        order = [part.names.index(name) for name in (*grouped, *others)]
        before = tuple(self.codes[name] for name in grouped)
        inside = self.leaf_means.along(others).take(self.leaves)
        found = tensor_means(part.values.transpose(order), inside, before)
        of_all = self.leaf_means.along(grouped).take(self.leaves).cells
        return RegionMeans(found.means / of_all, found.uneven, found.used)


def overlaps(leaf_means: BoxMeans, grouping: Grouping) -> Iterator[Overlaps]:
    """All overlaps, so many groups at a time that they fit in memory: those of some codes of the
    first attribute.
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
    """The codes of the first attribute in runs with not too many overlaps: first, and after the
    last.
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
    """Every cell of every box: which box, and its codes."""
    cells = boxes.cells
    which = np.repeat(np.arange(len(boxes)), cells)
    place = np.arange(len(which)) - np.repeat(np.cumsum(cells) - cells, cells)
    codes = np.empty((len(boxes.low), len(which)), np.int64)
    for axis in reversed(range(len(codes))):
        place, within = np.divmod(place, boxes.sizes[axis][which])
        codes[axis] = boxes.low[axis][which] + within
    return which, codes


# Means of weights over boxes: what a row of a box adds if the rows in it are spread evenly.

Truths = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RegionMeans:
    """The mean weight of the cells of each box, whether the weights in a box change from one cell
    to the next, and whether some are not 0.
    """

    means: Floats
    uneven: Truths
    used: Truths

    @classmethod
    def ones(cls, boxes: int) -> RegionMeans:
        """Every cell has weight 1."""
        return cls(np.ones(boxes), np.zeros(boxes, bool), np.ones(boxes, bool))

    @property
    def cut(self) -> Truths:
        """Which boxes are used in part, or unevenly."""
        return self.uneven & self.used

    def times(self, other: RegionMeans) -> RegionMeans:
        """Of products of weights that are about different attributes: so are the means."""
        return RegionMeans(
            self.means * other.means, self.uneven | other.uneven, self.used & other.used
        )

    def at(self, places: Places) -> RegionMeans:
        """Those of some boxes."""
        return RegionMeans(self.means[places], self.uneven[places], self.used[places])


class BoxMeans:
    """Boxes of some attributes, ready for questions. Many boxes have the same codes of an
    attribute, so that a part about it is looked up once for all of them.
    """

    def __init__(self, boxes: Boxes, names: Sequence[str]) -> None:
        self.boxes = boxes
        self.names = tuple(names)
        self._known: dict[tuple[str, ...], tuple[Boxes, Places]] = {}

    def means(self, weights: Weights) -> RegionMeans:
        found = RegionMeans.ones(len(self.boxes))
        for part in weights.parts:
            found = found.times(self.part(part))
        return found

    def part(self, part: Part) -> RegionMeans:
        """Of the weights of one part."""
        inside, which = self._different(part.names)
        return tensor_means(part.values, inside).at(which)

    def _different(self, names: tuple[str, ...]) -> tuple[Boxes, Places]:
        """The boxes of some attributes, each interval of a single one once; and which of them each
        box has.
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
        """The boxes of some attributes."""
        axes = [self.names.index(name) for name in names]
        return Boxes(self.boxes.low[axes], self.boxes.high[axes])


def tensor_means(
    values: Tensor, boxes: Boxes, before: tuple[npt.NDArray[np.int64], ...] = ()
) -> RegionMeans:
    """Of the entries of a tensor in each box, or in one of many tensors, as `before` says; each
    comes from a summed-area table.
    """
    used = _counts(boxes, values != 0, before) > 0
    # A table of fractions rounds; where a box has no weight at all it must not.
    sums = np.where(used, boxes.sums(summed_area(values, len(before)), before), 0.0)
    return RegionMeans(sums / boxes.cells, _changes(boxes, values, before), used)


def _changes(boxes: Boxes, values: Tensor, before: tuple[npt.NDArray[np.int64], ...]) -> Truths:
    """Whether the weights change from one code to the next anywhere in a box."""
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


# Sums of fitted leaves of a tree by group, and the moments of their errors.


@dataclass(frozen=True, eq=False)
class FittedLeaves:
    """The nodes of a forest inside which rows are taken to be even, their fitted counts, and the
    variance and fourth cumulant of the noise of every node.
    """

    forest: TreeEstimator
    nodes: npt.NDArray[np.intp]
    counts: Floats
    variances: Floats
    fourths: Floats

    def readings(self, some: Overlaps, weights: Weights) -> Readings:
        """Of the groups of some overlaps."""
        return self._readings(some, some.means(weights))

    def averages(self, some: Overlaps, average: AverageWeights) -> AverageReadings:
        weighted, condition = some.means(average.weighted), some.means(average.condition)
        totals, counts = self._readings(some, weighted), self._readings(some, condition)
        covariances = self._moments(some, weighted.means, condition.means)[0]
        ratios = totals.ratios(counts)[some.groups - some.first]
        apart = weighted.means - ratios * condition.means
        return AverageReadings(totals, counts, covariances, self._sums(some, apart))

    def _readings(self, some: Overlaps, found: RegionMeans) -> Readings:
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
    """What an answer says that cuts so many leaves."""
    which = "a leaf" if leaves == 1 else f"{leaves} leaves"
    return (
        f"the question takes part of {which} of the tree, inside which rows were taken to be "
        "spread evenly: an error by that is not in the interval"
    )
