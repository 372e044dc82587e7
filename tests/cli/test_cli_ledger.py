"""`scumble ledger`: what it shows, and how it ends when a release does not fit."""

import shutil
import sqlite3

import pytest

from scumble.families.histogram.publish import Histogram
from tests.support.terminal import run


def create(folder, *more):
    return run("ledger", "create", folder, "--neighbours", "replace", *more)


def publish(place, ledger, folder, method, *more):
    source = (place / "people.parquet", "-s", place / "people.toml", "--ledger", ledger)
    return run("publish", method, *source, "-o", folder, *more)


def counts(place, ledger, folder, epsilon):
    words = ("histogram", "-a", "sex", "--neighbours", "add_remove", "--epsilon", epsilon)
    return publish(place, ledger, folder, *words)


@pytest.fixture(scope="module")
def charged(place, tmp_path_factory):
    """A ledger with ε = 1 and one release of it that costs 0.4."""
    folder = tmp_path_factory.mktemp("charged")
    assert create(folder / "ledger", "--epsilon", "1", "--delta", "1e-9").code == 0
    done = counts(place, folder / "ledger", folder / "one", "0.2")
    assert done.code == 0, done.err
    assert "Note: The ledger was charged ε = 0.4, 2 times the promised loss" in done.err
    return folder / "ledger"


@pytest.fixture
def copy(charged, tmp_path):
    return shutil.copytree(charged, tmp_path / "copy")


def test_create_says_what_to_do(tmp_path):
    done = create(tmp_path / "ledger", "--epsilon", "1", "--contribution", "3")
    assert done.code == 0, done.err
    assert "Protected is what the rows of one person with up to 3 rows say" in done.out
    assert "at most ε = 1 for all releases" in done.out
    assert "scumble publish ... --ledger" in done.out
    assert create(tmp_path / "ledger").code == 6


def test_create_for_columns(tmp_path):
    words = ("--neighbours", "values", "--sensitive", "income, condition", "--json")
    done = run("ledger", "create", tmp_path / "ledger", *words)
    assert done.json["terms"]["sensitive"] == ["condition", "income"]
    assert done.json["releases"] == []


def test_show_adds_up(charged):
    done = run("ledger", "show", charged)
    assert done.code == 0, done.err
    assert "total     1 release costs ε = 0.4." in done.out
    assert "left      ε = 0.6, or ε = 0.4693 with δ = 1e-9" in done.out
    assert "ε = 0.2 (add_remove)   ε = 0.4   made" in done.out
    assert "2: 2 times the promised loss: a person who changes" in done.out


def test_show_says_why_sums_of_two_kinds_are_no_plain_sums(place, tmp_path):
    """With a limit: why total and rest are not all of it. Without one: how two kinds add up."""
    gaussian = ("hierarchy", "-a", "age", "--neighbours", "replace", "-e", "0.3",
                "--delta", "1e-9")  # fmt: skip
    limited = tmp_path / "limited"
    assert create(limited, "--epsilon", "1", "--delta", "1e-9").code == 0
    assert "why" not in run("ledger", "show", limited).out
    assert counts(place, limited, tmp_path / "one", "0.1").code == 0
    assert publish(place, limited, tmp_path / "two", *gaussian).code == 0
    shown = " ".join(run("ledger", "show", limited).out.split())
    assert "total 2 releases cost together ε = 0.5, δ = 1e-9." in shown
    assert "left ε = 0.27" in shown
    assert "need not add up to the limit" in shown
    free = tmp_path / "free"
    assert create(free).code == 0
    assert counts(place, free, tmp_path / "three", "0.1").code == 0
    assert publish(place, free, tmp_path / "four", *gaussian).code == 0
    assert "why" not in run("ledger", "show", free).out  # a ρ alone, until a δ is named
    shown = " ".join(run("ledger", "show", free, "--delta", "1e-9").out.split())
    assert "the better of two ways" in shown


def test_show_as_json(charged):
    found = run("ledger", "show", charged, "--json").json
    assert found["total"]["epsilon"] == 0.4
    assert found["total"]["left epsilon"] == 0.6
    [release] = found["releases"]
    assert release["loss"] == {"epsilon": "2/5"}
    assert release["state"] == "made"


def test_what_does_not_fit_ends_with_7(place, copy, tmp_path):
    before = run("ledger", "verify", copy).out
    done = counts(place, copy, tmp_path / "two", "0.4")
    assert done.code == 7
    assert "would cost ε = 0.8" in done.err
    assert "only ε = 0.6 is left" in done.err
    assert not (tmp_path / "two").exists()
    done = publish(place, copy, tmp_path / "two", "uniform", "--epsilon", "0.1")
    assert done.code == 7
    assert "nothing follows about replacing one person" in done.err
    assert run("ledger", "verify", copy).out == before


def test_what_was_returned_is_explained(place, copy, tmp_path):
    small = (place / "people.toml").read_text().replace("range = [18, 90]", "range = [18, 20]")
    (tmp_path / "small.toml").write_text(small)
    words = ("-a", "age", "--neighbours", "replace", "--epsilon", "0.1")
    source = (place / "people.parquet", "-s", tmp_path / "small.toml", "--ledger", copy)
    assert run("publish", "histogram", *source, "-o", tmp_path / "two", *words).code == 4
    shown = run("ledger", "show", copy).out
    assert "returned: the table could not be read" in shown
    assert "1 release costs ε = 0.4." in shown


def test_what_was_only_begun_is_explained(place, copy, tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(Histogram, "measure", fail)
    assert counts(place, copy, tmp_path / "two", "0.1").code == 1
    shown = run("ledger", "show", copy).out
    assert "begun: charged, and no release is known" in shown
    assert "2 releases cost together ε = 0.6." in shown


def test_verify_finds_what_was_changed(charged, copy):
    whole = run("ledger", "verify", charged)
    assert whole.code == 0
    assert whole.out.startswith("3 ")
    assert "3 entries" in whole.err
    assert run("ledger", "verify", charged, "--seal", whole.out).code == 0
    with sqlite3.connect(copy / "ledger.sqlite") as connection:
        connection.execute("UPDATE entries SET payload = replace(payload, '2/5', '1/5')")
    connection.close()
    done = run("ledger", "verify", copy)
    assert done.code == 8
    assert "Entry 2 was changed" in done.out
    assert run("ledger", "verify", copy, "--json").json["whole"] is False


def test_no_ledger_ends_with_8(place, tmp_path):
    assert run("ledger", "show", tmp_path / "nothing").code == 8
    assert run("ledger", "show", place / "view").code == 8
    assert counts(place, tmp_path / "nothing", tmp_path / "two", "0.1").code == 8


def test_wrong_terms_end_with_2(tmp_path):
    assert create(tmp_path / "ledger", "--epsilon", "-1").code == 2
    assert run("ledger", "create", tmp_path / "ledger", "--neighbours", "values").code == 2
    assert not (tmp_path / "ledger").exists()


def test_a_database_says_what_it_was_charged(place, copy, tmp_path):
    words = ("--schema", place / "people.toml", "--epsilon", "0.5", "--noise", "100")
    source = (place / "people.parquet", *words, "--ledger", copy)
    done = run("db", "create", tmp_path / "db", *source)
    assert done.code == 0, done.err
    assert "Note: The ledger was charged ε = 0.5." in done.err
