"""The groups that each leaf of a tree of boxes meets, and the means of weights over both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.boxes import Boxes
from scumble.public.estimation.measurements.group_readings import Grouping
from scumble.public.estimation.measurements.readings import Part, Weights
from scumble.public.estimation.measurements.region_means import BoxMeans, RegionMeans, tensor_means

Integers = npt.NDArray[np.int64]

MOST_MEETINGS = 1 << 21  # of leaves and groups at a time


@dataclass(frozen=True, eq=False)
class Meetings:
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
        """Numbers of all meetings, added up by group."""
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


def meetings(leaf_means: BoxMeans, grouping: Grouping) -> Iterator[Meetings]:
    """All meetings, so many groups at a time that they fit in memory: those of some codes of the
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
        yield Meetings(
            leaf_means, begin * after, end * after, near[places[order]], groups[order], by_name
        )


def _runs(boxes: Boxes, codes: int) -> Iterator[tuple[int, int]]:
    """The codes of the first attribute in runs with not too many meetings: first, and after the
    last.
    """
    others = boxes.sizes[1:].prod(axis=0)
    changes = np.bincount(boxes.low[0], others, codes + 1)
    changes -= np.bincount(boxes.high[0] + 1, others, codes + 1)
    begin, total = 0, 0.0
    for code, many in enumerate(np.cumsum(changes)[:codes].tolist()):
        if total + many > MOST_MEETINGS and code > begin:
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
