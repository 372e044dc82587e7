"""parse: a SELECT statement to a `Query`.

The text is not trusted: every token must be known, and the first unknown one is pointed at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlglot import Token
from sqlglot import TokenType as T

from scumble.model.errors import QueryError
from scumble.model.query import Aggregate, Expression, Query, quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.public.sql.conditions import Span, read_clauses, strip
from scumble.public.sql.expressions import check_functions, read_expression
from scumble.public.sql.tokens import (
    AGGREGATES,
    NameResolver,
    TokenizedSql,
    is_word,
    refuse_unsupported,
)

__all__ = ["parse", "parse_tokens"]

_NO_TABLES: Mapping[str, Sequence[str]] = MappingProxyType({})


def parse(text: str, schema: Schema, tables: Mapping[str, Sequence[str]] = _NO_TABLES) -> Query:
    """Parse a question about a table of this schema.

    `tables` are the columns of public side tables by name, for `IN (SELECT ... FROM table)`. Raises
    `QueryError`, with a caret under the token, if the text cannot be parsed or is not supported.
    """
    return parse_tokens(TokenizedSql(text), schema, tables)


def parse_tokens(
    question: TokenizedSql, schema: Schema, tables: Mapping[str, Sequence[str]] = _NO_TABLES
) -> Query:
    """Parse a question that is tokenized already; see `parse`."""
    names = NameResolver(question, schema, tables)
    _ = question.closing  # unbalanced parentheses are rejected first
    refuse_unsupported(question, names.attributes)
    return Statement(question, names).read()


_AGGREGATES: dict[str, Aggregate] = {"count": "count", "sum": "sum", "avg": "mean", "mean": "mean"}
_NOT_AN_ALIAS = {T.FROM, T.COMMA, T.WHERE, T.GROUP_BY}
_ENDS = {T.FROM, T.COMMA}
_PLAIN = "Only columns and one aggregate can be selected: do arithmetic inside the aggregate."


@dataclass
class Selection:
    """The SELECT list: columns and one aggregate, as spans of tokens."""

    columns: list[Span] = field(default_factory=list)
    aliases: dict[str, Span] = field(default_factory=dict)
    places: list[Span | None] = field(default_factory=list)  # by position; None for the aggregate
    aggregate: Aggregate | None = None
    argument: Span | None = None  # None: COUNT(*)


class Statement:
    """Reads SELECT, FROM, WHERE and GROUP BY from left to right; `at` is the next token."""

    def __init__(self, question: TokenizedSql, names: NameResolver) -> None:
        self.question, self.names = question, names
        self.at = 0

    def read(self) -> Query:
        """Return the query; every token must have been read."""
        selection = self._read_select()
        self._read_from()
        condition = self._read_where()
        groups = self._read_groups(selection)
        if (left := self._peek()) is not None:
            raise self._unexpected(left)
        clauses: list[Expression] = []
        notes: list[str] = []
        if condition is not None:
            for clause, about in read_clauses(self.question, self.names, condition):
                clauses.append(clause)
                notes += about
        argument = self._read_argument(selection, clauses)
        assert selection.aggregate is not None  # noqa: S101  (_read_select saw to it)
        unique = tuple(dict.fromkeys(notes))
        return Query(
            selection.aggregate, argument, tuple(clauses), groups, self.question.text, unique
        )

    # SELECT

    def _read_select(self) -> Selection:
        self.at = 1  # after SELECT, which refuse_unsupported checked
        selection = Selection()
        while True:
            self._read_item(selection)
            after = self._next("FROM is missing.")
            if after.token_type is T.FROM:
                break
            if after.token_type is not T.COMMA:
                raise self._unexpected_item(after, selection)
        if selection.aggregate is None:
            raise self.question.error(
                f"The question must ask for an aggregate: {AGGREGATES}.", self.question.tokens[1]
            )
        return selection

    def _read_item(self, selection: Selection) -> None:
        """Read one entry of the SELECT list, with its alias."""
        token = self._peek()
        if token is None or token.token_type in _ENDS:
            raise self.question.error("A column or an aggregate is missing here.", token)
        if token.token_type is T.STAR:
            raise self.question.error(f"SELECT * is not supported: {AGGREGATES}.", token)
        if not is_word(token):
            raise self.question.error(_PLAIN, token)
        start = self.at
        if self._kind(1) is T.L_PAREN:
            self._read_aggregate(token, selection)
            span = None
        else:
            self._read_column_tokens()
            span = (start, self.at)
            selection.columns.append(span)
        selection.places.append(span)
        alias = self._read_alias()
        if alias is not None and span is not None:
            selection.aliases[alias.text.lower()] = span

    def _read_aggregate(self, token: Token, selection: Selection) -> None:
        name = token.text.lower()
        if name not in _AGGREGATES:
            check_functions(self.question, self.question.tokens[self.at : self.at + 2])
            raise self.question.error(
                f"Only columns and one aggregate can be selected, not {token.text}(...).", token
            )
        if selection.aggregate is not None:
            raise self.question.error("Ask for one aggregate at a time.", token)
        selection.aggregate = _AGGREGATES[name]
        start, end = self.at + 2, self.question.closing[self.at + 1]
        self.at = end + 1
        star = end == start + 1 and self.question.tokens[start].token_type is T.STAR
        if name == "count" and (star or start == end):
            return
        if star or start == end:
            raise self.question.error(f"{token.text} needs an expression to add up.", token)
        selection.argument = strip(self.question, (start, end))

    def _read_argument(self, selection: Selection, clauses: list[Expression]) -> Expression | None:
        """Return the summand. As in SQL, rows where it is NULL are excluded, by one more clause."""
        if selection.argument is None:
            return None
        start, end = selection.argument
        tokens = self.question.tokens[start:end]
        plain = end - start == 1 and is_word(tokens[0])
        if plain and tokens[0].text.lower() in self.names.attributes:
            attribute = self.names.attribute(tokens[0])
            found = Expression(quoted(attribute.name), (attribute.name,), tokens[0].start)
            optional = attribute.missing
        else:
            found = read_expression(self.question, self.names, tokens)
            optional = True
        if optional:
            sql = f"({found.sql}) IS NOT NULL"
            clauses.append(Expression(sql, found.attributes, found.start))
        if selection.aggregate == "count":
            return None
        return found

    # FROM, WHERE, GROUP BY

    def _read_from(self) -> None:
        """Read FROM; any table name is accepted, because a release holds one table."""
        token = self._next("The name of a table is missing after FROM.")
        if token.token_type is T.L_PAREN:
            raise self.question.error("A sub-select in FROM is not supported: name a table.", token)
        if not is_word(token) or token.token_type in _NOT_AN_ALIAS:
            raise self.question.error("FROM takes the name of a table, such as t.", token)
        if self._kind() is T.L_PAREN:
            raise self.question.error("FROM takes the name of a table, not a function.", token)
        if token.text.lower() in self.names.tables:
            raise self.question.error(
                f"'{token.text}' is a public side table: questions are about the view. A side "
                "table can be used as IN (SELECT column FROM table).",
                token,
            )
        while self._kind() is T.DOT:
            self.at += 1
            token = self._next("A name is missing after the point.")
        if self._kind() is T.DASH:
            raise self.question.error("Put a name with a hyphen into double quotes.", token)
        alias = self._read_alias()
        self.names.view = (alias or token).text.lower()

    def _read_where(self) -> Span | None:
        if self._kind() is not T.WHERE:
            return None
        start = self.at = self.at + 1
        while (token := self._peek()) is not None and token.token_type is not T.GROUP_BY:
            self.at = self.question.closing.get(self.at, self.at) + 1
        if start == self.at:
            raise self.question.error("A condition is missing after WHERE.", token)
        return start, self.at

    def _read_groups(self, selection: Selection) -> tuple[str, ...]:
        """Return the selected columns in their order, then those that only GROUP BY names."""
        selected = {span: self._attribute(span).name for span in selection.columns}
        grouped = self._read_group_by(selection)
        for span, name in selected.items():
            if name not in grouped:
                raise self.question.error(
                    f"'{name}' is selected but not in GROUP BY.", self.question.tokens[span[0]]
                )
        return tuple(dict.fromkeys([*selected.values(), *grouped]))

    def _read_group_by(self, selection: Selection) -> list[str]:
        if self._kind() is not T.GROUP_BY:
            return []
        self.at += 1
        if self._kind() is T.ALL and self.at + 1 == len(self.question.tokens):
            self.at += 1
            return [self._attribute(span).name for span in selection.columns]
        grouped = [self._read_group(selection).name]
        while self._kind() is T.COMMA:
            self.at += 1
            grouped.append(self._read_group(selection).name)
        return grouped

    def _read_group(self, selection: Selection) -> Attribute:
        """Read a column, the alias of a selected one, or its position."""
        token = self._peek()
        if token is None:
            raise self.question.error("A column is missing after GROUP BY.")
        if token.token_type is T.NUMBER:
            self.at += 1
            return self._attribute(self._position(token, selection))
        if is_word(token) and self._kind(1) is T.L_PAREN:
            raise self.question.error("GROUP BY must name columns, not expressions.", token)
        start = self.at
        self._read_column_tokens()
        if self._kind() not in (None, T.COMMA) and not is_word(self.question.tokens[self.at]):
            raise self.question.error("GROUP BY must name columns, not expressions.", token)
        alias = token.text.lower()
        if alias not in self.names.attributes and alias in selection.aliases:
            return self._attribute(selection.aliases[alias])
        return self._attribute((start, self.at))

    def _position(self, token: Token, selection: Selection) -> Span:
        number = int(token.text) if token.text.isdigit() else 0
        span = selection.places[number - 1] if 0 < number <= len(selection.places) else None
        if span is None:
            raise self.question.error(
                f"{token.text} is not the position of a selected column.", token
            )
        return span

    # Tokens

    def _read_column_tokens(self) -> None:
        """Read `column` or `table.column`."""
        token = self._next("")
        if not is_word(token):
            raise self.question.error("The name of a column is expected here.", token)
        if self._kind() is T.DOT:
            self.at += 1
            if not is_word(last := self._next("The name of a column is missing after the point.")):
                raise self.question.error("The name of a column is expected here.", last)

    def _attribute(self, span: Span) -> Attribute:
        start, end = span
        if end - start > 1:
            self.names.check_qualifier(self.question.tokens[start])
        return self.names.attribute(self.question.tokens[end - 1])

    def _read_alias(self) -> Token | None:
        kind = self._kind()
        if kind is T.ALIAS:
            self.at += 1
            alias = self._next("A name is missing after AS.")
            if not is_word(alias) or alias.token_type in _NOT_AN_ALIAS:
                raise self.question.error("A name is missing after AS.", alias)
            return alias
        if kind in (T.VAR, T.IDENTIFIER):
            return self._next("")
        return None

    def _peek(self) -> Token | None:
        return self.question.tokens[self.at] if self.at < len(self.question.tokens) else None

    def _kind(self, ahead: int = 0) -> T | None:
        place = self.at + ahead
        return self.question.tokens[place].token_type if place < len(self.question.tokens) else None

    def _next(self, missing: str) -> Token:
        token = self._peek()
        if token is None:
            raise self.question.error(missing)
        self.at += 1
        return token

    def _unexpected(self, token: Token) -> QueryError:
        if token.token_type is T.COMMA:
            return self.question.error(
                "Joins are not supported: a question is about one table.", token
            )
        return self.question.error(f"'{token.text}' is not supported here.", token)

    def _unexpected_item(self, token: Token, selection: Selection) -> QueryError:
        if selection.places[-1] is not None:
            self.names.attribute(self.question.tokens[self.at - 2])  # advice on `education-num`
        return self.question.error(_PLAIN, token)
