"""Answers from published rows whose sensitive columns went through a known channel.

The true share h(x) of a row in an answer (1 if it counts, or the amount it adds) depends on its
true sensitive values x. Inverting the channel gives a weight w(y) of the *published* values y with
E[w(y) | x] = h(x), so the sum of the weights is unbiased. Its variance Var[w(y) | x] is again a
function of x: inverting the channel on that function gives an unbiased estimate of the variance as
well.

One aggregate of the engine counts the published rows by whatever h depends on; the rest is
arithmetic on tensors over the sensitive domains, whose first axis is the combination of true
attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from scumble.engine.duckdb import Engine
from scumble.estimate import Estimate, Exact, Unknown
from scumble.estimators.count_law import RandomizedCount
from scumble.estimators.ratio_law import Ratio
from scumble.estimators.tally import Floats, Groups, Tally, tally
from scumble.evidence import Records, Tensor, UniformChannel
from scumble.noise.laws import Normal
from scumble.query import Expression, Query
from scumble.schema import Schema

Key = tuple[Any, ...]
EXACT = "exact: the question names no perturbed attribute"
NORMAL = "inverted channel; normal interval"
BINOMIAL = "inverted channel; exact binomial interval"
FIELLER = "ratio of inverted channels; Fieller interval"


def answer(
    evidence: Records, schema: Schema, query: Query, engine: Engine
) -> Iterator[tuple[Key, Estimate]]:
    """Every group of the answer with its estimate."""
    plan = Plan(evidence, schema, query)
    counted, holds, amount = _gather(plan, engine)
    return estimates(plan, counted, holds, amount)


@dataclass(frozen=True)
class Plan:
    """A question split by what it asks of published truth and of perturbed values."""

    evidence: Records
    schema: Schema
    query: Query

    @cached_property
    def mixed(self) -> list[Expression]:
        """The clauses and the argument that name a perturbed attribute."""
        argument = [self.query.argument] if self.query.argument else []
        return [part for part in (*self.query.clauses, *argument) if self._perturbed(part)]

    @cached_property
    def conditions(self) -> list[Expression]:
        return [clause for clause in self.query.clauses if self._perturbed(clause)]

    @cached_property
    def filters(self) -> list[str]:
        """Clauses on true attributes only, which the engine applies as they are."""
        return [clause.sql for clause in self.query.clauses if not self._perturbed(clause)]

    @cached_property
    def summed(self) -> Expression | None:
        """The argument, if true attributes alone decide it: the engine sums it."""
        argument = self.query.argument
        return argument if argument and not self._perturbed(argument) else None

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """Perturbed attributes that the question names."""
        return tuple(name for name in self._needed if name in self.evidence.perturbed)

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """True attributes by which rows must be told apart."""
        return tuple(name for name in self._needed if name not in self.evidence.perturbed)

    @cached_property
    def shared(self) -> bool:
        """Whether h is the same function for every combination of the kept attributes."""
        return all(set(part.attributes) <= set(self.axes) for part in self.mixed)

    @cached_property
    def grouped_axes(self) -> list[str]:
        return [name for name in self.axes if name in self.query.groups]

    def invert(self, tensor: Tensor) -> Tensor:
        for channel in self.evidence.channels:
            if axes := self._places(channel.attributes):
                tensor = channel.invert(tensor, axes)
        return tensor

    def apply(self, tensor: Tensor) -> Tensor:
        for channel in self.evidence.channels:
            if axes := self._places(channel.attributes):
                tensor = channel.apply(tensor, axes)
        return tensor

    def covariance(self, one: Tensor, other: Tensor) -> Tensor:
        """Cov[w1(y), w2(y) | x] of the weights of two functions, as a function of x."""
        return self.apply(self.invert(one) * self.invert(other)) - one * other

    @cached_property
    def one_channel(self) -> UniformChannel | None:
        """The channel, if all perturbed attributes of the question went through the same one."""
        met = [c for c in self.evidence.channels if self._places(c.attributes)]
        return met[0] if len(met) == 1 else None

    def one_count(self, share: float, rows: int, shown: int) -> Estimate:
        """A count through one channel, of whose domain a share counts, and of whose rows some show
        a value that counts: its law is known exactly.
        """
        if share in (0, 1) or self.one_channel is None:
            return Estimate(float(rows * share), Exact(), EXACT, self.query.notes)
        keep = float(self.one_channel.keep)
        outside = (1 - keep) * share
        law = RandomizedCount(rows, shown, keep + outside, outside)
        return Estimate(law.value, law, BINOMIAL, self.query.notes)

    def _places(self, attributes: tuple[str, ...]) -> list[int]:
        return [1 + place for place, name in enumerate(self.axes) if name in attributes]

    @cached_property
    def _needed(self) -> list[str]:
        needed = set(self.query.groups).union(*(part.attributes for part in self.mixed))
        return [name for name in self.schema.names if name in needed]

    def _perturbed(self, part: Expression) -> bool:
        return not set(self.evidence.perturbed).isdisjoint(part.attributes)


def _gather(plan: Plan, engine: Engine) -> tuple[Tally, Tensor, Tensor | None]:
    """Count the rows, and evaluate h on the domain; on the domain first where that saves lines."""
    summed = plan.summed.sql if plan.summed else None
    if not plan.shared:
        counted = tally(engine, plan.schema, plan.kept, plan.axes, summed, plan.filters)
        return counted, *_tensors(plan, engine, counted)
    holds, amount = _tensors(plan, engine)
    hits = _hits(plan, holds) if amount is None else None
    counted = tally(engine, plan.schema, plan.kept, plan.axes, summed, plan.filters, hits)
    return counted, holds, amount


def _tensors(
    plan: Plan, engine: Engine, counted: Tally | None = None
) -> tuple[Tensor, Tensor | None]:
    """Whether a row counts, and what it adds, for every value of the perturbed domains."""
    frame = counted.combinations if counted else None
    outer = plan.kept if counted else ()
    shape = (
        counted.combinations.num_rows if counted else 1,
        *(plan.schema[name].size for name in plan.axes),
    )
    values = engine.evaluate(plan.mixed, (*outer, *plan.axes), frame) if plan.mixed else []
    holds = np.ones(shape)
    for value in values[: len(plan.conditions)]:
        holds = holds * value.reshape(shape)
    if plan.query.argument is None or plan.summed:
        return holds, None
    return holds, values[-1].reshape(shape) * holds


def _hits(plan: Plan, holds: Tensor) -> tuple[str, int, int] | None:
    """One condition on one perturbed attribute splits its domain in two: two lines are enough."""
    yes, no = np.flatnonzero(holds), np.flatnonzero(holds == 0)
    if len(plan.axes) != 1 or plan.grouped_axes or not len(yes) or not len(no):
        return None
    condition = " AND ".join(f"({clause.sql})" for clause in plan.conditions)
    return condition, int(yes[0]), int(no[0])


def estimates(
    plan: Plan, counted: Tally, holds: Tensor, amount: Tensor | None
) -> Iterator[tuple[Key, Estimate]]:
    """One estimate for each group of true attributes and each value of grouped perturbed ones."""
    groups = counted.groups([name for name in plan.kept if name in plan.query.groups])
    for values, chosen in _axis_values(plan):
        part = None if amount is None else amount * chosen
        sums = Sums(plan, counted, groups, holds * chosen, part)
        for index, key in enumerate(groups.keys):
            if plan.query.groups and not sums.possible[index]:
                continue  # the condition excludes every row of this group, as it does in SQL
            named = {**key, **values}
            yield tuple(named[name] for name in plan.query.groups), sums.estimate(index)


def _axis_values(plan: Plan) -> Iterator[tuple[dict[str, Any], Tensor]]:
    """Every combination of values of the grouped perturbed attributes, with its indicator
    tensor.
    """
    names = plan.grouped_axes
    shape = [plan.schema[name].size for name in plan.axes]
    labels = [plan.schema[name].labels().to_pylist() for name in names]
    for codes in np.ndindex(*map(len, labels)):
        chosen = np.zeros(shape)
        place = dict(zip(names, codes, strict=True))
        chosen[tuple(place.get(name, slice(None)) for name in plan.axes)] = 1
        yield {n: label[c] for n, label, c in zip(names, labels, codes, strict=True)}, chosen


@dataclass(frozen=True)
class Sums:
    """Sums of weights over the lines of a tally, for all groups at once."""

    plan: Plan
    counted: Tally
    groups: Groups
    holds: Tensor
    amount: Tensor | None

    def estimate(self, group: int) -> Estimate:
        make = {"count": self._count, "sum": self._sum, "mean": self._mean}
        return make[self.plan.query.aggregate](group)

    def _count(self, group: int) -> Estimate:
        notes = self.plan.query.notes
        if self._untouched:
            return Estimate(float(self.count[group]), Exact(), EXACT, notes)
        if self._one_share is None:
            variance = float(self.count_variance[group])
            return Estimate(float(self.count[group]), Normal(variance), NORMAL, notes)
        rows, shown = int(self.rows[group]), int(self.shown[group])
        return self.plan.one_count(self._one_share, rows, shown)

    def _sum(self, group: int) -> Estimate:
        total, notes = float(self.total[group]), self.plan.query.notes
        if self._untouched:
            return Estimate(total, Exact(), EXACT, notes)
        return Estimate(total, Normal(float(self.total_variance[group])), NORMAL, notes)

    def _mean(self, group: int) -> Estimate:
        total, count = float(self.total[group]), float(self.count[group])
        notes = self.plan.query.notes
        if not self.rows[group] or not count:
            nothing = "no published row satisfies the condition"
            return Estimate(float("nan"), Unknown(), "average of no rows", (*notes, nothing))
        if self._untouched:
            return Estimate(total / count, Exact(), EXACT, notes)
        variances = (self.total_variance, self.count_variance, self.covariance)
        law = Ratio(total, count, *(float(variance[group]) for variance in variances))
        return Estimate(law.value, law, FIELLER, (*notes, *law.notes))

    @cached_property
    def _untouched(self) -> bool:
        """Whether h is 0 for every value or 1 for every value: then the rows are all the truth."""
        constant = self.holds.size == 0 or (self.holds == self.holds.flat[0]).all()
        return bool(constant and self.amount is None)

    @cached_property
    def _one_share(self) -> float | None:
        """The share of the domain that counts, if there is one channel and the share is the same
        for all combinations: then the number of rows that show a value that counts has an exact
        law.
        """
        if self.plan.one_channel is None:
            return None
        shares = np.unique(_flat(self.holds).mean(axis=1))
        return float(shares[0]) if len(shares) == 1 else None

    @cached_property
    def possible(self) -> Floats:
        """For each group, how many rows could satisfy the condition with some perturbed values."""
        some = _flat(self.holds).max(axis=1)
        return self.groups.sums(self.counted.count * some[self._combination])

    @cached_property
    def rows(self) -> Floats:
        return self.groups.sums(self.counted.count)

    @cached_property
    def shown(self) -> Floats:
        return self.groups.sums(self.counted.count * self._at(self.holds))

    @cached_property
    def count(self) -> Floats:
        return self._weighted(self.counted.count, self.holds)

    @cached_property
    def count_variance(self) -> Floats:
        return self._variance(self.counted.count, self.holds)

    @cached_property
    def total(self) -> Floats:
        if self.amount is None:
            return self._weighted(self.counted.total, self.holds)
        return self._weighted(self.counted.count, self.amount)

    @cached_property
    def total_variance(self) -> Floats:
        if self.amount is None:
            return self._variance(self.counted.squares, self.holds)
        return self._variance(self.counted.count, self.amount)

    @cached_property
    def covariance(self) -> Floats:
        """Of total and count."""
        other = self.holds if self.amount is None else self.amount
        lines = self.counted.total if self.amount is None else self.counted.count
        return self._weighted(lines, self.plan.covariance(other, self.holds))

    def _weighted(self, lines: Floats, tensor: Tensor) -> Floats:
        """Unbiased estimates of Σ lines · tensor(true values)."""
        return self.groups.sums(lines * self._at(self.plan.invert(tensor)))

    def _variance(self, lines: Floats, tensor: Tensor) -> Floats:
        """The unbiased estimate of a variance, but never less than the variance surely is."""
        spread = self.plan.covariance(tensor, tensor)
        least = _flat(spread).min(axis=1).clip(0)
        floor = self.groups.sums(lines * least[self._combination])
        return np.maximum(self._weighted(lines, spread), floor)

    def _at(self, tensor: Tensor) -> Floats:
        """The entry of a tensor for every line."""
        entries: Floats = _flat(tensor)[self._combination, self.counted.cell]
        return entries

    @property
    def _combination(self) -> Any:
        shared = self.plan.shared
        return np.zeros_like(self.counted.cell) if shared else self.counted.combination


def _flat(tensor: Tensor) -> Tensor:
    """One row per combination, one column per cell of the perturbed domains."""
    return tensor.reshape(len(tensor), prod(tensor.shape[1:]))
