"""FROM: the name of the view, and joins with public side tables. WITH: side tables by name.

A side table is keyed by a column whose values are unique. So each of its columns is a function of
the row of the view, and is written as a scalar sub-select. An inner join excludes rows without a
partner by one more clause; a left join gives NULL for them.

WITH name AS (SELECT ... FROM table WHERE ...) makes one more side table of another, which is
computed before the question is read. Of the view itself it chooses rows, as a sub-select in FROM
does: their condition is one more clause, and their columns are columns or expressions of the view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import Token
from sqlglot import TokenType as T

from scumble.model.errors import QueryError
from scumble.model.query import Expression, quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.public.sandbox import Sandbox
from scumble.public.sql.aggregates import find_calls
from scumble.public.sql.conditions import Span, read_clauses, strip
from scumble.public.sql.expressions import read_expression
from scumble.public.sql.items import read_items
from scumble.public.sql.select_plan import Join
from scumble.public.sql.tokens import (
    JoinedTable,
    NameResolver,
    TokenizedSql,
    View,
    is_word,
    refuse_unsupported,
)

_CLAUSES = {T.FROM, T.COMMA, T.WHERE, T.GROUP_BY, T.HAVING, T.ORDER_BY, T.LIMIT, T.OFFSET}
_JOINS = {T.JOIN, T.LEFT, T.INNER, T.RIGHT, T.FULL, T.CROSS, T.NATURAL, T.ASOF, T.OUTER}
_NOT_A_NAME = _CLAUSES | _JOINS | {T.ON, T.USING}
_KEYED = (
    "A side table is joined by ON expression = table.column, or by USING (column); other "
    "conditions belong into WHERE."
)
_KINDS = "Only JOIN (inner) and LEFT JOIN with a public side table are supported."


@dataclass
class FromReader:
    """Reads from the token after FROM on; `at` is the next token."""

    question: TokenizedSql
    names: NameResolver
    at: int
    joins: tuple[Join, ...] = ()
    notes: tuple[str, ...] = ()

    def read(self) -> tuple[int, list[Expression]]:
        """Return the index of the token after FROM, and the clauses of WITH and of inner joins."""
        clauses = self._view()
        while (kind := self._kind()) in _JOINS or kind is T.COMMA:
            clauses += self._join()
        return self.at, clauses

    def _view(self) -> list[Expression]:
        """Read the table; any name is accepted, because a release holds one table.

        Return the condition of its rows, if they are those of a sub-select.
        """
        token = self._next("The name of a table is missing after FROM.")
        if token.token_type is T.L_PAREN:
            end = self.question.closing[self.at - 1]
            body = self.question.part(self.at, end)
            view = read_view(body, self.names.nested(body), token)
            self.at = end + 1
            alias = self._alias()
            self.names.view = "" if alias is None else alias.text.lower()
            return self._use(view)
        if not is_word(token) or token.token_type in _CLAUSES:
            raise self.question.error("FROM takes the name of a table, such as t.", token)
        if self._kind() is T.L_PAREN:
            raise self.question.error("FROM takes the name of a table, not a function.", token)
        if token.text.lower() in self.names.tables:
            raise self.question.error(
                f"'{token.text}' is a public side table: questions are about the view. Name the "
                "view first and JOIN the side table, or use IN (SELECT column FROM table).",
                token,
            )
        while self._kind() is T.DOT:
            self.at += 1
            token = self._next("A name is missing after the point.")
        if self._kind() is T.DASH:
            raise self.question.error("Put a name with a hyphen into double quotes.", token)
        name = token.text.lower()
        self.names.view = (self._alias() or token).text.lower()
        if name in self.question.views:
            return self._use(self.question.views[name])
        self.question.table = name
        return []

    def _use(self, view: View) -> list[Expression]:
        """Let names stand for the columns of a sub-select; return the condition of its rows."""
        self.names.attributes, self.names.named = dict(view.attributes), dict(view.named)
        self.question.table, self.notes = view.table, view.notes
        return list(view.clauses)

    def _join(self) -> list[Expression]:
        """Read one join; return the clause of an inner one."""
        first, words = self.question.tokens[self.at], []
        while (token := self._next(_KINDS)).token_type is not T.JOIN:
            words.append(token.token_type)
            if token.token_type not in (T.LEFT, T.INNER, T.OUTER):
                raise self.question.error(_KINDS, token)
        if words not in ([], [T.INNER], [T.LEFT], [T.LEFT, T.OUTER]):
            raise self.question.error(_KINDS, first)
        token = self._next("The name of a public side table is missing after JOIN.")
        if not is_word(token) or self._kind() is T.L_PAREN:
            raise self.question.error("JOIN takes the name of a public side table.", token)
        name, columns = self.names.side_table(token, "JOIN")
        called = (self._alias() or token).text.lower()
        if called == self.names.view or called in self.names.joins:
            raise self.question.error(
                f"Two tables are called '{called}': give one an alias.", token
            )
        key, expression = self._condition(called, columns)
        joined = JoinedTable(name, columns, key, expression.sql, expression.attributes)
        self.names.joins[called] = joined
        self.joins = (*self.joins, Join(name, key))
        if words[:1] == [T.LEFT]:
            return []
        sql = f"({expression.sql}) IN (SELECT {quoted(key)} FROM {quoted(name)})"
        return [Expression(sql, expression.attributes, first.start)]

    def _condition(self, called: str, columns: dict[str, str]) -> tuple[str, Expression]:
        """Return the key of the side table, and the expression that it is compared with."""
        token = self._next(_KEYED)
        if token.token_type is T.USING and self._kind() is T.L_PAREN:
            end = self.question.closing[self.at]
            if end != self.at + 2:
                raise self.question.error("USING takes one column.", token)
            column = self.question.tokens[self.at + 1]
            self.at = end + 1
            self.names.using.add(column.text.lower())
            key = self.names.side_column(column, called, columns)
            attribute = self.names.attribute(column)
            return key, Expression(quoted(attribute.name), (attribute.name,), column.start)
        if token.token_type is not T.ON:
            raise self.question.error(_KEYED, token)
        start = self.at
        while self._kind() not in _JOINS | _CLAUSES and self._kind() is not None:
            self.at = self.question.closing.get(self.at, self.at) + 1
        if start == self.at:
            raise self.question.error(_KEYED, token)
        return self._equality(strip(self.question, (start, self.at)), called, columns)

    def _equality(self, span: Span, called: str, columns: dict[str, str]) -> tuple[str, Expression]:
        tokens = self.question.tokens
        marks = [at for at in range(*span) if tokens[at].token_type is T.EQ]
        if len(marks) != 1:
            raise self.question.error(_KEYED, tokens[span[0]])
        sides = [(span[0], marks[0]), (marks[0] + 1, span[1])]
        for key, other in (sides, sides[::-1]):
            column = self._own_column(key, called, columns)
            if column is not None and other[0] < other[1]:
                expression = read_expression(self.question, self.names, tokens[slice(*other)])
                if expression.attributes:
                    return column, expression
        raise self.question.error(_KEYED, tokens[span[0]])

    def _own_column(self, span: Span, called: str, columns: dict[str, str]) -> str | None:
        """Return the column of the side table that these tokens are, or None."""
        tokens = self.question.tokens[slice(*span)]
        if len(tokens) == 3 and tokens[1].token_type is T.DOT:
            return columns.get(tokens[2].text.lower()) if tokens[0].text.lower() == called else None
        if len(tokens) == 1 and tokens[0].text.lower() not in self.names.attributes:
            return columns.get(tokens[0].text.lower())
        return None

    def _alias(self) -> Token | None:
        kind = self._kind()
        if kind is T.ALIAS:
            self.at += 1
            alias = self._next("A name is missing after AS.")
            if not is_word(alias) or alias.token_type in _NOT_A_NAME:
                raise self.question.error("A name is missing after AS.", alias)
            return alias
        if kind in (T.VAR, T.IDENTIFIER):
            return self._next("")
        return None

    def _kind(self) -> T | None:
        inside = self.at < len(self.question.tokens)
        return self.question.tokens[self.at].token_type if inside else None

    def _next(self, missing: str) -> Token:
        if self.at >= len(self.question.tokens):
            raise self._missing(missing)
        self.at += 1
        return self.question.tokens[self.at - 1]

    def _missing(self, sentence: str) -> QueryError:
        return self.question.error(sentence)


_WITH = "WITH is written as WITH name AS (SELECT columns FROM table WHERE ...) SELECT ..."
_ROWS = (
    "WITH and a sub-select in FROM choose rows and columns: (SELECT columns FROM t WHERE ...). "
    "Write the rest into the question itself."
)


def read_with(
    question: TokenizedSql,
    schema: Schema,
    tables: Mapping[str, Sequence[str]],
    sandbox: Sandbox | None,
) -> TokenizedSql:
    """Return the question after WITH.

    What WITH makes of public side tables is added to the sandbox of this question, and rows of the
    view to `views`. Raises `QueryError` for anything else.
    """
    if question.tokens[0].token_type is not T.WITH:
        return question
    tokens, at = question.tokens, 1
    while True:
        kinds = [token.token_type for token in tokens[at : at + 3]]
        if len(kinds) < 3 or not is_word(tokens[at]) or kinds[1:] != [T.ALIAS, T.L_PAREN]:
            raise question.error(_WITH, tokens[min(at, len(tokens) - 1)])
        end, name = question.closing[at + 2], tokens[at]
        body = question.part(at + 3, end)
        known = tables if sandbox is None else sandbox.columns
        taken = {table.lower() for table in known} | {"view", *question.views}
        if name.text.lower() in taken:
            raise question.error(
                f"There is a table '{name.text}' already: choose another name.", name
            )
        if _reads(body, known):
            if sandbox is None:
                raise question.error("WITH of a public side table needs that table.", name)
            _add_table(body, name, sandbox)
        else:
            names = NameResolver(body, schema, known)
            question.views[name.text.lower()] = read_view(body, names, name)
        at = end + 2
        if end + 1 >= len(tokens) or tokens[end + 1].token_type is not T.COMMA:
            break
    if end + 1 >= len(tokens):
        raise question.error("A question is missing after WITH.")
    return question.part(end + 1)


def _reads(body: TokenizedSql, tables: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a SELECT reads a public side table."""
    outer = _outer(body)
    start = next((at for at in outer if body.tokens[at].token_type is T.FROM), len(body.tokens))
    after = body.tokens[start + 1 : start + 2]
    return bool(after) and after[0].text.lower() in {table.lower() for table in tables}


