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
        """Return the distance from the target of each box, or of one box.

        It is always added up in the order of the axes, so that equal boxes have equal distances to
        the last bit.
        """
        found: Floats = np.zeros(boxes.shape[:-2])
        for axis, (low, high) in enumerate(target.tolist()):
            starts, stops = boxes[..., axis, 0], boxes[..., axis, 1]
            found += (np.abs(starts - low) + np.abs(stops - high)) * self.scales[axis]
        return found


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
        totals = np.zeros(len(self.boxes))
        for axis, (low, high) in enumerate(self.target.astype(np.float64).tolist()):
            starts, stops = self.faces[axis, :, : len(totals)]
            moved = np.abs(starts - low)
            moved += np.abs(stops - high)
            moved *= self.distance.scales[axis]
            totals += moved
        first = int(totals.argmin())
        region = self.boxes[first].copy()
        return Compound(region, float(self.distance(region, self.target)), (first,))

    def patched(self, compound: Compound) -> Compound | None:
        """Return the compound with the best patch; None if no patch lowers the error."""
        known = self._patch_by_known(compound)
        # New patches are tried nearest first, and only those nearer than the best free one.
        for error, sign, box, region in self._new_patches(compound.region):
            if error >= (known or compound).error:
                break
            if self.history.admits(box):
                answer = self.history.ask(box)
                return compound.with_answer(answer, sign, region, error, bought=True)
        return known

    def _patch_by_known(self, compound: Compound) -> Compound | None:
        """Return the compound with the past answer that brings its region nearest to the target,
        added or subtracted; None if none brings it nearer.
        """
        region = compound.region
        near = self._neighbours(region)
        for answer in compound.plus + compound.minus:
            near = near[near != answer]
        sides = self.boxes[near] != region
        differ = sides[:, :, 0] | sides[:, :, 1]
        exact = np.count_nonzero(differ, axis=1) == 1  # columns may be rounded, boxes are not
        near, axes = near[exact], differ[exact].argmax(axis=1)
        if not len(near):
            return None
        (low, high), (first, last) = region[axes].T, self.boxes[near, axes].T
        after, before = first == high + 1, last == low - 1
        lower, upper = (first == low) & (last < high), (last == high) & (first > low)
        signs = (after | before).astype(np.int64) - (lower | upper)
        regions, places = np.repeat(region[np.newaxis], len(near), axis=0), np.arange(len(near))
        regions[places, axes, 0] = np.where(before, first, np.where(lower, last + 1, low))
        regions[places, axes, 1] = np.where(after, last, np.where(upper, first - 1, high))
        errors = np.where(signs != 0, self.distance(regions, self.target), np.inf)
        best = int(errors.argmin())
        error = float(errors[best])
        if error >= compound.error:
            return None
        return compound.with_answer(int(near[best]), int(signs[best]), regions[best], error)

    def _neighbours(self, region: Box) -> npt.NDArray[np.intp]:
        """Return the answers that differ from the region on one axis only."""
        faces = self.faces[:, :, : len(self.boxes)]
        differ = faces != region.astype(np.float64)[:, :, np.newaxis]
        axes = (differ[:, 0] | differ[:, 1]).sum(axis=0, dtype=np.int16)
        return np.flatnonzero(axes == 1)

    def _new_patches(self, region: Box) -> list[tuple[float, int, Box, Box]]:
        """Return the boxes that would move one face of the region to the target's, nearest first:
        the distance, the sign, the box, and the new region.
        """
        boxes, regions, signs = [], [], []
        ends = zip(region.tolist(), self.target.tolist(), strict=True)
        for axis, ((low, high), (first, last)) in enumerate(ends):
            if first != low and first <= high:
                signs.append(1 if first < low else -1)
                boxes.append(_with(region, axis, sorted([first, low])))
                boxes[-1][axis, 1] -= 1
                regions.append(_with(region, axis, [first, high]))
            if last != high and last >= low:
                signs.append(1 if last > high else -1)
                boxes.append(_with(region, axis, sorted([last, high])))
                boxes[-1][axis, 0] += 1
                regions.append(_with(region, axis, [low, last]))
        if not regions:
            return []
        errors = self.distance(np.array(regions), self.target)
        order = np.argsort(errors, kind="stable").tolist()
        return [(float(errors[at]), signs[at], boxes[at], regions[at]) for at in order]


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
# intersections of the answered boxes with each other and g with the box in question, they solve G w
# = g. Whether they add up to the box at every point is then checked cell by cell, so rounding
# cannot hide a bias.

MOST = 256  # answers that are considered
_MOST_AXES = 6  # whose corners are compared: 64 corners of each box
_MOST_ROUNDS = 20
_MULTIPLIER = -7046029254386353131
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


def candidates(target: Box, boxes: Boxes, distance: Distance) -> npt.NDArray[np.intp]:
    """Return the indices of at most `MOST` boxes of which the target may be made, nearest first.

    Boxes with the fewest ends at which no side of the target lies come first, and among equals the
    nearest. Two boxes that add up to the target have one such end each, and so have two whose
    difference it is.
    """
    others = np.zeros(len(boxes), np.int64)
    for axis, (low, high) in enumerate(target.tolist()):
        starts, stops = boxes[:, axis, 0], boxes[:, axis, 1]
        others += (starts != low) & (starts != high + 1)
        others += (stops != high) & (stops != low - 1)
    distances = distance(boxes, target)
    chosen = np.sort(np.lexsort((distances, others))[:MOST])
    return chosen[np.argsort(distances[chosen], kind="stable")]


