"""Comparisons of a column with literals, as codes of its domain, without the engine.

Nearly all questions consist of columns that are compared with literals. Importing, starting and
asking DuckDB would take longer than everything else that an answer to them needs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, cast

from scumble.model.query import ComparedLiteral, Comparison, Operator
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, Domain, IntegerRange
from scumble.model.schema.numbers import Number

_DIGITS = 15  # of a number that a float holds exactly, or is nearest to
_LONGEST_INTEGER = 18  # digits
_DAY = len("2020-02-29")

Interval = tuple[int, int]


def satisfying_codes(comparison: Comparison, attribute: Attribute) -> list[Interval] | None:
    """Return the intervals of codes that satisfy a comparison; None if only the engine can tell.

    A missing value, whose code is the last, satisfies no comparison but IS NULL, negated or not.
    """
    last = attribute.size - 1 - attribute.missing
    if comparison.operator == "IS":
        missing = [(last + 1, last + 1)] * attribute.missing
        return [(0, last)] if comparison.negated else missing
    domain = cast("Domain", attribute.domain)  # it has a size, so it is no list
    intervals = _equal_or_ordered(comparison, domain)
    if intervals is None:
        return None
    merged = _merged((max(low, 0), min(high, last)) for low, high in intervals)
    negated = comparison.negated or comparison.operator == "<>"
    return _complement(merged, last) if negated else merged


def _equal_or_ordered(comparison: Comparison, domain: Domain | None) -> list[Interval] | None:
    """The codes of values that are equal to the literals, or in order with them.

    NOT and <> are not applied. Intervals may be empty, and may overlap.
    """
    literals, operator = comparison.literals, comparison.operator
    equal = operator in _EQUALITIES
    if isinstance(domain, Category) and isinstance(domain.values[0], str):
        return _codes_of_words(literals, domain) if equal else None
    values = [_value(literal, domain) for literal in literals]
    if domain is None or None in values:
        return None
    known = _ordered(domain)
    if operator == "BETWEEN":
        low, high = values
        intervals = [(bisect_left(known, low), bisect_right(known, high) - 1)]
    else:
        intervals = [_interval(known, "=" if equal else operator, value) for value in values]
    if not isinstance(domain, Category):
        return intervals
    codes = _codes(domain)  # whole numbers that may be listed in any order
    return [
        (codes[value],) * 2 for low, high in intervals for value in known[max(low, 0) : high + 1]
    ]


_EQUALITIES = ("=", "<>", "IN")


def _interval(known: Sequence[Any], operator: Operator, value: Any) -> Interval:
    """The places of ordered values that compare with one value as the operator says."""
    below, after = bisect_left(known, value), bisect_right(known, value)
    if operator == "=":
        return below, after - 1
    if operator in ("<", "<="):
        return 0, (below if operator == "<" else after) - 1
    return (after if operator == ">" else below), len(known) - 1


def _codes_of_words(
    literals: Sequence[ComparedLiteral], category: Category
) -> list[Interval] | None:
    """The codes of texts, none for a text outside the domain; None if a literal is no text."""
    if any(literal.kind != "text" or literal.dated for literal in literals):
        return None
    known = _codes(category)
    return [(known[literal.text],) * 2 for literal in literals if literal.text in known]


@lru_cache(maxsize=256)
def _codes(category: Category) -> dict[object, int]:
    return {value: code for code, value in enumerate(category.values)}


@lru_cache(maxsize=256)
def _ordered(domain: Domain) -> Sequence[Any]:
    """The published values in their order, which is that of the codes but for categories."""
    if isinstance(domain, IntegerRange | Number):
        return domain.values
    return sorted(domain.labels().to_pylist())


def _value(literal: ComparedLiteral, domain: Domain | None) -> int | float | date | None:
    """A literal as a value that can be compared with those of a domain; None if only the engine
    knows how it compares.
    """
    text, sign = literal.text, -1 if literal.negative else 1
    if isinstance(domain, IntegerRange | Category):
        plain = _is_integer(literal) and len(text) <= _LONGEST_INTEGER
        return sign * int(text) if plain else None
    if isinstance(domain, Bins | Number):
        return sign * float(text) if _is_decimal(literal) else None
    if isinstance(domain, Boolean):
        return text.lower() == "true" if literal.kind == "truth" else None
    plain = literal.kind == "text" and len(text) == _DAY and text.isascii()
    if not isinstance(domain, Dates) or not plain:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _is_integer(literal: ComparedLiteral) -> bool:
    return literal.kind == "number" and literal.text.isascii() and literal.text.isdigit()


def _is_decimal(literal: ComparedLiteral) -> bool:
    """Whether a number is digits, or digits, a point and digits, and a float holds it."""
    whole, point, fraction = literal.text.partition(".")
    digits = whole + fraction
    complete = bool(whole) and bool(fraction) == bool(point)
    plain = literal.kind == "number" and digits.isascii() and digits.isdigit()
    return plain and complete and len(digits) <= _DIGITS


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Intervals in order, those that overlap or touch as one, without empty ones."""
    found: list[Interval] = []
    for low, high in sorted(each for each in intervals if each[0] <= each[1]):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def _complement(intervals: Sequence[Interval], last: int) -> list[Interval]:
    """The intervals between others, from 0 to `last`."""
    starts = [0, *(high + 1 for _, high in intervals)]
    stops = [*(low - 1 for low, _ in intervals), last]
    return [(low, high) for low, high in zip(starts, stops, strict=True) if low <= high]
