"""Exact error laws of counts read through randomised response or draws from a pool.

A `CountModel` is a case in which the law of the number of shown values that count is known exactly.
It turns a number of rows and of shown values into a `EstimatedCountLaw`:

- `ResponseModel` → `RandomizedCount`: two binomial numbers.
- `PoolModel` → `DrawnCount`: a binomial number of draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from scumble.public.estimate import Estimate, Law, Shifted

EXACT = "exact: the answer depends on no perturbed value"
BINOMIAL = "inverted channel; exact binomial interval"
MANY = "inverted channel; binomial interval, by the normal law where thousands of rows decide"


class EstimatedCountLaw(Law, Protocol):
    """The law of a count, which also has the estimate."""

    @property
    def value(self) -> float: ...

    @property
    def exact(self) -> bool:
        """Whether the interval comes from binomial tails alone."""


class CountModel(Protocol):
    """A case in which the law of the number of shown values that count is known exactly."""

    def law(self, rows: int, shown: int) -> EstimatedCountLaw:
        """Return the law of the count, if `rows` rows show `shown` values that count."""
        ...


def count_estimate(
    model: CountModel, rows: int, shown: int, notes: tuple[str, ...], known: float = 0.0
) -> Estimate:
    """Return the estimated count among `rows` rows, plus the `known` number of other rows."""
    law = model.law(rows, shown)
    method = BINOMIAL if law.exact else MANY
    return Estimate(law.value + known, Shifted(law, known) if known else law, method, notes)


@dataclass(frozen=True)
class ResponseModel:
    """Randomised response: each row shows `surplus` values that count in any case.

    It shows one more with probability `outside`, or `outside + keep` if the row itself counts.
    """

    keep: float
    outside: float
    surplus: int = 0

    def law(self, rows: int, shown: int) -> RandomizedCount:
        return RandomizedCount(rows, shown - rows * self.surplus, self.keep, self.outside)


@dataclass(frozen=True)
class PoolModel:
    """Each row shows its own value and `number` draws, which count with probability `share`."""

    number: int
    share: float

    def law(self, rows: int, shown: int) -> DrawnCount:
        return DrawnCount(rows, shown, rows * self.number, self.share)


# If the standard error of the shown number is larger than this, its tails come from the normal law
# with a correction for skewness. Without the correction their error would be below 0.56 / 200 =
# 0.3 % (Berry-Esseen for independent indicators); with it, it is of the order of 1 / 200².
_EXACT_STDERR = 200.0
# Below this probability Bin(n, p) is taken for Poisson: no event differs by more than p (Barbour,
# Hall, 1984), which is added to the tails. So domains may have more tuples than floats can count.
_RARE = 1e-8
_TINY_KEEP = 1e-100  # its square has no digits left


@dataclass(frozen=True)
class RandomizedCount:
    """The law of the count `(shown - rows * outside) / keep`, read through randomised response.

    Of `rows` published rows that satisfy the public part of a question, `f` truly satisfy the rest.
    Each of these shows as satisfying with probability `inside = keep + outside`, each other one
    with probability `outside`. The number that shows is Bin(f, inside) + Bin(rows - f, outside).
    Its law for every f is known exactly, and the interval holds every f that it does not reject.

    For a set of tuples, true and false, `rows` are all tuples of the domain that satisfy the
    question, which may be far more than a float can count, and `most` is the largest number of them
    that can be true.

    `keep` is a parameter, since the difference of `inside` and `outside` loses digits when `keep`
    is tiny. So is `expected`, which is `rows * outside`, for factors that are too large and too
    small for floats.
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
        """The standard error at the estimated count, cut to possible counts."""
        return (
            math.sqrt(self._variance(min(max(self.value, 0.0), float(self._largest)))) / self.keep
        )

    @property
    def exact(self) -> bool:
        """Whether the interval comes from binomial tails alone."""
        return max(self._variance(0.0), self._variance(float(self._largest))) <= _EXACT_STDERR**2

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """Return limits of all counts that the shown number does not reject, and of `value`."""
        low, high = _not_rejected(self, level)
        return min(float(low), value), max(float(high), value)

    def not_rejected(self, level: float) -> tuple[int, int]:
        """Return the least and the largest count that the shown number does not reject."""
        tail = (1 - level) / 2
        least, largest = self._score_limits(NormalDist().inv_cdf(1 - tail))
        above, below = self._accepts(tail, upper=True), self._accepts(tail, upper=False)
        beyond = self._first(self._largest - largest, lambda others: below(self._largest - others))
        return self._first(least, above), self._largest - beyond

    def _score_limits(self, steps: float) -> tuple[float, float]:
        """Return about the counts from which the shown number is `steps` standard errors away.

        These are the roots of the score equation, corrected for continuity and skewness.
        """
        outside, keep = self.outside, self.keep
        at = min(max(self.value, 0.0), float(self._largest))
        variance = self._variance(at)
        if not variance or keep < _TINY_KEEP:
            return self.value - steps * self.stderr, self.value + steps * self.stderr
        square = steps * steps
        skewed = (square - 1) / 6 * self._third(at) / variance
        centre = self.shown - self._expected - skewed
        slope = self.inside * (1 - self.inside) - outside * (1 - outside)
        # (distance - count keep)² = steps² (constant + count slope)
        constant = square * self._expected * (1 - outside)
        found = []
        for sign in (-1, 1):
            distance = centre + sign * 0.5
            middle = distance * keep + square * slope / 2
            root = middle * middle - keep * keep * (distance * distance - constant)
            found.append((middle + sign * math.sqrt(max(root, 0.0))) / (keep * keep))
        return found[0], found[1]

    @property
    def _largest(self) -> int:
        """The largest possible count."""
        return self.rows if self.most is None else min(self.rows, self.most)

    @property
    def _expected(self) -> float:
        """The expected shown number if the true count were 0."""
        return self.rows * self.outside if self.expected is None else self.expected

    def _variance(self, count: float) -> float:
        """Return the variance of the shown number if the true count were `count`."""
        false = self._rate(count) * (1 - self.outside)
        return count * self.inside * (1 - self.inside) + false

    def _first(self, guess: float, holds: Callable[[int], bool]) -> int:
        """Return the least count for which the monotone condition `holds` is true.

        The search begins near `guess`, in steps that double, since every evaluation is costly.
        """
        place = round(min(max(guess, 0.0), float(self._largest)))
        place = min(place, self._largest)
        step, low, high = 1, 0, self._largest
        if holds(place):
            high = place
            while high > low and holds(max(high - step, low)):
                high, step = max(high - step, low), 2 * step
            low = max(high - step, low)
        else:
            low = min(place + 1, self._largest)
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

    def _accepts(self, tail: float, *, upper: bool) -> Callable[[int], bool]:
        """Return a function that tells of counts whether their upper or lower tail is above `tail`.

        Where tails are sums of two binomial numbers, that of the count which the search asks for
        next is found with that of the count before.
        """
        known: dict[int, float] = {}
        paired, most = self.exact and self.outside >= _RARE, self._largest

        def accepts(count: int) -> bool:
            if count not in known:
                first = count - 1 if upper else count
                if paired and 0 <= first < most:
                    known[first], known[first + 1] = self._two_tails(first, upper=upper)
                else:
                    known[count] = self._tail(count, upper=upper)
            return known[count] > tail

        return accepts

    def _two_tails(self, count: int, *, upper: bool) -> tuple[float, float]:
        """Return the tails for the true counts `count` and `count` + 1.

        They have the same other rows, to which one is added that does not count or counts.
        """
        same, fewer = self._sum_tails(count, self.rows - 1, upper=upper)
        one, other = self.outside, self.inside
        return (1 - one) * same + one * fewer, (1 - other) * same + other * fewer

    def _tail(self, count: int, *, upper: bool) -> float:
        """Return P(shown number >= or <= `shown`) if the true count were `count`."""
        if self._variance(float(count)) > _EXACT_STDERR**2:
            return self._normal_tail(count, upper=upper)
        if self.outside >= _RARE:
            return self._sum_tails(count, self.rows, upper=upper)[0]
        true, false = binomial_window(count, self.inside), poisson_window(self._rate(count))
        return (sum_at_least if upper else sum_at_most)(true, false, self.shown)[0] + self.outside

    def _sum_tails(self, count: int, rows: int, *, upper: bool) -> tuple[float, float]:
        """Return P(N >= `shown`) and P(N >= `shown` - 1), or with <=, for the number N that is
        shown of `rows` rows, of which `count` truly count.
        """
        true = binomial_window(count, self.inside)
        false = binomial_window(rows - count, self.outside)
        return (sum_at_least if upper else sum_at_most)(true, false, self.shown)

    def _rate(self, count: float) -> float:
        """Return the expected number of rows that show but do not count."""
        return max(self._expected - count * self.outside, 0.0)

    def _normal_tail(self, count: int, *, upper: bool) -> float:
        """Return the normal tail with continuity correction and the first Edgeworth term."""
        sign = 1 if upper else -1
        spread = math.sqrt(self._variance(float(count)))
        distance = self.shown - self._expected - count * self.keep
        steps = (sign * distance - 0.5) / spread
        bell = math.exp(-steps * steps / 2) / math.sqrt(2 * math.pi)
        skewed = sign * self._third(count) / spread**3 / 6 * (steps * steps - 1) * bell
        return NormalDist().cdf(-steps) + skewed

    def _third(self, count: float) -> float:
        """Return the third central moment of the shown number if the true count were `count`."""
        means = ((count * self.inside, self.inside), (self._rate(count), self.outside))
        return sum(mean * (1 - chance) * (1 - 2 * chance) for mean, chance in means)


