"""The private table as differentially private releases see it: every verb charges, then touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from scumble.ledger import Account
from scumble.noise.laws import DiscreteLaplace

if TYPE_CHECKING:
    from scumble.engine.rows import Rows
    from scumble.noise.source import Source
    from scumble.schema import Schema

Counts = npt.NDArray[np.int64]
_NOISE_CHUNK = 1 << 22


@dataclass(frozen=True)
class Person:
    """Who is protected: what neighbouring tables differ in, and how many rows a person has at most.

    With `column` that many rows of each person are kept and the others left out; without, the bound
    is the owner's word.
    """

    neighbours: Literal["replace", "add_remove"]
    rows: int = 1
    column: str | None = None

    @property
    def sensitivity(self) -> int:
        """By how much the counts of disjoint cells can change in all."""
        return self.rows * (2 if self.neighbours == "replace" else 1)


class PrivateTable:
    """A metered view: nothing of the rows comes out but what was charged for."""

    def __init__(self, rows: Rows, account: Account, noise: Source) -> None:
        self._rows = rows
        self._account = account
        self._noise = noise

    @property
    def schema(self) -> Schema:
        return self._rows.schema

    def noisy_counts(
        self, names: Sequence[str], person: Person, *, epsilon: Fraction
    ) -> tuple[Counts, DiscreteLaplace]:
        """The count of every cell of the product of some attributes, plus discrete Laplace noise.

        Cells are disjoint, so a person changes at most `person.sensitivity` of all counts together;
        noise of scale sensitivity/ε on each makes the whole array ε-DP.
        """
        self._account.charge(f"noisy counts of {', '.join(names)}", epsilon)
        law = DiscreteLaplace(Fraction(person.sensitivity) / epsilon)
        counts = self._counts(names, person)
        self._blur(counts, law)
        return counts, law

    def _counts(self, names: Sequence[str], person: Person) -> Counts:
        rows = self._rows.limited(person.column, person.rows) if person.column else self._rows
        radix = self.schema.radix(names)
        counts = np.zeros(radix.size, np.int64)
        for columns in rows.batches(names):
            cells = radix.pack(columns).astype(np.int64)
            if 4 * len(cells) >= len(counts):
                counts += np.bincount(cells, minlength=len(counts))
            else:
                found, times = np.unique(cells, return_counts=True)
                counts[found] += times
        return counts

    def _blur(self, counts: Counts, law: DiscreteLaplace) -> None:
        from scumble.noise.laplace import discrete_laplace

        for begin in range(0, len(counts), _NOISE_CHUNK):
            part = counts[begin : begin + _NOISE_CHUNK]
            part += discrete_laplace(self._noise, law.scale, len(part))
