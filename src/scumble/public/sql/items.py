"""The entries of a SELECT list: their tokens and their aliases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import Token
from sqlglot import TokenType as T

from scumble.public.sql.aggregates import find_calls, find_shares, split_commas
from scumble.public.sql.conditions import Span
from scumble.public.sql.tokens import AGGREGATES, TokenizedSql, is_word

_JOINING = {T.AND, T.OR, T.NOT, T.IN, T.LIKE, T.ILIKE, T.IS, T.BETWEEN, T.INTERVAL, T.DOT, T.CASE}
_JOINING |= {T.WHEN, T.THEN, T.ELSE, T.DISTINCT, T.SIMILAR_TO, T.ESCAPE, T.GLOB}


class RawItem(NamedTuple):
    """An entry of the SELECT list: its tokens, its alias, and the share of a list that it is."""

    span: Span
    alias: Token | None
    share: Token | None = None

    @property
    def name(self) -> str:
        """The alias; with the share after it, if the entry is one of a list."""
        if self.alias is None:
            return ""
        return self.alias.text if self.share is None else f"{self.alias.text}_{self.share.text}"

    def text(self, question: TokenizedSql) -> str:
        """Return the words of the entry, with its own share in place of a list."""
        tokens = question.tokens[slice(*self.span)]
        start, end = tokens[0].start, tokens[-1].end + 1
        if self.share is None:
            return question.text[start:end]
        kinds = [token.token_type for token in tokens]
        first, last = (tokens[kinds.index(kind)] for kind in (T.L_BRACKET, T.R_BRACKET))
        before, after = question.text[start : first.start], question.text[last.end + 1 : end]
        return before + self.share.text + after


def read_items(question: TokenizedSql, span: Span) -> list[RawItem]:
    """Return the entries between SELECT and FROM."""
    return [_raw_item(question, part) for part in split_commas(question, span)]


def _raw_item(question: TokenizedSql, span: Span) -> RawItem:
    start, end = span
    tokens = question.tokens
    if start >= end:
        at = tokens[start] if start < len(tokens) else None
        raise question.error("A column or an aggregate is missing here.", at)
    if tokens[start].token_type is T.STAR:
        raise question.error(f"SELECT * is not supported: {AGGREGATES}.", tokens[start])
    if tokens[start].token_type is T.DISTINCT:
        raise question.error("SELECT DISTINCT is not supported: use GROUP BY.", tokens[start])
    if end - start > 2 and tokens[end - 2].token_type is T.ALIAS:
        if not is_word(tokens[end - 1]):
            raise question.error("A name is missing after AS.", tokens[end - 1])
        return RawItem((start, end - 2), tokens[end - 1])
    if tokens[end - 1].token_type is T.ALIAS:
        after = tokens[end] if end < len(tokens) else None
        raise question.error("A name is missing after AS.", after)
    if end - start > 1 and _is_alias(tokens[start:end]):
        return RawItem((start, end - 1), tokens[end - 1])
    return RawItem(span, None)


def _is_alias(tokens: Sequence[Token]) -> bool:
    """Return whether the last token is an alias without AS."""
    last, before = tokens[-1], tokens[-2]
    if last.token_type not in (T.VAR, T.IDENTIFIER) or before.token_type in _JOINING:
        return False
    if len(tokens) > 2 and tokens[-3].token_type is T.INTERVAL:
        return False
    literal = before.token_type in (T.R_PAREN, T.NUMBER, T.STRING)
    return literal or is_word(before)


def with_shares(question: TokenizedSql, item: RawItem) -> list[RawItem]:
    """Return an entry for each share of QUANTILE_CONT(x, [0.25, 0.75]); else the entry itself."""
    calls = list(find_calls(question, item.span)) if _has_list(question, item.span) else []
    shares = find_shares(question, calls[0]) if [c.span for c in calls] == [item.span] else []
    return [item._replace(share=share) for share in shares] or [item]


def _has_list(question: TokenizedSql, span: Span) -> bool:
    return any(token.token_type is T.L_BRACKET for token in question.tokens[slice(*span)])
