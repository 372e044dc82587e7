"""The privacy unit: stated in the schema, asked for, and protected."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import scumble as sc
from scumble.model.privacy.guarantee import gamma_for_epsilon, posterior_at_most
from tests.support.terminal import run

STAYS = pa.table(
    {"patient": [f"p{row // 3}" for row in range(300)], "ward": ["eye", "heart", "eye"] * 100}
)
TEXT = (
    '[attributes.patient]\nrole = "identifier"\n[attributes.ward]\nrole = "sensitive"\n'
    'type = "category"\nvalues = ["eye", "heart"]'
)
UNSTATED = sc.Schema.loads(TEXT)
PEOPLE = UNSTATED.with_unit("patient", 3)
COUNT = "SELECT COUNT(*) FROM t"


def histogram(**more) -> sc.Histogram:
    # P(some noise of two cells is not 0) < 2 · 2 / (e^(100 / 6) + 1) < 1e-6
    return sc.Histogram(["ward"], epsilon=100, neighbours="replace", **more)


@pytest.mark.parametrize("unit", [sc.Unit(), sc.Unit("patient", 5)])
def test_a_unit_is_written_and_read(unit, tmp_path: Path) -> None:
    schema = sc.Schema(UNSTATED.attributes, unit)
    schema.save(tmp_path / "schema.toml")
    assert sc.Schema.load(tmp_path / "schema.toml") == schema
    assert sc.Schema.from_dict(schema.to_dict()) == schema
    assert schema.declare_public().with_roles(quasi=["ward"]).unit == unit
    assert "unit" not in UNSTATED.to_dict()


@pytest.mark.parametrize(
    ("top", "said"),
    [
        ('unit = "household"', "household"),
        ('person = "patient"\nmost_rows = 2', "what one row stands for"),
        ('unit = "person"\nperson = "patient"', "needs most_rows"),
        ('unit = "row"\nmost_rows = 2', "leave 'person'"),
        ('unit = "person"\nperson = "patient"\nmost_rows = 0', "most_rows"),
        ('unit = "person"\nperson = "patient"\nmost_rows = 1.5', "most_rows"),
        ('unit = "person"\nperson = "ward"\nmost_rows = 2', "role identifier"),
        ('unit = "person"\nperson = "nobody"\nmost_rows = 2', "no attribute 'nobody'"),
        ('unit = "person"\nperson = 3\nmost_rows = 2', "name a column"),
    ],
)
def test_wrong_units_are_refused(top: str, said: str) -> None:
    with pytest.raises(sc.SchemaError, match=said):
        sc.Schema.loads(f"{top}\n{TEXT}")


def test_nobody_publishes_an_identifier_without_a_unit(tmp_path: Path) -> None:
    for mechanism in (histogram(), sc.Uniform(epsilon=1), sc.Aroma(k=2)):
        with pytest.raises(sc.SchemaError, match="what one row stands for"):
            sc.publish(STAYS, UNSTATED, mechanism)
    with pytest.raises(sc.SchemaError, match="what one row stands for"):
        sc.Database.create(tmp_path / "db", STAYS, UNSTATED, epsilon=1, noise=40)
    assert not (tmp_path / "db").exists()
    sc.publish(STAYS, UNSTATED, histogram(person="patient"))  # the method names the people
    sc.publish(STAYS.drop(["patient"]), UNSTATED.select(["ward"]), histogram())


def test_counts_protect_all_rows_of_a_person() -> None:
    """The noise is that of three rows, and rows beyond most_rows are left out."""
    release = sc.publish(STAYS, PEOPLE, histogram())
    assert release.manifest.parameters["person"] == "patient"
    assert release.manifest.parameters["contribution"] == 3
    [promise] = release.guarantees
    assert promise.parameters["contribution"] == 3
    assert release.answer(COUNT).value == pytest.approx(300, abs=60)
    by_hand = sc.publish(STAYS, PEOPLE, histogram(person="patient", contribution=3))
    assert by_hand.manifest.parameters == release.manifest.parameters
    first = sc.publish(STAYS, UNSTATED.with_unit("patient", 1), histogram())
    assert first.answer(COUNT).value == pytest.approx(100, abs=1e-6)
    assert any("at most 1 row" in note for note in first.answer(COUNT).notes)


def test_rows_say_what_the_promise_becomes() -> None:
    """Three rows at ε = 1: the odds change by e^3 at most, and a belief of a tenth ends at the
    posterior of that factor.
    """
    release = sc.publish(STAYS, PEOPLE, sc.Uniform(epsilon=1))
    local, posterior, guess = release.guarantees
    assert "A person may have 3 rows here: for all of them together, ε is at most 3." in str(local)
    end = posterior_at_most(Fraction(1, 10), gamma_for_epsilon(Fraction(3)))
    assert f"at most {100 * float(end):.1f} %" in str(posterior).rpartition("together")[2]
    assert "this is about one of them" in str(guess)
    single = sc.publish(STAYS, UNSTATED.with_unit(), sc.Uniform(epsilon=1))
    assert not any("A person may have" in str(promise) for promise in single.guarantees)


def test_a_saved_release_keeps_its_unit(tmp_path: Path) -> None:
    for name, mechanism in (("rows", sc.Uniform(epsilon=1)), ("counts", histogram())):
        release = sc.publish(STAYS, PEOPLE, mechanism)
        release.save(tmp_path / name)
        opened = sc.open(tmp_path / name)
        assert opened.schema.unit == PEOPLE.unit
        assert list(map(str, opened.guarantees)) == list(map(str, release.guarantees))


@pytest.mark.parametrize("jobs", [1, 2])
def test_more_rows_than_stated_are_refused_by_publishers_of_rows(jobs: int) -> None:
    with pytest.raises(sc.SourceError, match="more than 2 rows") as refused:
        sc.publish(
            STAYS,
            UNSTATED.with_unit("patient", 2),
            sc.Uniform(epsilon=1),
            options=sc.PublishOptions(jobs=jobs),
        )
    assert "p0" not in str(refused.value)
    gap = STAYS.set_column(0, "patient", pa.array([None, *STAYS["patient"].to_pylist()[1:]]))
    with pytest.raises(sc.SourceError, match="no identifier"):
        sc.publish(gap, PEOPLE, sc.Uniform(epsilon=1), options=sc.PublishOptions(jobs=jobs))


def test_numbers_of_rows_that_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(sc.ParameterError, match="most_rows"):
        sc.publish(STAYS, PEOPLE, histogram(contribution=2))
    with pytest.raises(sc.SchemaError, match="live database"):
        sc.Database.create(tmp_path / "db", STAYS, PEOPLE, epsilon=1, noise=40)
    ledger = sc.Ledger.create(tmp_path / "one", neighbours="values", sensitive=["ward"])
    with pytest.raises(sc.LedgerError, match="most_rows"):
        sc.publish(STAYS, PEOPLE, sc.Uniform(epsilon=1), ledger=ledger)
    assert ledger.charges == []
    fits = sc.Ledger.create(
        tmp_path / "three", neighbours="values", sensitive=["ward"], contribution=3
    )
    sc.publish(STAYS, PEOPLE, sc.Uniform(epsilon=1), ledger=fits)
    assert fits.totals[None].epsilon == pytest.approx(3)


def test_repeated_identifiers_are_proposed_as_people() -> None:
    named = sc.Schema.infer(STAYS, sensitive="ward", identifier="patient")
    assert named.unit == sc.Unit("patient", 1)
    assert "occurs in several rows" in named.checks()[0]
    single = sc.Schema.infer(STAYS.slice(0, 300).filter(pa.array([True, False, False] * 100)))
    assert single.unit == sc.Unit()
    many = pa.table({"PatientID": [f"p{row % 1500:04}" for row in range(3000)], "age": [5] * 3000})
    assert sc.Schema.infer(many).unit == sc.Unit("PatientID", 1)
    few = pa.table({"PatientID": [f"p{row % 200:04}" for row in range(900)], "age": [5] * 900})
    proposed = sc.Schema.infer(few)
    assert proposed["PatientID"].role == "identifier"  # 200 values could be listed, and published
    assert proposed.unit == sc.Unit("PatientID", 1)
    assert sc.Schema.infer(few, types={"PatientID": "category"})["PatientID"].role == "quasi"
    for name in ("region", "client_age", "userland"):
        other = sc.Schema.infer(few.rename_columns([name, "age"]))
        assert (other[name].role, other.unit) == ("quasi", sc.Unit())
    comments = pa.table({"note": [f"text {row % 1200}" for row in range(2400)]})
    assert "'note' has the same value in several rows" in sc.Schema.infer(comments).checks()[0]
    strange = pa.table({"who": [[1], [1]], "ward": ["eye", "heart"]})
    assert sc.Schema.infer(strange, identifier="who").unit == sc.Unit()


def test_the_shell_asks_for_the_unit(tmp_path: Path) -> None:
    csv.write_csv(STAYS, tmp_path / "stays.csv")
    UNSTATED.save(tmp_path / "unstated.toml")
    PEOPLE.save(tmp_path / "people.toml")
    words = ("publish", "uniform", tmp_path / "stays.csv", "-e", "1", "-o", tmp_path / "out")
    refused = run(*words, "--schema", tmp_path / "unstated.toml")
    assert refused.code == 3
    assert "what one row stands for" in refused.err
    assert not (tmp_path / "out").exists()
    made = run(*words, "--schema", tmp_path / "people.toml")
    assert made.code == 0
    assert "A person may have 3 rows here" in " ".join(made.out.split())
    settings = ("--methods", "uniform", "-e", "1", "--repeats", "1", "-o", tmp_path / "c.html")
    compared = run("compare", tmp_path / "stays.csv", "-s", tmp_path / "people.toml", *settings)
    assert compared.code == 0
    assert "A person may have 3 rows" in " ".join(compared.err.split())
    inferred = run("schema", "infer", tmp_path / "stays.csv", "--identifier", "patient")
    assert 'unit = "person"' in inferred.out


def test_respondents_with_several_rows_are_people():
    """The word of surveys for a person, in whole numbers and without `id` in its name."""
    numbers = [row // 2 for row in range(400)]
    table = pa.table({"respondent": numbers, "smokes": ["yes", "no", "no", "no"] * 100})
    proposed = sc.Schema.infer(table)
    assert proposed["respondent"].role == "identifier"
    assert proposed.unit is not None
    assert proposed.unit.person == "respondent"


def test_people_with_very_many_rows_are_people():
    """A log holds hundreds of rows of a customer; few values with many rows are something else."""
    rows = np.arange(120_000)
    table = pa.table({"customer_id": 7 * (rows % 1200), "household": rows % 40, "nr": rows % 30})
    proposed = sc.Schema.infer(table)
    assert [each.name for each in proposed.identifiers] == ["customer_id"]
    assert proposed.unit is not None
    assert proposed.unit.person == "customer_id"


ROW_EACH = UNSTATED.with_unit()
UNIQUE = pa.table({"patient": [f"p{row}" for row in range(300)], "ward": STAYS["ward"]})


def test_repeats_where_every_row_is_a_person_are_told_to_the_owner_alone(tmp_path: Path) -> None:
    """Neither the release nor what is saved of it differs from that of people with one row."""
    released = {}
    for name, table in (("repeats", STAYS), ("differs", UNIQUE)):
        release = sc.publish(table, ROW_EACH, histogram(), options=sc.PublishOptions(seed=1))
        released[name] = release
        release.save(tmp_path / name, insecure=True)
    [remark] = [each for each in released["repeats"].remarks if "several rows" in each]
    assert remark.startswith("'patient' has the same value in several rows, and the schema says")
    assert not any("several rows" in each for each in released["differs"].remarks)
    for file in (each for each in (tmp_path / "repeats").rglob("*") if each.is_file()):
        assert b"several rows" not in file.read_bytes()
    assert released["repeats"].manifest.report == released["differs"].manifest.report
    assert released["repeats"].manifest.guarantees == released["differs"].manifest.guarantees


@pytest.mark.parametrize(
    ("schema", "more"),
    [(PEOPLE, {}), (UNSTATED, {"person": "patient", "contribution": 3})],
)
def test_no_remark_where_people_are_named(schema: sc.Schema, more: dict[str, object]) -> None:
    release = sc.publish(STAYS, schema, histogram(**more))
    assert not any("several rows" in each for each in release.remarks)


def test_missing_identifiers_and_streams_are_no_repeats() -> None:
    nobody = pa.table({"patient": [None, None, "p1"] * 1, "ward": ["eye", "eye", "heart"]})
    assert not any("several" in each for each in sc.publish(nobody, ROW_EACH, histogram()).remarks)
    stream = STAYS.to_reader()
    assert not any("several" in each for each in sc.publish(stream, ROW_EACH, histogram()).remarks)


def test_a_database_tells_its_owner_of_repeats(tmp_path: Path) -> None:
    for name, table, told in (("repeats", STAYS, 1), ("differs", UNIQUE, 0)):
        with sc.Database.create(
            tmp_path / name, table, ROW_EACH, epsilon=1, noise=10, attributes=["ward"]
        ) as database:
            assert len(database.remarks) == told
        with sc.Database.open(tmp_path / name, table) as database:
            assert database.remarks == ()


def test_the_shell_warns_of_repeats(tmp_path: Path) -> None:
    csv.write_csv(STAYS, tmp_path / "stays.csv")
    ROW_EACH.save(tmp_path / "stays.toml")
    given = (tmp_path / "stays.csv", "-s", tmp_path / "stays.toml", "-e", "1")
    for words in (
        ("publish", "histogram", *given, "-a", "ward", "--neighbours", "replace"),
        ("db", "create", tmp_path / "db", *given, "--noise", "10"),
    ):
        output = () if words[0] == "db" else ("-o", tmp_path / "out")
        done = run(*words, *output)
        assert done.code == 0, done.err
        assert "WARNING: 'patient' has the same value in several rows" in done.err
        assert "several rows" not in done.out
