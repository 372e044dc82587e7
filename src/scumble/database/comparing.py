"""Plain comparisons: the box of columns that are compared with numbers or a word, by no engine.

They are what nearly all questions consist of, and an engine takes ten times as long for them as
everything else that an answer needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from scumble.attribute import Attribute
from scumble.database.space import Boxes, Space
from scumble.kinds import Category, IntegerRange
from scumble.query import Expression

_NUMBER = r"(?:- )?[0-9]{1,18}"
_WITH_NUMBERS = re.compile(
    f"(?P<operator>=|<=?|>=?) (?P<value>{_NUMBER})"
    f"|BETWEEN (?P<low>{_NUMBER}) AND (?P<high>{_NUMBER})"
)
_WITH_WORD = re.compile(r"= '(?P<word>[^']*)'")
_NAME = re.compile(r'"(?P<name>[^"]+)" ')


def compared(clauses: Iterable[Expression], space: Space) -> Boxes | None:
    """The box of a conjunction, or no box if no point satisfies it; None if a clause is anything
    else than a plain comparison, which is then left to the engine.
    """
    box = space.whole.copy()
    for clause in clauses:
        start = _NAME.match(clause.sql)
        if start is None or start["name"] not in space.names:
            return None
        axis = space.names.index(start["name"])
        found = _interval(clause.sql[start.end() :], space.attributes[axis])
        if found is None:
            return None
        low, high = found
        box[axis] = max(box[axis, 0], low), min(box[axis, 1], high)
    return box[np.newaxis] if (box[:, 0] <= box[:, 1]).all() else box[np.newaxis][:0]


def _interval(sql: str, attribute: Attribute) -> tuple[int, int] | None:
    """The codes that satisfy a comparison; the code of a missing value, the last, is none."""
    domain = attribute.domain
    if isinstance(domain, Category):
        found = _WITH_WORD.fullmatch(sql)
        if found is None or found["word"] not in domain.values:
            return None
        code = domain.values.index(found["word"])
        return code, code
    found = _WITH_NUMBERS.fullmatch(sql)
    if found is None or not isinstance(domain, IntegerRange):
        return None
    low, high = _limits(found, domain)
    return max(low, domain.low) - domain.low, min(high, domain.high) - domain.low


def _limits(found: re.Match[str], domain: IntegerRange) -> tuple[int, int]:
    if found["operator"] is None:
        return _number(found["low"]), _number(found["high"])
    value, operator = _number(found["value"]), found["operator"]
    if operator == "=":
        return value, value
    if operator[0] == "<":
        return domain.low, value - (operator == "<")
    return value + (operator == ">"), domain.high


def _number(text: str) -> int:
    return int(text.replace(" ", ""))
