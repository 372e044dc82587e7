"""Private decisions about boxes: cuts near the median or mean, PrivTree splits, DAWA partitions."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, log

import numpy as np
import numpy.typing as npt

from scumble.model.designs import kernels
from scumble.model.designs.boxes import Boxes, summed_area
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateCounts

Integers = npt.NDArray[np.int64]


_PARTS = 1 << 20  # of Δ/ε, in which the scale of the noise is sought


def median_cuts(
    counts: PrivateCounts, shape: tuple[int, ...], boxes: Boxes, axis: int, *, epsilon: Fraction
) -> Integers:
    """Return, for each of the disjoint `boxes`, a code of attribute `axis` close to the median of
    its rows (the highest code of a box that has only one). The choices together are ε-DP.

    Every code but the last is a candidate. Its score is the absolute difference between the rows of
    the box up to it and after it. The least score after geometric noise is chosen. Adding or
    removing a row changes the scores of its own box by at most 1 each, and no others. So each
    choice changes in probability by a factor of at most exp(2 d / scale), where d is the number of
    changed rows in its box. The d of all boxes add up to at most `sensitivity`, so that
    scale = 2 · sensitivity / ε makes the factor e^ε. Codes between two rows have equal scores: an
    interval of codes is chosen in proportion to its length.
    """
    law = DiscreteLaplace(2 * counts.unit.sensitivity / epsilon)
    check_scale(law)
    counts.charge("medians", PrivacyLoss(epsilon))
    last: Integers = boxes.high[axis].copy()
    wide = np.flatnonzero(last > boxes.low[axis])
    if not len(wide):
        return last
    inside = boxes.take(wide)
    sums, begins = inside.slices(counts._counts.reshape(shape), axis)
    starts = begins - np.arange(len(wide))  # of the scores of each box, one less than its codes
    scores = np.empty(len(sums) - len(wide), np.int64)
    kernels.imbalances(sums, starts, scores)
    last[wide] = inside.low[axis] + counts._noise.least(scores, starts, law) - starts
    return last


def mean_cuts(
    counts: PrivateCounts, shape: tuple[int, ...], boxes: Boxes, axis: int, *, epsilon: Fraction
) -> Integers:
    """Return, for each of the disjoint `boxes`, the code of attribute `axis` at or below the mean
    of its rows, from a noisy sum and a noisy count. The choices together are ε-DP.

    Codes are counted from the lowest of their box, so that a row changes the sum by less than the
    size of the largest box, and the count by 1. Sum and count get half of ε each.
    """
    longest = int(boxes.sizes[axis].max()) - 1
    half = epsilon / (2 * counts.unit.sensitivity)
    laws = [DiscreteLaplace(max(most, 1) / half) for most in (longest, 1)]
    for law in laws:
        check_scale(law)
    counts.charge("means", PrivacyLoss(epsilon))
    tensor = counts._counts.reshape(shape)
    along = [1] * tensor.ndim
    along[axis] = shape[axis]
    codes = np.arange(shape[axis]).reshape(along)
    rows = boxes.sums(summed_area(tensor))
    sums = boxes.sums(summed_area(tensor * codes)) - boxes.low[axis] * rows
    for numbers, law in zip((sums, rows), laws, strict=True):
        counts._noise.add(numbers, law)
    means = sums // np.maximum(rows, 1)
    highest = np.maximum(boxes.high[axis] - 1, boxes.low[axis])
    last: Integers = np.clip(boxes.low[axis] + means, boxes.low[axis], highest)
    return last


# --- PrivTree: boxes are split where many rows are -----------------------------------------------

_GRID = 1 << 64  # losses are rounded up to multiples of 2^-64
_DIGITS = 50
_SMALL = Decimal(10) ** -24  # smaller terms of the series are bounded together


@dataclass(frozen=True)
class SplitRule:
    """The rule of PrivTree: a box at depth d with c rows is split if
    max(c - d · decay, -decay) + noise > 0, with discrete Laplace noise of the given scale. A box of
    one cell is never split.
    """

    scale: Fraction
    decay: int

    def loss(self, unit: PrivacyUnit) -> Fraction:
        """Return the ε of the whole tree: a bound on the change of the logarithm of the
        probability of any tree by one person.

        Let x = c - d · decay, p(x) = P(x + noise > 0) and ρ(x) = ln p(x) - ln p(x - 1). With
        α = exp(-1 / scale), p(x) is α^(1-x) / (1 + α) for x <= 0 and 1 - α^x / (1 + α) above: so
        ρ(x) = 1 / scale up to x = 1, and falls from there, being
        ln(1 + α - α^x) - ln(1 + α - α^(x-1)).

        An added row changes the counts of the boxes that hold it: one at every depth, whose x
        falls by at least `decay` from one depth to the next. Boxes with x <= -decay are taken at
        -decay with and without the row. So the others, from the lowest up, have x of at least
        1 - decay, 1, 1 + decay, …, and all the splits together become more probable by at most
        ρ(1 - decay) + ρ(1) + ρ(1 + decay) + … = 2 / scale + Σ_j ρ(1 + j · decay).
        That no further box is split becomes less probable by a factor of at most exp(1 / scale).
        A removed row reverses both. Replacing a row removes one and adds one: the sum of both.
        """
        return _loss(self.scale, self.decay, unit.rows, unit.neighbours == "replace")


@lru_cache(maxsize=256)
def _loss(scale: Fraction, decay: int, rows: int, replaced: bool) -> Fraction:
    with localcontext() as context:
        context.prec = _DIGITS
        rate = Decimal(scale.denominator) / Decimal(scale.numerator)
        ratio = (-rate).exp()
        fall = ratio**decay
        term, total = fall, 2 * rate
        while term > _SMALL:
            total += ((1 + ratio - ratio * term) / (1 + ratio - term)).ln()
            term *= fall
        total += rate * term / (1 - fall)  # more than all the terms left out
        if replaced:
            total += rate
        # The margin of 10^-40 exceeds all rounding errors at 50 digits.
        bound = rows * total * (1 + Decimal(10) ** -40) * _GRID
        return Fraction(int(bound.to_integral_value(ROUND_CEILING)), _GRID)


def split_boxes(
    counts: PrivateCounts, shape: tuple[int, ...], rule: SplitRule, blocks: Boxes | None = None
) -> Boxes:
    """Return the leaves of trees that halve boxes in every attribute where `rule` splits them.

    The trees grow from `blocks`, disjoint boxes that tile the domain and do not depend on the
    data; by default from the whole domain. A row is in one block, so that it changes one tree, and
    the loss is that of a single tree. The leaves tile the domain.
    """
    law = DiscreteLaplace(rule.scale)
    check_scale(law)
    counts.charge("splits", PrivacyLoss(rule.loss(counts.unit)))
    summed = summed_area(counts._counts.reshape(shape))
    boxes, depth, leaves = Boxes.whole(shape) if blocks is None else blocks, 0, []
    while len(boxes):
        biased = np.maximum(boxes.sums(summed) - depth * rule.decay, -rule.decay)
        split = counts._noise.above_zero(biased, law, boxes.cells > 1)
        leaves.append(boxes.take(np.flatnonzero(~split)))
        boxes, _ = boxes.take(np.flatnonzero(split)).halves()
        depth += 1
    return Boxes.joined(leaves)


# --- DAWA: a partition of codes into buckets of nearly equal counts ------------------------------


def noisy_partition(
    counts: PrivateCounts, *, epsilon: Fraction, price: int, codes: int | None = None
) -> npt.NDArray[np.int64]:
    """Return the last code of each bucket of the cheapest partition after noise. A bucket costs
    `price` plus the absolute deviations of its counts from their median, less its noise. The choice
    is ε-DP. It is made for the first `codes` codes, by default for all; rows with other codes
    change nothing.

    Each possible bucket has its own geometric noise. Take a partition P, a row in some code, and
    the bucket B of P around it; fix all noise but that of B. Every partition has one bucket around
    the code, whose deviations change by at most 1 with the row; no other bucket changes. Against
    partitions that have B as well, P wins or loses whatever B costs. Against all others it wins if
    the noise of B is at least some integer t, which changes by at most 2: by 1 for the cost of P
    and by 1 for the best of the others. As P(noise >= t + 2) >= exp(-2 / scale) P(noise >= t), the
    probability of P changes by a factor of at most exp(2 / scale). That is for one row. Rows are
    changed one after the other, so that scale = 2 · sensitivity / ε makes the factor e^ε for a
    person. Ties are broken by the shape of the partitions alone, which does not depend on the data.
    """
    law = DiscreteLaplace(2 * counts.unit.sensitivity / epsilon)
    check_scale(law)
    counts.charge("partition", PrivacyLoss(epsilon))
    buckets = Buckets(counts.size if codes is None else codes)
    costs = buckets.deviations(counts._counts[: buckets.size]) + price
    return counts._noise.cheapest(costs, law, buckets.cheapest)


@dataclass(frozen=True)
class Buckets:
    """All intervals of `size` counts whose length is a power of two, from which partitions are
    made. They are numbered by length, then by their first place.
    """

    size: int

    @cached_property
    def lengths(self) -> Integers:
        return 1 << np.arange(self.size.bit_length())

    @cached_property
    def starts(self) -> Integers:
        """The number of the first interval of each length."""
        return np.cumsum([0, *(self.size - self.lengths + 1)])[:-1]

    @property
    def number(self) -> int:
        """The number of intervals."""
        return int((self.size - self.lengths + 1).sum())

    def deviations(self, counts: Integers) -> Integers:
        """Return, for each interval, the sum of absolute deviations from the median of its counts.

        It is the least Σ |count - m| over all integers m. For every m the sum changes by at most 1
        if one count changes by 1, and so does the least sum.
        """
        values, ranks = np.unique(counts, return_inverse=True)
        out = np.zeros(self.number, np.int64)
        for start, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True):
            part = out[start : start + self.size - length + 1]
            kernels.deviations(ranks, values, length, part)
        return out

    def cheapest(self, costs: Integers) -> Integers:
        """Return the last place of every bucket of the cheapest partition. Of equally cheap ones it
        is the one with the shortest last bucket, then the shortest before it, and so on.
        """
        last = np.zeros(self.size + 1, np.int64)
        kernels.cheapest(costs, self.starts, self.lengths, last)
        ends, end = [], self.size
        while end:
            ends.append(end - 1)
            end -= int(last[end])
        return np.array(ends[::-1], np.int64)


@lru_cache(maxsize=64)
def split_rule(epsilon: Fraction, pieces: int, person: PrivacyUnit) -> SplitRule:
    """Return the rule of least noise whose loss is at most ε, with the decay of the paper."""

    def rule(scale: Fraction) -> SplitRule:
        return SplitRule(scale, max(ceil(float(scale) * log(pieces)), 1))

    unit = Fraction(person.sensitivity) / (epsilon * _PARTS)
    low, high = _PARTS, 4 * _PARTS
    while high - low > 1:
        middle = (low + high) // 2
        if rule(middle * unit).loss(person) > epsilon:
            low = middle
        else:
            high = middle
    return rule(high * unit)
