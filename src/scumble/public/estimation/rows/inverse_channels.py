"""A lens: how a function of the true values of a row is read from the values that it shows.

Functions are tensors with one row for every state of the true attributes, and one axis for every
perturbed attribute. The true share h(x) of a row in an answer has a weight w(y) of shown values y
with E[w | x] = h(x); its variance Var[w | x] is again a function of x, so that the weights of that
function estimate the variance without bias.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.channels import Tensor
from scumble.public.estimation.rows.count_laws import Shown

Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


class Lens(ABC):
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


class OneValue(Lens):
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
