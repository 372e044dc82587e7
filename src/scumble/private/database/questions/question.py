"""Questions in terms of boxes: the boxes of each group, and what is added up over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import floor, log10, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.attribute import Attribute
from scumble.private.database.questions.amounts import Summand
from scumble.private.database.questions.decomposition import rejoin, rejoin_over, restrict
from scumble.private.database.space import Box, Boxes, Space
from scumble.private.database.state import COUNT

MOST_GROUPS = MOST_BOXES = 10_000
TOO_MANY_BOXES = (
    f"The groups take more than {MOST_BOXES} separate boxes. Ask for ranges that are not "
    "interrupted, or for fewer groups."
)
_FEW_VALUES, _FEW_GROUPS = 1000, 100  # that a coarser expression should have
_OBJECT = 1000  # bytes of the objects of a question, or of a group, beside their arrays
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """The values of the grouping attributes, and the boxes of the group.

    `parts` has the boxes of each number that the question needs: those of the group, or the parts
    of them where rows add something to a sum. `asked` has them before values that add nothing were
    left out, unless all are those of the group.
    """

    key: tuple[Any, ...]
    boxes: Boxes
    parts: tuple[Boxes, ...]
    asked: tuple[Boxes, ...] = ()


@dataclass(frozen=True)
class Question:
    """One COUNT, SUM or AVG in terms of boxes.

    `summands` are the numbers that are needed: a count, a sum, or a sum and a count for an average.
    `joint` are conditions that are no boxes, because they name several attributes: they are in the
    summands. With `strict` the boxes are not relaxed but refused, as they are where other numbers
    are computed from these (`exactly`). With `by_number` groups are in parts by the values of a
    number, the last of their keys, and what is computed is about one group.
    """

    query: Query
    groups: tuple[Group, ...]
    summands: tuple[Summand, ...] = (Summand(),)
    joint: tuple[Expression, ...] = ()
    exactly: bool = False
    by_number: bool = False

    @property
    def nbytes(self) -> int:
        """About the memory that it takes."""
        boxes = sum(_OBJECT + group.boxes.nbytes for group in self.groups)
        amounts = [each.amounts for each in self.summands if each.amounts is not None]
        return _OBJECT + boxes + sum(each.values.nbytes for each in amounts)

    @property
    def strict(self) -> bool:
        # The sum and the count of an average must be about the same rows.
        return [each.kind for each in self.summands] != [COUNT] or self.exactly

    def numbers(self, group: Group) -> list[tuple[Summand, Box]]:
        """Return the numbers of a group that are needed, each for one box."""
        parts = zip(self.summands, group.parts, strict=True)
        return [(summand, box) for summand, boxes in parts for box in boxes]


def with_parts(
    groups: Iterable[Group],
    summands: Sequence[Summand],
    boxes: Sequence[Sequence[Boxes]] | None = None,
) -> tuple[Group, ...] | None:
    """Return the groups with the boxes of each summand; None if these are too many.

    `boxes` are those of each summand and group, unless all are the boxes of the group.
    """
    found, counts = [], [0] * len(summands)
    for place, group in enumerate(groups):
        own = [group.boxes] * len(summands) if boxes is None else [each[place] for each in boxes]
        asked = tuple(_within(*each) for each in zip(own, summands, strict=True))
        parts = tuple(_part(*each) for each in zip(asked, summands, strict=True))
        counts = [before + len(part) for before, part in zip(counts, parts, strict=True)]
        if max(counts) > MOST_BOXES:
            return None
        found.append(replace(group, parts=parts, asked=asked))
    return tuple(found)


def _within(boxes: Boxes, summand: Summand) -> Boxes:
    if not summand.within:
        return boxes
    for axis, inside in summand.within.items():
        boxes = restrict(boxes, axis, inside)
        if len(boxes) > MOST_BOXES:
            return boxes
    return rejoin(boxes)


def _part(boxes: Boxes, summand: Summand) -> Boxes:
    if summand.amounts is None or len(boxes) > MOST_BOXES:
        return boxes
    return rejoin_over(boxes, summand.amounts.codes)


def groups_of(query: Query, boxes: Boxes, space: Space) -> Iterator[Group]:
    """Yield each combination of grouping values in the boxes, with its part of the boxes."""
    axes = [space.names.index(name) for name in query.groups]
    codes = [_codes(boxes[:, axis]) for axis in axes]
    if prod(map(len, codes)) > MOST_GROUPS:
        advice = "or group by fewer columns"
        finest = max(zip(map(len, codes), axes, strict=True))[1]
        if (number := space.attributes[finest].number) is not None:
            name = quoted(space.attributes[finest].name)
            ends, whole = (float(number.low), float(number.high)), number.step == 1
            advice = f"or group by {coarser(name, *ends, _FEW_GROUPS, whole=whole)}"
        raise QueryError(
            f"GROUP BY {', '.join(query.groups)} would make more than {MOST_GROUPS} groups. Ask "
            f"for fewer by WHERE, {advice}."
        )
    labels = [_labels(space.attributes[axis], of) for axis, of in zip(axes, codes, strict=True)]
    count = 0
    for values, key in zip(product(*codes), product(*labels), strict=True):
        part = boxes
        for axis, code in zip(axes, values, strict=True):
            part = part[(part[:, axis, 0] <= code) & (code <= part[:, axis, 1])].copy()
            part[:, axis] = code
        part = rejoin(part) if axes else part
        count += len(part)
        if count > MOST_BOXES:
            raise QueryError(TOO_MANY_BOXES)
        if len(part) or not axes:
            yield Group(key, part, (part,))


def coarser(sql: str, low: float, high: float, most: int, *, whole: bool) -> str:
    """Return an expression of a number from `low` to `high` that has about `most` values, in units
    of 1, 2 or 5 times a power of ten.

    >>> coarser("income", 0, 500_000, 1000, whole=True)
    'income // 500'
    """
    power = floor(log10((high - low) / most))
    unit = next(
        Fraction(10) ** p * n
        for p in (power, power + 1)
        for n in (1, 2, 5)
        if Fraction(10) ** p * n * most >= high - low
    )
    written = f"{sql}" if sql.strip('"').isidentifier() else f"({sql})"
    if whole and unit >= 1:
        return f"{written} // {unit}"
    return f"floor({written} / {float(unit):g})"


def groups_by_number(
    groups: Sequence[Group], axis: int, numbers: npt.NDArray[Any], sql: str
) -> Iterator[Group]:
    """Yield the parts of groups in which a number, given for each code of an axis, is the same."""
    levels, of_code = np.unique(numbers, return_inverse=True)
    if len(levels) > MOST_GROUPS:
        whole = bool(np.all(levels == np.floor(levels)))
        units = coarser(sql, float(levels[0]), float(levels[-1]), _FEW_VALUES, whole=whole)
        raise QueryError(
            f"The quantile is of more than {MOST_GROUPS} different values. Ask for that of {units}."
        )
    count = 0
    for group in groups:
        for place, level in enumerate(levels.tolist()):
            boxes = rejoin(restrict(group.boxes, axis, of_code == place))
            count += len(boxes)
            if count > MOST_BOXES:
                raise QueryError(TOO_MANY_BOXES)
            if len(boxes):
                yield Group((*group.key, level), boxes, (boxes,))


def _codes(intervals: Integers) -> list[int]:
    """The codes in some intervals, in order; at most `MOST_GROUPS` + 1 of each interval."""
    few = [range(low, min(high, low + MOST_GROUPS) + 1) for low, high in intervals.tolist()]
    return sorted({code for codes in few for code in codes})


def _labels(attribute: Attribute, codes: list[int]) -> list[Any]:
    found: list[Any] = attribute.decode(np.array(codes, attribute.code_type)).to_pylist()
    return found