def read_view(body: TokenizedSql, names: NameResolver, blamed: Token) -> View:
    """Return the rows of the view that (SELECT columns FROM t WHERE ...) chooses; `names` are its
    own.
    """
    if not body.tokens or body.tokens[0].token_type is not T.SELECT:
        raise body.error(_ROWS, body.tokens[0] if body.tokens else blamed)
    refuse_unsupported(body, names.attributes)
    tokens, outer = body.tokens, _outer(body)
    start = next((at for at in outer if tokens[at].token_type is T.FROM), len(tokens))
    if start == len(tokens):
        raise body.error(_ROWS, tokens[0])
    source = FromReader(body, names, start + 1)
    at, clauses = source.read()
    if source.joins:
        raise body.error("JOIN stands in the question itself, after FROM.", tokens[start])
    notes = list(source.notes)
    if at < len(tokens):
        ends = (each for each in outer if each > at and tokens[each].token_type in _CLAUSES)
        end = next(ends, len(tokens))
        if tokens[at].token_type is not T.WHERE or end < len(tokens):
            wrong = tokens[at if tokens[at].token_type is not T.WHERE else end]
            raise body.error(f"'{wrong.text}' is not supported here. {_ROWS}", wrong)
        if at + 1 == end:
            raise body.error("A condition is missing after WHERE.", tokens[at])
        for clause, about in read_clauses(body, names, (at + 1, end)):
            clauses.append(clause)
            notes += about
    attributes, named = names.attributes, names.named
    if start != 2 or tokens[1].token_type is not T.STAR:
        attributes, named = _columns(body, names, (1, start))
    return View(body.table, attributes, named, tuple(clauses), tuple(notes))


