"""Comparisons of ordered text with literals, by the declared order and not by the alphabet.

As in DuckDB for an ENUM: the column and the literals are cast to an ENUM with the values of the
domain. A literal that is not a value of the domain is an error of DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token
from sqlglot import TokenType as T

from scumble.model.query import quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category
from scumble.public.sql.tokens import NameResolver

_ORDERED = {T.LT, T.LTE, T.GT, T.GTE}
_JOINS_TEXT = {T.DPIPE, T.DCOLON}


def ordered_comparisons(names: NameResolver, tokens: Sequence[Token]) -> dict[int, str]:
    """Return the SQL of columns and literals in comparisons of ordered text, by offset.

    These are `column < 'text'`, `'text' < column` and `column [NOT] BETWEEN 'text' AND 'text'`.
    """
    found: dict[int, str] = {}
    kinds = [token.token_type for token in tokens]
    for at, token in enumerate(tokens):
        attribute = names.attributes.get(token.text.lower())
        if attribute is None or token.token_type not in (T.VAR, T.IDENTIFIER):
            continue
        if not _is_ordered(attribute):
            continue
        first = at - 2 if at > 1 and kinds[at - 1] is T.DOT else at
        places = _literals(kinds, first, at)
        if places:
            found[token.start] = _cast(attribute, quoted(attribute.name))
            for place in places:
                literal = "'" + tokens[place].text.replace("'", "''") + "'"
                found[tokens[place].start] = _cast(attribute, literal)
    return found


def _is_ordered(attribute: Attribute) -> bool:
    domain = attribute.domain
    ordered = isinstance(domain, Category) and domain.ordered
    return ordered and all(isinstance(value, str) for value in domain.values)  # type: ignore[union-attr]


def _literals(kinds: Sequence[T], first: int, last: int) -> list[int]:
    """Return the places of the literals that the column at `first` to `last` is compared with."""
    before = kinds[first - 1] if first else None
    after = list(kinds[last + 1 : last + 6])
    if (
        before not in _JOINS_TEXT
        and after[:2]
        and after[0] in _ORDERED
        and after[1:2] == [T.STRING]
    ):
        return [] if after[2:3] and after[2] in _JOINS_TEXT else [last + 2]
    shift = 1 if after[:1] == [T.NOT] else 0
    between = [T.BETWEEN, T.STRING, T.AND, T.STRING]
    if before not in _JOINS_TEXT and after[shift : shift + 4] == between:
        return [last + 2 + shift, last + 4 + shift]
    if first > 1 and before in _ORDERED and kinds[first - 2] is T.STRING:
        joined = (first > 2 and kinds[first - 3] in _JOINS_TEXT) or (
            after[:1] and after[0] in _JOINS_TEXT
        )
        return [] if joined else [first - 2]
    return []


def _cast(attribute: Attribute, sql: str) -> str:
    assert isinstance(attribute.domain, Category)  # noqa: S101  (`_is_ordered` saw to it)
    values = ("'" + str(value).replace("'", "''") + "'" for value in attribute.domain.values)
    return f"CAST({sql} AS ENUM({', '.join(values)}))"
