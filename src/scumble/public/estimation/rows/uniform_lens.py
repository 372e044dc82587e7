"""Rows whose values went through uniform channels, each on one or several attributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scumble.model.evidence.channels import Tensor, UniformChannel
from scumble.public.estimation.rows.count_laws import Coins
from scumble.public.estimation.rows.inverse_channels import Indices, OneValue, flat


class UniformLens(OneValue):
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
