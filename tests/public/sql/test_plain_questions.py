"""Plain questions are read as the parser reads them, or left to it."""

from __future__ import annotations

import random
import re
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import TokenType
from sqlglot.dialects.duckdb import DuckDB

import scumble as sc
from scumble.model.errors import QueryError
from scumble.model.query import Query
from scumble.public.plain_questions import plain_parsed, plain_question
from scumble.public.sql.conditions import comparison_of
from scumble.public.sql.parse import parse, read_select
from scumble.public.sql_words import EXPRESSION_WORDS, KEYWORDS, sql_name
from tests.public.sql import test_questions
from tests.support.sql import generated, sql_cases

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 99)),
        sc.Attribute("Pay", "quasi", sc.IntegerRange(0, 99), missing=True),
        sc.Attribute("sex", "quasi", sc.Category(("F", "M", "it's")), missing=True),
        sc.Attribute("dept", "quasi", sc.Category(("A", "B", "C"))),
        sc.Attribute("size", "quasi", sc.Category(("small", "large"), ordered=True)),
        sc.Attribute("level", "quasi", sc.Category((3, 1, 2), ordered=True)),
        sc.Attribute("hours a week", "quasi", sc.Bins((0, 10, 20))),
        sc.Attribute("count", "quasi", sc.IntegerRange(0, 3)),
        sc.Attribute("date", "quasi", sc.IntegerRange(0, 3)),
        sc.Attribute("ssn", "identifier"),
    ]
)
TABLES = {"Depts": ("dept", "region")}
FILES: dict[str, tuple[sc.Schema, Any]] = {
    "questions.sql": (test_questions.SCHEMA, {"depts": test_questions.DEPTS.column_names}),
    "asked.sql": (sql_cases.SCHEMA, sql_cases.TABLES),
    "refused.sql": (sql_cases.SCHEMA, sql_cases.TABLES),
}

PLAIN = [
    "SELECT COUNT(*) FROM t",
    "select count(*) from People;",
    "SELECT COUNT(*) FROM t WHERE age < 30 AND dept = 'A'",
    "SELECT COUNT(*)\nFROM t\n\tWHERE age BETWEEN 3 AND 5 AND age != 4 AND PAY <> 5.25 ; ;",
    "SELECT SUM(pay) FROM t WHERE sex NOT IN ('F', 'it''s') AND age not between 1 and 2",
    'SELECT dept, AVG("hours a week") FROM "any table" WHERE level IN (3,2) GROUP BY Dept',
    "SELECT COUNT(*), sex, dept FROM t GROUP BY dept, sex",
    "SELECT COUNT(*) FROM t GROUP BY dept, sex",
    "SELECT sex, COUNT(*) FROM t WHERE age = 'x' GROUP BY size, sex",
    "SELECT COUNT(*) FROM t WHERE count >= 1 AND size = 'small'",
    "SELECT COUNT(*) FROM t WHERE level >= 2 AND level NOT BETWEEN 1 AND 2.5",
    "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex",
    "SELECT COUNT(*) AS Mine, SEX FROM t GROUP BY sex, dept",
    'SELECT AVG(age) AS "the age", dept FROM t GROUP BY dept',
]
NOT_PLAIN = [
    "SELECT COUNT(*) FROM t WHERE dept = 'D'",  # a note
    "SELECT COUNT(*) FROM t WHERE size < 'large'",  # the declared order
    "SELECT COUNT(*) FROM t WHERE date < 2",
    "SELECT COUNT(*) FROM t WHERE ssn = 2",
    "SELECT COUNT(*) FROM t WHERE age < 30 OR dept = 'A'",
    "SELECT COUNT(*) FROM depts",
    "SELECT COUNT(*) FROM t -- WHERE age < 3",
    "SELECT COUNT(*) FROM t WHERE age > -3",
    "SELECT dept, COUNT(*) FROM t",
    "SELECT COUNT(*), COUNT(*) FROM t",
    "",
    ";",
]
WORDS = """
SELECT COUNT(*) COUNT ( ) * SUM(age) AVG(pay) SUM(sex) FROM t x WHERE AND OR NOT IN BETWEEN GROUP BY
, ; = < > <= >= <> != == - + . 5 7.5 1e3 0x1 5a .5 5. 'A' 'F' 'D' '' 'a''b' e'A' "age" "Age" "" age
pay dept sex size "hours a week" count date ssn level -- /* */ HAVING ORDER LIMIT AS ROLLUP ALL TRUE
NULL IS t.age " ' $1 ? é DISTINCT depts
""".split()


def checked(text: str, schema: sc.Schema = SCHEMA, tables: Any = TABLES) -> bool:
    """Return whether a text is plain, after comparing what the parser makes of it."""
    found = plain_question(text, schema, tables)
    if found is None:
        return False
    expected = read_select(text, schema, tables)
    assert isinstance(expected, Query), text
    assert found == expected, text
    assert found.aliases == expected.aliases, text
    for each, parsed in zip(found.expressions, expected.expressions, strict=True):
        assert (each.start, each.factors) == (parsed.start, parsed.factors)
    comparisons = plain_parsed(text, schema, tables).comparisons
    assert comparisons == tuple(map(comparison_of, expected.clauses)), text
    return True


