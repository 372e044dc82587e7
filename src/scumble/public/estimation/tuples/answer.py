"""Answers from published tuples, true and false ones mixed (AlphaBeta, Frapp).

The engine counts the tuples of the view that satisfy the question. The expected number of false
ones among them follows from the number of tuples of the whole domain that satisfy it, which is
counted without enumerating the domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.evidence import Tuples
from scumble.model.evidence.presence import InclusionProbabilities, ReplacedTuples
from scumble.model.long_work import told
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.domain_counting import MOST_GROUPS, Domain, domain_of
from scumble.public.estimation.interval_laws import Ratio, WeightedSum
from scumble.public.estimation.rows.count_laws import RandomizedCount
from scumble.public.estimation.rows.grouped_counts import Floats
from scumble.public.estimation.rows.row_tables import RowTables
from scumble.public.estimation.tables import (
    BoxSums,
    Clauses,
    CodeSets,
    Integers,
    grouped,
    same_shape,
    tables_in_rounds,
)
from scumble.public.estimation.tuples.sums import (
    HorvitzThompsonMoments,
    Moments,
    ReplacedMoments,
    SourcedStratum,
    Stratum,
    TupleCounts,
    strata,
    tuple_counts,
    weights,
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
    for place, key in zip(told(places), schema.cell_values(query.groups, places), strict=True):
        yield key, question.estimate(place)


def answer_together(
    evidence: Tuples, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, list[tuple[Key, Estimate]]]:
    """Return the answers to the counts among `queries` that share contingency tables.

    Keys are places in `queries`. The numbers are those of asking one by one.
    """
    presence = evidence.presence
    if isinstance(presence, InclusionProbabilities) and (presence.views > 1 or presence.sources):
        return {}  # a tuple's probability depends on more than whether it satisfies the question
    return {
        place: list(_groups(TupleQuestion(evidence, schema, queries[place], engine, both)))
        for place, both in counted(schema, queries, engine).items()
    }


@dataclass(frozen=True)
class TupleQuestion:
    """One question to published tuples: counts over the domain, and counts of the view.

    `counted` has both, if they were counted before.
    """

    evidence: Tuples
    schema: Schema
    query: Query
    engine: Sandbox
    counted: Counted | None = None

    def estimate(self, group: int) -> Estimate:
        make = {"count": self._count, "sum": self._sum, "mean": self._mean}
        return make[self.query.aggregate](group)

    @cached_property
    def possible(self) -> npt.NDArray[np.object_]:
        """The number of tuples of the domain that satisfy the question, by group."""
        if self.counted is not None:
            return np.array([number * self._copies for number in self.counted[0]], object)
        return self._domain.count(self.query.clauses, self.query.groups).reshape(-1) * self._copies

    def _count(self, group: int) -> Estimate:
        possible = self.possible[group]
        if possible in (0, self._domain.size * self._copies):
            rows = self.evidence.rows if possible else 0
            return Estimate(float(rows), Exact(), EXACT, self._notes)
        law = self.moments.count_law(group, possible)
        if isinstance(law, RandomizedCount):
            return Estimate(law.value, law, BINOMIAL if law.exact else MANY, self._notes)
        return self._weighted(0, group)

    def _sum(self, group: int) -> Estimate:
        if not self.possible[group]:
            return Estimate(0.0, Exact(), EXACT, self._notes)
        return self._weighted(1, group)

    def _weighted(self, power: int, group: int) -> Estimate:
        variance, largest = self._variances[power][group], self._largest[power][group]
        law = WeightedSum(float(variance), float(largest))
        return Estimate(float(self.moments.sums[power, group]), law, self._method, self._notes)

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
        return Estimate(law.value, law, FIELLER, (*self._notes, *law.notes))

    def _ratio_largest(self, group: int) -> tuple[float, float, float]:
        """Return the largest change of `total - r * count` by one tuple, for three ratios r."""
        low, middle, high = (float(each[group]) for each in self._ratio_deviations)
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
    def moments(self) -> Moments:
        """The sums over true tuples, estimated from the published ones, by group."""
        presence = self.evidence.presence
        if isinstance(presence, ReplacedTuples):
            mean = self._over_domain(Fraction(1, self._domain.size))
            return ReplacedMoments(presence, self._published, mean)
        if presence.sources:
            return HorvitzThompsonMoments(presence, ((self._sourced(presence),),), (1.0,))
        false = self._over_domain(presence.noise)
        if presence.views == 1:
            stratum = Stratum(self._published, false, presence.kept, presence.noise)
            return HorvitzThompsonMoments(presence, ((stratum,),), (1.0,))
        size = self._domain.size * presence.multiplicity
        views = strata(presence, self._tuple_counts(views=presence.views_column), false)
        return HorvitzThompsonMoments(presence, views, weights(presence, size))

    def _sourced(self, presence: InclusionProbabilities) -> SourcedStratum:
        """Return the stratum of β(t) = noise · Π size · share, over attributes with a source."""
        sources = presence.sources or {}
        factors = {n: [len(each) * share for share in each] for n, each in sources.items()}
        shown = self._tuple_counts(tuple(sources))
        rate = np.full(len(shown.group), float(presence.noise))
        for name, each in factors.items():
            rate = rate * np.array([float(factor) for factor in each])[shown.column[name]]
        squares = {name: [factor**2 for factor in each] for name, each in factors.items()}
        highest = presence.noise
        for each in factors.values():
            highest *= max(each)
        gap = presence.kept - presence.noise
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
        if self.counted is not None:
            return np.array([self.counted[1]] * 3, np.float64)
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
Counted = tuple[Sequence[int], Sequence[int]]


def counted(schema: Schema, queries: Sequence[Query], engine: Sandbox) -> dict[int, Counted]:
    """Return both counts of every count over few attributes, by its place in `queries`."""
    names: dict[int, frozenset[str]] = {}
    for places in same_shape(queries).values():
        names |= dict.fromkeys(places, frozenset(queries[places[0]].attributes))
    for place in grouped(queries):
        if schema.size(queries[place].groups) <= MOST_GROUPS:  # others are refused one by one
            names[place] = frozenset(queries[place].attributes)
    rows = RowTables(cast(Path, engine.view), schema)  # the engine of a release has a view
    found: dict[int, Counted] = {}
    for sets, tables, clauses in tables_in_rounds(schema, queries, names, engine, rows.count):
        for each in sets:
            places = [place for place, named in names.items() if named == each]
            both = TableCounts(schema, each, tables.table(each), clauses).of(
                [queries[p] for p in places]
            )
            found |= dict(zip(places, both, strict=True))
    return found


class TableCounts:
    """Counts of questions about the same attributes `names`, from their contingency table."""

    def __init__(
        self, schema: Schema, names: frozenset[str], table: Integers, clauses: Clauses
    ) -> None:
        self._schema, self._table, self._clauses = schema, table, clauses
        self._order = [name for name in schema.names if name in names]
        rest = [each.name for each in schema.published if each.name not in names]
        self._others = schema.size(rest)

    def of(self, queries: Sequence[Query]) -> Iterator[Counted]:
        code_sets = CodeSets(self._schema, self._clauses)
        found = [None if q.groups else code_sets.of(q, self._order) for q in queries]
        boxes = [each for each in found if each]
        shown = iter(BoxSums(self._table, self._table.ndim).of(boxes).tolist() if boxes else [])
        for query, each in zip(queries, found, strict=True):
            if each:
                yield [prod(codes.size for codes in each) * self._others], [next(shown)]
            else:
                yield self._by_cells(query)

    def _by_cells(self, query: Query) -> Counted:
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
