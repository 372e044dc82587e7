"""A hospital's table as its program exports it, from the file to answers, without touching it."""

import numpy as np
import pandas as pd
import pytest

import scumble as sc
from scumble.audit import subjects
from scumble.compare.truth import TrueTable
from scumble.model.errors import DomainError, SourceError
from tests.support.hospital import hospital_lines, write_hospital
from tests.support.terminal import child_command, on_terminal, run

NAMES = ["Aufnahme", "Kosten", "Diabetes", "Station Nr"]


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return write_hospital(tmp_path_factory.mktemp("hospital") / "stays.csv")


@pytest.fixture(scope="module")
def schema(people, tmp_path_factory):
    """The proposal, saved and loaded, with ten stays of a patient that count."""
    file = tmp_path_factory.mktemp("schema") / "stays.toml"
    done = run("schema", "infer", people, "--sensitive", "Diagnose", "-o", file)
    assert done.code == 0, done.err
    text = file.read_text().replace("most_rows = 1", "most_rows = 10")
    assert text.count("limits_needed = true") == 1
    limits = "limits = [0, 100000]\nedges = [1000, 2000, 5000, 10000, 20000]"
    file.write_text(text.replace("limits_needed = true", limits))
    return sc.Schema.load(file)


@pytest.fixture(scope="module")
def frame():
    """The same rows as text, read by hand."""
    header, *lines = hospital_lines()
    frame = pd.DataFrame([line.split(";") for line in lines], columns=header.split(";"))
    frame["cost"] = frame["Kosten"].str.replace(".", "").str.replace(",", ".").astype(float)
    frame["day"] = pd.to_datetime(frame["Aufnahme"], format="%d.%m.%Y")
    return frame


def test_the_proposal(people, schema):
    assert schema.unit == sc.Unit("PatientID", 10)
    assert [attribute.name for attribute in schema.identifiers] == ["PatientID", "Bemerkung"]
    assert schema["Aufnahme"].spelling == sc.Spelling(format="%d.%m.%Y")
    assert schema["Kosten"].spelling == schema["Temperatur"].spelling == sc.Spelling(decimal=",")
    assert schema["Diabetes"].domain == sc.Category(("nein", "ja"))
    assert schema["Geschlecht"].kind == schema["Station Nr"].kind == "category"
    assert schema["Alter"].kind == schema["Liegedauer"].kind == "integer"
    checks = run("schema", "infer", people, "--json").json["checks"]
    for name in ("PatientID", "Bemerkung"):
        assert any(each.startswith(f"'{name}' (identifier): ") for each in checks)


def test_a_release_answers(people, schema, frame, tmp_path):
    method = sc.Histogram(["Diabetes", "Aufnahme"], epsilon=5, neighbours="add_remove")
    sc.publish(people, schema, method).save(tmp_path / "release")
    release = sc.open(tmp_path / "release")
    assert release.schema["Aufnahme"].domain == schema["Aufnahme"].domain
    found = release.answer(
        "SELECT COUNT(*) FROM t WHERE Diabetes = 'ja' AND Aufnahme < '2023-01-01'"
    )
    low, high = found.interval(0.999)
    assert low <= ((frame["Diabetes"] == "ja") & (frame["day"] < "2023-01-01")).sum() <= high
    months = release.answer("SELECT Aufnahme, COUNT(*) FROM t GROUP BY Aufnahme").to_pandas()
    assert str(months.iloc[0, 0])[:10] == "2022-01-01"


def test_rows_are_published_in_the_usual_spelling(people, schema, tmp_path):
    rows = schema.with_unit().select([*NAMES, "Diagnose", "PatientID"])
    sc.publish(people, rows, sc.Uniform(epsilon=3)).save(tmp_path / "release")
    [view] = (tmp_path / "release").glob("*.parquet")
    shown = pd.read_parquet(view)
    assert str(shown["Aufnahme"].iloc[0])[:4] in ("2022", "2023")
    assert shown["Kosten"].dtype == "float64"
    assert set(shown["Diabetes"]) == {"ja", "nein"}


