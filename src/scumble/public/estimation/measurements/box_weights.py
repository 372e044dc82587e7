"""Weights of a question over boxes: their mean, least and largest value in every box.

A box tells how many rows it has, but not where in the box they are. Spread evenly, each row adds
the mean weight of the box; in truth it adds at least the least and at most the largest one.

- `BoxWeights`: the three of every box.
- `WeighedBoxes`: boxes over some attributes, ready to be weighed.
- `Overlaps`: the same for all groups of a GROUP BY.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.boxes import Boxes, summed_area
from scumble.public.estimation.measurements.readings import Grouping, Part, Tensor, Weights

Floats = npt.NDArray[np.float64]
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
        found = BoxWeights.ones(len(self.boxes))
        for part in weights.parts:
            found = found.times(self.part(part))
        return found

    def part(self, part: Part) -> BoxWeights:
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
        # Pairs of a first place and the place after the last one; what is between pairs is unused.
        ends = np.stack([start, start + boxes.sizes[0]], axis=1).reshape(-1)
        padded = np.append(values.reshape(-1), values.reshape(-1)[-1:])
        return (
            np.minimum.reduceat(padded, ends)[::2],
            np.maximum.reduceat(padded, ends)[::2],
        )
    inner = []
    for place in range(len(boxes)):
        table = values[tuple(int(codes[place]) for codes in before)]
        inner.append(table[_slices(boxes, place)])
    return np.array([each.min() for each in inner]), np.array([each.max() for each in inner])


def _slices(boxes: Boxes, place: int) -> tuple[slice, ...]:
    """Return the entries of one box along each attribute."""
    ends = zip(boxes.low[:, place].tolist(), boxes.high[:, place].tolist(), strict=True)
    return tuple(slice(low, high + 1) for low, high in ends)


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
        found = BoxWeights.ones(len(self.leaves))
        for part in weights.parts:
            found = found.times(self._part(part))
        # A leaf with several codes of a grouped attribute has cells of other groups.
        inside = self.weighed.along(list(self.codes)).take(self.leaves)
        own = [place for place, name in enumerate(self.codes) if name not in weights.names]
        several = np.asarray((inside.high > inside.low).any(axis=0))
        if not several.any():
            return found
        shares = 1 / inside.sizes[own].prod(axis=0)
        ones = np.ones(len(shares))
        return found.times(BoxWeights(shares, ones - several, ones, several, ones > 0))

    def _part(self, part: Part) -> BoxWeights:
        """Return the weights of one part over the cells of each leaf that lie in the group."""
        grouped = [name for name in part.names if name in self.codes]
        if not grouped:
            return self.weighed.part(part).at(self.leaves)
        others = [name for name in part.names if name not in self.codes]
        order = [part.names.index(name) for name in (*grouped, *others)]
        before = tuple(self.codes[name] for name in grouped)
        inside = self.weighed.along(others).take(self.leaves)
        found = tensor_weights(part.values.transpose(order), inside, before)
        of_all = self.weighed.along(grouped).take(self.leaves).cells
        means = found.means / of_all
        return BoxWeights(means, found.least, found.most, found.uneven, found.used)


def overlaps(weighed: WeighedBoxes, grouping: Grouping) -> Iterator[Overlaps]:
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
    place = np.arange(len(which)) - np.repeat(np.cumsum(cells) - cells, cells)
    codes = np.empty((len(boxes.low), len(which)), np.int64)
    for axis in reversed(range(len(codes))):
        place, within = np.divmod(place, boxes.sizes[axis][which])
        codes[axis] = boxes.low[axis][which] + within
    return which, codes
