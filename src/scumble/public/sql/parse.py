"""SQL text into a `Query`. The text is not trusted: a word that is not known is pointed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.sql.names import Names
from scumble.public.sql.refusals import refuse_unsupported
from scumble.public.sql.statement import Statement
from scumble.public.sql.tokens import Words

__all__ = ["parse"]

_NO_TABLES: Mapping[str, Sequence[str]] = MappingProxyType({})


def parse(text: str, schema: Schema, tables: Mapping[str, Sequence[str]] = _NO_TABLES) -> Query:
    """The question that a SQL text asks about a table of this schema.

    `tables` names public side tables, and their columns, for `IN (SELECT ... FROM table)`. What is
    not understood or not supported raises `QueryError`, with a caret under the word.
    """
    words = Words(text)
    names = Names(words, schema, tables)
    refuse_unsupported(words, names.attributes)
    return Statement(words, names).read()
