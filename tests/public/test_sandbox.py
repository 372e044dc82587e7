"""The sandbox: checks that point at a token, values over domains, access to public data only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from scumble.model.cache import Cache
from scumble.model.errors import ParameterError, QueryError, ReleaseError
from scumble.model.query import Expression
from scumble.public import sandbox as sandbox_module
from scumble.public.sandbox import Sandbox
from scumble.public.sql.expressions import catalogue
from scumble.public.sql.parse import parse
from tests.support.sql.sql_cases import SCHEMA, complaint

AGES = pa.table({"age": [20, 30, None], "young": [True, False, True]})


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox(SCHEMA, {"ages": AGES})
    yield sandbox
    sandbox.close()


def test_types_are_checked_in_place(sandbox: Sandbox, subtests: pytest.Subtests) -> None:
    for sql, expected in [
        (
            "SELECT COUNT(*) FROM t WHERE age = 'abc'",
            "age : age lists numbers; write a number, without quotes, in place of 'abc'.",
        ),
        (
            "SELECT COUNT(*) FROM t WHERE age + 1 = 'abc'",
            "age : A number is needed here, not 'abc'.",
        ),
        (
            "SELECT COUNT(*) FROM t WHERE upper(sex) > 3",
            "upper(sex) : Values of different types are compared here: write text",
        ),
        (
            "SELECT COUNT(*) FROM t\nWHERE age > 3 AND sex + 1 > 2",
            "sex : sex lists text, and arithmetic takes numbers.",
        ),
        (
            "SELECT COUNT(*) FROM t WHERE admitted < 'soon'",
            "admitted : admitted lists dates; write one like '2020-12-31' in place of 'soon'.",
        ),
        (
            "SELECT COUNT(*) FROM t WHERE smoker = 'often'",
            "smoker : smoker lists true and false; write one of them, without quotes,",
        ),
        *(
            (
                f"SELECT COUNT(*) FROM t WHERE {condition}",
                f"{condition.split()[0]} : sex lists text; write {quoted} in single quotes.",
            )
            for condition, quoted in {
                "sex = 1": "'1'",
                "sex > 0": "'0'",
                "1 = sex": "'1'",
                "NOT sex = 1": "'1'",
                "sex NOT IN (0, -1)": "'0', '-1'",
                "sex BETWEEN 0 AND 1": "'0', '1'",
                "age > 3 OR sex = true": "'TRUE'",
            }.items()
        ),
        ("SELECT COUNT(*) FROM t WHERE age", "age : WHERE needs conditions"),
        ("SELECT COUNT(*) FROM t WHERE smoker AND lower(sex)", "lower(sex) : WHERE needs"),
        ("SELECT COUNT(*) FROM t WHERE age % 0 = 1", "age : Division by zero"),
        ("SELECT COUNT(*) FROM t WHERE lower(sex, sex) = ''", "lower(sex, : No function matches"),
        ("SELECT COUNT(*) FROM t WHERE lower(,) = ''", "lower(,) : syntax error"),
        ("SELECT COUNT(*) FROM t WHERE regexp_matches(sex, '(')", "regexp_matches(sex, : "),
        ("SELECT SUM(sex) FROM t", "sex) : SUM needs a number. This expression is of type string."),
        ("SELECT AVG(admitted) FROM t", "admitted) : AVG needs a number."),
        (
            "SELECT AVG(IF(smoker, true, false)) FROM t",
            "IF(smoker, : AVG needs a number. This expression is of type bool",
        ),
        ("SELECT SUM(age * 9223372036854775807) FROM t", "age : Overflow"),
        ("SELECT SUM(CAST(sex AS INTEGER)) FROM t", "CAST(sex : A number is needed here, not"),
    ]:
        with subtests.test(sql):
            query = parse(sql, SCHEMA)
            with pytest.raises(QueryError) as caught:
                sandbox.check(query)
            assert complaint(sql, caught.value).startswith(expected)
            assert "LINE 1" not in str(caught.value)


def test_a_value_at_the_end_of_a_domain_is_checked(sandbox: Sandbox) -> None:
    last = SCHEMA["age"].labels()[-1]
    query = parse(
        f"SELECT COUNT(*) FROM t WHERE CASE WHEN age = {last} THEN sex::INT = 1 END", SCHEMA
    )
    with pytest.raises(QueryError, match="A number is needed here, not"):
        sandbox.check(query)


def brute_force(names: list[str]) -> list[dict[str, object]]:
    labels = [SCHEMA[name].labels().to_pylist() for name in names]
    return [dict(zip(names, values, strict=True)) for values in product(*labels)]


def test_values_over_a_product_of_domains(sandbox: Sandbox) -> None:
    query = parse(
        "SELECT SUM(age * 2) FROM t WHERE age > 30 AND (smoker OR sex = 'Male') AND 1 = 1", SCHEMA
    )
    names = ["sex", "age", "smoker"]
    found = sandbox.evaluate(query.expressions, names)
    cells = brute_force(names)
    assert [values.dtype for values in found] == [bool] * 4 + [np.float64]
    assert found[0].tolist() == [cell["age"] > 30 for cell in cells]  # type: ignore[operator]
    either = [bool(cell["smoker"]) or cell["sex"] == "Male" for cell in cells]
    assert found[1].tolist() == either
    assert found[2].all()
    assert found[4].tolist() == [2 * cell["age"] for cell in cells]  # type: ignore[operator]


def test_null_is_false_or_zero(sandbox: Sandbox) -> None:
    expressions = [
        Expression('"education-num" > 3', ("education-num",)),
        Expression('"education-num"', ("education-num",)),
        Expression("NULL", ()),
    ]
    truth, number, nothing = sandbox.evaluate(expressions, ["education-num"])
    assert truth.tolist() == [value > 3 for value in range(1, 17)] + [False]
    assert number.tolist() == [*range(1, 17), 0]
    assert not nothing.any()


def test_values_over_rows_and_domains(sandbox: Sandbox) -> None:
    frame = pa.table({"age": [20, 90, 20], "smoker": [True, None, False]})
    expressions = [
        Expression('"age" = 20 AND "sex" = \'Male\'', ("age", "sex")),
        Expression("\"sex\" = 'Male'", ("sex",)),
        Expression('"smoker"', ("smoker",)),
    ]
    both, one, row = sandbox.evaluate(expressions, ["age", "smoker", "sex"], frame)
    assert both.tolist() == [False, True, False, False, False, True]
    assert one.tolist() == [False, True] * 3
    assert row.tolist() == [True, True, False, False, False, False]
    assert [len(v) for v in sandbox.evaluate(expressions, ["age", "smoker", "sex"], frame[:0])] == [
        0
    ] * 3


def test_many_cells_keep_their_order(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "_BATCH", 1000)
    names = ["age", "education-num", "occupation", "weight", "smoker", "sex"]
    size = SCHEMA.size(names)
    assert size > 100_000  # more than a hundred batches, the last one not full
    assert size % 1000
    fastest = Expression("\"sex\" = 'Male'", ("sex",))
    every = Expression(
        '"sex" = \'Male\' AND "age" >= 17 AND "weight" > 0 AND '
        'coalesce("smoker", TRUE) IS NOT NULL AND coalesce("occupation", \'\') IS NOT NULL AND '
        'coalesce("education-num", 0) >= 0',
        tuple(sorted(names)),
    )
    one, other = sandbox.evaluate([fastest, every], names)
    assert (one == (np.arange(size) % 2 == 1)).all()
    assert (one == other).all()


def test_too_many_cells_are_refused(sandbox: Sandbox) -> None:
    wide = [name for name in SCHEMA.names if name != "name"]
    frame = pa.table({"age": pa.array(np.full(10**6, 20))})
    with pytest.raises(QueryError, match="An expression over age, admitted, education-num"):
        sandbox.evaluate([], ["age", "admitted", "education-num", *wide[3:]], frame)


def test_no_attribute_is_one_cell(sandbox: Sandbox) -> None:
    [found] = sandbox.evaluate([Expression("1 < 2", ())], [])
    assert found.tolist() == [True]


def test_infinity_counts_only_where_the_condition_holds(sandbox: Sandbox) -> None:
    query = parse("SELECT SUM(1 / (age - 17)) FROM t WHERE age > 17", SCHEMA)
    condition, _, number = sandbox.evaluate(query.expressions, ["age"])
    assert not condition[0]
    assert number[:3].tolist() == [0, 1, 0.5]
    for sql in ("SELECT SUM(1 / (age - 17)) FROM t", "SELECT AVG(ln(age - 17)) FROM t"):
        query = parse(sql, SCHEMA)
        with pytest.raises(QueryError, match="not a finite number"):
            sandbox.evaluate(query.expressions, ["age"])


def test_a_condition_must_be_one(sandbox: Sandbox) -> None:
    with pytest.raises(QueryError, match="WHERE needs conditions"):
        sandbox.holds([Expression('"age"', ("age",))], ["age"])
    with pytest.raises(QueryError, match="neither a condition nor a number"):
        sandbox.evaluate([Expression('"sex"', ("sex",))], ["sex"])


def test_side_tables(sandbox: Sandbox) -> None:
    query = parse(
        "SELECT COUNT(*) FROM t WHERE age IN (SELECT age FROM ages WHERE young)",
        SCHEMA,
        sandbox.columns,
    )
    [found] = sandbox.evaluate(query.clauses, ["age"])
    assert np.flatnonzero(found).tolist() == [3]
    with pytest.raises(ParameterError, match="'view'"):
        Sandbox(SCHEMA, {"View": AGES})


def test_the_functions_that_may_be_called() -> None:
    allowed = catalogue().deterministic
    assert {"lower", "regexp_matches", "date_trunc", "round", "nullif", "left"} <= allowed
    forbidden = (
        "random uuid now today nextval current_setting getenv version sleep_ms read_csv count"
    )
    assert allowed.isdisjoint(forbidden.split())


@pytest.fixture
def view(tmp_path: Path) -> Path:
    folder = tmp_path / "it's [a] *view"
    folder.mkdir()
    for name in ("one [1].parquet", "two.parquet"):
        parquet.write_table(pa.table({"age": [20, 30]}), folder / name)
    return folder


@pytest.mark.parametrize("name", ["", "one [1].parquet"])
def test_the_view_is_read(view: Path, name: str) -> None:
    found = Sandbox(SCHEMA, view=view / name).rows("SELECT count(*) AS n FROM view").to_pylist()
    assert found == [{"n": 2 if name else 4}]


def test_a_view_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="cannot be read"):
        Sandbox(SCHEMA, view=tmp_path / "none.parquet").rows("SELECT count(*) FROM view")


def test_nothing_else_can_be_reached(view: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.parquet"
    parquet.write_table(pa.table({"age": [1]}), secret)
    frame = pa.table({"age": [1]})
    assert frame.num_rows == 1  # a local variable, which DuckDB would find by its name
    sandbox = Sandbox(SCHEMA, view=view)
    for sql in (
        f"SELECT * FROM '{secret}'",
        f"SELECT * FROM read_parquet('{secret}')",
        f"SELECT * FROM read_text('{__file__}')",
        f"SELECT * FROM glob('{tmp_path}/*')",
        f"COPY (SELECT 1) TO '{tmp_path}/new.csv'",
        f"ATTACH '{tmp_path}/new.db' AS other",
        "SELECT * FROM frame",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SELECT * FROM 'https://example.com/x.parquet'",
    ):
        with pytest.raises(QueryError):
            sandbox.rows(sql)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it's [a] *view", "secret.parquet"]


def test_many_threads_share_a_sandbox(sandbox: Sandbox) -> None:
    def ask(least: int) -> int:
        expression = Expression(f'"age" >= {least}', ("age",))
        [found] = sandbox.evaluate([expression], ["age"])
        return int(found.sum())

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(17, 91)))
    assert found == list(range(74, 0, -1))


@pytest.mark.parametrize(
    "clauses",
    [
        "age < 30 AND sex = 'Male'",
        "age NOT BETWEEN 21 AND 43 AND sex <> 'Male'",
        "age IN (1, 30, 1000)",
    ],
)
def test_plain_comparisons_have_the_values_of_the_engine_without_it(clauses, monkeypatch) -> None:
    read = parse(f"SELECT COUNT(*) FROM t WHERE {clauses}", SCHEMA)
    engine, plain = Sandbox(SCHEMA), Sandbox(SCHEMA)
    monkeypatch.setattr(engine, "known", None)  # what another sandbox found is not used
    monkeypatch.setattr(plain, "known", Cache(1 << 20))
    monkeypatch.setattr(plain, "_select", lambda *_: pytest.fail("DuckDB was asked."))
    plain.check(read)
    found = plain.evaluate(read.clauses, read.attributes)
    assert np.array_equal(found, engine.evaluate(read.clauses, read.attributes))
    assert 0 < found[0].sum() < found[0].size
