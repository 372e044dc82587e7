"""Many questions to published rows: plain counts among them share few passes over the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from scumble.model.evidence.channels import BagChannel
from scumble.model.evidence.evidence import Records
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate
from scumble.public.estimation.clauses import Clauses
from scumble.public.estimation.conjunctions import alike
from scumble.public.estimation.rows import answer as single
from scumble.public.estimation.rows.bag_cubes import BagCubes
from scumble.public.estimation.rows.plan import Plan
from scumble.public.estimation.rows.row_cubes import RowCubes
from scumble.public.estimation.rows.tabled import Tabled
from scumble.public.estimation.tables import Cubes, in_rounds
from scumble.public.sandbox import Engine

Answer = list[tuple[tuple[Any, ...], Estimate]]

answer = single.answer


def answer_many(
    evidence: Records, schema: Schema, queries: Sequence[Query], engine: Engine
) -> list[Answer]:
    """Each question's groups with their estimates: the same numbers as asking one by one."""
    found: dict[int, Estimate] = {}
    batches = _batches(evidence, schema, queries)
    bags = {batch.bag for batch in batches}
    for bag in bags:
        found |= _tabled(bag, [batch for batch in batches if batch.bag == bag], queries, engine)
    answers: list[Answer] = []
    for place, query in enumerate(queries):
        if place in found:
            answers.append([((), found[place])])
        else:
            engine.check(query)
            answers.append(list(single.answer(evidence, schema, query, engine)))
    return answers


@dataclass(frozen=True)
class _Batch:
    """Questions that have one plan, by their places."""

    plan: Plan
    places: list[int]

    @property
    def bag(self) -> BagChannel | None:
        """The channel that shows several values of a row, if the questions meet it."""
        return self.plan.whole if isinstance(self.plan.whole, BagChannel) else None

    @property
    def names(self) -> frozenset[str]:
        """The attributes by which rows must be counted."""
        return frozenset((*self.plan.query.attributes, *self.plan.kept, *self.plan.axes))


def _batches(evidence: Records, schema: Schema, queries: Sequence[Query]) -> list[_Batch]:
    """Counts whose conditions on true and on perturbed attributes are apart."""
    found = (
        _Batch(Plan(evidence, schema, queries[places[0]]), places)
        for places in alike(queries).values()
    )
    return [batch for batch in found if batch.plan.shared]


def _tabled(
    bag: BagChannel | None, batches: Sequence[_Batch], queries: Sequence[Query], engine: Engine
) -> dict[int, Estimate]:
    """The answers that are worth a table, by place."""
    schema = batches[0].plan.schema
    file = cast(Path, engine.view)  # the engine of a release has one
    rows = BagCubes(file, schema, bag) if bag else RowCubes(file, schema)
    names: dict[int, frozenset[str]] = {}
    for batch in batches:
        names |= dict.fromkeys(batch.places, batch.names)
    found: dict[int, Estimate] = {}
    for sets, cubes, clauses in in_rounds(schema, queries, names, engine, rows.count):
        for batch in (each for each in batches if each.names in sets):
            found.update(_answers(batch, queries, cubes, clauses, bag.law.size if bag else 1))
    return found


def _answers(
    batch: _Batch, queries: Sequence[Query], cubes: Cubes, clauses: Clauses, members: int
) -> Iterator[tuple[int, Estimate]]:
    table = Tabled(batch.plan, cubes.of(batch.names), clauses, members)
    estimates = table.answers([queries[place] for place in batch.places])
    return zip(batch.places, estimates, strict=True)
