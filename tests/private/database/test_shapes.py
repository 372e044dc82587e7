"""Questions of a known shape are what the parser would make of them."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scumble as sc
from scumble.private.database import question
from scumble.private.database.question import Shapes
from scumble.public.sql.parse import parse

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
)
READER = Shapes(SCHEMA)  # all examples fill one memory


@given(st.sampled_from(["COUNT(*)", "SUM(age)", "AVG(age * 2)"]), st.lists(CLAUSES, max_size=3))
def test_as_the_parser_says(head, clauses):
    where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
    text = f"SELECT {head} FROM t{where}"
    assert READER.read(text) == parse(text, SCHEMA)


def test_positions_of_groups_are_no_literals():
    reader = Shapes(SCHEMA)
    for place in (1, 2):
        text = f"SELECT age, sex, COUNT(*) FROM t WHERE age2 < 3 GROUP BY {place}, {3 - place}"
        assert reader.read(text) == parse(text, SCHEMA)


@pytest.mark.parametrize(("literal", "parsed"), [("7", 0), ("70", 0), (str(10**15), 1), ("'7'", 1)])
def test_only_the_first_of_a_shape_is_parsed(literal, parsed):
    reader = Shapes(SCHEMA)
    reader.read("SELECT COUNT(*) FROM t WHERE age < 5 AND sex = 'f'")
    with patch.object(question, "parse", wraps=parse) as parser:
        reader.read(f"SELECT COUNT(*) FROM t WHERE age < {literal} AND sex = 'm'")
        assert parser.call_count == parsed


def test_few_shapes_are_remembered():
    reader = Shapes(SCHEMA)
    for number in range(600):
        reader.read(f"SELECT COUNT(*) FROM t{number} WHERE age < 5")
    assert len(reader._known) <= 256
