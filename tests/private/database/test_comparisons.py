"""Plain comparisons give the boxes that the engine would find."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scumble as sc
from scumble.private.database.questions.conditions import boxes_of, plain_boxes
from scumble.private.database.space import Space
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import parse

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(-3, 6), missing=True),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"), ordered=True)),
        sc.Attribute("job title", "quasi", sc.Category(("cook", "it's", "1")), missing=True),
        sc.Attribute("pay", "quasi", sc.Bins((0, 0.5, 10, 20, 50)), missing=True),
        sc.Attribute("born", "quasi", sc.Dates(date(2019, 11, 30), date(2020, 3, 2), "month")),
        sc.Attribute("level", "quasi", sc.Category((3, 1, 2, 5))),
    ]
)
SPACE = Space(SCHEMA, SCHEMA.names)
MOST = 10_000
LITERALS = {
    "age": st.integers(-6, 9).map(str) | st.sampled_from([str(10**17), str(-(10**17))]),
    "pay": st.sampled_from("0 0.25 5 5.25 5.250001 15 15.0 35 -1 100 99999999999999".split()),
    "level": st.integers(-1, 6).map(str),
    "born": st.sampled_from(
        "'2019-11-01'|DATE '2019-11-30'|DATE '2020-02-01'|'2020-02-29'|'2021-01-01'".split("|")
    ),
}
WORDS = {
    "sex": st.sampled_from(["'f'", "'m'", "'x'"]),
    '"job title"': st.sampled_from(["'cook'", "'1'", "'boss'", "'it'", "'it''s'"]),
}


def ordered(name: str, literals: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    words = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
    flipped = st.builds(f"{{}} {{}} {name}".format, literals, words)
    between = "{} {}BETWEEN {} AND {}".format
    return (
        flipped
        | st.builds(f"{name} {{}} {{}}".format, words, literals)
        | st.builds(between, st.just(name), st.sampled_from(["", "NOT "]), literals, literals)
    )


def listed(name: str, literals: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    some = st.lists(literals, min_size=1, max_size=4).map(", ".join)
    found = st.builds(f"{name} {{}}IN ({{}})".format, st.sampled_from(["", "NOT "]), some)
    equal = st.builds(f"{name} {{}} {{}}".format, st.sampled_from(["=", "<>"]), literals)
    nothing = st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL"])
    return found | equal | nothing


PLAIN = st.one_of(
    *(ordered(name, literals) for name, literals in LITERALS.items()),
    *(listed(name, literals) for name, literals in (LITERALS | WORDS).items()),
)


@pytest.fixture(scope="module")
def engine():
    found = Sandbox(SCHEMA)
    found.known = None  # every condition is evaluated by DuckDB
    yield found
    found.close()


@given(clauses=st.lists(PLAIN, max_size=4))
def test_as_the_engine_says(engine, clauses):
    where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
    query = parse(f"SELECT COUNT(*) FROM t{where}", SCHEMA)
    found = plain_boxes(query.clauses, SPACE, MOST)
    assert sorted(found.tolist()) == sorted(boxes_of(query.clauses, SPACE, engine).tolist())


LEFT = [
    "age < 2.5",
    "age = '3'",
    f"age < {10**18}",
    "NOT age < 3",
    "age = NULL",
    "age = 3 OR age = 5",
    "age + 1 = 3",
    "sex < 'm'",
    "sex = 'f' || ''",
    "pay < '10'",
    "pay < 1e1",
    "pay < .25",
    "pay < 1234567890.123456",
    "born < '2020-2-1'",
    "born < '2020-02-30'",
    "level = '3'",
    "level = DATE '2020-01-01'",
    "age = TRUE",
    "NOT sex = 'f'",
    "1 = 1",
]


def test_anything_else_is_left_to_the_engine(subtests):
    for clause in LEFT:
        with subtests.test(clause=clause):
            query = parse(f"SELECT COUNT(*) FROM t WHERE {clause}", SCHEMA)
            assert plain_boxes(query.clauses, SPACE, MOST) is None


def test_too_many_boxes_are_left_to_the_engine():
    query = parse("SELECT COUNT(*) FROM t WHERE age IN (1, 3, 5) AND pay IN (5.25, 35)", SCHEMA)
    assert len(plain_boxes(query.clauses, SPACE, 6)) == 6
    assert plain_boxes(query.clauses, SPACE, 5) is None
