"""Totals of ROLLUP, CUBE and GROUPING SETS are told apart from groups of missing values."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import scumble as sc
from scumble.cli import printing
from scumble.server.answer_json import decode_answer, encode_answer
from scumble.server.pages.asking import _table
from scumble.server.postgres.session import result_of

SCHEMA = sc.Schema.loads(
    '[attributes.age]\nrole = "quasi"\ntype = "integer"\nrange = [1, 4]\n'
    '[attributes.job]\nrole = "sensitive"\ntype = "category"\nvalues = ["cook", "nurse"]\n'
    "missing = true"
)
PEOPLE = pa.table(
    {
        "age": [1 + n % 4 for n in range(600)],
        "job": [["cook", "nurse", None][n % 3] for n in range(600)],
    }
)
ROLLUP = "SELECT job, COUNT(*) AS n FROM t GROUP BY ROLLUP (job)"
BOTH = "SELECT job, COUNT(*) AS n, SUM(age) AS s FROM t GROUP BY ROLLUP (job)"
QUESTIONS = [
    ROLLUP,
    BOTH,
    "SELECT job, GROUPING(job) AS g, COUNT(*) AS n FROM t GROUP BY ROLLUP (job)",
    "SELECT job, age, COUNT(*) AS n FROM t GROUP BY CUBE (job, age)",
    "SELECT job, age, GROUPING(job, age) AS g, COUNT(*) AS n FROM t GROUP BY CUBE (job, age)",
    (
        "SELECT job, age > 2 AS old, GROUPING(age > 2) AS g, COUNT(*) AS n FROM t "
        "GROUP BY GROUPING SETS ((job), (old), ())"
    ),
    "SELECT job, COUNT(*) AS n FROM t GROUP BY ROLLUP (job) HAVING GROUPING(job) = 0",
    "SELECT job, GROUPING(job) AS g, COUNT(*) AS n FROM t GROUP BY ROLLUP (job) HAVING g = 1",
    "SELECT job, GROUPING(job) AS g, COUNT(*) AS n FROM t GROUP BY job",
]


@pytest.fixture(scope="module", params=["release", "database"])
def source(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if request.param == "release":
        yield sc.publish(
            PEOPLE, SCHEMA, sc.Uniform(keep=1 - 1e-9), options=sc.PublishOptions(seed=1)
        )
        return
    folder = tmp_path_factory.mktemp("totals") / "db"
    with sc.Database.create(folder, PEOPLE, SCHEMA, epsilon=100, noise=4, seed=1) as database:
        yield database


def meant(sql: str) -> pa.Table:
    """Return what DuckDB answers."""
    with duckdb.connect() as connection:
        connection.register("t", PEOPLE)
        return connection.sql(sql).to_arrow_table()


def test_printed_tables_say_all_and_missing(
    source: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for sql in (ROLLUP, BOTH):
        answer = source.answer(sql)
        printing.show_answer(answer, 0.95)
        page = str([labels for labels, _ in _table(answer, 0.95)["rows"]])
        for text in (repr(answer), answer._repr_html_(), capsys.readouterr().out, page):
            assert text.count("(all)") == text.count("(missing)") == 1
            assert "GROUPING" not in text
        total, missing = answer[sc.ALL], answer[None]
        if sql == BOTH:
            total, missing = total["n"], missing["n"]
        assert total.value == pytest.approx(600, abs=60)
        assert missing.value == pytest.approx(200, abs=60)


def test_frames_have_a_column_that_tells_totals(source: Any) -> None:
    for sql in (ROLLUP, BOTH):
        answer = source.answer(sql)
        table = answer.to_arrow()
        assert table.column_names[:2] == ["job", "GROUPING(job)"]
        jobs, totals = table["job"].to_pylist(), table["GROUPING(job)"].to_pylist()
        assert list(zip(jobs, totals, strict=True)) == [
            ("cook", 0),
            ("nurse", 0),
            (None, 0),
            (None, 1),
        ]
        assert [row["GROUPING(job)"] for row in answer.to_dicts()] == totals
        assert answer.to_polars()["GROUPING(job)"].to_list() == totals
        assert answer.to_pandas()["GROUPING(job)"].tolist() == totals
        wire = result_of(answer)
        assert [column.name for column in wire.columns[:2]] == ["job", "GROUPING(job)"]
        assert [row[:2] for row in wire.rows] == list(zip(jobs, totals, strict=True))


def test_grouping_means_what_duckdb_says(source: Any, subtests: pytest.Subtests) -> None:
    """Rows of frames, without their errors: group columns, and GROUPING where it is selected."""
    for sql in QUESTIONS:
        with subtests.test(sql=sql):
            table = source.answer(sql).to_arrow()
            number = "n" if "n" in table.column_names else "value"
            wanted = meant(sql)
            names = [name for name in wanted.column_names if name not in ("n", "s")]
            found = list(zip(*(table[name].to_pylist() for name in names), strict=True))
            expected = list(zip(*(wanted[name].to_pylist() for name in names), strict=True))
            assert sorted(found, key=str) == sorted(expected, key=str)
            counts = dict(zip(map(str, expected), wanted["n"].to_pylist(), strict=True))
            if len(counts) == len(expected):  # GROUPING tells all rows apart
                for key, value in zip(found, table[number].to_pylist(), strict=True):
                    assert value == pytest.approx(counts[str(key)], abs=60)


def test_the_columns_do_not_depend_on_the_rows(source: Any) -> None:
    none = source.answer(f"{ROLLUP} HAVING COUNT(*) > 10000")
    assert len(none) == 0
    assert none.to_arrow().column_names[:2] == ["job", "GROUPING(job)"]
    plain = source.answer("SELECT job, COUNT(*) FROM t GROUP BY job")
    assert "GROUPING(job)" not in plain.to_arrow().column_names


def test_grouping_orders_and_costs_nothing(source: Any) -> None:
    sql = "SELECT job, COUNT(*) AS n FROM t GROUP BY ROLLUP (job) ORDER BY {} DESC LIMIT 1"
    for order in ("GROUPING(job)", "1 - GROUPING(job) <> 1"):
        answer = source.answer(sql.format(order))
        assert [key for key, _ in answer.rows] == [(sc.ALL,)]
        assert type(answer) is sc.Estimates  # it was not chosen by its estimate
    if isinstance(source, sc.Database):
        asked = source.preview(f"{QUESTIONS[2]} ORDER BY g, GROUPING(job)")
        assert asked.charged == 0


def test_answers_over_http_keep_their_totals(source: Any) -> None:
    for sql in QUESTIONS:
        answer = source.answer(sql)
        sent = decode_answer(encode_answer(answer))
        assert [key for key, _ in sent.rows] == [key for key, _ in answer.rows]
        assert sent.groupings == answer.groupings
        assert repr(sent) == repr(answer)


def test_a_selected_grouping_is_printed(source: Any) -> None:
    answer = source.answer(QUESTIONS[2])
    assert answer.header(0.95)[:3] == ["job", "g", "n"]
    assert [row[:2] for row in answer.cells(answer.rows, 0.95)] == [
        ["cook", "0"],
        ["nurse", "0"],
        ["(missing)", "0"],
        ["(all)", "1"],
    ]
    assert answer.to_arrow().column_names[:3] == ["job", "g", "n"]


def test_a_wrong_grouping_is_pointed_at(source: Any) -> None:
    wrong = {
        "SELECT GROUPING(age), COUNT(*) FROM t GROUP BY ROLLUP (job)": "'age' is not in GROUP BY",
        "SELECT GROUPING(), COUNT(*) FROM t GROUP BY job": "needs a column of GROUP BY",
        "SELECT GROUPING(job) + 1, COUNT(*) FROM t GROUP BY job": "stands by itself",
        "SELECT GROUPING(job) FROM t GROUP BY job": "must ask for an aggregate",
        "SELECT COUNT(*) FROM t GROUP BY job ORDER BY GROUPING(age)": "'age' is not in GROUP BY",
    }
    for sql, message in wrong.items():
        with pytest.raises(sc.QueryError, match=message):
            source.answer(sql)


def test_all_is_one_value() -> None:
    assert copy.deepcopy(sc.ALL) is pickle.loads(pickle.dumps(sc.ALL)) is sc.ALL
    assert (str(sc.ALL), repr(sc.ALL)) == ("(all)", "ALL")


def test_joins_of_several_tables_have_totals() -> None:
    from tests.families.synthesis.test_linked import _published

    joined = "FROM people JOIN visits ON id = person"
    sql = f"SELECT sex, ward, COUNT(*) {joined} GROUP BY ROLLUP (sex, ward)"
    answer = _published().answer(sql)
    keys = [key for key, _ in answer]
    assert keys == [
        ("f", "eye"),
        ("f", "heart"),
        ("f", sc.ALL),
        ("m", "eye"),
        ("m", "heart"),
        ("m", sc.ALL),
        (sc.ALL, sc.ALL),
    ]
    assert answer["f", sc.ALL].value == answer["f", "eye"].value + answer["f", "heart"].value
    assert answer.to_arrow().column_names[2:4] == ["GROUPING(sex)", "GROUPING(ward)"]
