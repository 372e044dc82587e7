"""A question means what DuckDB says: random questions, asked directly and through `parse`."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from scumble.model.errors import QueryError
from scumble.model.query import Query
from scumble.public.sandbox import Sandbox
from scumble.public.sql.conditions import _clause
from scumble.public.sql.expressions import read_expression
from scumble.public.sql.parse import parse
from scumble.public.sql.tokens import NameResolver, TokenizedSql
from tests.support.sql.sql_cases import SCHEMA, TABLES, cases

AGES = pa.table({"age": [20, 30, 40], "young": [True, True, False]})
ROWS = 60


@cache
def rows() -> pa.Table:
    """A small table of random rows of the schema."""
    random = np.random.default_rng(4)
    columns = {}
    for attribute in SCHEMA.published:
        codes = random.integers(attribute.size, size=ROWS).astype(attribute.code_type)
        columns[attribute.name] = attribute.decode(codes)
    return pa.table(columns)


@cache
def database() -> Any:
    connection = duckdb.connect()
    connection.execute("PRAGMA disable_optimizer")  # which is wrong on some NULLs
    connection.register("given_rows", rows())
    connection.execute("CREATE TABLE t AS FROM given_rows")
    connection.register("given_ages", AGES)
    connection.execute("CREATE TABLE ages AS FROM given_ages")
    return connection


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    file = tmp_path_factory.mktemp("view") / "rows.parquet"
    parquet.write_table(rows(), file)
    return Sandbox(SCHEMA, {"ages": AGES}, file)


def evaluated(sandbox: Sandbox, query: Query) -> float | None:
    """Return the answer on the rows, from the value of each part of the question."""
    values = sandbox.evaluate(query.expressions, SCHEMA.names[1:], rows())
    holds = np.ones(ROWS, bool)
    for clause in values[: len(query.clauses)]:
        holds &= clause
    if query.aggregate == "count":
        return float(holds.sum())
    if not holds.any():
        return None
    total = float(values[-1][holds].sum())
    return total if query.aggregate == "sum" else total / float(holds.sum())


def aggregated(sandbox: Sandbox, query: Query) -> float | None:
    """Return the answer on the rows, from one aggregate, as estimators compute it."""
    argument = f"CAST(({query.argument.sql}) AS DOUBLE)" if query.argument else "*"
    name = {"count": "count", "sum": "sum", "mean": "avg"}[query.aggregate]
    where = " AND ".join(f"({clause.sql})" for clause in query.clauses) or "TRUE"
    found = sandbox.rows(f"SELECT {name}({argument}) FROM view WHERE {where}")
    value = found.column(0)[0].as_py()
    return None if value is None else float(value)


# Random expressions, written with or without parentheses, so that precedence matters.

NAMED = {
    "number": ["age", '"education-num"', "t.age", "AGE", "weight", '"Weight"'],
    "text": ["sex", "occupation", "t . sex", '"OCCUPATION"'],
    "truth": ["smoker", "t.smoker", "SMOKER"],
}
LITERALS = {
    "number": ["0", "1", "25", "40", "-3", ".5", "2.5", "NULL", "1e1"],
    "text": ["'Male'", "'Sales'", "'a''b'", "''", "'%a%'", "'( , ) AND --'", "'\\'", "'é😀'"],
    "truth": ["TRUE", "false", "NULL"],
}


def leaves(kind: str) -> st.SearchStrategy[str]:
    return st.sampled_from(NAMED[kind] * 2 + LITERALS[kind])


def filled(pattern: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.fixed_dictionaries(parts).map(lambda found: pattern.format(**found))


@cache
def numbers(depth: int) -> st.SearchStrategy[str]:
    if not depth:
        return leaves("number")
    n, m, t, c = numbers(depth - 1), numbers(depth - 1), texts(depth - 1), truths(depth - 1)
    operators = st.sampled_from(["+", "- ", "*", " - ", "+ -"])
    return st.one_of(
        leaves("number"),
        filled("{a}{o}{b}", a=n, o=operators, b=m),
        filled("({a})", a=n),
        filled("({a}) % 7", a=n),
        filled("-({a})", a=n),
        filled("length({a})", a=t),
        filled("abs({a})", a=n),
        filled("coalesce({a}, {b})", a=n, b=m),
        filled("CASE WHEN {c} THEN {a} ELSE {b} END", c=c, a=n, b=m),
        filled("CAST({a} AS DOUBLE)", a=n),
        filled("({a})::double", a=n),
        filled("round({a})", a=n),
        st.just("extract(month FROM admitted)"),
        st.just("date_diff('month', DATE '2020-01-01', admitted)"),
    )


@cache
def texts(depth: int) -> st.SearchStrategy[str]:
    if not depth:
        return leaves("text")
    t, u, n, c = texts(depth - 1), texts(depth - 1), numbers(depth - 1), truths(depth - 1)
    return st.one_of(
        leaves("text"),
        filled("({a})", a=t),
        filled("{a} || {b}", a=t, b=u),
        filled("UPPER({a})", a=t),
        filled("substring({a} FROM 1 FOR 2)", a=t),
        filled("left({a}, 3)", a=t),
        filled("nullif({a}, {b})", a=t, b=u),
        filled("CAST({a} AS VARCHAR)", a=n),
        filled("case when {c} then {a} end", c=c, a=t),
        filled("trim({a})", a=t),
    )


@cache
def truths(depth: int) -> st.SearchStrategy[str]:
    if not depth:
        return leaves("truth")
    n, m, t, u = numbers(depth - 1), numbers(depth - 1), texts(depth - 1), texts(depth - 1)
    c, d = truths(depth - 1), truths(depth - 1)
    compare = st.sampled_from(["=", "<>", " != ", "<", "<=", ">", ">=", " IS DISTINCT FROM "])
    return st.one_of(
        filled("{a}{o}{b}", a=n, o=compare, b=m),
        filled("{a} {o} {b}", a=t, o=compare, b=u),
        filled("{a} BETWEEN {b} AND {c}", a=n, b=m, c=numbers(0)),
        filled("{a} not between {b} and {c}", a=n, b=m, c=numbers(0)),
        filled("{a} IN ({b}, {c})", a=n, b=m, c=numbers(0)),
        filled("{a} NOT IN ({b}, 'Male')", a=t, b=u),
        filled("{a} LIKE {b}", a=texts(0), b=texts(0)),
        filled("{a} NOT ILIKE '%A%'", a=t),
        filled("({a}) IS NULL", a=n),
        filled("{a} IS NOT NULL", a=texts(0)),
        filled("{c} AND {d}", c=c, d=d),
        filled("{c} OR {d}", c=c, d=d),
        filled("NOT {c}", c=c),
        filled("({c})", c=c),
        filled("({c} AND {d})", c=c, d=d),
        filled("age IN (SELECT age FROM ages WHERE young)"),
        filled("admitted >= '2021-03-01'"),
        filled("starts_with({a}, {b})", a=t, b=u),
    )


def agrees(sandbox: Sandbox, sql: str) -> None:
    """All three ways give the same answer, or all raise an error."""
    try:
        [(expected,)] = database().execute(sql).fetchall()
    except duckdb.Error:
        with pytest.raises(QueryError):
            evaluated(sandbox, parse(sql, SCHEMA, TABLES))
        return
    for answer in (evaluated, aggregated):
        found = answer(sandbox, parse(sql, SCHEMA, TABLES))
        if expected is None or found is None:
            assert found == expected
        else:
            assert found == pytest.approx(float(expected), rel=1e-9, abs=1e-9)


@settings(max_examples=100)
@given(truths(3))
def test_a_condition_means_what_duckdb_says(sandbox: Sandbox, condition: str) -> None:
    agrees(sandbox, f"SELECT COUNT(*) FROM t WHERE {condition}")


@settings(max_examples=50)
@given(st.sampled_from(["SUM", "AVG", "COUNT"]), numbers(3), truths(2))
def test_an_aggregate_means_what_duckdb_says(
    sandbox: Sandbox, name: str, argument: str, condition: str
) -> None:
    agrees(sandbox, f"SELECT {name}({argument}) FROM t WHERE {condition}")


def literals() -> st.SearchStrategy[str]:
    return st.one_of(
        st.integers(-99, 99).map(str),
        st.floats(0, 99, allow_subnormal=False).map(lambda number: f"{number:.3f}"),
        st.text(alphabet="aé'\"\\ ,()-", max_size=5).map(
            lambda s: "'" + s.replace("'", "''") + "'"
        ),
        st.sampled_from(["TRUE", "FALSE", "DATE '2020-02-03'", "'2020-02-03'"]),
    )


def comparisons() -> st.SearchStrategy[str]:
    column = st.sampled_from(["age", "t.age", "t . Age", '"education-num"', "WEIGHT", "admitted"])
    operator = st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">="])
    some = st.lists(literals(), min_size=1, max_size=4).map(", ".join)
    return st.one_of(
        filled("{a}{o}{b}", a=column, o=operator, b=literals()),
        filled("{b} {o} {a}", a=column, o=operator, b=literals()),
        filled("{a} IN ({b})", a=column, b=some),
        filled("{a} NOT IN ({b})", a=column, b=some),
        filled("{a} BETWEEN {b} AND {c}", a=column, b=literals(), c=literals()),
        filled("{a} NOT BETWEEN {b} AND {c}", a=column, b=literals(), c=literals()),
        filled("{a} IS NULL", a=column),
        filled("{a} IS NOT NULL", a=column),
    )


@given(comparisons())
def test_the_short_way_and_the_parser_agree(clause: str) -> None:
    question = TokenizedSql(clause)
    names = NameResolver(question, SCHEMA, TABLES)
    names.view = "t"
    short, _ = _clause(question, names, question.tokens)
    assert short == read_expression(question, names, question.tokens)


def test_every_understood_question_runs(sandbox: Sandbox, subtests: pytest.Subtests) -> None:
    for sql in [sql for sql, _ in cases("asked.sql")]:
        with subtests.test(sql=sql):
            query = parse(sql, SCHEMA, TABLES)
            sandbox.check(query)
            evaluated(sandbox, query)


def test_null_is_not_true_whatever_the_optimizer_thinks(sandbox: Sandbox) -> None:
    for condition in (
        "starts_with(CASE WHEN smoker THEN 'Male' END, 'Male')",
        "CASE WHEN smoker THEN 'Male' END LIKE 'Ma%'",
        "NOT ((smoker IS TRUE) AND (smoker < TRUE))",
        "CASE WHEN age IS NULL THEN left('Male', 3) END NOT IN (sex, 'Male')",
    ):
        agrees(sandbox, f"SELECT COUNT(*) FROM t WHERE {condition}")
