"""Compound answers and regression from past answers.

Relaxation: a question that may not be asked any more, answered by adding and subtracting answers
that were given before, for a box as near to the question's as these allow.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scumble.private.database.space import Box, Boxes

# The faces of boxes as columns, so that many boxes are compared at a time.

Floats = npt.NDArray[np.float64]


class FaceColumns:
    """A copy of boxes whose number only grows, brought up to date when it is asked for.

    The faces are floating-point numbers, which are compared fastest; a code above 2^53 is rounded,
    so that whoever finds a box here has to look at the box itself before relying on it.
    """

    def __init__(self, axes: int) -> None:
        self._faces = np.empty((axes, 2, 64))
        self._count = 0

    def of(self, boxes: Boxes) -> Floats:
        """The faces of boxes, and room for more: [axis, side, box].

        The boxes begin with those of the last time.
        """
        count = len(boxes)
        if count > self._faces.shape[2]:
            longer = np.empty((*self._faces.shape[:2], 2 * count))
            longer[:, :, : self._count] = self._faces[:, :, : self._count]
            self._faces = longer
        if count > self._count:
            self._faces[:, :, self._count : count] = np.moveaxis(boxes[self._count :], 0, 2)
            self._count = count
        return self._faces


class ColumnCache:
    """The columns of arrays of answers, each kept as long as its array is.

    An array of answers is filled from its beginning and not changed there, and relaxation asks
    about it again and again: only what has been added since is copied.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Boxes], FaceColumns]] = {}
        self._lock = threading.Lock()

    def columns(self, boxes: Boxes) -> Floats:
        """The faces of boxes, which are an array of answers, or the first of one, as columns that
        may be longer.
        """
        owner = _owner(boxes)
        with self._lock:
            known = self._kept.get(id(owner))
            if known is None or known[0]() is not owner:
                known = weakref.ref(owner, self._dropper(id(owner))), FaceColumns(boxes.shape[1])
                self._kept[id(owner)] = known
            return known[1].of(boxes)

    def _dropper(self, place: int) -> Callable[[weakref.ref[Boxes]], None]:
        def drop(reference: weakref.ref[Boxes]) -> None:
            # Another array may stand at the same address by now.
            if place in self._kept and self._kept[place][0] is reference:
                del self._kept[place]

        return drop


def _owner(boxes: Boxes) -> Boxes:
    """The array that a view shows the beginning of; any other view stands for itself."""
    base = boxes.base
    if (
        isinstance(base, np.ndarray)
        and base.shape[1:] == boxes.shape[1:]
        and base.strides == boxes.strides
        and base.__array_interface__["data"] == boxes.__array_interface__["data"]
    ):
        return base
    return boxes


_COLUMNS = ColumnCache()


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
    search = _Search(target, history, distance, boxes, _COLUMNS.columns(boxes))
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


# Regression: the best linear unbiased combination of past answers for a box.
#
# Answers are true counts of boxes plus independent noise of one variance. Weights w give an
# unbiased answer for a box exactly if the weighted indicators of the answered boxes add up to its
# indicator at every point; among all such weights those of the least Σ w² have the least variance
# (Gauss-Markov). Volumes of intersections are enough to find them: with G the volumes of the
# intersections of the answered boxes with each other and g with the box in question, they solve G
# w = g. Whether they add up to the box at every point is then checked cell by cell, so rounding
# cannot hide a bias.

MOST = 256  # answers that are considered: the nearest ones
_MOST_CELLS = 1_000_000
_ROUNDING = 1e-7  # of a weight
_NEAR = 1e-6  # of the volume of the target
_SLIGHT = 1e-9
_ROUNDS = 3
_SMALL = 1e-5  # a volume, in boxes with the longest sides


@dataclass(frozen=True)
class Combination:
    """Answers and their weights, whose sum is unbiased for the box."""

    answers: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def squares(self) -> float:
        """The variance of the sum, in variances of one answer."""
        return float(sum(weight * weight for weight in self.weights))


