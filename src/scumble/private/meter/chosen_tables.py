"""Counts by sets of attributes that are chosen privately: noisy tables, and choices among sets by
how badly a public model fits them. Every method charges the budget account first.

A person changes the counts of one table by at most `unit.sensitivity` in all. The score of a set is
the L1 distance of its table from a table that is public, so it changes by at most as much, in
either direction. Each choice is one of the exponential mechanism, which costs ρ = ε²/8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.chosen_tables import Places, by_class, class_of_code
from scumble.model.laws.distributions import NoiseLaw
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.meter.noise import check_scale

if TYPE_CHECKING:
    from scumble.private.meter.table import PrivateCounts, PrivateTable

Integers = npt.NDArray[np.int64]

_TOGETHER = 1 << 24  # cells that are counted in one pass over the rows


class PrivateTables:
    """The tables by sets of the attributes `names`, of which only charged measurements are
    returned.
    """

    def __init__(self, table: PrivateTable, names: Sequence[str], unit: PrivacyUnit) -> None:
        self.names, self.unit = tuple(names), unit
        self.sizes = tuple(table.schema[name].size for name in names)
        self._table = table
        self._classes = [np.arange(size) for size in self.sizes]
        self._counted: dict[Places, PrivateCounts] = {}

    def one_way(self, law: NoiseLaw) -> list[Integers]:
        """Return the noisy counts of each attribute alone."""
        check_scale(law)
        found = self._table.marginals([[name] for name in self.names], self.unit)
        return [each.noisy([law])[0] for each in found]

    def merge(self, merged: Sequence[tuple[int, ...]]) -> None:
        """Count these values of each attribute as one class from now on."""
        pairs = zip(self.sizes, merged, strict=True)
        self._classes = [class_of_code(size, codes) for size, codes in pairs]

    def count(self, sets: Iterable[Places]) -> None:
        """Count tables, which are kept here for choices and measurements, in few passes."""
        waiting: list[Places] = []
        cells = 0
        for places in [*sets, ()]:
            size = prod(self.sizes[place] for place in places)
            if waiting and (not places or cells + size > _TOGETHER):
                self._count(waiting)
                waiting, cells = [], 0
            if places and places not in self._counted:
                waiting.append(places)
                cells += size

    def _count(self, sets: Sequence[Places]) -> None:
        named = [[self.names[place] for place in places] for places in sets]
        for places, each in zip(sets, self._table.marginals(named, self.unit), strict=True):
            classes = [self._classes[place] for place in places]
            shape = [len(own) for own in classes]
            each._counts = by_class(each._counts.reshape(shape), classes).reshape(-1)
            self._counted[places] = each

    def pick(
        self,
        models: Mapping[Places, Integers],
        handicaps: Mapping[Places, int],
        weights: Mapping[Places, int],
        epsilon: Fraction,
        picks: int = 1,
    ) -> list[Places]:
        """Return `picks` different sets, chosen by the exponential mechanism with ε each.

        The score of a set is its weight times its L1 distance from its table in `models`, less its
        handicap.
        """
        cost = PrivacyLoss(rho=picks * epsilon**2 / 8)
        self._table._account.charge(f"choice of {picks} among {len(models)} sets", cost)
        from scumble.private.sampling.top import Candidates

        sets = list(models)
        scores = [
            weights[each] * (self._distance(each, models[each]) - handicaps[each]) for each in sets
        ]
        chosen = self._table._noise.picks(
            Candidates.listed(np.array(scores, np.int64)),
            picks,
            sensitivity=self.unit.sensitivity * max(weights[each] for each in sets),
            epsilon=epsilon,
            monotone=False,
        )
        return [sets[int(place)] for place in chosen]

    def _distance(self, places: Places, model: Integers) -> int:
        return int(np.abs(self._counted[places]._counts - model.reshape(-1)).sum())

    def measure(self, places: Places, law: NoiseLaw) -> Integers:
        """Return the noisy counts of a set that was counted, by classes."""
        check_scale(law)
        [found] = self._counted[places].noisy([law])
        shape = [int(self._classes[place].max()) + 1 for place in places]
        numbers: Integers = found.reshape(shape)
        return numbers
