"""Regression: the best linear unbiased combination of past answers for a box.

Answers are true counts of boxes plus independent noise of one variance. Weights w give an unbiased
answer for a box exactly if the weighted indicators of the answered boxes add up to its indicator at
every point; among all such weights those of the least Σ w² have the least variance (Gauss-Markov).
Volumes of intersections are enough to find them: with G the volumes of the intersections of the
answered boxes with each other and g with the box in question, they solve G w = g. Whether they add
up to the box at every point is then checked cell by cell, so rounding cannot hide a bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scumble.private.database.space import Box, Boxes

Floats = npt.NDArray[np.float64]

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
    from scumble.private.database.regression_kernels import intersections

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
    from scumble.private.database.regression_kernels import refined

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
