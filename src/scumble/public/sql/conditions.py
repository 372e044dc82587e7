"""A condition, cut into the clauses of its outermost conjunction."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import TokenType as T

from scumble.model.query import Expression, quoted
from scumble.public.sql.comparison import read_comparison
from scumble.public.sql.expressions import DROPPED, read_expression, spell
from scumble.public.sql.names import Names
from scumble.public.sql.tokens import Tokens, Words

Span = tuple[int, int]  # of tokens: the first, and the one after the last


def read_clauses(words: Words, names: Names, span: Span) -> Iterator[tuple[Expression, list[str]]]:
    """Every clause of a condition, with its notes."""
    pending = [span]
    while pending:
        inner = strip(words, pending.pop())
        parts = _conjuncts(words, inner)
        if len(parts) == 1:
            yield _clause(words, names, words.tokens[slice(*inner)])
        else:
            pending.extend(reversed(parts))


def strip(words: Words, span: Span) -> Span:
    """Without the parentheses around the whole of it."""
    start, end = span
    while words.closing.get(start) == end - 1:
        start, end = start + 1, end - 1
    if start >= end:
        at = words.tokens[start] if start < len(words.tokens) else None
        raise words.error("A condition or expression is missing here.", at)
    return start, end


def _conjuncts(words: Words, span: Span) -> list[Span]:
    """The parts between the outermost ANDs; the whole if there is an outermost OR."""
    start, end = span
    parts: list[Span] = []
    cases = betweens = 0
    at = start
    while at < end:
        kind = words.tokens[at].token_type
        if kind is T.L_PAREN:
            at = words.closing[at]
        elif kind is T.CASE:
            cases += 1
        elif kind is T.END and cases:
            cases -= 1
        elif not cases:
            if kind is T.OR:
                return [span]
            if kind is T.BETWEEN:
                betweens += 1
            elif kind is T.AND and betweens:
                betweens -= 1
            elif kind is T.AND:
                parts.append((start, at))
                start = at + 1
        at += 1
    return [*parts, (start, end)]


def _clause(words: Words, names: Names, tokens: Tokens) -> tuple[Expression, list[str]]:
    """A comparison of a known column with literals needs no parser."""
    found = read_comparison(tokens)
    if found is None or found.column.text.lower() not in names.attributes:
        return read_expression(words, names, tokens), []
    attribute = names.attribute(found.column)
    spelled = {found.column.start: quoted(attribute.name)}
    if found.qualifier is not None:
        names.check_qualifier(found.qualifier)
        spelled[found.qualifier.start] = DROPPED
    sql = spell(words, tokens, spelled, set())
    return Expression(sql, (attribute.name,), tokens[0].start), list(found.notes(attribute))
