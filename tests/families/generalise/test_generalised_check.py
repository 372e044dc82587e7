"""The audit of generalised rows: risk, linkage, joined releases, minimality, and broken twins."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

import scumble as sc
from scumble.audit import subjects
from scumble.audit.exposure import GroupExposure
from scumble.audit.linkage import linkage
from scumble.compare.truth import TrueTable
from scumble.families.generalise.check import (
    Risk,
    intersection,
    minimality,
    plant_table,
    table_exposure,
)
from scumble.model.schema.hierarchies import read_rule
from tests.support.terminal import run
from tests.support.twins.generalised_twins import SCHEMA, TWINS, people


def test_what_is_broken_is_refuted_and_its_honest_twin_is_not(subtests: pytest.Subtests) -> None:
    for twin in TWINS:
        with subtests.test(twin=twin.name):
            broken = [finding for finding in twin.broken(1, 7) if finding.refuted]
            assert broken
            assert not [finding.sentence for finding in twin.honest(1, 7) if finding.refuted]


def test_risk_figures() -> None:
    risk = Risk.of(np.array([1, 2, 7]))
    assert (risk.rows, risk.highest, risk.expected, risk.at_risk) == (10, 1.0, 3, 3)
    assert risk.average == pytest.approx(0.3)
    assert "Prosecutor" in risk.sentence()
    assert "Journalist" in risk.sentence()
    assert "Marketer" in risk.sentence()


def test_minimality_is_certain_where_the_group_alone_is_not() -> None:
    """Only two people with the same illness in place a can have made it necessary to join it with
    place b, and only one illness occurs twice.
    """
    schema, table = plant_table()
    for recoding in ("local", "global"):
        found = minimality(sc.Generalise(k=2, l=2, recoding=recoding), schema, table)
        assert (found.within_group, found.with_algorithm) == (0.4, 1.0)
    plain = minimality(sc.Generalise(k=5), schema, table)  # all rows together, whatever they have
    assert plain.with_algorithm == pytest.approx(0.4)


def test_two_releases_leave_less_than_each_alone() -> None:
    """Each release joins people of two ages or of both sexes: what both leave possible is one
    value.
    """
    schema = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 1)),
            sc.Attribute("sex", "quasi", sc.Category(["f", "m"])),
            sc.Attribute("ill", "sensitive", sc.Category(["w", "x", "y", "z"])),
        ]
    )
    table = pa.table(
        {"age": [0, 0, 1, 1], "sex": ["f", "m", "f", "m"], "ill": ["w", "x", "y", "z"]}
    )
    by_age = sc.Generalise(k=2, recoding="global", weights={"age": 1, "sex": 0.1})
    by_sex = sc.Generalise(k=2, recoding="global", weights={"age": 0.1, "sex": 1})
    releases = [
        sc.publish(table, schema, each, options=sc.PublishOptions(seed=1))
        for each in (by_age, by_sex)
    ]
    codes = {n: schema[n].encode(table[n])[0].astype(np.int64) for n in schema.names}
    found = intersection(*releases, codes)
    assert (found.numbers["first"], found.numbers["second"], found.numbers["both"]) == (0, 0, 1)
    assert found.numbers["right by both"] == 1


def test_linkage_and_the_exposure_axis_know_groups_that_are_all_alike() -> None:
    """Everybody of an age has the same illness: k-anonymity holds and all is told."""
    schema = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 1)),
            sc.Attribute("note", "insensitive", sc.IntegerRange(0, 9)),
            sc.Attribute("ill", "sensitive", sc.Category(["x", "y"])),
        ]
    )
    table = pa.table({"age": [0] * 5 + [1] * 5, "note": range(10), "ill": ["x"] * 5 + ["y"] * 5})
    release = sc.publish(table, schema, sc.Generalise(k=5), options=sc.PublishOptions(seed=1))
    assert any("everybody has the same ill" in remark for remark in release.remarks)
    assert linkage(release, ["age"]).posterior.max() == 1.0
    assert table_exposure(release, TrueTable.read(table, schema)) == GroupExposure(1.0, 1.0)


def test_from_the_command_line(tmp_path: Path) -> None:
    csv.write_csv(people(3), tmp_path / "people.csv")
    hierarchy = sc.Attribute(
        "age", "quasi", SCHEMA["age"].domain, hierarchy=read_rule({"intervals": [2, 4]})
    )
    SCHEMA.replace(hierarchy).save(tmp_path / "people.toml")
    source, schema, view = (str(tmp_path / name) for name in ("people.csv", "people.toml", "view"))
    done = run(
        *("publish", "generalise", source, "--schema", schema, "--k", "3"),
        *("--recoding", "global", "--suppress-share", "0.1", "-o", view),
    )
    assert done.code == 0, done.err
    done = run("rows", view, "-o", str(tmp_path / "view.csv"))
    assert done.code == 0, done.err
    assert "of the rows show the value" in done.err
    shown = csv.read_csv(tmp_path / "view.csv").to_pandas().astype(str)
    assert shown.groupby(["age", "sex"]).size().min() >= 3
    assert run("rows", view, "-o", str(tmp_path / "view.csv")).code != 0
    assert json.loads(run("rows", view, "--json").out)["rows"] == len(shown)
    done = run("audit", view, "--against", source, "--joined", view)
    assert done.code == 0, done.out
    for words in ("k-anonymity (k = 3)", "Prosecutor", "expected re-identifications in place of"):
        assert words in done.out
    assert "intersection" in done.out
    assert run("audit", view, "--joined", view).code != 0
    done = run("publish", "anatomy", source, "--schema", schema, "--l", "2", "-o", view)
    assert "export" not in done.err
    report = subjects.of_release(Path(view), ["age"], 2)
    assert report.learned is not None
