"""Questions about sequences: SQL in which lists of values stand for strings.

SELECT COUNT(*) FROM t WHERE pages[1:2] = ['home', 'news']   sequences that begin so
SELECT COUNT(*) FROM t WHERE pages = ['home', 'news']        sequences that are so
SELECT SUM(occurrences(pages, ['home', 'news'])) FROM t      how often they follow each other
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from sqlglot import Token
from sqlglot import TokenType as T

from scumble.model.errors import QueryError
from scumble.model.query import Aggregate, ListQuery
from scumble.model.schema.lists import ListDomain
from scumble.model.schema.schema import Schema
from scumble.public.sql.tokens import TokenizedSql

PatternRule = Literal["all", "prefix", "whole", "occurrences"]

_FORMS = (
    "A release of sequences answers SELECT COUNT(*) FROM t WHERE {0}[1:2] = ['a', 'b'], and "
    "SELECT SUM(occurrences({0}, ['a', 'b'])) FROM t."
)


@dataclass(frozen=True)
class StringQuery(ListQuery):
    """A question about the string `codes`: the sequences that begin with it, that are it, or how
    often it occurs. "all" asks for the number of sequences.
    """

    asked: PatternRule = "all"
    codes: tuple[int, ...] = ()
    column: str = ""

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.column,)


def read_strings(text: str, schema: Schema, column: str) -> StringQuery:
    """Read a question about the sequences `column`; QueryError for any other."""
    return _Reader(TokenizedSql(text), schema[column].lists, column).read()


class _Reader:
    """Reads the tokens of one question from left to right."""

    def __init__(self, question: TokenizedSql, lists: ListDomain, column: str) -> None:
        self.question, self.lists, self.column, self.at = question, lists, column, 0

    def read(self) -> StringQuery:
        self._read_words("select")
        if self._peek_word() == "sum":
            self._read_words("sum", "(", "occurrences", "(")
            self._read_column()
            self._read_words(",")
            codes = self._read_list()
            self._read_words(")", ")")
            aliases = self._read_from()
            return self._make_query("sum", "occurrences", codes, aliases)
        self._read_words("count", "(", "*", ")")
        aliases = self._read_from()
        asked, codes = self._read_condition() if self._peek_word() == "where" else ("all", ())
        return self._make_query("count", asked, codes, aliases)

    def _make_query(
        self,
        aggregate: Aggregate,
        asked: PatternRule,
        codes: tuple[int, ...],
        aliases: tuple[str, ...],
    ) -> StringQuery:
        """Return the question, after which nothing may follow."""
        if self._peek_token() is not None:
            raise self._make_error()
        return StringQuery(
            aggregate,
            text=self.question.text,
            aliases=aliases,
            asked=asked,
            codes=codes,
            column=self.column,
        )

    def _read_condition(self) -> tuple[PatternRule, tuple[int, ...]]:
        self._read_words("where")
        self._read_column()
        if self._peek_word() != "[":
            self._read_words("=")
            return "whole", self._read_list()
        self._read_words("[", "1", ":")
        token = self._peek_token()
        if token is None or not (token.text.isascii() and token.text.isdigit()):
            raise self._make_error()
        length = int(token.text[:9])
        self.at += 1
        self._read_words("]", "=")
        list_token = self._peek_token()
        codes = self._read_list()
        if len(codes) != length:
            raise self.question.error(
                f"[1:{length}] has {length} values, and this list {len(codes)}: none is equal.",
                list_token,
            )
        return "prefix", codes

    def _read_from(self) -> tuple[str, ...]:
        """Read FROM and the table; return the alias before it, if there is one."""
        aliases: tuple[str, ...] = ()
        if self._peek_word() == "as":
            aliases = tuple(token.text for token in self.question.tokens[self.at + 1 :][:1])
            self.at += 2
        self._read_words("from")
        if self._peek_token() is None:
            raise self._make_error()
        self.at += 1
        return aliases

    def _read_column(self) -> None:
        token = self._peek_token()
        if token is None or token.text.lower() != self.column.lower():
            raise self._make_error()
        self.at += 1

    def _read_list(self) -> tuple[int, ...]:
        """Read a list of values, and return their codes; at least one is needed."""
        self._read_words("[")
        codes: list[int] = []
        while True:
            codes.append(self._read_value())
            if self._peek_word() != ",":
                break
            self.at += 1
        self._read_words("]")
        return tuple(codes)

    def _read_value(self) -> int:
        sign = "-" if self._peek_word() == "-" else ""
        self.at += bool(sign)
        token = self._peek_token()
        if token is None or token.token_type not in (T.STRING, T.NUMBER):
            raise self._make_error()
        self.at += 1
        codes, outside = self.lists.members.encode(pa.array([sign + token.text]))
        if outside[0]:
            raise self.question.error(
                f"There is no such value in '{self.column}' ({self.lists.members.describe()}).",
                token,
            )
        return int(codes[0])

    def _peek_token(self) -> Token | None:
        tokens = self.question.tokens
        return tokens[self.at] if self.at < len(tokens) else None

    def _peek_word(self) -> str:
        """Return the next token in small letters; empty for text in quotes and at the end."""
        token = self._peek_token()
        return "" if token is None or token.token_type is T.STRING else token.text.lower()

    def _read_words(self, *expected: str) -> None:
        for word in expected:
            if self._peek_word() != word:
                raise self._make_error()
            self.at += 1

    def _make_error(self) -> QueryError:
        token = self._peek_token()
        said = "Something is missing here." if token is None else f"'{token.text}' is not expected."
        return self.question.error(f"{said} {_FORMS.format(self.column)}", token)
