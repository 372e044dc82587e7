"""Broken synthetic rows: too few prior balls for the rows that are drawn."""

from __future__ import annotations

import scumble as sc
from scumble.private.hooks import TINY, Claim
from tests.support.twins.twins import Twin, claimed


class HalfPrior(sc.Dirichlet):
    """Draws from half of the prior balls that its promise needs."""

    def sizes(self, schema, people):
        rows, priors = super().sizes(schema, people)
        return rows, priors // 2


def _twin(name: str, broken: type[sc.Dirichlet], **given) -> Twin:
    delta = given.get("delta", 0.0)
    two = (Claim(kind("a", "b", **given), 1, delta, TINY) for kind in (broken, sc.Dirichlet))
    return Twin(name, *map(claimed, two), runs=40_000)


TWINS = [
    _twin("half of the prior balls", HalfPrior, epsilon=1, synthetic=3),
    _twin("half of the prior balls, with δ", HalfPrior, epsilon=1, delta=0.05, synthetic=6),
]
