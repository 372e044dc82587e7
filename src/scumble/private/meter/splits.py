"""Cuts of boxes near their medians, behind the meter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from scumble.model.designs.boxes import Boxes, summed_area
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import Loss
from scumble.private.meter.private_counts import PrivateCounts, check_scale
from scumble.private.sampling.hidden import Hidden

Integers = npt.NDArray[np.int64]


def median_cuts(
    counts: PrivateCounts, shape: tuple[int, ...], boxes: Boxes, axis: int, *, epsilon: Fraction
) -> Integers:
    """For each of disjoint boxes a code of one attribute, close to the median of its rows; the
    highest code of a box that has only one. The choices together are ε-DP.

    Every code but the last is a candidate, and its score the difference between the rows of the box
    up to it and after it; the least of the scores after geometric noise is taken. A row more or
    less changes the scores of its own box by at most 1 each, and no others. So each choice changes
    by a factor of at most exp(2 d / scale), where d are the changed rows in its box; all of them
    together are at most `sensitivity`, so that scale = 2 · sensitivity / ε makes it e^ε. Codes
    between two rows have equal scores: an interval is taken in proportion to its length.
    """
    from scumble.private.sampling.selection import noisy_least

    scale = 2 * counts.person.sensitivity / epsilon
    check_scale(DiscreteLaplace(scale))
    counts.charge("medians", Loss(epsilon))
    last: Integers = boxes.high[axis].copy()
    wide = np.flatnonzero(last > boxes.low[axis])
    if not len(wide):
        return last
    inside = boxes.take(wide)
    sums, begins = inside.slices(counts._counts.reshape(shape), axis)
    lengths = inside.sizes[axis]
    below = np.cumsum(sums)
    ends = begins + lengths - 1
    before, through = below[begins] - sums[begins], below[ends]  # all boxes before, and up to this
    scores = np.abs(2 * below - np.repeat(before + through, lengths))
    candidates = np.ones(len(scores), bool)
    candidates[ends] = False
    places = np.flatnonzero(candidates)
    starts = begins - np.arange(len(wide))
    scores = scores[places]
    least = noisy_least(counts._noise, scores, starts, scale)
    counts._noise.watch(Hidden("least", scores, DiscreteLaplace(scale), least, starts))
    chosen = places[least]
    last[wide] = inside.low[axis] + chosen - begins
    return last


def mean_cuts(
    counts: PrivateCounts, shape: tuple[int, ...], boxes: Boxes, axis: int, *, epsilon: Fraction
) -> Integers:
    """For each of disjoint boxes the code at or below the mean of its rows, out of a noisy sum and
    a noisy count; together they are ε-DP.

    Codes are taken from the lowest of their box on, so that a row changes the sum by less than the
    size of the largest box, and the count by 1; each gets half of ε.
    """
    from scumble.private.sampling.noise import discrete_laplace

    longest = int(boxes.sizes[axis].max()) - 1
    scales = [2 * counts.person.sensitivity * max(w, 1) / epsilon for w in (longest, 1)]
    for scale in scales:
        check_scale(DiscreteLaplace(scale))
    counts.charge("means", Loss(epsilon))
    tensor = counts._counts.reshape(shape)
    along = [1] * tensor.ndim
    along[axis] = shape[axis]
    codes = np.arange(shape[axis]).reshape(along)
    rows = boxes.sums(summed_area(tensor))
    sums = boxes.sums(summed_area(tensor * codes)) - boxes.low[axis] * rows
    for numbers, scale in zip((sums, rows), scales, strict=True):
        counts._noise.watch(Hidden("sums", numbers, DiscreteLaplace(scale)))
    noise = (discrete_laplace(counts._noise, scale, len(boxes)) for scale in scales)
    means = (sums + next(noise)) // np.maximum(rows + next(noise), 1)
    highest = np.maximum(boxes.high[axis] - 1, boxes.low[axis])
    last: Integers = np.clip(boxes.low[axis] + means, boxes.low[axis], highest)
    return last
