"""Several views of the same true tuples, each split by what the earlier ones have shown.

With V' the union of the earlier views, a true tuple is in view i with probability a, a false one of
V' with a · fade, any other with c_i: two strata, and membership in V' is public. Given the earlier
views each stratum's estimate is unbiased, and so is their sum, whatever V' is. The estimator of the
paper takes all true tuples to be in V', and is biased as long as they are not.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np

from scumble.model.evidence.presence import Included
from scumble.public.estimation.rows.tally import Floats
from scumble.public.estimation.tuples.included import Stratum
from scumble.public.estimation.tuples.sums import Seen


def strata(presence: Included, shown: Seen, false: Floats) -> tuple[tuple[Stratum, ...], ...]:
    """The strata of every view. `false` are the sums that view 1 would show if nothing were
    true.
    """
    bits = shown.column[presence.seen].astype(np.int64)
    kept, faded = presence.kept, presence.kept * presence.fade
    views = []
    for view in range(1, presence.views + 1):
        noise = presence.noise_of(view)
        there = (bits >> (view - 1)) % 2 == 1
        earlier = bits % (1 << (view - 1)) > 0
        known = shown.sums(earlier)
        fresh = false * float((1 - kept) ** (view - 1)) - float(noise) * known
        parts = [Stratum(shown.sums(there & ~earlier), fresh, kept, noise)]
        if view > 1:
            parts.append(Stratum(shown.sums(there & earlier), float(faded) * known, kept, faded))
        views.append(tuple(parts))
    return tuple(views)


def weights(presence: Included, size: int) -> tuple[float, ...]:
    """The share of each view in the pooled estimate: by the inverse of the variance that a count of
    all tuples of the domain is expected to have.

    Only public numbers decide: the sizes of the table and of the domain, and the probabilities. Not
    what the views show, not even V', since weights that depend on one view and multiply the error
    of the same view would bias the sum. They are the same for all questions, so that the answers
    to parts of a question add up to the answer to the whole.
    """
    variances = [_expected_variance(presence, size, view) for view in range(1, presence.views + 1)]
    if not all(variances):
        return tuple(1 / presence.views for _ in variances)
    total = sum(1 / variance for variance in variances)
    return tuple(1 / variance / total for variance in variances)


def _expected_variance(presence: Included, size: int, view: int) -> float:
    kept, faded, noise = presence.kept, presence.kept * presence.fade, presence.noise_of(view)
    unseen = float((1 - kept) ** (view - 1))
    spared = prod((1 - presence.noise_of(other) for other in range(1, view)), start=Fraction(1))
    true = presence.rows * float(kept * (1 - kept))
    fresh = float(size * spared * noise * (1 - noise))
    known = float(size * (1 - spared))  # false tuples in earlier views
    variance = (true * unseen + fresh) / float(kept - noise) ** 2
    if view > 1:
        inside = true * (1 - unseen) + known * float(faded * (1 - faded))
        variance += inside / float(kept - faded) ** 2
    return variance
