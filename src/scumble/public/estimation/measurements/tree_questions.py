"""Many questions to the leaves of a fitted tree, read from its top.

The weights of a question are a product of one factor for each attribute. Where they are equal in
all of a node's box, the node is read in place of its leaves, so that a question visits the nodes
along its border only. Where a node has many children, nodes that were not measured are put between:
they change no estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.box_tree import TreeEstimator, TreeNoise
from scumble.model.designs.boxes import Boxes
from scumble.public.estimation.measurements.readings import Reading, Weights

Arrays = tuple[npt.NDArray[Any], ...]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

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
    ) -> list[Reading]:
        """Return the reading of each question, with limits where leaves are cut.

        Every part of the weights has at most one attribute. Limits are read off the leaves
        `certain` if they are given, else off these.
        """
        found: list[Reading] = []
        for some in self._portions(several):
            found += self._read(_Packed(self.names, some), limits, certain)
        return found

    def _portions(self, several: Sequence[Weights]) -> Iterator[Sequence[Weights]]:
        size = max((part.values.size for each in several for part in each.parts), default=1)
        step = max(_MOST_NUMBERS // (size * len(self.names)), 1)
        return (several[begin : begin + step] for begin in range(0, len(several), step))

    def _read(self, asked: _Packed, limits: bool, certain: LeafQuestions | None) -> list[Reading]:
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
        from scumble.model.designs import tree_kernels

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
        found: npt.NDArray[np.int64] = self.boxes.high.max(axis=1)
        return found

    @cached_property
    def _search(self) -> tuple[Floats, Arrays]:
        """The arrays `facts` and `boxes` of the loop, of the tree with few children of every node.

        What is known of a node lies together, as the loop reads it.
        """
        if (self.boxes.low < 0).any() or (self.boxes.high < self.boxes.low).any():
            raise IndexError("a box begins outside of the domain")
        low, high, ends, counts = self._nodes(self.noise, self.leaves)
        noise, places = grouped(self.noise, _interleaved(np.minimum(low, self._last[:, None])))
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
        low, high, even, sums = (np.ascontiguousarray(each.T) for each in (low, high, even, sums))
        roots = children[: starts[0]]
        return facts, (roots, starts, children, low, high, ends, counts, even, sums)

    def _nodes(self, noise: TreeNoise, leaves: npt.NDArray[np.intp]) -> Arrays:
        """Return the bounds of the nodes of a tree, which are its leaves, and their counts."""
        from scumble.model.designs import tree_kernels

        parents = noise.tree[0]
        shape = (len(self.names), len(parents))
        low, high = np.full(shape, np.iinfo(np.int64).max), np.full(shape, -1)
        ends, counts = np.zeros(len(parents), bool), np.zeros(len(parents))
        low[:, leaves], high[:, leaves] = self.boxes.low, self.boxes.high
        ends[leaves], counts[leaves] = True, self.counts
        tree_kernels.hulls(parents, ends, low, high, counts)
        return low, high, ends, counts


def grouped(noise: TreeNoise, order: Integers) -> tuple[TreeNoise, Integers]:
    """Return a tree in which no node has many children, and the place of each node in it.

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
        place = (np.arange(len(some)) - start)[children > _MOST_CHILDREN]
        if not len(place):
            break
        some = some[children > _MOST_CHILDREN]
        begins = place % _MOST_CHILDREN == 0
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

    def filled(numbers: Floats, value: float) -> Floats:
        return np.append(numbers, np.full(len(rank) - len(numbers), value))[rank]

    forest = TreeEstimator(parents, filled(noise.estimator.variances, np.inf))
    found = TreeNoise(forest, filled(noise.variances, 0.0), filled(noise.fourths, 0.0))
    return found, places[: len(noise.variances)]


def _interleaved(codes: Integers) -> Integers:
    """Return numbers whose order keeps neighbours together: the bits of all codes in turn."""
    bits = [int(each.max()).bit_length() for each in codes]
    found = np.zeros(codes.shape[1], np.int64)
    for step in range(max(bits)):
        for own, many in zip(codes, bits, strict=True):
            if step < many:
                found = found << 1 | own >> (many - 1 - step) & 1
    return found


def _reading(numbers: list[list[float]], limits: bool) -> Reading:
    (value, variance, fourth, largest), *ends = numbers
    low, high = (Reading(a, b, c, d) for a, b, c, d in ends) if limits else (None, None)
    return Reading(value, variance, fourth, largest, (), low, high)


class _Packed:
    """The weights of some questions in arrays, as the compiled loop takes them."""

    def __init__(self, names: tuple[str, ...], several: Sequence[Weights]) -> None:
        values: list[Floats] = []
        self.sizes = np.full(len(names), np.iinfo(np.int64).max)
        self.parts = np.full((len(several), len(names)), -1)
        self.factors = np.array([each.factor for each in several], np.float64)
        for place, weights in enumerate(several):
            for part in weights.parts:
                if part.names:
                    axis = names.index(part.names[0])
                    self.parts[place, axis] = len(values)
                    self.sizes[axis] = len(part.values)
                    values.append(part.values)
        self.values = np.zeros((len(values), max(map(len, values), default=1)))
        for row, each in enumerate(values):
            self.values[row, : len(each)] = each

    def of(self, places: npt.NDArray[np.intp]) -> _Packed:
        """Return the questions at `places`."""
        if len(places) == len(self.parts):
            return self
        found = copy(self)
        found.parts, found.factors = self.parts[places], self.factors[places]
        return found
