"""TemplateParser: a parser with a cache for questions that differ only in their literals.

Programs often ask the same question with other literals. The second question of a template is
tokenized and not parsed again: its literals are inserted into the clauses of the first one.
Templates are keyed by tokens, so that only the SQL tokenizer and the parser ever read the text.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from sqlglot import Token
from sqlglot import TokenType as T

from scumble.model.cache import Cache
from scumble.model.query import (
    ComparedLiteral,
    Comparison,
    Expression,
    LiteralKind,
    Query,
)
from scumble.model.schema.domains import Category, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.model.sql_comparisons import Tokens
from scumble.public.level_function import spell_levels
from scumble.public.sql.parse import read_select_tokens, refuse_plan
from scumble.public.sql.select_plan import SelectPlan
from scumble.public.sql.tokens import TokenizedSql, fold_derived

_NO_TABLES: Mapping[str, Sequence[str]] = MappingProxyType({})
_LITERALS: dict[T, LiteralKind] = {T.STRING: "text", T.NUMBER: "number"}
_MOST_TEMPLATES = 1 << 12
_DIGITS = 15  # the most digits of a number that is inserted into a template

TemplateKey = tuple[bytes, tuple[str, ...]]


class TemplateParser:
    """Parses questions about a schema, with the same result as `parse` for every text.

    `tables` are the columns of public side tables by name.
    """

    def __init__(self, schema: Schema, tables: Mapping[str, Sequence[str]] = _NO_TABLES) -> None:
        self.schema = schema
        self._tables = tables
        self._templates = Cache[TemplateKey, _Template | None](_MOST_TEMPLATES)

    def parse(self, text: str) -> Query:
        """Return the question that a SQL text asks; raises `QueryError` as `parse` does."""
        found = self.read(text)
        return found if isinstance(found, Query) else refuse_plan(TokenizedSql(text))

    def read(self, text: str) -> Query | SelectPlan:
        """Return the question or the plan of a SQL text, as `parse.read_select` does."""
        question = TokenizedSql(text)
        fold_derived(question, self.schema)
        spell_levels(question, self.schema)
        kinds = [token.token_type for token in question.tokens]
        literals = [
            token for token, kind in zip(question.tokens, kinds, strict=True) if kind in _LITERALS
        ]
        key = _key(question.tokens, kinds)
        template = self._templates.get(key)
        filled = None if template is None else template.fill(question, literals)
        if filled is not None:
            return filled
        query = read_select_tokens(question, self.schema, self._tables)
        if isinstance(query, Query) and key not in self._templates:
            self._templates.put(key, _template(query, question, literals, self.schema), 1)
        return query


def _key(tokens: Tokens, kinds: Sequence[T]) -> TemplateKey:
    """Return the types of all tokens, and the texts of those that are not literals."""
    texts = [
        "" if kind in _LITERALS else token.text for token, kind in zip(tokens, kinds, strict=True)
    ]
    return array("H", kinds).tobytes(), tuple(texts)


class _Clause(NamedTuple):
    """A clause of a template: its SQL around the literals, and its comparison."""

    first: int  # index of its first token in the question
    attributes: tuple[str, ...]
    parts: tuple[str, ...]
    comparison: Comparison
    words: frozenset[str]  # the texts that a literal may have


@dataclass(frozen=True)
class _Template:
    """A question without its literals, all of which belong to comparisons."""

    query: Query
    clauses: tuple[_Clause, ...]

    def fill(self, question: TokenizedSql, literals: Sequence[Token]) -> Query | None:
        """Return the question with other literals; None if one of them needs the parser."""
        clauses: list[Expression] = []
        values = iter(literals)
        for first, attributes, parts, compared, known in self.clauses:
            sql, given = parts[0], list[ComparedLiteral]()
            for old, part in zip(compared.literals, parts[1:], strict=True):
                text = next(values).text
                literal = _literal_sql(old.kind, text, known)
                if literal is None:
                    return None
                sql += literal + part
                given.append(ComparedLiteral(old.kind, text, old.negative, old.dated))
            comparison = Comparison(
                compared.column, compared.operator, tuple(given), compared.negated
            )
            start = question.tokens[first].start
            clauses.append(Expression(sql, attributes, start, (), comparison))
        query = self.query
        return Query(
            query.aggregate,
            query.argument,
            tuple(clauses),
            query.groups,
            question.text,
            aliases=query.aliases,
        )


def _literal_sql(kind: LiteralKind, text: str, known: frozenset[str]) -> str | None:
    """Return a literal as SQL; None if it must be parsed, as the parser might add notes."""
    if kind == "text":
        return "'" + text.replace("'", "''") + "'" if text in known else None
    return text if len(text) <= _DIGITS and text.isascii() and text.isdigit() else None


def _template(
    query: Query, question: TokenizedSql, literals: Sequence[Token], schema: Schema
) -> _Template | None:
    """Return the template of a question, or None if there is none.

    Every literal must be part of a comparison of an integer or category, and the question must have
    no notes, which may depend on the literals.
    """
    if query.notes:
        return None
    clauses: list[_Clause] = []
    compared: list[tuple[str, str]] = []
    firsts = {token.start: index for index, token in enumerate(question.tokens)}
    for clause in query.clauses:
        comparison = clause.comparison
        if comparison is None:
            return None
        domain = schema[clause.attributes[0]].domain
        if not isinstance(domain, IntegerRange | Category):
            return None
        parts = _parts(clause.sql)
        if len(parts) != len(comparison.literals) + 1:  # TRUE and FALSE are literals, too
            return None
        compared += [(each.kind, each.text) for each in comparison.literals]
        first = firsts[clause.start]
        clauses.append(_Clause(first, clause.attributes, parts, comparison, _words(domain)))
    given = [(_LITERALS[token.token_type], token.text) for token in literals]
    # The literals of clauses are tokens of the question, in the same order. If the lists are equal,
    # there is no literal outside of the clauses.
    return _Template(query, tuple(clauses)) if given == compared else None


def _parts(sql: str) -> tuple[str, ...]:
    """Return the text before, between and after the literals of a clause."""
    parts: list[str] = []
    start = 0
    for token in TokenizedSql(sql).tokens:
        if token.token_type in _LITERALS:
            parts.append(sql[start : token.start])
            start = token.end + 1
    return (*parts, sql[start:])


@lru_cache(maxsize=256)
def _words(domain: IntegerRange | Category) -> frozenset[str]:
    """Return the texts in a domain."""
    values = domain.values if isinstance(domain, Category) else ()
    return frozenset(value for value in values if isinstance(value, str))
