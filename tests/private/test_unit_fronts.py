"""The privacy unit on every front: asked for, stated where a promise is read, and kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import scumble as sc
from scumble.audit import subjects
from scumble.audit.report import page
from scumble.compare.settings import schema_to_compare
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit
from scumble.model.privacy.guarantee import at_most
from scumble.private.engines.local import LocalEngine
from scumble.private.ledger.terms import group_loss
from scumble.private.sampling.source import Keystream
from scumble.private.summaries.base import ProtectedSummary
from scumble.private.tables.rows import Rows
from scumble.public.archive.archive import MANIFEST, _digest_of_json
from tests.private.test_unit import COUNT, PEOPLE, STAYS, TEXT, UNSTATED, histogram
from tests.support.mechanisms.conformance_cases import cases
from tests.support.terminal import run

CASES = {
    name: case
    for name, case in cases().items()
    if isinstance(case.make(), ProtectedSummary) and name.partition(",")[0] != "keys"
}
ASKED = "what one row stands for"
# One person with ten rows in "heart", and ninety with one row in "eye".
TEN = pa.table(
    {
        "patient": ["often"] * 10 + [f"p{row}" for row in range(90)],
        "ward": ["heart"] * 10 + ["eye"] * 90,
    }
)
FIVE = UNSTATED.with_unit("patient", 5)
GUESTS = pa.table({"id": [f"p{row}" for row in range(100)], "age": [1, 2] * 50})
GUEST = sc.Schema.loads(
    '[attributes.id]\nrole = "identifier"\n[attributes.age]\nrole = "quasi"\n'
    'type = "integer"\nrange = [0, 3]'
)
SYNTHESIS: dict[str, Any] = {"epsilon": 5, "delta": 1e-9, "neighbours": "add_remove"}


def linked(stays: sc.Schema, **more: Any) -> Any:
    """People and their stays, of which three each are counted by default."""
    keys = {"people": "id", "stays": "patient"}
    tables, schemas = {"people": GUESTS, "stays": STAYS}, {"people": GUEST, "stays": stays}
    plan = sc.Synthesis(["age"], **{**SYNTHESIS, **more})
    return sc.publish_linked(tables, schemas, plan, keys=keys)


# --- who is protected is asked for ---------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        lambda: sc.publish(STAYS, UNSTATED, epsilon=1),
        lambda: sc.Aroma(k=3).publish_levels(STAYS, UNSTATED, levels=[2, 3]),
        lambda: sc.recommend(UNSTATED, rows=300, epsilon=1),
        lambda: schema_to_compare(UNSTATED),
        lambda: subjects.of_table(STAYS, UNSTATED),
        lambda: sc.publish(STAYS, UNSTATED, sc.Dirichlet("ward", epsilon=1)),
    ],
)
def test_python_asks(made: Callable[[], object]) -> None:
    with pytest.raises(sc.SchemaError, match=ASKED):
        made()


def test_linked_tables_ask_for_the_rows_of_a_person() -> None:
    with pytest.raises(sc.SchemaError, match=r"'stays' does not say how many .* most_rows = 5"):
        linked(UNSTATED)
    with pytest.raises(sc.ParameterError, match=r"'stays' says most_rows = 3\. Leave contribution"):
        linked(PEOPLE, contribution=2)
    other = sc.Schema((*UNSTATED, sc.Attribute("household", "identifier"))).with_unit("household")
    with pytest.raises(sc.ParameterError, match="names people by 'household'"):
        linked(other)
    for stated in (linked(PEOPLE), linked(UNSTATED, contribution=3)):
        assert stated["stays"].schema.unit == sc.Unit("patient", 3)
        assert stated.guarantees[0].parameters["contribution"] == 3
        assert "at most 3 rows of that person in each other table" in str(
            stated.guarantees[0].limits
        )


def test_the_shell_asks(tmp_path: Path) -> None:
    csv.write_csv(STAYS, tmp_path / "stays.csv")
    csv.write_csv(GUESTS, tmp_path / "people.csv")
    GUEST.save(tmp_path / "people.toml")
    UNSTATED.save(tmp_path / "stays.toml")
    table, made = tmp_path / "stays.csv", ("-o", tmp_path / "out")
    schema, chart = ("--schema", tmp_path / "stays.toml"), ("-o", tmp_path / "chart.html")
    keys = (f"people={tmp_path / 'people.csv'}", f"stays={table}", "-a", "people=age")
    keys += ("--key", "people=id", "--key", "stays=patient", "--neighbours", "add_remove")
    for words in (
        ("publish", "auto", table, *schema, "-e", "1", *made),
        ("publish", "aroma", table, *schema, "--k", "3", "--levels", "2,3", *made),
        ("publish", "linked", *keys, "-e", "5", "--delta", "1e-9", *made),
        ("db", "create", tmp_path / "out", table, *schema, "-e", "1", "-l", "40"),
        ("recommend", *schema, "--rows", "300", "-e", "1"),
        ("compare", table, *schema, "--methods", "uniform", "-e", "1", *chart),
        ("audit", table, *schema),
        ("schema", "check", tmp_path / "stays.toml"),
    ):
        refused = run(*words)
        assert refused.code == 3, (words, refused)
        assert 'unit = "person", person = "patient"' in " ".join(refused.err.split()), words
        assert not (tmp_path / "out").exists()


# --- what becomes of promises about one row ------------------------------------------------------


ROWS = (
    sc.Uniform(epsilon=1),
    sc.Subset(epsilon=1),
    sc.Aroma(k=2),
    sc.AlphaBeta(alpha=0.3, beta=0.2, duplicates="collapse"),
    sc.Anatomy(l=2, suppress=True),
    sc.Dirichlet("ward", epsilon=1, synthetic=20),
    sc.Dirichlet("ward", epsilon=1, synthetic=20, delta=1e-6),
)


@pytest.mark.parametrize("mechanism", ROWS, ids=lambda each: each.name)
def test_each_promise_about_a_row_says_what_it_becomes(mechanism: Any, tmp_path: Path) -> None:
    release = sc.publish(STAYS, PEOPLE, mechanism)
    release.save(tmp_path / "release")
    promises = sc.open(tmp_path / "release").guarantees
    assert [str(each) for each in promises] == [str(each) for each in release.guarantees]
    for promise in promises:
        assert "A person may have 3 rows here" in str(promise)
        if "epsilon" in promise.parameters and "probabilistic" not in promise.statement:
            epsilon = at_most(3 * Fraction(promise.parameters["epsilon"]))
            assert f"for all of them together, ε is at most {epsilon}" in str(promise)
    certificate = page(subjects.of_release(tmp_path / "release"))
    assert "A person may have 3 rows here" in certificate
    assert "Up to 3 rows of a person count; patient names the person." in certificate
    shown = " ".join(run("show", tmp_path / "release").out.split())
    assert "Protected: Up to 3 rows of a person count; patient names the person." in shown
    assert "A person may have 3 rows here" in shown
    told = run("show", tmp_path / "release", "--json").json
    assert all("A person may have 3 rows" in each["sentence"] for each in told["guarantees"])
    assert told["schema"]["most_rows"] == 3


def test_delta_of_several_rows_is_that_of_group_privacy() -> None:
    mechanism = sc.Dirichlet("ward", epsilon=1, synthetic=20, delta=1e-6)
    promise = sc.publish(STAYS, PEOPLE, mechanism).guarantees[1]
    assert promise.statement == "(ε, δ)-DP"
    delta = group_loss(PrivacyLoss(Fraction(1), delta=Fraction(1, 10**6)), 3).delta
    assert float(delta) == pytest.approx(1e-6 * (1 + np.e + np.e**2), rel=1e-6)
    assert "ε is at most 3 and δ at most 0.00001111." in str(promise)
    hopeless = sc.Dirichlet("ward", epsilon=5, synthetic=20, delta=1e-6)
    far = sc.publish(STAYS, UNSTATED.with_unit("patient", 9), hopeless).guarantees[1]
    assert "this is about one of them" in str(far)


def test_a_person_with_more_rows_than_stated_is_refused_by_an_urn() -> None:
    with pytest.raises(sc.SourceError, match="more than 2 rows"):
        sc.publish(STAYS, UNSTATED.with_unit("patient", 2), sc.Dirichlet("ward", epsilon=1))


def test_groups_of_rows_are_not_groups_of_people() -> None:
    people = sc.Schema.loads(
        TEXT + '\n[attributes.sex]\nrole = "quasi"\ntype = "category"\nvalues = ["f", "m"]'
    )
    table = STAYS.append_column("sex", pa.array(["f"] * 6 + ["m"] * 294))
    release = sc.publish(table, people.with_unit("patient", 3), sc.Generalise(k=7))
    assert "a group of 7 rows may be of 3 people only." in str(release.guarantees[0])
    single = subjects.of_table(table, people.with_unit(), k=6)
    assert not single.refuted
    several = subjects.of_table(table, people.with_unit("patient", 3), k=6)
    assert several.refuted
    assert "the group may be of 2 people only" in str(several)
    assert "A person may have 3 rows (most_rows)" in str(several)
    assert not subjects.of_table(table, people.with_unit("patient", 3), k=2).refuted


# --- methods that count --------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_every_method_that_counts_protects_all_rows_of_a_person(name: str) -> None:
    mechanism = CASES[name].make()
    if mechanism.limit[0] != "contribution":
        return
    mechanism = replace(mechanism, contribution=1, person=None)
    several = mechanism.for_unit(sc.Unit("patient", 5))
    assert several.unit == PrivacyUnit(mechanism.neighbours, 5, "patient")
    assert (several.parameters["person"], several.parameters["contribution"]) == ("patient", 5)
    with pytest.raises(sc.ParameterError, match="most_rows"):
        replace(mechanism, contribution=2).for_unit(sc.Unit("patient", 5))
    with pytest.raises(sc.ParameterError, match="names people by 'patient'"):
        replace(mechanism, person="household").for_unit(sc.Unit("patient", 5))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_person_with_ten_rows_counts_five_times(jobs: int) -> None:
    """The noise is that of five rows in place of five others: of scale 10 / ε."""
    release = sc.publish(TEN, FIVE, histogram(), options=sc.PublishOptions(jobs=jobs))
    heart = release.answer("SELECT COUNT(*) FROM t WHERE ward = 'heart'")
    assert heart.value == pytest.approx(5, abs=1.5)
    assert release.answer(COUNT).value == pytest.approx(95, abs=2)
    assert release.evidence.design.noise.scale == Fraction(10, 100)
    assert "counts at most 5 rows of each person; the others were left out" in heart.notes
    assert any("At most 5 rows of each person are counted" in each for each in release.remarks)


@pytest.mark.parametrize("most", [1, 2])
def test_no_table_moves_counts_by_more_than_the_noise_allows(most: int) -> None:
    """All tables of up to three rows of a person among one row of another: with and without the
    person the counts differ by at most `most` rows.
    """
    unit = PrivacyUnit("add_remove", most, "patient")

    def counts(wards: tuple[str, ...]) -> np.ndarray:
        rows = {"patient": ["b", *["a"] * len(wards)], "ward": ["eye", *wards]}
        engine = LocalEngine(Rows(pa.table(rows), FIVE), Keystream(1))
        [found] = engine.count([("ward",)], unit)
        return np.asarray(found)

    without = counts(())
    moved = [
        int(np.abs(counts(wards) - without).sum())
        for number in (1, 2, 3)
        for wards in product(["eye", "heart"], repeat=number)
    ]
    assert max(moved) == most


def test_a_ledger_charges_all_rows_of_a_person_once(tmp_path: Path) -> None:
    """The promise of a count is for all rows that count; that of an urn for each of them."""
    owner = sc.Ledger.create(tmp_path / "owner", neighbours="replace", contribution=3)
    sc.publish(STAYS, PEOPLE, histogram(), ledger=owner)
    assert owner.totals[None].epsilon == 100
    values = {"neighbours": "values", "sensitive": ["ward"]}
    one = sc.Ledger.create(tmp_path / "one", **values)
    with pytest.raises(sc.LedgerError, match="most_rows"):
        sc.publish(STAYS, PEOPLE, sc.Dirichlet("ward", epsilon=1), ledger=one)
    three = sc.Ledger.create(tmp_path / "three", **values, contribution=3)
    sc.publish(STAYS, PEOPLE, sc.Dirichlet("ward", epsilon=1), ledger=three)
    assert three.totals[None].epsilon == 3
    parts = sc.Ledger.create(tmp_path / "parts", neighbours="add_remove", parts="ward")
    counted = sc.Histogram(["ward"], epsilon=1, neighbours="add_remove")
    with pytest.raises(sc.LedgerError, match="rows in several parts"):
        sc.publish(sc.Table(STAYS, part="eye"), PEOPLE, counted, ledger=parts)
    assert parts.charges == []


# --- saved releases ------------------------------------------------------------------------------


def forged(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change a manifest, and write a checksum that fits."""
    data = json.loads((folder / MANIFEST).read_text("utf-8"))
    del data["checksum"]
    change(data)
    data["checksum"] = _digest_of_json(data)
    (folder / MANIFEST).write_text(json.dumps(data), "utf-8")
    return folder


