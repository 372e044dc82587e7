"""Noisy counts of a domain of any size, of which a rule publishes a few cells.

Every method has the same law as adding noise to each cell of the domain, empty or not, and applying
the rule to the noisy counts afterwards. So the release is a function of noisy counts alone, and
costs what the noise costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.sparse import NoiseTails
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.noise import check_scale
from scumble.private.tables.sorted_keys import isin_sorted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scumble.model.schema.cell_keys import CellKeys
    from scumble.private.meter.table import PrivateTable
    from scumble.private.sampling.sparse import EmptyCellRule, PrioritizedCells
    from scumble.private.tables.counter import Occupied

Keys = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
_WORD = 64


@dataclass(frozen=True)
class PublishedCells:
    """The cells that a rule published, in the order of the domain.

    `weights` are the numbers that represent them in sums. `tau` is the threshold below which cells
    were sampled (0 if none were).
    """

    keys: Keys
    counts: npt.NDArray[np.int64]
    weights: Floats
    tau: Fraction


class PrivateCells:
    """The cells of the product of `names` that have rows, of which only charged measurements are
    returned.
    """

    def __init__(self, table: PrivateTable, names: Sequence[str], unit: PrivacyUnit) -> None:
        self.names = tuple(names)
        self.unit = unit
        self.cell_keys: CellKeys = table.schema.cell_keys(names)
        self._table = table
        self._noise = table._noise
        self._source = table._noise.source

    def total(self, law: DiscreteLaplace) -> int:
        """Return the number of rows plus noise; one person has at most `unit.rows` rows."""
        self._charge("noisy number of rows", law, self.unit.rows)
        rows = np.array([self._cells.counts.sum()])
        self._noise.add(rows, law)
        return int(rows[0])

    def filtered(self, law: DiscreteLaplace, theta: int) -> PublishedCells:
        """Return the cells whose noisy counts are at least `theta`."""
        self._charge("filtered cells", law, self.unit.sensitivity)
        keys, counts = self._filtered(law, theta)
        return PublishedCells(keys, counts, counts.astype(float), Fraction(0))

    def sampled(self, law: DiscreteLaplace, tau: int) -> PublishedCells:
        """Return each cell of noisy count v with probability min(|v|/tau, 1)."""
        from scumble.private.sampling.bits import integers
        from scumble.private.sampling.sparse import SampleRule

        self._charge("sampled cells", law, self.unit.sensitivity)
        counts = self._noisy(law)
        kept = np.flatnonzero(integers(self._source, tau, len(counts)) < np.abs(counts))
        keys, counts = self._joined(kept, counts, SampleRule(law.scale, tau))
        return _weighted(keys, counts, Fraction(tau))

    def drawn(self, law: DiscreteLaplace, size: int) -> PublishedCells:
        """Return a priority sample of `size` cells."""
        from scumble.private.sampling import sparse

        self._charge("drawn cells", law, self.unit.sensitivity)
        level = _first_level(self.cell_keys.size, law, size)
        bits = _WORD * max(1, -(-level // _WORD))
        counts = self._noisy(law)
        tickets = sparse.draw_tickets(self._source, len(counts), bits)
        own = sparse.PrioritizedCells(self._cells.keys, counts, tickets)
        capacities = self.cell_keys.capacities
        empty = sparse.high_priority_cells(self._source, capacities, law.scale, level, bits)
        empty = empty.only(~isin_sorted(empty.keys, own.keys))
        while level and len(empty) + np.count_nonzero(own.passing(level, bits)) <= size:
            level -= 1
            more = sparse.next_priority_cells(self._source, capacities, law.scale, level, bits)
            new = ~isin_sorted(more.keys, own.keys) & ~isin_sorted(more.keys, _in_order(empty).keys)
            empty = empty + more.only(new)
        cells = _in_order(own.only(own.passing(level, bits)) + empty)
        return _prioritised(cells, size, bits)

    def filtered_drawn(self, law: DiscreteLaplace, theta: int, size: int) -> PublishedCells:
        """Return a priority sample of `size` of the cells whose noisy counts are at least
        `theta`.
        """
        from scumble.private.sampling import sparse

        self._charge("drawn cells", law, self.unit.sensitivity)
        keys, counts = self._filtered(law, theta)
        tickets = sparse.draw_tickets(self._source, len(counts))
        return _prioritised(sparse.PrioritizedCells(keys, counts, tickets), size, sparse.BITS)

    def _charge(self, what: str, law: DiscreteLaplace, sensitivity: int) -> None:
        check_scale(law)
        reason = f"{what} of {', '.join(self.names)}"
        self._table._account.charge(reason, PrivacyLoss(sensitivity / law.scale))

    @cached_property
    def _cells(self) -> Occupied:
        return self._table._counter.occupied(self.names, self.unit)

    def _noisy(self, law: DiscreteLaplace) -> npt.NDArray[np.int64]:
        return self._noise.cells(self._cells.keys, self._cells.counts, law)

    def _filtered(self, law: DiscreteLaplace, theta: int) -> tuple[Keys, npt.NDArray[np.int64]]:
        from scumble.private.sampling.sparse import FilterRule

        counts = self._noisy(law)
        return self._joined(np.flatnonzero(counts >= theta), counts, FilterRule(law.scale, theta))

    def _joined(
        self, kept: npt.NDArray[np.intp], counts: npt.NDArray[np.int64], rule: EmptyCellRule
    ) -> tuple[Keys, npt.NDArray[np.int64]]:
        """Return the occupied cells that passed and the empty cells that pass, with their noisy
        counts, in the order of their keys, which does not tell the two apart.
        """
        from scumble.private.sampling.sparse import passing_cells

        keys = passing_cells(self._source, self.cell_keys.capacities, rule)
        keys = keys[~isin_sorted(keys, self._cells.keys)]
        values = rule.draw(self._source, len(keys))
        together = np.concatenate([self._cells.keys[kept], keys])
        order = _order(together)
        return together[order], np.concatenate([counts[kept], values])[order]


def _first_level(cells: int, law: DiscreteLaplace, size: int) -> int:
    """Return a level such that, in an empty table, more cells than needed have a priority of at
    least 2^level in the mean.
    """
    wanted, tails = 1.5 * (size + 1) + 20, NoiseTails(law)
    level = max(0, math.ceil(math.log2(cells / wanted * (1 + tails.mean))))
    while level and cells * tails.kept(2.0**level) < wanted:
        level -= 1
    return level


def _prioritised(cells: PrioritizedCells, size: int, bits: int) -> PublishedCells:
    from scumble.private.sampling.sparse import priority_sample

    rows, tau = priority_sample(cells, size, bits)
    return _weighted(cells.keys[rows], cells.values[rows], tau)


def _weighted(keys: Keys, counts: npt.NDArray[np.int64], tau: Fraction) -> PublishedCells:
    weights = np.sign(counts) * np.maximum(np.abs(counts), float(tau))
    return PublishedCells(keys, counts, weights, tau)


def _in_order(cells: PrioritizedCells) -> PrioritizedCells:
    return cells.only(_order(cells.keys))


def _order(keys: Keys) -> npt.NDArray[Any]:
    return np.argsort(keys) if keys.ndim == 1 else np.lexsort(keys.T[::-1])
