"""TemplateParser: a parser with a cache for questions that differ only in their literals.

Programs often ask the same question with other literals. The second question of a template is
tokenized and not parsed again: its literals are inserted into the clauses of the first one.
Templates are keyed by tokens, so that only the SQL tokenizer and the parser ever read the text.

Tokenizing takes most of that time. So a template is also known by the text around the literals, its
shape. A shape is kept only if the tokenizer found the same literals at the same places in the first
text that has it. In every other text of the shape it finds them there, too: the tokenizer reads
from left to right; what it reads between literals is the same; and a literal of the same kind ends
where the shape says, since nothing that could continue it stands beside it.
"""

from __future__ import annotations

import re
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
    ParsedQuestion,
    Query,
)
from scumble.model.schema.domains import Category, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.public.level_function import spell_levels
from scumble.public.sql.conditions import read_comparison
from scumble.public.sql.parse import read_select_tokens, refuse_plan
from scumble.public.sql.select_plan import SelectPlan
from scumble.public.sql.tokens import TokenizedSql, Tokens, fold_derived

_NO_TABLES: Mapping[str, Sequence[str]] = MappingProxyType({})
_LITERALS: dict[T, LiteralKind] = {T.STRING: "text", T.NUMBER: "number"}
_MOST_TEMPLATES = 1 << 12
_DIGITS = 15  # the most digits of a number that is inserted into a template
_LONGEST_SHAPE = 10_000  # characters of a text that is looked up by its shape
# A literal with nothing beside it that could belong to it: the inside of a text, or a number.
_LITERAL = re.compile(
    r"""(?<!\w)'((?:[^'\\\0]|'')*+)'(?!['\w]) | (?<![\w.'"$])([0-9]{1,15}+)(?![\w.'"])""",
    re.VERBOSE,
)

TemplateKey = tuple[bytes, tuple[str, ...]]


class TemplateParser:
    """Parses questions about a schema, with the same result as `parse` for every text.

    `tables` are the columns of public side tables by name.
    """

    def __init__(self, schema: Schema, tables: Mapping[str, Sequence[str]] = _NO_TABLES) -> None:
        self.schema = schema
        self._tables = tables
        self._templates = Cache[TemplateKey, _Template | None](_MOST_TEMPLATES)
        self._shapes = Cache[tuple[str, ...], _Shape](_MOST_TEMPLATES)

    def parse(self, text: str) -> ParsedQuestion:
        """Return the question that a SQL text asks; raises `QueryError` as `parse` does."""
        found = self.read(text)
        return found if isinstance(found, ParsedQuestion) else refuse_plan(TokenizedSql(text))

    def read_select(self, text: str) -> Query | SelectPlan:
        """Return the question or the plan of a SQL text, as `parse.read_select` does."""
        found = self.read(text)
        return found.query if isinstance(found, ParsedQuestion) else found

    def read(self, text: str) -> ParsedQuestion | SelectPlan:
        """Return the question with its comparisons, or the plan, of a SQL text."""
        written = _Written.of(text) if _is_short(text) else None
        shape = None if written is None else self._shapes.get(written.around)
        if written is not None and shape is not None:
            found = shape.filled(text, written)
            if found is not None:
                return found
        return self._read(TokenizedSql(text), written)

    def _read(
        self, question: TokenizedSql, written: _Written | None
    ) -> ParsedQuestion | SelectPlan:
        text = question.text
        fold_derived(question, self.schema)
        spell_levels(question, self.schema)
        kinds = [token.token_type for token in question.tokens]
        literals = [
            token for token, kind in zip(question.tokens, kinds, strict=True) if kind in _LITERALS
        ]
        key = _key(question.tokens, kinds)
        template = self._templates.get(key)
        if template is not None:
            starts = self._shaped(template, question, text, written, literals)
            filled = template.filled(question.text, starts, [each.text for each in literals])
            if filled is not None:
                return filled
        query = read_select_tokens(question, self.schema, self._tables)
        if not isinstance(query, Query):
            return query
        clauses = [TokenizedSql(clause.sql).tokens for clause in query.clauses]
        compared = tuple(map(_compared, query.clauses, clauses))
        parsed = ParsedQuestion(query, compared)
        if key not in self._templates:
            template = _template(parsed, clauses, question, literals, self.schema)
            self._templates.put(key, template, 1)
            if template is not None:
                self._shaped(template, question, text, written, literals)
        return parsed

    def _shaped(
        self,
        template: _Template,
        question: TokenizedSql,
        text: str,
        written: _Written | None,
        literals: Sequence[Token],
    ) -> list[int]:
        """Keep the shape of a text that has a template, if the tokenizer found the literals that
        are `written`; return where the clauses of the question begin.
        """
        starts = [question.tokens[clause.first].start for clause in template.clauses]
        if written is not None and question.text == text and written.agrees(text, literals):
            self._shapes.put(written.around, _Shape.of(template, starts, written), 1)
        return starts


def _is_short(text: object) -> bool:
    return isinstance(text, str) and len(text) <= _LONGEST_SHAPE


def _key(tokens: Tokens, kinds: Sequence[T]) -> TemplateKey:
    """Return the types of all tokens, and the texts of those that are not literals."""
    texts = [
        "" if kind in _LITERALS else token.text for token, kind in zip(tokens, kinds, strict=True)
    ]
    return array("H", kinds).tobytes(), tuple(texts)


