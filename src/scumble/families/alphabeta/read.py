"""Answers from published tuples, true and false ones mixed (AlphaBeta, Frapp).

The engine counts the tuples of the view that satisfy the question. The expected number of false
ones among them follows from the number of tuples of the whole domain that satisfy it, which is
counted without enumerating the domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from scumble.families.alphabeta.design import InclusionProbabilities, ReplacedTuples, Tuples
from scumble.model.long_work import told
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.public.estimate import Estimate, Exact, Law, Unknown
from scumble.public.estimation.domain_counting import MOST_GROUPS, Domain, domain_of
from scumble.public.estimation.interval_laws import Limited, Ratio, WeightedSum
from scumble.public.estimation.rows.count_laws import RandomizedCount
from scumble.public.estimation.rows.grouped_counts import AMOUNT, Floats, aggregated, floats
from scumble.public.estimation.rows.row_tables import RowTables
from scumble.public.estimation.tables import (
    Clauses,
    CodeSets,
    Integers,
    PrefixSums,
    grouped,
    same_shape,
    tables_in_rounds,
)
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]

LESS = "published tuples less the false ones expected"
EXACT = "exact: from the size of the table and the domain alone"
BINOMIAL = f"{LESS}; exact binomial interval"
MANY = f"{LESS}; binomial interval, by the normal law where thousands of tuples decide"
SCORE = f"{LESS}; score interval"
FIELLER = f"ratio of {LESS}; Fieller interval"
COLLAPSED = "this counts different rows: equal rows of the table were made one"
NOTHING = "no tuple can satisfy the condition, or their estimated number is zero"


def answer(
    evidence: Tuples, schema: Schema, query: Query, engine: Sandbox
) -> Iterator[tuple[Key, Estimate]]:
    """Return every possible group of the answer to `query` with its estimate."""
    return _groups(TupleQuestion(evidence, schema, query, engine))


def _groups(question: TupleQuestion) -> Iterator[tuple[Key, Estimate]]:
    query, schema = question.query, question.schema
    if not query.groups:
        yield (), question.estimate(0)
        return
    places = np.flatnonzero(question.possible).tolist()
    for group, key in zip(told(places), schema.cell_values(query.groups, places), strict=True):
        yield key, question.estimate(group)


def answer_together(
    evidence: Tuples, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, list[tuple[Key, Estimate]]]:
    """Return the answers to the counts among `queries` that share contingency tables.

    Keys are positions in `queries`. The answers equal those of asking one by one.
    """
    presence = evidence.presence
    if isinstance(presence, InclusionProbabilities) and (presence.views > 1 or presence.sources):
        return {}  # a tuple's probability depends on more than whether it satisfies the question
    return {
        index: list(_groups(TupleQuestion(evidence, schema, queries[index], engine, both)))
        for index, both in count_together(schema, queries, engine).items()
    }


@dataclass(frozen=True)
class TupleQuestion:
    """One question to published tuples: counts over the domain, and counts of the view.

    `counts` has both, if they were counted before.
    """

    evidence: Tuples
    schema: Schema
    query: Query
    engine: Sandbox
    counts: BothCounts | None = None

    def estimate(self, group: int) -> Estimate:
        make = {"count": self._count, "sum": self._sum, "mean": self._mean}
        return make[self.query.aggregate](group)

    @cached_property
    def possible(self) -> npt.NDArray[np.object_]:
        """The number of tuples of the domain that satisfy the question, by group."""
        if self.counts is not None:
            return np.array([number * self._copies for number in self.counts[0]], object)
        return self._domain.count(self.query.clauses, self.query.groups).reshape(-1) * self._copies

    def _count(self, group: int) -> Estimate:
        possible = self.possible[group]
        if possible in (0, self._domain.size * self._copies):
            rows = self.evidence.rows if possible else 0
            return Estimate(float(rows), Exact(), EXACT, self._notes)
        law = self.moments.count_law(group, possible)
        if isinstance(law, RandomizedCount):
            return Estimate(law.value, law, BINOMIAL if law.exact else MANY, self._notes)
        return self._estimate_sum(0, group)

    def _sum(self, group: int) -> Estimate:
        if not self.possible[group]:
            return Estimate(0.0, Exact(), EXACT, self._notes)
        return self._estimate_sum(1, group)

    def _estimate_sum(self, power: int, group: int) -> Estimate:
        """Return the estimated count (power 0) or sum (1), its interval cut to what n rows have."""
        variance, largest = self._variances[power][group], self._largest[power][group]
        law = WeightedSum(float(variance), float(largest))
        low, high = self._limits if power else (1.0, 1.0)
        rows = self.evidence.rows
        cut = Limited(law, rows * min(low, 0.0), rows * max(high, 0.0))
        return Estimate(float(self.moments.sums[power, group]), cut, self._method, self._notes)

    @property
    def _method(self) -> str:
        presence = self.evidence.presence
        views = presence.views if isinstance(presence, InclusionProbabilities) else 1
        return SCORE if views == 1 else f"pooled over {views} views: {SCORE}"

    def _mean(self, group: int) -> Estimate:
        if not self.possible[group] or not self.moments.sums[0, group]:
            notes = (*self._notes, NOTHING)
            return Estimate(float("nan"), Unknown(), "average of no tuples", notes)
        low, high = self._limits
        law = Ratio(
            float(self.moments.sums[1, group]),
            float(self.moments.sums[0, group]),
            variances=(
                float(self._variances[1][group]),
                float(self._variances[0][group]),
                float(self.moments.covariance[group]),
            ),
            amounts=(low, (low + high) / 2, high),
            largest=self._ratio_largest(group),
            slope=float(self._largest[0][group]),
        )
        return law.estimate(FIELLER, self._notes)

    def _ratio_largest(self, group: int) -> tuple[float, float, float]:
        """Return the largest change of `total - r * count` by one tuple, for three ratios r."""
        low, middle, high = (float(deviation[group]) for deviation in self._ratio_deviations)
        return low, middle, high

    @cached_property
    def _ratio_deviations(self) -> list[Floats]:
        low, high = self._limits
        shifts = (low, (low + high) / 2, high)
        return [self.moments.deviation(low, high, shift) for shift in shifts]

    @cached_property
    def _variances(self) -> list[Floats]:
        return [self.moments.variance(power) for power in (0, 1)]

    @cached_property
    def _largest(self) -> list[Floats]:
        return [self.moments.deviation(1.0, 1.0), self.moments.deviation(*self._limits)]

    @cached_property
    def _limits(self) -> tuple[float, float]:
        """The least and the largest amount that a tuple can add."""
        if self.query.argument is None:
            return 1.0, 1.0
        return self._domain.limits(self.query.argument, self.query.clauses)

    @cached_property
    def moments(self) -> TupleMoments:
        """The sums over true tuples, estimated from the published ones, by group."""
        presence = self.evidence.presence
        if isinstance(presence, ReplacedTuples):
            mean = self._over_domain(Fraction(1, self._domain.size))
            return ReplacedMoments(presence, self._published, mean)
        if presence.sources:
            return HorvitzThompsonMoments(presence, ((self._build_stratum(presence),),), (1.0,))
        false = self._over_domain(presence.noise)
        if presence.views == 1:
            stratum = Stratum(self._published, false, presence.keep, presence.noise)
            return HorvitzThompsonMoments(presence, ((stratum,),), (1.0,))
        size = self._domain.size * presence.multiplicity
        views = strata(presence, self._tuple_counts(views=presence.views_column), false)
        return HorvitzThompsonMoments(presence, views, weights(presence, size))

    def _build_stratum(self, presence: InclusionProbabilities) -> SourcedStratum:
        """Return the stratum of β(t) = noise · Π size · share, over attributes with a source."""
        sources = presence.sources or {}
        factors = {n: [len(shares) * share for share in shares] for n, shares in sources.items()}
        shown = self._tuple_counts(tuple(sources))
        rate = np.full(len(shown.group), float(presence.noise))
        for name, multipliers in factors.items():
            rate = rate * np.array([float(factor) for factor in multipliers])[shown.column[name]]
        squares = {
            name: [factor**2 for factor in multipliers] for name, multipliers in factors.items()
        }
        highest = presence.noise
        for multipliers in factors.values():
            highest *= max(multipliers)
        gap = presence.keep - presence.noise
        return SourcedStratum(
            shown.sums(),
            shown.sums(rate),
            self._over_domain(presence.noise, factors),
            self._over_domain(presence.noise**2, squares),
            float(gap),
            gap + 2 * highest <= 1,
        )

    @property
    def _published(self) -> Floats:
        """The sums over published tuples that satisfy the question."""
        if self.counts is not None:
            return np.array([self.counts[1]] * 3, np.float64)
        return self._tuple_counts().sums()

    def _tuple_counts(self, by: Sequence[str] = (), views: str | None = None) -> TupleCounts:
        return tuple_counts(self.schema, self.query, self.engine, by, views)

    def _over_domain(self, scale: Fraction, weights: Any = None) -> Floats:
        """Return Σ scale · g^j · weights over the possible tuples by group, for j = 0, 1, 2."""
        argument, copies = self.query.argument, self._copies
        if argument is None and not weights:
            row = np.array([float(scale * number) for number in self.possible])
            return np.array([row, row, row])
        powers = (0, 1, 2) if argument else (0,)
        rows = [
            self._domain.sum(
                self.query.clauses,
                self.query.groups,
                amount=argument if power else None,
                power=power,
                weights=weights,
                scale=scale * copies,
            ).reshape(-1)
            for power in powers
        ]
        return np.array(rows if argument else rows * 3)

    @cached_property
    def _domain(self) -> Domain:
        return domain_of(self.engine)

    @property
    def _copies(self) -> int:
        """How often the same tuple may be present."""
        presence = self.evidence.presence
        return presence.multiplicity if isinstance(presence, InclusionProbabilities) else 1

    @property
    def _notes(self) -> tuple[str, ...]:
        presence = self.evidence.presence
        collapsed = isinstance(presence, InclusionProbabilities) and presence.collapsed
        return (*self.query.notes, *((COLLAPSED,) if collapsed else ()))


# Counts of many questions, from one pass over the published tuples.

# By group: the tuples of the domain, and the published ones, that satisfy a question.
BothCounts = tuple[Sequence[int], Sequence[int]]


def count_together(
    schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, BothCounts]:
    """Return both counts of every count over few attributes, by its position in `queries`."""
    names: dict[int, frozenset[str]] = {}
    for places in same_shape(queries).values():
        names |= dict.fromkeys(places, frozenset(queries[places[0]].attributes))
    for index in grouped(queries):
        if schema.size(queries[index].groups) <= MOST_GROUPS:  # others are refused one by one
            names[index] = frozenset(queries[index].attributes)
    rows = RowTables(cast(Path, engine.view), schema)  # the engine of a release has a view
    counts: dict[int, BothCounts] = {}
    for sets, tables, clauses in tables_in_rounds(schema, queries, names, engine, rows.count):
        for attributes in sets:
            places = [index for index, wanted in names.items() if wanted == attributes]
            both = TableCounts(schema, attributes, tables.table(attributes), clauses).of(
                [queries[p] for p in places]
            )
            counts |= dict(zip(places, both, strict=True))
    return counts


class TableCounts:
    """Counts of questions about the same attributes `names`, from their contingency table."""

    def __init__(
        self, schema: Schema, names: frozenset[str], table: Integers, clauses: Clauses
    ) -> None:
        self._schema, self._table, self._clauses = schema, table, clauses
        self._order = [name for name in schema.names if name in names]
        rest = [attribute.name for attribute in schema.published if attribute.name not in names]
        self._others = schema.size(rest)

    def of(self, queries: Sequence[Query]) -> Iterator[BothCounts]:
        code_sets = CodeSets(self._schema, self._clauses)
        code_boxes = [None if q.groups else code_sets.of(q, self._order) for q in queries]
        boxes = [codes for codes in code_boxes if codes]
        shown = iter(PrefixSums(self._table, self._table.ndim).of(boxes).tolist() if boxes else [])
        for query, codes in zip(queries, code_boxes, strict=True):
            if codes:
                yield [prod(axis.size for axis in codes) * self._others], [next(shown)]
            else:
                yield self._by_cells(query)

    def _by_cells(self, query: Query) -> BothCounts:
        """Return the counts of a question with groups, with a clause on several attributes, or with
        many boxes.
        """
        holds = np.ones((1,) * self._table.ndim, bool)
        for clause in query.clauses:
            holds = holds & self._clauses.along(clause, self._order)
        possible = self._by_group(np.broadcast_to(holds, self._table.shape), query)
        shown = self._by_group(self._table * holds, query)
        return [number * self._others for number in possible], shown

    def _by_group(self, cells: npt.NDArray[Any], query: Query) -> list[int]:
        """Return the sums of `cells` by the groups of a question, the last attribute fastest."""
        axes = [self._order.index(name) for name in query.groups]
        others = tuple(axis for axis in range(cells.ndim) if axis not in axes)
        sums = np.asarray(cells.sum(axis=others, dtype=np.int64))  # axes in the order of the schema
        numbers: list[int] = sums.transpose(np.argsort(np.argsort(axes))).reshape(-1).tolist()
        return numbers


# --- sums -----------------------------------------------------------------------------------------
#
# Sums over the true tuples, estimated from published tuples: Horvitz-Thompson and replacement.
#
# Let Q be the tuples that satisfy the question, and g the amount that is added up. All that a
# count, a sum and an average need are the three sums Σ g^j over the true tuples in Q, for j = 0, 1
# and 2: the variances and the covariance of the estimates of the first two are linear in the three.
#
# - `tuple_counts` counts published tuples by group, in one pass.
# - `HorvitzThompsonMoments`: tuples are present with known probabilities, in one or several views.
# - `ReplacedMoments`: each tuple was kept, or replaced by a uniform one.


class TupleMoments(Protocol):
    """Estimated sums over true tuples and moments of their errors, for all groups at once."""

    @property
    def sums(self) -> Floats:
        """Unbiased estimates of the three sums: one row for each power, one column by group."""
        ...

    def variance(self, power: int) -> Floats:
        """Return the unbiased estimate of the variance of a sum, or its certain lower bound."""
        ...

    @property
    def covariance(self) -> Floats:
        """An unbiased estimate of the covariance of the sums of power 0 and 1."""
        ...

    def deviation(self, low: float, high: float, shift: float = 0.0) -> Floats:
        """Return the largest change of the error of the sum of g - `shift` by one tuple.

        g is between `low` and `high` for every tuple in Q.
        """
        ...

    def count_law(self, group: int, possible: int) -> Law | None:
        """Return the exact law of a count, if it is known; `possible` is the size of Q."""
        ...


@dataclass(frozen=True)
class TupleCounts:
    """Lines of published tuples that satisfy a question, each with its `group`.

    The rows of `powers` are their number, the sum of the amounts, and the sum of squared amounts.
    `column` has the codes of further columns by name, and `groups` is the number of groups.
    """

    groups: int
    group: npt.NDArray[np.intp]
    powers: Floats
    column: dict[str, npt.NDArray[Any]]

    def sums(self, weight: npt.NDArray[Any] | None = None) -> Floats:
        """Return the three sums of each group, every line multiplied by its weight."""
        weighted = self.powers if weight is None else self.powers * weight
        return np.array([np.bincount(self.group, row, self.groups) for row in weighted])


def tuple_counts(
    schema: Schema, query: Query, engine: Sandbox, by: Sequence[str] = (), views: str | None = None
) -> TupleCounts:
    """Count the published tuples that satisfy `query` in one pass.

    They are counted by the groups of the question, by the attributes `by`, and by the column
    `views`, which has plain numbers.
    """
    sizes = [schema[name].size for name in query.groups]
    names = list(dict.fromkeys([*query.groups, *by]))
    columns = [quoted(name) for name in (*names, *([views] if views else []))]
    amount = query.argument.sql if query.argument else None
    sums = ["count(*)", *([f"sum({AMOUNT})", f"sum({AMOUNT} * {AMOUNT})"] if amount else [])]
    filters = [clause.sql for clause in query.clauses]
    table = aggregated(engine, columns, sums, filters, amount=amount)
    codes = {name: known_codes(schema[name], table[f"c{i}"]) for i, name in enumerate(names)}
    if views:
        codes[views] = table[f"c{len(names)}"].to_numpy()
    count, *amounts = (floats(table[f"c{len(columns) + index}"]) for index in range(len(sums)))
    powers = np.array([count, *(amounts or [count, count])])
    group = np.zeros(table.num_rows, np.intp)
    if query.groups:
        places = [codes[name].astype(np.intp) for name in query.groups]
        group = np.ravel_multi_index(places, sizes)
    return TupleCounts(prod(sizes), group, powers, codes)


# Several views of the same true tuples, each split by the earlier views.
#
# With V' the union of the earlier views, a true tuple is in view i with probability a, a false
# one of V' with a · fade, any other with c_i: two strata, and membership in V' is public. Given
# the earlier views each stratum's estimate is unbiased, and so is their sum, whatever V' is. The
# estimator of the paper takes all true tuples to be in V', and is biased as long as they are not.


def strata(
    presence: InclusionProbabilities, shown: TupleCounts, false: Floats
) -> tuple[tuple[Stratum, ...], ...]:
    """Return the strata of every view. `false` are the expected sums of view 1 if no tuple were
    true.
    """
    bits = shown.column[presence.views_column].astype(np.int64)
    keep, faded = presence.keep, presence.keep * presence.fade
    views = []
    for view in range(1, presence.views + 1):
        noise = presence.noise_of(view)
        there = (bits >> (view - 1)) % 2 == 1
        earlier = bits % (1 << (view - 1)) > 0
        known = shown.sums(earlier)
        fresh = false * float((1 - keep) ** (view - 1)) - float(noise) * known
        parts = [Stratum(shown.sums(there & ~earlier), fresh, keep, noise)]
        if view > 1:
            parts.append(Stratum(shown.sums(there & earlier), float(faded) * known, keep, faded))
        views.append(tuple(parts))
    return tuple(views)


def weights(presence: InclusionProbabilities, size: int) -> tuple[float, ...]:
    """Return the weight of each view in the pooled estimate.

    It is proportional to the inverse of the expected variance of a count of all tuples of the
    domain, whose number is `size`. The weights depend on public numbers only: the sizes of the
    table and of the domain, and the probabilities. They do not depend on the views, not even on V',
    since weights that depend on a view and multiply the error of the same view would bias the sum.
    They are the same for all questions, so that the answers to parts of a question add up to the
    answer to the whole.
    """
    variances = [_expected_variance(presence, size, view) for view in range(1, presence.views + 1)]
    if not all(variances):
        return tuple(1 / presence.views for _ in variances)
    total = sum(1 / variance for variance in variances)
    return tuple(1 / variance / total for variance in variances)


def _expected_variance(presence: InclusionProbabilities, size: int, view: int) -> float:
    keep, faded, noise = presence.keep, presence.keep * presence.fade, presence.noise_of(view)
    unseen = float((1 - keep) ** (view - 1))
    spared = prod((1 - presence.noise_of(other) for other in range(1, view)), start=Fraction(1))
    true = presence.rows * float(keep * (1 - keep))
    fresh = float(size * spared * noise * (1 - noise))
    known = float(size * (1 - spared))  # false tuples in earlier views
    variance = (true * unseen + fresh) / float(keep - noise) ** 2
    if view > 1:
        inside = true * (1 - unseen) + known * float(faded * (1 - faded))
        variance += inside / float(keep - faded) ** 2
    return variance


# Tuples that are present with known probabilities.


@dataclass(frozen=True)
class Stratum:
    """Tuples of which a true one is present with probability `high`, a false one with `low`.

    `shown` are the sums over present tuples, `false` their means if no tuple were true. A sum is
    estimated by (shown - false) / (high - low); its variance is low (1 - low) for every tuple of
    the stratum, and high (1 - high) - low (1 - low) = (high - low)(1 - high - low) more for every
    true one, in terms of g² and divided by (high - low)².
    """

    shown: Floats
    false: Floats
    high: Fraction
    low: Fraction

    @cached_property
    def sums(self) -> Floats:
        return (self.shown - self.false) / self._gap

    def covariance(self, power: int) -> Floats:
        """Return an unbiased estimate of the covariance of two sums whose powers add to `power`."""
        excess = self._gap * float(1 - self.high - self.low)
        noise = float(1 - self.low) * self.false[power]
        covariance: Floats = (noise + excess * self.sums[power]) / self._gap**2
        return covariance

    def least(self, power: int) -> Floats:
        """Return a lower bound of the variance, whatever is true."""
        if not self.low:
            return np.zeros_like(self.false[power])
        factor = min(self.high * (1 - self.high) / self.low, 1 - self.low)
        least: Floats = float(factor) * self.false[power] / self._gap**2
        return least

    @property
    def largest(self) -> float:
        """The largest change of the error of a count by one tuple."""
        return float(max(1 - self.low, self.high)) / self._gap

    @property
    def _gap(self) -> float:
        return float(self.high - self.low)


@dataclass(frozen=True)
class SourcedStratum:
    """Tuples t of which a false one is present with its own probability β(t), a true one with
    `gap` more.

    `shown` are the sums over present tuples and `faded` the same with every tuple times β(t);
    `false` and `squared` are sums over all possible tuples times β(t) and β(t)². `steady` says
    whether gap + 2β(t) is at most 1 for every tuple. The variance is the sum of β(t)(1 - β(t)) over
    all tuples, and of gap (1 - gap - 2β(t)) over true ones.
    """

    shown: Floats
    faded: Floats
    false: Floats
    squared: Floats
    gap: float
    steady: bool

    @cached_property
    def sums(self) -> Floats:
        return (self.shown - self.false) / self.gap

    def covariance(self, power: int) -> Floats:
        faded = (self.faded[power] - self.squared[power]) / self.gap
        excess = self.gap * ((1 - self.gap) * self.sums[power] - 2 * faded)
        covariance: Floats = (self.false[power] - self.squared[power] + excess) / self.gap**2
        return covariance

    def least(self, power: int) -> Floats:
        noise = (self.false[power] - self.squared[power]) / self.gap**2
        return noise if self.steady else np.zeros_like(noise)

    @property
    def largest(self) -> float:
        return 1 / self.gap


@dataclass(frozen=True)
class HorvitzThompsonMoments:
    """Views of the same tuples, each a list of strata, with weights that add up to 1.

    Given the earlier views, the estimate from a view (the sum over its strata) is unbiased. The
    weights are constants, so that the pooled estimate is unbiased as well; and the errors of two
    views are uncorrelated, since the later one has mean zero given all that the earlier ones show.
    So the variance is the sum of the squared weights times the variances.
    """

    presence: InclusionProbabilities
    views: tuple[tuple[Stratum | SourcedStratum, ...], ...]
    weights: tuple[float, ...]

    @cached_property
    def sums(self) -> Floats:
        pairs = zip(self.weights, self.views, strict=True)
        return _add_up(weight * stratum.sums for weight, view in pairs for stratum in view)

    def variance(self, power: int) -> Floats:
        return np.maximum(self._pool(2 * power), self._pool(2 * power, least=True))

    @property
    def covariance(self) -> Floats:
        return self._pool(1)

    def deviation(self, low: float, high: float, shift: float = 0.0) -> Floats:
        amount = max(abs(low - shift), abs(high - shift))
        pairs = zip(self.weights, self.views, strict=True)
        reach = max(weight * max(stratum.largest for stratum in view) for weight, view in pairs)
        return np.full(self.sums.shape[1], amount * reach)

    def count_law(self, group: int, possible: int) -> RandomizedCount | None:
        [stratum, *others] = self.views[0]
        if len(self.views) > 1 or others or not isinstance(stratum, Stratum):
            return None
        return RandomizedCount(
            rows=possible,
            shown=int(stratum.shown[0, group]),
            keep=float(stratum.high - stratum.low),
            outside=float(stratum.low),
            most=self.presence.rows,
            expected=float(stratum.false[0, group]),
        )

    def _pool(self, power: int, *, least: bool = False) -> Floats:
        return _add_up(
            weight**2 * (stratum.least(power) if least else stratum.covariance(power))
            for weight, view in zip(self.weights, self.views, strict=True)
            for stratum in view
        )


def _add_up(terms: Iterable[Floats]) -> Floats:
    total: Floats = np.add.reduce(list(terms))
    return total


# Tuples that were kept, or replaced by a uniform one.
#
# A row with true tuple x shows y = x with probability p, else a uniform tuple of the m in the
# domain. For f = g^j on Q and 0 elsewhere, with mean μ over the domain, the weight (f(y) - (1-p)
# μ) / p has mean f(x). The covariance of two such weights is
#
#     (1-p)/p · (f(x) - μ)(h(x) - ν) + (1-p)/p² · (mean of f·h over the domain - μν),
#
# where the second term does not depend on x.


@dataclass(frozen=True)
class ReplacedMoments:
    """Moments by randomised response on whole tuples.

    `shown` are the sums over published tuples in Q; `mean` are the sums over the domain, divided by
    its size.
    """

    presence: ReplacedTuples
    shown: Floats
    mean: Floats

    @cached_property
    def sums(self) -> Floats:
        rows, keep = self.presence.rows, float(self.presence.keep)
        return (self.shown - rows * self._replaced * self.mean) / keep

    def variance(self, power: int) -> Floats:
        return np.maximum(self._covariance(power, power), self._certain(power, power))

    @property
    def covariance(self) -> Floats:
        return self._covariance(0, 1)

    def deviation(self, low: float, high: float, shift: float = 0.0) -> Floats:
        keep = float(self.presence.keep)
        mean = self.mean[1] - shift * self.mean[0]
        # Tuples outside Q add 0.
        least, most = min(low - shift, 0.0), max(high - shift, 0.0)
        above = (most - self._replaced * mean) / keep - least
        below = most - (least - self._replaced * mean) / keep
        largest: Floats = np.maximum(above, below)
        return largest

    def count_law(self, group: int, possible: int) -> RandomizedCount:
        shown, outside = int(self.shown[0, group]), self._replaced * float(self.mean[0, group])
        return RandomizedCount(self.presence.rows, shown, float(self.presence.keep), outside)

    @property
    def _replaced(self) -> float:
        return float(1 - self.presence.keep)

    def _covariance(self, one: int, other: int) -> Floats:
        """Return the estimated covariance of the sums of two powers."""
        f, h, rows = self.mean[one], self.mean[other], self.presence.rows
        products = self.sums[one + other] - h * self.sums[one] - f * self.sums[other] + rows * f * h
        odds = self._replaced / float(self.presence.keep)
        covariance: Floats = odds * products + self._certain(one, other)
        return covariance

    def _certain(self, one: int, other: int) -> Floats:
        """Return the term of the covariance that does not depend on the true tuples."""
        covariance = self.mean[one + other] - self.mean[one] * self.mean[other]
        factor = self.presence.rows * self._replaced / float(self.presence.keep) ** 2
        term: Floats = factor * covariance
        return term
