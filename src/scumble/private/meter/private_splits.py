"""Boxes that are split where many rows are, behind the meter."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from scumble.model.designs.boxes import Boxes, summed_area
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import Loss
from scumble.model.privacy.person import Person
from scumble.private.meter.private_counts import PrivateCounts, check_scale
from scumble.private.sampling.hidden import Hidden

_GRID = 1 << 64
_DIGITS = 50
_SMALL = Decimal(10) ** -24  # smaller terms are bounded together


@dataclass(frozen=True)
class SplitRule:
    """A box at depth d with c rows is split if max(c - d · decay, -decay) + noise > 0, the noise
    discrete Laplace of some scale; a box of one cell never is.
    """

    scale: Fraction
    decay: int

    def loss(self, person: Person) -> Fraction:
        """A bound on how much one person changes the logarithm of the probability of any tree.

        Let x = c - d · decay, p(x) = P(x + noise > 0) and ρ(x) = ln p(x) - ln p(x - 1). With
        α = exp(-1 / scale), p(x) is α^(1-x) / (1 + α) for x <= 0 and 1 - α^x / (1 + α) above: so
        ρ(x) = 1 / scale up to x = 1, and falls from there, being
        ln(1 + α - α^x) - ln(1 + α - α^(x-1)).

        A row more changes the counts of the boxes that hold it, which is one at every depth, and
        whose x goes down by at least `decay` from one to the next. Boxes with x <= -decay are
        taken at -decay with and without the row; so the others, from the lowest up, have x of at
        least 1 - decay, 1, 1 + decay, …, and all the splits become more probable by at most
        ρ(1 - decay) + ρ(1) + ρ(1 + decay) + … = 2 / scale + Σ_j ρ(1 + j · decay).
        That no further box is split becomes less probable by a factor of at most exp(1 / scale).
        A row less turns these round. Replacing a row is one less and one more: the sum of both.
        """
        return _loss(self.scale, self.decay, person.rows, person.neighbours == "replace")


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
        # The digits left out are fewer than those that are added here.
        bound = rows * total * (1 + Decimal(10) ** -40) * _GRID
        return Fraction(int(bound.to_integral_value(ROUND_CEILING)), _GRID)


def split_boxes(counts: PrivateCounts, shape: tuple[int, ...], rule: SplitRule) -> Boxes:
    """The leaves of a tree that halves boxes in every attribute as the rule says; they tile the
    domain.
    """
    from scumble.private.sampling.noise import discrete_laplace

    law = DiscreteLaplace(rule.scale)
    check_scale(law)
    counts.charge("splits", Loss(rule.loss(counts.person)))
    summed = summed_area(counts._counts.reshape(shape))
    boxes, depth, leaves = Boxes.whole(shape), 0, []
    while len(boxes):
        biased = np.maximum(boxes.sums(summed) - depth * rule.decay, -rule.decay)
        noisy = biased + discrete_laplace(counts._noise, rule.scale, len(boxes))
        several = boxes.cells > 1
        split = (noisy > 0) & several
        counts._noise.watch(Hidden("splits", biased[several], law, split[several]))
        leaves.append(boxes.take(np.flatnonzero(~split)))
        boxes, _ = boxes.take(np.flatnonzero(split)).halves()
        depth += 1
    return Boxes.joined(leaves)
