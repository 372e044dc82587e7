"""Answers about a table from a release of a sample of its people.

What a release says about the sample is divided by the share q of people who were drawn. Beside the
noise there is then the error of sampling. An interval allows for both: at its level, neither the
noise nor the sample leaves its limits. Those of the sample are

| answer  | limits                                                                                |
|---------|---------------------------------------------------------------------------------------|
| count   | of Clopper and Pearson, binomial or hypergeometric; if people have several rows, of   |
|         | Bernstein's inequality                                                                |
| sum     | the score interval of the variances of noise and sample together                      |
| average | of Hoeffding's inequality, with the least count                                       |

The variance of a sum of the amounts x of people who are drawn with probability q, divided by q, is
(1 - q)/q Σ x². The estimate of Σ x² is one more sum of the sample. With r rows of a person it is at
most r times as much. Of a sample of a fixed size it is (1 - q)/q (Σ x² - (Σ x)²/n) n/(n - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from scumble.model.errors import QueryError
from scumble.model.privacy.sampling import Sample
from scumble.model.query import Expression, Query
from scumble.public.estimate import Estimate, Exact, Law, Unknown, is_bounded
from scumble.public.estimation.estimators import Estimator, Rows
from scumble.public.estimation.impossible import IMPOSSIBLE
from scumble.public.estimation.interval_laws import score_half_width

_UNSURE = 1e-9
_OF_VARIANCE = 1 / 50  # of α: that a limit of the sum of squares fails


@dataclass(frozen=True)
class SampledEstimator(Estimator):
    """An estimator whose answers are about all people, of whom `sample` was drawn."""

    sample: Sample

    def one(self, query: Query) -> Rows:
        found = list(super().one(query))
        if query.aggregate == "count":
            return [(key, self._count(each)) for key, each in found]
        counts = dict(super().one(replace(query, aggregate="count", argument=None)))
        limits = self._limits(query)
        if query.aggregate == "mean":
            return [(key, self._mean(each, counts[key], limits)) for key, each in found]
        squares = self._squares(query)
        return [
            (key, self._sum(each, counts[key], squares.get(key), limits)) for key, each in found
        ]

    def many(self, queries: Sequence[Query]) -> Iterable[Rows]:
        return map(self.one, queries)

    def _squares(self, query: Query) -> Mapping[tuple[Any, ...], Estimate]:
        """Return the sums of squared amounts; none if what was published does not tell them."""
        if query.argument is None:
            return {}
        sql = f"(({query.argument.sql})::DOUBLE * ({query.argument.sql}))"
        squared = Expression(sql, query.argument.attributes, query.argument.start)
        try:
            return dict(super().one(replace(query, argument=squared)))
        except QueryError:
            return {}

    def _limits(self, query: Query) -> tuple[float, float]:
        """Return the least and the largest amount under the condition, wherever in its bins a
        value may be.
        """
        argument = query.argument
        if argument is None:
            return 0.0, 1.0
        cut = self._cut(query) if self._is_coarse(query) else None
        if cut is not None and cut.amount is not None:
            ends = cut.limits
            return ends[cut.amount.least.sql][0], ends[cut.amount.largest.sql][1]
        named = set(argument.attributes)
        names = [name for name in self.schema.names if name in named]
        own = [each for each in query.clauses if set(each.attributes) <= named]
        return self.sandbox.limits(argument, names, own)

    def _count(self, found: Estimate) -> Estimate:
        sample = self.sample
        if found.method == IMPOSSIBLE:
            return found
        if isinstance(found.law, Unknown):
            return self._scaled(found, found.law)
        if isinstance(found.law, Exact):
            if sample.people is not None and found.value == sample.drawn:
                return replace(found, value=float(sample.people))
            if found.value == 0 and not self.evidence.rows:
                return found
        return self._scaled(found, SampledCount(found.law, found.value, sample))

    def _sum(
        self,
        found: Estimate,
        count: Estimate,
        squares: Estimate | None,
        limits: tuple[float, float],
    ) -> Estimate:
        if isinstance(found.law, Unknown) or isinstance(count.law, Unknown):
            return self._scaled(found, Unknown())
        largest = max(map(abs, limits))
        if (
            found.method == IMPOSSIBLE or not largest or not math.isfinite(largest)
        ):  # no row can satisfy the condition
            return found
        counted = SampledCount(count.law, count.value, self.sample)
        return self._scaled(found, SampledSum(found.law, found.value, counted, largest, squares))

    def _mean(self, found: Estimate, count: Estimate, limits: tuple[float, float]) -> Estimate:
        if isinstance(found.law, Unknown) or isinstance(count.law, Unknown) or self.sample.rows > 1:
            return replace(found, law=Unknown())
        if limits[0] == limits[1] or math.isnan(found.value):
            return found
        law = SampledMean(found.law, count.law, count.value, limits)
        return replace(found, law=law, method=_method(found))

    def _scaled(self, found: Estimate, law: Law) -> Estimate:
        value = found.value / self.sample.share
        return replace(found, value=value, law=law, method=_method(found))


def _method(found: Estimate) -> str:
    return f"{found.method}; from a sample of the people"


@dataclass(frozen=True)
class SampledCount:
    """The law of a count of all people; `law` and `value` are those of the count in the sample."""

    law: Law
    value: float
    sample: Sample

    @property
    def stderr(self) -> float:
        rate = self.sample.share
        spread = max(self.value, 0.0) * (1 - rate) * self.sample.rows
        return math.sqrt(self.law.stderr**2 + spread) / rate

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """Return limits of the count: half of what is not covered is for the noise."""
        known = isinstance(self.law, Exact)
        low, high = self.law.interval(self.value, 1 - (1 - level) / 2)
        return self.limits(low, high, (1 - level) / (2 if known else 4))

    def limits(self, low: float, high: float, tail: float) -> tuple[float, float]:
        """Return limits of the count in the table if the sample has from `low` to `high`; each is
        passed with probability `tail` at most.
        """
        least, most = max(math.ceil(low - _UNSURE), 0), math.floor(high + _UNSURE)
        at_least, at_most = self._tails()
        top = self.sample.people
        lowest = _first(lambda number: at_least(number, least) > tail, 0, top) if least else 0
        if most < 0:
            return 0.0, 0.0
        beyond = _first(lambda number: at_most(number, most) <= tail, most, top)
        return float(lowest), float(beyond - 1 if at_most(beyond, most) <= tail else beyond)

    def _tails(self) -> tuple[Callable[[int, int], float], Callable[[int, int], float]]:
        """Return P(drawn >= k) and P(drawn <= k) of `number` people, or bounds of them."""
        rate, rows = self.sample.share, self.sample.rows
        if rows > 1:
            return (
                lambda number, k: _bernstein(k - rate * number, number, rate, rows),
                lambda number, k: _bernstein(rate * number - k, number, rate, rows),
            )
        people, drawn = self.sample.people, self.sample.drawn
        if people is not None and drawn is not None:
            from scipy.stats import hypergeom

            return (
                lambda number, k: float(hypergeom.sf(k - 1, people, number, drawn)),
                lambda number, k: float(hypergeom.cdf(k, people, number, drawn)),
            )
        from scipy.special import betainc

        return (
            lambda number, k: 0.0 if number < k else float(betainc(k, number - k + 1, rate)),
            lambda number, k: 1.0 if number <= k else float(betainc(number - k, k + 1, 1 - rate)),
        )


def _bernstein(gap: float, number: int, rate: float, rows: int) -> float:
    """Return a bound of P(the rows drawn are off by `gap`), of `number` rows of people who have up
    to `rows` each.
    """
    if gap <= 0:
        return 1.0
    variance, largest = rows * number * rate * (1 - rate), rows * max(rate, 1 - rate)
    return math.exp(-gap * gap / (2 * (variance + largest * gap / 3)))


def _first(test: Callable[[int], bool], start: int, top: int | None) -> int:
    """Return the first number from `start` on, up to `top`, for which a test that stays true
    becomes true; `top` if there is none.
    """
    low, high = start, start + 1
    while not test(high) and (top is None or high < top):
        low, high = high, 2 * high + 1
    if top is not None:
        high = min(high, top)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if test(middle) else (middle + 1, high)
    return low


@dataclass(frozen=True)
class SampledSum:
    """The law of a sum over all people of amounts of at most `largest`; `law` and `value` are those
    of the sum in the sample, `count` is the law of the number of rows that are summed. `squares` is
    the sum of the squared amounts in the sample, if it is known.
    """

    law: Law
    value: float
    count: SampledCount
    largest: float
    squares: Estimate | None = None

    @property
    def stderr(self) -> float:
        most = max(self.count.value, 0.0) * self.largest**2
        squares = most if self.squares is None else min(max(self.squares.value, 0.0), most)
        sample = self.count.sample
        total = self.value / sample.share
        return math.sqrt((self.law.stderr / sample.share) ** 2 + self._variance(squares, total))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """Return limits of the sum. Both of the variance are passed with a small part of what is
        not covered. The error of the noise is taken for normal, with the larger one of its standard
        error and that which its own interval has at this level.
        """
        left, rate = (1 - level) * (1 - 2 * _OF_VARIANCE), self.count.sample.share
        most = self._most_squares(1 - (1 - level) * _OF_VARIANCE)
        if is_bounded(self.law):  # the limits of pieces are no noise: they add up
            low, high = self.law.interval(self.value, 1 - left / 2)
            half = self._half(self._variance(most, 0.0), 1 - left / 2)
            return low / rate - half, high / rate + half
        low, high = self.law.interval(self.value, 1 - left)
        z, total = NormalDist().inv_cdf(1 - left / 2), self.value / rate
        ends = []
        for side, reach in ((-1, self.value - low), (1, high - self.value)):
            noise = (max(reach / z, self.law.stderr) / rate) ** 2
            half = self._half(noise + self._variance(most, 0.0), 1 - left)
            # The variance of a sample of a fixed size is smaller for a sum that is larger.
            variance = self._variance(most, max(abs(total) - half, 0.0))
            ends.append(total + side * self._half(noise + variance, 1 - left))
        return ends[0], ends[1]

    def _half(self, variance: float, level: float) -> float:
        """Return the half-width for a variance of noise and sample."""
        sample = self.count.sample
        person = self.largest * sample.rows * max(1 / sample.share - 1, 1.0)
        return score_half_width(variance, person, level)

    def _most_squares(self, level: float) -> float:
        """Return the largest sum of squares in the sample, from its estimate or from the count."""
        _, rows = self.count.law.interval(self.count.value, level)
        most = max(rows, 0.0) * self.largest**2
        if self.squares is None or not math.isfinite(self.squares.value):
            return most
        return min(max(self.squares.interval(level)[1], 0.0), most)

    def _variance(self, squares: float, total: float) -> float:
        """Return the variance by the draw of people, of whom those drawn have this sum of squares;
        `total` is the sum over all people.
        """
        sample, rate = self.count.sample, self.count.sample.share
        found = (1 - rate) / rate * sample.rows * squares / rate
        if sample.people is not None and sample.people > 1:
            found -= (1 - rate) / rate * total**2 / sample.people
            found *= sample.people / (sample.people - 1)
        return max(found, 0.0)


@dataclass(frozen=True)
class SampledMean:
    """The law of an average over all people of amounts within `limits`; `law` is that of the
    average in the sample, `count_law` and `count` those of the number of rows in the sample.
    """

    law: Law
    count_law: Law
    count: float
    limits: tuple[float, float]

    @property
    def stderr(self) -> float:
        """At most: as if all amounts were at their limits."""
        width = (self.limits[1] - self.limits[0]) / 2
        return math.hypot(self.law.stderr, width / math.sqrt(max(self.count, 1.0)))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        left = (1 - level) / 3
        least, most = self.limits
        rows, _ = self.count_law.interval(self.count, 1 - left)
        if rows < 1:
            return least, most
        far = (most - least) * math.sqrt(math.log(2 / left) / (2 * math.floor(rows)))
        low, high = self.law.interval(value, 1 - left)
        return max(low - far, least), min(high + far, most)
