"""Where clauses are true over the domains of their attributes, remembered between questions."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy.typing as npt

from scumble.query import Expression

Array = npt.NDArray[Any]

MOST = 1 << 27  # cells that are remembered


class Truths:
    """What was evaluated already; any thread may ask and add. What is there may be gone at the next
    look, for beyond so many cells all are forgotten.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = Lock()
        self._known: dict[Expression, Array] = {}
        self.cells = 0

    def get(self, clause: Expression) -> Array | None:
        return self._known.get(clause)

    def keep(self, clause: Expression, truth: Array) -> None:
        with self._lock:
            if clause in self._known:
                return
            if self.cells + truth.size > self._most:
                self._known.clear()
                self.cells = 0
            if truth.size <= self._most:
                self._known[clause] = truth
                self.cells += truth.size
