"""Compiler: a COUNT, SUM or AVG, as the parser or the plan of a SELECT has it, to a `Question`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from scumble.model.cache import Cache
from scumble.model.errors import QueryError
from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.private.database.questions.amounts import (
    MOST_CELLS,
    Evaluated,
    Summand,
    evaluate,
)
from scumble.private.database.questions.conditions import boxes_of, plain_boxes
from scumble.private.database.questions.question import (
    MOST_BOXES,
    TOO_MANY_BOXES,
    Group,
    Question,
    groups_by_number,
    groups_of,
    with_parts,
)
from scumble.private.database.space import Boxes, Space
from scumble.public.estimation.cut_bins import cut_query
from scumble.public.sql.conditions import split
from scumble.public.sql.normal_form import normal_form

if TYPE_CHECKING:
    from scumble.public.estimation.selecting.groups import CountsBy
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
    sums: Cache[str, Evaluated]

    def question(self, query: Query) -> Question:
        """Return the boxes and amounts of a question; raises `QueryError` if it has none.

        Clauses that compare a column with literals need no engine.
        """
        self._refuse_cut_bins(query)
        boxes, joint = self._boxes(query)
        groups = tuple(self._groups(query, boxes))
        if query.aggregate == "count" and not joint:
            return Question(query, groups)
        if joint and not self._ones(joint).values.any():  # no point satisfies the conditions
            return Question(query, _emptied(query, groups))
        if _may_lift(query):
            with suppress(QueryError):  # a number may be infinite where its condition fails
                lifted = self._lifted(query, groups)
                if lifted is not None:
                    return self._compiled(query, groups, lifted)
        rows = _Rows(query, boxes, joint, [group.boxes for group in groups])
        return self._compiled(query, groups, [rows, rows] if query.aggregate == "mean" else [rows])

    def _lifted(self, query: Query, groups: Sequence[Group]) -> list[_Rows] | None:
        """Return the rows of each number of a question, by the conditions inside of the aggregate.

        None if there are no such rows. The groups are those of the question.
        """
        from scumble.private.database.questions.lifting import counted, summed

        numbers = [] if query.aggregate == "count" else [summed(query)]
        numbers += [] if query.aggregate == "sum" else [(counted(query), False)]
        found = []
        for number, zeros in numbers:
            boxes, joint = self._boxes(number)
            known = {group.key: group.boxes for group in self._groups(number, boxes)}
            if not len(boxes) or (joint and not self._ones(joint).values.any()):
                return None
            parts = [known.get(group.key, boxes[:0]) for group in groups]
            found.append(_Rows(number, boxes, joint, parts, zeros))
        return found

    def _compiled(
        self, query: Query, groups: Sequence[Group], numbers: Sequence[_Rows]
    ) -> Question:
        """Return a question, given the rows that each of its numbers is about."""
        for free in (True, False):  # without parts of boxes, if these are too many
            summands = self._summands(query, numbers, restrict=free)
            found = with_parts(groups, summands, [rows.parts for rows in numbers])
            if found is not None:
                return Question(query, found, summands, numbers[-1].joint)
        raise QueryError(TOO_MANY_BOXES)

    def _summands(
        self, query: Query, numbers: Sequence[_Rows], *, restrict: bool
    ) -> tuple[Summand, ...]:
        """Return the numbers that a question needs."""
        if query.aggregate == "sum":
            return (self._amounts(numbers[0]).summand(self.space, restrict=restrict),)
        joint = numbers[-1].joint
        count = self._ones(joint).summand(self.space, restrict=restrict) if joint else Summand()
        if query.aggregate == "count":
            return (count,)
        return (self._averaged(*numbers, restrict=restrict), count)

    def _averaged(self, of_sum: _Rows, of_count: _Rows, *, restrict: bool) -> Summand:
        """Return the sum of an average. That of a·x + b, where x is a column, is the sum of x."""
        argument, amounts = of_sum.query.argument, self._amounts(of_sum)
        assert argument is not None  # noqa: S101  (an average has one)
        if of_sum.zeros or of_sum.joint != of_count.joint:
            found = amounts.summand(self.space, restrict=restrict)
            least, most = found.limits
            return replace(found, limits=(min(least, 0.0), max(most, 0.0)))
        centred = None
        if len(argument.attributes) == 1:
            axis = self.space.names.index(argument.attributes[0])
            counted = np.ones(amounts.values.shape, bool)
            if of_count.joint:
                ones = self._ones(of_count.joint)
                shape = [self.space.sizes[i] if i in ones.axes else 1 for i in amounts.axes]
                counted &= ones.values.reshape(shape) != 0
            last = self.space.sizes[axis] - 1
            ends = of_count.boxes[:, axis, 1]
            if self.space.attributes[axis].missing and not (ends == last).any():
                np.moveaxis(counted, amounts.axes.index(axis), 0)[last] = False
            centred = amounts.centred(self.space, axis, counted)
        if centred is None:
            return amounts.summand(self.space, restrict=restrict)
        column, factor, offset = centred
        found = column.summand(self.space, restrict=restrict)
        least, most = sorted(float(factor) * limit for limit in found.limits)
        return replace(found, factor=found.factor * factor, offset=offset, limits=(least, most))

    def plain_count(self, query: Query) -> Question | None:
        """Return a count of whole values in few boxes, as `question` does; None for others."""
        coarse = any(
            self.schema[name].coarse for part in query.expressions for name in part.attributes
        )
        if query.aggregate != "count" or query.groups or coarse:
            return None
        boxes = plain_boxes(query.clauses, self.space, FEW_BOXES)
        return None if boxes is None else Question(query, tuple(self._groups(query, boxes)))

    def counts_by(self, counts: CountsBy) -> Question:
        """Return the counts of the rows of a question, by the values of a number if that is given.

        Where a condition compares columns, they are sums of 0 and 1, with the noise of counts.
        """
        query = counts.query
        if _may_lift(query):
            from scumble.private.database.questions.lifting import counted

            query = counted(query)
        found = self.question(query)
        if counts.by is None:
            return replace(found, exactly=True)
        [name] = counts.by.attributes
        [numbers] = self.engine().evaluate([counts.by], [name])
        axis = self.space.names.index(name)
        levels = np.asarray(numbers, np.float64)
        groups = groups_by_number(found.groups, axis, levels, counts.by.sql)
        parts = with_parts(groups, found.summands)
        if parts is None:
            raise QueryError(TOO_MANY_BOXES)
        return replace(found, groups=parts, exactly=True, by_number=True)

    def _refuse_cut_bins(self, query: Query) -> None:
        """Raise `QueryError` if the answer depends on where in a bin or period rows are.

        A database counts whole bins, and no interval of the noise would hold the rest.
        """
        used = {name for part in query.expressions for name in part.attributes}
        coarse = [name for name in self.schema.names if name in used and self.schema[name].coarse]
        if not coarse:
            return
        engine = self.engine()
        engine.check(query)
        if cut_query(query, engine) is not None:
            names = " and ".join(f"'{name}'" for name in coarse)
            raise QueryError(
                f"The question needs to know where in a bin or period of {names} people are, and "
                "the database has whole bins only. Compare with the edges of bins (first days of "
                "periods), by >= and <, or group by the column."
            )

    def _groups(self, query: Query, boxes: Boxes) -> Iterator[Group]:
        """Yield the groups of a question, without boxes that no row can be in by the schema."""
        conditions = self.schema.impossible_conditions
        if not conditions:
            yield from groups_of(query, boxes, self.space)
            return
        from scumble.model.schema.impossible import no_row_within  # with the reader of SQL

        named = {name for condition in conditions for name in condition.names}
        axes = {name: self.space.names.index(name) for name in named}
        for group in groups_of(query, boxes, self.space):
            within = [
                {name: (int(box[at, 0]), int(box[at, 1])) for name, at in axes.items()}
                for box in group.boxes
            ]
            kept = group.boxes[[not no_row_within(conditions, each) for each in within]]
            yield replace(group, boxes=kept, parts=(kept,))

    def _boxes(self, query: Query) -> tuple[Boxes, tuple[Expression, ...]]:
        """Return the boxes of a condition, and the clauses that are no boxes."""
        found = plain_boxes(query.clauses, self.space, MOST_BOXES)
        if found is not None:
            return found, ()
        engine = self.engine()
        engine.check(query)
        plain: list[Expression] = []
        joint: list[Expression] = []
        pending = [*reversed(query.clauses)]
        while pending:
            clause = pending.pop()
            if self._is_boxes(clause):
                plain.append(clause)
            elif (junction := split(clause)) is not None and junction.of == "all":
                pending += reversed(junction.parts)  # NOT (a OR b)
            elif not self._always(clause, engine):
                joint.append(clause)
        return boxes_of(plain, self.space, engine, MOST_BOXES), tuple(joint)

    def _is_boxes(self, clause: Expression) -> bool:
        """Whether each part of a clause names one attribute."""
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

    def _ones(self, joint: Sequence[Expression]) -> Evaluated:
        """Return 1 where all of some clauses hold, and 0 elsewhere."""
        return evaluate(None, joint, self.space, self.engine())

    def _amounts(self, rows: _Rows) -> Evaluated:
        """Return what rows add to a sum; raises `QueryError` if they add nothing."""
        query, joint, argument = rows.query, rows.joint, rows.query.argument
        assert argument is not None  # noqa: S101  (a sum has one)
        plain = len(argument.attributes) == 1 and not joint and "SELECT" not in argument.sql.upper()

        def make() -> Evaluated:
            engine = self.engine()
            engine.check(query)
            return evaluate(argument, joint, self.space, engine)

        found = self.sums.get(argument.sql) if plain else None
        if found is None:
            found = make()
            if plain:
                self.sums.put(argument.sql, found, found.values.nbytes)
        if not found.values.any():  # its noise would have the scale 0
            where = " that satisfies the condition" if joint else ""
            raise QueryError(f"{argument.sql} is 0 for every value{where}.")
        return found


@dataclass(frozen=True)
class _Rows:
    """The rows that a number is about: the count or the sum of a question, with its clauses.

    They are those of `boxes`, in each group those of `parts`, where the clauses `joint` hold. With
    `zeros` an average counts others too, which add 0.
    """

    query: Query
    boxes: Boxes
    joint: tuple[Expression, ...]
    parts: Sequence[Boxes]
    zeros: bool = False


def _may_lift(query: Query) -> bool:
    """Whether there may be a condition inside of the aggregate."""
    return any("CASE" in sql or "IF(" in sql for sql in map(_upper, query.expressions))


def _upper(part: Expression) -> str:
    return part.sql.upper()


def _emptied(query: Query, groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return the groups of a question whose condition no point satisfies."""
    if query.groups:
        return ()
    return tuple(Group(group.key, group.boxes[:0], (group.boxes[:0],)) for group in groups)
