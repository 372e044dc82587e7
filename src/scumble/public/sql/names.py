"""Which column a word of a question means; if none, the nearest one is suggested."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from sqlglot import Token
from sqlglot import TokenType as T

from scumble.model.errors import QueryError
from scumble.model.query import quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.public.sql.tokens import Words

# Words that SQL takes for functions without parentheses.
CLOCK_AND_USER = frozenset(
    "current_date current_time current_timestamp current_datetime localtime localtimestamp "
    "current_user session_user user current_role current_catalog current_schema".split()
)


class Names:
    """The columns that a question may name: those of the view, and those of public side tables."""

    def __init__(self, words: Words, schema: Schema, tables: Mapping[str, Sequence[str]]) -> None:
        self.words = words
        self.attributes = {attribute.name.lower(): attribute for attribute in schema}
        self.tables = {
            table.lower(): (table, {column.lower(): column for column in columns})
            for table, columns in tables.items()
        }
        self.view: str = ""  # what FROM calls the view, in lower case

    def attribute(self, token: Token) -> Attribute:
        """The published attribute that a word names."""
        found = self.attributes.get(token.text.lower())
        if found is None:
            published = [a.name for a in self.attributes.values() if a.domain is not None]
            raise self.unknown(token, published)
        if found.domain is None:
            raise self.words.error(
                f"'{found.name}' is an identifier and is never published.", token
            )
        return found

    def check_qualifier(self, token: Token) -> None:
        """Complain unless `token`, as in `token.age`, is what FROM calls the view."""
        if token.text.lower() != self.view:
            raise self.words.error(
                f"There is no table '{token.text}' here: FROM calls it '{self.view}'.", token
            )

    def side_table(self, token: Token) -> tuple[str, dict[str, str]]:
        """The exact name of a public side table, and its columns by their lower-case names."""
        if token.text.lower() in self.tables:
            return self.tables[token.text.lower()]
        known = ", ".join(table for table, _ in self.tables.values())
        have = f"The public tables are {known}." if known else "No public table was given."
        raise self.words.error(
            f"A sub-select can only read a public side table; '{token.text}' is not one. {have}",
            token,
        )

    def side_column(self, token: Token, table: str, columns: Mapping[str, str]) -> str:
        """The exact name of a column inside a sub-select."""
        name = token.text.lower()
        if name in columns:
            return columns[name]
        if name in self.attributes:
            raise self.words.error(
                f"'{table}' has no column '{token.text}', and a sub-select cannot refer to the "
                "row outside it.",
                token,
            )
        raise self.unknown(token, columns.values())

    def unknown(self, token: Token, known: Iterable[str]) -> QueryError:
        """The complaint about a name that is not there, with the best advice there is."""
        name, known = token.text, list(known)
        if name.lower() in CLOCK_AND_USER and token.token_type is not T.IDENTIFIER:
            return self.words.error(
                f"{name} is not supported: its value depends on when or by whom it is asked.", token
            )
        message = f"There is no column '{name}'. {self._advice(token, known)}"
        return self.words.error(message, token)

    def _advice(self, token: Token, known: list[str]) -> str:
        for column in known:
            if not re.fullmatch(r"\w+", column) and self._covers(column, token):
                return f"Write {quoted(column)}, with its double quotes."
        lower = {column.lower(): column for column in known}
        near = get_close_matches(token.text.lower(), lower, n=1)
        if near:
            return f"Did you mean {lower[near[0]]}?"
        if token.token_type is T.IDENTIFIER:
            return f"If it is text, write it in single quotes. The columns are {', '.join(known)}."
        return f"The columns are {', '.join(known)}."

    def _covers(self, column: str, token: Token) -> bool:
        """Whether the text around a token spells this column: `education-num` without quotes."""
        spelled = re.finditer(re.escape(column), self.words.text, re.IGNORECASE)
        return any(match.start() <= token.start < match.end() for match in spelled)
