"""Answers from rows that were drawn from Pólya urns, one urn for each stratum.

Of m rows of a stratum with n people and A prior balls, x have a value with `prior` balls. Then
x (A + n) / m - prior is an unbiased estimate of the number of people with the value. A question is
a weight for each stratum and value; what it adds up to is estimated in the same way, and

    Var(Σ w x) = m (A + n + m) / (A + n + 1) · (Σ w² p - (Σ w p)²)

with the shares p of the balls. It is estimated without bias from the rows, if m is at least 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.families.dirichlet.design import Synthetic, count_limits
from scumble.model.errors import QueryError, ReleaseError
from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.public.estimate import Estimate, Exact, Law, Unknown
from scumble.public.estimation.interval_laws import Ratio, WeightedSum, clipped
from scumble.public.estimation.tables import Clauses
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

COUNTED = "share of the synthetic rows, less the prior; interval from the law of the urns"
KNOWN = "the number of people of these strata, which is published"
AVERAGED = "ratio of two estimates from synthetic rows; Fieller interval"
NOTHING = "no stratum satisfies the condition, or the estimated number of people is zero"
MOST_NUMBERS = 1 << 27
_EXACT_ROWS = 1 << 16  # rows of a stratum whose beta-binomial law is summed up


def answer(
    evidence: Synthetic, schema: Schema, query: Query, engine: Sandbox
) -> Iterator[tuple[Key, Estimate]]:
    """Return every group of the answer to `query` with its estimate."""
    if "urns" not in engine.derived:
        engine.derived["urns"] = Strata.read(evidence, schema, engine)
    return SyntheticQuestion(engine.derived["urns"], schema, query, engine).answers()


def answer_together(
    evidence: Synthetic, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, list[tuple[Key, Estimate]]]:
    """Return all answers by their position in `queries`. The urns are read once."""
    answers = {}
    for index, query in enumerate(queries):
        engine.check(query)
        answers[index] = list(answer(evidence, schema, query, engine))
    return answers


@dataclass(frozen=True, eq=False)
class Strata:
    """The strata of a release with the numbers of their people, rows and prior balls; how many rows
    show each value. `codes` are those of all attributes, to be broadcast over strata and values.
    """

    people: Integers
    sizes: Integers
    prior: Floats
    shown: Integers
    codes: dict[str, Integers]

    @classmethod
    def read(cls, evidence: Synthetic, schema: Schema, engine: Sandbox) -> Strata:
        given, target = evidence.given, evidence.target
        columns = [*given, evidence.people, evidence.size, evidence.prior]
        strata = engine.rows(f"SELECT {', '.join(map(quoted, columns))} FROM strata")
        keys = _pack_keys(schema, given, strata)
        order = np.argsort(keys, kind="stable")
        numbers = [
            strata[name].to_numpy()[order]
            for name in (evidence.people, evidence.size, evidence.prior)
        ]
        people, sizes, prior = (column.astype(np.int64) for column in numbers)
        values = schema.size(target)
        if len(people) * values > MOST_NUMBERS:
            raise QueryError("The synthetic rows have too many strata and values for questions.")
        named = ", ".join(map(quoted, evidence.columns))
        rows = engine.rows(f"SELECT {named}, count(*) AS n FROM view GROUP BY {named}")
        shown = np.zeros((len(people), values), np.int64)
        places = np.searchsorted(keys[order], _pack_keys(schema, given, rows))
        if (places >= len(people)).any() or (people < 1).any() or (prior < 1).any():
            raise ReleaseError("The release is damaged: its rows do not fit its strata.")
        shown[places, _pack_keys(schema, target, rows).astype(np.int64)] = rows["n"].to_numpy()
        if (shown.sum(axis=1) != sizes).any() or (sizes < 1).any():
            raise ReleaseError("The release is damaged: its rows do not fit its strata.")
        own = [known_codes(schema[name], strata[name])[order] for name in given]
        others = schema.cell_keys(target).unpack(np.arange(values, dtype=np.uint64))
        shaped = [*(code[:, None] for code in own), *(code[None, :] for code in others)]
        named_codes = zip(evidence.columns, shaped, strict=True)
        codes = {name: code.astype(np.int64) for name, code in named_codes}
        return cls(people, sizes, prior / evidence.grid, shown, codes)

    @property
    def balls(self) -> Floats:
        """The balls of each urn before the first draw: A + n."""
        balls: Floats = self.prior * self.shown.shape[1] + self.people
        return balls

    @property
    def worth(self) -> Floats:
        """The number of people that a row stands for: (A + n) / m."""
        worth: Floats = self.balls / self.sizes
        return worth

    @property
    def spread(self) -> Floats:
        """How much more the rows vary than independent ones: (A + n + m) / (A + n + 1)."""
        spread: Floats = (self.balls + self.sizes) / (self.balls + 1)
        return spread


def _pack_keys(schema: Schema, names: Sequence[str], table: Any) -> npt.NDArray[np.uint64]:
    if not names:
        return np.zeros(table.num_rows, np.uint64)
    keys: npt.NDArray[np.uint64] = schema.cell_keys(names).pack(
        [known_codes(schema[name], table[name]) for name in names]
    )
    return keys


@dataclass(frozen=True)
class SyntheticQuestion:
    """One question to the urns of a release."""

    urns: Strata
    schema: Schema
    query: Query
    engine: Sandbox

    def answers(self) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group that is possible under the condition, with its estimate."""
        holds, amount = self._evaluate_condition(), self._evaluate_amount()
        if not self.query.groups:
            yield (), self._estimate(holds, amount)
            return
        keys = self._group_keys()
        possible = np.unique(keys[holds]).tolist()
        groups = self.schema.cell_values(self.query.groups, possible)
        for key, values in zip(possible, groups, strict=True):
            yield values, self._estimate(holds & (keys == key), amount)

    def _evaluate_condition(self) -> npt.NDArray[np.bool_]:
        known = Clauses(self.schema, [self.query], self.engine)
        holds = np.ones(self.urns.shown.shape, bool)
        for clause in self.query.clauses:
            names = self._order_attributes(clause)
            holds &= self._spread_out(known.along(clause, names), names)
        return holds

    def _evaluate_amount(self) -> Floats | None:
        argument = self.query.argument
        if argument is None:
            return None
        names = self._order_attributes(argument)
        own = [clause for clause in self.query.clauses if set(clause.attributes) <= set(names)]
        *_, amounts = self.engine.evaluate([*own, argument], names)
        shape = [self.schema[name].size for name in names]
        return self._spread_out(amounts.astype(np.float64).reshape(shape), names)

    def _spread_out(self, tensor: npt.NDArray[Any], names: Sequence[str]) -> npt.NDArray[Any]:
        """Return the entries of a tensor over some attributes, by stratum and value."""
        shape = self.urns.shown.shape
        places = tuple(self.urns.codes[name] for name in names)
        return np.broadcast_to(tensor[places] if names else tensor, shape)

    def _group_keys(self) -> Integers:
        keys = np.zeros(self.urns.shown.shape, np.int64)
        for name in self.query.groups:
            keys = keys * self.schema[name].size + self.urns.codes[name]
        return keys

    def _order_attributes(self, expression: Expression) -> tuple[str, ...]:
        return tuple(name for name in self.schema.names if name in expression.attributes)

    # --- estimates of one group ------------------------------------------------------------------

    def _estimate(self, holds: npt.NDArray[np.bool_], amount: Floats | None) -> Estimate:
        count = WeightedUrns(self.urns, holds.astype(np.float64))
        if amount is None:
            return self._estimate_total(count, self._find_count_law(count, holds))
        total = WeightedUrns(self.urns, np.where(holds, amount, 0.0))
        if self.query.aggregate == "sum":
            return self._estimate_total(total, total.law)
        return self._estimate_mean(total, count, holds, amount)

    def _estimate_total(self, total: WeightedUrns, law: Law) -> Estimate:
        method = KNOWN if isinstance(law, Exact) else COUNTED
        return Estimate(total.value, law, method, self.query.notes)

    def _find_count_law(self, count: WeightedUrns, holds: npt.NDArray[np.bool_]) -> Law:
        """Return the law of a count: exact if one stratum is uncertain, else of a weighted sum."""
        open_ = np.flatnonzero(~count.certain)
        if len(open_) != 1 or self.urns.sizes[open_[0]] > _EXACT_ROWS:
            return count.law
        [stratum] = open_.tolist()
        asked, prior = holds[stratum], float(self.urns.prior[stratum])
        return UrnCount(
            int(self.urns.shown[stratum][asked].sum()),
            int(self.urns.sizes[stratum]),
            prior * int(asked.sum()),
            int(self.urns.people[stratum]),
            prior * int((~asked).sum()),
            count.known,
            count.variance,
        )

    def _estimate_mean(
        self,
        total: WeightedUrns,
        count: WeightedUrns,
        holds: npt.NDArray[np.bool_],
        amount: Floats,
    ) -> Estimate:
        if not holds.any() or not count.value:
            return Estimate(math.nan, Unknown(), "average of no rows", (*self.query.notes, NOTHING))
        value = total.value / count.value
        if count.certain.all() and total.certain.all():
            return Estimate(value, Exact(), KNOWN, self.query.notes)
        least, most = float(amount[holds].min()), float(amount[holds].max())
        three = (least, (least + most) / 2, most)
        changes = [
            WeightedUrns(self.urns, np.where(holds, amount - shift, 0.0)).largest for shift in three
        ]
        variances = (total.variance, count.variance, total.covariance(count))
        law = Ratio(
            total.value,
            count.value,
            variances,
            three,
            (changes[0], changes[1], changes[2]),
            count.largest,
        )
        return law.estimate(AVERAGED, self.query.notes)


