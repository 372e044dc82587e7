"""Sums of fitted leaves of a tree by group, and the moments of their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scumble.model.designs.box_tree import Forest, Groups
from scumble.public.estimation.measurements.group_readings import Average, Readings, Shares
from scumble.public.estimation.measurements.readings import Weights
from scumble.public.estimation.measurements.region_groups import Meetings
from scumble.public.estimation.measurements.region_means import RegionMeans

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FittedLeaves:
    """The nodes of a forest inside which rows are taken to be even, their fitted counts, and the
    variance and fourth cumulant of the noise of every node.
    """

    forest: Forest
    nodes: npt.NDArray[np.intp]
    counts: Floats
    variances: Floats
    fourths: Floats

    def readings(self, some: Meetings, weights: Weights) -> Readings:
        """Of the groups of some meetings."""
        return self._readings(some, some.means(weights))

    def shares(self, some: Meetings, average: Average) -> Shares:
        weighted, condition = some.means(average.weighted), some.means(average.condition)
        totals, counts = self._readings(some, weighted), self._readings(some, condition)
        covariances = self._moments(some, weighted.means, condition.means)[0]
        ratios = totals.ratios(counts)[some.groups - some.first]
        apart = weighted.means - ratios * condition.means
        return Shares(totals, counts, covariances, self._sums(some, apart))

    def _readings(self, some: Meetings, found: RegionMeans) -> Readings:
        cut = some.sums(found.cut).astype(np.int64).tolist()
        notes: list[tuple[str, ...]] = [(cut_note(leaves),) if leaves else () for leaves in cut]
        return self._sums(some, found.means, notes)

    def _sums(
        self, some: Meetings, weights: Floats, notes: list[tuple[str, ...]] | None = None
    ) -> Readings:
        values = some.sums(weights * self.counts[some.leaves])
        moments = self._moments(some, weights, weights)
        return Readings(np.concatenate([values[None], moments]), notes or ())

    def _moments(self, some: Meetings, first: Floats, second: Floats) -> Floats:
        used = np.flatnonzero((first != 0) | (second != 0))
        groups = some.groups[used]
        starts = np.searchsorted(groups, np.arange(some.first, some.last + 1))
        lists = Groups(starts, self.nodes[some.leaves[used]])
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
