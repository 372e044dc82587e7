"""Questions in terms of boxes: the boxes of each group, and what is added up over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.query import Expression, Query
from scumble.model.schema.attribute import Attribute
from scumble.private.database.questions.amounts import Amounts
from scumble.private.database.questions.decomposition import runs
from scumble.private.database.space import Boxes, Space
from scumble.private.database.state import COUNT

MOST_GROUPS = MOST_BOXES = 10_000
TOO_MANY_BOXES = (
    f"The groups take more than {MOST_BOXES} separate boxes. Ask for ranges that are not "
    "interrupted, or for fewer groups."
)
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """The values of the grouping attributes, and the boxes of the group."""

    key: tuple[Any, ...]
    boxes: Boxes


@dataclass(frozen=True)
class Question:
    """One COUNT, SUM or AVG in terms of boxes.

    `kinds` are the numbers that are needed for each box: a count, a sum, or a sum and a count for
    an average. `amounts` are what rows add, by kind; a count of whole boxes has none. `joint` are
    conditions that are no boxes, because they name several attributes: they are in the amounts.
    With `strict` the boxes are not relaxed but refused.
    """

    query: Query
    groups: tuple[Group, ...]
    kinds: tuple[str, ...] = (COUNT,)
    amounts: Mapping[str, Amounts] = field(default_factory=dict)
    joint: tuple[Expression, ...] = ()
    counted_by: bool = False  # the last value of a key is that of a number

    @property
    def strict(self) -> bool:
        # The sum and the count of an average must be about the same rows.
        return self.kinds != (COUNT,) or self.counted_by


def groups_of(query: Query, boxes: Boxes, space: Space) -> Iterator[Group]:
    """Yield each combination of grouping values in the boxes, with its part of the boxes."""
    axes = [space.names.index(name) for name in query.groups]
    codes = [_codes(boxes[:, axis]) for axis in axes]
    if prod(map(len, codes)) > MOST_GROUPS:
        raise QueryError(
            f"GROUP BY {', '.join(query.groups)} would make more than {MOST_GROUPS} groups. Ask "
            "for fewer by WHERE, or group by fewer columns."
        )
    labels = [_labels(space.attributes[axis], of) for axis, of in zip(axes, codes, strict=True)]
    count = 0
    for values, key in zip(product(*codes), product(*labels), strict=True):
        part = boxes
        for axis, code in zip(axes, values, strict=True):
            part = part[(part[:, axis, 0] <= code) & (code <= part[:, axis, 1])].copy()
            part[:, axis] = code
        count += len(part)
        if count > MOST_BOXES:
            raise QueryError(TOO_MANY_BOXES)
        if len(part) or not axes:
            yield Group(key, part)


def groups_by_number(
    groups: Sequence[Group], axis: int, numbers: npt.NDArray[Any]
) -> Iterator[Group]:
    """Yield the parts of groups in which a number, given for each code of an axis, is the same."""
    levels, of_code = np.unique(numbers, return_inverse=True)
    if len(levels) > MOST_GROUPS:
        raise QueryError(
            f"The quantile is of more than {MOST_GROUPS} different values. Ask for one of a "
            "coarser expression, such as x // 100."
        )
    intervals = [runs(of_code == level) for level in range(len(levels))]
    count = 0
    for group in groups:
        for level, of_level in zip(levels.tolist(), intervals, strict=True):
            parts = []
            for low, high in of_level.tolist():
                there = (group.boxes[:, axis, 0] <= high) & (low <= group.boxes[:, axis, 1])
                part = group.boxes[there].copy()
                part[:, axis, 0] = np.maximum(part[:, axis, 0], low)
                part[:, axis, 1] = np.minimum(part[:, axis, 1], high)
                parts.append(part)
            boxes = np.concatenate(parts)
            count += len(boxes)
            if count > MOST_BOXES:
                raise QueryError(TOO_MANY_BOXES)
            if len(boxes):
                yield Group((*group.key, level), boxes)


def _codes(intervals: Integers) -> list[int]:
    """The codes in some intervals, in order; at most `MOST_GROUPS` + 1 of each interval."""
    few = [range(low, min(high, low + MOST_GROUPS) + 1) for low, high in intervals.tolist()]
    return sorted({code for codes in few for code in codes})


def _labels(attribute: Attribute, codes: list[int]) -> list[Any]:
    found: list[Any] = attribute.decode(np.array(codes, attribute.code_type)).to_pylist()
    return found