# Small groups have few different laws: of many answers most have one that was there before.
_not_rejected = lru_cache(maxsize=4096)(RandomizedCount.not_rejected)


@dataclass(frozen=True)
class DrawnCount:
    """The law of the count `shown - draws * share`, to which draws from a public pool were added.

    The `shown` values that count are those of the rows that truly do, and a binomial number of
    `draws` draws. The draws are independent of the rows, so the error is the binomial number minus
    its mean, whatever the truth.
    """

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
        """Return limits of all counts that leave a number of draws which its law does not reject,
        and of `value`.
        """
        tail = (1 - level) / 2
        fewest = _quantile(self.draws, self.share, tail)
        most = self.draws - _quantile(self.draws, 1 - self.share, tail)
        low, high = (min(max(self.shown - n, 0), self.rows) for n in (most, fewest))
        return min(float(low), value), max(float(high), value)


@lru_cache(maxsize=4096)  # groups of a GROUP BY, and tables of the same people, have the same ones
def _quantile(draws: int, share: float, tail: float) -> int:
    """Return the least number that Bin(draws, share) is at most with probability above `tail`."""
    spread = math.sqrt(draws * share * (1 - share))
    guess = round(draws * share + NormalDist().inv_cdf(tail) * spread)
    found = min(max(guess, 0), draws)
    while found > 0 and at_most(found - 1, draws, share) > tail:
        found -= 1
    while found < draws and at_most(found, draws, share) <= tail:
        found += 1
    return found


