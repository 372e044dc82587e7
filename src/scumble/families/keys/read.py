"""Reader of open keys: counts of published keys, and limits for all others.

Where people keep some of their keys, a count is of those who kept the key. How many keys a person
has is not published, and so the chance that a key was kept is unknown. A question in SQL is about
all rows of the table: there are at least as many as people who kept the key, and no estimate and no
upper limit. `top` ranks keys by the people who kept them, and says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.families.keys.design import KeyLevel, OpenKeys
from scumble.model.errors import ParameterError, QueryError
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.model.parameters import whole
from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Anywhere, Estimate, Estimates, Exact, Law, Unknown
from scumble.public.estimation.bounds import Bounded, Limit
from scumble.public.estimation.domain_counting import domain_of
from scumble.public.estimation.interval_laws import WINNERS, Selected
from scumble.public.sandbox import OPEN, Sandbox

Key = tuple[Any, ...]
Floats = npt.NDArray[np.float64]

ONE = "noisy count of a published key; the interval allows for how it was chosen"
SUM = "sum of noisy counts of published keys; the interval allows for how they were chosen"
NONE = "no such key was published"
MEAN = "ratio of sums of noisy counts; the interval is that of the amounts"
UNSEEN = "keys that were not published may have some people, whose number is limited"
KEPT = "people who kept it"
MORE = ", so the table may have any number more rows; only keys.top has these counts"
UNBOUNDED = "keys that were not published are not counted, and their number has no limit"
_FOR_UNSEEN = 0.1  # of the probability of a miss, for keys that were not published
_LITERAL = r"'(?:[^']|'')*'"


@dataclass(frozen=True)
class KeySum:
    """The error law of a weighted sum of the counts of keys; `counts` and `weights` are those of
    the published ones. `levels` is how many levels a key passes until it is published.

    Up to `unseen` keys were not published; a person of one adds from `low` to `high`. The interval
    holds if every published key is within its limits, at nine tenths of the miss together, and
    every other below its own, at the rest, which is divided among the levels that it may fail. So
    it holds both for keys that were named before the release was seen and, given that they were
    published, for published ones.
    """

    level: KeyLevel
    counts: tuple[int, ...]
    weights: tuple[float, ...]
    unseen: float = 0.0
    low: float = 1.0
    high: float = 1.0
    levels: int = 1

    @property
    def stderr(self) -> float:
        noise = self.level.noise
        if noise is None or not self.counts:
            return math.inf if self.unseen else 0.0
        return math.sqrt(sum(weight**2 for weight in self.weights)) * noise.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        miss = 1 - level
        low, high = self._bound_published(miss * (1 - _FOR_UNSEEN))
        if self.unseen:
            rare = miss * _FOR_UNSEEN / self.levels / self.unseen
            most = self.unseen * self.level.most_unseen(rare)
            low += min(self.low, 0.0) * most if self.low < 0 else 0.0
            high += max(self.high, 0.0) * most if self.high > 0 else 0.0
        return low, high

    def _bound_published(self, miss: float) -> tuple[float, float]:
        if not self.counts:
            return 0.0, 0.0
        noise = self.level.noise
        plain = self.level.fresh and isinstance(noise, DiscreteLaplace | DiscreteGaussian)
        if plain and set(self.weights) == {1.0}:
            total = sum(self.counts)
            half = NoiseSum(cast(Any, noise), [(1, len(self.counts))]).half_width(1 - miss)
            return max(total - half, 0.0), max(total + half, 0.0)
        limits = [self.level.limits(count, miss / len(self.counts)) for count in self.counts]
        ends = [
            sorted((weight * low, weight * high))
            for weight, (low, high) in zip(self.weights, limits, strict=True)
        ]
        return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)


@dataclass(frozen=True)
class KeyBound:
    """The law of a number of which only limits are known."""

    low: float
    high: float

    @property
    def stderr(self) -> float:
        return (self.high - self.low) / math.sqrt(12)

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return self.low, self.high


class OpenKeysReader:
    """Answers questions from the published keys of one release. A row of its table is a person and
    one of their keys.
    """

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self.design = cast(OpenKeys, evidence.design)
        self._columns = evidence.columns
        self._schema = schema
        self.sandbox = engine
        # The attributes of the release; those that are open have the published values here.
        self._open: frozenset[str] = engine.derived.get(OPEN, frozenset())

    def answer(
        self, query: Query, engine: Sandbox, *, kept: bool = False
    ) -> Iterator[tuple[Key, Estimate]]:
        """Return every published group of the answer with its estimate: about all rows of the
        table, or with `kept` about the people who kept a key.
        """
        if self.design.count is None:
            raise QueryError("This release names keys without counts; publish it with counts.")
        level = self._find_level(query.attributes)
        names = self._columns[: level.columns]
        groups, counts, amounts = self._read_rows(query, level, engine)
        limited = self.design.limited and not kept
        question = KeyQuestion(self.design, level, query, names, self._open, engine, limited)
        if not query.groups:
            return iter([((), question.estimate(counts, amounts, pinned=True))])
        order = np.lexsort([_number_values(group) for group in reversed(groups)])
        keys = list(
            zip(*(group.take(pa.array(order)).to_pylist() for group in groups), strict=True)
        )
        starts = [i for i in range(len(keys)) if not i or keys[i] != keys[i - 1]]
        whole_key = set(names) <= set(query.groups)
        answers = []
        for begin, end in pairwise([*starts, len(keys)]):
            part = order[begin:end]
            estimate = question.estimate(counts[part], amounts[part], pinned=False, one=whole_key)
            answers.append((keys[begin], estimate))
        return iter(answers)

    def answer_together(self, queries: Sequence[Query], engine: Sandbox) -> dict[int, Any]:
        """Return nothing: no work is saved by answering several questions together."""
        return {}

    def top(self, k: int, *, length: int | None = None) -> Estimates:
        """Return the `k` keys that the most people kept, as the release counted them; `length` is
        the number of columns of the key, by default that of the first level.
        """
        whole("top", "k", k, least=1)
        columns = [level.columns for level in self.design.levels]
        if length is not None and length not in columns:
            allowed = f"one of {', '.join(map(str, columns))}, the numbers of columns of keys"
            raise ParameterError.of("top", "length", allowed, length)
        names = self._columns[: length or columns[0]]
        rows = list(self.answer(Query("count", groups=tuple(names)), self.sandbox, kept=True))
        rows.sort(key=lambda row: -row[1].value)
        best = [
            (
                key,
                replace(
                    estimate,
                    law=Selected(estimate.law, len(rows)),
                    notes=(*estimate.notes, WINNERS),
                ),
            )
            for key, estimate in rows[:k]
        ]
        types = [(name, self._schema[name].arrow_type) for name in names]
        counted = KEPT if self.design.limited else ""
        return Estimates(types, best, aliases=[*("" for _ in names), counted])

    def _find_level(self, names: Sequence[str]) -> KeyLevel:
        """Return the first level that has all these columns."""
        for level in self.design.levels:
            if set(names) <= set(self._columns[: level.columns]):
                return level
        raise QueryError(f"This release has keys of {', '.join(self._columns)}.")

    def _read_rows(
        self, query: Query, level: KeyLevel, engine: Sandbox
    ) -> tuple[list[pa.Array], npt.NDArray[np.int64], Floats]:
        """Return groups, counts and amounts of the published keys that satisfy the question."""
        amount = f"CAST({query.argument.sql} AS DOUBLE)" if query.argument else "1e0"
        filters = [f"({clause.sql})" for clause in query.clauses]
        filters += [f"{quoted(name)} IS NOT NULL" for name in self._columns[: level.columns]]
        filters += [f"{quoted(name)} IS NULL" for name in self._columns[level.columns :]]
        listed = [*map(quoted, query.groups), quoted(self.design.count or ""), amount]
        table = engine.rows(f"SELECT {', '.join(listed)} FROM view WHERE {' AND '.join(filters)}")
        *groups, counts, amounts = (column.combine_chunks() for column in table.columns)
        known = amounts.is_valid().to_numpy(zero_copy_only=False)
        valid = pa.array(known)
        return (
            [_decode(group.filter(valid)) for group in groups],
            counts.filter(valid).to_numpy(),
            amounts.filter(valid).to_numpy(),
        )


@dataclass(frozen=True)
class KeyQuestion:
    """One question to the keys of one level, whose columns are `names`; with `limited` about a
    table of which only the keys that people kept were counted.
    """

    design: OpenKeys
    level: KeyLevel
    query: Query
    names: tuple[str, ...]
    open: frozenset[str]
    engine: Sandbox
    limited: bool

    def estimate(
        self, counts: npt.NDArray[np.int64], amounts: Floats, *, pinned: bool, one: bool = False
    ) -> Estimate:
        """Return the estimate of these published keys. `one` tells that it is about one key alone;
        `pinned` that the condition may name all keys that it is about.
        """
        unseen = 0.0 if one else max(self._count_possible(pinned=pinned) - len(counts), 0.0)
        low, high = self._limits
        value = math.fsum((counts - self.level.bias) * amounts)
        if self.query.aggregate == "mean":
            return self._estimate_mean(value, float((counts - self.level.bias).sum()))
        law: Law = KeySum(
            self.level,
            tuple(counts.tolist()),
            tuple(amounts.tolist()),
            unseen,
            low,
            high,
            sum(level.columns <= self.level.columns for level in self.design.levels),
        )
        if not len(counts) and not unseen:
            law = Exact()
        elif self.limited:
            possible = (*amounts.tolist(), *((low, high) if unseen else ()))
            value, law = math.nan, _add_dropped_rows(value, law, possible)
        method = ONE if len(counts) == 1 else SUM if len(counts) else NONE
        return Estimate(value, law, method, (*self._notes, *self._note_unseen(unseen)))

    def _estimate_mean(self, total: float, count: float) -> Estimate:
        low, high = self._limits
        if not count:
            return Estimate(math.nan, Unknown(), "average of no rows", (*self._notes, NONE))
        known = math.isfinite(low) and math.isfinite(high)
        law: Law = KeyBound(low, high) if known else Unknown()
        return Estimate(total / count, law, MEAN, self._notes)

    @property
    def _notes(self) -> tuple[str, ...]:
        # The parser takes the published values for all that are possible.
        own = [f"is not in the domain of '{name}'" for name in self.open]
        notes = tuple(note for note in self.query.notes if not any(part in note for part in own))
        if not self.design.limited:
            return notes
        most = self.design.keys
        keys = "one key, drawn" if most == 1 else f"up to {most} keys, drawn"
        counted = f"counts people who kept the key: each keeps {keys} at random if there are more"
        return (*notes, f"the release {counted}{MORE}" if self.limited else counted)

    def _note_unseen(self, unseen: float) -> tuple[str, ...]:
        if not unseen:
            return ()
        unbounded = math.isinf(unseen) or self.level.selection is None
        return (UNBOUNDED if unbounded else UNSEEN,)

    @cached_property
    def _limits(self) -> tuple[float, float]:
        """The least and the largest amount that a row can add."""
        argument = self.query.argument
        if argument is None:
            return 1.0, 1.0
        if self.open & set(argument.attributes):
            return -math.inf, math.inf
        low, high = domain_of(self.engine).limits(argument, self.query.clauses)
        return (low, high) if low <= high else (0.0, 0.0)

    def _count_possible(self, *, pinned: bool) -> float:
        """Return how many keys satisfy the condition, published or not; infinite if open values
        are not named by it.
        """
        closed = [name for name in self.names if name not in self.open]
        open_ = [name for name in self.names if name in self.open]
        if not open_:
            return float(self._count_domain(self.query.clauses))
        if not pinned:
            return math.inf
        named = [_find_named(self.query.clauses, name) for name in open_]
        if any(values is None for values in named):
            return math.inf
        others = [clause for clause in self.query.clauses if not set(clause.attributes) & self.open]
        many = math.prod(len(values or ()) for values in named)
        return many * (float(self._count_domain(others)) if closed else 1.0)

    def _count_domain(self, clauses: Sequence[Expression]) -> Any:
        """Return the number of cells of the closed columns of the level that satisfy `clauses`."""
        names = {name for name in self.names if name not in self.open}
        cells = domain_of(self.engine).count(tuple(clauses)).reshape(-1)[0]
        others = [
            attribute for attribute in self.engine.schema.published if attribute.name not in names
        ]
        return cells // math.prod(attribute.size for attribute in others)


def _add_dropped_rows(value: float, law: Law, amounts: Sequence[float]) -> Bounded:
    """Return the law of a sum over all rows of the table, given that of the rows that were kept;
    the others add any number of the `amounts`. Without limits on both sides there is no estimate.
    """
    low, high = Limit(value, law), Limit(value, law)
    if min(amounts) < 0:
        low = Limit(-math.inf, Exact())
    if max(amounts) > 0:
        high = Limit(math.inf, Exact())
    return Bounded(Anywhere(-math.inf, math.inf), low, high)


def _find_named(clauses: Sequence[Expression], name: str) -> set[str] | None:
    """Return the values that a clause `name = 'x'` or `name IN ('x', ...)` allows; None without."""
    column = re.escape(quoted(name))
    form = rf"\s*{column}\s*(?:=\s*({_LITERAL})|IN\s*\(((?:\s*{_LITERAL}\s*,?)+)\))\s*"
    for clause in clauses:
        if matched := re.fullmatch(form, clause.sql, re.IGNORECASE):
            texts = re.findall(_LITERAL, matched[1] or matched[2])
            return {text[1:-1].replace("''", "'") for text in texts}
    return None


def _decode(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def _number_values(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return numbers in the order of the values."""
    distinct = sorted(set(values.to_pylist()))
    codes = {value: code for code, value in enumerate(distinct)}
    return np.array([codes[value] for value in values.to_pylist()], np.int64)
