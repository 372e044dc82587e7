"""Names of columns as SQL."""

from __future__ import annotations

import re

import pytest
from sqlglot import TokenType
from sqlglot.dialects.duckdb import DuckDB

import scumble as sc
from scumble.public.sql.names import EXPRESSION_WORDS, sql_name
from scumble.public.sql.parse import parse

KEYWORDS = {
    word.upper()
    for keyword in DuckDB.tokenizer_class.KEYWORDS
    for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", keyword)
}


def test_names_that_need_quotes(subtests: pytest.Subtests) -> None:
    """A name without quotes is one word of the tokenizer, and no word of an expression."""
    for name in sorted({*KEYWORDS, *EXPRESSION_WORDS, "age", "Año", "a b", "_a"}):
        with subtests.test(name=name):
            shown = sql_name(name.lower())
            if not shown.startswith('"'):
                [token] = DuckDB().tokenize(shown)
                assert token.token_type is TokenType.VAR
                assert shown.upper() not in EXPRESSION_WORDS
            assert parse(f"SELECT COUNT(*) FROM t WHERE {shown} = 1", _schema(name.lower())).clauses


def test_words_of_commands_name_columns_without_quotes():
    """Alter is the age in German tables."""
    for name in ("Alter", "drop", "force", "grant", "insert"):
        question = f"SELECT COUNT(*) FROM t WHERE {name} = 1 AND {name.upper()} < 2"
        assert len(parse(question, _schema(name)).clauses) == 2


def test_names_that_need_none():
    assert [sql_name(name) for name in ("age", "Pay2", "hours_a_week")] == [
        "age",
        "Pay2",
        "hours_a_week",
    ]


def _schema(name):
    return sc.Schema([sc.Attribute(name, "quasi", sc.IntegerRange(0, 3))])