# --- binomial tails -------------------------------------------------------------------------------
#
# Binomial probabilities and tails for any number of trials, up to 10^30 and more.
#
# `at_most` is the regularised incomplete beta function, which scipy computes to eleven digits for
# every number of trials. `scipy.special.bdtr` takes the trials for a 32-bit number, and returns
# NaN, 0 or 1 from 2^31 on.
#
# `binomial_window` and `poisson_window` list all probabilities that matter, from the ratios of
# neighbours. No logarithm of a large factorial is taken, so no digit is lost for many trials.

_FEW = 4096  # trials, whose windows are kept

Window = tuple[int, npt.NDArray[np.float64]]  # a number, and the probabilities from it on


def binomial_window(trials: int, probability: float) -> Window:
    """Return the first number of a window, and P(Bin(trials, probability) = number) in the window.

    Numbers outside of it have less than 1e-30 of the probability together (Bernstein's inequality).
    Windows of few trials are kept, for the intervals of many counts need the same ones.
    """
    return _kept(trials, probability) if trials <= _FEW else _window(trials, probability)


def _window(trials: int, probability: float) -> Window:
    if probability > 0.5:
        first, mirrored = binomial_window(trials, 1 - probability)
        return trials - first - len(mirrored) + 1, mirrored[::-1]
    first, last = _window_limits(trials * probability, trials * probability * (1 - probability))
    last = min(last, trials)
    numbers = np.arange(first, last, dtype=np.float64)
    ratios = (float(trials) - numbers) * (probability / (1 - probability)) / (numbers + 1)
    return first, _from_ratios(ratios)


_kept = lru_cache(maxsize=2048)(_window)  # of at most 7 kB each


def poisson_window(mean: float) -> Window:
    """Return the window of the Poisson law, as `binomial_window` does."""
    first, last = _window_limits(mean, mean)
    return first, _from_ratios(mean / np.arange(first + 1, last + 1))


def _window_limits(mean: float, variance: float) -> tuple[int, int]:
    reach = 12 * math.sqrt(variance) + 40
    return max(0, math.floor(mean - reach)), math.ceil(mean + reach)


def _from_ratios(ratios: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return probabilities of which each is the one before times a ratio, and which add up to 1."""
    weights = np.empty(len(ratios) + 1)
    weights[0] = 1.0
    np.cumprod(ratios, out=weights[1:])
    weights /= weights.sum()
    weights.flags.writeable = False
    return weights


def sum_at_least(one: Window, other: Window, number: int) -> tuple[float, float]:
    """Return P(X + Y >= number) and P(X + Y >= number - 1).

    X and Y are independent, and given by their windows.
    """
    (first, chances), (second, others) = one, other
    tails = np.zeros(len(others) + 1)
    np.cumsum(others[::-1], out=tails[1:])  # of the last numbers of the window
    rest = min(max(number - first - second, -len(chances)), len(chances) + len(others))
    start = len(others) - rest
    found = tails.take(np.arange(start, start + len(chances) + 1), mode="clip")
    return float(chances @ found[:-1]), float(chances @ found[1:])


def sum_at_most(one: Window, other: Window, number: int) -> tuple[float, float]:
    """Return P(X + Y <= number) and P(X + Y <= number - 1), as `sum_at_least` does."""
    (first, chances), (second, others) = one, other
    tails = np.zeros(len(others) + 1)
    np.cumsum(others, out=tails[1:])
    rest = min(max(number - first - second, -len(chances)), len(chances) + len(others))
    found = tails.take(np.arange(rest + 1, rest - len(chances), -1), mode="clip")
    return float(chances @ found[:-1]), float(chances @ found[1:])


def at_most(numbers: Any, trials: int, probability: float) -> Any:
    """Return P(Bin(trials, probability) <= number) for every one of `numbers`."""
    from scipy.special import betaincc

    numbers = np.asarray(numbers)
    tails = np.where(numbers < 0, 0.0, 1.0)
    usable = (numbers >= 0) & (numbers < trials)
    some = numbers[usable].astype(np.float64)
    tails[usable] = betaincc(some + 1, float(trials) - some, probability)
    return tails
