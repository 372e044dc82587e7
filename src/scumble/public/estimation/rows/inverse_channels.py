"""Inverse channels: how a function of the true values of a row is estimated from published values.

Functions are tensors with one row for every state of the unperturbed attributes, and one axis for
every perturbed attribute. For the contribution h(x) of a row to an answer, the inverse channel
gives a weight w(y) of the shown values y with E[w | x] = h(x). Its variance Var[w | x] is again a
function of x, so that the weights of that function estimate the variance without bias.

| class              | channel                                                             |
|--------------------|---------------------------------------------------------------------|
| `UniformInverse`   | uniform channels, each on one or several attributes                 |
| `PartitionInverse` | the uniform channel of each part of the table                       |
| `MultisetInverse`  | rows that show a multiset of values                                 |
| `StagedInverse`    | the same, read by posterior probabilities (`posterior_law`)         |
| `ProductInverse`   | rows that show a multiset of each of several attributes             |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.evidence.channels import (
    MultisetChannel,
    MultisetLaw,
    PartitionChannel,
    PoolLaw,
    SubsetLaw,
    Tensor,
    UniformChannel,
)
from scumble.public.estimation.rows.count_laws import CountModel, PoolModel, ResponseModel

Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


class InverseChannel(ABC):
    """The inverse of a channel: from functions of true values to weights of shown values."""

    states = 1  # the least number of rows of a tensor
    steps = 1  # into how many the distance of two weights of shown values is divided

    @abstractmethod
    def invert(self, tensor: Tensor) -> Tensor:
        """Return the function of a shown value whose sum over a row has the mean `tensor`."""

    @abstractmethod
    def covariance(self, one: Tensor, other: Tensor) -> Tensor:
        """Return Cov[w1, w2 | x] of the weights of two functions, as a function of x."""

    @abstractmethod
    def deviation(self, tensor: Tensor) -> Tensor:
        """Return the largest error that the weight of one shown value can have, in each state."""

    def third_moment(self, tensor: Tensor) -> Tensor | None:
        """Return the third central moment of the weight as a function of x; None if unknown."""
        return None

    @abstractmethod
    def count_models(self, holds: Tensor) -> tuple[Sequence[CountModel | None], Indices]:
        """Return exact models of the number of shown values that count, and their index by state.

        A model is None where the law of this number is not known exactly.
        """

    @abstractmethod
    def has_two_weights(self, holds: Tensor) -> bool:
        """Return whether all values that count share one weight, and all others another."""

    def by_state(self, tensor: Tensor) -> Tensor:
        """Repeat the one row of `tensor` for every state."""
        return np.broadcast_to(tensor, (self.states, *tensor.shape[1:]))

    def repeated(self, times: int) -> InverseChannel:
        """Return the inverse for tensors with `times` times the states, one after the other."""
        return self

    def most(self, tensor: Tensor) -> Tensor:
        """Return the largest entry of `tensor` among the possible values of each state."""
        largest: Tensor = self.masked(tensor, -np.inf).max(axis=1)
        return largest

    def least(self, tensor: Tensor) -> Tensor:
        """Return the smallest entry of `tensor` among the possible values of each state."""
        smallest: Tensor = self.masked(tensor, np.inf).min(axis=1)
        return smallest

    def masked(self, tensor: Tensor, otherwise: float) -> Tensor:
        """Return the flat tensor with `otherwise` at values that are impossible in a state."""
        return flat(tensor)

    def is_known(self, tensor: Tensor) -> Flags:
        """Return in which states the function is known of every row, whatever the row shows."""
        same: Flags = self.most(tensor) == self.least(tensor)
        return same


class SingleValueInverse(InverseChannel):
    """The inverse of a channel that shows one value, which may be any of the state's values."""

    @abstractmethod
    def apply(self, tensor: Tensor) -> Tensor:
        """Return the mean of `tensor` at the shown value, as a function of the true value."""

    def covariance(self, one: Tensor, other: Tensor) -> Tensor:
        return self.apply(self.invert(one) * self.invert(other)) - one * other

    def third_moment(self, tensor: Tensor) -> Tensor:
        weight = self.invert(tensor)
        return self.apply(weight**3) - 3 * tensor * self.apply(weight**2) + 2 * tensor**3

    def deviation(self, tensor: Tensor) -> Tensor:
        """Return the largest |w(y) - h(x)|."""
        weight = self.invert(tensor)
        above = self.most(weight) - self.least(tensor)
        below = self.most(tensor) - self.least(weight)
        largest: Tensor = np.maximum(above, below)
        return largest


def flat(tensor: Tensor) -> Tensor:
    """Reshape to one row per state and one column per cell of the perturbed domains."""
    return tensor.reshape(len(tensor), prod(tensor.shape[1:]))


