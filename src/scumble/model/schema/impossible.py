"""Combinations of values that no row may have, as the schema writes them: conditions in SQL.

A condition is made of comparisons of columns with literals, joined by AND, OR and NOT. It is true,
false or, at missing values, unknown, as in SQL. Rows where it is true are outside their domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import Token
from sqlglot import TokenType as T
from sqlglot.errors import TokenError

from scumble.model.errors import SchemaError, nearest_name
from scumble.model.query import ComparedLiteral, Comparison
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.comparisons import Interval, satisfying_codes
from scumble.model.schema.domains import Boolean, Category, Dates, IntegerRange
from scumble.model.sql_comparisons import read_comparison, tokenize

Codes = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

MOST_COLUMNS = 3
_DEEPEST = 25  # parentheses and NOT
_MOST_REPRESENTATIVES = 10**6
_YES = ComparedLiteral("truth", "true")
_ORDERS = ("<", "<=", ">", ">=", "BETWEEN")
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Leaf:
    """A comparison as intervals of codes; `unknown` says whether it is unknown at a missing value,
    the last code.
    """

    name: str
    intervals: tuple[Interval, ...]
    last: int
    unknown: bool

    def truth(self, codes: Mapping[str, Codes]) -> tuple[Mask, Mask]:
        """Return where the comparison is true, and where it is false."""
        own = codes[self.name]
        true = np.zeros(own.shape, bool)
        if self.intervals:
            lows, highs = (np.array(each, own.dtype) for each in zip(*self.intervals, strict=True))
            place = np.searchsorted(lows, own, side="right")
            true = (place > 0) & (own <= highs[place - 1])
        return true, ~true & (own != self.last) if self.unknown else ~true

    def leaves(self) -> Iterator[Leaf]:
        """Yield all comparisons."""
        yield self


@dataclass(frozen=True)
class Junction:
    """A conjunction of conditions, or with `any` a disjunction; negated if `negated`."""

    parts: tuple[Leaf | Junction, ...]
    any: bool = False
    negated: bool = False

    def truth(self, codes: Mapping[str, Codes]) -> tuple[Mask, Mask]:
        """Return where the condition is true, and where it is false; elsewhere it is unknown."""
        true, false = self.parts[0].truth(codes)
        for part in self.parts[1:]:
            yes, no = part.truth(codes)
            true, false = (true | yes, false & no) if self.any else (true & yes, false | no)
        return (false, true) if self.negated else (true, false)

    def leaves(self) -> Iterator[Leaf]:
        """Yield all comparisons."""
        for part in self.parts:
            yield from part.leaves()


@dataclass(frozen=True, eq=False)
class ImpossibleCondition:
    """A condition that no row may satisfy: its text, and the attributes that it compares."""

    text: str
    attributes: tuple[Attribute, ...]
    root: Leaf | Junction

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(attribute.name for attribute in self.attributes)

    def holds(self, codes: Mapping[str, Codes]) -> Mask:
        """Return where the condition is true, given codes of its attributes that have one shape or
        can be broadcast to one.
        """
        return self.root.truth(codes)[0]

    def can_hold(self, **fixed: int) -> bool:
        """Return whether the condition is true for some values; `fixed` are codes by name."""
        return bool(self.holds(self._representatives(fixed)).any())

    @cached_property
    def always(self) -> bool:
        """Whether the condition is true for all values."""
        return bool(self.holds(self._representatives({})).all())

    def _representatives(self, fixed: Mapping[str, int]) -> dict[str, Codes]:
        within = {each.name: (0, each.size - 1) for each in self.attributes}
        within |= {name: (code, code) for name, code in fixed.items()}
        return _representatives([self], within)


def no_row_within(
    conditions: Sequence[ImpossibleCondition], within: Mapping[str, Interval]
) -> bool:
    """Return whether the conditions leave no combination of values within intervals of codes, which
    are given for all attributes of the conditions.

    Of conditions with very many combinations of comparisons, each is looked at by itself.
    """
    codes = _representatives(conditions, within)
    if prod(axis.size for axis in codes.values()) > _MOST_REPRESENTATIVES:
        return any(no_row_within([condition], within) for condition in conditions)
    held = (condition.holds(codes) for condition in conditions)
    shape = np.broadcast_shapes(*(axis.shape for axis in codes.values()))
    return bool(reduce(np.logical_or, held, np.zeros(shape, bool)).all())


def _representatives(
    conditions: Sequence[ImpossibleCondition], within: Mapping[str, Interval]
) -> dict[str, Codes]:
    """Return one code of each part of intervals of codes in which no comparison changes, as the
    axes of a product.
    """
    attributes = {one.name: one for each in conditions for one in each.attributes}
    starts = {name: {within[name][0], within[name][1]} for name in attributes}
    for leaf in (leaf for each in conditions for leaf in each.root.leaves()):
        starts[leaf.name] |= {end for low, high in leaf.intervals for end in (low, high + 1)}
    axes = []
    for name, attribute in attributes.items():
        low, high = within[name]
        known = sorted(code for code in starts[name] if low <= code <= high)
        axes.append(np.array(known, attribute.code_type))
    return dict(zip(attributes, np.ix_(*axes), strict=True))


def read_impossible(text: object, attributes: Sequence[Attribute]) -> ImpossibleCondition:
    """Return a condition of a schema, read from SQL; SchemaError with one sentence if it is not
    one of at most three columns that is true for some values only.
    """
    if not isinstance(text, str):
        raise SchemaError(f"'impossible' must be a list of conditions in SQL. Got {text!r} in it.")
    try:
        root = _Reader(text, attributes).read()
    except SchemaError as error:
        raise SchemaError(f"The impossible combination {text!r}: {error}") from None
    named = {leaf.name for leaf in root.leaves()}
    found = ImpossibleCondition(text, tuple(a for a in attributes if a.name in named), root)
    wrong = None
    if len(named) > MOST_COLUMNS:
        wrong = (
            f"it compares {len(named)} columns, and at most {MOST_COLUMNS} are possible. Write "
            "several conditions."
        )
    elif found.always:
        wrong = "it is true for all values, so that no row could exist. Correct or remove it."
    elif not found.can_hold():
        wrong = "no value of the columns satisfies it, so that it says nothing. Correct it."
    if wrong is not None:
        raise SchemaError(f"The impossible combination {text!r}: {wrong}")
    return found


class _Reader:
    """Reads OR, AND, NOT, parentheses and comparisons of a condition."""

    def __init__(self, text: str, attributes: Sequence[Attribute]) -> None:
        self._attributes = {attribute.name.lower(): attribute for attribute in attributes}
        try:
            self._tokens = tokenize(text)
        except TokenError:
            raise SchemaError("a closing mark is missing.") from None
        if not self._tokens:
            raise SchemaError("it is empty. Write a condition such as age < 16.")
        self._at = 0

    def read(self) -> Leaf | Junction:
        """Return the whole condition."""
        found = self._disjunction(0)
        if self._at < len(self._tokens):
            raise self._unread(self._tokens[self._at :])
        return found

    def _disjunction(self, depth: int) -> Leaf | Junction:
        parts = [self._conjunction(depth)]
        while self._take(T.OR):
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else Junction(tuple(parts), any=True)

    def _conjunction(self, depth: int) -> Leaf | Junction:
        parts = [self._term(depth)]
        while self._take(T.AND):
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else Junction(tuple(parts))

    def _term(self, depth: int) -> Leaf | Junction:
        if depth > _DEEPEST:
            raise SchemaError("it is nested too deeply.")
        if self._take(T.NOT):
            return Junction((self._term(depth + 1),), negated=True)
        if self._take(T.L_PAREN):
            found = self._disjunction(depth + 1)
            if not self._take(T.R_PAREN):
                raise SchemaError("a parenthesis is never closed.")
            return found
        start = self._at
        self._skip_comparison()
        if start == self._at:
            raise SchemaError("a comparison such as age < 16 is missing.")
        return self._leaf(self._tokens[start : self._at])

    def _take(self, kind: T) -> bool:
        there = self._at < len(self._tokens) and self._tokens[self._at].token_type is kind
        self._at += there
        return there

    def _skip_comparison(self) -> None:
        """Go to the AND, OR or parenthesis after a comparison."""
        open_now, between = 0, False
        while self._at < len(self._tokens):
            kind = self._tokens[self._at].token_type
            if not open_now and (kind in (T.OR, T.R_PAREN) or (kind is T.AND and not between)):
                return
            between = kind is T.BETWEEN or (between and kind is not T.AND)
            open_now += (kind is T.L_PAREN) - (kind is T.R_PAREN)
            self._at += 1

    def _leaf(self, tokens: Sequence[Token]) -> Leaf:
        if len(tokens) == 1:  # a column of truth values
            attribute = self._attribute(tokens[0])
            if not isinstance(attribute.domain, Boolean):
                raise self._unread(tokens)
            comparison = Comparison(attribute.name, "=", (_YES,))
        else:
            found = read_comparison(tokens)
            if found is None or found.qualifier is not None:
                raise self._unread(tokens)
            attribute, comparison = self._attribute(found.column), found.comparison
        intervals = _codes(comparison, attribute)
        if intervals is None:
            raise self._unread(tokens)
        if attribute.coarse and comparison.operator != "IS" and _cuts(comparison, attribute):
            raise SchemaError(
                f"'{attribute.name}' is known by {_pieces(attribute)} only, and the condition is "
                f"true in a part of one. Write it at the ends of {_pieces(attribute)}."
            )
        unknown = attribute.missing and comparison.operator != "IS"
        return Leaf(attribute.name, tuple(intervals), attribute.size - 1, unknown)

    def _attribute(self, token: Token) -> Attribute:
        found = self._attributes.get(token.text.lower())
        if found is None:
            near = nearest_name(token.text, [each.name for each in self._attributes.values()])
            hint = f" Did you mean '{near}'?" if near else ""
            raise SchemaError(f"the schema has no column '{token.text}'.{hint}")
        if found.role == "identifier" or not found.tabular:
            raise SchemaError(
                f"'{found.name}' is {found.describe()}: only columns with one listed value per row "
                "can be compared."
            )
        return found

    def _unread(self, tokens: Sequence[Token]) -> SchemaError:
        shown = " ".join(token.text for token in tokens)
        return SchemaError(
            f"'{shown}' cannot be read. Compare columns with values of their domains (= <> < <= > "
            ">= IN BETWEEN IS NULL), joined by AND, OR and NOT."
        )


def _codes(comparison: Comparison, attribute: Attribute) -> list[Interval] | None:
    """Return the codes that satisfy a comparison; of an ordered category, in its order."""
    domain = attribute.domain
    ordered = isinstance(domain, Category) and domain.ordered and isinstance(domain.values[0], str)
    if not (ordered and isinstance(domain, Category) and comparison.operator in _ORDERS):
        if isinstance(domain, Category) and isinstance(domain.values[0], str):
            _check_words(comparison, domain)
        return satisfying_codes(comparison, attribute)
    _check_words(comparison, domain)
    places = (str(domain.values.index(literal.text)) for literal in comparison.literals)
    literals = tuple(ComparedLiteral("number", place) for place in places)
    numbered = Attribute(
        attribute.name, "quasi", IntegerRange(0, domain.size - 1), missing=attribute.missing
    )
    return satisfying_codes(comparison._replace(literals=literals), numbered)


def _check_words(comparison: Comparison, category: Category) -> None:
    for literal in comparison.literals:
        if literal.text not in category.values:
            near = nearest_name(literal.text, map(str, category.values))
            hint = f" Did you mean '{near}'?" if near else ""
            raise SchemaError(f"'{comparison.column}' has no value '{literal.text}'.{hint}")


def _cuts(comparison: Comparison, attribute: Attribute) -> bool:
    """Return whether a comparison is true in a part of a bin, a month or a year."""
    domain = attribute.domain
    ends: Any = getattr(domain, "ends")()  # noqa: B009 - every coarse domain has them
    dated = isinstance(domain, Dates)
    least, largest = (each.astype(np.int64) if dated else each for each in ends)

    def value(literal: ComparedLiteral) -> Any:
        if dated:
            return date.fromisoformat(literal.text).toordinal() - _EPOCH
        return float(literal.text) * (-1 if literal.negative else 1)

    def next_to(number: Any, towards: float) -> Any:
        return number + np.sign(towards) if dated else np.nextafter(number, towards)

    operator, values = comparison.operator, [value(literal) for literal in comparison.literals]
    match operator:
        case "<" | "<=":
            end = values[0] if operator == "<=" else next_to(values[0], -np.inf)
            ranges = [(-np.inf, end)]
        case ">" | ">=":
            ranges = [(values[0] if operator == ">=" else next_to(values[0], np.inf), np.inf)]
        case "BETWEEN":
            ranges = [(values[0], values[1])]
        case _:
            ranges = [(each, each) for each in values]
    touched = ((least <= high) & (largest >= low) for low, high in ranges)
    inside = ((least >= low) & (largest <= high) for low, high in ranges)
    return any(bool((some & ~whole).any()) for some, whole in zip(touched, inside, strict=True))


def _pieces(attribute: Attribute) -> str:
    return f"{attribute.domain.by}s" if isinstance(attribute.domain, Dates) else "bins"
