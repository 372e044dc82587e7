"""Answers as people and programs see them: numbers, tables, errors."""

from __future__ import annotations

import math
import os
from typing import Any

import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.laws.base import Normal
from scumble.model.query import Expression, Query
from scumble.public.estimate import Estimate, Exact, Unknown, format_number
from tests.support.people import people, records_release, schema


@pytest.fixture(scope="module")
def release() -> sc.Release:
    return sc.publish(
        people(500, schema()), schema(), sc.Uniform(epsilon=2), options=sc.PublishOptions(seed=4)
    )


def test_an_estimate_is_a_number_with_its_error(release: sc.Release) -> None:
    answer = release.answer("SELECT COUNT(*) FROM t WHERE job = 'cook'")
    assert float(answer) == answer.value
    low, high = answer.interval(0.9)
    wide_low, wide_high = answer.interval(0.99)
    assert wide_low <= low <= answer.value <= high <= wide_high
    numbers = {
        "value",
        "stderr",
        "low",
        "high",
        "bound_low",
        "bound_high",
        "noise_low",
        "noise_high",
        "typical_low",
        "typical_high",
        "selected_value",
    }
    assert set(answer.to_dict()) == {*numbers, "level", "reason", "method", "notes"}
    assert "±" in repr(answer)
    assert "<b>" in answer._repr_html_()


def test_a_level_is_between_zero_and_one(release: sc.Release, subtests: pytest.Subtests) -> None:
    for level in [0, 1, 95, -1, "0.95", True, math.nan]:
        with (
            subtests.test(level=level),
            pytest.raises(sc.ParameterError, match="'level' parameter"),
        ):
            release.answer("SELECT COUNT(*) FROM t").interval(level)


def test_groups_as_tables(release: sc.Release) -> None:
    answer = release.answer("SELECT sex, job, COUNT(*) FROM t GROUP BY sex, job")
    assert answer.groups == ("sex", "job")
    assert [key for key, _ in answer][:2] == [("f", "cook"), ("f", "driver")]
    table = answer.to_arrow(0.9)
    assert table.column_names[:6] == ["sex", "job", "value", "stderr", "low", "high"]
    assert len(answer.to_pandas()) == len(answer) == 10
    assert answer["f", "cook"].value == table["value"][0].as_py()
    assert "<table>" in answer._repr_html_()
    with pytest.raises(KeyError):
        answer["f", "pilot"]


def test_groups_in_the_order_asked(release: sc.Release) -> None:
    answer = release.answer("SELECT job, sex, COUNT(*) FROM t GROUP BY job, sex")
    assert [key for key, _ in answer][:3] == [("cook", "f"), ("cook", "m"), ("driver", "f")]


def test_many_groups_are_shown_in_part() -> None:
    domain = schema(ages=300)
    table = records_release(domain, people(5000, domain), ())
    answer = table.answer("SELECT age, COUNT(*) FROM t GROUP BY age")
    assert len(repr(answer).splitlines()) < 70
    assert f"({len(answer):,} groups)" in repr(answer)
    assert len(answer.to_dicts()) == len(answer)


def test_a_group_called_value() -> None:
    domain = sc.Schema([sc.Attribute("value", "quasi", sc.IntegerRange(0, 1))])
    table = records_release(domain, pa.table({"value": [0, 1, 1]}), ())
    answer = table.answer("SELECT value, COUNT(*) FROM t GROUP BY value")
    assert [(row["group value"], row["value"]) for row in answer.to_dicts()] == [(0, 1.0), (1, 2.0)]
    assert answer.to_arrow()["group value"].to_pylist() == [0, 1]


def test_excluded_groups_are_not_listed(release: sc.Release) -> None:
    answer = release.answer(
        "SELECT job, COUNT(*) FROM t WHERE job IN ('cook', 'nurse') GROUP BY job"
    )
    assert [key for key, _ in answer] == [("cook",), ("nurse",)]


def test_clamping(release: sc.Release) -> None:
    question = "SELECT age, job, COUNT(*) FROM t GROUP BY age, job"
    free, cut = release.answer(question), release.answer(question, clamp=True)
    assert min(estimate.value for _, estimate in free) < 0
    for _, estimate in cut:
        low, high = estimate.interval()
        assert 0 <= low <= estimate.value <= high <= 500
    with pytest.raises(sc.ParameterError, match="Only counts"):
        release.answer("SELECT SUM(age) FROM t", clamp=True)


def test_side_tables(release: sc.Release) -> None:
    side = {"skilled": pa.table({"name": ["nurse", "smith"]})}
    question = "SELECT COUNT(*) FROM t WHERE job IN (SELECT name FROM skilled)"
    answer = release.answer(question, tables=side)
    assert (
        answer.value
        == release.answer("SELECT COUNT(*) FROM t WHERE job IN ('nurse', 'smith')").value
    )
    parsed = release.parse(question, tables=side)
    assert release.answer_many([parsed, question], tables=side)[0].value == answer.value


