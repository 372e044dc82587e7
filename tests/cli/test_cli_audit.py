"""scumble audit on the command line: verdicts, exit codes, the certificate, and bad input."""

import pytest

import scumble as sc
from scumble.demo.census import census
from tests.support.terminal import run

REFUTED = 7


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table, its schema, and releases of it."""
    import pyarrow.csv

    folder = tmp_path_factory.mktemp("audit")
    people, schema = census(1500)
    pyarrow.csv.write_csv(people, folder / "people.csv")
    schema.save(folder / "people.toml")
    sc.publish(people, schema, sc.Uniform(epsilon=1)).save(folder / "view")
    counted = sc.Histogram(["age", "sex"], epsilon=1, neighbours="replace")
    sc.publish(people, schema, counted).save(folder / "counts")
    sc.publish(people, schema, sc.Aroma(k=5), options=sc.PublishOptions(seed=1)).save(
        folder / "seeded", insecure=True
    )
    return folder


@pytest.mark.parametrize("name", ["view", "counts"])
def test_a_release_stands(place, name):
    done = run("audit", str(place / name))
    assert done.code == 0, done.out
    assert "refuted" in done.out.splitlines()[0]
    assert done.out.startswith(("None of", "One claim about"))
    assert "An audit can refute, never prove" in done.out


def test_a_seeded_release_is_refuted(place):
    done = run("audit", str(place / "seeded"), "--json")
    assert done.code == REFUTED
    told = done.json
    assert [each["check"] for each in told["findings"] if each["verdict"] == "refuted"] == [
        "randomness"
    ]


def test_the_certificate_is_one_page_of_its_own(place, tmp_path):
    page = tmp_path / "view.html"
    done = run("audit", str(place / "view"), "--known", "age,sex", "-o", str(page))
    assert done.code == 0, done.out
    text = page.read_text("utf-8")
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    assert "What an attacker learns who knows age, sex" in text
    assert "sha256" in text
    assert "<script" not in text
    assert page.stat().st_mode & 0o777 == 0o600  # it may state exact figures of a private table
    again = run("audit", str(place / "view"), "-o", str(page))
    assert again.code == 6
    assert "--force" in again.err


def test_a_table_is_looked_at_before_it_is_published(place):
    table, schema = str(place / "people.csv"), str(place / "people.toml")
    assert run("audit", table, "-s", schema).code == 0
    done = run("audit", table, "-s", schema, "--k", "2")
    assert done.code == REFUTED
    assert "k-anonymity with k = 2" in done.out
    assert "for its owner" in done.out


def test_a_claim_about_a_method_is_refuted_with_the_exact_figure():
    done = run(
        "audit", "--method", "aroma", "-p", "k=49", "--values", "15",
        "--claim-epsilon", "0.5", "--runs", "2000",
    )  # fmt: skip
    assert done.code == REFUTED
    assert "0.1374 (exactly)" in done.out
    as_published = run("audit", "--method", "uniform", "--epsilon", "1", "--runs", "2000")
    assert as_published.code == 0, as_published.err
    assert "uniform keeps ε = 1" in as_published.out
    kept = run("audit", "--method", "uniform", "-p", "epsilon=1", "--runs", "2000")
    assert kept.code == 0


def test_a_database_is_attacked(tmp_path):
    people, schema = census(300)
    sc.Database.create(tmp_path / "db", people, schema, epsilon=1, noise=4).close()
    done = run("audit", str(tmp_path / "db"), "--json")
    told = done.json
    assert done.code == 0, told["summary"]
    assert {each["check"] for each in told["findings"]} >= {"ledger", "differencing"}


BAD_INPUT = [
    ((), 2, "Name one thing to audit"),
    (("here", "--all"), 2, "Name one thing to audit"),
    (("missing.csv",), 6, "There is no folder or table missing.csv"),
    (("--method", "aroma", "-p", "k=5"), 2, "--claim-epsilon"),
    (("--method", "aroma", "--k", "5", "--claim-epsilon", "1"), 2, "--parameter k=49"),
    (("--method", "nothing", "--claim-epsilon", "1"), 2, "one of uniform"),
    (("--method", "uniform", "-p", "epsilon"), 2, "name=value"),
    (
        (
            "--method",
            "histogram",
            "-p",
            "epsilon=1",
            "-p",
            "attributes=a",
            "-p",
            "neighbours=replace",
        ),
        2,
        "publishes counts",
    ),
    ((".",), 6, "not a release"),
]


def test_bad_input_is_one_sentence(tmp_path, monkeypatch, subtests):
    for given, code, words in BAD_INPUT:
        with subtests.test(given=given):
            monkeypatch.chdir(tmp_path)
            done = run("audit", *given)
            assert (done.code, words in done.err) == (code, True), done.err
