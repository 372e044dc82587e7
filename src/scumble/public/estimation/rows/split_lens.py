"""Rows whose values went through the uniform channel of their part of the table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scumble.model.evidence.channels import SplitChannel, Tensor
from scumble.public.estimation.rows.count_laws import Coins
from scumble.public.estimation.rows.inverse_channels import Flags, Indices, OneValue, flat


class SplitLens(OneValue):
    """Every state lies in one part, which has a domain and a probability to keep of its own."""

    def __init__(self, channel: SplitChannel, cells: int, parts: Indices) -> None:
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
