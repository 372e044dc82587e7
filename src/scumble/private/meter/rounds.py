"""Counts of a workload of which one after the other is chosen and measured.

A row is in a count or not, so that one person changes every count by at most `unit.rows`, whether
rows are added, removed or replaced; and so the distance of a count from a known number.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scumble.model.designs.matrix import MergedCells
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.noise import check_scale

if TYPE_CHECKING:
    from scumble.private.meter.table import PrivateTable

Integers = npt.NDArray[np.int64]


class PrivateQueries:
    """Counts of sets of merged cells: row k of `matrix` is 1 for the cells of count k."""

    def __init__(
        self,
        table: PrivateTable,
        merged: MergedCells,
        matrix: npt.NDArray[np.uint8],
        unit: PrivacyUnit,
    ) -> None:
        self._table, self._unit = table, unit
        cells = merged.merge(table.counts(merged.names, unit)._counts)
        self._answers: Integers = matrix.astype(np.int64) @ cells
        self._rows = int(cells.sum())

    def total(self, law: DiscreteLaplace) -> int:
        """Return the number of rows plus noise."""
        return self._noisy("number of rows", self._rows, law)

    def worst(self, modelled: npt.NDArray[np.float64], epsilon: Fraction) -> int:
        """Return the place of a count that the model answers badly, by the exponential mechanism.

        The score of a count is its distance from the modelled number, rounded to a whole one.
        """
        from scumble.private.sampling.top import Candidates

        self._table._account.charge("choice of a count", PrivacyLoss(epsilon))
        scores = np.abs(self._answers - np.rint(modelled).astype(np.int64))
        chosen = self._table._noise.picks(
            Candidates.listed(scores),
            1,
            sensitivity=self._unit.rows,
            epsilon=epsilon,
            monotone=False,
        )
        return int(chosen[0])

    def measured(self, place: int, law: DiscreteLaplace) -> int:
        """Return one of the counts plus noise."""
        return self._noisy("count", int(self._answers[place]), law)

    def _noisy(self, what: str, number: int, law: DiscreteLaplace) -> int:
        check_scale(law)
        self._table._account.charge(what, PrivacyLoss(self._unit.rows / law.scale))
        noisy = np.array([number])
        self._table._noise.add(noisy, law)
        return int(noisy[0])
