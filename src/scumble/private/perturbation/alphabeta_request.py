"""What is asked of AlphaBeta, and the probabilities that keep it: or why nothing can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, exp

from scumble.model.errors import PromiseError
from scumble.model.evidence.presence import Included
from scumble.model.privacy.guarantee import at_least, at_most, gamma_for_epsilon
from scumble.private.perturbation.alphabeta_odds import Odds, extremes, odds_of

MOST_NOISE = 5 * 10**7  # draws of false tuples: they are in memory while they are made different
_FINE = 10**9
_TWO_DIGITS, _MAGNITUDES = 90, 15  # numbers of two digits in each of so many powers of ten
_FADE_DIGITS = 10**6


@dataclass(frozen=True)
class Request:
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
        """The largest prior that is covered; where none was asked for, one to speak of."""
        if self.d is not None:
            return self.d
        if self.k is not None:
            return self.k * max(rows, 1) * self._largest_share(size)
        return min(Fraction(10 * max(rows, 1), size), Fraction(1, 10))

    @property
    def _limit(self) -> Fraction:
        """The posterior allowed."""
        return Fraction(1) if self.gamma is None else self.gamma

    def presence(self, size: int, rows: int) -> Included:
        """The probabilities for a table of that many different tuples, or a refusal that says
        which k would do; of several views, it says how many would.
        """
        try:
            return self._presence(size, rows)
        except PromiseError as error:
            if self.k is None or self.views > 1:
                raise
            raise PromiseError(f"{error} {self._possible(size, rows)}") from None

    def _possible(self, size: int, rows: int) -> str:
        """The largest k of two digits, from 1 on, that is not refused."""
        low, high = -1, _TWO_DIGITS * _MAGNITUDES
        while high - low > 1:
            middle = (low + high) // 2
            try:
                replace(self, k=_two_digits(middle))._presence(size, rows)
                low = middle
            except PromiseError:
                high = middle
        # More rows are harder to hide: what is impossible for one is so for every table.
        where = "Even for a single row" if rows < 2 else "Here"
        if low < 0:
            return f"{where} no k will do."
        return f"{where} k may be at most {at_least(_two_digits(low), 2)}."

    def _presence(self, size: int, rows: int) -> Included:
        found = self._chosen(size, rows)
        if self.beta is None:
            self._require(found, size, rows)
        _, high = extremes(found)
        if found.kept - found.noise + high >= 1:
            raise PromiseError(
                "With these sources some tuple would be present for certain: ask for less, or give "
                "sources that are more even."
            )
        draws = found.noise * size / (1 - high)  # as many as TupleNoise makes
        if draws > MOST_NOISE:
            raise PromiseError(
                f"What is asked of AlphaBeta takes about {at_most(draws, 2)} draws of false "
                f"tuples, and it makes at most {MOST_NOISE:.0e}: ask for less, or publish fewer "
                "attributes."
            )
        return found

    def _chosen(self, size: int, rows: int) -> Included:
        """The smallest noise that the proof for one tuple allows."""
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
        return Included(rows, self.keep, noise, sources=self.sources, most=self.views, fade=fade)

    def _growth(self, prior: Fraction) -> Fraction:
        """By how much the odds may grow: G = γ(1−d)/(d(1−γ)), or e^ε."""
        if self.epsilon is not None:
            return gamma_for_epsilon(self.epsilon)
        self._require_room(prior)
        return self._limit * (1 - prior) / (prior * (1 - self._limit))

    def _noise(self, growth: Fraction, size: int, rows: int) -> Fraction:
        """β: so that no tuple that is seen gains more than it may."""
        if self.sources is not None:
            return self._noise_of_sources(growth, size, rows)
        fade = Fraction(1) if self.views == 1 else fade_of(self.views)
        again = Fraction(ceil(_FINE / fade ** (self.views - 1)), _FINE)  # seen in every view
        tight = self.keep * again / growth
        if not self.exclusive:
            return tight
        # The other tuples of a set lose by never being seen; one view: theorem 6.3.
        return max(2 / growth, tight / (1 - self.keep) ** self.views)

    def _noise_of_sources(self, growth: Fraction, size: int, rows: int) -> Fraction:
        """With d or ε: α/β(t) + 1 ≤ G where β(t) is smallest. With k, prior k·n·p(t): the odds end
        at k·n·(p + α/C) / (1 − k·n·p) for C = Σβ(t), which is largest where p is. There is room as
        long as that prior is below γ.
        """
        if self.k is None:
            low, _ = extremes(Included(rows, self.keep, Fraction(1), sources=self.sources))
            return self.keep / (low * (growth - 1) + 1)
        end = self._limit / (1 - self._limit)
        largest = self._largest_share(size)
        room = Fraction(1, size) + end / (self.k * max(rows, 1)) - largest * (1 + end)
        return self.keep / (room * size)

    def _largest_share(self, size: int) -> Fraction:
        """max p(t), which is 1/m without sources."""
        _, high = extremes(Included(0, self.keep, Fraction(1, size), sources=self.sources))
        return high

    def _require_room(self, prior: Fraction) -> None:
        if prior >= self._limit:
            raise PromiseError(
                "Some row would have a prior of gamma or more (k times the number of rows times "
                "its share of the domain), so that nothing keeps it below gamma. Ask for a smaller "
                "k or a larger gamma, or publish more attributes."
            )

    def _require(self, found: Included, size: int, rows: int) -> None:
        """Refuse what no noise can keep."""
        prior = self.prior(size, rows)
        factor = self.k if self.k is not None else prior * size / max(rows, 1)
        # Theorem 3.3 with its constant at 1. As d is below γ, this happens only for n < √m, where
        # the variance of a count, about 2 k (1−γ)/γ n, is above 2 n².
        useful = self.gamma is not None and (self.k or rows)
        if useful and (factor * (1 - self._limit) / self._limit) ** 2 >= size:
            raise PromiseError(
                "The prior asked for is of the order of the square root of the domain (k ~ √m): no "
                "publication can then be both private and useful (Rastogi, Suciu, Hong, theorem "
                "3.3). Ask for a smaller k or d, or a larger gamma."
            )
        if not self._kept(odds_of(found), prior):
            raise PromiseError(self._broken(size, rows, prior))

    def _kept(self, odds: Odds, prior: Fraction) -> bool:
        """(d, γ): seen, the posterior is at most γ; not seen, at least d/γ of the prior. ε: neither
        moves the odds by more than e^ε.

        With k and sources the noise was chosen tuple by tuple; only the second is left to see.
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


def _two_digits(place: int) -> Fraction:
    """The numbers 1, 1.1, ... 9.9, 10, 11, ... 99, 100, 110, ... in their order."""
    magnitude, digits = divmod(place, _TWO_DIGITS)
    return (10 + digits) * Fraction(10) ** (magnitude - 1)


def fade_of(views: int) -> Fraction:
    """e^(−1/v) to six digits. Any number below 1 would do: the promise is computed from this."""
    return Fraction(round(exp(-1 / views) * _FADE_DIGITS), _FADE_DIGITS)
