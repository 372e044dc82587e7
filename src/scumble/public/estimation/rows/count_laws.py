"""Exact binomial laws of a count.

How many shown values count: the cases in which the law of this number is known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Protocol

from scumble.public.estimate import Estimate, Law
from scumble.public.estimation.interval_laws import Shifted

EXACT = "exact: the answer depends on no perturbed value"
BINOMIAL = "inverted channel; exact binomial interval"
MANY = "inverted channel; binomial interval, by the normal law where thousands of rows decide"


class CountLaw(Law, Protocol):
    """The law of a count, which knows the estimate as well."""

    @property
    def value(self) -> float: ...

    @property
    def exact(self) -> bool:
        """Whether the interval comes from binomial tails alone."""


class Shown(Protocol):
    """From a number of rows, and of shown values that count, to the law of the count."""

    def law(self, rows: int, shown: int) -> CountLaw: ...


def counted(
    kind: Shown, rows: int, shown: int, notes: tuple[str, ...], known: float = 0.0
) -> Estimate:
    """The count behind what some rows show, and `known` others."""
    law = kind.law(rows, shown)
    method = BINOMIAL if law.exact else MANY
    return Estimate(law.value + known, Shifted(law, known) if known else law, method, notes)


@dataclass(frozen=True)
class Coins:
    """Each row shows `surplus` values that count in any case, and one more with the probability
    `outside`, or `outside + keep` if the row itself counts.
    """

    keep: float
    outside: float
    surplus: int = 0

    def law(self, rows: int, shown: int) -> RandomizedCount:
        return RandomizedCount(rows, shown - rows * self.surplus, self.keep, self.outside)


@dataclass(frozen=True)
class Draws:
    """Each row shows its own value and `number` draws, each of which counts with probability
    `share`.
    """

    number: int
    share: float

    def law(self, rows: int, shown: int) -> DrawnCount:
        return DrawnCount(rows, shown, rows * self.number, self.share)


# The error law of a count that was read through randomized response.
#
# Of `rows` published rows that satisfy the public part of a question, `f` truly satisfy the rest;
# each of these shows as satisfying with probability `inside`, each other one with probability
# `outside`. The number that shows is Bin(f, inside) + Bin(rows - f, outside): its law for every f
# is known exactly, and the interval holds every f that this law does not reject.
#
# For a set of tuples, true and false, `rows` are all tuples of the domain that satisfy the
# question, which may be far more than a float can count, and `most` is how many of them can be
# true.

# For true counts with more than this spread of the shown number, its tails come from the normal law
# with a correction for skewness. Without it their error would be below 0.56 / 200 = 0.3 %
# (Berry-Esseen for independent indicators); with it, it is of the order of 1 / 200².
_EXACT_SPREAD = 200.0
# Below this probability Bin(n, p) is taken for Poisson: no event differs by more than p (Barbour,
# Hall, 1984), which is added to the tails. The binomial tails would lose the digits of 1 - p.
_RARE = 1e-8


@dataclass(frozen=True)
class RandomizedCount:
    """Count estimate `(shown - rows * outside) / keep`, where `keep = inside - outside`.

    `keep` is given, not the difference: that would lose its digits when `keep` is tiny. So is
    `expected`, which is `rows * outside`, where the two are too large and too small for floats.
    """

    rows: int
    shown: int
    keep: float
    outside: float
    most: int | None = None
    expected: float | None = None

    @property
    def inside(self) -> float:
        return self.keep + self.outside

    @property
    def value(self) -> float:
        return (self.shown - self._expected) / self.keep

    @property
    def stderr(self) -> float:
        """At the estimated count, cut to what a count can be."""
        return math.sqrt(self._spread(min(max(self.value, 0.0), float(self._top)))) / self.keep

    @property
    def exact(self) -> bool:
        """Whether the interval comes from binomial tails alone."""
        return max(self._spread(0.0), self._spread(float(self._top))) <= _EXACT_SPREAD**2

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """All counts that the shown number does not reject, and the estimate itself."""
        tail = (1 - level) / 2
        reach = NormalDist().inv_cdf(1 - tail) * self.stderr
        low = self._first(self.value - reach, lambda count: self._tail(count, upper=True) > tail)
        guess = self._top - self.value - reach
        beyond = self._first(
            guess, lambda others: self._tail(self._top - others, upper=False) > tail
        )
        return min(float(low), value), max(float(self._top - beyond), value)

    @property
    def _top(self) -> int:
        """The largest count that can be."""
        return self.rows if self.most is None else min(self.rows, self.most)

    @property
    def _expected(self) -> float:
        """How many would show if the true count were 0."""
        return self.rows * self.outside if self.expected is None else self.expected

    def _spread(self, count: float) -> float:
        """Variance of the shown number if the true count were `count`."""
        false = self._rate(count) * (1 - self.outside)
        return count * self.inside * (1 - self.inside) + false

    def _first(self, guess: float, holds: Callable[[int], bool]) -> int:
        """The least count for which a condition that stays true once it is true holds.

        The search begins near a guess, in steps that double, since every look is costly.
        """
        place = min(max(round(guess), 0), self._top)
        step, low, high = 1, 0, self._top
        if holds(place):
            high = place
            while high > low and holds(max(high - step, low)):
                high, step = max(high - step, low), 2 * step
            low = max(high - step, low)
        else:
            low = min(place + 1, self._top)
            while low < high and not holds(min(low + step, high)):
                low, step = min(low + step + 1, high), 2 * step
            high = min(low + step, high)
        while low < high:
            middle = (low + high) // 2
            if holds(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _tail(self, count: int, *, upper: bool) -> float:
        """P(shown number >= or <= the one seen) if the true count were `count`."""
        if self._spread(float(count)) > _EXACT_SPREAD**2:
            return self._normal_tail(count, upper=upper)
        return self._exact_tail(count, upper=upper)

    def _exact_tail(self, count: int, *, upper: bool) -> float:
        """Summed over the first binomial where it has mass."""
        import numpy as np

        mean = count * self.inside
        reach = 12 * math.sqrt(mean * (1 - self.inside)) + 40
        first = np.arange(max(0, math.floor(mean - reach)), min(count, math.ceil(mean + reach)) + 1)
        tails = (self._upper if upper else self._lower)(self.shown - first, count)
        chances = _binomial(first, count, self.inside)
        return float(chances @ tails) + (self.outside if self.outside < _RARE else 0.0)

    def _upper(self, rest: Any, count: int) -> Any:
        """P(at least `rest` of those that do not count show)."""
        import numpy as np
        from scipy.special import bdtrc, pdtrc

        tails = np.where(rest <= 0, 1.0, 0.0)
        if self.outside < _RARE:
            tails[rest > 0] = pdtrc(rest[rest > 0] - 1, self._rate(count))
            return tails
        others = self.rows - count
        # bdtrc(k, n, p) = P(> k); it wants 0 <= k < n.
        usable = (rest > 0) & (rest <= others)
        tails[usable] = bdtrc(rest[usable] - 1, others, self.outside)
        return tails

    def _lower(self, rest: Any, count: int) -> Any:
        """P(at most `rest` of those that do not count show)."""
        import numpy as np
        from scipy.special import bdtr, pdtr

        if self.outside < _RARE:
            tails = np.zeros(len(rest))
            tails[rest >= 0] = pdtr(rest[rest >= 0], self._rate(count))
            return tails
        others = self.rows - count
        tails = np.where(rest >= others, 1.0, 0.0)
        usable = (rest >= 0) & (rest < others)
        tails[usable] = bdtr(rest[usable], others, self.outside)
        return tails

    def _rate(self, count: float) -> float:
        """How many that do not count are expected to show."""
        return max(self._expected - count * self.outside, 0.0)

    def _normal_tail(self, count: int, *, upper: bool) -> float:
        """The normal tail, half a row nearer to the mean, and the first Edgeworth term."""
        sign = 1 if upper else -1
        spread = math.sqrt(self._spread(float(count)))
        distance = self.shown - self._expected - count * self.keep
        steps = (sign * distance - 0.5) / spread
        means = ((count * self.inside, self.inside), (self._rate(count), self.outside))
        third = sum(mean * (1 - chance) * (1 - 2 * chance) for mean, chance in means)
        bell = math.exp(-steps * steps / 2) / math.sqrt(2 * math.pi)
        skewed = sign * third / spread**3 / 6 * (steps * steps - 1) * bell
        return NormalDist().cdf(-steps) + skewed


def _binomial(successes: Any, trials: int, probability: float) -> Any:
    """The probabilities of so many successes (scipy.stats would take a second to import)."""
    import numpy as np
    from scipy.special import gammaln, xlog1py, xlogy

    failures = trials - successes
    ways = gammaln(trials + 1) - gammaln(successes + 1) - gammaln(failures + 1)
    return np.exp(ways + xlogy(successes, probability) + xlog1py(failures, -probability))


# The error law of a count to which draws from a public pool were added.
#
# `shown` values count: those of the rows that truly do, and a binomial number of draws. The draws
# know nothing of the rows, so the error is the binomial number without its mean, whatever the
# truth.


@dataclass(frozen=True)
class DrawnCount:
    """Count estimate `shown - draws * share`, for `rows` rows and `draws` draws in all."""

    exact: ClassVar[bool] = True

    rows: int
    shown: int
    draws: int
    share: float

    @property
    def value(self) -> float:
        return self.shown - self.draws * self.share

    @property
    def stderr(self) -> float:
        return math.sqrt(self.draws * self.share * (1 - self.share))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """All counts that leave a number of draws which its law does not reject, and the estimate
        itself.
        """
        tail = (1 - level) / 2
        fewest = _quantile(self.draws, self.share, tail)
        most = self.draws - _quantile(self.draws, 1 - self.share, tail)
        low, high = (min(max(self.shown - n, 0), self.rows) for n in (most, fewest))
        return min(float(low), value), max(float(high), value)


def _quantile(draws: int, share: float, tail: float) -> int:
    """The least number that Bin(draws, share) does not exceed with a probability above `tail`."""
    spread = math.sqrt(draws * share * (1 - share))
    guess = round(draws * share + NormalDist().inv_cdf(tail) * spread)
    found = min(max(guess, 0), draws)
    while found > 0 and _at_most(draws, share, found - 1) > tail:
        found -= 1
    while found < draws and _at_most(draws, share, found) <= tail:
        found += 1
    return found


def _at_most(draws: int, share: float, number: int) -> float:
    """P(Bin(draws, share) <= number), for a number below `draws`."""
    from scipy.special import betainc

    return float(betainc(draws - number, number + 1, 1 - share))
