"""Rows that show a bag of values each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from scumble.model.evidence.bag_laws import BagLaw
from scumble.model.evidence.channels import Tensor
from scumble.model.evidence.pool_law import PoolLaw
from scumble.model.evidence.subset_law import SubsetLaw
from scumble.public.estimation.rows.count_laws import Coins, Draws, Shown
from scumble.public.estimation.rows.inverse_channels import Flags, Indices, Lens, flat

# Weights that differ by less than this part of the largest are told apart by rounding alone.
_ROUNDING = 1e-11


class BagLens(Lens):
    """The weights u of a function h solve `means @ u = h`: the sum of u over a bag has mean h."""

    def __init__(self, law: BagLaw) -> None:
        self.members = law.size
        self._law = law

    def invert(self, tensor: Tensor) -> Tensor:
        return _solver(self._law)(flat(tensor)).reshape(tensor.shape)

    def covariance(self, one: Tensor, other: Tensor) -> Tensor:
        weights = flat(self.invert(one)), flat(self.invert(other))
        return self._law.covariances(*weights).reshape(one.shape)

    def deviation(self, tensor: Tensor) -> Tensor:
        """What one member of a bag can change. Members are independent draws, or nearly so: in
        sets they repel each other, which makes sums of them no wider.
        """
        weights = self.invert(tensor)
        return self.most(weights) - self.least(weights)

    def shown(self, holds: Tensor) -> tuple[Sequence[Shown | None], Indices]:
        if isinstance(self._law, PoolLaw) and self._law.caps is None:
            return _drawn(self._law, flat(holds))
        if isinstance(self._law, SubsetLaw):
            counts, which = np.unique(flat(holds).sum(axis=1), return_inverse=True)
            return [_coins(self._law, int(count)) for count in counts], which
        return [None], np.zeros(len(holds), np.intp)

    def halves(self, holds: Tensor) -> bool:
        tensors = self.invert(holds), self.invert(self.covariance(holds, holds))
        chosen = flat(holds)[0] > 0
        return all(_two_valued(flat(tensor)[0], chosen) for tensor in tensors)


def _drawn(law: PoolLaw, holds: Tensor) -> tuple[Sequence[Draws], Indices]:
    """Draws count by the share of the pool that counts."""
    chosen, which = np.unique(holds, axis=0, return_inverse=True)
    total = sum(law.weights)
    weights = [sum(w for w, yes in zip(law.weights, row, strict=True) if yes) for row in chosen]
    return [Draws(law.size - 1, weight / total) for weight in weights], which.reshape(-1)


def _coins(law: SubsetLaw, count: int) -> Coins | None:
    """A set holds one value or not, and lacks one value or not: the law of a number of values is
    simple for one, for all but one, and for sets of one.
    """
    keep = float(law.inclusion - law.chance)
    if law.size == 1 or count == 1:
        return Coins(keep, float(count * law.chance))
    if count == law.values - 1:
        return Coins(keep, float(1 - law.inclusion), law.size - 1)
    return None


def _two_valued(weights: Tensor, chosen: Flags) -> bool:
    near = _ROUNDING * np.abs(weights).max(initial=0.0)
    parts = [weights[some] for some in (chosen, ~chosen) if some.any()]
    return all(float(np.ptp(part)) <= near for part in parts)


@lru_cache(maxsize=8)
def _solver(law: BagLaw) -> Callable[[Tensor], Tensor]:
    """The function that solves `means @ u = h` along the last axis."""
    means = law.means()
    # Where the true value changes nothing but its own count, means = a·1[x = v] + r_v. Rows add up
    # to the size of a bag, which gives u = (h - r·h / size) / a.
    others = np.roll(means, -1, axis=0).diagonal()
    gain = float((means.diagonal() - others).mean())
    if np.allclose(means, others + gain * np.eye(len(others)), 1e-13, 1e-13 * gain):
        return lambda tensor: (tensor - (tensor @ others)[..., None] / law.size) / gain
    inverse = np.linalg.inv(means)
    return lambda tensor: tensor @ inverse.T
