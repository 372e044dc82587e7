"""Parsing of SQL: what is supported, and errors with a caret under the token."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scumble as sc
from scumble.model.errors import QueryError
from scumble.model.query import Expression, Query, place
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category
from scumble.model.schema.schema import Schema
from scumble.public.sandbox import Sandbox
from scumble.public.sql.conditions import comparison_of
from scumble.public.sql.parse import parse, read_select
from tests.support.sql.sql_cases import SCHEMA, TABLES, cases, complaint, shown

WORDS = (
    "SELECT COUNT ( * ) FROM t WHERE AND OR NOT IN BETWEEN LIKE IS NULL CASE WHEN THEN END "
    "GROUP_BY age sex smoker education-num admitted . , 'a' 3 -1 .5 + - * / % = < >= <> :: || "
    "SUM AVG lower random CAST AS INTEGER INTERVAL DATE '2020-01-01' DISTINCT ages young ; "
    '"sex" "education-num" -> [ ] { } ? $1 -- /* \' " JOIN OVER LIMIT UNION WITH name x. é \n'
).split(" ")


def test_a_question_is_understood(subtests: pytest.Subtests) -> None:
    for sql, expected in cases("asked.sql"):
        with subtests.test(sql):
            query = parse(sql, SCHEMA, TABLES)
            assert shown(query) == expected
            assert query.text == sql
            for clause in query.clauses:
                known = comparison_of(clause) if len(clause.attributes) == 1 else None
                assert clause.comparison == known


def test_a_question_is_refused_at_the_word(subtests: pytest.Subtests) -> None:
    for sql, expected in cases("refused.sql"):
        with subtests.test(sql):
            with pytest.raises(QueryError) as caught:
                read_select(sql, SCHEMA, TABLES)
            assert complaint(sql, caught.value) == expected


def test_the_caret_stands_under_the_word() -> None:
    with pytest.raises(QueryError) as caught:
        parse("SELECT COUNT(*)\nFROM t\nWHERE sex = 'ü' AND ag > 3", SCHEMA)
    message = "There is no column 'ag'. Did you mean age? (line 3, column 21)"
    assert str(caught.value) == (
        f"{message}\n  WHERE sex = 'ü' AND ag > 3\n                      ^"
    )


def test_a_release_points_at_the_word() -> None:
    people = pa.table({"age": [1, 2], "job": ["a", "b"]})
    schema = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),
            sc.Attribute("job", "sensitive", sc.Category(("a", "b"))),
        ]
    )
    release = sc.publish(people, schema, sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1))
    with pytest.raises(QueryError) as error:
        release.answer("SELECT COUNT(*) FROM t WHERE age < 3 AND agee > 2")
    assert (error.value.line, error.value.column) == (1, 42)
    with pytest.raises(QueryError) as error:  # parsed, and refused because of its types
        release.answer("SELECT COUNT(*) FROM t WHERE age < 'x'")
    assert (error.value.line, error.value.column) == (1, 30)


@pytest.mark.parametrize("clause", ["HAVING peple > 3", "ORDER BY peple"])
def test_a_misspelt_alias_is_recognised(clause: str) -> None:
    sql = f"SELECT sex, COUNT(*) AS people FROM t GROUP BY sex {clause}"
    with pytest.raises(QueryError, match=r"no column 'peple'. Did you mean people\?"):
        read_select(sql, SCHEMA)


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing", ";", ";;"])
def test_an_empty_question(text: str) -> None:
    with pytest.raises(QueryError, match="empty"):
        parse(text, SCHEMA)


@pytest.mark.parametrize("text", [None, 3, b"SELECT COUNT(*) FROM t"])
def test_a_question_is_text(text: object) -> None:
    with pytest.raises(QueryError, match="must be SQL text"):
        parse(text, SCHEMA)  # type: ignore[arg-type]


def test_a_long_question() -> None:
    with pytest.raises(QueryError, match="too long"):
        parse("SELECT COUNT(*) FROM t WHERE age > 1" + " AND age > 1" * 20_000, SCHEMA)
    values = ", ".join(map(str, range(20_000)))
    assert len(parse(f"SELECT COUNT(*) FROM t WHERE age IN ({values})", SCHEMA).clauses) == 1


def test_deep_nesting_is_refused(subtests: pytest.Subtests) -> None:
    for condition in [
        "(" * 5000 + "age = 1" + ")" * 5000,
        "NOT " * 5000 + "smoker",
        "- " * 5000 + "age = 1",
        "CASE WHEN " * 2000 + "smoker" + " THEN TRUE END" * 2000,
        "abs(" * 5000 + "age" + ")" * 5000 + " = 1",
        "age IN (SELECT age FROM ages WHERE " * 1000 + "young" + ")" * 1000,
        "NOT (age = 1 OR " * 200 + "smoker" + ")" * 200,
    ]:
        with (
            subtests.test(condition=condition[:40]),
            pytest.raises(QueryError, match="nested too deeply"),
        ):
            parse(f"SELECT COUNT(*) FROM t WHERE {condition}", SCHEMA, TABLES)


def test_nesting_within_reason_is_understood() -> None:
    """A parser that backtracks at every level would take exponential time here."""
    deep = "smoker"
    for _ in range(12):
        deep = f"NOT (age = 1 OR CASE WHEN {deep} THEN TRUE END)"
    query = parse(f"SELECT COUNT(*) FROM t WHERE {deep}", SCHEMA)
    assert query.attributes == ("age", "smoker")


def test_what_is_never_closed_is_pointed_at(subtests: pytest.Subtests) -> None:
    for tail, column in [
        ("'", 24),
        ("a 'b' 'c", 30),
        ('"', 24),
        ("/* '", 24),
        ("$$ '", 24),
        ("'' -- '\n $a$ $", 1),
    ]:
        with subtests.test(tail=tail, column=column):
            with pytest.raises(QueryError, match="A closing") as caught:
                parse("SELECT COUNT(*) FROM t " + tail, SCHEMA)
            assert caught.value.column == column + tail.count("\n")


def test_names_that_need_care() -> None:
    table = {'od"d': ['c"1'], "Ages": ["AGE"]}
    query = parse('SELECT COUNT(*) FROM t WHERE sex IN (SELECT "C""1" FROM "OD""d")', SCHEMA, table)
    assert query.clauses[0].sql == '"sex" IN (SELECT "c""1" FROM "od""d")'
    query = parse("SELECT COUNT(*) FROM t WHERE age IN (SELECT age FROM ages)", SCHEMA, table)
    assert query.clauses[0].sql == '"age" IN (SELECT "AGE" FROM "Ages")'


def test_a_query_is_plain_data() -> None:
    one = Expression('"age" > 3', ("age",), start=29)
    assert one == Expression('"age" > 3', ("age",))
    query = Query("sum", Expression('"sex"', ("sex",)), (one,), ("smoker",))
    assert query.attributes == ("age", "sex", "smoker")
    assert query.expressions == (one, query.argument)
    assert place("a\nbc", 3) == (2, 2)
    assert place("", 0) == (1, 1)


@pytest.mark.parametrize(
    ("module", "absent"), [("model.query", "pyarrow numpy"), ("public.sql.parse", "duckdb")]
)
def test_a_module_loads_only_what_it_needs(module: str, absent: str) -> None:
    script = (
        f"import sys, scumble.{module}; print([m for m in {absent.split()} if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_any_words_are_understood_or_refused_in_place(tail: str) -> None:
    _understood_or_refused("SELECT COUNT(*) FROM t WHERE " + tail.replace("GROUP_BY", "GROUP BY"))
    _understood_or_refused(tail.replace("GROUP_BY", "GROUP BY"))


@settings(max_examples=50)
@given(st.text(max_size=40))
def test_any_text_is_understood_or_refused_in_place(tail: str) -> None:
    _understood_or_refused("SELECT COUNT(*) FROM t WHERE " + tail)
    _understood_or_refused(tail)


def _understood_or_refused(text: str) -> None:
    error = _refusal(text)
    if error is None or "empty" in error.message:
        return
    assert error.line is not None
    assert 1 <= error.line <= max(len(text.splitlines()), 1)
    assert str(error).endswith("^")


def _refusal(text: str) -> QueryError | None:
    try:
        parse(text, SCHEMA, TABLES)
    except QueryError as error:
        return error
    return None


def test_ordered_text_is_compared_by_its_order(subtests: pytest.Subtests) -> None:
    for condition, expected in [
        ("level > 'low'", ["middle", "high"]),
        ("'low' < t.level", ["middle", "high"]),
        ("level BETWEEN 'middle' AND 'high'", ["middle", "high"]),
        ("NOT (level >= 'middle') OR level = 'high'", ["low", "high"]),
        ("level NOT BETWEEN 'middle' AND 'high'", ["low"]),
        ("level <= 'low' OR level || '' = 'high'", ["low", "high"]),
    ]:
        with subtests.test(condition=condition, expected=expected):
            levels = Category(("low", "middle", "high"), ordered=True)
            schema = Schema([Attribute("level", "quasi", levels)])
            query = parse(f"SELECT COUNT(*) FROM t WHERE {condition}", schema)
            [holds] = Sandbox(schema).evaluate(query.clauses, ["level"])
            assert [
                value for value, there in zip(levels.values, holds, strict=True) if there
            ] == expected
            assert not query.notes


def test_a_misspelt_value_is_pointed_out() -> None:
    schema = Schema([Attribute("job", "quasi", Category(("Sales", "Cook")))])

    def notes(condition: str) -> tuple[str, ...]:
        return parse(f"SELECT COUNT(*) FROM t WHERE {condition}", schema).notes

    [note] = notes("job = 'sales'")
    assert note.endswith("Did you mean 'Sales'?")
    assert len(notes("job IN ('Sales', 'cook', 'pilot')")) == 2
    assert notes("job <> 'Cook' AND lower(job) = 'sales'") == ()
