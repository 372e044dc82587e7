"""The commonest clause, a column compared with literals: read without a parser, and its notes.

A binned number or a date by month is published as one value for the whole bin; a comparison with a
literal inside the bin is then decided for all of it at once, which the asker should know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from difflib import get_close_matches

from sqlglot import Token
from sqlglot import TokenType as T

from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Category, Dates
from scumble.public.sql.tokens import Tokens

_COMPARISONS = {T.EQ, T.NEQ, T.LT, T.LTE, T.GT, T.GTE}
_FLIPPED = {T.LT: T.GT, T.GT: T.LT, T.LTE: T.GTE, T.GTE: T.LTE}
_COLUMNS = {T.VAR, T.IDENTIFIER, T.DATE}
_LITERALS = {T.STRING, T.NUMBER, T.TRUE, T.FALSE}
_OFFSETS = {T.LTE: 1, T.GT: 1}  # these cut after the literal, the others before it
_ORDERED = {T.LT, T.LTE, T.GT, T.GTE}


@dataclass(frozen=True)
class Comparison:
    """`column operator literals`: = <> < <= > >=, [NOT] IN, [NOT] BETWEEN, IS [NOT] NULL."""

    qualifier: Token | None
    column: Token
    operator: T
    literals: tuple[Token, ...]
    negated: tuple[bool, ...]  # of each literal: whether a minus stands before it

    def notes(self, attribute: Attribute) -> Iterator[str]:
        """What the asker should know if the published values are coarser than the question."""
        if isinstance(attribute.domain, Bins):
            yield from self._notes_on_bins(attribute.name, attribute.domain)
        elif isinstance(attribute.domain, Dates) and attribute.domain.by != "day":
            yield from self._notes_on_dates(attribute.name, attribute.domain)
        elif isinstance(attribute.domain, Category):
            yield from self._notes_on_values(attribute.name, attribute.domain)
            if attribute.domain.ordered:
                yield from self._notes_on_order(attribute.name)

    def _notes_on_values(self, name: str, category: Category) -> Iterator[str]:
        """A value that cannot occur is most often one that was spelled in another way."""
        if self.operator not in (T.EQ, T.NEQ, T.IN):
            return
        known = {str(value) for value in category.values}
        for token in self.literals:
            if token.token_type is T.STRING and token.text not in known:
                alike = {value.casefold(): value for value in known}
                near = get_close_matches(token.text.casefold(), alike, 1)
                hint = f" Did you mean '{alike[near[0]]}'?" if near else ""
                yield f"'{token.text}' is not in the domain of '{name}', so no row has it.{hint}"

    def _notes_on_order(self, name: str) -> Iterator[str]:
        text = any(token.token_type is T.STRING for token in self.literals)
        if text and (self.operator in _ORDERED or self.operator is T.BETWEEN):
            yield (
                f"'{name}' is text: this comparison follows the alphabet, not the order of the "
                "domain. List the values with IN to be sure."
            )

    def _notes_on_bins(self, name: str, bins: Bins) -> Iterator[str]:
        by_order = self.operator in _ORDERED or self.operator is T.BETWEEN
        known = set(bins.edges) if by_order else set(bins.middles().tolist())
        for token, negated in zip(self.literals, self.negated, strict=True):
            number = _number(token)
            if number is not None and (-number if negated else number) not in known:
                shown = "-" + token.text if negated else token.text
                yield (
                    f"'{name}' is published in bins: {shown} is not the edge of one, so the middle "
                    "of a bin decides for the whole bin; an error by that is not in the interval."
                    if by_order
                    else f"'{name}' is published as the middle of a bin, which {shown} is not."
                )

    def _notes_on_dates(self, name: str, dates: Dates) -> Iterator[str]:
        for place, token in enumerate(self.literals):
            day = _day(token)
            after = _OFFSETS.get(self.operator, place if self.operator is T.BETWEEN else 0)
            if day is not None and not _begins(dates.by, day + timedelta(days=after)):
                yield (
                    f"'{name}' is published by {dates.by}: the first day of a {dates.by} decides "
                    f"for all of it when compared with {token.text}."
                )


def read_comparison(tokens: Tokens) -> Comparison | None:
    """The comparison that these tokens are, or None if they are anything else."""
    kinds = [token.token_type for token in tokens]
    if kinds[0] in _LITERALS or kinds[0] is T.DASH or kinds[:2] == [T.DATE, T.STRING]:
        return _flipped(tokens, kinds)
    qualifier, at = (tokens[0], 2) if kinds[1:2] == [T.DOT] else (None, 0)
    if len(kinds) < at + 3 or kinds[at] not in _COLUMNS or kinds[0] not in _COLUMNS:
        return None
    column, at = tokens[at], at + 1
    if kinds[at] is T.IS:
        valid = kinds[at + 1 :] in ([T.NULL], [T.NOT, T.NULL])
        return Comparison(qualifier, column, T.IS, (), ()) if valid else None
    if kinds[at] is T.NOT:
        at += 1
        if kinds[at] not in (T.IN, T.BETWEEN):
            return None
    operator = kinds[at]
    literals = _literals(tokens, kinds, operator, at + 1)
    if literals is None:
        return None
    return Comparison(
        qualifier, column, operator, tuple(t for t, _ in literals), tuple(n for _, n in literals)
    )


def _flipped(tokens: Tokens, kinds: list[T]) -> Comparison | None:
    """`literal operator column`."""
    found = _literal(tokens, kinds, 0)
    if found is None:
        return None
    token, negated, at = found
    if len(kinds) < at + 2 or kinds[at] not in _COMPARISONS or kinds[at + 1] not in _COLUMNS:
        return None
    qualifier, column = None, at + 1
    if kinds[column + 1 :] and kinds[column + 1] is T.DOT and len(kinds) > column + 2:
        qualifier, column = tokens[column], column + 2
    if len(kinds) != column + 1 or kinds[column] not in _COLUMNS:
        return None
    operator = _FLIPPED.get(kinds[at], kinds[at])
    return Comparison(qualifier, tokens[column], operator, (token,), (negated,))


def _literals(
    tokens: Tokens, kinds: list[T], operator: T, at: int
) -> list[tuple[Token, bool]] | None:
    """The literals after an operator, or None if something else follows it."""
    if operator in _COMPARISONS:
        separator, count, end = None, 1, len(kinds)
    elif operator is T.BETWEEN:
        separator, count, end = T.AND, 2, len(kinds)
    elif operator is T.IN and kinds[at] is T.L_PAREN and kinds[-1] is T.R_PAREN:
        separator, count, end, at = T.COMMA, 0, len(kinds) - 1, at + 1
    else:
        return None
    found: list[tuple[Token, bool]] = []
    while read := _literal(tokens, kinds, at):
        token, negated, at = read
        found.append((token, negated))
        if at == end:
            return found if count in (0, len(found)) else None
        if kinds[at] is not separator:
            return None
        at += 1
    return None


def _literal(tokens: Tokens, kinds: list[T], at: int) -> tuple[Token, bool, int] | None:
    """The literal at a place, whether a minus stands before it, and the place after it."""
    kind = kinds[at] if at < len(kinds) else None
    if kind in _LITERALS:
        return tokens[at], False, at + 1
    if kind is T.DASH and kinds[at + 1 : at + 2] == [T.NUMBER]:
        return tokens[at + 1], True, at + 2
    if kind is T.DATE and kinds[at + 1 : at + 2] == [T.STRING]:
        return tokens[at + 1], False, at + 2
    return None


def _number(token: Token) -> float | None:
    if token.token_type is not T.NUMBER:
        return None
    try:
        return float(token.text)
    except ValueError:
        return None


def _day(token: Token) -> date | None:
    try:
        return date.fromisoformat(token.text) if token.token_type is T.STRING else None
    except ValueError:
        return None


def _begins(by: str, day: date) -> bool:
    return day.day == 1 and (by == "month" or day.month == 1)