def nearest(distances: Floats) -> npt.NDArray[np.intp]:
    """The places of the least distances, in their order, the first of equals first: as many answers
    as are considered.
    """
    if len(distances) <= MOST:
        return np.argsort(distances, kind="stable")
    farthest = np.partition(distances, MOST - 1)[MOST - 1]  # faster than to sort all of them
    near = np.flatnonzero(distances <= farthest)
    return near[np.argsort(distances[near], kind="stable")][:MOST]


def combine(target: Box, boxes: Boxes, near: npt.NDArray[np.intp]) -> Combination | None:
    """The combination of least variance among answers that are `near`, or None if the target is
    none of them.
    """
    chosen = near[:MOST]
    # A box that was answered several times counts once, with the mean of its answers.
    distinct, which, times = np.unique(
        boxes[chosen], axis=0, return_inverse=True, return_counts=True
    )
    weights = _weights(distinct, times, target)
    if weights is None:
        return None
    shares = (weights / times)[which.reshape(-1)]
    kept = np.abs(shares) > 0
    return Combination(tuple(chosen[kept].tolist()), tuple(shares[kept].tolist()))


def _weights(boxes: Boxes, times: npt.NDArray[np.intp], target: Box) -> Floats | None:
    """Those of the least variance for boxes that were answered so many times, if there are any."""
    from scumble.private.database.relaxation_kernels import intersections

    volumes = intersections(_scaled(np.concatenate([boxes, target[np.newaxis]])))
    spread = np.sqrt(times)  # the mean of several answers varies less
    among = volumes[:-1, :-1] * np.outer(spread, spread)
    with_target, whole = volumes[:-1, -1] * spread, float(volumes[-1, -1])
    # The first is much faster, and all but always good enough, or good enough to say no.
    for solve in (_refined, _decomposed):
        found = solve(among, with_target)
        if found is None:
            continue
        off = abs(whole - float(found @ with_target))  # squared, from the target, over all points
        if off > _NEAR * whole and whole > _SMALL:
            return None
        weights: Floats = found * spread
        weights[np.abs(weights) <= _ROUNDING] = 0
        if _adds_up(boxes, weights, target):
            return weights
    return None


def _refined(among: Floats, with_target: Floats) -> Floats | None:
    """The least solution by a factorization of what is made definite by a little, refined."""
    from scumble.private.database.relaxation_kernels import refined

    found, definite = refined(among, with_target, _SLIGHT, _ROUNDS)
    return found if definite else None


def _decomposed(among: Floats, with_target: Floats) -> Floats | None:
    """The least solution by singular values."""
    return np.linalg.lstsq(among, with_target, rcond=1e-12)[0].astype(np.float64)


def _adds_up(boxes: Boxes, weights: Floats, target: Box) -> bool:
    """Whether the weighted boxes make exactly the target, in every cell that their faces cut."""
    some = weights != 0
    boxes, weights = boxes[some], weights[some]
    every = np.concatenate([boxes, target[np.newaxis]])
    cuts = [
        np.unique(np.append(every[:, axis, 0], every[:, axis, 1] + 1))
        for axis in range(len(target))
    ]
    if np.prod([float(len(cut)) for cut in cuts]) > _MOST_CELLS:
        return False
    cells = np.zeros([len(cut) for cut in cuts])
    for box, weight in zip(every, [*weights, -1.0], strict=True):
        place = tuple(
            slice(*np.searchsorted(cut, [low, high + 1]))
            for cut, (low, high) in zip(cuts, box, strict=True)
        )
        cells[place] += weight
    return bool(np.abs(cells).max(initial=0.0) < _ROUNDING * max(len(weights), 1))


def _scaled(boxes: Boxes) -> npt.NDArray[np.float64]:
    """Half-open boxes, every attribute in units of its longest side: volumes stay near 1."""
    lowest = boxes[:, :, 0].min(axis=0)
    sides = (boxes - lowest[np.newaxis, :, np.newaxis]).astype(np.float64)
    sides[:, :, 1] += 1
    longest = (sides[:, :, 1] - sides[:, :, 0]).max(axis=0)
    found: npt.NDArray[np.float64] = sides / longest[np.newaxis, :, np.newaxis]
    return found
