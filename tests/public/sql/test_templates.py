"""Questions of a known template have the same result as with the parser."""

from __future__ import annotations

import random
from datetime import date
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scumble as sc
from scumble.model.errors import QueryError
from scumble.public.sql import templates
from scumble.public.sql.conditions import comparison_of
from scumble.public.sql.parse import parse, read_select, read_select_tokens
from scumble.public.sql.templates import TemplateParser

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 99)),
        sc.Attribute("Age2", "quasi", sc.IntegerRange(0, 99)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m", "1 AND 2"))),
        sc.Attribute("level", "quasi", sc.Category((3, 1, 2))),
        sc.Attribute("pay", "quasi", sc.Bins((0, 10, 20))),
    ]
)
NUMBERS = st.integers(0, 120).map(str) | st.just(str(10**17))
WORDS = st.sampled_from(["'f'", "'m'", "'1 AND 2'", "'x'", "'it''s'", "''"])
CLAUSES = st.one_of(
    st.builds("age BETWEEN {} AND {}".format, NUMBERS, NUMBERS),
    st.builds("age2 <= {}".format, NUMBERS),
    st.builds("age + {} = {}".format, NUMBERS, NUMBERS),
    st.builds("age * {} = {}".format, NUMBERS, NUMBERS),
    st.builds("{} < t.age".format, NUMBERS),
    st.builds("sex = {}".format, WORDS),
    st.builds("sex IN ({}, {})".format, WORDS, WORDS),
    st.builds("level <> {}".format, NUMBERS | WORDS),
    st.builds("pay < {}".format, NUMBERS),
    st.builds("(age = {} OR age = {})".format, NUMBERS, NUMBERS),
    st.builds('"age" > {} -- {}\n'.format, NUMBERS, NUMBERS),
    st.builds("age NOT IN ({}, - {})".format, NUMBERS, NUMBERS),
    st.builds("level = {} /* {} */".format, WORDS, WORDS),
    st.just("sex IS NOT NULL"),
)
PARSER = TemplateParser(SCHEMA)  # all examples fill one cache


@given(st.sampled_from(["COUNT(*)", "SUM(age)", "AVG(age * 2)"]), st.lists(CLAUSES, max_size=3))
def test_as_the_parser_says(head, clauses):
    where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
    text = f"SELECT {head} FROM t{where}"
    found, expected = PARSER.parse(text), parse(text, SCHEMA)
    assert found == expected
    for clause, parsed in zip(found.clauses, expected.clauses, strict=True):
        assert clause.start == parsed.start
        assert clause.comparison == parsed.comparison
        if clause.comparison is not None:
            assert clause.comparison == comparison_of(parsed)
            assert (clause.comparison.column,) == clause.attributes


def test_positions_of_groups_are_no_literals():
    parser = TemplateParser(SCHEMA)
    for place in (1, 2):
        text = f"SELECT age, sex, COUNT(*) FROM t WHERE age2 < 3 GROUP BY {place}, {3 - place}"
        assert parser.parse(text) == parse(text, SCHEMA)


@pytest.mark.parametrize(("literal", "parsed"), [("7", 0), ("70", 0), (str(10**15), 1), ("'7'", 1)])
def test_only_the_first_of_a_template_is_parsed(literal, parsed):
    parser = TemplateParser(SCHEMA)
    parser.parse("SELECT COUNT(*) FROM t WHERE age < 5 AND sex = 'f'")
    with patch.object(templates, "read_select_tokens", wraps=read_select_tokens) as full:
        parser.parse(f"SELECT COUNT(*) FROM t WHERE age < {literal} AND sex = 'm'")
        assert full.call_count == parsed


def test_what_looks_like_a_literal(subtests: pytest.Subtests) -> None:
    for first, second in [  # the same text around what looks like literals
        ("age < 5 /* 3 */ AND age2 = 7", "age < 6 /* 4 */ AND age2 = 8"),
        ("age < 5 -- 'f'", "age < 6 -- 'm'"),
        ("\"age\" < 5 AND 'f' = sex", "\"age\" < 7 AND 'm' = sex"),
        ("sex = 'it''s'", "sex = 'f'"),
        ("age < 5 AND sex = '/*' AND age2 = 3", "age < 5 AND sex = '*/' AND age2 = 3"),
        ("age IN (1, 2) AND level(age, 0) = 3", "age IN (1, 3) AND level(age, 0) = 4"),
        ("level = 3 AND sex = 'f'", "level = 1 AND sex = 'm'"),
        ("age < 5 AND sex = 'f'", "age < 1e1 AND sex = 'm'"),
        ("age < 5 AND sex = 'f'", "age < .5 AND sex = 'm' -- 5"),
        ("age < 5 AND sex = 'f'", "age < 70 AND sex = E'm'"),
    ]:
        with subtests.test(first=first, second=second):
            parser = TemplateParser(SCHEMA)
            for condition in (first, first, second, second, first):
                text = f"SELECT COUNT(*) FROM t WHERE {condition}"
                expected = _outcome(lambda one: read_select(one, SCHEMA), text)
                found = _outcome(parser.read, text)
                assert found == expected
                for one, other in zip(_clauses(found), _clauses(expected), strict=True):
                    assert (one.start, one.comparison) == (other.start, other.comparison)


