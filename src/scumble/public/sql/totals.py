"""Totals beside groups: SUM(COUNT(*)) OVER () and (SELECT COUNT(*) FROM t WHERE ...)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import TokenType as T

from scumble.model.query import Expression
from scumble.public.sql.aggregates import (
    Call,
    Scope,
    Term,
    find_calls,
    read_term,
    split_commas,
)
from scumble.public.sql.conditions import Span, read_clauses
from scumble.public.sql.from_clause import FromReader
from scumble.public.sql.tokens import NameResolver, TokenizedSql

_SUBSELECT = (
    "A sub-select on the view is one total here: (SELECT COUNT(*) FROM t WHERE ...), or SUM or AVG "
    "in place of COUNT."
)
_OVER = "OVER is for totals: SUM(COUNT(*)) OVER (), or OVER (PARTITION BY column of GROUP BY)."
_SUMMED = {"count", "sum", "mean"}


def read_total(
    question: TokenizedSql,
    names: NameResolver,
    call: Call,
    key: Callable[[Span], Expression | None],
) -> Term:
    """Return the total that a call is; `key` returns the column of GROUP BY that tokens are."""
    if call.subselect:
        return _of_subselect(question, names, call)
    within = tuple(_partition(question, call, key))
    inner = next(find_calls(question, call.arguments), None)
    if inner is None or inner.span != call.arguments:
        raise question.error(_OVER, question.tokens[call.arguments[0]])
    term = read_term(question, names, inner)
    return replace(term, scope=Scope(within), start=question.tokens[call.span[0]].start)


def _partition(
    question: TokenizedSql, call: Call, key: Callable[[Span], Expression | None]
) -> Iterator[Expression]:
    """Yield the columns of OVER (PARTITION BY ...)."""
    assert call.over is not None  # noqa: S101  (a total without a sub-select has it)
    start, end = call.over
    if start == end:
        return
    if question.tokens[start].token_type is not T.PARTITION_BY:
        raise question.error(_OVER, question.tokens[start])
    for span in split_commas(question, (start + 1, end)):
        token = question.tokens[span[0]]
        found = key(span) if span[0] < span[1] else None
        if found is None:
            raise question.error(
                f"'{token.text}' is not in GROUP BY: PARTITION BY names its columns.", token
            )
        yield found


def _of_subselect(question: TokenizedSql, names: NameResolver, call: Call) -> Term:
    """Return the total of (SELECT COUNT(*) FROM t WHERE ...)."""
    body = question.part(*call.arguments)
    own, first = names.nested(body), body.tokens[0]
    at = 1
    while at < len(body.tokens) and body.tokens[at].token_type is not T.FROM:
        at = body.closing.get(at, at) + 1
    source = FromReader(body, own, at + 1)
    after, clauses = source.read()
    inner = next(find_calls(body, (1, at)), None)
    if inner is None or inner.span != (1, at) or source.joins or inner.over or inner.subselect:
        raise body.error(_SUBSELECT, body.tokens[min(1, len(body.tokens) - 1)])
    if after < len(body.tokens):
        where = body.tokens[after]
        if where.token_type is not T.WHERE:
            raise body.error(_SUBSELECT, where)
        clauses += [clause for clause, _ in read_clauses(body, own, (after + 1, len(body.tokens)))]
    term = read_term(body, own, inner)
    if term.kind not in _SUMMED:
        raise body.error(_SUBSELECT, body.tokens[1])
    return replace(term, scope=Scope((), tuple(dict.fromkeys(clauses))), start=first.start)
