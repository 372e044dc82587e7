"""A clause taken apart at its outermost OR or AND, so that each part names fewer attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlglot import TokenType as T

from scumble.model.query import Expression
from scumble.public.sql.conditions import Span, strip
from scumble.public.sql.tokens import Words


@dataclass(frozen=True)
class Junction:
    """Parts of which `any` or `all` must be true for the whole to be true."""

    of: Literal["any", "all"]
    parts: tuple[Expression, ...]


def split(clause: Expression) -> Junction | None:
    """The parts of a clause; None if it has no outermost OR or AND.

    NOT before parentheses goes to the parts, by the laws of De Morgan. They hold for NULL as well:
    a disjunction is true where a part is, and false where all parts are.
    """
    words = Words(clause.sql)
    span, negated = strip(words, (0, len(words.tokens))), False
    while _denies_all(words, span):
        span, negated = strip(words, (span[0] + 1, span[1])), not negated
    for mark in (T.OR, T.AND):
        spans = _between(words, span, mark)
        if len(spans) > 1:
            parts = tuple(_part(words, clause, part, negated) for part in spans)
            return Junction("any" if (mark is T.OR) != negated else "all", parts)
    return None


def _denies_all(words: Words, span: Span) -> bool:
    """Whether the span is NOT (...), or NOT NOT (...)."""
    start, end = span
    if words.tokens[start].token_type is not T.NOT or end - start < 2:
        return False
    rest = (start + 1, end)
    return words.closing.get(start + 1) == end - 1 or _denies_all(words, rest)


def _between(words: Words, span: Span, mark: T) -> list[Span]:
    """The parts between the outermost marks; the AND of BETWEEN is none."""
    start, end = span
    spans: list[Span] = []
    cases = betweens = 0
    at = start
    while at < end:
        kind = words.tokens[at].token_type
        if kind is T.L_PAREN:
            at = words.closing[at]
        elif kind in (T.CASE, T.END):
            cases += 1 if kind is T.CASE else -1
        elif kind is T.BETWEEN and not cases:
            betweens += 1
        elif kind is T.AND and betweens and not cases:
            betweens -= 1
        elif kind is mark and not cases:
            spans.append((start, at))
            start = at + 1
        at += 1
    return [*spans, (start, end)]


def _part(words: Words, clause: Expression, span: Span, negated: bool) -> Expression:
    tokens = words.tokens[slice(*span)]
    text = words.text[tokens[0].start : tokens[-1].end + 1]
    # A column of a side table may have the name of an attribute: then one more is named, which
    # changes no count.
    named = {token.text for token in tokens if token.token_type is T.IDENTIFIER}
    names = tuple(name for name in clause.attributes if name in named)
    return Expression(f"NOT ({text})" if negated else text, names, clause.start)