@dataclass(frozen=True, eq=False)
class WeightedUrns:
    """The estimate of Σ weight · people over strata and values, and the moments of its error."""

    urns: Strata
    weights: Floats

    @cached_property
    def certain(self) -> npt.NDArray[np.bool_]:
        """The strata in which all values have the same weight: their sums are known."""
        certain: npt.NDArray[np.bool_] = self._range == 0
        return certain

    @cached_property
    def known(self) -> float:
        """The part of the sum that is known."""
        people = self.urns.people[self.certain]
        return float(self.weights[self.certain][:, 0] @ people) if people.size else 0.0

    @cached_property
    def value(self) -> float:
        urns, open_ = self.urns, ~self.certain
        weights = self.weights[open_]
        shown = (weights * urns.shown[open_]).sum(axis=1)
        estimates = urns.worth[open_] * shown - urns.prior[open_] * weights.sum(axis=1)
        return self.known + float(estimates.sum())

    @cached_property
    def variance(self) -> float:
        """The unbiased estimate of the variance, or its certain lower limit if that is larger."""
        urns = self.urns
        estimated = np.where(urns.sizes > 1, self._estimate_covariances(self), 2 * self._single)
        return float(np.maximum(estimated, self._least)[~self.certain].sum())

    def covariance(self, other: WeightedUrns) -> float:
        """Return the estimated covariance of the errors of two sums.

        A single row of a stratum tells nothing about it; `variance` takes twice the largest one
        there, which covers any difference of the two.
        """
        return float(np.where(self.urns.sizes > 1, self._estimate_covariances(other), 0.0).sum())

    def _estimate_covariances(self, other: WeightedUrns) -> Floats:
        """Return the estimated covariance of two sums in each stratum that has several rows."""
        urns = self.urns
        shares = urns.shown / urns.sizes[:, None]
        one, two = (self.weights * shares).sum(axis=1), (other.weights * shares).sum(axis=1)
        both = (self.weights * other.weights * shares).sum(axis=1) - one * two
        balls, rows = urns.balls, urns.sizes
        covariances: Floats = both * balls * (balls + rows) / np.maximum(rows - 1, 1)
        return covariances

    @property
    def _single(self) -> Floats:
        """The largest variance of one row of each stratum."""
        variances: Floats = (self.urns.balls * self._range) ** 2 / 4
        return variances

    @property
    def _least(self) -> Floats:
        """The least variance that the prior leaves possible: it is concave in the counts, so that
        it is least where all people of a stratum have the same value.
        """
        urns, weights = self.urns, self.weights
        people, balls, prior = (
            numbers[:, None] for numbers in (urns.people, urns.balls, urns.prior.astype(np.float64))
        )
        first = (prior * weights.sum(axis=1, keepdims=True) + people * weights) / balls
        second = (prior * (weights**2).sum(axis=1, keepdims=True) + people * weights**2) / balls
        variances: Floats = (second - first**2).min(axis=1, initial=np.inf).clip(0)
        return variances * urns.balls**2 * urns.spread / urns.sizes

    @cached_property
    def largest(self) -> float:
        """What one row can change the sum by, times how much more rows vary than independent ones.

        This is also how fast the variance of the sum grows with the sum.
        """
        urns = self.urns
        return float((urns.worth * urns.spread * self._range).max(initial=0.0))

    @property
    def law(self) -> Law:
        """The law of the error."""
        if self.certain.all():
            return Exact()
        return WeightedSum(self.variance, self.largest)

    @cached_property
    def _range(self) -> Floats:
        ranges: Floats = self.weights.max(axis=1, initial=-np.inf) - self.weights.min(
            axis=1, initial=np.inf
        )
        return ranges


@dataclass(frozen=True)
class UrnCount:
    """The law of a count in one uncertain stratum, from which `drawn` of `rows` rows were counted.

    `balls` are prior balls of the values counted, `others` those of all others; `people` is the
    number of people of the stratum, and `known` what other strata add for certain.
    """

    drawn: int
    rows: int
    balls: float
    people: int
    others: float
    known: float
    variance: float

    @property
    def stderr(self) -> float:
        return math.sqrt(self.variance)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = count_limits(
            self.drawn,
            self.rows,
            balls=self.balls,
            people=self.people,
            others=self.others,
            level=level,
        )
        return clipped((low + self.known, high + self.known), value, -math.inf, math.inf)