def test_few_templates_are_kept(monkeypatch):
    monkeypatch.setattr(templates, "_MOST_TEMPLATES", 256)
    parser = TemplateParser(SCHEMA)
    for number in range(600):
        parser.parse(f"SELECT COUNT(*) FROM t{number} WHERE age < 5")
    assert parser._templates.size <= 256


TRAPS = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(-5, 90)),
        sc.Attribute("name", "quasi", sc.Category(("f", "o'neil", "--x", "/* y */", "1"))),
        sc.Attribute("born", "quasi", sc.Dates(date(2020, 1, 1), date(2020, 12, 31))),
        sc.Attribute("weight", "sensitive", sc.Bins((0, 10, 20))),
    ]
)
VALUES = {
    "age": ("3", "-3", "- 3", "+3", "03", "3.0", "3e0", "1_0", "'3'", "999999999999999999", "NULL"),
    "name": ("'f'", "'o''neil'", "'--x'", "'/* y */'", "'1'", "'F'", "'nobody'", "NULL", "1"),
    "born": ("'2020-02-30'", "'2020-02-03'", "DATE '2020-02-03'", "CAST('2020-02-03' AS DATE)"),
    "weight": ("10", "5", "-1", "10.0", "CAST(10 AS INTEGER)", "'10'"),
}
AROUND = ("", " -- a remark\n", " /* 'quoted */ ", "\n")
SELECTED = (
    "COUNT(*)",
    "SUM(age)",
    "name, COUNT(*)",
    "COUNT(*), AVG(age)",
    "COUNT(*) FILTER (WHERE age < 4)",
)


PLAIN = {"age": ("3", "44", "0"), "name": ("'f'", "'o''neil'", "'--x'", "'/* y */'", "'1'")}


def _trap(rng):
    """Return a question of few shapes, so that most have a template, with literals of all kinds."""
    clauses = []
    for column in rng.choice([("age",), ("name",), ("age", "name"), ("born",), ("age", "weight")]):
        known = PLAIN.get(column, VALUES[column]) if rng.random() < 0.7 else VALUES[column]
        values = [rng.choice(known) for _ in range(3)]
        listed = f"{column} IN ({', '.join(values[: rng.randint(1, 3)])})"
        compared = f"{column} {rng.choice(['=', '<>'])} {values[0]}"
        between = f"{column} BETWEEN {values[0]} AND {values[1]}"
        clauses.append(rng.choice([listed, compared, compared, between, f"NOT {compared}"]))
    selected = rng.choice(("COUNT(*)", "COUNT(*)", *SELECTED))
    grouped = " GROUP BY name" if selected.startswith("name") else ""
    where = rng.choice(AROUND).join((" WHERE ", " AND ".join(clauses)))
    return f"SELECT {selected} FROM t{where}{grouped}{rng.choice(['', ';'])}"


def _outcome(read, text):
    try:
        return read(text)
    except QueryError as error:
        return str(error), error.line, error.column


def test_generated_questions_are_those_of_the_parser():
    """Every question, whatever was asked before, is what the parser alone makes of it."""
    rng, parser = random.Random(5), TemplateParser(TRAPS)
    filled = 0
    with patch.object(templates, "read_select_tokens", wraps=read_select_tokens) as full:
        for _ in range(1500):
            text, before = _trap(rng), full.call_count
            found = _outcome(parser.read, text)
            filled += full.call_count == before
            wanted = _outcome(lambda one: read_select(one, TRAPS), text)
            assert found == wanted, text
            for one, other in zip(_clauses(found), _clauses(wanted), strict=True):
                assert (one.start, one.factors) == (other.start, other.factors), text
                assert one.comparison == other.comparison, text
    assert filled > 100


def _clauses(outcome):
    return () if isinstance(outcome, tuple) else outcome.clauses
