"""Inverse of uniform, per-part and bag channels.

A lens: how a function of the true values of a row is read from the values that it shows.

Functions are tensors with one row for every state of the true attributes, and one axis for every
perturbed attribute. The true share h(x) of a row in an answer has a weight w(y) of shown values y
with E[w | x] = h(x); its variance Var[w | x] is again a function of x, so that the weights of that
function estimate the variance without bias.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.channels import (
    MultisetLaw,
    PartitionChannel,
    PoolLaw,
    SubsetLaw,
    Tensor,
    UniformChannel,
)
from scumble.public.estimation.rows.count_laws import Coins, Draws, Shown

Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


class InverseChannel(ABC):
    """Reads tensors through whatever made shown values of true ones."""

    states = 1  # how many rows a tensor has at least
    members = 1  # how many values a row shows

    @abstractmethod
    def invert(self, tensor: Tensor) -> Tensor:
        """The function of a shown value whose sum over a row has the mean `tensor`."""

    @abstractmethod
    def covariance(self, one: Tensor, other: Tensor) -> Tensor:
        """Cov[w1, w2 | x] of the weights of two functions, as a function of x."""

    @abstractmethod
    def deviation(self, tensor: Tensor) -> Tensor:
        """The largest error that the weight of one thing shown can have, in each state."""

    @abstractmethod
    def shown(self, holds: Tensor) -> tuple[Sequence[Shown | None], Indices]:
        """Laws of how many shown values count, and which of them holds in each state. None where
        no law is known exactly.
        """

    @abstractmethod
    def halves(self, holds: Tensor) -> bool:
        """Whether all values that count have one weight, and all others one weight."""

    def by_state(self, tensor: Tensor) -> Tensor:
        """Repeat the one row of `tensor` for every state."""
        return np.broadcast_to(tensor, (self.states, *tensor.shape[1:]))

    def most(self, tensor: Tensor) -> Tensor:
        """The largest entry for a value that is possible in each state."""
        largest: Tensor = self.possible(tensor, -np.inf).max(axis=1)
        return largest

    def least(self, tensor: Tensor) -> Tensor:
        smallest: Tensor = self.possible(tensor, np.inf).min(axis=1)
        return smallest

    def possible(self, tensor: Tensor, otherwise: float) -> Tensor:
        """The flat tensor with `otherwise` at values that a state cannot have."""
        return flat(tensor)

    def settled(self, tensor: Tensor) -> Flags:
        """In which states the function is known of every row, whatever the row shows."""
        same: Flags = self.most(tensor) == self.least(tensor)
        return same


class SingleValueInverse(InverseChannel):
    """Rows that show one value each; any value may have become any other of its state."""

    @abstractmethod
    def apply(self, tensor: Tensor) -> Tensor:
        """The mean of `tensor` at the shown value, as a function of the true value."""

    def covariance(self, one: Tensor, other: Tensor) -> Tensor:
        return self.apply(self.invert(one) * self.invert(other)) - one * other

    def deviation(self, tensor: Tensor) -> Tensor:
        """The largest |w(y) - h(x)|."""
        weight = self.invert(tensor)
        above = self.most(weight) - self.least(tensor)
        below = self.most(tensor) - self.least(weight)
        largest: Tensor = np.maximum(above, below)
        return largest


def flat(tensor: Tensor) -> Tensor:
    """One row per state, one column per cell of the perturbed domains."""
    return tensor.reshape(len(tensor), prod(tensor.shape[1:]))


# Rows whose values went through uniform channels, each on one or several attributes.


class UniformInverse(SingleValueInverse):
    """Inverts one channel after the other, on the axes that a question has of it."""

    def __init__(self, channels: Sequence[UniformChannel], axes: Sequence[str]) -> None:
        places = (
            [1 + place for place, name in enumerate(axes) if name in channel.attributes]
            for channel in channels
        )
        self._met = [(c, found) for c, found in zip(channels, places, strict=True) if found]

    def invert(self, tensor: Tensor) -> Tensor:
        for channel, axes in self._met:
            tensor = channel.invert(tensor, axes)
        return tensor

    def apply(self, tensor: Tensor) -> Tensor:
        for channel, axes in self._met:
            tensor = channel.apply(tensor, axes)
        return tensor

    def shown(self, holds: Tensor) -> tuple[Sequence[Coins | None], Indices]:
        """Through one channel a row shows as counting by the share of the domain that counts."""
        if len(self._met) != 1:
            return [None], np.zeros(len(holds), np.intp)
        shares, which = np.unique(flat(holds).mean(axis=1), return_inverse=True)
        return [self.coins(float(share)) for share in shares], which

    def coins(self, share: float) -> Coins:
        """What rows show of a share of the domain, through the only channel."""
        [(channel, _)] = self._met
        keep = float(channel.keep)
        return Coins(keep, (1 - keep) * share)

    def halves(self, holds: Tensor) -> bool:
        return len(self._met) == 1


# Rows whose values went through the uniform channel of their part of the table.


class PartitionInverse(SingleValueInverse):
    """Every state lies in one part, which has a domain and a probability to keep of its own."""

    def __init__(self, channel: PartitionChannel, cells: int, parts: Indices) -> None:
        inside = np.zeros((len(channel.domains), cells), bool)
        for part, domain in enumerate(channel.domains):
            inside[part, list(domain)] = True
        self.states = len(parts)
        self._inside: Flags = inside[parts]
        self._sizes = inside.sum(axis=1)[parts]
        self._keep = np.array([float(keep) for keep in channel.keeps])[parts]
        self._whole = np.array([keep == 1 for keep in channel.keeps])[parts]

    def invert(self, tensor: Tensor) -> Tensor:
        keep, mean = self._keep[:, None], self._mean(tensor)[:, None]
        weights = (flat(tensor) - (1 - keep) * mean) / keep
        return np.where(self._inside, weights, 0.0).reshape(tensor.shape)

    def apply(self, tensor: Tensor) -> Tensor:
        keep, mean = self._keep[:, None], self._mean(tensor)[:, None]
        means = keep * flat(tensor) + (1 - keep) * mean
        return np.where(self._inside, means, 0.0).reshape(tensor.shape)

    def shown(self, holds: Tensor) -> tuple[Sequence[Coins], Indices]:
        pairs = np.stack([self._keep, self._mean(holds)], axis=1)
        kinds, which = np.unique(pairs, axis=0, return_inverse=True)
        coins = [Coins(float(keep), float((1 - keep) * share)) for keep, share in kinds]
        return coins, which.reshape(-1)

    def possible(self, tensor: Tensor, otherwise: float) -> Tensor:
        return np.where(self._inside, flat(tensor), otherwise)

    def settled(self, tensor: Tensor) -> Flags:
        """Also where every value is kept."""
        known: Flags = super().settled(tensor) | self._whole
        return known

    def halves(self, holds: Tensor) -> bool:
        return True

    def _mean(self, tensor: Tensor) -> Tensor:
        mean: Tensor = self.possible(tensor, 0.0).sum(axis=1) / self._sizes
        return mean


# Rows that show a bag of values each.

# Weights that differ by less than this part of the largest are told apart by rounding alone.
_ROUNDING = 1e-11


class MultisetInverse(InverseChannel):
    """The weights u of a function h solve `means @ u = h`: the sum of u over a bag has mean h."""

    def __init__(self, law: MultisetLaw) -> None:
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
def _solver(law: MultisetLaw) -> Callable[[Tensor], Tensor]:
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