@pytest.mark.parametrize("text", PLAIN)
def test_plain_questions(text):
    assert checked(text)


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_left_to_the_parser(text):
    assert not checked(text)


def test_side_tables_are_no_view():
    assert plain_question("SELECT COUNT(*) FROM depts", SCHEMA) is not None
    assert plain_question("SELECT COUNT(*) FROM depts", SCHEMA, TABLES) is None


def test_pairs_of_the_files():
    given = [(name, text) for name in FILES for text, _ in sql_cases.cases(name)]
    found = [checked(text, *FILES[name]) for name, text in given]
    assert sum(found) >= 5


def test_generated_questions():
    """One aggregate of the generator of questions, with its conditions and keys."""
    draws = random.Random(5)
    found = 0
    for _ in range(1500):
        keys = draws.sample(generated.KEYS, draws.randint(0, 2))
        conditions = draws.sample(generated.CONDITIONS, draws.randint(0, 3))
        text = f"SELECT {', '.join([*keys, generated.aggregate(draws, 1)])} FROM t"
        text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        text += f" GROUP BY {', '.join(keys)}" if keys else ""
        found += checked(text, *FILES["questions.sql"])
    assert found > 50


def test_random_words():
    """Plain questions with a few words replaced, removed, added or glued together."""
    draws = random.Random(11)
    accepted = 0
    for _ in range(6000):
        words = re.findall(r"'[^']*'|\"[^\"]*\"|\w+|[^\w\s]", draws.choice(PLAIN))
        for _ in range(draws.randint(1, 3)):
            at = draws.randrange(len(words) + 1)
            words[at : at + draws.randint(0, 1)] = draws.choices(WORDS, k=draws.randint(0, 1))
        blanks = draws.choices([" ", "", "\n"], [12, 1, 1], k=len(words))
        text = "".join(word + blank for word, blank in zip(words, blanks, strict=True))
        accepted += checked(text)
    assert accepted > 300


LITERALS = """
0 007 1.50 1. 00.5 123456789012345 1234567890123456 'F' 'it''s' '' '--' '/*' 'ß' '5'
'small' 'é' '\\'
""".split()
CHARACTERS = [
    "\t",
    "\r\n",
    "\x0b",
    "\xa0",
    "\ufeff",
    "\0",
    "/**/",
    "--",
    *"'\"();,.=<>-*$?@#`[]:\\|~!_5aé",
]


def test_strange_literals_and_characters():
    """Comparisons with literals of all kinds, and a character more or less anywhere."""
    draws = random.Random(13)
    accepted = 0
    for _ in range(6000):
        column = draws.choice(["age", '"Age"', "PAY", "sex", "level", '"hours a week"', "count"])
        operator = draws.choice(["=", "<>", "!=", "<", ">=", "==", " IN ", " NOT IN "])
        given = ", ".join(draws.choices(LITERALS, k=draws.randint(1, 2)))
        value = f"({given})" if "IN" in operator else draws.choice(LITERALS)
        text = f"SELECT COUNT(*) FROM t WHERE {column}{operator}{value}"
        for _ in range(draws.choice([0, 0, 1, 2])):
            at = draws.randrange(len(text) + 1)
            text = text[:at] + draws.choice(["", *CHARACTERS]) + text[at + draws.randint(0, 1) :]
        accepted += checked(text)
    assert accepted > 1000


def test_keywords_are_those_of_the_tokenizer():
    words = {
        word
        for keyword in DuckDB.tokenizer_class.KEYWORDS
        for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", keyword)
    }
    assert words - KEYWORDS == set()


@pytest.mark.parametrize("name", sorted({*KEYWORDS, *EXPRESSION_WORDS, "age", "Año", "a b", "_a"}))
def test_names_that_need_quotes(name):
    """A name without quotes is one word of the tokenizer, and no word of an expression."""
    shown = sql_name(name.lower())
    if not shown.startswith('"'):
        [token] = DuckDB().tokenize(shown)
        assert token.token_type is TokenType.VAR
        assert shown.upper() not in EXPRESSION_WORDS
    assert parse(f"SELECT COUNT(*) FROM t WHERE {shown} = 1", _schema(name.lower())).clauses


def _schema(name):
    return sc.Schema([sc.Attribute(name, "quasi", sc.IntegerRange(0, 3))])


def test_errors_are_those_of_the_parser():
    people = pa.table({"age": [1, 2], "job": ["a", "b"]})
    schema = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),
            sc.Attribute("job", "sensitive", sc.Category(("a", "b"))),
        ]
    )
    release = sc.publish(people, schema, sc.Uniform(epsilon=1), seed=1)
    with pytest.raises(QueryError) as error:
        release.answer("SELECT COUNT(*) FROM t WHERE age < 3 AND agee > 2")
    assert (error.value.line, error.value.column) == (1, 42)
    with pytest.raises(QueryError) as error:  # read as plain, refused because of its types
        release.answer("SELECT COUNT(*) FROM t WHERE age < 'x'")
    assert (error.value.line, error.value.column) == (1, 30)
