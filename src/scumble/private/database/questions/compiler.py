"""Compiler: a COUNT, SUM or AVG, as the parser or the plan of a SELECT has it, to a `Question`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from scumble.model.cache import Cache
from scumble.model.errors import QueryError
from scumble.model.query import Comparison, Expression, ParsedQuestion, Query
from scumble.model.schema.schema import Schema
from scumble.private.database.questions.amounts import MOST_CELLS, Amounts, amounts_of
from scumble.private.database.questions.comparisons import plain_boxes
from scumble.private.database.questions.question import (
    MOST_BOXES,
    Group,
    Question,
    groups_by_number,
    groups_of,
)
from scumble.private.database.space import Boxes, Space
from scumble.private.database.state import COUNT

if TYPE_CHECKING:
    from scumble.public.estimation.selecting.selection import CountsBy
    from scumble.public.sandbox import Sandbox

FEW_BOXES = 64  # that take little time


@dataclass(frozen=True)
class Compiler:
    """Compiles questions about a space. `engine` returns the sandbox, which it opens if needed.

    `sums` are the amounts of expressions without side tables, by SQL.
    """

    schema: Schema
    space: Space
    engine: Callable[[], Sandbox]
    sums: Cache[str, Amounts]

    def question(
        self, query: Query, comparisons: Sequence[Comparison | None] | None = None
    ) -> Question:
        """Return the boxes and amounts of a question; raises `QueryError` if it has none.

        `comparisons` are the clauses as comparisons with literals, where they are known: they need
        no engine.
        """
        self._refuse_cut_bins(query)
        boxes, joint = self._boxes(query, comparisons)
        groups = tuple(groups_of(query, boxes, self.space))
        amounts: dict[str, Amounts] = {}
        if query.aggregate == "count" and not joint:
            return Question(query, groups)
        count = COUNT
        if joint:
            ones = amounts_of(None, joint, self.space, self.engine())
            count = ones.name(self.space)
            if not ones.largest:  # no point satisfies the conditions
                return Question(query, _emptied(query, groups))
        if query.aggregate != "count":
            kind, found = self._amounts(query, joint)
            amounts[kind] = found
        if joint and query.aggregate != "sum":
            amounts[count] = ones
        kinds = (*amounts, COUNT) if query.aggregate == "mean" and not joint else tuple(amounts)
        if query.aggregate == "mean" and len(kinds) == 1:  # the argument is 1
            kinds = (count, count)
        return Question(query, groups, kinds, amounts, joint)

    def plain_count(self, parsed: ParsedQuestion) -> Question | None:
        """Return a count of whole values in few boxes, as `question` does; None for others."""
        query = parsed.query
        coarse = any(
            self.schema[name].coarse for part in query.expressions for name in part.attributes
        )
        if query.aggregate != "count" or query.groups or coarse:
            return None
        boxes = plain_boxes(parsed.comparisons, self.space, FEW_BOXES)
        return (
            None if boxes is None else Question(query, tuple(groups_of(query, boxes, self.space)))
        )

    def counts_by(self, counts: CountsBy) -> Question:
        """Return the counts of the rows of a question by the values of a number.

        Where a condition compares columns, they are sums of 0 and 1, with the noise of counts.
        """
        found = self.question(counts.query)
        [name] = counts.by.attributes
        [numbers] = self.engine().evaluate([counts.by], [name])
        axis = self.space.names.index(name)
        groups = tuple(groups_by_number(found.groups, axis, np.asarray(numbers, np.float64)))
        return replace(found, groups=groups, counted_by=True)

    def _refuse_cut_bins(self, query: Query) -> None:
        """Raise `QueryError` if the answer depends on where in a bin or period rows are.

        A database counts whole bins, and no interval of the noise would hold the rest.
        """
        used = {name for part in query.expressions for name in part.attributes}
        coarse = [name for name in self.schema.names if name in used and self.schema[name].coarse]
        if not coarse:
            return
        from scumble.public.estimation.cut_bins import cut_query

        engine = self.engine()
        engine.check(query)
        if cut_query(query, engine) is not None:
            names = " and ".join(f"'{name}'" for name in coarse)
            raise QueryError(
                f"The question needs to know where in a bin or period of {names} people are, and "
                "the database has whole bins only. Compare with the edges of bins (first days of "
                "periods), by >= and <, or group by the column."
            )

    def _boxes(
        self, query: Query, comparisons: Sequence[Comparison | None] | None
    ) -> tuple[Boxes, tuple[Expression, ...]]:
        """Return the boxes of a condition, and the clauses that are no boxes."""
        if comparisons is not None:
            found = plain_boxes(comparisons, self.space, MOST_BOXES)
            if found is not None:
                return found, ()
        from scumble.private.database.questions.conditions import boxes_of

        engine = self.engine()
        engine.check(query)
        plain: list[Expression] = []
        joint: list[Expression] = []
        for clause in query.clauses:
            if self._is_boxes(clause):
                plain.append(clause)
            elif not self._always(clause, engine):
                joint.append(clause)
        return boxes_of(plain, self.space, engine, MOST_BOXES), tuple(joint)

    def _is_boxes(self, clause: Expression) -> bool:
        """Whether each part of a clause names one attribute."""
        from scumble.public.sql.normal_form import normal_form

        try:
            normal_form(clause)
        except QueryError:
            cells = prod(self.schema[name].size for name in clause.attributes)
            if cells > MOST_CELLS:
                raise
            return False
        return True

    def _always(self, clause: Expression, engine: Sandbox) -> bool:
        """Whether a clause holds for all combinations of values."""
        [holds] = engine.holds([clause], list(clause.attributes))
        return bool(holds.all())

    def _amounts(self, query: Query, joint: Sequence[Expression]) -> tuple[str, Amounts]:
        """Return the name of a sum, and its amounts.

        A sum of whole numbers over one column has its SQL as its name.
        """
        argument = query.argument
        assert argument is not None  # noqa: S101  (a sum has one)
        plain = len(argument.attributes) == 1 and not joint and "SELECT" not in argument.sql.upper()

        def make() -> Amounts:
            engine = self.engine()
            engine.check(query)
            return amounts_of(argument, joint, self.space, engine)

        found = self.sums.get_or_make(argument.sql, 1, make) if plain else make()
        if not found.largest:  # its noise would have the scale 0
            where = " that satisfies the condition" if joint else ""
            raise QueryError(f"{argument.sql} is 0 for every value{where}.")
        if plain and found.scale == 1:
            return f"sum {argument.sql}", found
        return found.name(self.space), found


def _emptied(query: Query, groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return the groups of a question whose condition no point satisfies."""
    if query.groups:
        return ()
    return tuple(Group(group.key, group.boxes[:0]) for group in groups)
