"""Plain comparisons give the boxes that the engine would find."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scumble as sc
from scumble.database.comparing import compared
from scumble.database.conditions import boxes_of
from scumble.database.space import Space
from scumble.engine.duckdb import Engine
from scumble.sql import parse

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(-3, 6), missing=True),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"), ordered=True)),
        sc.Attribute("job title", "quasi", sc.Category(("cook", "it's", "1")), missing=True),
        sc.Attribute("pay", "quasi", sc.Bins((0, 10, 20, 50))),
    ]
)
SPACE = Space(SCHEMA, SCHEMA.names)
NUMBERS = st.integers(-6, 9) | st.sampled_from([10**17, -(10**17), 10**18])
PLAIN = st.one_of(
    st.builds("age {} {}".format, st.sampled_from(["=", "<", "<=", ">", ">="]), NUMBERS),
    st.builds("age BETWEEN {} AND {}".format, NUMBERS, NUMBERS),
    st.sampled_from(["sex = 'f'", "\"job title\" = 'cook'", "\"job title\" = '1'"]),
)


@pytest.fixture(scope="module")
def engine():
    found = Engine(SCHEMA)
    yield found
    found.close()


@given(clauses=st.lists(PLAIN, max_size=4))
def test_as_the_engine_says(engine, clauses):
    where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
    query = parse(f"SELECT COUNT(*) FROM t{where}", SCHEMA)
    found = compared(query.clauses, SPACE)
    if any(str(10**18) in clause for clause in clauses):
        assert found is None
    else:
        np.testing.assert_array_equal(found, boxes_of(query.clauses, SPACE, engine))


@pytest.mark.parametrize(
    "clause",
    [
        "age < 2.5",
        "age = '3'",
        "3 < age",
        "NOT age < 3",
        "age <> 3",
        "age IN (1, 2)",
        "age IS NULL",
        "age = NULL",
        "age = 3 OR age = 5",
        "age + 1 = 3",
        "sex < 'm'",
        "sex = 'x'",
        "sex = 'f' || ''",
        "\"job title\" = 'it''s'",
        "pay < 10",
        "1 = 1",
    ],
)
def test_anything_else_is_left_to_the_engine(clause):
    query = parse(f"SELECT COUNT(*) FROM t WHERE {clause}", SCHEMA)
    assert compared(query.clauses, SPACE) is None