def _columns(
    body: TokenizedSql, names: NameResolver, span: Span
) -> tuple[dict[str, Attribute], dict[str, Expression]]:
    """Return the selected columns by lower-case name: those of the view, and expressions."""
    attributes, named = dict[str, Attribute](), dict[str, Expression]()
    for item in read_items(body, span):
        tokens = body.tokens[slice(*item.span)]
        aggregate = next(iter(find_calls(body, item.span)), None)
        if aggregate is not None:
            token = body.tokens[aggregate.span[0]]
            raise body.error(f"An aggregate is not supported here. {_ROWS}", token)
        column_alone = len(tokens) == 1 or [t.token_type for t in tokens[1:-1]] == [T.DOT]
        name = item.name or (tokens[-1].text if column_alone and is_word(tokens[-1]) else "")
        if not name:
            raise body.error("Give this expression a name by AS.", tokens[0])
        if name.lower() in (*attributes, *named):
            raise body.error(f"Two columns are called '{name}': give one an alias.", tokens[0])
        found = read_expression(body, names, tokens)
        column = names.column(found)
        if column is not None:
            attributes[name.lower()] = column
        else:
            named[name.lower()] = replace(found, start=-1)
    return attributes, named


def _add_table(body: TokenizedSql, name: Token, sandbox: Sandbox) -> None:
    """Add the table of one SELECT from a public side table to the sandbox."""
    refuse_unsupported(body, ())
    kinds = [token.token_type for token in body.tokens]
    outer = _outer(body)
    start = next((at for at in outer if kinds[at] is T.FROM), None)
    if start is None or start + 1 >= len(kinds):
        raise body.error(_WITH, body.tokens[0])
    tables = NameResolver(body, sandbox.schema, sandbox.columns)
    table, columns = tables.side_table(body.tokens[start + 1], "WITH")
    attributes = [Attribute(column, "quasi", IntegerRange(0, 1)) for column in columns.values()]
    names = NameResolver(body, Schema(tuple(attributes)), {})
    where = next((at for at in outer if kinds[at] is T.WHERE), len(kinds))
    called = [token for token in body.tokens[start + 2 : where] if token.token_type is not T.ALIAS]
    if len(called) > 1 or not all(map(is_word, called)) or where == len(kinds) - 1:
        raise body.error(_WITH, body.tokens[min(start + 2, len(kinds) - 1)])
    names.view = (called or [body.tokens[start + 1]])[0].text.lower()
    listed = []
    for item in read_items(body, (1, start)):
        first, last = body.tokens[item.span[0]], body.tokens[item.span[1] - 1]
        column = item.name or (
            last.text if is_word(last) else body.text[first.start : last.end + 1]
        )
        found = read_expression(body, names, body.tokens[slice(*item.span)])
        listed.append(f"({found.sql}) AS {quoted(column)}")
    span = (where + 1, len(kinds))
    clauses = [clause for clause, _ in read_clauses(body, names, span)] if span[0] < span[1] else []
    condition = " AND ".join(f"({clause.sql})" for clause in clauses) or "true"
    sql = f"SELECT {', '.join(listed)} FROM {quoted(table)} WHERE {condition}"
    sandbox.add_table(name.text, sandbox.rows(sql))


def _outer(question: TokenizedSql) -> list[int]:
    """Return the indices of the tokens that are not inside of parentheses."""
    found, at = [], 0
    while at < len(question.tokens):
        found.append(at)
        at = question.closing.get(at, at) + 1
    return found
