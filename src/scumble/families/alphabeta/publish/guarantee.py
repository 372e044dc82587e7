"""The privacy parameters of AlphaBeta, the odds that its views can reach, and its guarantees.

The guarantees are computed from the odds alone. `PrivacyParameters` finds the probabilities that
keep what is asked for, or says why none can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, exp, prod

from scumble.families.alphabeta.design import InclusionProbabilities
from scumble.model.errors import PromiseError, large
from scumble.model.privacy.guarantee import (
    Guarantee,
    Neighbourhood,
    at_least,
    at_most,
    epsilon_for_gamma,
    float_at_least,
    float_at_most,
    gamma_for_epsilon,
    percent_at_least,
    percent_at_most,
    posterior_at_most,
)

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

    asked: PrivacyParameters
    presence: InclusionProbabilities
    size: int
    duplicates: str

    @property
    def _odds(self) -> Odds:
        return odds_of(self.presence)

    @property
    def _shown(self) -> str:
        return "the view" if self.presence.most == 1 else f"all {self.presence.most} views"

    @property
    def _given(self) -> str:
        """A condition: with collapsed rows, replacing one may change the number of rows."""
        made_one = self.presence.multiplicity == 1 and self.duplicates == "collapse"
        return ", given the published probabilities," if made_one else ""

    def _limits(self, *first: str) -> tuple[str, ...]:
        equal = "numbered" if self.presence.multiplicity > 1 else self.duplicates
        views = (
            "Other releases of the same table add up."
            if self.presence.most == 1
            else f"Only if the {self.presence.most} views are made one after the other, each from "
            "the last, and of one unchanged table, of which only the number of rows is checked; "
            "other releases of it add up."
        )
        public = "The sources are published: they must not come from the private table."
        sources = (public,) if self.presence.sources else ()
        return (*first, *_COMMON, _DUPLICATES[equal], views, *sources)

    def all(self, *, rows: bool) -> tuple[Guarantee, ...]:
        """Return all guarantees, or without `rows` those that need no number of rows."""
        if not rows and self.asked.d is None:
            return self.losses()
        joined = () if self.presence.sources else (self.of_one(),)
        ends = (self.posterior(), *joined)
        asked_first = self.asked.epsilon is not None
        return (*self.losses(), *ends) if asked_first else (*ends, *self.losses())

    def posterior(self) -> Guarantee:
        """Return (d, γ)-privacy."""
        prior = self.asked.prior(self.size, self.presence.rows)
        odds = self._odds
        by_share = self.asked.k is not None and self.presence.sources is not None
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
        """Return the guarantee if an attacker knows that exactly one of some rows is true."""
        prior = self.asked.prior(self.size, self.presence.rows)
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
        """Return ε-DP for adding or removing a tuple, and for replacing one by another."""
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
    """Return (d, γ)-privacy while the number of rows is unknown."""
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


# By which factor published views can change the odds that a tuple is true, computed exactly.


@dataclass(frozen=True)
class Odds:
    """The largest and the smallest factor between the odds of a tuple before and after: the
    extremes of P(what is seen of it | true) / P(what is seen of it | false).
    """

    most: Fraction
    least: Fraction

    @property
    def factor(self) -> Fraction:
        """The larger of the two changes, as a factor above 1."""
        return max(self.most, 1 / self.least)

    @property
    def spread(self) -> Fraction:
        """The largest change of the odds between two tuples of which exactly one is true."""
        return self.most / self.least

    def end(self, prior: Fraction) -> Fraction:
        """Return the largest posterior after `prior`, if tuples are independent."""
        return posterior_at_most(prior, self.most)

    def end_of_one(self, prior: Fraction) -> Fraction:
        """Return the same if exactly one of several tuples is true, each of at most `prior`."""
        return posterior_at_most(prior, self.spread)


def odds_of(presence: InclusionProbabilities) -> Odds:
    """Return the odds of all planned views; those of fewer views lie between them."""
    if presence.sources:
        return _of_sources(presence)
    ratios = list(_of_views(presence))
    return Odds(max(ratios), min(ratios))


def extremes(presence: InclusionProbabilities) -> tuple[Fraction, Fraction]:
    """Return the smallest and the largest probability of a false tuple in the first view."""
    shares = (presence.sources or {}).values()
    low = prod((len(weights) * min(weights) for weights in shares), start=presence.noise)
    high = prod((len(weights) * max(weights) for weights in shares), start=presence.noise)
    return Fraction(low), Fraction(high)


def _of_sources(presence: InclusionProbabilities) -> Odds:
    """Return the odds with sources. A tuple that is seen has the ratio (α + β(t)) / β(t), largest
    where β(t) is smallest; one that is not seen (1 − α − β(t)) / (1 − β(t)), smallest where β(t) is
    largest.
    """
    alpha = presence.keep - presence.noise
    low, high = extremes(presence)
    return Odds((alpha + low) / low, (1 - alpha - high) / (1 - high))


def _of_views(presence: InclusionProbabilities) -> Iterator[Fraction]:
    """Yield the ratios of the histories that can be extreme.

    In a history a tuple is in no view, or first in view j and then in s of the v − j later ones.
    With a = `keep`, f = `fade` and c_i the noise of view i, its ratio is

        (1−a)^v / Π(1−c_i)       or       (1−a)^(j−1) a / (Π_{i<j}(1−c_i) c_j) · x^s · y^(v−j−s)

    with x = 1/f ≥ 1 for every later view that has the tuple, and y = (1−a)/(1−af) ≤ 1 for every
    later view that lacks it. So for each j, s = 0 and s = v − j are the extremes.
    """
    keep, fade, views = presence.keep, presence.fade, presence.most
    again, away = 1 / fade, (1 - keep) / (1 - keep * fade)
    unseen = Fraction(1)  # the ratio of a tuple that is in no view so far
    for view in range(1, views + 1):
        noise = presence.noise_of(view)
        first = unseen * keep / noise
        yield first * again ** (views - view)
        yield first * away ** (views - view)
        unseen *= (1 - keep) / (1 - noise)
    yield unseen


# The parameters of AlphaBeta, and the probabilities that meet them, or the reason why none do.

MOST_NOISE = 5 * 10**7  # draws of false tuples, all in memory while duplicates are removed
_FINE = 10**9
_TWO_DIGITS, _MAGNITUDES = 90, 15  # numbers of two digits, and powers of ten
_FADE_DIGITS = 10**6


@dataclass(frozen=True)
class PrivacyParameters:
    """The numbers asked for: `gamma` with `k` or `d`, or `epsilon`, or else `alpha` with `beta`.

    With k, an attacker has a prior of at most d = k·n/m, or with `sources` of at most k·n·p(t); n
    counts as 1 at least.
    """

    keep: Fraction
    k: Fraction | None = None
    d: Fraction | None = None
    gamma: Fraction | None = None
    epsilon: Fraction | None = None
    alpha: Fraction | None = None
    beta: Fraction | None = None
    exclusive: bool = False
    views: int = 1
    sources: Mapping[str, tuple[Fraction, ...]] | None = None

    def prior(self, size: int, rows: int) -> Fraction:
        """Return the largest prior that is covered. With neither `d` nor `k`, return an example."""
        if self.d is not None:
            return self.d
        if self.k is not None:
            return self.k * max(rows, 1) * self._largest_share(size)
        return min(Fraction(10 * max(rows, 1), size), Fraction(1, 10))

    @property
    def _limit(self) -> Fraction:
        """The largest posterior allowed."""
        return Fraction(1) if self.gamma is None else self.gamma

    def presence(self, size: int, rows: int) -> InclusionProbabilities:
        """Return the probabilities for a table of `rows` different tuples out of `size`, or raise
        PromiseError, which names the largest possible k or number of views.
        """
        try:
            return self._presence(size, rows)
        except PromiseError as error:
            if self.k is None or self.views > 1:
                raise
            raise PromiseError(f"{error} {self._possible(size, rows)}") from None

    def _possible(self, size: int, rows: int) -> str:
        """Return a sentence about the largest k of two digits, from 1 on, that is not refused."""
        low, high = -1, _TWO_DIGITS * _MAGNITUDES
        while high - low > 1:
            middle = (low + high) // 2
            try:
                replace(self, k=_two_digits(middle))._presence(size, rows)
                low = middle
            except PromiseError:
                high = middle
        # More rows are harder to hide: what is impossible for one row is impossible for every
        # table.
        where = "Even for a single row" if rows < 2 else "Here"
        if low < 0:
            return f"{where} no k will do."
        return f"{where} k may be at most {at_least(_two_digits(low), 2)}."

    def _presence(self, size: int, rows: int) -> InclusionProbabilities:
        presence = self._chosen(size, rows)
        if self.beta is None:
            self._require(presence, size, rows)
        _, high = extremes(presence)
        if presence.keep - presence.noise + high >= 1:
            raise PromiseError(
                "With these sources some tuple would be present for certain: ask for less, or give "
                "sources that are more even."
            )
        draws = presence.noise * size / (1 - high)  # as many as TupleNoise makes
        if draws > MOST_NOISE:
            raise PromiseError(
                f"What is asked of AlphaBeta takes about {large(draws)} draws of false "
                f"tuples, and it makes at most {large(MOST_NOISE)}: ask for less, or publish fewer "
                "attributes."
            )
        return presence

    def _chosen(self, size: int, rows: int) -> InclusionProbabilities:
        """Return the probabilities with the smallest noise that the proof for one tuple allows."""
        noise = self.beta
        if noise is None:
            noise = self._noise(self._growth(self.prior(size, rows)), size, rows)
        if noise >= self.keep:
            raise PromiseError(
                "For what is asked of AlphaBeta a false tuple would be as frequent as a true one "
                "(α ≤ 0), and nothing could be estimated: ask for a larger gamma or "
                "epsilon, a smaller prior, or fewer views."
            )
        fade = Fraction(1) if self.views == 1 else fade_of(self.views)
        return InclusionProbabilities(
            rows, self.keep, noise, sources=self.sources, most=self.views, fade=fade
        )

    def _growth(self, prior: Fraction) -> Fraction:
        """Return the factor by which the odds may grow: G = γ(1−d)/(d(1−γ)), or e^ε."""
        if self.epsilon is not None:
            return gamma_for_epsilon(self.epsilon)
        self._require_prior_below(prior)
        return self._limit * (1 - prior) / (prior * (1 - self._limit))

    def _noise(self, growth: Fraction, size: int, rows: int) -> Fraction:
        """Return β such that the odds of a tuple that is seen grow by at most `growth`."""
        if self.sources is not None:
            return self._noise_of_sources(growth, size, rows)
        fade = Fraction(1) if self.views == 1 else fade_of(self.views)
        again = Fraction(ceil(_FINE / fade ** (self.views - 1)), _FINE)  # seen in every view
        tight = self.keep * again / growth
        if not self.exclusive:
            return tight
        # The odds of the other tuples fall if they are never seen. For one view: theorem 6.3.
        return max(2 / growth, tight / (1 - self.keep) ** self.views)

    def _noise_of_sources(self, growth: Fraction, size: int, rows: int) -> Fraction:
        """Return the mean of β(t). With d or ε: α/β(t) + 1 ≤ G where β(t) is smallest. With k,
        prior k·n·p(t): the posterior odds are k·n·(p + α/C) / (1 − k·n·p) for C = Σβ(t), largest
        where p is largest. A solution exists as long as that prior is below γ.
        """
        if self.k is None:
            low, _ = extremes(
                InclusionProbabilities(rows, self.keep, Fraction(1), sources=self.sources)
            )
            return self.keep / (low * (growth - 1) + 1)
        end = self._limit / (1 - self._limit)
        largest = self._largest_share(size)
        margin = Fraction(1, size) + end / (self.k * max(rows, 1)) - largest * (1 + end)
        return self.keep / (margin * size)

    def _largest_share(self, size: int) -> Fraction:
        """Return max p(t), which is 1/m without sources."""
        _, high = extremes(
            InclusionProbabilities(0, self.keep, Fraction(1, size), sources=self.sources)
        )
        return high

    def _require_prior_below(self, prior: Fraction) -> None:
        if prior >= self._limit:
            raise PromiseError(
                "Some row would have a prior of gamma or more (k times the number of rows times "
                "its share of the domain), so that nothing keeps it below gamma. Ask for a smaller "
                "k or a larger gamma, or publish more attributes."
            )

    def _require(self, presence: InclusionProbabilities, size: int, rows: int) -> None:
        """Raise PromiseError if no noise meets the parameters."""
        prior = self.prior(size, rows)
        factor = self.k if self.k is not None else prior * size / max(rows, 1)
        # Theorem 3.3 with its unknown constant at 1, a rule of thumb. As d is below γ, this happens
        # only for n < √m, where the variance of a count, about 2 k (1−γ)/γ n, is above 2 n².
        useful = self.gamma is not None and (self.k or rows)
        if useful and (factor * (1 - self._limit) / self._limit) ** 2 >= size:
            raise PromiseError(
                "The prior asked for is of the order of the square root of the domain (k ~ √m), "
                "where no publication is both private and useful (Rastogi, Suciu, Hong, theorem "
                "3.3). Where exactly that begins is a rule of thumb: the theorem has a constant "
                "that nobody knows, and scumble takes 1. Ask for a smaller k or d, or a larger "
                "gamma."
            )
        if not self._kept(odds_of(presence), prior):
            raise PromiseError(self._broken(size, rows, prior))

    def _kept(self, odds: Odds, prior: Fraction) -> bool:
        """Return whether `odds` keep the promise. (d, γ): the posterior of a tuple that is seen is
        at most γ, and that of one that is not seen at least d/γ of the prior. ε: neither changes
        the odds by more than e^ε.

        With k and sources the noise was chosen tuple by tuple; only the second is left to check.
        """
        if self.epsilon is not None:
            return odds.factor <= self._growth(prior)
        end = odds.end_of_one(prior) if self.exclusive else odds.end(prior)
        seen = end <= self._limit or (self.k is not None and self.sources is not None)
        return seen and odds.least >= prior / self._limit

    def _holds(self, size: int, rows: int, prior: Fraction) -> bool:
        try:
            return self._kept(odds_of(self._chosen(size, rows)), prior)
        except PromiseError:
            return False

    def _broken(self, size: int, rows: int, prior: Fraction) -> str:
        if self.views == 1:
            enough = "1 − d/γ" if self.epsilon is None else "e^ε/(1 + e^ε)"
            return (
                "What is asked of AlphaBeta is not possible with this keep: a tuple that is not "
                "seen would lose more than the promise allows. Without sources, a keep of at most "
                f"{enough} is enough."
            )
        for views in range(self.views - 1, 0, -1):
            if not replace(self, views=views)._holds(size, rows, prior):
                continue
            plural = "view holds" if views == 1 else "views hold"
            return f"{self.views} views break what is asked of AlphaBeta; at most {views} {plural}."
        return "Not even one view holds what is asked of AlphaBeta: ask for less."


def _two_digits(index: int) -> Fraction:
    """Return the number at `place` of 1, 1.1, ... 9.9, 10, 11, ... 99, 100, 110, ..."""
    magnitude, digits = divmod(index, _TWO_DIGITS)
    return (10 + digits) * Fraction(10) ** (magnitude - 1)


def fade_of(views: int) -> Fraction:
    """Return e^(−1/v) to six digits. Any number below 1 works: the promise is computed from it."""
    return Fraction(round(exp(-1 / views) * _FADE_DIGITS), _FADE_DIGITS)
