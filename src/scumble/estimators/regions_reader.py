"""Answers from noisy counts of boxes: least squares on their tree, evenness inside its leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scumble.designs.boxes import Boxes
from scumble.designs.forest import Forest
from scumble.designs.regions import Regions, RegionTree
from scumble.engine.duckdb import Engine
from scumble.estimators.reading import Reading
from scumble.estimators.region_means import BoxMeans
from scumble.estimators.weights import Weights
from scumble.evidence import Measurements
from scumble.schema import Schema

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
        self._forest = tree.forest(design.laws)
        self._fitted = self._forest.estimates(tree.noisy)
        self._ends = np.flatnonzero(_ends(self._forest, self._fitted, design.prune))
        self._leaf_counts = self._fitted[self._ends]
        self._boxes = tree.boxes.take(self._ends)
        self._means = BoxMeans(self._boxes, names)
        measured = np.isfinite(self._forest.variances)
        self._variances = np.where(measured, self._forest.variances, 0.0)
        self._fourths = np.array([*(law.fourth for law in design.laws), 0.0])[tree.law]

    @property
    def leaves(self) -> Boxes:
        """The boxes inside which rows are taken to be spread evenly."""
        return self._boxes

    @property
    def counts(self) -> Floats:
        """The estimated number of rows in each leaf."""
        return self._leaf_counts

    def read(self, weights: Weights) -> Reading:
        return self._read(weights).reading(self._variances, self._fourths)

    def pair(self, first: Weights, second: Weights) -> tuple[Reading, Reading, float]:
        one, other = self._read(first), self._read(second)
        covariance = _dot(one.coefficients * self._variances, other.coefficients)
        first_reading = one.reading(self._variances, self._fourths)
        return first_reading, other.reading(self._variances, self._fourths), covariance

    def _read(self, weights: Weights) -> _Read:
        found = self._means.means(weights)
        by_node = np.zeros(len(self._fitted))
        by_node[self._ends] = found.means
        value = _dot(found.means, self._leaf_counts)
        cut = int(found.uneven.sum())
        return _Read(value, self._forest.coefficients(by_node), cut)


@dataclass(frozen=True, eq=False)
class _Read:
    """A weighted sum of leaves: its value, what each noise adds to it, how many leaves were cut."""

    value: float
    coefficients: Floats
    cut: int

    def reading(self, variances: Floats, fourths: Floats) -> Reading:
        squares = self.coefficients**2
        return Reading(
            self.value,
            _dot(squares, variances),
            _dot(squares**2, fourths),
            float(np.abs(self.coefficients).max(initial=0.0)),
            (_cut_note(self.cut),) if self.cut else (),
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


def _cut_note(leaves: int) -> str:
    which = "a leaf" if leaves == 1 else f"{leaves} leaves"
    return (
        f"the question takes part of {which} of the tree, inside which rows were taken to be "
        "spread evenly: an error by that is not in the interval"
    )
