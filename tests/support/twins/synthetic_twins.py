"""Broken synthetic rows and models: too few prior balls, the true number of rows."""

from __future__ import annotations

from fractions import Fraction

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.hooks import TINY, Claim
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
    _mwem("choices of MWEM that cost twice what is paid", BoldChoice),
]
