"""Conditions: the clauses of a conjunction, comparisons with literals, and AND/OR parts; and what
is wrong with a comparison that the engine refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

from sqlglot import TokenType as T

from scumble.model.errors import nearest_name
from scumble.model.query import ComparedLiteral, Comparison, Expression, quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, IntegerRange
from scumble.model.schema.numbers import Number
from scumble.model.schema.schema import Schema
from scumble.model.sql_comparisons import (
    COMPARISONS,
    LITERALS,
    OPERATORS,
    Tokens,
    read_comparison,
    read_literal,
)
from scumble.public.sql.expressions import DROPPED, read_expression, render
from scumble.public.sql.ordered_text import ordered_comparisons
from scumble.public.sql.tokens import NameResolver, TokenizedSql

Span = tuple[int, int]  # indices of tokens: the first, and the one after the last


def read_clauses(
    question: TokenizedSql, names: NameResolver, span: Span
) -> Iterator[tuple[Expression, list[str]]]:
    """Yield the clauses of the outermost conjunction of a condition, each with its notes."""
    pending = [span]
    while pending:
        inner = strip(question, pending.pop())
        parts = _conjuncts(question, inner)
        if len(parts) == 1:
            yield _clause(question, names, question.tokens[slice(*inner)])
        else:
            pending.extend(reversed(parts))


def strip(question: TokenizedSql, span: Span) -> Span:
    """Return the span without parentheses around all of it."""
    start, end = span
    while question.closing.get(start) == end - 1:
        if question.tokens[start + 1].token_type is T.SELECT:
            break  # a scalar sub-select keeps its parentheses
        start, end = start + 1, end - 1
    if start >= end:
        at = question.tokens[start] if start < len(question.tokens) else None
        raise question.error("A condition or expression is missing here.", at)
    return start, end


def _conjuncts(question: TokenizedSql, span: Span) -> list[Span]:
    """Return the parts between the outermost ANDs; the whole if there is an outermost OR."""
    if len(_split_at(question, span, T.OR)) > 1:
        return [span]
    return _split_at(question, span, T.AND)


def _clause(
    question: TokenizedSql, names: NameResolver, tokens: Tokens
) -> tuple[Expression, list[str]]:
    """Read one clause; a comparison of a known column with literals needs no parser."""
    found = read_comparison(tokens)
    if found is None or found.column.text.lower() not in names.attributes or names.joins:
        return read_expression(question, names, tokens), []
    attribute = names.attribute(found.column)
    comparison: Comparison | None = found.comparison._replace(column=attribute.name)
    replacements = {found.column.start: quoted(attribute.name)}
    if found.qualifier is not None:
        names.check_qualifier(found.qualifier)
        replacements[found.qualifier.start] = DROPPED
    if isinstance(attribute.domain, Category) and attribute.domain.ordered:
        ordered = ordered_comparisons(names, tokens)
        replacements |= ordered
        comparison = None if ordered else comparison
    sql = render(question, tokens, replacements, set())
    notes = list(_notes(found.comparison, attribute))
    start = tokens[0].start
    return Expression(sql, (attribute.name,), start, comparison=comparison), notes


# Comparisons of a column with literals, the most common clause.


def _notes(comparison: Comparison, attribute: Attribute) -> Iterator[str]:
    """Yield notes on values that are not in the domain, with the nearest one that is."""
    category = attribute.domain
    if not isinstance(category, Category) or comparison.operator not in ("=", "<>", "IN"):
        return
    known = dict.fromkeys(map(str, category.values))
    for literal in comparison.literals:
        if literal.kind == "text" and literal.text not in known:
            near = nearest_name(literal.text, known)
            hint = f" Did you mean '{near}'?" if near else ""
            name = attribute.name
            yield f"'{literal.text}' is not in the domain of '{name}', so no row has it.{hint}"


def comparison_of(clause: Expression) -> Comparison | None:
    """Return the comparison that a clause of a parsed question is, or None if it is anything else.

    The clause is cut into tokens as the question was.
    """
    found = read_comparison(TokenizedSql(clause.sql).tokens)
    return None if found is None else found.comparison


# Clauses split at their outermost OR or AND, so that each part names fewer attributes.


@dataclass(frozen=True)
class Junction:
    """A disjunction ("any") or conjunction ("all") of parts."""

    of: Literal["any", "all"]
    parts: tuple[Expression, ...]


def split(clause: Expression) -> Junction | None:
    """Return the parts of a clause; None if it has no outermost OR or AND.

    NOT before parentheses is moved into the parts by De Morgan's laws. They hold for NULL as well:
    a disjunction is true where a part is, and false where all parts are.
    """
    question = TokenizedSql(clause.sql)
    span, negated = strip(question, (0, len(question.tokens))), False
    while _is_negated(question, span):
        span, negated = strip(question, (span[0] + 1, span[1])), not negated
    for mark in (T.OR, T.AND):
        spans = _split_at(question, span, mark)
        if len(spans) > 1:
            parts = tuple(_part(question, clause, part, negated) for part in spans)
            return Junction("any" if (mark is T.OR) != negated else "all", parts)
    return None


def _is_negated(question: TokenizedSql, span: Span) -> bool:
    """Return whether the span is NOT (...), or NOT NOT (...)."""
    start, end = span
    if question.tokens[start].token_type is not T.NOT or end - start < 2:
        return False
    rest = (start + 1, end)
    return question.closing.get(start + 1) == end - 1 or _is_negated(question, rest)


def _split_at(question: TokenizedSql, span: Span, mark: T) -> list[Span]:
    """Return the parts between the outermost marks (AND or OR); the AND of BETWEEN is not one."""
    start, end = span
    spans: list[Span] = []
    cases = betweens = 0
    at = start
    while at < end:
        kind = question.tokens[at].token_type
        if kind is T.L_PAREN:
            at = question.closing[at]
        elif kind is T.CASE:
            cases += 1
        elif kind is T.END and cases:
            cases -= 1
        elif kind is T.BETWEEN and not cases:
            betweens += 1
        elif kind is T.AND and betweens and not cases:
            betweens -= 1
        elif kind is mark and not cases:
            spans.append((start, at))
            start = at + 1
        at += 1
    return [*spans, (start, end)]


def _part(question: TokenizedSql, clause: Expression, span: Span, negated: bool) -> Expression:
    tokens = question.tokens[slice(*span)]
    text = question.text[tokens[0].start : tokens[-1].end + 1]
    # A column of a side table may have the name of an attribute. That attribute is then listed
    # needlessly, which changes no count.
    named = {token.text for token in tokens if token.token_type is T.IDENTIFIER}
    names = tuple(name for name in clause.attributes if name in named)
    return Expression(f"NOT ({text})" if negated else text, names, clause.start)


# Values under a condition, as sums and counts have them: CASE WHEN c THEN x ELSE 0 END.


@dataclass(frozen=True)
class Conditional:
    """A value where all clauses hold; elsewhere NULL, or with `zero` 0."""

    clauses: tuple[Expression, ...]
    value: Expression
    zero: bool


def conditional(expression: Expression) -> Conditional | None:
    """Return the parts of `CASE WHEN c THEN x [ELSE 0] END` or `if(c, x, 0)`; None for others."""
    question = TokenizedSql(expression.sql)
    spans = _branches(question, strip(question, (0, len(question.tokens))))
    if not 2 <= len(spans) <= 3 or any(start >= end for start, end in spans):
        return None
    other = question.tokens[slice(*strip(question, spans[2]))] if spans[2:] else []
    zero = [token.token_type for token in other] == [T.NUMBER] and not float(other[0].text)
    if other and not zero and [token.token_type for token in other] != [T.NULL]:
        return None
    clauses, pending = [], [spans[0]]
    while pending:  # as `read_clauses` does
        inner = strip(question, pending.pop())
        parts = _conjuncts(question, inner)
        if len(parts) == 1:
            clauses.append(_part(question, expression, inner, negated=False))
        else:
            pending.extend(reversed(parts))
    value = _part(question, expression, spans[1], negated=False)
    return Conditional(tuple(clauses), value, zero)


def _branches(question: TokenizedSql, span: Span) -> list[Span]:
    """Return the condition, the value and the other value of a CASE or if(); else nothing."""
    start, end = span
    kinds = [token.token_type for token in question.tokens]
    if question.tokens[start].text.lower() == "if" and question.closing.get(start + 1) == end - 1:
        return _split_at(question, (start + 2, end - 1), T.COMMA)
    if kinds[start : start + 2] != [T.CASE, T.WHEN] or kinds[end - 1] is not T.END:
        return []
    inside = (start + 2, end - 1)
    first, *then = _split_at(question, inside, T.THEN)
    if len(then) != 1 or len(_split_at(question, inside, T.END)) > 1:
        return []  # several conditions, or several CASEs
    return [first, *_split_at(question, then[0], T.ELSE)]


def known(expression: Expression) -> Expression:
    """Return the clause that an expression is not NULL, as an aggregate has it."""
    return Expression(f"({expression.sql}) IS NOT NULL", expression.attributes, expression.start)


def known_by(clause: Expression) -> Expression | None:
    """Return the expression that is not NULL by a clause that `known` returns."""
    question = TokenizedSql(clause.sql)
    end = len(question.tokens) - 3
    kinds = [token.token_type for token in question.tokens[max(end, 0) :]]
    if kinds != [T.IS, T.NOT, T.NULL] or question.closing.get(0) != end - 1:
        return None
    return _part(question, clause, (0, end), negated=False)


_PRODUCT = {T.STAR, T.L_PAREN, T.R_PAREN, T.DCOLON, T.DOUBLE, T.NUMBER, T.IDENTIFIER}
_SUM = _PRODUCT | {T.PLUS, T.DASH, T.SLASH}


def inner_conditional(expression: Expression) -> tuple[Expression, Conditional] | None:
    """Return a CASE or if() in an expression, and the whole expression as one value under its
    condition, as `conditional` does for one that is nothing else.

    Arithmetic with NULL is NULL, and a product with 0 is 0. None if there is no such CASE.
    """
    question = TokenizedSql(expression.sql)
    spans = list(_cases(question))
    inside = {at for start, end in spans for at in range(start, end)}
    around = {t.token_type for at, t in enumerate(question.tokens) if at not in inside}
    for span in spans:
        case = _part(question, expression, span, negated=False)
        found = conditional(case)
        if found is not None and around <= (_PRODUCT if found.zero else _SUM):
            start, end = question.tokens[span[0]].start, question.tokens[span[1] - 1].end + 1
            sql = f"{question.text[:start]}({found.value.sql}){question.text[end:]}"
            whole = TokenizedSql(sql)
            value = _part(whole, expression, (0, len(whole.tokens)), negated=False)
            return case, Conditional(found.clauses, value, found.zero)
    return None


def _cases(question: TokenizedSql) -> Iterator[Span]:
    """Yield the outermost CASEs and calls of if()."""
    at, tokens = 0, question.tokens
    while at < len(tokens):
        start, cases = at, int(tokens[at].token_type is T.CASE)
        if tokens[at].text.lower() == "if" and at + 1 in question.closing:
            at = question.closing[at + 1]
            yield start, at + 1
        elif cases:
            while cases:
                at += 1
                kind = tokens[at].token_type
                cases += (kind is T.CASE) - (kind is T.END)
            yield start, at + 1
        at += 1


# What is wrong with an expression that the engine refuses.

_ARITHMETIC = {T.PLUS, T.DASH, T.STAR, T.SLASH, T.DIV, T.MOD}
_BETWEENLITERALS = {T.COMMA, T.AND}
_REFUSED_TYPES = re.compile(r"Cannot (compare|mix) values of type")
_REFUSED_TEXT = re.compile(r"Could not convert string '(.*)' to (\w+)")


def type_complaint(sql: str, schema: Schema, complaint: str) -> str:
    """Return the sentence for SQL that the engine refuses with a complaint.

    If a column is compared with a literal of another type, the sentence says which literals the
    column takes; otherwise it is the complaint.
    """
    tokens = TokenizedSql(sql).tokens
    kinds = [token.token_type for token in tokens]
    attributes = {each.name: each for each in schema.published}
    for at, kind in enumerate(kinds):
        attribute = attributes.get(tokens[at].text) if kind is T.IDENTIFIER else None
        if attribute is None:
            continue
        found = _mismatch(attribute, _compared_with(tokens, kinds, at))
        if found is None and _text_computed(attribute, kinds, at):
            found = (
                f"{attribute.name} lists text, and arithmetic takes numbers. "
                f"TRY_CAST({quoted(attribute.name)} AS DOUBLE) reads the texts that are numbers."
            )
        if found is not None:
            return found
    if refused := _REFUSED_TEXT.match(complaint):
        wanted = "True or false" if refused[2] == "BOOL" else "A number"
        return f"{wanted} is needed here, not '{refused[1]}'."
    if _REFUSED_TYPES.match(complaint):
        return (
            "Values of different types are compared here: write text and dates in single quotes, "
            "numbers without."
        )
    return complaint


def _compared_with(tokens: Tokens, kinds: list[T], at: int) -> list[ComparedLiteral]:
    """Return the literals that the column at the index `at` is compared with."""
    before, after = kinds[at - 1] if at > 1 else None, at + 1
    if before in COMPARISONS and kinds[at - 2] in LITERALS:
        return [ComparedLiteral(LITERALS[kinds[at - 2]], tokens[at - 2].text)]
    after += kinds[after : after + 1] == [T.NOT]
    operator = kinds[after] if after < len(kinds) else None
    if operator not in OPERATORS:
        return []
    after += 2 if operator is T.IN else 1
    found: list[ComparedLiteral] = []
    while read := read_literal(tokens, kinds, after):
        literal, after = read
        found.append(literal)
        if operator in COMPARISONS or kinds[after : after + 1] == [T.R_PAREN]:
            break
        after += after < len(kinds) and kinds[after] in _BETWEENLITERALS
    return found


def _mismatch(attribute: Attribute, literals: list[ComparedLiteral]) -> str | None:
    """Return the sentence for a column and literals of another type; None if they fit."""
    name, domain = attribute.name, attribute.domain
    if _lists_text(attribute):
        wrong = [each for each in literals if each.kind != "text"]
        shown = ", ".join(f"'{'-' * each.negative}{each.text}'" for each in wrong)
        return f"{name} lists text; write {shown} in single quotes." if wrong else None
    texts = [each.text for each in literals if each.kind == "text"]
    if isinstance(domain, IntegerRange | Number | Bins | Category):
        wanted, unread = "numbers; write a number, without quotes,", _is_no_number
    elif isinstance(domain, Boolean):
        wanted, unread = "true and false; write one of them, without quotes,", _is_no_truth
    elif isinstance(domain, Dates):
        texts = [each.text for each in literals]
        wanted, unread = "dates; write one like '2020-12-31'", _is_no_date
    else:
        return None
    wrong_text = next(filter(unread, texts), None)
    return None if wrong_text is None else f"{name} lists {wanted} in place of '{wrong_text}'."


def _lists_text(attribute: Attribute) -> bool:
    domain = attribute.domain
    return isinstance(domain, Category) and isinstance(domain.values[0], str)


def _text_computed(attribute: Attribute, kinds: list[T], at: int) -> bool:
    """Return whether arithmetic is done with a column of texts."""
    beside = {*kinds[max(at - 1, 0) : at], *kinds[at + 1 : at + 2]}
    return _lists_text(attribute) and not beside.isdisjoint(_ARITHMETIC)


def _is_no_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return True
    return False


def _is_no_truth(text: str) -> bool:
    return text.strip().lower() not in ("true", "false", "t", "f", "1", "0", "yes", "no", "y", "n")


def _is_no_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return True
    return False
