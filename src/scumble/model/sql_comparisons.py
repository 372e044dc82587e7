"""Comparisons of a column with literals, read from tokens of SQL."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import Token
from sqlglot import TokenType as T
from sqlglot.dialects.duckdb import DuckDB

from scumble.model.query import ComparedLiteral, Comparison, LiteralKind, Operator

Tokens = Sequence[Token]


class _Local(threading.local):
    """A tokenizer for each thread: making one takes as long as using it."""

    def __init__(self) -> None:
        self.tokenizer = DuckDB().tokenizer()


_LOCAL = _Local()


def tokenize(text: str) -> list[Token]:
    """Return the tokens of SQL; sqlglot's TokenError if a mark is not closed."""
    return _LOCAL.tokenizer.tokenize(text)


COMPARISONS: dict[T, Operator] = {
    T.EQ: "=",
    T.NEQ: "<>",
    T.LT: "<",
    T.LTE: "<=",
    T.GT: ">",
    T.GTE: ">=",
}
_FLIPPED: dict[Operator, Operator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
OPERATORS: dict[T, Operator] = {**COMPARISONS, T.IN: "IN", T.BETWEEN: "BETWEEN"}
_COLUMNS = {T.VAR, T.IDENTIFIER, T.DATE}
LITERALS: dict[T, LiteralKind] = {
    T.STRING: "text",
    T.NUMBER: "number",
    T.TRUE: "truth",
    T.FALSE: "truth",
}


class ReadComparison(NamedTuple):
    """A comparison, and the tokens of its column and of the qualifier before that."""

    comparison: Comparison
    column: Token
    qualifier: Token | None = None


def read_comparison(tokens: Tokens) -> ReadComparison | None:
    """Return the comparison with literals that these tokens are, or None."""
    kinds = [token.token_type for token in tokens]
    if kinds[0] in LITERALS or kinds[0] is T.DASH or kinds[:2] == [T.DATE, T.STRING]:
        return _flipped(tokens, kinds)
    qualifier, at = (tokens[0], 2) if kinds[1:2] == [T.DOT] else (None, 0)
    if len(kinds) < at + 3 or kinds[at] not in _COLUMNS or kinds[0] not in _COLUMNS:
        return None
    column, at = tokens[at], at + 1
    if kinds[at] is T.IS:
        valid = kinds[at + 1 :] in ([T.NULL], [T.NOT, T.NULL])
        found = Comparison(column.text, "IS", (), kinds[at + 1] is T.NOT)
        return ReadComparison(found, column, qualifier) if valid else None
    negated = kinds[at] is T.NOT
    if negated:
        at += 1
        if kinds[at] not in (T.IN, T.BETWEEN):
            return None
    operator = kinds[at]
    literals = _literals(tokens, kinds, operator, at + 1)
    if literals is None:
        return None
    found = Comparison(column.text, OPERATORS[operator], tuple(literals), negated)
    return ReadComparison(found, column, qualifier)


def _flipped(tokens: Tokens, kinds: list[T]) -> ReadComparison | None:
    """Read `literal operator column`."""
    found = read_literal(tokens, kinds, 0)
    if found is None:
        return None
    literal, at = found
    if len(kinds) < at + 2 or kinds[at] not in COMPARISONS or kinds[at + 1] not in _COLUMNS:
        return None
    qualifier, column = None, at + 1
    if kinds[column + 1 :] and kinds[column + 1] is T.DOT and len(kinds) > column + 2:
        qualifier, column = tokens[column], column + 2
    if len(kinds) != column + 1 or kinds[column] not in _COLUMNS:
        return None
    written = COMPARISONS[kinds[at]]
    compared = Comparison(tokens[column].text, _FLIPPED.get(written, written), (literal,))
    return ReadComparison(compared, tokens[column], qualifier)


def _literals(tokens: Tokens, kinds: list[T], operator: T, at: int) -> list[ComparedLiteral] | None:
    """Return the literals after an operator, or None if something else follows it."""
    if operator in COMPARISONS:
        separator, count, end = None, 1, len(kinds)
    elif operator is T.BETWEEN:
        separator, count, end = T.AND, 2, len(kinds)
    elif operator is T.IN and kinds[at] is T.L_PAREN and kinds[-1] is T.R_PAREN:
        separator, count, end, at = T.COMMA, 0, len(kinds) - 1, at + 1
    else:
        return None
    found: list[ComparedLiteral] = []
    while read := read_literal(tokens, kinds, at):
        literal, at = read
        found.append(literal)
        if at == end:
            return found if count in (0, len(found)) else None
        if kinds[at] is not separator:
            return None
        at += 1
    return None


def read_literal(tokens: Tokens, kinds: list[T], at: int) -> tuple[ComparedLiteral, int] | None:
    """Return the literal at the index `at`, and the index after it; None if there is none."""
    kind = kinds[at] if at < len(kinds) else None
    if kind in LITERALS:
        return ComparedLiteral(LITERALS[kinds[at]], tokens[at].text), at + 1
    if kind is T.DASH and kinds[at + 1 : at + 2] == [T.NUMBER]:
        return ComparedLiteral("number", tokens[at + 1].text, negative=True), at + 2
    if kind is T.DATE and kinds[at + 1 : at + 2] == [T.STRING]:
        return ComparedLiteral("text", tokens[at + 1].text, dated=True), at + 2
    return None
