"""Estimates as Python values: formatting, rounding, comparison, frames, figures, pickles."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import scumble as sc
from scumble.demo.census import census
from scumble.model.errors import ReleaseError, ScumbleError
from scumble.public.estimate import Anywhere, Exact, Undefined, Unknown
from scumble.public.plot import groups as drawing

PEOPLE, SCHEMA = census(2_000, seed=1)
COUNT = "SELECT COUNT(*) AS n FROM people WHERE condition = 'Asthma'"
BY_SEX = "SELECT sex AS who, COUNT(*) AS n FROM people WHERE condition = 'Asthma' GROUP BY sex"
FEW = sc.Estimate(float("nan"), Anywhere(0.0, 5.0), "")


@pytest.fixture(scope="module")
def release() -> sc.Release:
    return sc.publish(PEOPLE, SCHEMA, sc.Subset(epsilon=2), options=sc.PublishOptions(seed=1))


def ask(release: sc.Release, sql: str) -> Any:
    return release.answer(sql)


def test_an_estimate_formats_and_rounds_its_value() -> None:
    one = sc.Estimate(1234.56, Exact(), "")
    assert f"{one:.1f}" == "1234.6"
    assert f"{one:,.0f}" == "1,235"
    assert f"{one}" == str(one)
    assert round(one, 1) == 1234.6
    assert round(one) == 1235


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
def test_an_estimate_is_not_compared_by_its_value(compare: Callable[[Any, Any], bool]) -> None:
    one = sc.Estimate(3.0, Exact(), "")
    for other in (3, 3.0, one, sc.Estimate(4.0, Exact(), "")):
        for pair in ((one, other), (other, one)):
            with pytest.raises(TypeError, match=r"interval\(\).*float\(estimate\)"):
                compare(*pair)


def test_equal_is_the_same_answer_and_never_a_number() -> None:
    one = sc.Estimate(3.0, Exact(), "")
    for other in (3, 3.0):
        with pytest.raises(TypeError, match="differs from the truth by noise"):
            assert one == other
    assert one == sc.Estimate(3.0, Exact(), "", alias="n")
    assert one != sc.Estimate(3.0, Unknown(), "")
    assert one != "3"
    assert len({one, sc.Estimate(3.0, Exact(), "")}) == 1


@pytest.mark.parametrize(
    ("law", "reason"),
    [(Anywhere(0, 5), "too few people"), (Unknown(), "no rows"), (Undefined(), "undefined")],
)
def test_what_has_no_value_says_why(law: Any, reason: str) -> None:
    none = sc.Estimate(float("nan"), law, "")
    assert none.reason == f"{none:.1f}" == reason
    assert none.to_dict()["reason"] == reason
    assert none.to_dict()["value"] is None
    assert none.to_arrow().select(["value", "reason"]).to_pylist() == [
        {"value": None, "reason": reason}
    ]
    assert sc.Estimate(1.0, law, "").reason == ""
    assert sc.Estimate(1.0, law, "").to_dict()["reason"] is None


def test_an_alias_names_the_columns_of_a_frame(release: sc.Release) -> None:
    one, groups = ask(release, COUNT), ask(release, BY_SEX)
    for frame in (one.to_pandas(), one.to_polars()):
        assert next(iter(frame.columns)) == "n"
        assert frame["n"][0] == one.value
    for frame in (groups.to_pandas(), groups.to_polars()):
        assert list(frame.columns)[:2] == ["who", "n"]
        assert frame["n"][1] == groups["male"].value
    assert one.to_arrow(0.5)["low"][0].as_py() == one.interval(0.5)[0]
    assert ask(release, COUNT.replace("AS n", "")).to_arrow().column_names[0] == "value"


def test_an_alias_that_a_column_has_is_not_used_twice(release: sc.Release) -> None:
    sql = BY_SEX.replace("who", "level").replace("AS n", "AS stderr")
    names = ask(release, sql).to_arrow().column_names
    assert names[:2] == ["group level", "value"]
    assert len(set(names)) == len(names)


def test_groups_are_drawn_with_their_intervals(release: sc.Release) -> None:
    groups = ask(release, BY_SEX)
    [axes] = groups.plot(0.9).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [key for (key,), _ in groups]
    drawn = [tuple(each.get_segments()[0][:, 0]) for each in axes.collections[::2]]
    assert drawn == [pytest.approx(each.interval(0.9)) for _, each in groups]
    assert axes.get_xlabel() == "n, with intervals of 90 %"
    none = sc.Estimates([("sex", SCHEMA["sex"].arrow_type)], [(("female",), FEW)])
    [axes] = none.plot().axes
    assert [text.get_text() for text in axes.texts] == ["too few people"]


def test_a_table_is_drawn_with_a_panel_for_each_number(release: sc.Release) -> None:
    sql = "SELECT sex, COUNT(*) AS n, AVG(age) AS years FROM t GROUP BY sex"
    table = release.table(sql)
    figure = table.plot(level=0.9)
    assert [axes.get_xlabel().partition(",")[0] for axes in figure.axes] == ["n", "years"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["female", "male"]
    for axes, item in zip(figure.axes, table.items, strict=True):
        drawn = [tuple(each.get_segments()[0][:, 0]) for each in axes.collections[::2]]
        assert drawn == [pytest.approx(row[item].interval(0.9)) for _, row in table]
    [axes] = table.plot("years").axes
    assert axes.get_xlabel() == "years, with intervals of 95 %"
    with pytest.raises(sc.ParameterError, match=r"must be one of n, years\. Got 'x' instead"):
        table.plot("x")


def test_a_figure_needs_the_extra(release: sc.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "available", lambda: False)
    with pytest.raises(ScumbleError, match=r"pip install 'scumble\[plot\]'"):
        ask(release, BY_SEX).plot()


def copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # what this test wrote


@pytest.mark.parametrize(
    "sql",
    [
        COUNT,
        BY_SEX,
        "SELECT sex, COUNT(*) AS n, AVG(age) FROM people WHERE condition = 'Asthma' GROUP BY sex",
        "SELECT MEDIAN(age), QUANTILE_CONT(age, 0.9) FROM people WHERE condition = 'Asthma'",
        "SELECT AVG(age) FROM people WHERE condition = 'Asthma'",
        "SELECT condition, COUNT(*) FROM people GROUP BY ROLLUP(condition)",
    ],
)
@pytest.mark.parametrize(
    "mechanism",
    [
        sc.Subset(epsilon=2),
        sc.Aroma(k=20),
        sc.Anatomy(l=3, suppress=True),
        sc.AlphaBeta(k=10, gamma=0.2, multiplicity=10),
        sc.Marginals(["age", "sex", "condition"], ways=3, epsilon=1, neighbours="replace"),
        sc.PrivTree(["age", "sex", "condition"], epsilon=1, neighbours="replace"),
        sc.Histogram(["age", "sex", "condition"], epsilon=1, neighbours="add_remove"),
        sc.Synthesis(["age", "sex", "condition"], epsilon=1, delta=1e-9, neighbours="add_remove"),
    ],
    ids=lambda each: each.name if isinstance(each, object) and hasattr(each, "name") else None,
)
def test_answers_are_pickled(mechanism: Any, sql: str) -> None:
    release = sc.publish(PEOPLE, SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
    found = ask(release, sql)
    again = copied(found)
    assert type(again) is type(found)
    for level in (0.9, 0.95):
        assert again.to_arrow(level).to_pylist() == found.to_arrow(level).to_pylist()
    assert repr(again) == repr(found)


def test_a_release_is_pickled_with_its_files(release: sc.Release) -> None:
    again = copied(release)
    assert type(again) is type(release)
    assert again.manifest == release.manifest
    assert again.folder != release.folder
    assert ask(again, COUNT) == ask(release, COUNT)


def test_a_saved_release_is_pickled_as_its_place(tmp_path: Path) -> None:
    release = sc.publish(PEOPLE, SCHEMA, sc.Subset(epsilon=2))
    release.save(tmp_path / "view")
    written = pickle.dumps(release)
    assert len(written) < 1_000
    again = pickle.loads(written)  # what this test wrote
    assert again.folder == release.folder
    assert ask(again, COUNT) == ask(release, COUNT)


def test_a_record_that_is_not_saved_is_not_pickled(tmp_path: Path) -> None:
    mechanism = sc.Aroma(k=20, identifier="person")
    release = sc.publish(PEOPLE, SCHEMA, mechanism)
    with pytest.raises(ReleaseError, match="Save it first"):
        pickle.dumps(release)
    release.save(tmp_path / "view", update_record=tmp_path / "people.book")
    assert copied(release).update_record == release.update_record


def test_a_schema_is_pickled() -> None:
    assert copied(SCHEMA) == SCHEMA
