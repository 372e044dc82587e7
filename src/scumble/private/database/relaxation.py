"""Relaxation: a question that may not be asked any more, answered by adding and subtracting answers
that were given before, for a box as near to the question's as these allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scumble.private.database.columns import Shelf
from scumble.private.database.space import Box, Boxes

Floats = npt.NDArray[np.float64]

_SHELF = Shelf()


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

    @cached_property
    def scales(self) -> Floats:
        """What it costs to move an end by one, for every attribute."""
        # An attribute of one value has no range, and its ends cannot move.
        ranges = np.maximum(np.array(self.sizes) - 1, 1)
        found: Floats = np.array(self.weights) / ranges / len(self.sizes)
        return found

    def __call__(self, boxes: Boxes, target: Box) -> Floats:
        """The distance of each of some boxes, or of one, from the target."""
        from scumble.private.database.relaxation_kernels import distances

        found: Floats = distances(boxes.reshape(-1, *target.shape), target, self.scales)
        return found.reshape(boxes.shape[:-2])


class History(Protocol):
    """The boxes of all answers that were given, which may grow by further ones."""

    @property
    def boxes(self) -> Boxes:
        """(answers, attributes, 2), in the order of the answers, which never changes."""

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
    bought: tuple[int, ...] = ()  # those that were asked for its sake

    @property
    def size(self) -> int:
        return len(self.plus) + len(self.minus)

    def signs(self) -> dict[int, int]:
        """Every answer with the sign that it has in the sum."""
        return {**dict.fromkeys(self.plus, 1), **dict.fromkeys(self.minus, -1)}

    def with_answer(
        self, answer: int, sign: int, region: Box, error: float, *, bought: bool = False
    ) -> Compound:
        """The compound with one more answer, and what becomes of its region."""
        return Compound(
            region,
            error,
            (*self.plus, answer) if sign > 0 else self.plus,
            (*self.minus, answer) if sign < 0 else self.minus,
            (*self.bought, answer) if bought else self.bought,
        )


def relax(target: Box, history: History, distance: Distance, most: int) -> Compound | None:
    """The compound of at most `most` answers that greedy patching finds; None without history.

    Each step takes the patch that brings the region nearest to the target. Among equally good ones
    an answer that was given before comes first, since it is free.
    """
    boxes = history.boxes
    if not len(boxes):
        return None
    search = _Search(target, history, distance, boxes, _SHELF.columns(boxes))
    compound = search.nearest()
    while compound.size < most and compound.error > 0:
        patched = search.patched(compound)
        if patched is None:
            break
        compound = patched
    return compound


@dataclass(frozen=True)
class _Search:
    """The answers that there are when it begins: what it asks for joins the compound at once."""

    target: Box
    history: History
    distance: Distance
    boxes: Boxes
    faces: Floats

    def nearest(self) -> Compound:
        """The answer nearest to the target."""
        from scumble.private.database.relaxation_kernels import nearest

        first, error = nearest(self.boxes, self.faces, self.target, self.distance.scales)
        return Compound(self.boxes[first].copy(), error, (first,))

    def patched(self, compound: Compound) -> Compound | None:
        """The compound with the best patch that there is, if any lowers the error."""
        from scumble.private.database.relaxation_kernels import best_patches

        region, scales = compound.region, self.distance.scales
        used = np.array(compound.plus + compound.minus, np.int64)
        known, patches, errors = best_patches(
            self.boxes, self.faces, region, self.target, scales, used, compound.error
        )
        # The nearest first, and none that is no nearer than what is free: few are asked about.
        for (sign, axis, *ends), error in zip(patches.tolist(), errors.tolist(), strict=True):
            box = _with(region, axis, ends[:2])
            if self.history.admits(box):
                answer, new = self.history.ask(box), _with(region, axis, ends[2:])
                return compound.with_answer(answer, sign, new, error, bought=True)
        answer, sign, axis, *ends, error = known
        if answer < 0:
            return None
        return compound.with_answer(answer, sign, _with(region, axis, ends), error)


def _with(box: Box, axis: int, ends: Sequence[int]) -> Box:
    changed = box.copy()
    changed[axis] = ends
    return changed
