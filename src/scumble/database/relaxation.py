"""Relaxation: a question that may not be asked any more, answered by adding and subtracting answers
that were given before, for a box as near to the question's as these allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

Box = npt.NDArray[np.int64]  # (attributes, 2): closed intervals of codes
Boxes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Distance:
    """How far a box is from the one that was asked for: the mean over the attributes of how far
    both ends have moved, as a share of the attribute's range, times the attribute's weight.
    """

    sizes: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def over(cls, sizes: Sequence[int], weights: Sequence[float] | None = None) -> Distance:
        given = (1.0,) * len(sizes) if weights is None else tuple(map(float, weights))
        return cls(tuple(sizes), given)

    def __call__(self, boxes: Boxes, target: Box) -> Floats:
        """The distance of each of some boxes, or of one, from the target."""
        # An attribute of one value has no range, and its ends cannot move.
        ranges = np.maximum(np.array(self.sizes) - 1, 1)
        moved = np.abs(boxes - target).sum(axis=-1)
        found: Floats = (moved * np.array(self.weights) / ranges).mean(axis=-1)
        return found


class History(Protocol):
    """The boxes of all answers that were given, which may grow by further ones."""

    @property
    def boxes(self) -> Boxes:
        """(answers, attributes, 2), in the order of the answers."""

    def admits(self, box: Box) -> bool:
        """Whether one more answer is possible. It depends on earlier questions only."""

    def ask(self, box: Box) -> int:
        """Get that answer, at its price; its number among the answers."""


@dataclass(frozen=True)
class Compound:
    """Answers that add up, those of `minus` subtracted, to the count of one box: `region`."""

    region: Box
    error: float  # the distance of the region from the box that was asked for
    plus: tuple[int, ...]
    minus: tuple[int, ...] = ()
    bought: tuple[int, ...] = field(default=())  # those that were asked for its sake

    @property
    def size(self) -> int:
        return len(self.plus) + len(self.minus)

    def signs(self) -> dict[int, int]:
        """Every answer with the sign that it has in the sum."""
        return {**dict.fromkeys(self.plus, 1), **dict.fromkeys(self.minus, -1)}


@dataclass(frozen=True)
class Patch:
    """One more box for a compound, and what the compound's region and error would become."""

    box: Box
    sign: int
    region: Box
    error: float
    answer: int | None = None  # the number of an answer that there is already


def relax(target: Box, history: History, distance: Distance, most: int) -> Compound | None:
    """The compound of at most `most` answers that greedy patching finds; None without history.

    Each step takes the patch that brings the region nearest to the target. Among equally good ones
    an answer that was given before comes first, since it is free.
    """
    if not len(history.boxes):
        return None
    errors = distance(history.boxes, target)
    first = int(np.argmin(errors))
    compound = Compound(history.boxes[first], float(errors[first]), (first,))
    while compound.size < most and compound.error > 0:
        patches = [
            *_known_patches(compound, target, history.boxes, distance),
            *_new_patches(compound, target, distance, history.admits),
        ]
        if not patches:
            break
        compound = _patched(compound, min(patches, key=lambda patch: patch.error), history)
    return compound


def _patched(compound: Compound, patch: Patch, history: History) -> Compound:
    bought = compound.bought
    answer = patch.answer
    if answer is None:
        answer = history.ask(patch.box)
        bought = (*bought, answer)
    plus = (*compound.plus, answer) if patch.sign > 0 else compound.plus
    minus = (*compound.minus, answer) if patch.sign < 0 else compound.minus
    return Compound(patch.region, patch.error, plus, minus, bought)


def _known_patches(
    compound: Compound, target: Box, boxes: Boxes, distance: Distance
) -> Iterator[Patch]:
    """Given answers whose box is beside the region, or at one end of it, over its whole width."""
    region = compound.region
    same = (boxes == region).all(axis=2)
    near = np.flatnonzero(same.sum(axis=1) == len(region) - 1)
    used = set(compound.signs())
    for answer in near.tolist():
        if answer in used:
            continue
        axis = int(np.argmin(same[answer]))
        changed = _joined(region, boxes[answer], axis)
        if changed is not None:
            sign, new = changed
            error = float(distance(new, target))
            if error < compound.error:
                yield Patch(boxes[answer], sign, new, error, answer)


def _joined(region: Box, box: Box, axis: int) -> tuple[int, Box] | None:
    """The region with the box added or taken away, if that is a box again."""
    (low, high), (first, last) = region[axis], box[axis]
    if first == high + 1:
        return 1, _with(region, axis, low, last)
    if last == low - 1:
        return 1, _with(region, axis, first, high)
    if first == low and last < high:
        return -1, _with(region, axis, last + 1, high)
    if last == high and first > low:
        return -1, _with(region, axis, low, first - 1)
    return None


def _new_patches(
    compound: Compound, target: Box, distance: Distance, admits: Callable[[Box], bool]
) -> Iterator[Patch]:
    """The boxes that would move one face of the region to where the target has it."""
    region = compound.region
    for axis in range(len(region)):
        for sign, box, new in _aligned(region, target, axis):
            error = float(distance(new, target))
            if error < compound.error and admits(box):
                yield Patch(box, sign, new, error)


def _aligned(region: Box, target: Box, axis: int) -> Iterator[tuple[int, Box, Box]]:
    (low, high), (first, last) = region[axis], target[axis]
    if first < low:
        yield 1, _with(region, axis, first, low - 1), _with(region, axis, first, high)
    elif low < first <= high:
        yield -1, _with(region, axis, low, first - 1), _with(region, axis, first, high)
    if last > high:
        yield 1, _with(region, axis, high + 1, last), _with(region, axis, low, last)
    elif low <= last < high:
        yield -1, _with(region, axis, last + 1, high), _with(region, axis, low, last)


def _with(box: Box, axis: int, low: int, high: int) -> Box:
    changed = box.copy()
    changed[axis] = low, high
    return changed
