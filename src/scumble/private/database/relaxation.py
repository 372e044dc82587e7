"""Relaxation: an answer for a box made of past answers, where a new one would exceed ε.

`relax` adds and subtracts a few past answers, which make up a box near the question's. `combine` is
the best linear unbiased combination of past answers for exactly one box.
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

Floats = npt.NDArray[np.float64]


class FaceColumns:
    """The faces of a growing array of boxes as columns, so that many are compared at a time.

    The faces are floating-point numbers, which are compared fastest. A code above 2^53 is rounded:
    the caller has to check a box that it finds here against the integers.
    """

    def __init__(self, axes: int) -> None:
        self._faces = np.empty((axes, 2, 64))
        self._count = 0

    def of(self, boxes: Boxes) -> Floats:
        """Return the faces of boxes as [axis, side, box], which may be longer than the boxes.

        The boxes must begin with those of the last call.
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
    """A cache of face columns. An entry is dropped with its array of boxes.

    An array of past answers is filled from its beginning and not changed there, and relaxation
    searches it again and again. Only boxes added since the last search are copied.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Boxes], FaceColumns]] = {}
        self._lock = threading.Lock()

    def columns(self, boxes: Boxes) -> Floats:
        """Return the face columns of an array of boxes, or of a view of its beginning."""
        owner = _owner(boxes)
        with self._lock:
            known = self._kept.get(id(owner))
            if known is None or known[0]() is not owner:
                known = weakref.ref(owner, self._dropper(id(owner))), FaceColumns(boxes.shape[1])
                self._kept[id(owner)] = known
            return known[1].of(boxes)

    def _dropper(self, place: int) -> Callable[[weakref.ref[Boxes]], None]:
        def drop(reference: weakref.ref[Boxes]) -> None:
            # Another array may have the same address by now.
            if place in self._kept and self._kept[place][0] is reference:
                del self._kept[place]

        return drop


def _owner(boxes: Boxes) -> Boxes:
    """Return the array of which `boxes` is the beginning; else `boxes` itself."""
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
    """The relaxation error: the distance of a box from the box of the question.

    It is the mean over the attributes of how far both ends have moved, as a share of the
    attribute's range, times the attribute's weight.
    """

    sizes: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def over(cls, sizes: Sequence[int], weights: Sequence[float] | None = None) -> Distance:
        given = (1.0,) * len(sizes) if weights is None else tuple(map(float, weights))
        return cls(tuple(sizes), given)

    @cached_property
    def scales(self) -> Floats:
        """The distance by which moving an end by one counts, for every attribute."""
        # An attribute of one value has no range, and its ends cannot move.
        ranges = np.maximum(np.array(self.sizes) - 1, 1)
        found: Floats = np.array(self.weights) / ranges / len(self.sizes)
        return found

    def __call__(self, boxes: Boxes, target: Box) -> Floats:
        """Return the distance from the target of each box, or of one box."""
        from scumble.private.database.relaxation_kernels import distances

        found: Floats = distances(boxes.reshape(-1, *target.shape), target, self.scales)
        return found.reshape(boxes.shape[:-2])


class History(Protocol):
    """The boxes of all past answers, to which new ones may be added."""

    @property
    def boxes(self) -> Boxes:
        """An array (answers, attributes, 2), in the order of the answers, which never changes."""

    def admits(self, box: Box) -> bool:
        """Whether one more answer fits within ε. It depends on earlier questions only."""

    def ask(self, box: Box) -> int:
        """Ask for a new answer, which is charged, and return its index among the answers."""


@dataclass(frozen=True)
class Compound:
    """Answers whose signed sum is the count of one box, `region`."""

    region: Box
    error: float  # the distance of the region from the box of the question
    plus: tuple[int, ...]
    minus: tuple[int, ...] = ()
    bought: tuple[int, ...] = ()  # the new answers among them

    @property
    def size(self) -> int:
        return len(self.plus) + len(self.minus)

    def signs(self) -> dict[int, int]:
        """Return the sign of every answer in the sum."""
        return {**dict.fromkeys(self.plus, 1), **dict.fromkeys(self.minus, -1)}

    def with_answer(
        self, answer: int, sign: int, region: Box, error: float, *, bought: bool = False
    ) -> Compound:
        """Return the compound with one more answer, and the region that results."""
        return Compound(
            region,
            error,
            (*self.plus, answer) if sign > 0 else self.plus,
            (*self.minus, answer) if sign < 0 else self.minus,
            (*self.bought, answer) if bought else self.bought,
        )


def relax(target: Box, history: History, distance: Distance, most: int) -> Compound | None:
    """Return the compound of at most `most` answers by greedy patching; None without history.

    Each step takes the patch that brings the region nearest to the target. Among equal ones a past
    answer comes first, since it is free.
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
    """A search among the answers at its beginning. New answers join the compound at once."""

    target: Box
    history: History
    distance: Distance
    boxes: Boxes
    faces: Floats

    def nearest(self) -> Compound:
        """Return the compound of the answer nearest to the target."""
        from scumble.private.database.relaxation_kernels import nearest

        first, error = nearest(self.boxes, self.faces, self.target, self.distance.scales)
        return Compound(self.boxes[first].copy(), error, (first,))

    def patched(self, compound: Compound) -> Compound | None:
        """Return the compound with the best patch; None if no patch lowers the error."""
        from scumble.private.database.relaxation_kernels import best_patches

        region, scales = compound.region, self.distance.scales
        used = np.array(compound.plus + compound.minus, np.int64)
        known, patches, errors = best_patches(
            self.boxes, self.faces, region, self.target, scales, used, compound.error
        )
        # New patches are tried nearest first, and only those nearer than the best free one.
        for (sign, axis, *ends), error in zip(patches.tolist(), errors.tolist(), strict=True):
            box = _with(region, axis, ends[:2])
            if self.history.admits(box):
                answer, new = self.history.ask(box), _with(region, axis, ends[2:])
                return compound.with_answer(answer, sign, new, error, bought=True)
        answer, sign, axis, *ends, error = known
        if answer < 0:
            return None
        changed = _with(region, axis, ends)
        return compound.with_answer(int(answer), int(sign), changed, float(error))