class UniformInverse(SingleValueInverse):
    """The inverse of uniform channels, one after the other, on the axes of each."""

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

    def count_models(self, holds: Tensor) -> tuple[Sequence[ResponseModel | None], Indices]:
        """Through one channel, the law depends on the share of the domain that counts."""
        if len(self._met) != 1:
            return [None], np.zeros(len(holds), np.intp)
        shares, which = np.unique(flat(holds).mean(axis=1), return_inverse=True)
        return [self.response_model(float(share)) for share in shares], which

    def response_model(self, share: float) -> ResponseModel:
        """Return the model of rows through the only channel, if `share` of the domain counts."""
        [(channel, _)] = self._met
        keep = float(channel.keep)
        return ResponseModel(keep, (1 - keep) * share)

    def has_two_weights(self, holds: Tensor) -> bool:
        return len(self._met) == 1


class PartitionInverse(SingleValueInverse):
    """The inverse of the uniform channel of each part of the table.

    Every state lies in one part, which has its own domain and its own probability to keep a value.
    `cells` is the number of cells of all perturbed attributes, and `parts` the part of each state.
    """

    def __init__(self, channel: PartitionChannel, cells: int, parts: Indices) -> None:
        inside = np.zeros((len(channel.domains), cells), bool)
        for part, domain in enumerate(channel.domains):
            inside[part, list(domain)] = True
        self._channel, self._parts = channel, parts
        self.states = len(parts)
        self._inside: Flags = inside[parts]
        self._sizes = inside.sum(axis=1)[parts]
        self._keep = np.array([float(keep) for keep in channel.keeps])[parts]
        self._certain = np.array([keep == 1 for keep in channel.keeps])[parts]

    def repeated(self, times: int) -> PartitionInverse:
        return PartitionInverse(self._channel, self._inside.shape[1], np.tile(self._parts, times))

    def invert(self, tensor: Tensor) -> Tensor:
        keep, mean = self._keep[:, None], self._mean(tensor)[:, None]
        weights = (flat(tensor) - (1 - keep) * mean) / keep
        return np.where(self._inside, weights, 0.0).reshape(tensor.shape)

    def apply(self, tensor: Tensor) -> Tensor:
        keep, mean = self._keep[:, None], self._mean(tensor)[:, None]
        means = keep * flat(tensor) + (1 - keep) * mean
        return np.where(self._inside, means, 0.0).reshape(tensor.shape)

    def count_models(self, holds: Tensor) -> tuple[Sequence[ResponseModel], Indices]:
        pairs = np.stack([self._keep, self._mean(holds)], axis=1)
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        models = [ResponseModel(float(keep), float((1 - keep) * share)) for keep, share in distinct]
        return models, which.reshape(-1)

    def masked(self, tensor: Tensor, otherwise: float) -> Tensor:
        return np.where(self._inside, flat(tensor), otherwise)

    def is_known(self, tensor: Tensor) -> Flags:
        """Also return the states in which every value is published unchanged."""
        known: Flags = super().is_known(tensor) | self._certain
        return known

    def has_two_weights(self, holds: Tensor) -> bool:
        return True

    def _mean(self, tensor: Tensor) -> Tensor:
        mean: Tensor = self.masked(tensor, 0.0).sum(axis=1) / self._sizes
        return mean


# Weights that differ by less than this part of the largest differ by rounding alone.
_ROUNDING = 1e-11


class MultisetInverse(InverseChannel):
    """The inverse of a channel that shows a multiset of values.

    The weights u of a function h solve `means @ u = h`: the sum of u over a multiset has mean h.
    """

    def __init__(self, law: MultisetLaw) -> None:
        self._law = law

    def invert(self, tensor: Tensor) -> Tensor:
        return _solver(self._law)(flat(tensor)).reshape(tensor.shape)

    def covariance(self, one: Tensor, other: Tensor) -> Tensor:
        weights = flat(self.invert(one)), flat(self.invert(other))
        return self._law.covariances(*weights).reshape(one.shape)

    def deviation(self, tensor: Tensor) -> Tensor:
        """Return what one member of a multiset can change.

        Members are independent draws, or negatively correlated in sets, which makes the variance of
        their sums no larger.
        """
        weights = self.invert(tensor)
        return self.most(weights) - self.least(weights)

    def count_models(self, holds: Tensor) -> tuple[Sequence[CountModel | None], Indices]:
        if isinstance(self._law, PoolLaw) and self._law.caps is None:
            return _pool_models(self._law, flat(holds))
        if isinstance(self._law, SubsetLaw):
            counts, which = np.unique(flat(holds).sum(axis=1), return_inverse=True)
            return [_subset_model(self._law, int(count)) for count in counts], which
        return [None], np.zeros(len(holds), np.intp)

    def has_two_weights(self, holds: Tensor) -> bool:
        tensors = self.invert(holds), self.invert(self.covariance(holds, holds))
        chosen = flat(holds)[0] > 0
        return all(_two_valued(flat(tensor)[0], chosen) for tensor in tensors)


def _pool_models(law: PoolLaw, holds: Tensor) -> tuple[Sequence[PoolModel], Indices]:
    """Return models of draws, which count with the share of the pool that counts."""
    chosen, which = np.unique(holds, axis=0, return_inverse=True)
    total = sum(law.weights)
    weights = [sum(w for w, yes in zip(law.weights, row, strict=True) if yes) for row in chosen]
    return [PoolModel(law.size - 1, weight / total) for weight in weights], which.reshape(-1)


