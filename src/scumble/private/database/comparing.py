"""Plain comparisons: the boxes of columns that are compared with literals, found by no engine.

They are what nearly all questions consist of, and an engine takes ten times as long for them as
everything else that an answer needs.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np

from scumble.model.query import Expression
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Category, Dates, Domain, IntegerRange
from scumble.private.database.space import Boxes, Space

_LITERAL = r"(?:(?:- )?[0-9]+(?:\.[0-9]+)?|(?:DATE )?'[^']*')"
_CLAUSE = re.compile(
    rf'"(?P<name>[^"]+)" (?:(?P<operator>=|<>|!=|<=?|>=?) (?P<value>{_LITERAL})'
    rf"|(?P<is>IS )?(?P<not>NOT )?(?:BETWEEN (?P<low>{_LITERAL}) AND (?P<high>{_LITERAL})"
    rf"|IN \((?P<list>{_LITERAL}(?:, {_LITERAL})*+)\)|(?P<null>NULL)))"
)
_LITERALS = re.compile(_LITERAL)
_WHOLE = re.compile(r"(?:- )?[0-9]{1,18}")
_DAY = re.compile(r"(?:DATE )?'([0-9]{4}-[0-9]{2}-[0-9]{2})'")
_EQUAL = {"<>": "=", "!=": "="}  # what is negated
_DIGITS = 15  # of a number that a float holds exactly, or nearest to

Interval = tuple[int, int]


def is_plain(clause: Expression) -> bool:
    """Whether a clause is spelled as a plain comparison of one column."""
    return _CLAUSE.fullmatch(clause.sql) is not None


def compared(clauses: Iterable[Expression], space: Space, most: int) -> Boxes | None:
    """The disjoint boxes of a conjunction, none if no point satisfies it; None if a clause is
    anything else than a plain comparison, or there are more boxes than `most`: that is left to the
    engine.
    """
    axes: dict[int, list[Interval]] = {}
    for clause in clauses:
        found = _CLAUSE.fullmatch(clause.sql)
        if found is None or found["name"] not in space.names:
            return None
        axis = space.names.index(found["name"])
        intervals = _intervals(found, space.attributes[axis], space.sizes[axis])
        if intervals is None:
            return None
        axes[axis] = _common(axes[axis], intervals) if axis in axes else intervals
    boxes = space.whole[np.newaxis].copy()
    for axis, intervals in axes.items():
        if len(boxes) * len(intervals) > most:
            return None
        boxes = np.repeat(boxes, len(intervals), axis=0)
        if len(boxes):
            boxes[:, axis] = intervals * (len(boxes) // len(intervals))
    return boxes


def _intervals(found: re.Match[str], attribute: Attribute, size: int) -> list[Interval] | None:
    """The codes that satisfy a comparison. A missing value, whose code is the last, satisfies
    none, negated or not.
    """
    last = size - 1 - attribute.missing
    if (found["is"] is None) != (found["null"] is None):
        return None
    if found["null"]:
        missing = [(last + 1, last + 1)] * attribute.missing
        return [(0, last)] if found["not"] else missing
    spans = _spans(found, attribute.domain)
    if spans is None:
        return None
    merged = _merged((max(low, 0), min(high, last)) for low, high in spans)
    return _rest(merged, last) if found["not"] or found["operator"] in _EQUAL else merged


def _spans(found: re.Match[str], domain: Domain | None) -> list[Interval] | None:
    """The codes of values that are equal to, or in order with, the literals; maybe empty ones."""
    if found["value"]:
        texts, operator = [found["value"]], _EQUAL.get(found["operator"], found["operator"])
    elif found["low"]:
        texts, operator = [found["low"], found["high"]], "BETWEEN"
    else:
        texts, operator = _LITERALS.findall(found["list"]), "="
    if isinstance(domain, Category) and isinstance(domain.values[0], str):
        return _places(texts, domain) if operator == "=" else None
    values = [_read(text, domain) for text in texts]
    if domain is None or None in values:
        return None
    known = _ordered(domain)
    if operator == "BETWEEN":
        low, high = values
        spans = [(bisect_left(known, low), bisect_right(known, high) - 1)]
    else:
        spans = [_span(known, operator, value) for value in values]
    if not isinstance(domain, Category):
        return spans
    codes = _codes(domain)  # whole numbers that may be listed in any order
    return [(codes[value],) * 2 for low, high in spans for value in known[max(low, 0) : high + 1]]


def _span(known: Sequence[Any], operator: str, value: Any) -> Interval:
    below, after = bisect_left(known, value), bisect_right(known, value)
    if operator == "=":
        return below, after - 1
    if operator[0] == "<":
        return 0, (below if operator == "<" else after) - 1
    return (after if operator == ">" else below), len(known) - 1


def _places(texts: Sequence[str], category: Category) -> list[Interval] | None:
    """The codes of words, none for a word that is not in the list; None for anything but words."""
    if any(text[0] != "'" for text in texts):
        return None
    known = _codes(category)
    return [(known[text[1:-1]],) * 2 for text in texts if text[1:-1] in known]


@lru_cache(maxsize=256)
def _codes(category: Category) -> dict[object, int]:
    return {value: code for code, value in enumerate(category.values)}


@lru_cache(maxsize=256)
def _ordered(domain: Domain) -> Sequence[Any]:
    """The published values in their order, which is that of the codes but for categories."""
    if isinstance(domain, IntegerRange):
        return range(domain.low, domain.high + 1)
    return sorted(domain.labels().to_pylist())


def _read(text: str, domain: Domain | None) -> int | float | date | None:
    """A literal as a value that can be compared with those of a domain; None if the engine knows
    better what is meant.
    """
    if isinstance(domain, IntegerRange | Category):
        return int(text.replace(" ", "")) if _WHOLE.fullmatch(text) else None
    if isinstance(domain, Bins):
        plain = "'" not in text and sum(map(str.isdigit, text)) <= _DIGITS
        return float(text.replace(" ", "")) if plain else None
    day = _DAY.fullmatch(text) if isinstance(domain, Dates) else None
    try:
        return None if day is None else date.fromisoformat(day[1])
    except ValueError:
        return None


def _merged(spans: Iterable[Interval]) -> list[Interval]:
    """Intervals in order, those that overlap or touch as one, without empty ones."""
    found: list[Interval] = []
    for low, high in sorted(span for span in spans if span[0] <= span[1]):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def _rest(intervals: Sequence[Interval], last: int) -> list[Interval]:
    """What lies between intervals, up to a last code."""
    starts = [0, *(high + 1 for _, high in intervals)]
    stops = [*(low - 1 for low, _ in intervals), last]
    return [(low, high) for low, high in zip(starts, stops, strict=True) if low <= high]


def _common(ones: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """What is in both of two lists of intervals, all in order."""
    found: list[Interval] = []
    one = other = 0
    while one < len(ones) and other < len(others):
        (low, high), (start, stop) = ones[one], others[other]
        if max(low, start) <= min(high, stop):
            found.append((max(low, start), min(high, stop)))
        one, other = (one + 1, other) if high < stop else (one, other + 1)
    return found
