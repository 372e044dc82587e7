"""Where clauses are true over the domains of their attributes, remembered between questions."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from scumble.model.cache import Remembered
from scumble.model.query import Expression

MOST = 1 << 27  # cells that are remembered


class Truths(Remembered[Expression, npt.NDArray[Any]]):
    """By clause, a truth for every cell; their sizes are numbers of cells."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__(most)