def _subset_model(law: SubsetLaw, count: int) -> ResponseModel | None:
    """Return the model of a random set of which `count` values count.

    A set holds one given value or not, and lacks one given value or not. So the law is binomial for
    one value, for all but one value, and for sets of size one; else return None.
    """
    keep = float(law.inclusion - law.chance)
    if law.size == 1 or count == 1:
        return ResponseModel(keep, float(count * law.chance))
    if count == law.values - 1:
        return ResponseModel(keep, float(1 - law.inclusion), law.size - 1)
    return None


def _two_valued(weights: Tensor, chosen: Flags) -> bool:
    near = _ROUNDING * np.abs(weights).max(initial=0.0)
    parts = [weights[some] for some in (chosen, ~chosen) if some.any()]
    return all(float(np.ptp(part)) <= near for part in parts)


@lru_cache(maxsize=8)
def _solver(law: MultisetLaw) -> Callable[[Tensor], Tensor]:
    """Return a function that solves `means @ u = h` for u along the last axis."""
    means = law.means()
    # If the true value changes only its own mean count, means = a·1[x = v] + r_v. Rows add up to
    # the size of a multiset, which gives u = (h - r·h / size) / a.
    others = np.roll(means, -1, axis=0).diagonal()
    gain = float((means.diagonal() - others).mean())
    if np.allclose(means, others + gain * np.eye(len(others)), 1e-13, 1e-13 * gain):
        return lambda tensor: (tensor - (tensor @ others)[..., None] / law.size) / gain
    inverse = np.linalg.inv(means)
    return lambda tensor: tensor @ inverse.T


@dataclass(frozen=True)
class MultisetProduct:
    """Several channels of a release, each of which shows a multiset of other attributes."""

    channels: tuple[MultisetChannel, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(name for channel in self.channels for name in channel.attributes)

    @property
    def laws(self) -> tuple[PoolLaw, ...]:
        """The laws of the channels, of one attribute each."""
        laws = tuple(each.law for each in self.channels if isinstance(each.law, PoolLaw))
        plain = len(laws) == len(self.attributes) and all(law.caps is None for law in laws)
        if not plain:
            names = " and ".join(self.attributes)
            raise QueryError(f"This release does not tell about {names} together: ask for one.")
        return laws


class ProductInverse(InverseChannel):
    """The inverse of multisets that are drawn independently, of one attribute each.

    With multiplicities a, b, ... a row has the weight Σ W[u, v, ...] a_u b_v ..., where W is the
    function h less, along each axis, (k - 1)/k of its mean over the pool. Let h_S be h less its
    mean over the pool along the axes S. The error of the weight is the sum, over all S but none, of
    what the draws from the pools add up to in h_S. Draws along different axes are independent, so
    that the variance is Σ_S Π (k - 1) times the mean of h_S² over the pools of the axes S.
    """

    def __init__(self, laws: Sequence[PoolLaw]) -> None:
        self._sizes = {axis: law.size for axis, law in enumerate(laws, start=1)}
        self._shares = {
            axis: np.array([float(share) for share in law.shares])
            for axis, law in enumerate(laws, start=1)
        }

    def invert(self, tensor: Tensor) -> Tensor:
        for axis, size in self._sizes.items():
            tensor = tensor - (size - 1) / size * self._mean(tensor, axis)
        return tensor

    def covariance(self, one: Tensor, other: Tensor) -> Tensor:
        total = np.zeros(np.broadcast_shapes(one.shape, other.shape))
        for number in range(1, len(self._sizes) + 1):
            for axes in combinations(self._sizes, number):
                both = self._centred(one, axes) * self._centred(other, axes)
                for axis in axes:
                    both = (self._sizes[axis] - 1) * self._mean(both, axis)
                total += both
        return total

    def deviation(self, tensor: Tensor) -> Tensor:
        """Return what one member of a multiset can change, times all members of the others."""
        weights, members = self.invert(tensor), prod(self._sizes.values())
        changes = [
            members // size * flat(np.ptp(weights, axis=axis)).max(axis=1)
            for axis, size in self._sizes.items()
        ]
        largest: Tensor = np.max(changes, axis=0)
        return largest

    def count_models(self, holds: Tensor) -> tuple[Sequence[CountModel | None], Indices]:
        return [None], np.zeros(len(holds), np.intp)

    def has_two_weights(self, holds: Tensor) -> bool:
        return False

    def _mean(self, tensor: Tensor, axis: int) -> Tensor:
        """Return the mean along an axis over its pool, which keeps the axis."""
        mean: Tensor = np.tensordot(tensor, self._shares[axis], (axis, 0))
        return np.expand_dims(mean, axis)

    def _centred(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        for axis in axes:
            tensor = tensor - self._mean(tensor, axis)
        return tensor
