"""Answers say what the release left out: rows of a person beyond the limit, values outside."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv
import pytest

import scumble as sc
from scumble.server.answer_json import decode_answer, encode_answer
from tests.support.terminal import run

VISITS = pa.table(
    {"person": [f"p{each // 3}" for each in range(300)], "ward": ["eye", "heart", "eye"] * 100}
)
SCHEMA = sc.Schema.loads(
    'unit = "row"\n[attributes.person]\nrole = "identifier"\n'
    '[attributes.ward]\nrole = "sensitive"\ntype = "category"\nvalues = ["eye", "heart"]'
)
PEOPLE = sc.Schema.loads(
    'unit = "row"\n[attributes.person]\nrole = "identifier"\n[attributes.age]\nrole = "quasi"\n'
    'type = "integer"\nrange = [0, 3]'
)
ONE_ROW = "counts at most 1 row of each person; the others were left out"
SOME = {"epsilon": 1, "neighbours": "add_remove"}


def histogram(**more: object) -> sc.Release:
    return sc.publish(
        VISITS, SCHEMA, sc.Histogram(["ward"], **SOME, **more), options=sc.PublishOptions(seed=1)
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t",
        "SELECT ward, COUNT(*) FROM t GROUP BY ward",
        "SELECT COUNT(*), SUM(CASE WHEN ward = 'eye' THEN 1 ELSE 0 END) FROM t",
        "SELECT 2 * COUNT(*) FROM t WHERE ward = 'eye'",
        "SELECT ward, COUNT(*) FROM t GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1",
        "SELECT MEDIAN(CASE WHEN ward = 'eye' THEN 1 ELSE 0 END) FROM t",
        "SELECT VAR_POP(CASE WHEN ward = 'eye' THEN 1 ELSE 0 END) FROM t",
    ],
)
def test_every_answer_says_that_rows_of_a_person_were_left_out(sql: str) -> None:
    answer = histogram(person="person").answer(sql)
    assert ONE_ROW in answer.notes
    assert ONE_ROW in repr(answer)
    assert ONE_ROW in encode_answer(answer)["notes"]
    assert ONE_ROW in decode_answer(encode_answer(answer)).notes
    [several] = histogram(person="person", contribution=2).answer_many([sql])
    assert "counts at most 2 rows of each person; the others were left out" in several.notes


def test_nothing_is_said_where_no_row_was_left_out() -> None:
    """Without a person column the number of rows of a person is the owner's word."""
    assert histogram(contribution=3).answer("SELECT COUNT(*) FROM t").notes == ()


def test_publishing_says_what_is_counted(tmp_path) -> None:
    assert any(
        "At most one row of each person" in each for each in histogram(person="person").remarks
    )
    assert not any("of each person" in each for each in histogram().remarks)
    pa.csv.write_csv(VISITS, tmp_path / "visits.csv")
    SCHEMA.save(tmp_path / "visits.toml")
    given = ("publish", "histogram", tmp_path / "visits.csv", "-s", tmp_path / "visits.toml")
    given += ("-a", "ward", "-e", "1", "--neighbours", "add_remove", "--person", "person")
    done = run(*given, "-o", tmp_path / "release")
    said = "(--contribution 1, which it is if none is given); answers leave out the others"
    assert done.err.count(said) == 1
    assert ONE_ROW in run("ask", tmp_path / "release", "SELECT COUNT(*) FROM t").err
    told = run("ask", tmp_path / "release", "SELECT COUNT(*) FROM t", "--json").json
    assert told[0]["notes"] == [ONE_ROW]
    done = run(*given, "--contribution", "3", "-o", tmp_path / "three")
    assert "At most 3 rows of each person are counted (--contribution 3)" in done.err


def test_linked_tables_say_it_of_visits_of_their_number_and_of_joins() -> None:
    release = sc.publish_linked(
        {
            "people": pa.table({"person": [f"p{n}" for n in range(100)], "age": [1, 2] * 50}),
            "visits": VISITS,
        },
        {"people": PEOPLE, "visits": SCHEMA},
        sc.Synthesis(["age"], epsilon=5, delta=1e-9, neighbours="add_remove"),
        keys={"people": "person", "visits": "person"},
        options=sc.PublishOptions(seed=1),
    )
    number = "'number of visits' counts at most 1 row of each person"
    assert ONE_ROW in release.answer("SELECT COUNT(*) FROM visits").notes
    assert release.answer("SELECT COUNT(*) FROM people WHERE age = 1").notes == ()
    asked = 'SELECT COUNT(*) FROM people WHERE "number of visits" = 1'
    assert number in release.answer(asked).notes
    joined = release.answer("SELECT COUNT(*) FROM people p JOIN visits v ON p.person = v.person")
    assert f"visits: {ONE_ROW}" in joined.notes
    assert any("At most one row of each person" in each for each in release["visits"].remarks)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, COUNT(*) FROM t WHERE ward = 'nose' GROUP BY ward",
        "SELECT ward, COUNT(*), SUM(1) FROM t WHERE ward = 'nose' GROUP BY ward",
        "SELECT ward, COUNT(*) FROM t WHERE ward = 'nose' GROUP BY ward ORDER BY 2 LIMIT 1",
    ],
)
def test_an_empty_table_has_the_notes_on_its_question(sql: str, tmp_path) -> None:
    note = "'nose' is not in the domain of 'ward', so no row has it."
    with sc.Database.create(tmp_path / "db", VISITS, SCHEMA, epsilon=1, noise=10) as database:
        for source in (histogram(), sc.publish(VISITS, SCHEMA, sc.Uniform(epsilon=1)), database):
            answer = source.answer(sql)
            assert len(answer) == 0
            assert answer.notes == [note]
            assert note in repr(answer)
            assert decode_answer(encode_answer(answer)).notes == [note]
    histogram().save(tmp_path / "release", insecure=True)
    assert note in run("ask", tmp_path / "release", sql).err
    assert note in run("ask", tmp_path / "release", sql, "--json").err
