"""Answers to many counts of published rows at once, from contingency tables.

Plain counts of one shape share a plan, and a table of the attributes that they depend on. The lines
of the table behind every answer are listed, and weighted as for a single question. A count with
GROUP BY has its own plan, and reads its groups from the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from scumble.model.evidence.channels import MultisetChannel
from scumble.model.evidence.evidence import Records
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate
from scumble.public.estimation.rows.answer import Answers, ample_or_plain, estimates
from scumble.public.estimation.rows.grouped_counts import (
    GroupedCounts,
    GroupIndex,
    Indices,
    sums_of_ones,
)
from scumble.public.estimation.rows.inverse_channels import MultisetProduct
from scumble.public.estimation.rows.plan import RowsPlan
from scumble.public.estimation.rows.posterior_law import StagedChannel
from scumble.public.estimation.rows.row_tables import MultisetTables, RowTables
from scumble.public.estimation.rows.staged_reading import (
    FIXED,
    StagedReading,
    StagedTables,
    staged,
)
from scumble.public.estimation.rows.sums import Sums
from scumble.public.estimation.tables import (
    CodeSet,
    CodeSets,
    ContingencyTables,
    Integers,
    PrefixSums,
    grouped,
    same_shape,
    tables_in_rounds,
)
from scumble.public.sandbox import Sandbox

Answer = list[tuple[tuple[Any, ...], Estimate]]
Found = dict[int, Sequence[tuple[tuple[Any, ...], Estimate | None]]]

_LINES = 1 << 20  # that are listed at a time


def answer_together(
    evidence: Records, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, Answer]:
    """Return the answers to the counts among `queries` that share contingency tables.

    Keys are places in `queries`. The numbers are those of asking one by one.
    """
    batches = _batches(evidence, schema, queries)
    joint = any(batch.multiset for batch in batches)
    reading = staged(evidence, schema, engine) if joint else None
    if reading is None:
        return _whole(_by_channel(batches, queries, engine))
    again = _batches(reading.evidence, reading.schema, queries)
    found = _by_channel([each for each in again if each.staged], queries, engine, reading)
    few = {place for place, rows in found.items() if any(each is None for _, each in rows)}
    plain = [
        _Batch(batch.plan, [place for place in batch.places if place in few or not batch.multiset])
        for batch in batches
    ]
    others = _by_channel([batch for batch in plain if batch.places], queries, engine)
    for place in few:  # a table of fewer questions may not be worth its cells any more
        own = others.pop(place, None)
        if own is None:
            del found[place]
        else:
            found[place] = list(ample_or_plain(dict(found[place]), partial(iter, own)))
    return _whole(found | others)


def _whole(found: Found) -> dict[int, Answer]:
    return cast(dict[int, Answer], found)


def _by_channel(
    batches: Sequence[_Batch],
    queries: Sequence[Query],
    engine: Sandbox,
    reading: StagedReading | None = None,
) -> Found:
    """Return the answers of batches by place; None for groups that stages have too few rows of."""
    if reading is not None:
        return _from_tables(None, batches, queries, engine, reading) if batches else {}
    found: Found = {}
    for multiset in {batch.multiset for batch in batches}:
        some = [batch for batch in batches if batch.multiset == multiset]
        found |= _from_tables(multiset, some, queries, engine)
    return found


@dataclass(frozen=True)
class _Batch:
    """Questions that have one plan, by their places."""

    plan: RowsPlan
    places: list[int]

    @property
    def multiset(self) -> MultisetChannel | None:
        """The channel that shows several values of a row, if the questions name its attributes."""
        channel = self.plan.joint_channel
        return channel if isinstance(channel, MultisetChannel) else None

    @property
    def staged(self) -> bool:
        return isinstance(self.plan.joint_channel, StagedChannel)

    @property
    def names(self) -> frozenset[str]:
        """The attributes by which rows must be counted."""
        return frozenset((*self.plan.query.attributes, *self.plan.unperturbed, *self.plan.axes))


def _batches(evidence: Records, schema: Schema, queries: Sequence[Query]) -> list[_Batch]:
    """Return the counts of which no clause names both perturbed and unperturbed attributes, and
    that are about one multiset of a row at most.
    """
    found = (
        _Batch(RowsPlan(evidence, schema, queries[places[0]]), places)
        for places in (*same_shape(queries).values(), *([place] for place in grouped(queries)))
    )
    return [
        batch
        for batch in found
        if batch.plan.shared and not isinstance(batch.plan.joint_channel, MultisetProduct)
    ]


def _from_tables(
    multiset: MultisetChannel | None,
    batches: Sequence[_Batch],
    queries: Sequence[Query],
    engine: Sandbox,
    reading: StagedReading | None = None,
) -> Found:
    """Return the answers of batches whose tables are worth their cells, by place."""
    schema = batches[0].plan.schema
    file = cast(Path, engine.view)  # the engine of a release has one
    rows: RowTables | MultisetTables = RowTables(file, schema)
    if reading is not None:
        rows = StagedTables(file, reading)
    elif multiset is not None:
        rows = MultisetTables(file, schema, multiset)
    names: dict[int, frozenset[str]] = {}
    for batch in batches:
        names |= dict.fromkeys(batch.places, batch.names)
    members = FIXED if reading else multiset.law.size if multiset else 1
    found: Found = {}
    for sets, tables, clauses in tables_in_rounds(schema, queries, names, engine, rows.count):
        code_sets = CodeSets(schema, clauses)
        for batch in (each for each in batches if each.names in sets):
            found.update(_answers(batch, queries, tables, code_sets, members))
    return found


def _answers(
    batch: _Batch,
    queries: Sequence[Query],
    tables: ContingencyTables,
    code_sets: CodeSets,
    members: int,
) -> Iterator[tuple[int, Sequence[tuple[tuple[Any, ...], Estimate | None]]]]:
    table = TableAnswers(batch.plan, tables.table(batch.names), code_sets, members)
    if batch.plan.query.groups:
        yield batch.places[0], list(table.by_group())
        return
    found = table.answers([queries[place] for place in batch.places])
    for place, estimate in zip(batch.places, found, strict=True):
        yield place, [((), estimate)]


class TableAnswers:
    """Answers to questions that have one plan.

    `table` has the attributes of the plan as axes, in the order of the schema. A row is in it
    `members` times; if rows are read by stages, in parts that add up to that.
    """

    def __init__(self, plan: RowsPlan, table: Integers, code_sets: CodeSets, members: int) -> None:
        self._plan, self._code_sets, self._clauses = plan, code_sets, code_sets.clauses
        staged = isinstance(plan.joint_channel, StagedChannel)
        self._members, self._unit = (1, 1 / members) if staged else (members, 1.0)
        asked = {*plan.query.attributes, *plan.unperturbed, *plan.axes}
        order = [name for name in plan.schema.names if name in asked]
        true = [name for name in order if name not in (*plan.unperturbed, *plan.axes)]
        self._names = [*true, *plan.unperturbed, *plan.axes]
        self._first, self._last = len(true), len(true) + len(plan.unperturbed)
        self._table = table.transpose([order.index(name) for name in self._names])

    def answers(self, queries: Sequence[Query]) -> list[Estimate | None]:
        """Return one estimate for each question, in their order."""
        answers: dict[int, Estimate | None] = {}
        conjunctions: dict[int, list[CodeSet]] = {}
        for place, query in enumerate(queries):
            found = self._code_sets.of(query, self._names)
            if found is None:
                answers[place] = self._by_cells(query)
            else:
                conjunctions[place] = found
        answers |= self._by_boxes(conjunctions)
        return [answers[place] for place in range(len(queries))]

    def by_group(self) -> Answers:
        """Yield every group of the question of the plan, which is a count with GROUP BY."""
        shown, holds = self._cells(self._plan.query)
        plan = self._plan
        lengths = shown.shape[: len(plan.unperturbed)]
        cells = prod(shown.shape[len(lengths) :])
        lines = np.flatnonzero(shown)
        states, cell = np.divmod(lines, cells)
        used, combination = np.unique(states, return_inverse=True)
        counts = sums_of_ones(shown.reshape(-1)[lines].astype(np.float64) * self._unit)
        counted = GroupedCounts(
            plan.schema,
            self._combinations(np.unravel_index(used, lengths) if lengths else ()),
            combination.reshape(-1),
            cell,
            *counts,
            members=self._members,
        )
        return estimates(plan, counted, holds, None)

    def _by_boxes(self, boxes: Mapping[int, list[CodeSet]]) -> dict[int, Estimate | None]:
        """Return the answers to conjunctions of conditions on one attribute each."""
        step = max(_LINES // prod(self._table.shape[self._first :]), 1)
        answers: dict[int, Estimate | None] = {}
        places = list(boxes)
        for start in range(0, len(places), step):
            some = places[start : start + step]
            shown = self._sums.of([boxes[place][: self._first] for place in some])
            for axis in range(self._first, self._last):
                holds = np.stack([boxes[place][axis].holds for place in some])
                shape = [1] * shown.ndim
                shape[0], shape[1 + axis - self._first] = holds.shape
                shown = shown * holds.reshape(shape)
            perturbed = [tuple(boxes[place][self._last :]) for place in some]
            conditions = {each: number for number, each in enumerate(dict.fromkeys(perturbed))}
            numbers = np.array([conditions[each] for each in perturbed])
            found = self._weighted(shown, self._holds(list(conditions)), numbers)
            answers |= {place: found.ample_estimate(group) for group, place in enumerate(some)}
        return answers

    def _by_cells(self, query: Query) -> Estimate | None:
        """Return the answer to a question with a clause on several attributes, or many boxes."""
        shown, holds = self._cells(query)
        return self._weighted(shown[None], holds, np.zeros(1, np.intp)).ample_estimate(0)

    def _cells(self, query: Query) -> tuple[Integers, Any]:
        """Return the shown numbers by unperturbed and perturbed attributes of the rows that satisfy
        the conditions on true values, and whether a row counts by its perturbed values.
        """
        table, holds = self._table, np.ones((1,) * (len(self._names) - self._last), bool)
        chosen: dict[int, Any] = {}  # the codes of axes that are summed up
        for clause in query.clauses:
            axis = self._names.index(clause.attributes[0]) if clause.attributes else self._first
            if set(clause.attributes) <= set(self._plan.axes):
                holds = holds & self._clauses.along(clause, self._names[self._last :])
            elif len(clause.attributes) == 1 and axis < self._first:
                codes = self._clauses.along(clause, clause.attributes)
                chosen[axis] = codes & chosen.get(axis, True)
            else:
                table = table * self._clauses.along(clause, self._names)
        for axis, codes in chosen.items():
            table = table.compress(codes, axis)
        shown = table.sum(axis=tuple(range(self._first)))
        holds = np.broadcast_to(holds, table.shape[self._last :]).astype(np.float64)
        return shown, self._plan.inverse().by_state(holds[None])

    @cached_property
    def _sums(self) -> PrefixSums:
        return PrefixSums(self._table, self._first)

    def _holds(self, conditions: Sequence[Sequence[CodeSet]]) -> Any:
        """Return whether a row counts, for every value of the perturbed attributes: the states of
        one condition after those of the other.
        """
        holds: Any = np.ones(len(conditions))
        for axis, length in enumerate(self._table.shape[self._last :]):
            truth = np.stack([condition[axis].holds for condition in conditions])
            holds = holds[..., None] * truth.reshape(len(truth), *[1] * axis, length)
        return np.repeat(holds, self._plan.inverse().states, axis=0)

    def _weighted(self, shown: Integers, holds: Any, condition: Indices) -> Sums:
        """Return sums over the lines of a table that are not empty.

        The axes of `shown` are the questions, the unperturbed and the perturbed attributes. `holds`
        has the states of one condition on perturbed values after those of the other; `condition` is
        the number of that of each question.
        """
        plan, lengths = self._plan, shown.shape[1 : 1 + len(self._plan.unperturbed)]
        states, cells = prod(lengths), prod(shown.shape[1 + len(lengths) :])
        combinations = self._combinations(np.indices(lengths).reshape(len(lengths), states))
        flat = shown.reshape(-1)
        lines = np.flatnonzero(flat)
        rest, cell = np.divmod(lines, cells)
        group, combination = np.divmod(rest, states)
        counts = sums_of_ones(flat[lines].astype(np.float64) * self._unit)
        counted = GroupedCounts(
            plan.schema, combinations, combination, cell, *counts, members=self._members
        )
        inverse = plan.inverse()
        state = condition[group] * inverse.states + plan.states(counted)
        inverse = inverse.repeated(len(holds) // inverse.states)
        index = GroupIndex(group, [{}] * len(shown))
        return Sums(plan, counted, index, holds, None, (inverse, state))

    def _combinations(self, codes: Iterable[Any]) -> pa.Table:
        """Return the values of the unperturbed attributes, given by a column of codes of each."""
        unperturbed = [self._plan.schema[name] for name in self._plan.unperturbed]
        pairs = zip(unperturbed, codes, strict=True)
        return pa.table({a.name: a.decode(code.astype(a.code_type)) for a, code in pairs})