def combine(target: Box, boxes: Boxes, chosen: npt.NDArray[np.intp]) -> Combination | None:
    """Return the unbiased combination of least variance of the answers `chosen` (indices).

    None if no combination of them is the target.
    """
    # Answers for the same box are replaced by their mean.
    distinct, which, times = np.unique(
        boxes[chosen], axis=0, return_inverse=True, return_counts=True
    )
    needed = _linked(distinct, target)
    found = _weights(distinct[needed], times[needed], target) if len(needed) else None
    if found is None:
        return None
    weights = np.zeros(len(distinct))
    weights[needed] = found
    shares = (weights / times)[which.reshape(-1)]
    kept = np.abs(shares) > 0
    return Combination(tuple(chosen[kept].tolist()), tuple(shares[kept].tolist()))


def _linked(boxes: Boxes, target: Box) -> npt.NDArray[np.intp]:
    """Return the indices of the boxes that may be in a combination; none if there is none.

    If weighted boxes add up to the target, so do their corners, with alternating signs. So a box
    with a corner that neither another box nor the target has gets no weight, and there is no
    combination if the target has such a corner. This holds for corners on some of the axes, too.
    Corners are compared by a hash: two that collide keep a box that is not needed.
    """
    every = np.concatenate([boxes, target[np.newaxis]])
    axes = np.flatnonzero((every != target).any(axis=(0, 2)))[:_MOST_AXES]
    corners = np.zeros((1, len(every)), np.int64)
    for axis in axes:
        corners *= _MULTIPLIER  # modulo 2^64
        corners = np.concatenate([corners + every[:, axis, 0], corners + every[:, axis, 1] + 1])
    kept = np.arange(len(every))
    for _ in range(_MOST_ROUNDS):
        _, which, times = np.unique(corners, return_inverse=True, return_counts=True)
        shared = np.asarray((times[which].reshape(corners.shape) > 1).all(axis=0))
        if not shared[-1]:
            return kept[:0]
        if shared.all():
            break
        kept, corners = kept[shared], corners[:, shared]
    return kept[:-1]


def _weights(boxes: Boxes, times: npt.NDArray[np.intp], target: Box) -> Floats | None:
    """Return the weights of least variance for boxes answered `times` times each, if any."""
    volumes = _intersect(_scaled(np.concatenate([boxes, target[np.newaxis]])))
    spread = np.sqrt(times)  # the mean of several answers has a smaller variance
    among = volumes[:-1, :-1] * np.outer(spread, spread)
    with_target, volume = volumes[:-1, -1] * spread, float(volumes[-1, -1])
    # The first is much faster, and nearly always precise enough, if only to refuse.
    for solve in (_refined, _decomposed):
        found = solve(among, with_target)
        if found is None:
            continue
        off = abs(volume - float(found @ with_target))  # squared, from the target, over all points
        if off > _NEAR * volume and volume > _SMALL:
            return None
        weights: Floats = found * spread
        whole = np.rint(weights)  # nearly always, and then the law of the error is exact
        weights = np.where(np.abs(weights - whole) <= _ROUNDING, whole, weights)
        if _adds_up(boxes, weights, target):
            return weights
    return None


# Systems have a few hundred answers. A library would start threads for these, which takes longer
# than the work on a busy machine, and all other questions wait meanwhile.


def _refined(among: Floats, with_target: Floats) -> Floats | None:
    """The minimum-norm solution by a regularised Cholesky factorization, refined."""
    factor = _factorize(among)
    if factor is None:
        return None
    found = np.zeros(len(among))
    for _ in range(_ROUNDS):
        rest = with_target.copy()
        for column, weight in zip(among, found, strict=True):
            rest -= column * weight
        found += _solve(factor, rest)
    return found


def _factorize(matrix: Floats) -> Floats | None:
    """Return the Cholesky factor of a matrix whose diagonal is raised slightly; None if it is not
    positive definite even so.
    """
    factor = matrix.copy()
    factor[np.diag_indices(len(matrix))] += (_SLIGHT * matrix.diagonal()).max(initial=0.0)
    for column in range(len(matrix)):
        if factor[column, column] <= 0:
            return None
        factor[column, column] = np.sqrt(factor[column, column])
        below = factor[column + 1 :, column]
        below /= factor[column, column]
        factor[column + 1 :, column + 1 :] -= np.multiply.outer(below, below)
    return factor  # what lies above the diagonal is not part of it


def _solve(factor: Floats, wanted: Floats) -> Floats:
    """Solve a system by its Cholesky factor and the transpose."""
    found = wanted.copy()
    for row in range(len(found)):
        found[row] /= factor[row, row]
        found[row + 1 :] -= factor[row + 1 :, row] * found[row]
    for row in range(len(found) - 1, -1, -1):
        found[row] /= factor[row, row]
        found[:row] -= factor[row, :row] * found[row]
    return found


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


def _intersect(sides: Floats) -> Floats:
    """Return the volumes of the intersections of all pairs of boxes, given by half-open sides."""
    volumes = np.ones((len(sides), len(sides)))
    for axis in range(sides.shape[1]):
        starts, stops = sides[:, axis].T
        overlap = np.minimum.outer(stops, stops) - np.maximum.outer(starts, starts)
        volumes *= np.maximum(overlap, 0.0)
    return volumes