@pytest.mark.parametrize("mechanism", [*ROWS, histogram()], ids=lambda each: each.name)
@pytest.mark.parametrize("most", [1, 2, 4])
def test_another_most_rows_is_refused(mechanism: Any, most: int, tmp_path: Path) -> None:
    folder = Path(sc.publish(STAYS, PEOPLE, mechanism).save(tmp_path / "release"))
    sc.open(forged(folder, lambda data: None))
    with pytest.raises(sc.ReleaseError, match="was changed"):
        sc.open(forged(folder, lambda data: data["schema"].update(most_rows=most)))


def test_a_person_of_counts_cannot_become_a_row(tmp_path: Path) -> None:
    def to_rows(data: dict[str, Any]) -> None:
        del data["schema"]["person"], data["schema"]["most_rows"]
        data["schema"]["unit"] = "row"

    for name, mechanism in (("counts", histogram()), ("rows", sc.Uniform(epsilon=1))):
        folder = Path(sc.publish(STAYS, PEOPLE, mechanism).save(tmp_path / name))
        with pytest.raises(sc.ReleaseError, match="was changed"):
            sc.open(forged(folder, to_rows))


def test_a_parameter_that_names_people_is_stated_in_the_release() -> None:
    for schema in (UNSTATED, UNSTATED.with_unit()):
        release = sc.publish(STAYS, schema, histogram(person="patient", contribution=2))
        assert release.schema.unit == sc.Unit("patient", 2)


def test_records_are_updated_by_the_person_of_the_unit() -> None:
    wrong = sc.Schema((*UNSTATED, sc.Attribute("stay", "identifier"))).with_unit("patient", 3)
    table = STAYS.append_column("stay", pa.array(range(300)))
    with pytest.raises(sc.ParameterError, match="Name the same column in both"):
        sc.publish(table, wrong, sc.Aroma(k=2, identifier="stay"))
