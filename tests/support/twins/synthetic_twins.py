"""Broken synthetic rows and models: too few prior balls, the true number of rows, tables that are
chosen from raw data, a domain that is read from the data, more rows of a person than paid for.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from fractions import Fraction

import scumble as sc
from scumble.families.synthesis.check import replay_finding
from scumble.families.synthesis.publish.synthesis import Budget
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.private.mechanism_metadata import CUBE, SMALL_DELTA, TINY, Claim
from scumble.private.sampling.source import Keystream
from tests.support.twins.twins import Twin, claimed


class HalfPrior(sc.Dirichlet):
    """Draws from half of the prior balls that its promise needs."""

    def sizes(self, schema, people):
        rows, priors = super().sizes(schema, people)
        return rows, priors // 2


class TrueNumber(sc.Mwem):
    """Starts from the true number of rows, as public code does: hardly any noise is added to it,
    and it is not charged for.
    """

    def _total_law(self):
        return DiscreteLaplace(Fraction(1, 10**6))

    @property
    def promise(self):
        return type(super().promise)(super().promise.epsilon + 10**6)


class BoldChoice(sc.Mwem):
    """Chooses twice as boldly as it pays for."""

    def _share(self, counts_rows):
        return 2 * super()._share(counts_rows)

    @property
    def promise(self):
        return type(super().promise)(2 * super().promise.epsilon)


class Unmetered(sc.Synthesis):
    """A synthesis that may spend more than it promises."""

    @property
    def promise(self):
        return PrivacyLoss(rho=super().promise.rho * 10**6, delta=super().promise.delta)

    @property
    def promised(self):
        return super().promise.rho


class RawStructure(Unmetered):
    """Chooses the pairs of the tree as if their scores were public."""

    def __post_init__(self):
        super().__post_init__()
        self._budget = Budget.of(self.promised, self.unit, len(self.names), self._further)
        self._budget = replace(self._budget, edge_choice=Fraction(50))


class MoreRows(Unmetered):
    """Has noise for one row of each person, whose rows beyond the first are counted as well."""

    def __post_init__(self):
        super().__post_init__()
        unit = PrivacyUnit(self.neighbours)
        self._budget = Budget.of(self.promised, unit, len(self.names), self._further)


class WholeForEach(Unmetered):
    """Has the noise for each further table that all of them pay for together."""

    def __post_init__(self):
        super().__post_init__()
        budget = Budget.of(self.promised, self.unit, len(self.names), self._further)
        law = DiscreteGaussian(budget.further.parameter / self._further)
        self._budget = replace(budget, further=law)


class SumsTwice(Unmetered):
    """Has noise in its sums for twice what they may cost."""

    def __post_init__(self):
        super().__post_init__()
        self.cell_promise = PrivacyLoss(rho=self.promised / 2)
        rho = self.cell_promise.rho
        self._budget = Budget.of(rho, self.unit, len(self.names), self._further)

    def _part(self, share, unit):
        cost = PrivacyLoss(rho=2 * share * self.promised)
        return self._by_tables.at_cost(cost, unit)


class SeenValues(sc.Synthesis):
    """Counts the values that somebody has, and publishes 0 for all others."""

    def measure(self, table, folder):
        seen = copy(table)
        seen._noise = SeenSteps(table._noise)
        return super().measure(seen, folder)


class SeenSteps:
    """Steps that add noise to the numbers above 0 only."""

    def __init__(self, steps):
        self._steps = steps

    def __getattr__(self, name):
        return getattr(self._steps, name)

    def add(self, numbers, law):
        seen = numbers > 0
        some = numbers[seen]
        self._steps.add(some, law)
        numbers[seen] = some


def _synthesis(name: str, broken: type[sc.Synthesis], **given) -> Twin:
    # At ε = 1 noise is so large that all values of the small tables are counted together, and no
    # choice can depend on them.
    given = {"extra": 1, **given, "epsilon": 5, "delta": SMALL_DELTA, "neighbours": "add_remove"}

    def replayed(kind):
        claim = Claim(kind(["a", "b", "c"], **given), 5, SMALL_DELTA, CUBE)
        return lambda _, seed: iter([replay_finding(claim, claim.mechanism, Keystream(seed))])

    return Twin(name, replayed(broken), replayed(sc.Synthesis), runs=1)


def _mwem(name: str, broken: type[sc.Mwem]) -> Twin:
    queries = ["SELECT COUNT(*) FROM t WHERE a < 2", "SELECT b, COUNT(*) FROM t GROUP BY b"]
    given = {"queries": queries, "rounds": 1, "epsilon": 1, "neighbours": "add_remove"}
    two = (Claim(kind(["a", "b"], **given), 1) for kind in (broken, sc.Mwem))
    return Twin(name, *map(claimed, two), runs=20_000)


def _twin(name: str, broken: type[sc.Dirichlet], **given) -> Twin:
    delta = given.get("delta", 0.0)
    two = (Claim(kind("a", "b", **given), 1, delta, TINY) for kind in (broken, sc.Dirichlet))
    return Twin(name, *map(claimed, two), runs=40_000)


TWINS = [
    _twin("half of the prior balls", HalfPrior, epsilon=1, synthetic=3),
    _twin("half of the prior balls, with δ", HalfPrior, epsilon=1, delta=0.05, synthetic=6),
    _mwem("the true number of rows in MWEM", TrueNumber),
    _synthesis("a tree of pairs chosen from raw data", RawStructure),
    _synthesis("a pair and a triple that each cost what both may", WholeForEach, extra=2),
    _synthesis("sums that cost twice what they may", SumsTwice, sums=["a"]),
    _synthesis("a domain of the values that somebody has", SeenValues),
    _synthesis("rows of a person beyond the bound", MoreRows, contribution=3),
    _mwem("choices of MWEM that cost twice what is paid", BoldChoice),
]
