"""What AlphaBeta promises, in sentences that stay true: from the odds alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scumble.model.evidence.presence import Included
from scumble.model.privacy.guarantee import (
    Guarantee,
    Neighbourhood,
    at_least,
    at_most,
    epsilon_for_gamma,
    float_at_least,
    float_at_most,
    percent_at_least,
    percent_at_most,
)
from scumble.private.perturbation.alphabeta_odds import Odds, odds_of
from scumble.private.perturbation.alphabeta_request import Request

_COMMON = (
    "The promise is for one row: a person with more rows loses more in proportion.",
    "How many different rows the table has is published as it is, and taken as known.",
    "What the rows together tell by statistics is not hidden.",
)
_TOGETHER = "An attacker who knows of rows that go together, as of a family, can learn more."
_LIKELY = "A row to which an attacker gave more than the prior named here is not covered."
_DUPLICATES = {
    "error": "That a release exists tells that no two rows of the table are equal.",
    "collapse": "Equal rows count as one: the promise is for what is in the table, not how often.",
    "numbered": (
        "Equal rows are told apart by a number and are not independent: of a row that occurs often "
        "an attacker can learn more, but for the loss ε of each. That a release exists tells that "
        "no row occurs more often than the numbers allow."
    ),
}


@dataclass(frozen=True)
class Promise:
    """The probabilities of a release, and what they were made for."""

    asked: Request
    found: Included
    size: int
    duplicates: str

    @property
    def _odds(self) -> Odds:
        return odds_of(self.found)

    @property
    def _shown(self) -> str:
        return "the view" if self.found.most == 1 else f"all {self.found.most} views"

    @property
    def _given(self) -> str:
        """Where equal rows are made one, a row that changes may change their number."""
        made_one = self.found.multiplicity == 1 and self.duplicates == "collapse"
        return ", given the published probabilities," if made_one else ""

    def _limits(self, *first: str) -> tuple[str, ...]:
        equal = "numbered" if self.found.multiplicity > 1 else self.duplicates
        views = (
            "Other releases of the same table add up."
            if self.found.most == 1
            else f"Only if the {self.found.most} views are made one after the other, each from the "
            "last, and of one unchanged table, of which only the number of rows is checked; other "
            "releases of it add up."
        )
        public = "The sources are published: they must not come from the private table."
        sources = (public,) if self.found.sources else ()
        return (*first, *_COMMON, _DUPLICATES[equal], views, *sources)

    def all(self, *, rows: bool) -> tuple[Guarantee, ...]:
        """Every promise; with `rows` unknown, only those that do not depend on them."""
        if not rows and self.asked.d is None:
            return self.losses()
        joined = () if self.found.sources else (self.of_one(),)
        ends = (self.posterior(), *joined)
        asked_first = self.asked.epsilon is not None
        return (*self.losses(), *ends) if asked_first else (*ends, *self.losses())

    def posterior(self) -> Guarantee:
        """(d, γ)-privacy."""
        prior = self.asked.prior(self.size, self.found.rows)
        odds = self._odds
        by_share = self.asked.k is not None and self.found.sources is not None
        end = self.asked.gamma if by_share and self.asked.gamma else odds.end(prior)
        before = f"gave a row at most {percent_at_least(prior)} to be in the table"
        if by_share:
            before = (
                f"gave each row at most {at_least(self.asked.k or 0)} times the number of rows "
                "times its share in the sources"
            )
        known = {"k": float_at_most(self.asked.k or prior)} if by_share else {}
        return Guarantee(
            statement="(d, γ)-privacy",
            parameters={
                **(known or {"d": float_at_most(prior)}),
                "gamma": float_at_least(end),
                "least": float_at_most(odds.least),
            },
            scope="the whole release",
            neighbourhood="add or remove one person",
            trust="central",
            proof=(
                "Rastogi, Suciu, Hong, VLDB 2007, theorem 4.3; the likelihood ratios of all that "
                "can be seen of a row, computed exactly"
            ),
            sentence=(
                f"An attacker who {before}, and to whom different rows are independent, gives it "
                f"at most {percent_at_most(end)} after seeing {self._shown}, and at least "
                f"{percent_at_least(odds.least)} of what he gave it before."
            ),
            limits=self._limits(_LIKELY, _TOGETHER),
        )

    def of_one(self) -> Guarantee:
        """What a join attack can find: exactly one of some rows is true."""
        prior = self.asked.prior(self.size, self.found.rows)
        end = self._odds.end_of_one(prior)
        return Guarantee(
            statement="(d, γ), d-exclusive attackers",
            parameters={"d": float_at_most(prior), "gamma": float_at_least(end)},
            scope="the whole release",
            neighbourhood="replace one person",
            trust="central",
            proof="the case of theorem 6.3 (VLDB 2007), with the exact ratio of two rows",
            sentence=(
                "An attacker who knows that exactly one of several rows is in the table, gave each "
                f"of them at most {percent_at_least(prior)}, and to whom it is independent of all "
                f"other rows, gives none of them more than {percent_at_most(end)} after seeing "
                f"{self._shown}."
            ),
            limits=self._limits(
                "An attacker who knows that exactly one of several rows is in the table may find "
                "that some of them are most likely not.",
                _LIKELY,
                _TOGETHER,
            ),
        )

    def losses(self) -> tuple[Guarantee, Guarantee]:
        """ε-DP of a single tuple, and of one exchanged for another."""
        odds = self._odds
        return (
            self._loss(
                odds.factor,
                "add or remove one person",
                "max(ln((α+β)/β), ln((1−β)/(1−α−β))), for several views over all that can be seen",
                "Whether a row is in the table changes the probability of anything that can be "
                f"seen in {self._shown}, given the published probabilities,",
            ),
            self._loss(
                odds.spread,
                "replace one person",
                "the ratio of one row that leaves times that of one that comes",
                "One row of the table in place of another changes the probability of anything that "
                f"can be seen in {self._shown}{self._given}",
            ),
        )

    def _loss(
        self, factor: Fraction, neighbours: Neighbourhood, proof: str, sentence: str
    ) -> Guarantee:
        epsilon = epsilon_for_gamma(factor)
        return Guarantee(
            statement="ε-DP",
            parameters={"epsilon": epsilon},
            scope="the whole release",
            neighbourhood=neighbours,
            trust="central",
            proof=f"{proof}; computed exactly",
            sentence=f"{sentence} by a factor of at most {at_most(factor)} "
            f"(ε = {at_most(epsilon)}).",
            limits=self._limits(),
        )


def in_shares(k: Fraction, gamma: Fraction, views: int) -> Guarantee:
    """(d, γ)-privacy while the number of rows is not known."""
    shown = "the view" if views == 1 else f"all {views} views"
    return Guarantee(
        statement="(d, γ)-privacy",
        parameters={"k": float_at_most(k), "gamma": float_at_least(gamma)},
        scope="the whole release",
        neighbourhood="add or remove one person",
        trust="central",
        proof="Rastogi, Suciu, Hong, VLDB 2007, theorem 4.3, with d = k·n/m",
        sentence=(
            f"An attacker who gave a row at most {at_least(k)} times its share in a table drawn at "
            "random from the domain (or from the sources), and to whom different rows are "
            f"independent, gives it at most {percent_at_most(gamma)} after seeing {shown}."
        ),
        limits=(_LIKELY, _TOGETHER, *_COMMON),
    )