def _with(box: Box, axis: int, ends: Sequence[int]) -> Box:
    changed = box.copy()
    changed[axis] = ends
    return changed


# --- regression -----------------------------------------------------------------------------------
#
# Answers are true counts of boxes plus independent noise of one variance. Weights w give an
# unbiased answer for a box exactly if the weighted indicators of the answered boxes add up to its
# indicator at every point; among all such weights those of the least Σ w² have the least variance
# (Gauss-Markov). Volumes of intersections are enough to find them: with G the volumes of the
# intersections of the answered boxes with each other and g with the box in question, they solve G
# w = g. Whether they add up to the box at every point is then checked cell by cell, so rounding
# cannot hide a bias.

MOST = 256  # nearest answers that are considered
_MOST_CELLS = 1_000_000
_ROUNDING = 1e-7  # of a weight
_NEAR = 1e-6  # of the volume of the target
_SLIGHT = 1e-9
_ROUNDS = 3
_SMALL = 1e-5  # a volume, in boxes with the longest sides


@dataclass(frozen=True)
class Combination:
    """Answers and weights whose weighted sum is unbiased for the box."""

    answers: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def squares(self) -> float:
        """The variance of the weighted sum, in variances of one answer."""
        return float(sum(weight * weight for weight in self.weights))


def nearest(distances: Floats) -> npt.NDArray[np.intp]:
    """Return the indices of the `MOST` least distances, in order; ties by index."""
    if len(distances) <= MOST:
        return np.argsort(distances, kind="stable")
    farthest = np.partition(distances, MOST - 1)[MOST - 1]  # faster than sorting all of them
    near = np.flatnonzero(distances <= farthest)
    return near[np.argsort(distances[near], kind="stable")][:MOST]


def combine(target: Box, boxes: Boxes, near: npt.NDArray[np.intp]) -> Combination | None:
    """Return the unbiased combination of least variance of the answers `near` (indices).

    None if no combination of them is the target.
    """
    chosen = near[:MOST]
    # Answers for the same box are replaced by their mean.
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
    """Return the weights of least variance for boxes answered `times` times each, if any."""
    from scumble.private.database.relaxation_kernels import intersections

    volumes = intersections(_scaled(np.concatenate([boxes, target[np.newaxis]])))
    spread = np.sqrt(times)  # the mean of several answers has a smaller variance
    among = volumes[:-1, :-1] * np.outer(spread, spread)
    with_target, whole = volumes[:-1, -1] * spread, float(volumes[-1, -1])
    # The first is much faster, and nearly always precise enough, if only to refuse.
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
    """The minimum-norm solution by a regularised Cholesky factorization, refined."""
    from scumble.private.database.relaxation_kernels import refined

    found, definite = refined(among, with_target, _SLIGHT, _ROUNDS)
    return found if definite else None


def _decomposed(among: Floats, with_target: Floats) -> Floats | None:
    """The minimum-norm solution by singular values."""
    return np.linalg.lstsq(among, with_target, rcond=1e-12)[0].astype(np.float64)


def _adds_up(boxes: Boxes, weights: Floats, target: Box) -> bool:
    """Whether the weighted indicators of the boxes add up to the target's in every cell."""
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
    """Half-open boxes in units of each attribute's longest side, so that volumes are near 1."""
    lowest = boxes[:, :, 0].min(axis=0)
    sides = (boxes - lowest[np.newaxis, :, np.newaxis]).astype(np.float64)
    sides[:, :, 1] += 1
    longest = (sides[:, :, 1] - sides[:, :, 0]).max(axis=0)
    found: npt.NDArray[np.float64] = sides / longest[np.newaxis, :, np.newaxis]
    return found
