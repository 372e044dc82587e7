"""Questions of a known template have the same result as with the parser."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scumble as sc
from scumble.public.sql import templates
from scumble.public.sql.conditions import comparison_of
from scumble.public.sql.parse import parse, parse_tokens
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
    assert found.query == expected
    for clause, parsed in zip(found.query.clauses, expected.clauses, strict=True):
        assert clause.start == parsed.start
    for clause, comparison in zip(expected.clauses, found.comparisons, strict=True):
        read = comparison_of(clause)
        if comparison is not None:
            assert comparison[2:] == read[2:]
            assert (comparison.column.text,) == clause.attributes


def test_positions_of_groups_are_no_literals():
    parser = TemplateParser(SCHEMA)
    for place in (1, 2):
        text = f"SELECT age, sex, COUNT(*) FROM t WHERE age2 < 3 GROUP BY {place}, {3 - place}"
        assert parser.parse(text).query == parse(text, SCHEMA)


@pytest.mark.parametrize(("literal", "parsed"), [("7", 0), ("70", 0), (str(10**15), 1), ("'7'", 1)])
def test_only_the_first_of_a_template_is_parsed(literal, parsed):
    parser = TemplateParser(SCHEMA)
    parser.parse("SELECT COUNT(*) FROM t WHERE age < 5 AND sex = 'f'")
    with patch.object(templates, "parse_tokens", wraps=parse_tokens) as full:
        parser.parse(f"SELECT COUNT(*) FROM t WHERE age < {literal} AND sex = 'm'")
        assert full.call_count == parsed


def test_few_templates_are_kept():
    parser = TemplateParser(SCHEMA)
    for number in range(600):
        parser.parse(f"SELECT COUNT(*) FROM t{number} WHERE age < 5")
    assert parser._templates.size <= 256
