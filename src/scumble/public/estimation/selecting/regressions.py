"""Correlations and regressions of one column on another, from sums of products.

With the true mean μ of x, the slope b is the number r for which Σ (x - μ)(y - rx - ν_r) is 0, where
ν_r is the mean of y - rx. With the mean ν of y, the correlation is the r for which

    Σ (x - μ)(y - ν) - r/2 · (λ (x - μ)² + (y - ν)² / λ)

is 0 with λ = σ_y / σ_x, and the intercept the a for which Σ (1 - γx)(y - a - bx) is 0, where γ is
the slope of 1 on x without an intercept. Each is one sum over rows, whose law knows how the errors
of all sums depend on each other; the interval holds every r for which 0 is in that of the sum
(Fieller). What else it names is known up to intervals of the same level, in each of which the sum
is linear and has a derivative of 0: the sums at the corners differ by products of errors alone.

Of λ the estimate is taken. With another one the sum is 0 for r / c, c = cosh log(λ/λ'): c is 1 up
to the square of the error of λ, and the interval holds r for each c that the variances allow.

There is no number unless the variances of what is divided by are above 0 with probability 0.999.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import TYPE_CHECKING

from scumble.model.query import Expression, Query
from scumble.public.estimate import Anywhere, Estimate, Exact, Law, Undefined, Unknown
from scumble.public.estimation.selecting.combined_laws import IntervalLaw, Quotient
from scumble.public.estimation.selecting.groups import KeyValues, nothing
from scumble.public.estimation.selecting.interval_arithmetic import EVERYTHING, Interval
from scumble.public.estimation.selecting.variances import Products
from scumble.public.sql.aggregates import Kind, Term

if TYPE_CHECKING:
    from scumble.public.estimation.selecting.selection import Selection

METHOD = "from sums of products; Fieller interval"
NO_SPREAD = "a variance that this divides by may be 0, or negative by its noise: it has no value"
IN_A_DATABASE = (
    "CORR and REGR_SLOPE and its like are answered by releases, not by a database. Ask for "
    "COVAR_POP(y, x) / (STDDEV_POP(y) * STDDEV_POP(x)), or for COVAR_POP(y, x) / VAR_POP(x), the "
    "slope: their intervals hold."
)
_SURE = 0.998  # of an interval that is above 0 with probability 0.999

Ends = Callable[[float], Interval]
_POSSIBLE = {"slope": EVERYTHING, "intercept": EVERYTHING, "corr": (-1.0, 1.0), "r2": (0.0, 1.0)}


def regressions(selection: Selection, term: Term) -> dict[KeyValues, Estimate]:
    """Return a correlation, or a number of a regression, for each group."""
    return {key: Regression(selection, term, key).estimate() for key in selection.keys}


@dataclass(frozen=True, eq=False)
class Regression:
    """The sums of products of one group, for the first argument y and the second x."""

    selection: Selection
    term: Term
    key: KeyValues

    def _moment(self, first: int, second: int) -> tuple[Products, Estimate]:
        """Return the variance of an argument, or the covariance of both."""
        arguments = (self.term.argument, self.term.second)
        other = None if first == second else arguments[second]
        kind: Kind = "variance" if other is None else "covariance"
        term = replace(self.term, kind=kind, option="pop", argument=arguments[first], second=other)
        products = Products(self.selection, term)
        return products, products.estimate(self.key)

    @cached_property
    def both(self) -> tuple[Products, Estimate]:
        return self._moment(0, 1)

    @cached_property
    def spreads(self) -> tuple[Estimate, Estimate]:
        """The variances of y and x."""
        return self._moment(0, 0)[1], self._moment(1, 1)[1]

    @cached_property
    def means(self) -> tuple[Estimate, Estimate]:
        products = self.both[0]
        first, second = (products.mean(place, self.key) for place in (0, 1))
        assert first is not None  # noqa: S101  (there is a covariance)
        assert second is not None  # noqa: S101
        return first, second

    @cached_property
    def rows(self) -> float:
        number = self.both[0].number(self.key)
        return number.value if number is not None else math.nan

    def estimate(self) -> Estimate:
        what, notes = self.term.option, self.both[0].notes
        covariance = self.both[1]
        divisors = self.spreads if what in ("corr", "r2") else self.spreads[1:]
        parts = (covariance, *divisors)
        if any(math.isnan(e.value) and isinstance(e.law, Unknown) for e in parts):
            return nothing(Query("mean", notes=notes))
        exact = all(isinstance(each.law, Exact) for each in parts)
        if any(math.isnan(e.value) or not e.interval(_SURE)[0] > 0 for e in divisors) or math.isnan(
            covariance.value
        ):
            law: Law = Undefined() if exact else Anywhere(*_POSSIBLE[what])
            return Estimate(math.nan, law, METHOD, (*notes, NO_SPREAD))
        found = {"corr": self._correlation, "r2": self._share}.get(what, self._slope)
        value, law = self._intercept() if what == "intercept" else found()
        return Estimate(value, Exact() if exact else law, METHOD, notes)

    # Sums over the rows of the group.

    def _sums(self, forms: list[str]) -> list[Estimate]:
        products = self.both[0]
        names = {name for each in products.arguments for name in each.attributes}
        queries = [
            Query(
                "sum",
                Expression(form, tuple(sorted(names)), products.arguments[0].start),
                products.clauses,
                text=self.selection.plan.text,
            )
            for form in forms
        ]
        return self.selection.ask_about(self.key, queries)

    def _less(self, place: int, centre: float, slope: float = 0.0) -> str:
        """Return SQL of an argument less a constant, and less the slope times x."""
        y, x = (each.sql for each in self.both[0].arguments)
        found = f"(({(y, x)[place]}) - {_number(centre)})"
        return f"({found} - {_number(slope)} * ({x}))" if slope else found

    @cached_property
    def _mean_ends(self) -> tuple[Ends, Ends]:
        first, second = self.means
        return cache(first.interval), cache(second.interval)

    # The slope.

    def _slope(self) -> tuple[float, Quotient]:
        (y, x), spread = self.means, self.spreads[1]
        value = self.both[1].value / spread.value

        def differences(r: float, level: float | None) -> list[Estimate]:
            near = y.value - r * x.value
            if level is None:
                corners = [(x.value, near)]
            else:
                ends = self._mean_ends[1](level)
                reach = self._residual_mean(r, near, level)
                corners = list(product(ends, reach))
            return self._sums([f"{self._less(1, m)} * {self._less(0, k, r)}" for m, k in corners])

        return value, Quotient(value, spread, self.rows * spread.value, differences)

    def _residual_mean(self, r: float, near: float, level: float) -> Interval:
        """Return limits of the mean of y - rx."""
        products = self.both[0]
        names = {name for each in products.arguments for name in each.attributes}
        amount = Expression(self._less(0, near, r), tuple(sorted(names)))
        query = Query("mean", amount, products.clauses, text=self.selection.plan.text)
        low, high = self.selection.ask_about(self.key, [query])[0].interval(level)
        return low + near, high + near

    # The intercept.

    def _intercept(self) -> tuple[float, Quotient]:
        (y, x), spread = self.means, self.spreads[1]
        b, slope = self._slope()
        value = y.value - b * x.value
        square = spread.value + x.value**2
        [whole] = self._sums([f"({self._less(1, 0.0)}) * ({self._less(1, 0.0)})"])

        def crossed(r: float, _level: float | None) -> list[Estimate]:
            return self._sums([f"{self._less(1, 0.0)} * (1 - {_number(r)} * {self._less(1, 0.0)})"])

        g = x.value / square
        through = Quotient(g, whole, self.rows * square, crossed)
        ends = cache(lambda level: (through.interval(g, level), slope.interval(b, level)))

        def differences(a: float, level: float | None) -> list[Estimate]:
            corners = [(g, b)] if level is None else list(product(*ends(level)))
            return self._sums(
                [
                    f"(1 - {_number(c)} * {self._less(1, 0.0)}) * {self._less(0, a, d)}"
                    for c, d in corners
                ]
            )

        return value, Quotient(value, spread, self.rows * spread.value / square, differences)

    # The correlation.

    def _correlation(self) -> tuple[float, IntervalLaw]:
        (y, x), (high, wide) = self.means, self.spreads
        root = math.sqrt(high.value * wide.value)
        value = min(max(self.both[1].value / root, -1.0), 1.0)
        ratio = math.sqrt(high.value / wide.value)

        def differences(r: float, level: float | None) -> list[Estimate]:
            ends: tuple[tuple[float, ...], tuple[float, ...]] = ((y.value,), (x.value,))
            if level is not None:
                ends = (self._mean_ends[0](level), self._mean_ends[1](level))
            forms = []
            for k, m in product(*ends):
                one, other = self._less(1, m), self._less(0, k)
                squares = f"{_number(ratio)} * {one} * {self._less(1, x.value)}"
                squares += f" + {other} * {self._less(0, y.value)} / {_number(ratio)}"
                forms.append(f"{one} * {other} - {_number(r / 2)} * ({squares})")
            return self._sums(forms)

        law = Quotient(self.both[1].value / root, wide, self.rows * root, differences)

        def limits(level: float) -> Interval:
            (least, most), (narrow, broad) = (each.interval(level) for each in (high, wide))
            if not (least > 0 and narrow > 0):
                return -1.0, 1.0
            away = max(most / narrow / ratio**2, ratio**2 * broad / least)
            bent = math.cosh(math.log(away) / 2)
            found = [end * c for end in law.interval(law.value, level) for c in (1.0, bent)]
            return max(min(*found, value), -1.0), min(max(*found, value), 1.0)

        return value, IntervalLaw(law.stderr, limits)

    def _share(self) -> tuple[float, IntervalLaw]:
        """Return the square of the correlation, the share of the variance that x explains."""
        value, law = self._correlation()

        def limits(level: float) -> Interval:
            low, high = law.limits(level)
            ends = sorted((low * low, high * high))
            return (0.0 if low <= 0 <= high else ends[0]), ends[1]

        return value * value, IntervalLaw(2 * abs(value) * law.stderr, limits)


def _number(value: float) -> str:
    return f"({value!r})::DOUBLE"
