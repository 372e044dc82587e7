"""Variances, standard deviations and covariances, from averages of products.

If μ and ν are the true means of x and y, Σ ((x - μ)(y - ν) - C) is 0 for the true covariance C. For
known means, the interval of AVG((x - μ)(y - ν)) is one of C, by a law that knows how the errors of
all sums depend on each other. The means are in intervals [a, a'] and [b, b'], by the same level.
What is averaged is linear in each mean, so that it is a mixture of its forms at the four corners,
and so is its error. The interval goes from the least to the largest limit of these four averages.
The variance is the case y = x.

The estimate is wrong by T - D·E, where T is the error with the true means, and D and E are the
errors of the means. The interval allows for a T and a D·E that both are as large as their level
says. They rarely are at once: if T, D and E are normal, the interval covers its level whatever
their variances and correlations (the tests integrate this).

A variance of averages with normal errors has a shorter interval, without the pairs of errors that
are both rare. In units of the standard error σ of the mean, the average of squares about a fixed m
is wrong by h·d + s·w, where d is the error of the mean and w is independent of it. The variance is
then off by h·d - d² - s·w, in units of σ². The interval has all values of it with d² + w² ≤ c²:
those that the likelihood does not exclude. h and s follow from the variances of the averages about
three places. c is the normal quantile, or what the law of the average needs where that is more. It
would be enough for a straight line; the smaller s is, the more the line bends. Up to s = 1, c² has
the excess of the quantile of d² + w², which is enough for every line, and from there on less of it
by 1/s². The tests integrate the coverage of this, too.

In a database, where questions must not depend on answers, the covariance is
AVG((x - c)(y - d)) - (AVG(x) - c)(AVG(y) - d) with c and d in the middle of the domain. The
intervals of the averages hold together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from scumble.model.query import Expression, Query, quoted
from scumble.public.estimate import NOT_ANSWERED, Anywhere, Estimate, Exact, Law, Unknown
from scumble.public.estimation.interval_laws import FiellerRatio
from scumble.public.estimation.selecting.groups import KeyValues, nothing
from scumble.public.estimation.selecting.interval_arithmetic import Interval, apply_interval
from scumble.public.sql.aggregates import Term

if TYPE_CHECKING:
    from scumble.public.estimation.selecting.selection import Selection

METHOD = "from averages of products; their intervals hold together"
FEW = "too few people to tell it: it may be any number that is possible"
_ANGLES = 721  # at which limits are sought
_ROWS = 1 / 25  # of α: that the interval of the number of rows fails


def variances(selection: Selection, term: Term) -> dict[KeyValues, Estimate]:
    """Return a variance, standard deviation or covariance for each group."""
    products = Products(selection, term)
    return {key: products.estimate(key) for key in selection.keys}


@dataclass(frozen=True)
class Products:
    """The averages that a variance or covariance is made of."""

    selection: Selection
    term: Term

    @cached_property
    def arguments(self) -> tuple[Expression, Expression]:
        assert self.term.argument is not None  # noqa: S101  (the parser saw to it)
        return self.term.argument, self.term.second or self.term.argument

    @cached_property
    def clauses(self) -> tuple[Expression, ...]:
        return tuple(dict.fromkeys((*self.selection.plan.clauses, *self.term.clauses)))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.selection.plan.notes, *self.term.notes)))

    @cached_property
    def limits(self) -> list[Interval]:
        """The least and largest value of each argument on the domain."""
        schema = self.selection.groups.schema
        found = []
        for argument in self.arguments:
            alone = schema[argument.attributes[0]] if len(argument.attributes) == 1 else None
            if alone is not None and alone.number and argument.sql == quoted(alone.name):
                found.append((float(alone.number.low), float(alone.number.high)))
                continue
            names = [name for name in schema.names if name in argument.attributes]
            within = [each for each in self.clauses if set(each.attributes) <= set(names)]
            found.append(self.selection.sandbox.limits(argument, names, within))
        return found

    @property
    def single(self) -> bool:
        return self.term.second is None

    def mean(self, place: int, key: KeyValues) -> Estimate | None:
        return self.selection.ask(self.mean_query(place)).get(key)

    def mean_query(self, place: int) -> Query:
        argument = self.arguments[place]
        return Query("mean", argument, self.clauses, text=self.selection.plan.text)

    def number(self, key: KeyValues) -> Estimate | None:
        return self.selection.ask(self.number_query).get(key)

    @property
    def number_query(self) -> Query:
        return Query("count", None, self.clauses, text=self.selection.plan.text)

    @property
    def centres(self) -> tuple[float, float]:
        """The middles of the domains of the arguments."""
        first, second = ((low + high) / 2 for low, high in self.limits)
        return first, second

    def product(self, key: KeyValues) -> Estimate | None:
        """Return AVG((x - c)(y - d)); None if no value of the domain satisfies the condition."""
        if math.isnan(sum(map(sum, self.limits))):
            return None
        return self.selection.ask(self.product_query(self.centres)).get(key)

    def products(self, key: KeyValues, centres: Sequence[tuple[float, float]]) -> list[Estimate]:
        """Return AVG((x - c)(y - d)) of one group for several pairs of constants."""
        return self.selection.ask_about(key, [self.product_query(each) for each in centres])

    def product_query(self, centres: tuple[float, float]) -> Query:
        parts = [
            f"(({argument.sql}) - ({centre!r})::DOUBLE)"
            for argument, centre in zip(self.arguments, centres, strict=True)
        ]
        names = {name for argument in self.arguments for name in argument.attributes}
        amount = Expression(" * ".join(parts), tuple(sorted(names)), self.arguments[0].start)
        return Query("mean", amount, self.clauses, text=self.selection.plan.text)

    def estimate(self, key: KeyValues) -> Estimate:
        empty = nothing(Query("mean", notes=self.notes))
        number = self.number(key)
        parts = [self.mean(place, key) for place in (0, 1)]
        if not any(each is None or math.isnan(each.value) for each in parts):
            parts.append(self.product(key))
        known = [each for each in (number, *parts) if each is not None]
        for each in known:
            if each.reason == NOT_ANSWERED:
                return each
        exact = all(isinstance(each.law, Exact) for each in known)
        if number is None or len(known) < len(parts) + 1 or any(map(_is_null, known)):
            return empty
        if any(math.isnan(each.value) for each in known) or self._too_few(number.value):
            return empty if exact else self._unknown()
        _, *means, product = known
        moments = Moments(self, key, product, (means[0], means[1]), number)
        law: Law = Exact() if exact else moments
        return Estimate(moments.value, law, METHOD, self.notes)

    def _too_few(self, number: float) -> bool:
        """Whether a number of rows is too small for a variance of a sample."""
        return self.term.option == "samp" and number < 1.5

    def _unknown(self) -> Estimate:
        """Return the number of too few people: any that there can be."""
        twice = 2.0 if self.term.option == "samp" else 1.0  # n / (n - 1) for n = 2
        low, high = (limit * twice for limit in self.possible)
        ends = (math.sqrt(low), math.sqrt(high)) if self.term.root else (low, high)
        return Estimate(math.nan, Anywhere(*ends), FEW, self.notes)

    @property
    def possible(self) -> Interval:
        """The least and the largest variance or covariance of a population."""
        widths = [high - low for low, high in self.limits]
        most = widths[0] * widths[1] / 4
        return 0.0 if self.single else -most, most


@dataclass(frozen=True)
class Moments:
    """The law of a variance or covariance, from the averages of one group."""

    products: Products
    key: KeyValues
    product: Estimate
    means: tuple[Estimate, Estimate]
    number: Estimate

    @property
    def value(self) -> float:
        shifts = [
            mean.value - at for mean, at in zip(self.means, self.products.centres, strict=True)
        ]
        found = (self.product.value - shifts[0] * shifts[1]) * self._factor(self.number.value)
        if not self.products.single:
            return found
        found = max(found, 0.0)
        return math.sqrt(found) if self.products.term.root else found

    @cached_property
    def stderr(self) -> float:
        """To first order; in a database, a bound of it whatever the dependence of the averages."""
        at = self.means[0].value, self.means[1].value
        if self.products.selection.fixed:
            shifts = [mean - c for mean, c in zip(at, self.products.centres, strict=True)]
            found = self.product.stderr + abs(shifts[0]) * self.means[1].stderr
            found += abs(shifts[1]) * self.means[0].stderr
        else:
            found = self.products.products(self.key, [at])[0].stderr
        found *= self._factor(self.number.value)
        if self.products.term.root:
            return found / (2 * self.value) if self.value else math.inf
        return found

    def interval(self, value: float, level: float) -> Interval:
        sample, left = self.products.term.option == "samp", 1 - level
        of_rows = left * _ROWS
        if sample:
            left -= of_rows
        fixed = self.products.selection.fixed
        found = self._clipped((self._apart if fixed else self._jointly)(1 - left))
        if sample:
            low, high = (max(limit, 2.0) for limit in self.number.interval(1 - of_rows))
            found = apply_interval("*", [found, (self._factor(high), self._factor(low))])
        if self.products.term.root:
            found = apply_interval("sqrt", [found])
        return min(found[0], value), max(found[1], value)

    def _jointly(self, level: float) -> Interval:
        """Return limits that no likely pair of errors of a mean and of squares leaves."""
        mean, unit = self.means[0].value, self.means[0].stderr
        if not self.products.single or not 0 < unit < math.inf:
            return self._at_corners(level)
        places = (mean, mean - unit, mean + unit)
        found = self.products.products(self.key, [(place, place) for place in places])
        if not all(isinstance(each.law, FiellerRatio) and each.stderr > 0 for each in found):
            return self._at_corners(level)
        here, below, above = ((each.stderr / unit**2) ** 2 for each in found)
        if not math.isclose(above + below - 2 * here, 8, rel_tol=0.01):  # of another mean
            return self._at_corners(level)
        slope = (above - below) / 8
        rest = math.sqrt(max(here - slope**2, 0.0))
        low, high = found[0].interval(level)
        reaches = [
            reach / found[0].stderr for reach in (found[0].value - low, high - found[0].value)
        ]
        down, up = (parabola_reach(slope, rest, reach, level) for reach in reaches)
        if not math.isfinite(down[0] + up[1]):
            return self._at_corners(level)
        return found[0].value + unit**2 * down[0], found[0].value + unit**2 * up[1]

    def _at_corners(self, level: float) -> Interval:
        """Return limits from averages at the limits of the means."""
        first, second = (mean.interval(level) for mean in self.means)
        corners = [(a, b) for a in first for b in second]
        if self.products.single:
            corners.remove((first[1], first[0]))  # the same product as in the other order
        found = [each.interval(level) for each in self.products.products(self.key, corners)]
        return min(low for low, _ in found), max(high for _, high in found)

    def _apart(self, level: float) -> Interval:
        """Return limits from the intervals of the average of products and of the means."""
        level = 1 - (1 - level) / (2 if self.products.single else 3)
        shifts = [
            (mean.interval(level)[0] - at, mean.interval(level)[1] - at)
            for mean, at in zip(self.means, self.products.centres, strict=True)
        ]
        if self.products.single:
            least, most = apply_interval("abs", shifts[:1])
            square = (least * least, most * most)
        else:
            square = apply_interval("*", shifts)
        return apply_interval("-", [self.product.interval(level), square])

    def _clipped(self, found: Interval) -> Interval:
        """Return limits cut to what a (population) variance or covariance can be."""
        least, most = self.products.possible
        return min(max(found[0], least), most), min(max(found[1], least), most)

    def _factor(self, number: float) -> float:
        """Return n / (n - 1) for a sample variance."""
        if self.products.term.option != "samp":
            return 1.0
        return 1.0 if math.isinf(number) else number / (number - 1)


def parabola_reach(slope: float, rest: float, reach: float, level: float) -> Interval:
    """Return the least and the largest h·d - d² - s·w with d² + w² ≤ c², for h `slope` and s
    `rest`, where c is the normal quantile of `level`, or `reach` if it is more.
    """
    least = NormalDist().inv_cdf((1 + level) / 2) ** 2
    bent = (-2 * math.log(1 - level) - least) / max(rest, 1.0) ** 2
    far = math.sqrt(max(least, reach**2) + bent)
    angles, step = np.linspace(-np.pi / 2, np.pi / 2, _ANGLES, retstep=True)
    middle = far * np.sin(angles) * (slope - far * np.sin(angles))
    side = rest * far * np.cos(angles)
    between = far * (math.hypot(slope, rest) + 2 * far) * step**2 / 8  # by the second derivative
    return float((middle - side).min() - between), float((middle + side).max() + between)


def needed(selection: Selection, term: Term) -> Iterator[Query]:
    """Yield the questions that a variance or covariance asks in a database."""
    products = Products(selection, term)
    yield from (products.mean_query(0), products.mean_query(1), products.number_query)
    if not math.isnan(sum(map(sum, products.limits))):
        yield products.product_query(products.centres)


def _is_null(estimate: Estimate) -> bool:
    """Whether there is no row that the number is about."""
    return math.isnan(estimate.value) and isinstance(estimate.law, Unknown)
