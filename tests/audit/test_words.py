"""What reports of audits say: one figure is rounded in one way, and lists say their order."""

import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from shutil import which

import numpy as np
import pyarrow as pa
import pytest
from markupsafe import escape

import scumble as sc
from scumble.audit.report import Finding, Report, describe_person, page
from scumble.audit.subjects import of_database, of_release, of_table
from scumble.model.privacy.guarantee import format_parameter

SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),
        sc.Attribute("job", "sensitive", sc.IntegerRange(0, 10)),
    )
)


def _table() -> pa.Table:
    rng = np.random.default_rng(8)
    return pa.table({"age": rng.integers(0, 10, 4000), "job": rng.integers(0, 11, 4000)})


def test_figures_are_rounded_as_in_sentences(subtests):
    for name, value, said in [
        ("rho1", 0.09999999999999999, "0.1"),
        ("rho2", 0.30000000000000004, "0.3"),
        ("rho2", 0.2319693167, "0.232"),
        ("p", 0.16826376, "0.169"),
        ("gamma", 2.718281828, "2.719"),
        ("gamma", 0.50000001, "0.501"),
        ("epsilon", 0.0, "0"),
        ("epsilon", 0.69314718, "0.6932"),
        ("l", 3, "3"),
    ]:
        with subtests.test(name=name, value=value, said=said):
            assert format_parameter(name, value) == said


def test_a_certificate_has_one_rounding_for_one_figure(tmp_path):
    release = sc.publish(_table(), SCHEMA, sc.Subset(epsilon=1), options=sc.PublishOptions(seed=1))
    report = of_release(release.save(tmp_path / "view", insecure=True), ["age"], 5)
    text = page(report)
    assert "gamma = 2.719" in text
    assert not re.search(r"2\.718|0\.0999|0\.1683|0\.23197", text)
    assert not re.search(r"\d%", str(report))
    assert "is 0.169: within the 0.169 promised" in text
    assert "is 0.232: within the 0.232 promised" in text


def test_people_come_by_the_growth_of_their_odds(tmp_path):
    release = sc.publish(_table(), SCHEMA, sc.Uniform(epsilon=2), options=sc.PublishOptions(seed=1))
    report = of_release(release.save(tmp_path / "view", insecure=True), ["age"], 10)
    said = str(report)
    assert (
        "learns most about these people.\nPeople for whom the odds of a value grow most come first"
        in said
    )
    growth = [float(each) for each in re.findall(r"odds × ([\d.]+)", said)]
    assert len(growth) == 10
    assert growth == sorted(growth, reverse=True)


def test_a_person_of_whom_all_is_known():
    person = {"age": None, "rows": 1, "value": 3, "prior": 0.25, "posterior": 1.0}
    assert describe_person(person) == "age = (missing) (1 row): 3 from 25 % to 100 %"


def test_the_summary_counts_as_people_do(subtests):
    for verdicts, said in [
        (["noted"], "No claim about x was tested."),
        (["stands", "noted"], "One claim about x was tested, and not refuted."),
        (["refuted"], "One claim about x was tested, and refuted (check)."),
        (["exact", "stands"], "None of 2 claims about x refuted."),
        (["exact", "refuted"], "1 of 2 claims about x refuted (check)."),
    ]:
        with subtests.test(verdicts=verdicts, said=said):
            assert (
                Report("x", [Finding("check", "claim", each, "") for each in verdicts]).summary
                == said
            )


def test_confidence_and_shares_are_percent():
    finding = Finding("check", "claim", "stands", "Tried.", confidence=0.9999)
    assert "check: claim (99.99 % confidence)" in str(Report("x", [finding]))
    table = pa.table({"age": [0, 1, 1, 2], "job": [3, 3, 3, 4]})
    said = str(of_table(table, SCHEMA))
    assert "50 % of the rows are alone in theirs" in said
    assert (
        "a group has one value of job (entropy l = 1); the most frequent one has a share of 100 %"
        in said
    )


def test_a_certificate_has_a_head_for_people_who_know_no_methods(tmp_path):
    release = sc.publish(_table(), SCHEMA.with_unit(), sc.Subset(epsilon=1))
    report = of_release(release.save(tmp_path / "clinic"))
    text = page(report, when=datetime(2026, 3, 4, 5, 6, tzinfo=UTC))
    assert "<h1>Privacy certificate: clinic</h1>" in text
    for name, value in (
        ("Table", "<td>clinic</td>"),
        ("Date", "<td>2026-03-04 05:06 UTC</td>"),
        ("Who is protected", "<td>Every row is another person.</td>"),
        ("Owner", '<td class="sign"></td>'),  # a line to fill in
        ("Signature", '<td class="sign"></td>'),
    ):
        assert f'<th scope="row">{name}</th>{value}' in text
    assert escape(release.guarantees[0].sentence) in text
    known = page(report, about=replace(report.about, owner="St. Anne's Hospital"))
    assert "<td>St. Anne&#39;s Hospital</td>" in known
    broken = replace(report, findings=[Finding("check", "a claim", "refuted", "It is broken.")])
    assert "<h1>Refuted: clinic</h1>" in page(broken)


@pytest.mark.skipif(which("chromium") is None, reason="chromium is not installed")
def test_a_certificate_prints_on_one_page(tmp_path, subtests):
    schema = SCHEMA.with_unit()
    made = {
        "subset": sc.publish(_table(), schema, sc.Subset(epsilon=1)),
        "marginals": sc.publish(
            _table(), schema, sc.Marginals(["age", "job"], epsilon=1, neighbours="replace", ways=2)
        ),
    }
    reports = {name: of_release(release.save(tmp_path / name)) for name, release in made.items()}
    base = tmp_path / "people"
    sc.Database.create(base, _table(), schema, epsilon=1, noise=20).close()
    reports["database"] = of_database(base)
    for name, report in reports.items():
        with subtests.test(name):
            file, printed = tmp_path / f"{name}.html", tmp_path / f"{name}.pdf"
            file.write_text(page(report), "utf-8")
            flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
            command = ["chromium", *flags, f"--print-to-pdf={printed}", str(file)]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
            assert len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) == 1