def test_everything_that_reads_the_table_reads_the_same(people, schema, frame, tmp_path):
    plain = schema.with_unit().select([*NAMES, "PatientID"])
    true = TrueTable.read(people, plain)
    month = ((frame["day"].dt.year - 2022) * 12 + frame["day"].dt.month - 1).to_numpy()
    assert np.array_equal(true.codes("Aufnahme"), month)
    edges = plain["Kosten"].domain.edges
    assert np.array_equal(np.histogram(frame["cost"], edges)[0], true.cube(["Kosten"]))
    in_memory = TrueTable.read(frame[[*NAMES]], plain.select(NAMES))
    assert np.array_equal(in_memory.codes("Kosten"), true.codes("Kosten"))
    with sc.Database.create(tmp_path / "db", people, plain, epsilon=9, noise=1) as db:
        assert db.append(write_hospital(tmp_path / "more.csv", seed=2)) == 2
        asked = "SELECT COUNT(*) FROM t WHERE Aufnahme >= '2023-01-01' AND Kosten < 5000"
        assert db.answer(asked).value > 100
    report = subjects.of_table(people, plain)
    assert report.findings


def test_a_value_that_is_spelled_otherwise_lies_outside(people, schema, tmp_path):
    lines = hospital_lines()
    lines[7] = lines[7].replace(".2023", "/2023").replace(".2022", "/2022")
    path = tmp_path / "spoilt.csv"
    path.write_text("\n".join(lines))
    method = sc.Histogram(["Aufnahme"], epsilon=1, neighbours="add_remove")
    with pytest.raises(DomainError, match="row 7") as caught:
        sc.publish(path, schema, method)
    assert lines[7].split(";")[1] not in str(caught.value)
    sc.publish(path, schema, method, options=sc.PublishOptions(outside="drop"))


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_other_encodings_are_refused_with_the_way_to_convert_them(tmp_path, encoding):
    path = write_hospital(tmp_path / "stays.csv", encoding=encoding)
    sc.Schema.infer(path)  # no letter beyond ASCII
    path.write_bytes(path.read_bytes().replace(b"Bemerkung", "Größe".encode(encoding)))
    with pytest.raises(SourceError, match="iconv -f windows-1252 -t utf-8 converts a Windows or"):
        sc.Schema.infer(path)


def test_headers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfErster Tag; Kosten ;\r\n" + b"01.02.2024;1,5;x\r\n" * 9)
    assert sc.Schema.infer(path).names == ("Erster Tag", "Kosten", "column3")
    path.write_text("Tag\tTag\n1\t2\n")
    with pytest.raises(SourceError, match="two columns of the same name, the columns 1 and 2"):
        sc.Schema.infer(path)


def test_a_question_on_the_terminal_settles_it(tmp_path):
    """Codes by default; what cannot be known is left out by default."""
    rows = "".join(f"{k % 9 + 1:02}/{k % 12 + 1:02}/2024;{k % 3}\n" for k in range(90))
    (tmp_path / "t.csv").write_text("day;ward\n" + rows)
    words = ["schema", "infer", "t.csv", "-o", "t.toml"]
    ended = on_terminal([*child_command(), *words], folder=tmp_path, typed="2\n\n")
    assert ended.code == 0, ended.text
    assert "dates with the month first: 12/31/2024" in ended.text
    assert "codes, each with a meaning" in ended.text
    schema = sc.Schema.load(tmp_path / "t.toml")
    assert schema["day"].spelling == sc.Spelling(format="%m/%d/%Y")
    assert schema["ward"].domain == sc.Category((0, 1, 2))
    assert "Taken for codes" not in (tmp_path / "t.toml").read_text()
    ended = on_terminal([*child_command(), *words, "--force"], folder=tmp_path, typed="-\n2\n")
    schema = sc.Schema.load(tmp_path / "t.toml")
    assert schema["day"].role == "identifier"
    assert schema["ward"].domain == sc.IntegerRange(0, 2)
