"""Plain counts of published rows, read off a table of cells: many questions of one shape at once.

Where one number of shown values decides, and its law is known, the answers come from sums over
boxes alone. Elsewhere the lines behind every answer are listed, and weighted as for a single one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from scumble.model.query import Query
from scumble.public.estimate import Estimate, Exact
from scumble.public.estimation.clauses import Clauses
from scumble.public.estimation.conjunctions import BoxSums, Integers, Side, Sides
from scumble.public.estimation.rows.answer import stated
from scumble.public.estimation.rows.count_laws import EXACT, Shown
from scumble.public.estimation.rows.count_laws import counted as shown_count
from scumble.public.estimation.rows.plan import Plan
from scumble.public.estimation.rows.sums import Sums
from scumble.public.estimation.rows.tally import Groups, Tally, sums_of_ones
from scumble.public.estimation.tables import Cube

Found = dict[int, Estimate]

_LINES = 1 << 20  # that are listed at a time


class Tabled:
    """Answers to questions that have one plan. The table has the attributes of the plan in the
    order of the schema, and a row is in it `members` times.
    """

    def __init__(self, plan: Plan, table: Cube, clauses: Clauses, members: int) -> None:
        self._plan, self._clauses, self._members = plan, clauses, members
        asked = {*plan.query.attributes, *plan.kept, *plan.axes}
        order = [name for name in plan.schema.names if name in asked]
        true = [name for name in order if name not in (*plan.kept, *plan.axes)]
        self._names = [*true, *plan.kept, *plan.axes]
        self._first, self._last = len(true), len(true) + len(plan.kept)
        self._table = table.transpose([order.index(name) for name in self._names])

    def answers(self, queries: Sequence[Query]) -> list[Estimate]:
        """One estimate for each, in their order."""
        sides = Sides(self._plan.schema, self._clauses)
        boxes = {}
        for place, query in enumerate(queries):
            found = sides.of(query, self._names)
            if found is not None:
                boxes[place] = found
        answers = self._simple(boxes) if not self._plan.kept else {}
        together: dict[tuple[Side, ...], list[int]] = defaultdict(list)
        for place, each in boxes.items():
            if place not in answers:
                together[tuple(each[self._last :])].append(place)
        for places in together.values():
            answers |= self._listed({place: boxes[place] for place in places})
        for place, query in enumerate(queries):
            if place not in answers:
                answers[place] = self._alone(query)
        return [answers[place] for place in range(len(queries))]

    def _simple(self, boxes: Mapping[int, list[Side]]) -> Found:
        """The answers that follow from how many rows there are and how many values they show."""
        split, notes = self._first, self._plan.query.notes
        whole = [Side(np.ones(size, bool)) for size in self._table.shape[split:]]
        sums = BoxSums(self._table, self._table.ndim)
        totals = sums.of([[*sides[:split], *whole] for sides in boxes.values()]) // self._members
        shown = sums.of(list(boxes.values())).tolist()
        known: dict[tuple[Side, ...], Shown | Exact | None] = {}
        answers: Found = {}
        for (place, sides), rows, hits in zip(boxes.items(), totals.tolist(), shown, strict=True):
            condition = tuple(sides[split:])
            if condition not in known:
                known[condition] = self._law(condition)
            kind = known[condition]
            if isinstance(kind, Exact) or not rows:
                answers[place] = Estimate(float(hits // self._members), Exact(), EXACT, notes)
            elif kind is not None:
                answers[place] = shown_count(kind, rows, hits, notes)
        return answers

    def _law(self, condition: Sequence[Side]) -> Shown | Exact | None:
        """How many shown values count, if that law is known, or if all or none do."""
        left = prod(side.size for side in condition)
        if left in (0, prod(len(side.holds) for side in condition)):
            return Exact()
        [kind] = self._plan.lens().shown(self._holds(condition))[0]
        return kind

    def _listed(self, boxes: Mapping[int, list[Side]]) -> Found:
        """The answers to questions with one condition on perturbed values."""
        condition = next(iter(boxes.values()))[self._last :]
        step = max(_LINES // prod(self._table.shape[self._first :]), 1)
        answers: Found = {}
        places = list(boxes)
        for start in range(0, len(places), step):
            some = places[start : start + step]
            shown = self._sums.of([boxes[place][: self._first] for place in some])
            for axis in range(self._first, self._last):
                holds = np.stack([boxes[place][axis].holds for place in some])
                shape = [1] * shown.ndim
                shape[0], shape[1 + axis - self._first] = holds.shape
                shown = shown * holds.reshape(shape)
            found = self._weighted(shown, self._holds(condition))
            answers |= {place: found.estimate(group) for group, place in enumerate(some)}
        return answers

    def _alone(self, query: Query) -> Estimate:
        """The answer to a question with conditions on several attributes: every cell is looked
        at.
        """
        table, holds = self._table, np.ones((1,) * (len(self._names) - self._last), bool)
        for clause in query.clauses:
            if set(clause.attributes) <= set(self._plan.axes):
                holds = holds & self._clauses.along(clause, self._names[self._last :])
            else:
                table = table * self._clauses.along(clause, self._names)
        shown = table.sum(axis=tuple(range(self._first)))
        holds = np.broadcast_to(holds, table.shape[self._last :]).astype(np.float64)
        return self._weighted(shown[None], stated(holds[None], self._plan.lens())).estimate(0)

    @cached_property
    def _sums(self) -> BoxSums:
        return BoxSums(self._table, self._first)

    def _holds(self, condition: Sequence[Side]) -> Any:
        """Whether a row counts, for every value of the perturbed attributes."""
        holds = np.ones(1)
        for side in condition:
            holds = holds[..., None] * side.holds
        return stated(holds, self._plan.lens())

    def _weighted(self, shown: Integers, holds: Any) -> Sums:
        """Lines of a table by question, kept attributes and perturbed values, without the empty
        ones.
        """
        plan, lengths = self._plan, shown.shape[1 : 1 + len(self._plan.kept)]
        states, cells = prod(lengths), prod(shown.shape[1 + len(lengths) :])
        codes = np.indices(lengths).reshape(len(lengths), states)
        kept = [plan.schema[name] for name in plan.kept]
        combinations = pa.table(
            {
                a.name: a.decode(code.astype(a.code_type))
                for a, code in zip(kept, codes, strict=True)
            }
        )
        flat = shown.reshape(-1)
        lines = np.flatnonzero(flat)
        rest, cell = np.divmod(lines, cells)
        group, combination = np.divmod(rest, states)
        counts = sums_of_ones(flat[lines].astype(np.float64))
        tally = Tally(plan.schema, combinations, combination, cell, *counts, members=self._members)
        return Sums(plan, tally, Groups(group, [{}] * len(shown)), holds, None)
