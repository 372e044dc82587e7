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

    @cached_property
    def scales(self) -> Floats:
        """What it costs to move an end by one, for every attribute."""
        # An attribute of one value has no range, and its ends cannot move.
        ranges = np.maximum(np.array(self.sizes) - 1, 1)
        found: Floats = np.array(self.weights) / ranges / len(self.sizes)
        return found

    def __call__(self, boxes: Boxes, target: Box) -> Floats:
        """The distance of each of some boxes, or of one, from the target."""
        from scumble.database.patch_kernels import distances

        found: Floats = distances(boxes.reshape(-1, *target.shape), target, self.scales)
        return found.reshape(boxes.shape[:-2])


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
    from scumble.database.patch_kernels import nearest

    boxes = np.ascontiguousarray(history.boxes)
    if not len(boxes):
        return None
    first, error = nearest(boxes, target, distance.scales)
    compound = Compound(boxes[first].copy(), error, (first,))
    while compound.size < most and compound.error > 0:
        patched = _patched(compound, target, history, distance)
        if patched is None:
            break
        compound = patched
    return compound


def _patched(
    compound: Compound, target: Box, history: History, distance: Distance
) -> Compound | None:
    """The compound with the best patch that there is, if any lowers the error."""
    from scumble.database.patch_kernels import known_patch, new_patches

    region, scales = compound.region, distance.scales
    used = np.array(compound.plus + compound.minus, np.int64)
    answer, sign, axis, *ends, error = known_patch(
        np.ascontiguousarray(history.boxes), region, target, scales, used, compound.error
    )
    # The nearest first: most of them need not be asked about.
    for patch, nearer in zip(*new_patches(region, target, scales, error), strict=True):
        box = _with(region, patch[1], patch[2:4])
        if history.admits(box):
            bought = history.ask(box)
            return compound.with_answer(
                bought, patch[0], _with(region, patch[1], patch[4:]), float(nearer), bought=True
            )
    if answer < 0:
        return None
    return compound.with_answer(answer, sign, _with(region, axis, ends), error)


def _with(box: Box, axis: int, ends: Sequence[int] | Box) -> Box:
    changed = box.copy()
    changed[axis] = ends
    return changed
