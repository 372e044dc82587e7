"""Person: who is protected by a summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Neighbours = Literal["replace", "add_remove"]


@dataclass(frozen=True)
class Person:
    """Who is protected: what neighbouring tables differ in, and how many rows a person has at most.

    With `column` that many rows of each person are kept and the others left out; without, the bound
    is the owner's word.
    """

    neighbours: Neighbours
    rows: int = 1
    column: str | None = None

    @property
    def sensitivity(self) -> int:
        """By how much the counts of disjoint cells can change in all."""
        return self.rows * (2 if self.neighbours == "replace" else 1)

    def squared(self, *, acute: bool) -> int:
        """By how much the squared length of numbers can change in which one row has a squared
        length of at most one.

        Replacing a row takes one vector away and adds another: their difference has at most twice
        the squared length if the angle between any two is at most a right one, as where no entry is
        negative, and four times it otherwise.
        """
        if self.neighbours == "add_remove":
            return self.rows**2
        return self.rows**2 * (2 if acute else 4)
