"""A source that plays back what a test wrote down, so that rare events happen on request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.private.sampling.source import Keystream


class Scripted(Keystream):
    """Gives the bytes of the arrays it was made of, in order, and fails when they run out."""

    def __init__(self, *parts: NDArray[Any]) -> None:
        super().__init__(seed=0)
        self._script = b"".join(part.tobytes() for part in parts)

    def fill(self, out: NDArray[Any]) -> None:
        view = out.reshape(-1).view(np.uint8)
        assert len(view) <= len(self._script), "the script is too short"
        view[:] = np.frombuffer(self._script[: len(view)], np.uint8)
        self._script = self._script[len(view) :]

    @property
    def used_up(self) -> bool:
        return not self._script


def halves(values: Iterable[int]) -> NDArray[np.uint16]:
    return np.array(list(values), np.uint16)


def words(*values: int) -> NDArray[np.uint64]:
    return np.array(values, np.uint64)
