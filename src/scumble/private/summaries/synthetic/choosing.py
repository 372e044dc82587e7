"""How the tables of a synthesis are chosen and measured: single attributes, a tree of pairs, and
further sets that the rows drawn so far fit worst.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import pi, sqrt

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.chosen_tables import ChosenTable, ChosenTables, Places
from scumble.model.laws.distributions import DiscreteGaussian
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.private.meter.baskets import choice_epsilon
from scumble.private.meter.chosen_tables import Integers, PrivateTables
from scumble.public.synthesis.chosen_model import chosen_model
from scumble.public.synthesis.row_fitting import counts_of
from scumble.public.synthesis.row_model import RowModel
from scumble.public.synthesis.tree_model import Parts

TREE_SHARE = Fraction(13, 20)  # of ρ, where further tables follow
CHOICE_SHARE = Fraction(3, 20)  # of what is left, for choosing the further tables
RARE = 3  # standard deviations of noise below which a value is merged with others
PER_ROUND = 5  # further tables that are chosen from the same rows
_MOST_ROWS = 50_000  # that the choice of further tables looks at
_FINEST_WEIGHT = 1000


@dataclass(frozen=True)
class Budget:
    """What is spent on each step: laws of noise, and the ε of each choice; None for no such step.

    One third of the tree's share of ρ pays for single attributes, one for the choice of the tree,
    one for its tables.
    """

    single: DiscreteGaussian
    edge_choice: Fraction | None = None
    edge: DiscreteGaussian | None = None
    further_choice: Fraction | None = None
    further: DiscreteGaussian | None = None

    @classmethod
    def of(cls, rho: Fraction, unit: PrivacyUnit, attributes: int, further: int) -> Budget:
        """Return the budget for ρ in all, with at most `further` tables after the tree."""
        square = unit.squared_sensitivity(nonnegative_gram=True)

        def law(tables: int, share: Fraction) -> DiscreteGaussian:
            return DiscreteGaussian(square * tables / (2 * share))

        if attributes == 1:
            return cls(law(1, rho))
        tree = TREE_SHARE * rho if further else rho
        third, edges = tree / 3, attributes - 1
        found = cls(law(attributes, third), choice_epsilon(edges, third), law(edges, third))
        if not further:
            return found
        choice = CHOICE_SHARE * (rho - tree)
        return cls(
            found.single,
            found.edge_choice,
            found.edge,
            choice_epsilon(further, choice),
            law(further, rho - tree - choice),
        )


class ChosenSoFar:
    """The tables of one release as they are measured. `private` is what they are measured on."""

    def __init__(self, private: PrivateTables, budget: Budget) -> None:
        self._private, self._budget = private, budget
        self._numbers = private.one_way(budget.single)
        rare = RARE * sqrt(budget.single.variance)
        merged = tuple(_rare(numbers, rare) for numbers in self._numbers)
        tables = [ChosenTable((place,), budget.single) for place in range(len(private.names))]
        self.design = ChosenTables(private.names, private.sizes, merged, tuple(tables))
        private.merge(merged)

    @property
    def numbers(self) -> Integers:
        """The noisy numbers of all tables, one table after the other."""
        return np.concatenate([each.reshape(-1) for each in self._numbers])

    def model(self, rows: int | None) -> RowModel:
        """Return the row model of what was measured so far."""
        return chosen_model(self.design, self._numbers, rows)

    def add_tree(self, rows: int | None) -> None:
        """Choose the pairs of a tree and measure them.

        A pair that ties two parts together is chosen by the distance of its counts from those of
        independent attributes with the noisy counts of each.
        """
        choice, law = self._budget.edge_choice, self._budget.edge
        if choice is None or law is None:
            return
        model = self.model(rows)
        places = range(len(self.design.attributes))
        pairs = list(combinations(places, 2))
        self._private.count(pairs)
        parts, edges = Parts(len(places)), []
        for _ in places[1:]:
            some = [pair for pair in pairs if parts.joins(pair)]
            [edge] = self._pick({pair: _independent(model, pair) for pair in some}, choice)
            parts.join((edge[0], edge[1]))
            edges.append(edge)
        for edge in edges:
            self._measure(edge, law)

    def add_further(
        self, candidates: Mapping[Places, Fraction], number: int, rows: int | None
    ) -> None:
        """Choose `number` more sets among `candidates`, which have weights, and measure them.

        Before each round, rows are drawn from what was measured so far. A set is chosen by the
        distance of its counts from those of the rows, less the error that its noise would make.
        """
        choice, law = self._budget.further_choice, self._budget.further
        if choice is None or law is None:
            return
        self._private.count(candidates)
        while number:
            known = {table.places for table in self.design.tables}
            left = [each for each in candidates if each not in known]
            picks = min(PER_ROUND, number, len(left))
            if not picks:
                return
            models = _tables_of_rows(self.model(rows), left)
            handicaps = {each: _noise_error(law, models[each].size) for each in left}
            weights = _whole({each: candidates[each] for each in left})
            for chosen in self._pick(models, choice, handicaps, weights, picks):
                self._measure(chosen, law)
            number -= picks

    def _pick(
        self,
        models: Mapping[Places, Integers],
        epsilon: Fraction,
        handicaps: Mapping[Places, int] | None = None,
        weights: Mapping[Places, int] | None = None,
        picks: int = 1,
    ) -> list[Places]:
        return self._private.pick(
            models,
            handicaps or dict.fromkeys(models, 0),
            weights or dict.fromkeys(models, 1),
            epsilon,
            picks,
        )

    def _measure(self, places: Places, law: DiscreteGaussian) -> None:
        self._numbers.append(self._private.measure(places, law))
        design = self.design
        self.design = ChosenTables(
            design.attributes,
            design.sizes,
            design.merged,
            (*design.tables, ChosenTable(places, law)),
        )


def closure_weights(sets: Iterable[Places], weights: Sequence[Fraction]) -> dict[Places, Fraction]:
    """Return all subsets of two or more attributes of some sets, each with the weight Σ w·|common
    attributes| over the sets: what a table of it tells about the sets (McKenna and others, AIM).
    """
    weighted = list(zip(map(frozenset, sets), weights, strict=True))
    subsets = {
        chosen
        for each, _ in weighted
        for size in range(2, len(each) + 1)
        for chosen in combinations(sorted(each), size)
    }
    return {
        chosen: sum((w * len(each & set(chosen)) for each, w in weighted), Fraction(0))
        for chosen in sorted(subsets)
    }


def _rare(numbers: Integers, least: float) -> tuple[int, ...]:
    """Return the codes with noisy counts below `least`; none if it is but one."""
    found = np.flatnonzero(numbers < least).tolist()
    return tuple(found) if len(found) > 1 else ()


def _independent(model: RowModel, pair: Places) -> Integers:
    """Return the counts of a pair of independent attributes, in whole numbers."""
    one, other = (model.margins[place] for place in pair)
    return _rounded(np.outer(one, other) / model.total)


def _tables_of_rows(model: RowModel, sets: Iterable[Places]) -> dict[Places, Integers]:
    """Return the tables of rows that are drawn from the model, scaled to its total."""
    number = min(max(round(model.total), 1), _MOST_ROWS)
    rows = model.coarse_rows(number, np.random.default_rng(0))
    return {
        places: _rounded(
            counts_of(rows, places, [model.sizes[place] for place in places])
            * (model.total / number)
        )
        for places in sets
    }


def _rounded(table: npt.NDArray[np.float64]) -> Integers:
    return np.rint(table).astype(np.int64)


def _noise_error(law: DiscreteGaussian, cells: int) -> int:
    """Return the mean L1 distance that noise alone makes of a table of so many cells."""
    return round(sqrt(2 / pi * law.variance) * cells)


def _whole(weights: Mapping[Places, Fraction]) -> dict[Places, int]:
    """Return weights as whole numbers up to 1000 in the same proportion, or 1 if all are equal."""
    if len(set(weights.values())) == 1:
        return dict.fromkeys(weights, 1)
    largest = max(weights.values())
    return {
        each: max(round(_FINEST_WEIGHT * weight / largest), 1) for each, weight in weights.items()
    }