def _compared(clause: Expression, tokens: Tokens) -> Comparison | None:
    found = read_comparison(tokens)
    if found is None or clause.attributes != (found.comparison.column,):
        return None
    return found.comparison


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

    def filled(
        self, text: str, starts: Sequence[int], literals: Sequence[str]
    ) -> ParsedQuestion | None:
        """Return the question with other literals; None if one of them needs the parser.

        `starts` are the offsets of the clauses in `text`.
        """
        clauses: list[Expression] = []
        comparisons: list[Comparison] = []
        at = 0
        for start, (_, attributes, parts, compared, known) in zip(
            starts, self.clauses, strict=True
        ):
            sql, values = parts[0], []
            for old, part in zip(compared.literals, parts[1:], strict=True):
                value = literals[at]
                literal = _literal_sql(old.kind, value, known)
                if literal is None:
                    return None
                sql += literal + part
                values.append(ComparedLiteral(old.kind, value, old.negative, old.dated))
                at += 1
            comparison = Comparison(
                compared.column, compared.operator, tuple(values), compared.negated
            )
            clauses.append(Expression(sql, attributes, start, (), comparison))
            comparisons.append(comparison)
        query = self.query
        filled = Query(
            query.aggregate,
            query.argument,
            tuple(clauses),
            query.groups,
            text,
            aliases=query.aliases,
        )
        return ParsedQuestion(filled, tuple(comparisons))


class _Written(NamedTuple):
    """The literals of a text as they are written, where each begins and ends, and the text around
    them. The quotes of a text literal are around it.
    """

    around: tuple[str, ...]
    literals: list[str]
    spans: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str) -> _Written:
        spans = [found.span(found.lastindex or 0) for found in _LITERAL.finditer(text)]
        around, literals, at = [], [], 0
        for start, end in spans:
            around.append(text[at:start])
            literals.append(text[start:end])
            at = end
        around.append(text[at:])
        return cls(tuple(around), literals, spans)

    def agrees(self, text: str, tokens: Sequence[Token]) -> bool:
        """Return whether these literals are the `tokens` of a text, none left out."""
        inside = [(each.start, each.end + 1) for each in tokens]
        quoted = [each.token_type is T.STRING for each in tokens]
        spans = [(s + q, e - q) for (s, e), q in zip(inside, quoted, strict=True)]
        written = [text[start:end] for start, end in spans]
        return spans == self.spans and written == self.literals


class _Shape(NamedTuple):
    """A template of texts that differ only in literals. Each clause begins some characters after
    the end of a literal: `places` are the number of the literal, from 1, and of the characters.
    """

    template: _Template
    places: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, template: _Template, starts: Sequence[int], written: _Written) -> _Shape:
        ends = [0, *(end for _, end in written.spans)]
        before = [sum(end <= start for end in ends) - 1 for start in starts]
        return cls(template, tuple((n, at - ends[n]) for n, at in zip(before, starts, strict=True)))

    def filled(self, text: str, written: _Written) -> ParsedQuestion | None:
        """Return the question of another text of this shape; None if it needs the parser."""
        spans = written.spans
        starts = [after + (spans[n - 1][1] if n else 0) for n, after in self.places]
        literals = [each.replace("''", "'") for each in written.literals]
        return self.template.filled(text, starts, literals)


def _literal_sql(kind: LiteralKind, text: str, known: frozenset[str]) -> str | None:
    """Return a literal as SQL; None if it must be parsed, as the parser might add notes."""
    if kind == "text":
        return "'" + text.replace("'", "''") + "'" if text in known else None
    return text if len(text) <= _DIGITS and text.isascii() and text.isdigit() else None


def _template(
    parsed: ParsedQuestion,
    tokens: Sequence[Tokens],
    question: TokenizedSql,
    literals: Sequence[Token],
    schema: Schema,
) -> _Template | None:
    """Return the template of a question, or None if there is none. `tokens` are those of clauses.

    Every literal must be part of a comparison of an integer or category, and the question must have
    no notes, which may depend on the literals.
    """
    query = parsed.query
    if query.notes:
        return None
    clauses: list[_Clause] = []
    compared: list[tuple[str, str]] = []
    firsts = {token.start: index for index, token in enumerate(question.tokens)}
    for clause, comparison, inside in zip(query.clauses, parsed.comparisons, tokens, strict=True):
        if comparison is None:
            return None
        domain = schema[clause.attributes[0]].domain
        if not isinstance(domain, IntegerRange | Category):
            return None
        parts = _parts(clause.sql, inside)
        if len(parts) != len(comparison.literals) + 1:  # TRUE and FALSE are literals, too
            return None
        compared += [(each.kind, each.text) for each in comparison.literals]
        first = firsts[clause.start]
        clauses.append(_Clause(first, clause.attributes, parts, comparison, _words(domain)))
    given = [(_LITERALS[token.token_type], token.text) for token in literals]
    # The literals of clauses are tokens of the question, in the same order. If the lists are equal,
    # there is no literal outside of the clauses.
    return _Template(query, tuple(clauses)) if given == compared else None


def _parts(sql: str, tokens: Tokens) -> tuple[str, ...]:
    """Return the text before, between and after the literals of a clause."""
    parts: list[str] = []
    start = 0
    for token in tokens:
        if token.token_type in _LITERALS:
            parts.append(sql[start : token.start])
            start = token.end + 1
    return (*parts, sql[start:])


@lru_cache(maxsize=256)
def _words(domain: IntegerRange | Category) -> frozenset[str]:
    """Return the texts in a domain."""
    values = domain.values if isinstance(domain, Category) else ()
    return frozenset(value for value in values if isinstance(value, str))
