"""Answers from noisy counts of boxes: least squares on their tree, evenness inside its leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scumble.model.designs.box_tree import Forest
from scumble.model.designs.boxes import Boxes
from scumble.model.designs.regions import Regions, RegionTree
from scumble.model.evidence.evidence import Measurements
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.group_readings import (
    Average,
    Grouping,
    Readings,
    Shares,
)
from scumble.public.estimation.measurements.reading import Reading
from scumble.public.estimation.measurements.readings import Weights
from scumble.public.estimation.measurements.region_groups import meetings
from scumble.public.estimation.measurements.region_means import BoxMeans
from scumble.public.estimation.measurements.region_sums import FittedLeaves, cut_note
from scumble.public.sandbox import Engine

Floats = npt.NDArray[np.float64]


class RegionsReader:
    """The tree of a release, fitted once; every answer is a weighted sum of its leaves."""

    method = "sum over the leaves of a tree, fitted by least squares"

    def __init__(self, evidence: Measurements, schema: Schema, engine: Engine) -> None:
        if not isinstance(evidence.design, Regions):
            raise TypeError("the measurements are of no regions")
        tree = RegionTree.read(engine.rows("SELECT * FROM view"), evidence.columns)
        self._start(tree, evidence.columns, evidence.design)

    @classmethod
    def of_tree(cls, tree: RegionTree, names: Sequence[str], design: Regions) -> RegionsReader:
        """A reader of a tree that is in memory."""
        reader = cls.__new__(cls)
        reader._start(tree, names, design)
        return reader

    def _start(self, tree: RegionTree, names: Sequence[str], design: Regions) -> None:
        forest = tree.forest(design.laws)
        fitted = forest.estimates(tree.noisy)
        ends = np.flatnonzero(_ends(forest, fitted, design.prune))
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
        some = meetings(self._means, grouping)
        return Readings.joined([self._leaves.readings(each, weights) for each in some])

    def shares(self, average: Average, grouping: Grouping) -> Shares:
        some = meetings(self._means, grouping)
        return Shares.joined([self._leaves.shares(each, average) for each in some])

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


def _ends(forest: Forest, fitted: Floats, prune: int | None) -> npt.NDArray[np.bool_]:
    """The leaves; with `prune`, the topmost nodes below it in place of what is under them."""
    if prune is None:
        return forest.leaves
    small = fitted < prune
    return (small | forest.leaves) & ~forest.under(small)
