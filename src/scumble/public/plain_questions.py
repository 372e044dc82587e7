"""Plain questions, read without sqlglot, whose import takes as long as a whole answer.

A plain question is one COUNT(*), SUM or AVG of a column with comparisons of columns and literals
that AND joins, and with GROUP BY columns:

    SELECT sex, AVG(age) FROM t WHERE job IN ('nurse', 'cook') AND age >= 30 GROUP BY sex

The result is that of `scumble.public.sql.parse`. Every text for which that is not obvious, and
every text with a mistake, is left to the parser: the reader returns None and never guesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from scumble.model.evidence.evidence import Evidence
from scumble.model.evidence.parts import Parts
from scumble.model.query import (
    Aggregate,
    ComparedLiteral,
    Comparison,
    Expression,
    LiteralKind,
    Operator,
    ParsedQuestion,
    Query,
    quoted,
)
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category
from scumble.model.schema.schema import Schema
from scumble.public.sql_words import KEYWORDS

if TYPE_CHECKING:
    from scumble.public.sandbox import Sandbox
    from scumble.public.sql.select_plan import SelectPlan

_LONGEST = 10_000
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<word>[A-Za-z_][A-Za-z0-9_]*)(?!['"\w])
      | "(?P<name>[^"\0]+)"(?!["\w])
      | '(?P<text>(?:[^'\0]|'')*+)'(?!\w)
      | (?P<number>[0-9]{1,15}(?:\.[0-9]{1,15})?)(?![\w.])
      | (?P<symbol><=|>=|<>|!=|[=<>](?![=<>~@])|[(),*;])
    )""",
    re.VERBOSE,
)
_AGGREGATES: dict[str, Aggregate] = {"COUNT": "count", "SUM": "sum", "AVG": "mean"}
_COMPARISONS: dict[str, Operator] = {
    "=": "=",
    "<>": "<>",
    "!=": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_LISTS: dict[str, Operator] = {"IN": "IN", "BETWEEN": "BETWEEN"}
_LITERALS: dict[str, LiteralKind] = {"text": "text", "number": "number"}
_UNORDERED = {"=", "<>", "!=", "IN"}


class _Token(NamedTuple):
    """A token: its kind, its text without quotes, and its offset. Words are in upper case too."""

    kind: str
    text: str
    start: int
    upper: str


_END = _Token("end", "", 0, "")


def sequence_asked_about(evidence: Evidence, sql: str) -> str | None:
    """Return the sequences that a question is about, if it is to be read as one about strings:
    where there is nothing else, or where it names them by a list or by `occurrences`.
    """
    design = getattr(evidence, "design", None)
    if isinstance(design, Parts):
        listed = "[" in sql or "occurrences" in sql.lower()
        found = (sequence_asked_about(part, sql) for part in design.parts)
        return next(filter(None, found), None) if listed else None
    return evidence.columns[0] if getattr(design, "kind", "") == "strings" else None


def read_question(text: str, schema: Schema, sandbox: Sandbox) -> Query | SelectPlan:
    """Return the question or plan of a SQL text, about a view and the side tables of a sandbox.

    The sandbox must be one of this question alone if the text begins with WITH.
    """
    plain = plain_question(text, schema, sandbox.columns)
    if plain is not None:
        return plain
    from scumble.public.sql.parse import read_select_with

    return read_select_with(text, schema, sandbox)


def plain_question(text: str, schema: Schema, tables: Iterable[str] = ()) -> Query | None:
    """Return the question that a SQL text asks, or None if only the parser can read it.

    `tables` are the names of public side tables.
    """
    found = plain_parsed(text, schema, tables)
    return None if found is None else found.query


def plain_parsed(text: str, schema: Schema, tables: Iterable[str] = ()) -> ParsedQuestion | None:
    """Return a plain question with its comparisons, as `sql.templates` does, or None."""
    tokens = _tokens(text)
    if tokens is None:
        return None
    try:
        return _Reader(text, tokens, schema, tables).read()
    except _NotPlainError:
        return None


class _NotPlainError(Exception):
    """The question is left to the parser."""


def _tokens(text: str) -> list[_Token] | None:
    """Return the tokens of a text; None if it has anything but plain ones."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    text = text.rstrip(" \t\r\n;")
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            return None
        kind, at = match.lastgroup, match.end()
        value, start = match[kind], match.start(kind)
        if kind in ("name", "text"):
            value, start = value.replace("''", "'") if kind == "text" else value, start - 1
        found.append(_Token(kind, value, start, value.upper() if kind == "word" else ""))
    return found


class _Reader:
    """Reads the tokens of one question from left to right."""

    def __init__(
        self, text: str, tokens: list[_Token], schema: Schema, tables: Iterable[str]
    ) -> None:
        self._text, self._tokens, self._at = text, tokens, 0
        self._tables = {table.lower() for table in tables}
        self._attributes = {attribute.name.lower(): attribute for attribute in schema}
        self._comparisons: list[Comparison] = []

    def read(self) -> ParsedQuestion:
        """Return the question; raise `_NotPlainError` at the first token that is not plain."""
        self._need("SELECT")
        selected: list[str] = []
        aggregate: Aggregate | None = None
        argument: Expression | None = None
        exists: list[Expression] = []
        alias = ""
        while True:
            if self._is_call():
                if aggregate is not None:
                    raise _NotPlainError
                aggregate, argument, exists = self._aggregate()
                if self._skip("AS"):
                    alias = self._any_name()
            else:
                selected.append(self._column()[0].name)
            if not self._skip(","):
                break
        self._need("FROM")
        if self._any_name().lower() in self._tables:
            raise _NotPlainError
        clauses = self._clauses() if self._skip("WHERE") else []
        groups = self._groups() if self._skip("GROUP") else []
        if aggregate is None or self._at < len(self._tokens) or not set(selected) <= set(groups):
            raise _NotPlainError
        order = [*selected, *(name for name in groups if name not in selected)]
        if len(set(order)) < len(order) or len(order) > len(groups):
            raise _NotPlainError
        aliases = (*("" for _ in order), alias) if alias else ()
        query = Query(
            aggregate, argument, (*clauses, *exists), tuple(order), self._text, aliases=aliases
        )
        return ParsedQuestion(query, (*self._comparisons, *(None for _ in exists)))

    # Parts of the question.

    def _aggregate(self) -> tuple[Aggregate, Expression | None, list[Expression]]:
        """Read COUNT(*), SUM(column) or AVG(column); also return that the column is not NULL."""
        kind = _AGGREGATES.get(self._next().upper)
        self._need("(")
        if kind is None:
            raise _NotPlainError
        if kind == "count":
            self._need("*")
            self._need(")")
            return kind, None, []
        attribute, token = self._column()
        self._need(")")
        found = Expression(quoted(attribute.name), (attribute.name,), token.start)
        if not attribute.missing:
            return kind, found, []
        return (
            kind,
            found,
            [Expression(f"({found.sql}) IS NOT NULL", found.attributes, found.start)],
        )

    def _any_name(self) -> str:
        """Read the name of a table or of a number."""
        token = self._next()
        if token.kind != "name" and (token.kind != "word" or token.upper in KEYWORDS):
            raise _NotPlainError
        return token.text

    def _groups(self) -> list[str]:
        self._need("BY")
        found = [self._column()[0].name]
        while self._skip(","):
            found.append(self._column()[0].name)
        if len(set(found)) < len(found):
            raise _NotPlainError
        return found

    def _clauses(self) -> list[Expression]:
        found = [self._comparison()]
        while self._skip("AND"):
            found.append(self._comparison())
        return found

    def _comparison(self) -> Expression:
        """Read `column operator literals`."""
        attribute, token = self._column()
        negated = "NOT " if self._skip("NOT") else ""
        operator = self._next()
        if operator.text in _COMPARISONS and operator.kind == "symbol" and not negated:
            literals = [self._literal()]
            sql = f"{operator.text} {_sql(literals[0])}"
        elif operator.upper == "BETWEEN":
            literals = [self._literal()]
            self._need("AND")
            literals.append(self._literal())
            sql = f"BETWEEN {_sql(literals[0])} AND {_sql(literals[1])}"
        elif operator.upper == "IN":
            literals = self._listed()
            sql = f"IN ({', '.join(map(_sql, literals))})"
        else:
            raise _NotPlainError
        written = operator.upper or operator.text
        _check_literals(attribute, written, literals)
        values = tuple(ComparedLiteral(_LITERALS[each.kind], each.text) for each in literals)
        known = _COMPARISONS.get(written) or _LISTS[written]
        comparison = Comparison(attribute.name, known, values, bool(negated))
        self._comparisons.append(comparison)
        written = f"{quoted(attribute.name)} {negated}{sql}"
        return Expression(written, (attribute.name,), token.start, comparison=comparison)

    def _listed(self) -> list[_Token]:
        self._need("(")
        found = [self._literal()]
        while self._skip(","):
            found.append(self._literal())
        self._need(")")
        return found

    def _literal(self) -> _Token:
        token = self._next()
        if token.kind not in ("text", "number"):
            raise _NotPlainError
        return token

    def _column(self) -> tuple[Attribute, _Token]:
        """Read the name of a published column with one value per row."""
        token = self._next()
        found = self._attributes.get(token.text.lower())
        if token.kind not in ("word", "name") or token.upper in KEYWORDS:
            raise _NotPlainError
        if found is None or found.domain is None or not found.tabular:
            raise _NotPlainError
        return found, token

    # Tokens.

    def _is_call(self) -> bool:
        """Return whether a parenthesis stands after the next token."""
        after = self._tokens[self._at + 1 : self._at + 2]
        return bool(after) and after[0].kind == "symbol" and after[0].text == "("

    def _next(self) -> _Token:
        token = self._tokens[self._at] if self._at < len(self._tokens) else _END
        self._at += 1
        return token

    def _skip(self, word: str) -> bool:
        """Read a keyword or symbol if it is the next token; return whether it is."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else _END
        found = token.upper == word or (token.kind == "symbol" and token.text == word)
        self._at += found
        return found

    def _need(self, word: str) -> None:
        if not self._skip(word):
            raise _NotPlainError


def _sql(literal: _Token) -> str:
    if literal.kind == "number":
        return literal.text
    return "'" + literal.text.replace("'", "''") + "'"


def _check_literals(attribute: Attribute, operator: str, literals: list[_Token]) -> None:
    """Leave to the parser what needs a note, and comparisons by the order of texts."""
    domain = attribute.domain
    if not isinstance(domain, Category):
        return
    if operator not in _UNORDERED and domain.ordered and isinstance(domain.values[0], str):
        raise _NotPlainError
    known = {str(value) for value in domain.values}
    if any(each.kind == "text" and each.text not in known for each in literals):
        raise _NotPlainError