def test_one_question_is_no_list(release: sc.Release) -> None:
    for questions in ("SELECT COUNT(*) FROM t", b"SELECT COUNT(*) FROM t", 5, None):
        with pytest.raises(sc.ParameterError, match="a list of questions"):
            release.answer_many(questions)  # type: ignore[arg-type]


@pytest.mark.parametrize("question", [5, None, b"SELECT", ["SELECT COUNT(*) FROM t"], schema()])
def test_a_question_is_a_text(release: sc.Release, question: Any) -> None:
    with pytest.raises(sc.ParameterError, match="'sql' parameter of ask must be the text"):
        release.answer(question)
    with pytest.raises(sc.ParameterError, match="'sql' parameter of ask must be the text"):
        release.answer_many([question])


def test_a_question_put_together_by_hand(release: sc.Release) -> None:
    query = Query("count", clauses=(Expression('"age" > 3', ("age",)),))
    same = release.answer("SELECT COUNT(*) FROM t WHERE age > 3")
    assert release.answer(query).value == same.value
    with pytest.raises(sc.SchemaError, match="height"):
        release.answer(Query("count", groups=("height",)))


def test_a_wrong_question_among_many_is_shown(release: sc.Release) -> None:
    questions = ["SELECT COUNT(*) FROM t WHERE age > 3", "SELECT COUNT(*) FROM t WHERE age = 'old'"]
    with pytest.raises(sc.QueryError) as error:
        release.answer_many(questions)
    assert "age = 'old'" in str(error.value)
    assert error.value.line == 1


def test_an_opened_release_survives_a_change_of_folder(release, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = sc.publish(people(20, schema()), schema(), sc.Uniform(epsilon=1))
    made.save("view")
    opened = sc.open("view")
    os.mkdir("elsewhere")
    monkeypatch.chdir("elsewhere")
    assert opened.answer("SELECT COUNT(*) FROM t").value == 20


def test_a_release_shows_its_promises(release: sc.Release) -> None:
    assert repr(release).startswith("Release by uniform of age, sex, job")
    assert len(repr(release).splitlines()) == 4
    assert "<li>" in release._repr_html_()
    assert "NOT COVERED" not in release._repr_html_()
    read = sc.Schema.infer(pa.table({"a": ["x", "y"] * 9}))
    unsure = sc.publish(
        pa.table({"a": ["x", "y"] * 9}), read, sc.Histogram(["a"], epsilon=1, neighbours="replace")
    )
    assert "NOT COVERED: domains read from the data (a)" in unsure._repr_html_()
    assert "NOT COVERED: domains read from the data (a)" in repr(unsure)
    assert len(repr(release.guarantees).splitlines()) == 3


def test_digits(subtests: pytest.Subtests) -> None:
    for number, error, text in [
        (1234.5678, 100.0, "1,235"),
        (1234.5678, 0.5, "1,234.57"),
        (12.3456, 0.01, "12.346"),
        (45426.5, 0.0, "45,426.5"),
        (90855174.0, 0.0, "90,855,174"),
        (math.nan, math.inf, "unknown"),
        (math.inf, 1.0, "∞"),
        (-0.3, 11.0, "0"),
        (-0.004, 0.1, "0.00"),
        (-0.0, 0.0, "0"),
        (-0.0, math.inf, "0"),
        (-0.6, 11.0, "-1"),
    ]:
        with subtests.test(number=number, error=error, text=text):
            assert format_number(number, error) == text


def test_answers_without_a_law() -> None:
    assert repr(Estimate(3.0, Exact(), "exact")).startswith("3 exactly")
    assert Estimate(math.nan, Unknown(), "none").to_dict()["low"] is None
    assert Estimate(3.0, Normal(4.0), "x").stderr == 2


def test_side_tables_from_files_and_bad_ones(release: sc.Release, tmp_path) -> None:
    file = tmp_path / "codes.csv"
    file.write_text("name,code\nnurse,01\nsmith,02\n")
    question = "SELECT COUNT(*) FROM t WHERE job IN (SELECT name FROM codes WHERE code = '01')"
    answer = release.answer(question, tables={"codes": file})
    assert answer.value == release.answer("SELECT COUNT(*) FROM t WHERE job = 'nurse'").value
    same = pa.table({"x": [1]})
    for tables in ({"a": 3}, {"a": same, "A": same}, {"view": same}):
        with pytest.raises(sc.ParameterError):
            release.answer("SELECT COUNT(*) FROM t", tables=tables)
    with pytest.raises(sc.SourceError, match="There is no file"):
        release.answer("SELECT COUNT(*) FROM t", tables={"a": tmp_path / "nowhere.csv"})
