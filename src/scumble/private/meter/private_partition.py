"""A partition of codes into buckets of nearly equal counts, behind the meter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import Loss
from scumble.private.meter.partitions import Buckets
from scumble.private.meter.private_counts import PrivateCounts, check_scale
from scumble.private.sampling.hidden import Hidden


def noisy_partition(
    counts: PrivateCounts, *, epsilon: Fraction, price: int
) -> npt.NDArray[np.int64]:
    """The last code of each bucket of a partition that costs little: every bucket its `price` and
    the distances of its counts from their median, less noise. The choice is ε-DP.

    Each of the possible buckets has its own geometric noise. Take a partition P, a row in some
    code, and the bucket B of P around it; fix all noise but that of B. Every partition has one
    bucket around the code, whose distances change by at most 1 with the row, and nothing else does.
    Against partitions that have B as well, P wins or loses whatever B costs. Against all others it
    wins if the noise of B is at least some whole number, which moves by at most 2: 1 for the cost
    of P, 1 for the best of the others. As P(noise >= t + 2) >= exp(-2 / scale) P(noise >= t), the
    probability of P changes by a factor of at most exp(2 / scale). That is for one row; they are
    changed one after the other, so that scale = 2 · sensitivity / ε makes it e^ε for a person.
    Equally cheap partitions are told apart by their shape alone, which leaves all this as it is.
    """
    from scumble.private.sampling.noise import geometric

    scale = 2 * counts.person.sensitivity / epsilon
    law = DiscreteLaplace(scale)
    check_scale(law)
    counts.charge("partition", Loss(epsilon))
    buckets = Buckets(counts.size)
    costs = buckets.deviations(counts._counts) + price
    counts._noise.watch(Hidden("costs", costs, law))
    costs -= geometric(counts._noise, scale, buckets.many)
    last = buckets.cheapest(costs)
    counts._noise.watch(Hidden("chosen", last, law))
    return last
